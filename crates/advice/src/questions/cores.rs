//! The fewest cores that carry a load through a chain of processes.
//!
//! Processes on one core take turns, so that their times add up; of several cores the busiest decides. Processes are dealt
//! out to cores in turn, the host first, as plans do it. How long each process takes, its thread's cycles at the greatest load
//! tell; one factor, fitted to the rates that were measured, stands for what cycles do not have in them (changes of
//! process, caches). Where processes do not tell their cycles, only numbers of cores that were measured are advised.

use super::model::{Context, Observed, about};
use super::{NO_LOAD, axis, unanswered};
use crate::answer::{Advice, Answer, Needed, Says};
use crate::evidence::Evidence;
use crate::fit::Fit;
use weir_trial::run::PointKey;
use weir_trial::run::advice::{Prediction, Question};
use weir_trial::{CoreUse, Placement};

pub(super) fn answers(context: &Context<'_, '_>) -> Vec<Answer> {
    let groups = context.groups(|key| key.placement.cores = CoreUse::Own);
    let chains = groups.iter().filter(|(key, _)| !key.placement.is_inline());
    chains.filter_map(|(key, group)| of_group(context, key, group)).collect()
}

/// Cores of a placement of so many processes.
fn cores(placement: &Placement, processes: usize) -> usize {
    match &placement.cores {
        CoreUse::Own => processes,
        CoreUse::Shared => 1,
        counted => counted.fixed().unwrap_or(1),
    }
}

/// Time of the busiest of so many cores, in nanoseconds a packet.
fn busiest(times: &[f64], cores: usize) -> f64 {
    let mut busy = vec![0.0; cores.max(1)];
    times.iter().enumerate().for_each(|(process, time)| busy[process % cores.max(1)] += time);
    busy.into_iter().fold(f64::MIN_POSITIVE, f64::max)
}

fn of_group(context: &Context<'_, '_>, key: &PointKey, group: &[&Evidence<'_>]) -> Option<Answer> {
    let said = |why: &str, needed| Some(unanswered(Question::Cores, key, why, needed));
    let first = group.first()?;
    if context.wanted.asked.load.is_none() {
        return said(NO_LOAD, None);
    }
    let processes = key.placement.forwarding(key.nf.members().len());
    let of = |one: &Evidence<'_>| cores(&one.point.key.placement, processes);
    let hertz = context.view.hertz();
    let with_times = group.iter().filter_map(|one| Some((of(one), one.processes(hertz?)?)));
    let times = with_times.min_by_key(|(cores, _)| *cores).map(|(_, times)| times);
    let times = times.filter(|times| times.len() == processes);
    let measured: Vec<usize> = group.iter().map(|one| of(one)).collect();
    let columns = |n: usize| match &times {
        Some(times) => vec![busiest(times, n)],
        // Each number stands for itself.
        None => measured.iter().map(|one| f64::from(u8::from(*one == n))).collect(),
    };
    let Some(mut observed) = Observed::of(context, group, |one| Some(columns(of(one)))) else {
        return said(&context.no_rate(group), None);
    };
    if times.is_none() && measured.iter().all(|one| *one == measured[0]) {
        let axes = vec![axis("cores", &listed(processes))];
        let needed = Needed { point: first.point.index, axes, methods: None };
        let why = "the processes do not tell their cycles, and all points have the same number of cores";
        return said(why, Some(needed));
    }
    let rates = Rates::of(&mut observed, times.is_some())?;
    let numbers: Vec<usize> = if times.is_some() { (1..=processes).collect() } else { sorted(&measured) };
    let base = context.base(group.iter().copied());
    let delay = |rate: &Prediction| context.delay(&base, (rate.value, 1.0));
    let enough = numbers.iter().copied().find(|n| {
        let rate = rates.at(&observed, *n, &columns);
        rate.is_some_and(|rate| context.is_enough(&rate, &delay(&rate)))
    });
    let advised = match enough {
        Some(n) => n,
        None => most(&numbers, |n| rates.at(&observed, n, &columns).map_or(0.0, |rate| rate.value))?,
    };
    let rate = rates.at(&observed, advised, &columns)?;
    let nearest = group.iter().min_by_key(|one| of(one).abs_diff(advised))?;
    let cores_of = u32::try_from(advised).map(CoreUse::Count).unwrap_or(CoreUse::Own);
    let placement = match measured.contains(&advised) {
        true => nearest.point.key.placement.clone(),
        false => Placement { cores: cores_of, ..nearest.point.key.placement.clone() },
    };
    let mut advice = Advice {
        says: says(context, (advised, enough.is_some()), &rate),
        meets: Some(enough.is_some()),
        point: nearest.point.index,
        key: PointKey { placement, ..key.clone() },
        predictions: vec![rate],
        model: model(times.as_deref(), &rates, advised),
        derived_from: observed.points.clone(),
        extrapolated: extrapolated(&measured, advised),
        notes: observed.notes.clone(),
    };
    let expected = delay(&advice.predictions[0]);
    context.at_load(&mut advice, expected);
    Some(Answer { question: Question::Cores, about: about(key), says: Says::Advice(Box::new(advice)) })
}

/// A plan's list of numbers of cores, from one to all.
fn listed(processes: usize) -> String {
    let numbers: Vec<String> = (1..=processes.min(8)).map(|n| n.to_string()).collect();
    format!("[{}]", numbers.join(", "))
}

fn sorted(measured: &[usize]) -> Vec<usize> {
    let mut sorted = measured.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    sorted
}

/// The number with the greatest rate; of equal ones the least.
fn most(numbers: &[usize], rate: impl Fn(usize) -> f64) -> Option<usize> {
    numbers.iter().copied().reduce(|best, n| if rate(n) > 1.001 * rate(best) { n } else { best })
}

/// Rates by number of cores: of the model, or as they were measured.
enum Rates {
    Model(Fit),
    Measured,
}

impl Rates {
    fn of(observed: &mut Observed, has_times: bool) -> Option<Self> {
        if !has_times {
            return Some(Self::Measured);
        }
        let fit = Fit::of(&observed.rows).ok()?;
        observed.remark(&fit);
        Some(Self::Model(fit))
    }

    fn at(
        &self,
        observed: &Observed,
        cores: usize,
        columns: &dyn Fn(usize) -> Vec<f64>,
    ) -> Option<Prediction> {
        let x = columns(cores);
        match self {
            Self::Model(fit) => Some(observed.rate(fit, &x)),
            Self::Measured => observed.at(&x).alone().map(|(_, prediction)| prediction),
        }
    }
}

fn says(context: &Context<'_, '_>, (advised, enough): (usize, bool), rate: &Prediction) -> String {
    let load = context.wanted.asked.load.map_or_else(String::new, |load| load.to_string());
    let cores = if advised == 1 { "1 core".to_owned() } else { format!("{advised} cores") };
    match enough {
        true => {
            format!("{cores} for its processes {} {load}", if advised == 1 { "carries" } else { "carry" })
        }
        false => format!(
            "no number of cores is sure to carry {load}: {} is expected of {cores}, and more bring nothing",
            rate.quantity.show(rate.value)
        ),
    }
}

fn model(times: Option<&[f64]>, rates: &Rates, advised: usize) -> String {
    let (Some(times), Rates::Model(fit)) = (times, rates) else {
        return "rates as they were measured".to_owned();
    };
    let each: Vec<String> = times.iter().map(|time| format!("{time:.1}")).collect();
    format!(
        "processes take {} ns a packet, the busiest of {advised} core(s) {:.1} ns, times {:.3}",
        each.join(", "),
        busiest(times, advised),
        fit.coefficients.first().copied().unwrap_or(1.0)
    )
}

fn extrapolated(measured: &[usize], advised: usize) -> Vec<String> {
    let said = || format!("{advised} core(s) were not measured: their share of the processes was added up");
    (!measured.contains(&advised)).then(said).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_are_dealt_out_in_turn_the_host_first() {
        let times = [150.0, 180.0, 120.0];
        assert_eq!((busiest(&times, 1), busiest(&times, 2), busiest(&times, 3)), (450.0, 270.0, 180.0));
        assert_eq!(listed(3), "[1, 2, 3]");
    }
}
