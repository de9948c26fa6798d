//! A/A: devices measured against themselves, where every winner is a false one.
//!
//! A comparison is a run like any other (`NAME` against `NAME#2`, [`weir_dut::AGAIN`]), judged as any other:
//! over `fed` by the forwarded rate, over `vhost` by the median and the 99th percentile of the delay at one
//! load, as the forwarded rate there would be the load itself. A false winner is a comparison that names any.

use super::plan::{Effort, PlannedRun};
use crate::plan::HugePages;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use weir_methods::compare::{self, Verdict, compare, share_interval};
use weir_trial::run::Run;

/// Version of the JSON form of [`Aa`].
const SCHEMA_VERSION: u32 = 1;

/// A device and the wiring it is compared with itself over.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct AaCase {
    /// The device.
    pub device: String,
    /// The wiring.
    pub wiring: String,
}

/// The cases, in turn.
const CASES: [(&str, &str); 6] = [
    ("nf", "fed"),
    ("weir", "fed"),
    ("ovs-dpdk", "fed"),
    ("nf", "vhost"),
    ("weir", "vhost"),
    ("ovs-dpdk", "vhost"),
];

/// What came of one case.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AaCount {
    /// Comparisons made.
    pub made: u32,
    /// Those of which at least one quantity was ranked: the others can have no winner.
    pub ranked: u32,
    /// Those that named a winner.
    pub false_winners: u32,
    /// The smallest effect that each ranked quantity could have seen, as a share, in the order measured.
    pub visible: Vec<f64>,
}

/// Comparisons of devices with themselves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Aa {
    /// Version of this form.
    pub schema: u32,
    /// Name: the runs' names begin with it.
    pub name: String,
    /// Weir's version and commit.
    pub weir: String,
    /// How much was measured in each comparison.
    pub effort: Effort,
    /// Facts of the machine, captured: name to value.
    pub environment: BTreeMap<String, String>,
    /// The cases and what came of each.
    pub cases: Vec<(AaCase, AaCount)>,
    /// Why comparisons could not be made, and what kept them from being ranked.
    pub remarks: Vec<String>,
}

impl Aa {
    /// Before the first comparison.
    pub fn new(name: String, weir: String, effort: Effort, environment: BTreeMap<String, String>) -> Self {
        let case = |(device, wiring): (&str, &str)| {
            (AaCase { device: device.to_owned(), wiring: wiring.to_owned() }, AaCount::default())
        };
        let cases = CASES.map(case).to_vec();
        Self { schema: SCHEMA_VERSION, name, weir, effort, environment, cases, remarks: Vec::new() }
    }

    /// The plan of a comparison, numbered from 0; its case follows from the number.
    pub fn plan(&self, number: u32, huge_pages: HugePages) -> PlannedRun {
        let (device, wiring) = CASES[number as usize % CASES.len()];
        let Effort { repeats, trials, duration, .. } = self.effort;
        let pages = match huge_pages {
            HugePages::On => "true",
            HugePages::Off => "false",
            HugePages::Auto => "\"auto\"",
        };
        let suffix = format!("aa{number}.{device}.{wiring}");
        let method = if wiring == "fed" {
            format!("[mrr]\ntrials = {trials}\nduration = \"{}ns\"\n", duration.0)
        } else {
            format!("[latency]\nloads = [\"100kpps\"]\nduration = \"{}ns\"\n", duration.0)
        };
        let text = format!(
            "# A comparison of `weir perf --aa`.\nname = \"{suffix}\"\nnf = \"l2fwd\"\ndut = \"{device}\"\n\
             against = \"{device}{}\"\ntrace = \"flows:10000\"\nsize = 64\ndirections = 1\n\
             wiring = \"{wiring}\"\nhuge_pages = {pages}\nline_rate = \"100G\"\nseed = {}\n\
             self_check = false\ncheck = false\nrepeats = {repeats}\n\n{method}",
            weir_dut::AGAIN,
            number + 1,
        );
        PlannedRun { suffix, text }
    }

    /// Counts a comparison that was made.
    pub fn note(&mut self, number: u32, run: &Run) {
        let place = number as usize % CASES.len();
        let device = CASES[place].0;
        let again = format!("{device}{}", weir_dut::AGAIN);
        let sides = [device, &again].map(|dut| compare::Side { run, dut: Some(dut) });
        let found = compare(sides[0], sides[1], None);
        for row in &found.rows {
            let why = match (&row.verdict, row.chance) {
                (Verdict::NotRanked(why), _) => why.to_string(),
                (_, None) => "too few trials to know its scatter".to_owned(),
                (_, Some(_)) => continue,
            };
            self.remark(format!("{device} over {}: {}: {why}", CASES[place].1, row.quantity));
        }
        for alone in found.only_a.iter().chain(&found.only_b) {
            self.remark(format!("{device} over {}: {}", CASES[place].1, alone.why));
        }
        let is_winner = |verdict: &Verdict| matches!(verdict, Verdict::A | Verdict::B);
        let count = &mut self.cases[place].1;
        count.made += 1;
        count.ranked += u32::from(found.rows.iter().any(|row| row.chance.is_some()));
        count.false_winners += u32::from(found.rows.iter().any(|row| is_winner(&row.verdict)));
        count.visible.extend(found.rows.iter().filter_map(|row| row.visible));
    }

    /// Keeps a sentence, once.
    pub fn remark(&mut self, sentence: String) {
        if !self.remarks.contains(&sentence) {
            self.remarks.push(sentence);
        }
    }

    /// Comparisons that were ranked and false winners among them, over all cases, and the 95 % confidence interval
    /// of the false winners' share.
    pub fn total(&self) -> (u32, u32, (f64, f64)) {
        let sum = |of: fn(&AaCount) -> u32| self.cases.iter().map(|(_, count)| of(count)).sum::<u32>();
        let (ranked, winners) = (sum(|count| count.ranked), sum(|count| count.false_winners));
        let interval = share_interval(winners, ranked);
        (ranked, winners, (interval.low, interval.high))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Known, Plan};
    use std::path::Path;

    #[test]
    fn every_case_is_a_plan_of_a_device_against_itself() {
        let aa = Aa::new("x".into(), "weir".into(), Effort::QUICK, BTreeMap::new());
        for number in 0..CASES.len() as u32 {
            let planned = aa.plan(number, HugePages::Off);
            let plan = Plan::parse(&planned.text, Path::new("aa.toml"), &Known::here())
                .unwrap_or_else(|error| panic!("{error}\n{}", planned.text));
            let points = plan.expand();
            assert_eq!(points[1].dut, format!("{}#2", points[0].dut));
            let name = |place: usize| weir_dut::adapter(&points[place].dut).unwrap().name();
            assert_eq!(name(0), name(1));
        }
    }

    #[test]
    fn false_winners_are_a_share_with_its_interval() {
        let mut aa = Aa::new("x".into(), "weir".into(), Effort::QUICK, BTreeMap::new());
        for (place, (_, count)) in aa.cases.iter_mut().enumerate() {
            (count.made, count.ranked) = (17, 16);
            count.false_winners = u32::from(place < 4);
        }
        let (ranked, winners, (low, high)) = aa.total();
        assert_eq!((ranked, winners), (96, 4));
        assert!(low < 4.0 / 96.0 && 4.0 / 96.0 < high && high < 0.11, "{low} {high}");
    }
}
