//! `quota`: a budget of bytes for each account, counted in one place of the tables and asked for in another.
//!
//! A group of two services that share what they know. `NAME` adds a packet's bytes to the account that is its argument, wherever the
//! tables call it: behind an address translation, say, or only for what leaves by one port. `NAME.left` counts nothing and
//! writes to `sf_metadata` whether the account has something left: 1, or 0, so that tables drop, or mark, a packet before work is spent on it.
//!
//! A second argument is a price in per cent: `softflow:quota:7:50` counts half of each packet's bytes, rounded up. `NAME.left` ignores it.
//!
//! A budget is for a period of the switch's clock; with the next period it is whole again. Accounts beyond the last are one together.
//!
//! Shared: a word an account and worker, which that worker alone writes and all read: an account's use is their sum. Two workers may
//! both let a packet pass that was the last to fit, so a budget can be exceeded by what is in their bursts. Cost: a load and a store to
//! count; as many loads as there are workers to ask. Command: `dump` has what accounts used in this period.

use crate::{Burst, ConfigError, Group, GroupConfig, Member, Registration, Service, schema};
use serde_json::{Value, json};
use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use weir_openflow::Argument;
use weir_units::Nanos;

/// The most accounts that may be asked for.
const MOST_ACCOUNTS: u32 = 1 << 20;
/// The longest period, in seconds.
const LONGEST: u32 = 86_400;
/// Bits of a word that have the bytes; those above have the period's number.
const BYTES: u32 = 44;

/// The kind.
pub(crate) const QUOTA: Registration = Registration {
    kind: "quota",
    about: "counts bytes against a budget by argument; .left says whether some of it is left",
    rewrites: &[],
    coalesces: true,
    by_flow: false,
    members: &[Member { name: "left", coalesces: true }],
    arguments,
    schema: schema::<Settings>,
    build,
};

/// What can be set.
#[derive(Clone, Copy, Debug, serde::Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Settings {
    /// Accounts, by argument from 0, 1 to 1048576. Further arguments have one account together.
    #[schemars(range(min = 1, max = MOST_ACCOUNTS))]
    accounts: u32,
    /// Bytes, without FCS, that an account may use in a period; 1 to 2^44 - 1.
    bytes: u64,
    /// Seconds of a period, 1 to 86400.
    #[schemars(range(min = 1, max = LONGEST))]
    seconds: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self { accounts: 1024, bytes: 1_000_000_000, seconds: 60 }
    }
}

fn build(config: &GroupConfig<'_>) -> Result<Arc<dyn Group>, ConfigError> {
    let settings: Settings = config.settings()?;
    let Settings { accounts, bytes, seconds } = settings;
    if !(1..=MOST_ACCOUNTS).contains(&accounts) {
        return Err(config.error(format!("`accounts` must be 1 to {MOST_ACCOUNTS}, not {accounts}")));
    }
    if !(1..1 << BYTES).contains(&bytes) {
        return Err(config.error(format!("`bytes` must be 1 to {}, not {bytes}", (1_u64 << BYTES) - 1)));
    }
    if !(1..=LONGEST).contains(&seconds) {
        return Err(config.error(format!("`seconds` must be 1 to {LONGEST}, not {seconds}")));
    }
    Ok(Arc::new(Quota(Arc::new(Accounts::new(settings, config.workers)))))
}

/// The dearest price, in per cent.
const DEAREST: u32 = 10_000;

/// An account, and a price.
fn arguments(arguments: &[Argument]) -> Result<(), String> {
    match arguments {
        [Argument::Number(_)] | [Argument::Number(_), Argument::Number(0..=DEAREST)] => Ok(()),
        _ => Err(format!("a quota takes an account, and a price of 0 to {DEAREST} per cent")),
    }
}

/// What a packet of so many bytes costs.
fn price(bytes: usize, arguments: &[Argument]) -> u64 {
    match arguments {
        [_, Argument::Number(per_cent)] => (bytes as u64 * u64::from(*per_cent)).div_ceil(100),
        _ => bytes as u64,
    }
}

/// What both services know.
struct Accounts {
    settings: Settings,
    /// By worker, then by account; the last account is that of all others.
    used: Vec<Box<[AtomicU64]>>,
    /// The period, as far as a packet has told.
    period: AtomicU64,
}

impl Accounts {
    fn new(settings: Settings, workers: usize) -> Self {
        let of_worker = || (0..=settings.accounts).map(|_| AtomicU64::new(0)).collect();
        Self { settings, used: (0..workers.max(1)).map(|_| of_worker()).collect(), period: AtomicU64::new(0) }
    }

    /// The number of a period, in the bits that a word has for it; 0 is none.
    fn period(&self, now: Nanos) -> u64 {
        let number = now.0 / (u64::from(self.settings.seconds) * Nanos::PER_SECOND) + 1;
        number & (u64::MAX >> BYTES)
    }

    fn account(&self, argument: u32) -> usize {
        argument.min(self.settings.accounts) as usize
    }

    /// Bytes that an account has used in a period.
    fn used(&self, account: usize, period: u64) -> u64 {
        let words = self.used.iter().map(|of_worker| of_worker[account].load(Ordering::Relaxed));
        words.map(|word| if word >> BYTES == period { word & MOST_BYTES } else { 0 }).sum()
    }
}

/// A word's bytes, at most.
const MOST_BYTES: u64 = (1 << BYTES) - 1;

struct Quota(Arc<Accounts>);

impl Group for Quota {
    fn instance(&self, worker: usize) -> Box<dyn Service> {
        Box::new(Counts { accounts: Arc::clone(&self.0), worker: worker % self.0.used.len(), counted: 0 })
    }

    fn member(&self, _which: usize, _worker: usize) -> Box<dyn Service> {
        Box::new(Asks { accounts: Arc::clone(&self.0), refused: 0 })
    }

    fn command(&self, command: &str, _argument: &Value) -> Option<Result<Value, String>> {
        if command != "dump" {
            return Some(Err(format!("a quota has no command `{command}`; it knows `dump`")));
        }
        let period = self.0.period.load(Ordering::Relaxed);
        let used =
            (0..=self.0.settings.accounts as usize).map(|account| (account, self.0.used(account, period)));
        let accounts: Vec<Value> = used
            .filter(|(_, bytes)| *bytes > 0)
            .map(|(account, bytes)| json!({"account": account, "bytes": bytes}))
            .collect();
        Some(Ok(json!({"budget": self.0.settings.bytes, "accounts": accounts})))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Counts on one worker.
struct Counts {
    accounts: Arc<Accounts>,
    worker: usize,
    counted: u64,
}

impl Service for Counts {
    fn process(&mut self, burst: &mut Burst<'_, '_>) {
        let period = self.accounts.period(burst.now);
        self.accounts.period.store(period, Ordering::Relaxed);
        let own = &self.accounts.used[self.worker];
        for slot in burst.rest() {
            let word = &own[self.accounts.account(slot.argument)];
            let bytes = price(slot.frame.len(), slot.arguments);
            // Only this worker writes it.
            let before = word.load(Ordering::Relaxed);
            let used = if before >> BYTES == period { before & MOST_BYTES } else { 0 };
            word.store(period << BYTES | used.saturating_add(bytes).min(MOST_BYTES), Ordering::Relaxed);
            self.counted += bytes;
            slot.coalesce = true;
        }
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![("bytes", self.counted)]
    }

    fn memory(&self) -> usize {
        size_of_val(&*self.accounts.used[self.worker])
    }
}

/// Says on one worker what is left.
struct Asks {
    accounts: Arc<Accounts>,
    refused: u64,
}

impl Service for Asks {
    fn process(&mut self, burst: &mut Burst<'_, '_>) {
        let period = self.accounts.period(burst.now);
        for slot in burst.rest() {
            let used = self.accounts.used(self.accounts.account(slot.argument), period);
            let is_left = used < self.accounts.settings.bytes;
            slot.metadata = u32::from(is_left);
            // As mostly: another answer has the packet classified again.
            slot.coalesce = is_left;
            self.refused += u64::from(!is_left);
        }
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![("refused", self.refused)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Slot, Verdict};
    use weir_flow::{Key, Layout};

    /// What a service makes of a packet of so many bytes with this argument.
    fn judge(service: &mut dyn Service, argument: u32, bytes: usize, seconds: u64) -> (u32, bool) {
        let (mut frame, mut key) = (vec![0; bytes], Key::new());
        let (memo, verdict) = (crate::Memo::BLANK, Verdict::Pass);
        let mut slots = [Slot {
            frame: &mut frame,
            layout: Layout::default(),
            key: &mut key,
            argument,
            arguments: &[],
            tracking: None,
            metadata: 9,
            memo,
            coalesce: false,
            verdict,
            splice: None,
        }];
        service.process(&mut Burst::new(&mut slots, Nanos(seconds * Nanos::PER_SECOND)));
        (slots[0].metadata, slots[0].coalesce)
    }

    fn group(settings: Value, workers: usize) -> Result<Arc<dyn Group>, ConfigError> {
        QUOTA.group(&GroupConfig { name: "q", settings: &settings, workers, seed: 1 })
    }

    #[test]
    fn what_one_service_counts_on_any_worker_the_other_knows_until_the_next_period() {
        let group = group(json!({"bytes": 300, "seconds": 10, "accounts": 4}), 2).unwrap();
        let [mut one, mut other] = [0, 1].map(|worker| group.instance(worker));
        let mut left = group.member(0, 1);
        assert_eq!(judge(left.as_mut(), 3, 60, 1), (1, true));
        assert_eq!(judge(one.as_mut(), 3, 200, 1), (9, true), "who counts leaves the register alone");
        assert_eq!(judge(left.as_mut(), 3, 60, 1), (1, true));
        judge(other.as_mut(), 3, 100, 2);
        assert_eq!(judge(left.as_mut(), 3, 60, 3), (0, false));
        assert_eq!(judge(left.as_mut(), 2, 60, 3), (1, true), "another account");
        let dump = group.command("dump", &Value::Null).unwrap().unwrap();
        assert_eq!(dump, json!({"budget": 300, "accounts": [{"account": 3, "bytes": 300}]}));
        assert_eq!(judge(left.as_mut(), 3, 60, 10), (1, true), "a new period");
        judge(one.as_mut(), 9, 300, 10);
        assert_eq!(judge(left.as_mut(), 77, 60, 11), (0, false), "accounts beyond the last are one");
        assert!(group.command("clear", &Value::Null).unwrap().unwrap_err().contains("`dump`"));
    }

    #[test]
    fn a_price_makes_bytes_cheaper_or_dearer_and_only_numbers_are_prices() {
        let of = |arguments: &[Argument]| price(61, arguments);
        let [account, half, double] = [7, 50, 200].map(Argument::Number);
        assert_eq!(
            [of(&[]), of(&[account.clone(), half.clone()]), of(&[account.clone(), double])],
            [61, 31, 122]
        );
        assert!(arguments(&[account.clone(), half.clone()]).is_ok());
        for wrong in [
            vec![],
            vec![account.clone(), Argument::Text("x".into())],
            vec![account.clone(), half.clone(), half],
        ] {
            assert!(arguments(&wrong).unwrap_err().contains("0 to 10000 per cent"));
        }
        assert!(arguments(&[account, Argument::Number(10_001)]).is_err());
    }

    #[test]
    fn settings_out_of_range_are_named() {
        for (settings, named) in [
            (json!({"accounts": 0}), "`accounts` must be 1 to 1048576"),
            (json!({"bytes": 0}), "`bytes` must be 1 to 17592186044415"),
            (json!({"seconds": 86_401}), "`seconds` must be 1 to 86400"),
        ] {
            let refused = group(settings, 1).err().unwrap().to_string();
            assert!(refused.contains(named), "{refused}");
        }
    }
}
