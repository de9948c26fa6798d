//! How many copies, pairs of virtual ports, or queues carry a load.
//!
//! A packet takes `t = a + b / n`: `a` of what all share (a host, a core), `b` of what `n` of them do side by side. Two numbers of
//! copies tell both.
//!
//! Where each process has a core of its own, what is shared and what is not work at the same time, and the slower one decides:
//! `t = max(a, b / n)`. Points do not tell the two forms apart before the host is reached, so beyond the greatest number measured the
//! interval reaches down to the best rate that was measured.

use super::model::{Context, Observed, about, low};
use super::{NO_LOAD, axis, unanswered};
use crate::answer::{Advice, Answer, Needed, Says};
use crate::evidence::Evidence;
use crate::fit::Fit;
use weir_trial::run::PointKey;
use weir_trial::run::advice::{Prediction, Question};
use weir_trial::{CoreUse, Placement};
use weir_units::Interval;

/// What is side by side.
pub(super) struct Several {
    question: Question,
    /// One and several, in words.
    words: (&'static str, &'static str),
    /// The axis of a plan, and values that tell the model.
    axis: (&'static str, &'static str),
    /// How many a placement has.
    count: fn(&Placement) -> u32,
    /// The placement with so many.
    with: fn(&Placement, u32) -> Placement,
    /// The most there can be.
    most: u32,
    /// Whether it stands behind a host; else it is of a device that is one process.
    hosted: bool,
}

/// Copies of a chain.
pub(super) const COPIES: Several = Several {
    question: Question::Copies,
    words: ("copy", "copies"),
    axis: ("copies", "[1, 2]"),
    count: |placement| placement.copies.max(1),
    with: |placement, copies| Placement { copies, ..placement.clone() },
    most: Placement::MOST_COPIES,
    hosted: true,
};

/// Pairs of virtual ports.
pub(super) const VNICS: Several = Several {
    question: Question::Vnics,
    words: ("pair of vnics", "pairs of vnics"),
    axis: ("vnics", "[2, 4]"),
    count: |placement| placement.pairs(),
    with: |placement, pairs| Placement { vnics: 2 * pairs, ..placement.clone() },
    most: Placement::MOST_VNICS / 2,
    hosted: true,
};

/// Queues of the ports of a device that is one process, each with a thread.
pub(super) const QUEUES: Several = Several {
    question: Question::Queues,
    words: ("queue", "queues"),
    axis: ("queues", "[1, 2]"),
    count: |placement| placement.queues.max(1),
    with: |placement, queues| Placement { queues, ..placement.clone() },
    most: Placement::MOST_QUEUES,
    hosted: false,
};

pub(super) fn answers(context: &Context<'_, '_>, several: &Several) -> Vec<Answer> {
    let groups = context.groups(|key| {
        key.placement = (several.with)(&key.placement, 1);
        key.placement.split = weir_trial::Split::default();
    });
    // Chains of processes have one queue a port.
    let can = |key: &PointKey| several.hosted || key.placement.is_inline();
    let groups = groups.iter().filter(|(key, _)| can(key));
    groups.filter_map(|(key, group)| of_group(context, several, (key, group))).collect()
}

fn of_group(
    context: &Context<'_, '_>,
    several: &Several,
    (key, group): (&PointKey, &[&Evidence<'_>]),
) -> Option<Answer> {
    let said = |why: &str, needed| Some(unanswered(several.question, key, why, needed));
    let count = |one: &Evidence<'_>| (several.count)(&one.point.key.placement);
    let first = group.first()?;
    if context.wanted.asked.load.is_none() {
        return said(NO_LOAD, None);
    }
    let most_measured = group.iter().map(|one| count(one)).max()?;
    if group.iter().all(|one| count(one) == most_measured) {
        let needed = needed(several, first);
        let why = format!(
            "all points have {}: what {} share takes two numbers of them",
            number(several, most_measured),
            several.words.1
        );
        return said(&why, Some(needed));
    }
    let columns = |n: u32| vec![1.0, 1.0 / f64::from(n.max(1))];
    let Some(mut observed) = Observed::of(context, group, |one| Some(columns(count(one)))) else {
        return said(&context.no_rate(group), None);
    };
    if observed.settings() < 2 {
        return said("the rates that can be used are all of one number", Some(needed(several, first)));
    }
    let fit = match Fit::of(&observed.rows) {
        Ok(fit) => fit,
        Err(why) => return said(&why.to_string(), None),
    };
    observed.remark(&fit);
    // Beyond what was measured the host may be reached: no more than the best that was measured is then sure.
    let best = observed.at(&columns(most_measured)).alone().map_or(0.0, |(_, rate)| low(&rate));
    let at = |n: u32| {
        let mut rate = observed.rate(&fit, &columns(n));
        if n > most_measured && key.placement.cores != CoreUse::Shared {
            rate.interval = rate.interval.map(|Interval { low, high }| Interval { low: low.min(best), high });
        }
        rate
    };
    let base = context.base(group.iter().rev().copied());
    let delay = |rate: &Prediction| context.delay(&base, (rate.value, 1.0));
    let enough = (1..=several.most).find(|n| {
        let rate = at(*n);
        context.is_enough(&rate, &delay(&rate))
    });
    let advised = enough.unwrap_or_else(|| best_of(several, &at));
    let nearest = group.iter().min_by_key(|one| count(one).abs_diff(advised))?;
    let mut advice = Advice {
        says: says(context, several, (advised, enough.is_some()), &at(advised)),
        meets: Some(enough.is_some()),
        point: nearest.point.index,
        key: PointKey { placement: (several.with)(&nearest.point.key.placement, advised), ..key.clone() },
        predictions: vec![at(advised)],
        model: model(&fit, several),
        derived_from: observed.points.clone(),
        extrapolated: extrapolated(several, (advised, most_measured)),
        notes: observed.notes.clone(),
    };
    let expected = delay(&advice.predictions[0]);
    context.at_load(&mut advice, expected);
    Some(Answer { question: several.question, about: about(key), says: Says::Advice(Box::new(advice)) })
}

/// Where no number is sure to be enough: the one from which on a further one brings less than a twentieth.
fn best_of(several: &Several, at: &dyn Fn(u32) -> Prediction) -> u32 {
    (1..several.most).find(|n| at(n + 1).value < 1.05 * at(*n).value).unwrap_or(several.most)
}

fn number(several: &Several, n: u32) -> String {
    format!("{n} {}", if n == 1 { several.words.0 } else { several.words.1 })
}

fn needed(several: &Several, first: &Evidence<'_>) -> Needed {
    let mut axes = vec![axis(several.axis.0, several.axis.1)];
    let key = &first.point.key;
    if several.hosted && !key.placement.deployment.has_host() {
        axes.push(axis("deployment", "\"vhost\""));
    }
    if key.wiring == "fed" {
        axes.push(axis("wiring", "\"vhost\""));
    }
    Needed { point: first.point.index, axes, methods: None }
}

fn says(
    context: &Context<'_, '_>,
    several: &Several,
    (advised, enough): (u32, bool),
    rate: &Prediction,
) -> String {
    let load = context.wanted.asked.load.map_or_else(String::new, |load| load.to_string());
    let carry = if advised == 1 { "carries" } else { "carry" };
    match enough {
        true => format!("{} {carry} {load}", number(several, advised)),
        false => format!(
            "no number up to {} is sure to carry {load}: {} are expected of {}, and more bring little",
            several.most,
            rate.quantity.show(rate.value),
            number(several, advised)
        ),
    }
}

fn model(fit: &Fit, several: &Several) -> String {
    let part = |place: usize| fit.coefficients.get(place).copied().unwrap_or(0.0);
    format!("a packet takes {:.2} ns that all share + {:.2} ns / {}", part(0), part(1), several.words.1)
}

fn extrapolated(several: &Several, (advised, most): (u32, u32)) -> Vec<String> {
    (advised > most)
        .then(|| format!("{} were not measured ({most} at most)", number(several, advised)))
        .into_iter()
        .collect()
}
