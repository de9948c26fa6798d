//! Values of a plan that several of its tables have: lengths of time, counts, loads.

use super::{Checker, Span, unit};
use crate::plan::text::Text;
use toml::Spanned;
use weir_diagnostic::Diagnostic;
use weir_methods::latency::LoadSpec;
use weir_traffic::Shape;
use weir_units::Nanos;

impl Checker<'_> {
    /// Refuses a load that is a share of a goal nobody searches for.
    pub(crate) fn known_goal(&mut self, key: &str, span: Span, load: &LoadSpec) {
        if matches!(load, LoadSpec::OfMrr(_)) && self.whole && !self.has_mrr {
            let why = "needs the forwarded rate; add a table [mrr]";
            self.refuse(&span, format!("`{key}`: {load} {why}"));
        }
        let goals = self.goal_names();
        let Some(goal) = load.goal().filter(|goal| self.whole && !goals.contains(goal)) else { return };
        let mut unknown = Diagnostic::unknown(span, "goal", goal, &goals);
        unknown.allowed.push(LoadSpec::LINE.to_owned());
        unknown.message =
            format!("`{key}`: {load} needs the goal `{goal}`, which [throughput] does not search for");
        self.found.push(unknown);
    }

    /// Refuses a table whose loads a capture's own rate would stand for.
    pub(crate) fn any_load(&mut self, name: &str, span: &Span) {
        if self.shape == Shape::Recorded {
            let why = "shape `recorded` sends at the capture's own rate, whatever the load";
            self.refuse(span, format!("[{name}]: {why}; leave the table out, or choose another shape"));
        }
    }

    /// The goals that are searched for.
    pub(crate) fn goal_names(&self) -> Vec<&str> {
        self.searched.iter().map(String::as_str).collect()
    }

    /// The length of a trial.
    pub(crate) fn duration(&mut self, duration: Option<Spanned<Text<Nanos>>>, default: Nanos) -> Nanos {
        let Some(duration) = duration else { return default };
        let length = unit(&duration);
        if length.0 == 0 {
            self.refuse(&duration.span(), "`duration` is zero; write for example \"1s\"");
        }
        length
    }

    /// Another length of time.
    pub(crate) fn time(&mut self, key: &str, time: Option<Spanned<Text<Nanos>>>, default: Nanos) -> Nanos {
        let Some(time) = time else { return default };
        let length = unit(&time);
        if length.0 == 0 {
            self.refuse(&time.span(), format!("`{key}` is zero; write for example \"{default}\""));
        }
        length
    }

    /// A number within a range, or the default.
    pub(crate) fn count(
        &mut self,
        key: &str,
        number: Option<Spanned<u32>>,
        default: u32,
        range: (u32, u32),
    ) -> u32 {
        match number {
            None => default,
            number => self.within(key, number, range.0, range.1),
        }
    }

    /// A number within a range, or the least.
    pub(crate) fn within(&mut self, key: &str, number: Option<Spanned<u32>>, min: u32, max: u32) -> u32 {
        let Some(number) = number else { return min };
        let value = *number.as_ref();
        if !(min..=max).contains(&value) {
            self.refuse(&number.span(), format!("`{key}`: {value} is outside {min} to {max}"));
        }
        value
    }
}
