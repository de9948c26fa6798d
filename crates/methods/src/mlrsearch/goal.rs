//! Goals of a search: their presets, their checks, and the targets that lead up to them.

use super::ladder::{Ladder, Rungs};
use super::load::Requirement;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_units::{Nanos, Ratio};

/// One search goal (draft-ietf-bmwg-mlrsearch-15, "Search Goal"): which loads pass, and how finely
/// the border between those that pass and those that fail is looked for.
///
/// | preset | final trial | duration sum | loss ratio | exceed ratio | width |
/// |---|---|---|---|---|---|
/// | [`Goal::rfc2544`] | 60 s | 60 s | 0 | 0 | 0.005 |
/// | [`Goal::bswlv`] | 60 s | 120 s | 0 | 0.5 | 0.005 |
/// | [`Goal::ndr`] | 1 s | 21 s | 0 | 0.5 | 0.005 |
/// | [`Goal::pdr`] | 1 s | 21 s | 0.005 | 0.5 | 0.005 |
///
/// RFC 2544 and TST009 leave the width free. It is 0.005 here, as FD.io CSIT has it for NDR and
/// PDR: goals of one width stand on the same rungs and share trials, and results of different
/// goals can be compared to the same half per cent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Goal {
    /// Name, unique within a search.
    pub name: String,
    /// A trial with more loss speaks against its load. 0 to below 1.
    pub loss_ratio: Ratio,
    /// Share of the duration sum that such trials may take at a load that still passes. 0 to below 1.
    pub exceed_ratio: Ratio,
    /// Distance of the bounds at which the search ends: `(upper - lower) / upper`.
    pub relative_width: Ratio,
    /// Duration of the first, shortest trials; at most the final trial duration.
    pub initial_trial_duration: Nanos,
    /// Duration of the trials that decide.
    pub final_trial_duration: Nanos,
    /// Effective trial duration that settles a load; at least the final trial duration.
    pub duration_sum: Nanos,
    /// Coarser, shorter targets before the goal's own.
    pub preceding_targets: u32,
    /// Factor by which a step grows when the search leaves the interval it expected. At least 2.
    pub expansion: u32,
}

/// What one stage of a goal's search looks for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    pub(super) requirement: Requirement,
    pub(super) width: Rungs,
}

/// A goal that cannot be searched for.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("goal `{goal}`: {what}")]
pub struct GoalError {
    /// Name of the goal.
    pub goal: String,
    /// What is wrong and what is allowed.
    pub what: String,
}

const SECOND: u64 = Nanos::PER_SECOND;

impl Goal {
    /// Names of the presets, in the order of the table.
    pub const PRESETS: [&'static str; 4] = ["rfc2544", "bswlv", "ndr", "pdr"];
    /// Trial duration that RFC 2544 asks for (section 24): 60 s.
    pub const RFC2544_TRIAL: Nanos = Nanos(60 * SECOND);
    /// Width of the presets.
    pub const DEFAULT_WIDTH: Ratio = Ratio(0.005);
    /// Narrowest width that may be asked for; no tester's clock divides loads more finely.
    pub const MIN_WIDTH: Ratio = Ratio(0.000_01);
    /// Most preceding targets: each doubles the first width.
    pub const MAX_PRECEDING_TARGETS: u32 = 8;

    fn preset_of(name: &str, loss_ratio: f64, exceed_ratio: f64, trial: u64, sum: u64) -> Self {
        Self {
            name: name.to_owned(),
            loss_ratio: Ratio(loss_ratio),
            exceed_ratio: Ratio(exceed_ratio),
            relative_width: Self::DEFAULT_WIDTH,
            initial_trial_duration: Nanos(SECOND),
            final_trial_duration: Nanos(trial * SECOND),
            duration_sum: Nanos(sum * SECOND),
            preceding_targets: 2,
            expansion: 2,
        }
    }

    /// RFC 2544 throughput (section 26.1): one trial of 60 s without loss, no second chance.
    pub fn rfc2544() -> Self {
        Self::preset_of("rfc2544", 0.0, 0.0, 60, 60)
    }

    /// Binary search with loss verification (ETSI GS NFV-TST 009, section 12.3.3) with
    /// `max(r) = 2`, `z = infinity`: a lossy trial of 60 s is repeated once.
    pub fn bswlv() -> Self {
        Self::preset_of("bswlv", 0.0, 0.5, 60, 120)
    }

    /// Non-drop rate as FD.io CSIT measures it: the median of 21 trials of 1 s without loss.
    pub fn ndr() -> Self {
        Self::preset_of("ndr", 0.0, 0.5, 1, 21)
    }

    /// Partial drop rate as FD.io CSIT measures it: as [`Self::ndr`], with at most 0.5 % loss.
    pub fn pdr() -> Self {
        Self::preset_of("pdr", 0.005, 0.5, 1, 21)
    }

    /// A preset by its name.
    pub fn preset(name: &str) -> Option<Self> {
        Some(match name {
            "rfc2544" => Self::rfc2544(),
            "bswlv" => Self::bswlv(),
            "ndr" => Self::ndr(),
            "pdr" => Self::pdr(),
            _ => return None,
        })
    }

    /// The same goal with other durations. The initial trials are never longer than the final ones.
    #[must_use]
    pub fn with_durations(mut self, final_trial: Nanos, duration_sum: Nanos) -> Self {
        self.final_trial_duration = final_trial;
        self.duration_sum = duration_sum;
        self.initial_trial_duration = self.initial_trial_duration.min(final_trial);
        self
    }

    /// The same goal with shorter (or longer) final trials, the duration sum in proportion.
    #[must_use]
    pub fn with_trial(self, final_trial: Nanos) -> Self {
        let scale = final_trial.seconds() / self.final_trial_duration.seconds();
        let sum = Nanos::from_seconds(self.duration_sum.seconds() * scale).max(final_trial);
        self.with_durations(final_trial, sum)
    }

    /// What a reader of this goal's results must be told.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.final_trial_duration < Self::RFC2544_TRIAL {
            warnings.push(format!(
                "{}: trials of {} are shorter than RFC 2544's {} (section 24)",
                self.name,
                self.final_trial_duration,
                Self::RFC2544_TRIAL
            ));
        }
        if let Some(standard) = Self::preset(&self.name)
            && self.duration_sum < standard.duration_sum
        {
            warnings.push(format!(
                "{}: a load is settled by {} of trials; the preset's {} take more",
                self.name, self.duration_sum, standard.duration_sum
            ));
        }
        warnings
    }

    /// Refuses what cannot be searched for.
    pub fn check(&self) -> Result<(), GoalError> {
        let share = |value: Ratio| (0.0..1.0).contains(&value.0);
        let what = if self.name.is_empty() {
            "its name is empty; give it one".to_owned()
        } else if !share(self.loss_ratio) {
            format!("loss ratio {} is outside 0 to below 1", self.loss_ratio.0)
        } else if !share(self.exceed_ratio) {
            format!("exceed ratio {} is outside 0 to below 1", self.exceed_ratio.0)
        } else if !(Self::MIN_WIDTH.0..1.0).contains(&self.relative_width.0) {
            format!("width {} is outside {} to below 1", self.relative_width.0, Self::MIN_WIDTH.0)
        } else if self.initial_trial_duration.0 == 0 {
            "the initial trial duration is zero; make it 1ms or longer".to_owned()
        } else if self.initial_trial_duration > self.final_trial_duration {
            format!(
                "the initial trial duration {} is longer than the final one, {}",
                self.initial_trial_duration, self.final_trial_duration
            )
        } else if self.duration_sum < self.final_trial_duration {
            format!(
                "the duration sum {} is less than one final trial, {}",
                self.duration_sum, self.final_trial_duration
            )
        } else if self.preceding_targets > Self::MAX_PRECEDING_TARGETS {
            format!(
                "{} preceding targets are more than {}",
                self.preceding_targets,
                Self::MAX_PRECEDING_TARGETS
            )
        } else if self.expansion < 2 {
            format!("expansion {} does not grow a step; make it 2 or more", self.expansion)
        } else {
            return Ok(());
        };
        Err(GoalError { goal: self.name.clone(), what })
    }

    /// What trials at a load must show for the goal itself.
    pub fn requirement(&self) -> Requirement {
        Requirement {
            loss_ratio: self.loss_ratio,
            exceed_ratio: self.exceed_ratio,
            trial_duration: self.final_trial_duration,
            duration_sum: self.duration_sum,
        }
    }

    /// The targets, coarsest first, the goal's own last. Going back from the goal, widths double and
    /// duration sums fall in a geometric row down to the initial trial duration.
    pub(super) fn targets(&self, ladder: &Ladder) -> Vec<Target> {
        let width = ladder.rungs(self.relative_width);
        let target = |back: u32| {
            let sum = self.duration_sum_before(back);
            let trial_duration = self.final_trial_duration.min(sum);
            let requirement = Requirement { trial_duration, duration_sum: sum, ..self.requirement() };
            Target { requirement, width: width.saturating_mul(1 << back) }
        };
        (0..=self.preceding_targets).rev().map(target).collect()
    }

    /// Duration sum of the target `back` places before the goal's own.
    fn duration_sum_before(&self, back: u32) -> Nanos {
        match back {
            0 => self.duration_sum,
            _ if back == self.preceding_targets => self.initial_trial_duration,
            _ => {
                let (first, last) = (self.initial_trial_duration.seconds(), self.duration_sum.seconds());
                let share = f64::from(back) / f64::from(self.preceding_targets);
                Nanos::from_seconds(last * (first / last).powf(share))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_units::Pps;

    #[test]
    fn the_presets_are_the_table() {
        let row = |name| {
            let goal = Goal::preset(name).unwrap();
            (
                goal.final_trial_duration.0 / SECOND,
                goal.duration_sum.0 / SECOND,
                goal.loss_ratio.0,
                goal.exceed_ratio.0,
            )
        };
        assert_eq!(row("rfc2544"), (60, 60, 0.0, 0.0));
        assert_eq!(row("bswlv"), (60, 120, 0.0, 0.5));
        assert_eq!(row("ndr"), (1, 21, 0.0, 0.5));
        assert_eq!(row("pdr"), (1, 21, 0.005, 0.5));
        for name in Goal::PRESETS {
            Goal::preset(name).unwrap().check().unwrap();
        }
        assert_eq!(Goal::preset("mdr"), None);
    }

    #[test]
    fn preceding_targets_of_ndr_sum_to_one_and_4_58_seconds() {
        let ladder = Ladder::new(Pps(9001.0), Pps(1e7), Ratio(0.005));
        let targets = Goal::ndr().targets(&ladder);
        let sums: Vec<f64> = targets.iter().map(|t| t.requirement.duration_sum.seconds()).collect();
        assert!(
            (sums[0] - 1.0).abs() < 1e-9 && (sums[1] - 4.583).abs() < 1e-3 && sums[2] == 21.0,
            "{sums:?}"
        );
        assert_eq!(targets[0].width, 4 * targets[2].width);
        assert_eq!(targets[1].width, 2 * targets[2].width);
    }

    #[test]
    fn shortened_goals_say_so() {
        let goal = Goal::rfc2544().with_trial(Nanos(SECOND / 4));
        assert_eq!((goal.duration_sum, goal.initial_trial_duration), (Nanos(SECOND / 4), Nanos(SECOND / 4)));
        assert!(goal.warnings()[0].contains("250 ms are shorter than RFC 2544's 60 s"), "{goal:?}");
        assert!(Goal::rfc2544().warnings().is_empty());
        assert_eq!(Goal::bswlv().with_trial(Nanos(SECOND)).duration_sum, Nanos(2 * SECOND));
    }

    #[test]
    fn impossible_goals_are_refused_with_their_name() {
        type Spoil = fn(&mut Goal);
        let cases: [(&str, Spoil); 7] = [
            ("loss ratio 1 ", |g| g.loss_ratio = Ratio(1.0)),
            ("exceed ratio 1 ", |g| g.exceed_ratio = Ratio(1.0)),
            ("width 0 ", |g| g.relative_width = Ratio(0.0)),
            ("initial trial duration is zero", |g| g.initial_trial_duration = Nanos(0)),
            ("longer than the final", |g| g.initial_trial_duration = Nanos(2 * SECOND)),
            ("less than one final trial", |g| g.duration_sum = Nanos(SECOND / 2)),
            ("expansion 1", |g| g.expansion = 1),
        ];
        for (what, spoil) in cases {
            let mut goal = Goal::ndr();
            spoil(&mut goal);
            let error = goal.check().unwrap_err().to_string();
            assert!(error.contains("goal `ndr`") && error.contains(what), "{error}");
        }
    }
}
