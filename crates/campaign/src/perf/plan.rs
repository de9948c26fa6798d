//! A row as plans: TOML that `weir bench` runs, so that a row is measured as anybody else would measure it.

use super::{Row, Way, Work};
use crate::plan::HugePages;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_units::Nanos;

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Effort {
    /// Whether it is the quick subset.
    pub quick: bool,
    /// How often each side is started anew, at least where `until` is there.
    pub repeats: u32,
    /// Whether starts go on until an effect is seen, and for how long at most.
    #[serde(default)]
    pub until: Option<UntilSeen>,
    /// Trials of each side and start, in turns.
    pub trials: u32,
    /// Length of each trial.
    pub duration: Nanos,
}

/// Starts go on until an effect is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UntilSeen {
    /// The effect, in thousandths.
    pub permille: u32,
    /// The most time of a pair of devices.
    pub time: Nanos,
}

/// A campaign of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedRun {
    /// What its name has behind the table's: `port.ovs-dpdk`.
    pub suffix: String,
    /// The plan, as TOML.
    pub text: String,
}

/// Trials at 100 packets a second must be long for a median: a thousand packets.
const DELAYS: Nanos = Nanos(10 * Nanos::PER_SECOND);

impl Row {
    /// The campaigns of the row; none for one that is not a campaign's affair. With a `base`, another
    /// build of the switch, Weir is compared with that and not with peers.
    pub fn plans(&self, effort: Effort, huge_pages: HugePages, base: Option<&str>) -> Vec<PlannedRun> {
        let wiring = if matches!(self.way, Way::Loads { .. }) { "vhost" } else { "fed" };
        let plan = |suffix: String, duts: &[&str], against: Option<&str>, works: &[Work], method: String| {
            let suffix = format!("{}.{suffix}", self.id);
            let text = text(&suffix, duts, against, works, (wiring, huge_pages)) + &method;
            PlannedRun { suffix, text }
        };
        let mrr = |repeats: u32, trials: u32, more: &str| {
            let Effort { duration, .. } = effort;
            format!(
                "repeats = {repeats}\n\n[mrr]\ntrials = {trials}\nduration = \"{}ns\"\n{more}",
                duration.0
            )
        };
        let usual = || mrr(effort.repeats, effort.trials, "") + &until(effort);
        match (self.way, base) {
            (Way::Devices { work, .. }, Some(base)) => {
                // Two copies of one program differ by some per cent, as their files' pages lie elsewhere.
                let other = format!("weir:copied+at={base}");
                vec![plan("base".to_owned(), &["weir:copied"], Some(&other), &[work], usual())]
            }
            (Way::Devices { device, others, work }, None) => others
                .iter()
                .map(|other| plan((*other).to_owned(), &[device], Some(other), &[work], usual()))
                .collect(),
            (Way::Starts { other, work }, None) => {
                let method = mrr(effort.repeats, 1, "from_start = true\n").replace(
                    &format!("\"{}ns\"", effort.duration.0),
                    &format!("\"{}ns\"", Nanos::PER_SECOND),
                );
                vec![plan(other.to_owned(), &["weir"], Some(other), &[work], method)]
            }
            (Way::Works { device, work, against }, None) => (1..=effort.repeats)
                .map(|round| {
                    // Each round begins with the other one, against drift.
                    let works = if round % 2 == 1 { [work, against] } else { [against, work] };
                    plan(round.to_string(), &[device], None, &works, mrr(1, effort.trials, ""))
                })
                .collect(),
            (Way::Loads { work, load, against }, None) => {
                let method = format!(
                    "repeats = {}\n\n[latency]\nloads = [\"{load}\", \"{against}\"]\nduration = \"{}ns\"\n",
                    effort.repeats, DELAYS.0
                );
                vec![plan("loads".to_owned(), &["weir"], None, &[work], method)]
            }
            (Way::Service { .. }, _) | (_, Some(_)) => Vec::new(),
        }
    }

    /// The arguments of `weir switch` that measure a service by itself, where the row is one's.
    pub fn service(&self) -> Option<Vec<String>> {
        let Way::Service { kind, options, .. } = self.way else { return None };
        let words = ["switch", "bench", kind, "--json"].into_iter().chain(options.iter().copied());
        Some(words.map(str::to_owned).collect())
    }
}

/// The table that lets starts go on; nothing for a fixed number of them.
pub(super) fn until(effort: Effort) -> String {
    let Some(UntilSeen { permille, time }) = effort.until else { return String::new() };
    format!("\n[until]\neffect = \"{}%\"\ntime = \"{}ns\"\n", f64::from(permille) / 10.0, time.0)
}

/// Everything but the methods.
fn text(
    name: &str,
    duts: &[&str],
    against: Option<&str>,
    works: &[Work],
    (wiring, huge_pages): (&str, HugePages),
) -> String {
    let quoted = |words: Vec<&str>| {
        let words: Vec<String> = words.iter().map(|word| format!("\"{word}\"")).collect();
        format!("[{}]", words.join(", "))
    };
    let against = against.map_or_else(String::new, |dut| format!("against = \"{dut}\"\n"));
    // Numbers stand bare, words in quotes.
    let size =
        |text: &str| text.parse::<u16>().map_or_else(|_| format!("\"{text}\""), |size| size.to_string());
    let seed = works[0].seed.map_or_else(String::new, |seed| format!("seed = {seed}\n"));
    let pages = match huge_pages {
        HugePages::On => "true",
        HugePages::Off => "false",
        HugePages::Auto => "\"auto\"",
    };
    format!(
        "# A row of `weir perf`.\nname = \"{name}\"\nnf = \"{}\"\ndut = {}\n{against}trace = {}\nsize = {}\n\
         {seed}directions = {}\nwiring = \"{wiring}\"\nhuge_pages = {pages}\nline_rate = \"100G\"\n",
        works[0].nf,
        quoted(duts.to_vec()),
        quoted(works.iter().map(|work| work.trace).collect()),
        size(works[0].size),
        works[0].directions,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf::ROWS;
    use crate::plan::{Known, Plan};
    use std::path::Path;

    fn plans(row: &Row, base: Option<&str>) -> Vec<Plan> {
        let planned = row.plans(Effort::QUICK, HugePages::Off, base);
        let parse = |planned: PlannedRun| {
            Plan::parse(&planned.text, Path::new("perf.toml"), &Known::here())
                .unwrap_or_else(|error| panic!("{}: {error}\n{}", row.id, planned.text))
        };
        planned.into_iter().map(parse).collect()
    }

    #[test]
    fn every_row_is_a_plan_or_a_service() {
        for row in ROWS.iter() {
            assert_ne!(plans(row, None).is_empty(), row.service().is_none(), "{}", row.id);
        }
    }

    #[test]
    fn the_sides_of_a_row_take_turns() {
        let port = plans(&ROWS[0], None);
        assert_eq!(port.len(), 3);
        assert!(port.iter().all(|plan| plan.against.is_some() && plan.repeats == 5 && plan.check));
        let until = port[0].until.unwrap();
        assert_eq!((until.effect.0, until.time), (0.05, Nanos(300 * Nanos::PER_SECOND)));
        let rounds = plans(crate::perf::find("million").unwrap(), None);
        let first = |plan: &Plan| plan.traces[0].to_string();
        assert_ne!(first(&rounds[0]), first(&rounds[1]), "each round begins with the other work");
    }

    #[test]
    fn a_base_takes_the_place_of_the_peers() {
        let [plan] = plans(&ROWS[0], Some("/b/weir")).try_into().unwrap();
        assert_eq!(
            (plan.duts[0].as_str(), plan.against.as_deref()),
            ("weir:copied", Some("weir:copied+at=/b/weir"))
        );
    }

    #[test]
    fn from_the_start_means_the_first_second() {
        let [plan] = plans(crate::perf::find("cold").unwrap(), None).try_into().unwrap();
        let mrr = plan.method::<crate::plan::MrrPlan>().unwrap();
        assert!(mrr.from_start && mrr.trials == 1 && mrr.duration.0 == Nanos::PER_SECOND);
    }
}
