//! Open vSwitch's knobs: what stands behind `:` in the device's name, joined by `+`.
//!
//! | knob | means | `other_config` (ovs-vswitchd.conf.db(5)) |
//! |---|---|---|
//! | `smc` | signature-match cache on; it is off by default | `smc-enable` |
//! | `emc=N` | a flow enters the exact-match cache once in N misses (100 by default); 0: never | `emc-insert-inv-prob` |
//! | `idle=N` | a flow that no packet met for N ms goes (10,000 by default) | `max-idle` |
//! | `limit=N` | flows that the datapath may hold (200,000 by default) | `flow-limit` |
//! | `flush=N` | packets wait for so many µs for others to be sent with (0 by default) | `tx-flush-interval` |
//! | `tuned` | found by a search over all of these while it forwards the point's own packets; `fed` only | |
//! | `tuned=KNOB` | the same over one of them, in a part of the time (`idle` with `limit`) | |
//!
//! All of them may be turned while it forwards. Not there: implementations of the datapath's parser and
//! classifier (`dpif-netdev/dpif-impl-set`, `subtable-lookup-prio-set`), of which Debian's build has one each.

/// The knobs as the documentation has them where nothing is said.
const DEFAULT: Knobs = Knobs { smc: false, emc: 100, idle: 10_000, limit: 200_000, flush: 0 };

/// The word for a search.
const TUNED: &str = "tuned";

/// What the search tries beside the default, knob by knob. First what lets it hold its flows at all, which takes both
/// settings together: where flows go before their next packet comes, nothing else helps.
const CHOICES: [&[&str]; 4] =
    [&["idle=600000+limit=1000000"], &["smc"], &["emc=1", "emc=20", "emc=0"], &["flush=50"]];

/// The knobs of the search, in its order.
const SEARCHED: [&str; 4] = ["idle", "smc", "emc", "flush"];

/// What may be written.
const FORMS: &str = "smc, emc=N (one in N misses; 0: never), idle=N (ms), limit=N (flows), flush=N (µs), joined by `+`, or tuned alone \
     (tuned=KNOB: the search over one of idle, smc, emc, flush)";

/// Most flows that may be asked for, the longest time without a packet, in ms, and the longest wait for other
/// packets, in µs (the documentation's; of the time without a packet the most that the database takes).
const MOST_FLOWS: u32 = 100_000_000;
const SHORTEST_IDLE: u32 = 500;
const LONGEST_IDLE: u32 = i32::MAX.unsigned_abs();
const LONGEST_FLUSH: u32 = 1_000_000;

/// Settings of the caches and the datapath.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Knobs {
    smc: bool,
    /// Inverse probability of an insertion; 0 turns the cache off.
    emc: u32,
    /// Milliseconds.
    idle: u32,
    pub(super) limit: u32,
    /// Microseconds.
    flush: u32,
}

impl Knobs {
    /// Reads a variant; the default where it is empty or to be searched for.
    pub(super) fn parse(variant: &str) -> Result<Self, String> {
        let mut knobs = DEFAULT;
        let mut seen = Vec::new();
        for word in variant.split('+').filter(|_| !variant.is_empty() && !is_searched(variant)) {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            if seen.contains(&name) {
                return Err(format!("`{variant}` names {name} twice"));
            }
            seen.push(name);
            let number = |least: u32, most: u32| {
                let wrong = || format!("`{word}`: the number behind {name} is {least} to {most}");
                value.parse().ok().filter(|number| (least..=most).contains(number)).ok_or_else(wrong)
            };
            match name {
                "smc" if value.is_empty() => knobs.smc = true,
                "emc" => knobs.emc = number(0, u32::MAX)?,
                "idle" => knobs.idle = number(SHORTEST_IDLE, LONGEST_IDLE)?,
                "limit" => knobs.limit = number(1, MOST_FLOWS)?,
                "flush" => knobs.flush = number(0, LONGEST_FLUSH)?,
                _ => return Err(format!("ovs-dpdk has no variant `{word}`; it has {FORMS}")),
            }
        }
        Ok(knobs)
    }

    /// As settings of the database.
    pub(super) fn settings(self) -> [String; 5] {
        [
            format!("other_config:smc-enable={}", self.smc),
            format!("other_config:emc-insert-inv-prob={}", self.emc),
            format!("other_config:max-idle={}", self.idle),
            format!("other_config:flow-limit={}", self.limit),
            format!("other_config:tx-flush-interval={}", self.flush),
        ]
    }
}

/// Whether a variant asks for a search.
pub(super) fn is_searched(variant: &str) -> bool {
    !choices(variant).is_empty()
}

/// What a search tries; nothing where the variant asks for none.
pub(super) fn choices(variant: &str) -> &'static [&'static [&'static str]] {
    match variant.strip_prefix(TUNED) {
        Some("") => &CHOICES,
        Some(one) => {
            let knob = one.strip_prefix('=');
            let place = SEARCHED.iter().position(|searched| Some(*searched) == knob);
            place.and_then(|place| CHOICES.get(place..=place)).unwrap_or_default()
        }
        None => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knobs_are_joined_by_a_plus_and_the_rest_stays_as_documented() {
        assert_eq!(Knobs::parse(""), Ok(DEFAULT));
        assert_eq!(Knobs::parse("tuned"), Ok(DEFAULT));
        let knobs = Knobs::parse("smc+emc=20").unwrap();
        assert_eq!(knobs, Knobs { smc: true, emc: 20, ..DEFAULT });
        let settings = knobs.settings().join(" ");
        let untouched = ["max-idle=10000", "flow-limit=200000", "tx-flush-interval=0"];
        for part in ["smc-enable=true", "emc-insert-inv-prob=20"].into_iter().chain(untouched) {
            assert!(settings.contains(part), "{part}: {settings}");
        }
    }

    #[test]
    fn mistakes_are_said_with_what_there_is() {
        for (text, says) in [
            ("fast", "emc=N"),
            ("smc=1", "emc=N"),
            ("emc=", "0 to 4294967295"),
            ("idle=5", "500 to 2147483647"),
            ("limit=0", "1 to 100000000"),
            ("smc+smc", "twice"),
            ("tuned+smc", "tuned alone"),
            ("tuned=limit", "idle, smc, emc, flush"),
            ("tuned=", "tuned=KNOB"),
        ] {
            let why = Knobs::parse(text).unwrap_err();
            assert!(why.contains(says), "{text}: {why}");
        }
    }

    #[test]
    fn every_choice_of_the_search_is_a_variant_of_its_own() {
        for choice in CHOICES.concat() {
            assert_ne!(Knobs::parse(choice), Ok(DEFAULT), "{choice}");
        }
        assert!(choices("smc").is_empty() && choices("tuned").len() == CHOICES.len());
        for (knob, tried) in SEARCHED.into_iter().zip(CHOICES) {
            let variant = format!("tuned={knob}");
            assert_eq!(choices(&variant), [tried], "{variant}");
            assert!(tried.iter().all(|value| value.starts_with(knob)), "{variant}");
            assert_eq!(Knobs::parse(&variant), Ok(DEFAULT));
        }
    }
}
