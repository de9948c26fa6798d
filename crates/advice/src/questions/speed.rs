//! The lowest clock, or share of the cores' time, that carries a load.
//!
//! **Clock.** A packet takes `t = c / f + m`: `c` cycles of the core, which a slower clock makes longer, and `m`, which waits for
//! memory and stays. Two clocks tell both; with one nothing can be said of another.
//!
//! **Share.** The device has turns on its core: `t = a (1 + k) / s` below the whole core, `t = a` on it. `k` is what turns
//! cost, and takes points below the whole core.

use super::model::{Context, Observed, about};
use super::{NO_LOAD, axis, unanswered};
use crate::answer::{Advice, Answer, Needed, Says};
use crate::evidence::Evidence;
use crate::fit::Fit;
use weir_trial::Frequency;
use weir_trial::run::PointKey;
use weir_trial::run::advice::{Prediction, Question};

/// Steps of a clock that is advised, in MHz.
const STEP: u32 = 10;
/// Shares that can be had, in percent.
const SHARES: std::ops::RangeInclusive<u8> = 5..=100;
/// How far below the least clock measured one is advised, as a share of it.
const BELOW: f64 = 0.5;

/// Why delays at a share of a core are not predicted.
const TURNS: &str =
    "a share of a core makes packets wait for the device's next turn, which the model does not have";

/// What is held against what.
struct Scale {
    /// The settings that may be advised, the slowest first.
    candidates: Vec<Frequency>,
    /// Columns of a setting.
    columns: fn(Frequency, whole: bool) -> Vec<f64>,
    /// Whether the whole core is among the points.
    whole: bool,
    /// Least and greatest setting measured.
    range: (Frequency, Frequency),
}

pub(super) fn answers(context: &Context<'_, '_>) -> Vec<Answer> {
    let groups = context.groups(|key| key.placement.frequency = None);
    groups.iter().filter_map(|(key, group)| of_group(context, key, group)).collect()
}

fn of_group(context: &Context<'_, '_>, key: &PointKey, group: &[&Evidence<'_>]) -> Option<Answer> {
    let said = |why: &str, needed| Some(unanswered(Question::Speed, key, why, needed));
    let point = group.first()?.point.index;
    if context.wanted.asked.load.is_none() {
        return said(NO_LOAD, None);
    }
    let clocks: Vec<u32> = group.iter().filter_map(|one| clock(one)).collect();
    let is_clock = distinct(&clocks) >= 2;
    let of_kind: Vec<&Evidence<'_>> =
        group.iter().copied().filter(|one| clock(one).is_some() == is_clock).collect();
    let Some(scale) = (if is_clock { clock_scale(&clocks) } else { share_scale(&of_kind) }) else {
        let axes = if clocks.is_empty() {
            vec![axis("frequency", "[\"25%\", \"50%\", \"75%\", \"100%\"]")]
        } else {
            let clock = clocks[0];
            vec![axis("frequency", &format!("[\"{}MHz\", \"{clock}MHz\"]", clock * 3 / 4))]
        };
        let needed = Needed { point, axes, methods: None };
        let why =
            "the points have one speed: how much of a packet's time a slower core makes longer takes two";
        return said(why, Some(needed));
    };
    let setting = |one: &Evidence<'_>| one.point.key.placement.frequency.unwrap_or(Frequency::Share(100));
    let columns = |one: &Evidence<'_>| Some((scale.columns)(setting(one), scale.whole));
    let Some(mut observed) = Observed::of(context, &of_kind, columns) else {
        return said(&context.no_rate(&of_kind), None);
    };
    let fit = match Fit::of(&observed.rows) {
        Ok(fit) => fit,
        Err(why) => return said(&why.to_string(), None),
    };
    observed.remark(&fit);
    let at = |setting: Frequency| observed.rate(&fit, &(scale.columns)(setting, scale.whole));
    let base = match is_clock {
        true => context.base(of_kind.iter().copied()),
        false => context.wanted.asked.delay.map_or(Ok(None), |_| Err(TURNS.to_owned())),
    };
    // With another clock all times are in proportion.
    let delay = |rate: &Prediction| {
        let longer = base
            .as_ref()
            .ok()
            .and_then(Option::as_ref)
            .map_or(1.0, |curve| curve.known.capacity / rate.value);
        context.delay(&base, (rate.value, longer))
    };
    let enough = scale.candidates.iter().copied().find(|one| {
        let rate = at(*one);
        context.is_enough(&rate, &delay(&rate))
    });
    let advised = enough.or_else(|| scale.candidates.last().copied())?;
    let mut advice = Advice {
        says: says(context, advised, enough.is_some(), &at(advised)),
        meets: Some(enough.is_some()),
        point,
        key: PointKey { placement: placed(key, advised), ..key.clone() },
        predictions: vec![at(advised)],
        model: model(&fit, is_clock),
        derived_from: observed.points.clone(),
        extrapolated: extrapolated(&scale, advised),
        notes: observed.notes.clone(),
    };
    let expected = delay(&advice.predictions[0]);
    context.at_load(&mut advice, expected);
    Some(Answer { question: Question::Speed, about: about(key), says: Says::Advice(Box::new(advice)) })
}

fn clock(evidence: &Evidence<'_>) -> Option<u32> {
    match evidence.point.key.placement.frequency {
        Some(Frequency::Clock(megahertz)) => Some(megahertz),
        _ => None,
    }
}

fn distinct(values: &[u32]) -> usize {
    values.iter().collect::<std::collections::BTreeSet<_>>().len()
}

fn clock_scale(clocks: &[u32]) -> Option<Scale> {
    let (least, most) = (*clocks.iter().min()?, *clocks.iter().max()?);
    let first = ((f64::from(least) * BELOW / f64::from(STEP)).ceil() as u32 * STEP).max(100);
    let mut candidates: Vec<Frequency> = (first..most).step_by(STEP as usize).map(Frequency::Clock).collect();
    candidates.push(Frequency::Clock(most));
    let columns = |setting: Frequency, _: bool| match setting {
        Frequency::Clock(megahertz) => vec![1.0, 1e3 / f64::from(megahertz.max(1))],
        Frequency::Share(_) => Vec::new(),
    };
    Some(Scale { candidates, columns, whole: true, range: (Frequency::Clock(least), Frequency::Clock(most)) })
}

fn share_scale(group: &[&Evidence<'_>]) -> Option<Scale> {
    let shares: Vec<u8> = group
        .iter()
        .map(|one| match one.point.key.placement.frequency {
            Some(Frequency::Share(percent)) => percent,
            _ => 100,
        })
        .collect();
    let (least, most) = (*shares.iter().min()?, *shares.iter().max()?);
    if least == 100 {
        return None;
    }
    // Without a point below the whole core turns cost nobody knows what; without the whole core they are in `a`.
    let whole = most == 100;
    let last = if whole { 100 } else { 99 };
    let columns = |setting: Frequency, whole: bool| {
        let Frequency::Share(percent) = setting else { return Vec::new() };
        let longer = 100.0 / f64::from(percent);
        match (whole, percent) {
            (false, _) => vec![longer],
            (true, 100) => vec![1.0, 0.0],
            (true, _) => vec![longer, longer],
        }
    };
    let candidates = SHARES.filter(|percent| *percent <= last).map(Frequency::Share).collect();
    Some(Scale { candidates, columns, whole, range: (Frequency::Share(least), Frequency::Share(most)) })
}

fn placed(key: &PointKey, advised: Frequency) -> weir_trial::Placement {
    weir_trial::Placement { frequency: Some(advised), ..key.placement.clone() }
}

fn says(context: &Context<'_, '_>, advised: Frequency, enough: bool, rate: &Prediction) -> String {
    let asked = &context.wanted.asked;
    let load = asked.load.map_or_else(String::new, |load| load.to_string());
    match enough {
        true => format!("{advised} carries {load}"),
        false => format!(
            "no speed up to {advised} is sure to carry {load}: {} is expected there; take more copies or cores",
            rate.quantity.show(rate.value)
        ),
    }
}

fn model(fit: &Fit, is_clock: bool) -> String {
    let part = |place: usize| fit.coefficients.get(place).copied().unwrap_or(0.0);
    match is_clock {
        true => format!("a packet takes {:.2} ns + {:.1} cycles / clock", part(0), part(1)),
        false if fit.coefficients.len() == 1 => format!("a packet takes {:.2} ns / share", part(0)),
        false => {
            let turn = 100.0 * part(1) / part(0).max(1e-9);
            format!("a packet takes {:.2} ns, below a whole core {turn:.1} % more / share", part(0))
        }
    }
}

fn extrapolated(scale: &Scale, advised: Frequency) -> Vec<String> {
    let (least, most) = scale.range;
    let outside = advised < least || advised > most;
    outside
        .then(|| format!("{advised} is outside of what was measured ({least} to {most})"))
        .into_iter()
        .collect()
}
