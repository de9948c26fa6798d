//! A goal in one line, with the keys of a plan's `[goal.NAME]` table: `ndr`, `loss_ratio=0.1%`,
//! `pdr:loss_ratio=0.1%,final_trial_duration=250ms`.

use crate::methods::{GoalTable, overridden};
use weir_methods::mlrsearch::Goal;

/// Keys of a goal, for whoever mistypes one.
const KEYS: &str = "like, loss_ratio, exceed_ratio, initial_trial_duration, final_trial_duration, duration_sum, \
                    width, preceding_targets";

/// Reads a goal. A name means the goal of that name among `own`, those of a plan, or else the preset;
/// without a name, keys change the first of `own`.
pub fn goal(text: &str, own: &[Goal]) -> Result<Goal, String> {
    let (name, keys) = match text.split_once(':') {
        Some((name, keys)) => (Some(name.trim()), keys),
        None if text.contains('=') => (None, text),
        None => (Some(text.trim()), ""),
    };
    let mut toml = String::new();
    for pair in keys.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        let (key, value) = pair
            .split_once('=')
            .ok_or_else(|| format!("goal `{text}`: `{pair}` is no key=value; the keys are {KEYS}"))?;
        let value = value.trim().trim_matches('"');
        if value.is_empty() || value.contains(['"', '\\', '\n']) || key.contains(['"', '\\', '\n', '[']) {
            return Err(format!("goal `{text}`: `{pair}` is no key=value; the keys are {KEYS}"));
        }
        let quote = if value.bytes().all(|byte| byte.is_ascii_digit()) { "" } else { "\"" };
        toml.push_str(&format!("{} = {quote}{value}{quote}\n", key.trim()));
    }
    let table: GoalTable =
        toml::from_str(&toml).map_err(|error| format!("goal `{text}`: {}", error.message()))?;
    let named = |name: &str| {
        let found = own.iter().find(|goal| goal.name == name).cloned().or_else(|| Goal::preset(name));
        found.ok_or_else(|| {
            let names = own.iter().map(|goal| goal.name.as_str()).chain(Goal::PRESETS);
            let mut names: Vec<&str> = names.collect();
            names.sort_unstable();
            names.dedup();
            format!("goal `{text}`: there is no goal `{name}`; there are {}", names.join(", "))
        })
    };
    let base = match (&table.like, name) {
        (Some(like), _) => Goal::preset(like.as_ref()).ok_or_else(|| {
            let (like, presets) = (like.as_ref(), Goal::PRESETS.join(", "));
            format!("goal `{text}`: there is no preset `{like}`; there are {presets}")
        })?,
        (None, Some(name)) => named(name)?,
        (None, None) => own.first().cloned().unwrap_or_else(Goal::ndr),
    };
    // A goal that was changed is not the one whose name it would have.
    let name = if toml.is_empty() { base.name.clone() } else { text.to_owned() };
    let goal = overridden(base, &name, &table);
    goal.check().map_err(|error| error.to_string())?;
    Ok(goal)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_units::{Nanos, Ratio};

    #[test]
    fn a_name_is_the_plans_goal_before_the_preset() {
        let own = [Goal::ndr().with_trial(Nanos(Nanos::PER_SECOND / 4))];
        assert_eq!(goal("ndr", &own), Ok(own[0].clone()));
        assert_eq!(goal("pdr", &own), Ok(Goal::pdr()));
        assert_eq!(goal("ndr:like=ndr", &own).unwrap().final_trial_duration, Nanos(Nanos::PER_SECOND));
    }

    #[test]
    fn keys_change_the_named_goal_or_the_plans_first() {
        let own = [Goal::ndr().with_trial(Nanos(Nanos::PER_SECOND / 4))];
        let lossy = goal("loss_ratio=0.1%", &own).unwrap();
        assert_eq!((lossy.loss_ratio, lossy.duration_sum), (Ratio(0.001), own[0].duration_sum));
        assert_eq!(lossy.name, "loss_ratio=0.1%");
        let several = goal("pdr: loss_ratio=0.01, exceed_ratio=0, preceding_targets=1", &own).unwrap();
        assert_eq!((several.loss_ratio, several.exceed_ratio), (Ratio(0.01), Ratio(0.0)));
        assert_eq!((several.preceding_targets, several.final_trial_duration), (1, Nanos(Nanos::PER_SECOND)));
    }

    #[test]
    fn mistakes_are_named_with_what_there_is() {
        for (text, part) in [
            ("mdr", "there is no goal `mdr`; there are bswlv, ndr, pdr, rfc2544"),
            ("loss=1%", "unknown field `loss`"),
            ("ndr:1%", "`1%` is no key=value; the keys are like, loss_ratio"),
            ("loss_ratio=much", "`much`"),
            ("loss_ratio=100%", "loss ratio 1 is outside"),
            ("like=mdr", "there is no preset `mdr`"),
            ("loss_ratio=\"", "no key=value"),
        ] {
            let error = goal(text, &[]).map(|goal| goal.name).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
