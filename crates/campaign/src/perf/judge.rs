//! From stored runs to a row's numbers.
//!
//! The ratio and its interval are [`weir_methods::compare`]'s: numbers taken in turns are compared pair by
//! pair, and of several starts each counts once, and all count. Trials that the machine spoilt, and points whose packets
//! were wrong, are left out or not ranked, as everywhere.

use super::{Measured, Pair, Reached, Row, Side, Target, Unit, Way};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use weir_methods::compare::{self, Comparison, Gap, Verdict, beyond_chance, compare};
use weir_methods::stored::forwarded_rates;
use weir_trial::run::{Point, PointResult, Run, StoredTrial};
use weir_units::{PERCENTILES, Spread};

/// What a step of a packet's life costs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepCost {
    /// Its name in the switch's ledger.
    pub step: String,
    /// Cycles, spread over all packets received.
    pub cycles_per_packet: f64,
}

/// The switch's first step, which every packet takes.
const RECEIVE: &str = "receive";

/// A row's numbers, out of its runs.
pub fn judge(row: &Row, runs: &[Run]) -> Measured {
    let mut remarks = Vec::new();
    for point in runs.iter().flat_map(|run| &run.points) {
        remarks.extend(complaints(point));
    }
    remarks.dedup();
    let pairs = match row.way {
        Way::Devices { .. } | Way::Starts { .. } => {
            runs.iter().filter_map(|run| devices(run, &mut remarks)).collect()
        }
        Way::Works { work, against, .. } => {
            works(runs, [work.trace, against.trace]).into_iter().collect::<Vec<Pair>>()
        }
        Way::Loads { load, against, .. } => {
            runs.iter().filter_map(|run| loads(run, [load, against])).collect()
        }
        Way::Service { .. } => Vec::new(),
    };
    // Of two works, the row's own.
    let own = match row.way {
        Way::Works { work, .. } => Some(work.trace),
        _ => None,
    };
    let never = never_settled(runs);
    finish(row, (pairs, &never), profile(runs, own), remarks)
}

/// Devices that had trials and were settled in none of them.
fn never_settled(runs: &[Run]) -> Vec<&str> {
    let points = runs.iter().flat_map(|run| &run.points);
    let never = points.filter(|point| {
        let mut counting = point.trials.iter().filter(|trial| !trial.superseded).peekable();
        counting.peek().is_some() && counting.all(|trial| trial.result.health.unsettled.is_some())
    });
    never.map(|point| point.key.dut.as_str()).collect()
}

/// A service's numbers: cycles a packet by round, of several processes.
pub fn judge_service(row: &Row, rounds: &[Vec<f64>], tsc_hz: f64, payload: u16) -> Measured {
    let Way::Service { kind, unit, .. } = row.way else {
        return Measured::unavailable(row, "it is no service's");
    };
    let number = |cycles: &f64| match unit {
        Unit::Bps => f64::from(payload) * 8.0 * tsc_hz / cycles,
        _ => cycles / tsc_hz * 1e9,
    };
    // All connections count where they are opened one after the other; a process is one number.
    let centres: Vec<f64> = rounds
        .iter()
        .filter_map(|rounds| match unit {
            Unit::Ns => Spread::of(rounds).map(|spread| spread.mean),
            _ => Spread::of(rounds).map(|spread| spread.median),
        })
        .collect();
    let numbers: Vec<f64> = centres.iter().map(number).collect();
    let limit = match row.target {
        Some(Target::AtLeast(limit) | Target::AtMost(limit)) => limit,
        _ => f64::NAN,
    };
    let pair = side(kind, None, unit, &numbers, 0, Spread::of(&centres).map(|s| s.median)).map(|weir| {
        let gap = Gap::paired_starts(&vec![limit; numbers.len()], &numbers);
        let ratio = gap.map_or(weir.median / limit, |gap| gap.ratio());
        let interval = gap.map(|gap| (gap.interval().low, gap.interval().high));
        let chance = gap.map(|gap| gap.chance());
        let pair = Pair {
            runs: Vec::new(),
            weir,
            other: None,
            ratio: Some(ratio),
            interval,
            alternated: false,
            chance,
            visible: gap.map(|gap| gap.visible()),
        };
        if unit == Unit::Ns { pair.turned() } else { pair }
    });
    finish(row, (pair.into_iter().collect(), &[]), Vec::new(), Vec::new())
}

/// Of tables measured against a base: the rows that are slower beyond chance, all of them weighed together.
pub fn regressions(rows: &[Measured]) -> Vec<&Measured> {
    let known: Vec<(&Measured, &Pair)> = rows
        .iter()
        .filter_map(|row| Some((row, row.pairs.first()?)))
        .filter(|(_, p)| p.chance.is_some())
        .collect();
    let chances: Vec<f64> = known.iter().map(|(_, pair)| pair.chance.unwrap_or(1.0)).collect();
    let slower = known
        .iter()
        .zip(beyond_chance(&chances))
        .filter(|((_, pair), beyond)| *beyond && pair.ratio.is_some_and(|ratio| ratio < 1.0));
    slower.map(|((row, _), _)| *row).collect()
}

impl Pair {
    /// The same where less is better: the ratio is turned round, so that more than 1 is better.
    fn turned(self) -> Self {
        Self {
            ratio: self.ratio.map(f64::recip),
            interval: self.interval.map(|(low, high)| (high.recip(), low.recip())),
            ..self
        }
    }
}

fn finish(
    row: &Row,
    (pairs, never_settled): (Vec<Pair>, &[&str]),
    profile: Vec<StepCost>,
    mut remarks: Vec<String>,
) -> Measured {
    let (pairs, mut missing) = deciding_first(row, pairs);
    // What never settles has no rate: of two settings of one device, the one that does is the better.
    let settled_otherwise = |rival: &str| {
        let device = |name: &str| name.split(':').next().unwrap_or_default().to_owned();
        pairs.iter().any(|pair| {
            let other = pair.other.as_ref().filter(|_| pair.ratio.is_some());
            other.is_some_and(|other| device(&other.name) == device(rival))
        })
    };
    missing.retain(|rival| {
        let worse = never_settled.contains(rival) && settled_otherwise(rival);
        if worse {
            remarks.push(format!("{rival} never settled: its other settings decide"));
        }
        !worse
    });
    if pairs.is_empty() && remarks.is_empty() {
        return Measured { profile, ..Measured::unavailable(row, "its runs hold no result") };
    }
    // A quoted figure decides nothing: it was not measured here.
    let decides = pairs.first().filter(|_| missing.is_empty());
    if !missing.is_empty() && !pairs.is_empty() {
        remarks.push(format!("not decided: {} has no ratio here", missing.join(" and ")));
    }
    let target = row.target.map(|target| Reached::new(&target, row.target_says(), decides));
    let (row, work, quoted) = (row.id.to_owned(), row.work.to_owned(), row.quoted());
    Measured { row, work, pairs, quoted, target, profile, remarks }
}

/// The pairs, that of the best rival first, and the rivals that were not measured or are not ranked: without
/// them nobody knows which is the best.
fn deciding_first(row: &Row, mut pairs: Vec<Pair>) -> (Vec<Pair>, Vec<&'static str>) {
    // Beside a base there are no peers.
    let is_base = |pair: &Pair| pair.other.as_ref().is_some_and(|other| other.name.contains("at="));
    if pairs.iter().any(is_base) {
        return (pairs, Vec::new());
    }
    let place_of = |rival: &str| {
        pairs.iter().position(|pair| {
            pair.ratio.is_some() && pair.other.as_ref().is_some_and(|other| other.name == rival)
        })
    };
    let places: Vec<Option<usize>> = row.rivals().iter().map(|rival| place_of(rival)).collect();
    let missing: Vec<&str> = row
        .rivals()
        .iter()
        .zip(&places)
        .filter(|(_, place)| place.is_none())
        .map(|(rival, _)| *rival)
        .collect();
    let ratio = |place: &usize| pairs[*place].ratio.unwrap_or(f64::INFINITY);
    let best = places.into_iter().flatten().min_by(|a, b| ratio(a).total_cmp(&ratio(b)));
    if let Some(best) = best {
        pairs[..=best].rotate_right(1);
    }
    (pairs, missing)
}

/// What is wrong with a point.
fn complaints(point: &Point) -> Vec<String> {
    let who = &point.key.dut;
    let error = point.error.as_ref().map(|error| format!("{who}: {error}"));
    let wrong = point.packets.as_ref().filter(|packets| !packets.is_right());
    let wrong = wrong.map(|packets| format!("{who}: its packets are wrong, so it is not ranked: {packets}"));
    let unchecked = point.packets.is_none() && point.error.is_none() && point.finished;
    let unchecked = unchecked.then(|| format!("{who}: its packets were not compared"));
    let counting = || point.trials.iter().filter(|trial| !trial.superseded);
    let spoilt: Vec<_> = counting().filter_map(StoredTrial::spoilt_by).collect();
    let spoilt = spoilt.first().map(|finding| {
        format!("{who}: {} of {} trials are left out: {}", spoilt.len(), counting().count(), finding.says)
    });
    let audit = point.packets.as_ref().and_then(|packets| packets.audit.as_ref());
    let audit = audit.map(|audit| format!("{who}: audited: {audit}"));
    error.into_iter().chain(wrong).chain(unchecked).chain(spoilt).chain(audit).collect()
}

/// Two devices of a run.
fn devices(run: &Run, remarks: &mut Vec<String>) -> Option<Pair> {
    let [weir, other] = run.points.as_slice() else { return None };
    let numbers = rates(weir);
    let weir_side = rate_side(weir, &weir.key.dut, &numbers)?;
    let Some(other_side) = rate_side(other, &other.key.dut, &rates(other)) else {
        return Some(Pair {
            runs: vec![run.name.clone()],
            weir: weir_side,
            other: None,
            ratio: None,
            interval: None,
            alternated: false,
            chance: None,
            visible: None,
        });
    };
    let sides = [&other.key.dut, &weir.key.dut].map(|dut| compare::Side { run, dut: Some(dut.as_str()) });
    let Comparison { rows, alternated, .. } = compare(sides[0], sides[1], None);
    let found = rows.into_iter().next()?;
    if let Verdict::NotRanked(why) = &found.verdict {
        remarks.push(format!("not ranked: {why}"));
    }
    let ranked = !matches!(found.verdict, Verdict::NotRanked(_));
    Some(Pair {
        runs: vec![run.name.clone()],
        weir: weir_side,
        other: Some(other_side),
        ratio: found.ratio.filter(|_| ranked),
        interval: found.interval.filter(|_| ranked).map(|interval| (interval.low, interval.high)),
        alternated,
        chance: found.chance,
        visible: found.visible,
    })
}

/// The same device at two works, each round a run of both.
fn works(runs: &[Run], traces: [&str; 2]) -> Option<Pair> {
    let mut of = [Vec::new(), Vec::new()];
    let mut centres = [Vec::new(), Vec::new()];
    let mut points = [None, None];
    for run in runs {
        let both = traces.map(|trace| run.points.iter().find(|point| point.key.trace == trace));
        let [Some(one), Some(other)] = both else { continue };
        let numbers = [one, other].map(rates);
        let [Some(a), Some(b)] = [0, 1].map(|side| compare::centre(&values(&numbers[side]))) else {
            continue;
        };
        centres[0].push(a);
        centres[1].push(b);
        points = [Some(one), Some(other)];
        for (all, own) in of.iter_mut().zip(numbers) {
            all.extend(own);
        }
    }
    let [Some(one), Some(other)] = points else { return None };
    let gap = Gap::paired_starts(&centres[1], &centres[0]);
    let ratio = compare::centre_of_starts(&centres[0])
        .zip(compare::centre_of_starts(&centres[1]))
        .map(|(a, b)| a / b);
    Some(Pair {
        runs: runs.iter().map(|run| run.name.clone()).collect(),
        weir: rate_side(one, traces[0], &of[0])?,
        other: rate_side(other, traces[1], &of[1]),
        ratio: gap.map(|gap| gap.ratio()).or(ratio),
        interval: gap.map(|gap| (gap.interval().low, gap.interval().high)),
        alternated: runs.len() > 1,
        chance: gap.map(|gap| gap.chance()),
        visible: gap.map(|gap| gap.visible()),
    })
}

/// The median delay at two loads, the second one's over the first one's.
fn loads(run: &Run, labels: [&str; 2]) -> Option<Pair> {
    let point = run.points.first()?;
    let median = PERCENTILES.iter().position(|percent| *percent == 50.0)?;
    let delays = labels.map(|wanted| {
        let at = |result: &PointResult| {
            let PointResult::Latency(result) = result else { return None };
            let trial = point.trial(result.trial).filter(|_| result.label == wanted)?;
            let latency = trial.result.latency.as_ref().filter(|_| trial.spoilt_by().is_none())?;
            Some(latency.percentiles[median].0 as f64)
        };
        point.results.iter().filter_map(at).collect::<Vec<f64>>()
    });
    let gap = Gap::paired_starts(&delays[1], &delays[0]);
    let [weir, other] = [0, 1]
        .map(|place| side(labels[place], point.dut_version.as_deref(), Unit::Ns, &delays[place], 0, None));
    let (weir, other) = (weir?, other?);
    let pair = Pair {
        runs: vec![run.name.clone()],
        ratio: Some(gap.map_or(weir.median / other.median, |gap| gap.ratio())),
        weir,
        other: Some(other),
        interval: gap.map(|gap| (gap.interval().low, gap.interval().high)),
        alternated: true,
        chance: gap.map(|gap| gap.chance()),
        visible: gap.map(|gap| gap.visible()),
    };
    Some(pair.turned())
}

/// A forwarded rate and its trial; nothing in the place of a rate that was spoilt.
type Rate<'a> = (Option<f64>, &'a StoredTrial);

fn rates(point: &Point) -> Vec<Rate<'_>> {
    let mut found = Vec::new();
    for (result, trials) in forwarded_rates(point) {
        let each = result.rates.iter().zip(trials);
        found.extend(each.map(|(rate, trial)| (Some(rate.0).filter(|_| trial.spoilt_by().is_none()), trial)));
    }
    found
}

fn values(rates: &[Rate<'_>]) -> Vec<f64> {
    rates.iter().filter_map(|(rate, _)| *rate).collect()
}

/// A device's rates. Where every trial was spoilt they are shown all the same, and rank nothing.
fn rate_side(point: &Point, name: &str, rates: &[Rate<'_>]) -> Option<Side> {
    let values = values(rates);
    if values.is_empty() {
        let spoilt: Vec<f64> = rates.iter().map(|(_, trial)| trial.result.forwarded_rate().0).collect();
        let side = side(name, point.dut_version.as_deref(), Unit::Pps, &spoilt, rates.len(), None)?;
        return Some(Side { count: 0, ..side });
    }
    let cycles: Vec<f64> = rates
        .iter()
        .filter(|(rate, _)| rate.is_some())
        .filter_map(|(_, trial)| trial.result.dut.as_ref()?.cycles_per_packet)
        .collect();
    let cycles = Spread::of(&cycles).map(|spread| spread.median);
    side(name, point.dut_version.as_deref(), Unit::Pps, &values, rates.len() - values.len(), cycles)
}

fn side(
    name: &str,
    version: Option<&str>,
    unit: Unit,
    values: &[f64],
    left_out: usize,
    cycles_per_packet: Option<f64>,
) -> Option<Side> {
    let Spread { median, min, max, .. } = Spread::of(values)?;
    let (name, version) = (name.to_owned(), version.map(str::to_owned));
    Some(Side { name, version, unit, median, min, max, count: values.len(), left_out, cycles_per_packet })
}

/// Cycles by step of the switch's trials, those of each run's first point of the switch, with that trace
/// where one is named: what a row is about.
fn profile(runs: &[Run], trace: Option<&str>) -> Vec<StepCost> {
    let mut sums: BTreeMap<&str, [u64; 2]> = BTreeMap::new();
    for run in runs {
        let is_own = |point: &&Point| {
            point.key.dut.starts_with("weir") && trace.is_none_or(|trace| point.key.trace == trace)
        };
        let Some(point) = run.points.iter().find(is_own) else { continue };
        for trial in point.trials.iter().filter(|trial| !trial.superseded) {
            let details = trial.result.dut.iter().flat_map(|dut| &dut.details);
            for (name, count) in details {
                let Some(rest) = name.strip_prefix("steps ") else { continue };
                for (place, what) in [" packets", " cycles"].iter().enumerate() {
                    if let Some(step) = rest.strip_suffix(what) {
                        sums.entry(step).or_default()[place] += count;
                    }
                }
            }
        }
    }
    let received = sums.get(RECEIVE).map_or(0, |[packets, _]| *packets);
    let mut steps: Vec<StepCost> = sums
        .into_iter()
        .filter(|(_, [_, cycles])| received > 0 && *cycles > 0)
        .map(|(step, [_, cycles])| StepCost {
            step: step.to_owned(),
            cycles_per_packet: cycles as f64 / received as f64,
        })
        .collect();
    steps.sort_by(|a, b| b.cycles_per_packet.total_cmp(&a.cycles_per_packet));
    steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf::rows;

    /// Weir beside a rival that it forwards so many times as much as, or that is not ranked.
    fn beside(rival: &str, ratio: Option<f64>) -> Pair {
        let of = |name: &str| side(name, None, Unit::Pps, &[1e6], 0, None).unwrap();
        Pair {
            runs: Vec::new(),
            weir: of("weir"),
            other: Some(of(rival)),
            ratio,
            interval: None,
            alternated: true,
            chance: None,
            visible: None,
        }
    }

    /// Whether the row with this outcome of the default Open vSwitch is decided, and the remarks.
    fn decided(default: Option<f64>, never_settled: &[&str]) -> (Option<bool>, String) {
        let row = rows::find("a-100000").unwrap();
        let pairs = vec![beside("ovs-dpdk", default), beside("ovs-dpdk:tuned", Some(9.0))];
        let measured = finish(row, (pairs, never_settled), Vec::new(), Vec::new());
        (measured.target.unwrap().reached, measured.remarks.join("; "))
    }

    #[test]
    fn settings_with_which_a_rival_never_settles_leave_the_decision_to_its_others() {
        let (reached, remarks) = decided(None, &["ovs-dpdk"]);
        assert_eq!(reached, Some(true));
        assert!(remarks.contains("ovs-dpdk never settled"), "{remarks}");
        let (reached, remarks) = decided(None, &[]);
        assert_eq!(reached, None, "it was not measured for another reason");
        assert!(remarks.contains("not decided: ovs-dpdk"), "{remarks}");
        assert_eq!(decided(Some(5.0), &[]).0, Some(false), "the better one decides");
        // Where neither settles, nothing is decided.
        let row = rows::find("a-100000").unwrap();
        let both = ["ovs-dpdk", "ovs-dpdk:tuned"];
        let neither =
            finish(row, (both.map(|name| beside(name, None)).to_vec(), &both), Vec::new(), Vec::new());
        assert_eq!(neither.target.unwrap().reached, None);
    }
}
