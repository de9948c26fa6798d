//! Verdicts as cells of the tables that `weir bench` and `weir show` print.

use std::fmt::Write as _;
use weir_trial::Latency;
use weir_trial::run::{
    BackToBackResult, CurveResult, CurveStep, FrameLossResult, LatencyResult, MrrResult, PointKey,
    PointResult, Saturation, SoakResult, Soaked, ThroughputResult,
};
use weir_units::{Nanos, Pps, Ratio};

/// A verdict in a line. `latency` gives the delays of a trial by its number.
pub(crate) fn cell<'a>(
    key: &PointKey,
    result: &PointResult,
    latency: &dyn Fn(u32) -> Option<&'a Latency>,
) -> String {
    match result {
        PointResult::Throughput(ThroughputResult {
            goal,
            throughput,
            lower,
            upper,
            irregular,
            estimate,
            trials,
            ..
        }) => {
            let show = |bound: &Option<Pps>| bound.map_or_else(|| "none".to_owned(), |rate| rate.to_string());
            let mut text = match (throughput, estimate) {
                (None, Some(estimate)) => format!("{goal:<8} estimate: {estimate}"),
                _ => format!("{goal:<8} {:>11} [{}, {}]", show(throughput), show(lower), show(upper)),
            };
            if let Some(rate) = throughput {
                let share = rate.0 / key.theoretical().0 * 100.0;
                let _ = write!(text, " · {share:.0} % of {}", key.line_rate);
            }
            let _ = write!(text, " · {}", count(*trials as usize));
            if let Some(reason) = irregular {
                let _ = write!(text, " · irregular: {reason}");
            }
            text
        }
        PointResult::Mrr(MrrResult { rates, mean, deviation, cycles_per_packet, .. }) => {
            let cycles =
                cycles_per_packet.map_or(String::new(), |cycles| format!(" · {cycles:.1} cycles/packet"));
            format!("{:<8} {:>11} ± {deviation} · {}{cycles}", "mrr", mean.to_string(), count(rates.len()))
        }
        PointResult::Latency(LatencyResult { label, load, trial, floor }) => {
            let floor = floor.map_or_else(String::new, |floor| format!(" · floor p50 {}", floor.p50));
            format!("latency  {}{floor} at {label} ({load})", percentiles(latency(*trial)))
        }
        PointResult::LatencyCurve(CurveResult { steps, saturation, knee, .. }) => {
            curve(steps, saturation, *knee, latency)
        }
        PointResult::FrameLoss(FrameLossResult { steps, zero_loss, .. }) => {
            let greatest = steps.first().map_or_else(String::new, |step| {
                format!("{} lost at {}", step.loss_ratio, percent(step.share))
            });
            let ends = zero_loss.map_or_else(
                || "no two trials without loss".to_owned(),
                |share| format!("nothing from {} of the line down", percent(share)),
            );
            format!("loss     {greatest} · {ends} · {}", count(steps.len()))
        }
        PointResult::BackToBack(BackToBackResult { bursts, implied, corrected, invalid, .. }) => {
            let length = bursts.as_ref().map(|bursts| {
                let searches = bursts.frames.len();
                format!("{:.1} frames ± {:.1} of {searches} searches", bursts.mean, bursts.deviation)
            });
            let buffer = implied
                .zip(*corrected)
                .map(|(implied, corrected)| format!("buffer of {corrected} (implied {implied})"));
            let invalid = invalid.as_ref().map(|why| format!("not valid: {why}"));
            let parts: Vec<String> = [length, buffer, invalid].into_iter().flatten().collect();
            format!("bursts   {}", parts.join(" · "))
        }
        PointResult::Soak(SoakResult { label, load, slice, found, .. }) => soak(label, *load, *slice, found),
    }
}

/// A share of the line without needless decimals.
pub(crate) fn percent(share: Ratio) -> String {
    format!("{} %", (share.0 * 1e4).round() / 100.0)
}

fn curve<'a>(
    steps: &[CurveStep],
    saturation: &Saturation,
    knee: Option<Pps>,
    latency: &dyn Fn(u32) -> Option<&'a Latency>,
) -> String {
    let knee = knee.map_or_else(
        || "no knee".to_owned(),
        |load| {
            let step = steps.iter().find(|step| step.load == load);
            let median = step.and_then(|step| latency(step.trial)).map(|latency| latency.percentiles[0]);
            let median = median.map_or_else(String::new, |median| format!(" (p50 {median})"));
            format!("knee at {load}{median}")
        },
    );
    format!("curve    {knee} · {} · {}", saturates(saturation), count(steps.len()))
}

/// Where a curve begins to lose packets, in words.
pub(crate) fn saturates(saturation: &Saturation) -> String {
    match (saturation.lower, saturation.upper) {
        (Some(lower), Some(upper)) => format!("saturates in [{lower}, {upper}]"),
        (Some(lower), None) => format!("not saturated at {lower}"),
        (None, Some(least)) => format!("loses more than {} from {least} on", saturation.loss_ratio),
        (None, None) => "no loads".to_owned(),
    }
}

fn soak(label: &str, load: Pps, slice: Nanos, found: &Soaked) -> String {
    let slices = found.trials.len();
    let loss = if found.intended == 0 {
        "no slice is valid".to_owned()
    } else if found.lost == 0 {
        "no loss".to_owned()
    } else {
        let ratio = found.lost as f64 / found.intended.max(1) as f64;
        let slices = if found.lossy.len() == 1 { "slice" } else { "slices" };
        format!("{} lost ({ratio:.1e}) in {} {slices}", found.lost, found.lossy.len())
    };
    let clean = format!("longest without {}", length(found.longest_clean));
    let invalid =
        if found.invalid.is_empty() { String::new() } else { format!(" · {} invalid", found.invalid.len()) };
    format!("soak     {loss} · {clean} · {slices} × {slice} at {label} ({load}){invalid}")
}

/// A length of time as people say it: `45 s`, `12 min`, `3 h 20 min`.
pub(crate) fn length(time: Nanos) -> String {
    let seconds = time.seconds();
    let minutes = (seconds / 60.0).round() as u64;
    match minutes {
        _ if seconds < 120.0 => time.to_string(),
        0..120 => format!("{minutes} min"),
        _ => format!("{} h {} min", minutes / 60, minutes % 60),
    }
}

fn percentiles(latency: Option<&Latency>) -> String {
    latency.map_or_else(
        || "nothing received".to_owned(),
        |latency| {
            let [p50, _, p99, p99_9, _] = latency.percentiles;
            format!("p50 {p50} · p99 {p99} · p99.9 {p99_9} · max {}", latency.max)
        },
    )
}

/// `1 trial`, `2 trials`.
pub(crate) fn count(trials: usize) -> String {
    format!("{trials} trial{}", if trials == 1 { "" } else { "s" })
}

/// A point's size: bytes where it is a number.
pub(crate) fn size(key: &PointKey) -> String {
    if key.size.parse::<u32>().is_ok() { format!("{} B", key.size) } else { key.size.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_soak_without_a_valid_slice_does_not_claim_to_have_lost_nothing() {
        let found = |intended, lost: u64, invalid: usize| Soaked {
            trials: vec![0, 1],
            invalid: vec![0; invalid],
            lossy: vec![1; usize::from(lost > 0)],
            intended,
            lost,
            longest_clean: Nanos(0),
            under_load: Ratio(1.0),
            drift: None,
        };
        let said = |found| soak("1Mpps", Pps(1e6), Nanos(Nanos::PER_SECOND), &found);
        assert!(
            said(found(0, 0, 2)).contains("no slice is valid") && said(found(0, 0, 2)).contains("2 invalid")
        );
        assert!(said(found(1_000_000, 0, 1)).contains("no loss"));
        assert!(said(found(1_000_000, 5, 0)).contains("5 lost (5.0e-6) in 1 slice ·"));
    }
}
