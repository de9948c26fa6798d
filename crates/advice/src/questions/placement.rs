//! Where a chain runs: on which device, in which deployment, on how many cores.
//!
//! Placements that were measured are held against one another by their rates. For a chain that was not measured, the model
//! adds up: functions inline on one core take `t = io + Σ w`, receiving and sending once and what each asks; functions that each are a
//! process on one shared core take `t = a + h × length`, all taken as alike. Processes with cores of their own are limited by the
//! slowest, which no shorter chain tells.

use super::model::{Context, Observed, about, curve, delay_at, low};
use super::{axis, unanswered};
use crate::answer::{Advice, Answer, Needed, Says};
use crate::evidence::Evidence;
use crate::fit::Fit;
use weir_trial::run::PointKey;
use weir_trial::run::advice::{Prediction, Question};
use weir_trial::{CoreUse, Nf, Placement};
use weir_units::Interval;

/// A placement with the rate that is expected of it.
struct Candidate<'e, 'r> {
    key: PointKey,
    /// The point that it is, or that its plan starts from.
    evidence: &'e Evidence<'r>,
    rate: Prediction,
    observed: Observed,
    model: String,
    extrapolated: Vec<String>,
}

pub(super) fn answers(context: &Context<'_, '_>) -> Vec<Answer> {
    // What placements of one function over the same traffic have in common.
    let strip = |key: &mut PointKey| {
        key.dut = String::new();
        key.placement = Placement::default();
        key.nf = Nf::L2Fwd;
    };
    let mut answers = Vec::new();
    for (key, group) in context.groups(strip) {
        let mut chains: Vec<Nf> = context.wanted.chain.into_iter().collect();
        if chains.is_empty() {
            let wanted = &context.wanted.points;
            let named = group.iter().filter(|one| wanted.is_empty() || wanted.contains(&one.point.index));
            named.map(|one| one.point.key.nf).for_each(|nf| {
                if !chains.contains(&nf) {
                    chains.push(nf);
                }
            });
        }
        answers
            .extend(chains.into_iter().map(|nf| of_chain(context, &PointKey { nf, ..key.clone() }, &group)));
    }
    answers
}

fn of_chain(context: &Context<'_, '_>, key: &PointKey, group: &[&Evidence<'_>]) -> Answer {
    let measured =
        group.iter().filter(|one| one.point.key.nf == key.nf).filter_map(|one| as_measured(context, one));
    let mut candidates: Vec<Candidate<'_, '_>> = measured.collect();
    if context.wanted.chain == Some(key.nf) {
        candidates.extend(added_up(context, key.nf, group));
    }
    let kinds = candidates.first().map(|first| first.observed.kind.clone());
    candidates.retain(|one| Some(&one.observed.kind) == kinds.as_ref());
    if candidates.len() < 2 && !(candidates.len() == 1 && context.wanted.chain.is_some()) {
        return alone(key, group, &candidates);
    }
    // Of those that carry the load the one with the fewest cores, then the fastest; else the fastest.
    let carries = |one: &Candidate<'_, '_>| context.carries(&one.rate) == Some(true);
    let faster = |a: &Candidate<'_, '_>, b: &Candidate<'_, '_>| low(&b.rate).total_cmp(&low(&a.rate));
    candidates.sort_by(|a, b| {
        let cheap = |one: &Candidate<'_, '_>| if carries(one) { cores(&one.key) } else { usize::MAX };
        cheap(a).cmp(&cheap(b)).then_with(|| faster(a, b))
    });
    let advice = advice(context, &candidates);
    Answer { question: Question::Placement, about: about(key), says: Says::Advice(Box::new(advice)) }
}

/// There is nothing to choose from.
fn alone(key: &PointKey, group: &[&Evidence<'_>], candidates: &[Candidate<'_, '_>]) -> Answer {
    let point = group.iter().find(|one| one.point.key.nf == key.nf).or(group.first());
    let wired = group.iter().all(|one| one.point.key.wiring != "fed");
    let needed = point.map(|one| {
        let mut axes =
            vec![axis("deployment", "[\"inline\", \"vhost\", \"vale\"]"), axis("cores", "\"shared\"")];
        if !wired {
            axes.push(axis("wiring", "\"vhost\""));
        }
        Needed { point: one.point.index, axes, methods: None }
    });
    let why = match candidates {
        [] => {
            "no placement of it has a rate that the device set, and none can be added up from its functions: that takes `l2fwd` and each function alone, inline on one device"
        }
        _ => "one placement of it was measured: there is nothing to choose from",
    };
    unanswered(Question::Placement, key, why, needed)
}

fn advice(context: &Context<'_, '_>, candidates: &[Candidate<'_, '_>]) -> Advice {
    let best = &candidates[0];
    let name = |one: &Candidate<'_, '_>| one.key.device();
    let show = |one: &Candidate<'_, '_>| format!("{}: {}", name(one), one.rate.quantity.show(one.rate.value));
    let mut notes = best.observed.notes.clone();
    let others: Vec<String> = candidates[1..].iter().map(show).collect();
    if !others.is_empty() {
        notes.push(format!("beside it: {}", others.join("; ")));
    }
    let equal: Vec<String> =
        candidates[1..].iter().filter(|one| overlap(&best.rate, &one.rate)).map(name).collect();
    if !equal.is_empty() {
        notes.push(format!("its interval does not part it from {}", equal.join(", ")));
    }
    let meets = context.carries(&best.rate);
    let of_load = match (context.wanted.asked.load, meets) {
        (Some(load), Some(true)) => format!(" carries {load} with {} core(s)", cores(&best.key)),
        (Some(load), _) => format!(" is the fastest, and is not sure to carry {load}"),
        (None, _) => " is the fastest".to_owned(),
    };
    let mut derived_from = best.observed.points.clone();
    derived_from.extend(candidates[1..].iter().flat_map(|one| one.observed.points.iter().copied()));
    derived_from.sort_unstable();
    derived_from.dedup();
    let mut advice = Advice {
        says: format!("{}{of_load}", name(best)),
        meets,
        point: best.evidence.point.index,
        key: best.key.clone(),
        predictions: vec![best.rate.clone()],
        model: best.model.clone(),
        derived_from,
        extrapolated: best.extrapolated.clone(),
        notes,
    };
    context.at_load(&mut advice, delay(context, best));
    advice
}

/// Whether the intervals of two rates overlap.
fn overlap(a: &Prediction, b: &Prediction) -> bool {
    match (a.interval, b.interval) {
        (Some(a), Some(b)) => a.low <= b.high && b.low <= a.high,
        _ => true,
    }
}

/// Cores that its processes have.
fn cores(key: &PointKey) -> usize {
    let processes = key.placement.forwarding(key.nf.members().len());
    match &key.placement.cores {
        CoreUse::Own => processes,
        CoreUse::Shared => 1,
        counted => counted.fixed().unwrap_or(1),
    }
}

fn as_measured<'e, 'r>(context: &Context<'_, '_>, evidence: &'e Evidence<'r>) -> Option<Candidate<'e, 'r>> {
    let observed = Observed::of(context, &[evidence], |_| Some(vec![1.0]))?;
    let (_, rate) = observed.alone()?;
    let model = "rates as they were measured".to_owned();
    Some(Candidate {
        key: evidence.point.key.clone(),
        evidence,
        rate,
        observed,
        model,
        extrapolated: Vec::new(),
    })
}

/// Placements of a chain that was not measured there, added up from others.
fn added_up<'e, 'r>(context: &Context<'_, '_>, nf: Nf, group: &[&'e Evidence<'r>]) -> Vec<Candidate<'e, 'r>> {
    let mut homes: Vec<(String, Placement)> = Vec::new();
    for one in group {
        let home = (one.point.key.dut.clone(), one.point.key.placement.clone());
        if !homes.contains(&home) {
            homes.push(home);
        }
    }
    let at_home = |home: &(String, Placement)| {
        let own: Vec<&'e Evidence<'r>> = group
            .iter()
            .copied()
            .filter(|one| (&one.point.key.dut, &one.point.key.placement) == (&home.0, &home.1))
            .collect();
        let is_there = own.iter().any(|one| one.point.key.nf == nf);
        if is_there { None } else { of_home(context, nf, &own) }
    };
    homes.iter().filter_map(at_home).collect()
}

fn of_home<'e, 'r>(context: &Context<'_, '_>, nf: Nf, own: &[&'e Evidence<'r>]) -> Option<Candidate<'e, 'r>> {
    let first = own.first().copied()?;
    let placement = &first.point.key.placement;
    let mut distinct: Vec<Nf> = Vec::new();
    for member in nf.members().into_iter().chain(own.iter().flat_map(|one| one.point.key.nf.members())) {
        if !distinct.contains(&member) {
            distinct.push(member);
        }
    }
    if placement.is_inline() {
        return inline(context, nf, own, &distinct);
    }
    if !matches!(placement.cores, CoreUse::Shared | CoreUse::Count(1)) {
        return None;
    }
    let columns = |nf: Nf| vec![1.0, nf.members().len() as f64];
    let mut observed = Observed::of(context, own, |one| Some(columns(one.point.key.nf)))?;
    let fit = Fit::of(&observed.rows).ok()?;
    observed.remark(&fit);
    let rate = observed.rate(&fit, &columns(nf));
    let part = |place: usize| fit.coefficients.get(place).copied().unwrap_or(0.0);
    let model =
        format!("a packet takes {:.2} ns + {:.2} ns for each function, all taken as alike", part(0), part(1));
    let extrapolated = vec![format!("{nf} was not measured there: its functions' times were added up")];
    let key = PointKey { nf, ..first.point.key.clone() };
    Some(Candidate { key, evidence: first, rate, observed, model, extrapolated })
}

/// Functions inline on one core: receiving and sending once, and what each asks.
///
/// Functions alone do not part receiving and sending from what the cheapest of them asks; a chain inline does. Without one, L2 forwarding
/// is taken for nothing else, and the interval reaches down to where it is all its own work.
fn inline<'e, 'r>(
    context: &Context<'_, '_>,
    nf: Nf,
    own: &[&'e Evidence<'r>],
    distinct: &[Nf],
) -> Option<Candidate<'e, 'r>> {
    let first = own.first().copied()?;
    let count = |nf: Nf, works: &[Nf]| -> Vec<f64> {
        let count = |work: &Nf| nf.members().iter().filter(|member| *member == work).count() as f64;
        [1.0].into_iter().chain(works.iter().map(count)).collect()
    };
    let fitted = |works: &[Nf]| {
        let mut observed = Observed::of(context, own, |one| Some(count(one.point.key.nf, works)))?;
        let fit = Fit::of(&observed.rows).ok()?;
        observed.remark(&fit);
        Some((observed, fit))
    };
    let without: Vec<Nf> = distinct.iter().copied().filter(|work| *work != Nf::L2Fwd).collect();
    let (mut observed, fit, works, parted) = match fitted(distinct) {
        Some((observed, fit)) => (observed, fit, distinct.to_vec(), true),
        None => fitted(&without).map(|(observed, fit)| (observed, fit, without, false))?,
    };
    let mut rate = observed.rate(&fit, &count(nf, &works));
    if !parted {
        let alone = |work: &Nf| fit.value(&count(*work, &works));
        let sum: f64 = nf.members().iter().map(alone).sum();
        rate.interval =
            rate.interval.map(|Interval { low, high }| Interval { low: low.min(1e9 / sum), high });
        observed.notes.push(
            "functions alone do not part receiving and sending from what `l2fwd` asks: the interval reaches down to the sum of the functions \
             alone; a chain of two inline would part them"
                .to_owned(),
        );
    }
    let part = |place: usize| fit.coefficients.get(place).copied().unwrap_or(0.0);
    let each: Vec<String> =
        works.iter().zip(1..).map(|(work, place)| format!("{:.2} ns for {work}", part(place))).collect();
    let model = format!("a packet takes {:.2} ns to receive and send, {}", part(0), each.join(", "));
    let extrapolated = vec![format!("{nf} was not measured there: its functions' times were added up")];
    let key = PointKey { nf, ..first.point.key.clone() };
    Some(Candidate { key, evidence: first, rate, observed, model, extrapolated })
}

fn delay(context: &Context<'_, '_>, best: &Candidate<'_, '_>) -> Result<Option<Prediction>, String> {
    let asked = &context.wanted.asked;
    let (Some(goal), Some(load)) = (asked.delay, asked.load) else { return Ok(None) };
    if !best.extrapolated.is_empty() {
        return Err("the chain was not measured there".to_owned());
    }
    let curve = curve(best.evidence, goal.statistic)?;
    Ok(delay_at(&curve, (load, curve.known.capacity, 1.0), goal.statistic))
}
