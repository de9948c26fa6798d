//! A plan cut down, so that a pack can be tried in minutes.

use crate::cmd::papers::short::with_short_trials;
use std::path::Path;
use toml_edit::{DocumentMut, Item, Table, value};
use weir_campaign::plan::{Known, Plan, ThroughputPlan};
use weir_trial::FlowFile;

/// What is cut, for the page of a pack.
pub(super) const WHAT: &str = "each point twice at most, three trials of 100 ms for a rate, trials of 100 ms in a search \
                               (bounds 5 % apart, 5 s a search), 200 ms for a delay, of sizes and frequencies the \
                               first and the last; other methods keep their times";

/// The plan of a run, cut down; as it is where that is no plan any more.
pub(super) fn short(whole: &Plan) -> String {
    let cut = |text: &str| -> Option<String> {
        let mut document: DocumentMut = with_short_trials(text).parse().ok()?;
        document.remove("until");
        // With one start, or one trial, there would be no scatter to compare with.
        if whole.repeats > 1 {
            document.insert("repeats", value(2));
        }
        if let Some(rate) = document.get_mut("mrr").and_then(Item::as_table_mut) {
            let whole = whole.source.parse::<DocumentMut>().ok();
            let trials = whole.and_then(|whole| whole.get("mrr")?.get("trials")?.as_integer());
            rate.insert("trials", value(trials.unwrap_or(3).min(3)));
        }
        if let Some(search) = whole.method::<ThroughputPlan>() {
            let table = document.get_mut("throughput")?.as_table_mut()?;
            table.insert("budget", value("5s"));
            table.insert("warm_up", value("100ms"));
            for goal in &search.goals {
                let goals = document.entry("goal").or_insert(Item::Table(implicit())).as_table_mut()?;
                let goal = goals.entry(&goal.name).or_insert(Item::Table(Table::new())).as_table_mut()?;
                goal.insert("final_trial_duration", value("100ms"));
                goal.insert("duration_sum", value("300ms"));
                goal.insert("width", value("5%"));
                goal.remove("initial_trial_duration");
            }
        }
        let text = document.to_string();
        let mut known =
            Known { is_file: |_| true, flows: |path| Ok(FlowFile::unread(path)), ..Known::here() };
        known.duts.extend(whole.duts.iter().chain(&whole.against).map(String::as_str));
        Plan::parse(&text, Path::new(&whole.name), &known).ok()?;
        Some(text)
    };
    cut(&whole.source).unwrap_or_else(|| whole.source.clone())
}

/// A table that has no line of its own.
fn implicit() -> Table {
    let mut table = Table::new();
    table.set_implicit(true);
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_campaign::plan::{ASSUMED_OVERHEAD, builtins};

    fn parsed(text: &str, name: &str) -> Plan {
        Plan::parse(text, Path::new(name), &Known::here()).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn every_plan_that_ships_is_a_plan_when_cut_down_and_takes_no_longer() {
        for builtin in builtins() {
            let whole = parsed(builtin.text, builtin.name);
            let cut = parsed(&short(&whole), builtin.name);
            let time = |plan: &Plan| plan.estimate(ASSUMED_OVERHEAD).time;
            assert!(time(&cut) <= time(&whole), "{}", builtin.name);
        }
    }

    #[test]
    fn goals_without_a_table_get_one_and_the_time_without_end_goes() {
        let text = "nf = \"l2fwd\"\nsize = [64, 128, 1500]\ntrace = \"tr3i\"\nrepeats = 4\n[throughput]\n\
                    goals = [\"ndr\", \"pdr\"]\n[goal.pdr]\nloss_ratio = \"1%\"\n";
        let whole = parsed(text, "plan");
        let cut = short(&whole);
        for part in ["[goal.ndr]", "loss_ratio = \"1%\"", "duration_sum = \"300ms\"", "size = [64, 1500]"] {
            assert!(cut.contains(part), "{part} is not in {cut}");
        }
        assert_eq!(parsed(&cut, "plan").repeats, 2);
        let text = "nf = \"l2fwd\"\nsize = 64\ntrace = \"tr3i\"\ndut = \"nf\"\nagainst = \"testpmd\"\n\
                    [until]\neffect = \"5%\"\ntime = \"5min\"\n[mrr]\ntrials = 5\n";
        assert!(!short(&parsed(text, "plan")).contains("until"));
    }
}
