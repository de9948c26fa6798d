//! The top of the page in words: what was found, in cards that compare like with like.
//!
//! A card holds results of one network function over one wiring, with one trace in as many directions,
//! and for each frame size that it shows one result a device, of the same goal. Of repeats it shows the
//! median. A device without a valid result there shows its estimate, or says why it has none.

use crate::digest::{Digest, Entry};
use crate::sections::cycles::Cost;
use crate::sections::found::{Found, Greatest, bounds};
use crate::units::{number, percent};
use maud::{Markup, html};
use std::collections::BTreeSet;
use weir_trial::run::{Estimate, LatencyResult, PointResult};
use weir_trial::{Limit, Limiter};
use weir_units::{Pps, Spread};

/// One number a device, the same for all in a card.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Metric {
    Goal(String),
    Mrr,
}

/// A device's result at one point: of repeats the median.
struct Best<'a> {
    rate: Pps,
    /// How it was found, with its interval or the spread of its repeats.
    how: String,
    /// Whether there was a wire to compare with.
    wired: bool,
    /// Who limits it, where that is known.
    limit: Option<&'a Limit>,
    /// Why it is irregular, where it is.
    irregular: Option<&'a str>,
}

/// The best results, a card for everything that may be compared.
pub(crate) fn findings(digest: &Digest<'_>) -> Markup {
    html! {
        section id="findings" {
            h2 { "What was found" }
            @if digest.entries.is_empty() { p { "Nothing was measured: no run here holds a point." } }
            div class="cards" { @for entries in alike(digest) { (card(digest, &entries)) } }
        }
    }
}

/// Entries that may be compared with each other, in the order of their measurement.
fn alike<'a>(digest: &Digest<'a>) -> Vec<Vec<Entry<'a>>> {
    let mut groups: Vec<Vec<Entry<'a>>> = Vec::new();
    for nf in digest.functions() {
        for entry in digest.of(nf) {
            let same = |group: &&mut Vec<Entry<'a>>| {
                let (a, b) = (&group[0].point.key, &entry.point.key);
                (a.nf, &a.wiring, &a.trace, a.directions) == (b.nf, &b.wiring, &b.trace, b.directions)
                    && a.huge_pages == b.huge_pages
                    && a.line_rate == b.line_rate
            };
            match groups.iter_mut().find(same) {
                Some(group) => group.push(entry),
                None => groups.push(vec![entry]),
            }
        }
    }
    groups
}

fn card(digest: &Digest<'_>, entries: &[Entry<'_>]) -> Markup {
    let key = &entries[0].point.key;
    let directions = if key.directions == 1 { "1 direction" } else { "2 directions" };
    let metric = metric(entries);
    let sizes = sizes(entries, &metric);
    html! {
        article class="card" {
            h3 { (key.nf) }
            p class="how" { (key.wiring) " · " (key.trace) " · " (directions) }
            @if sizes.is_empty() { (without_rate(digest, entries)) }
            @for size in &sizes {
                h4 { (size) }
                ul { @for entry in entries.iter().filter(|entry| entry.size() == *size) {
                    li { (result(digest, entry, &metric)) }
                } }
            }
        }
    }
}

/// A card without a rate: why none was found, or, where no method looked for one, what was found instead.
fn without_rate(digest: &Digest<'_>, entries: &[Entry<'_>]) -> Markup {
    let failures = failures(entries);
    let mut results = entries.iter().flat_map(|entry| &entry.point.results);
    let looked = results.any(|result| Found::of(result).is_some() || Greatest::of(result).is_some());
    html! {
        @if looked || !failures.is_empty() { p { "No valid rate was found" (failures) "." } }
        @else {
            p { "No method of this run looks for a rate." }
            ul { @for entry in entries {
                li { p { (digest.subjects[entry.subject]) ", " (entry.size()) } (aside(entry)) }
            } }
        }
    }
}

/// The strictest goal that any of them was searched for, else the forwarded rate.
fn metric(entries: &[Entry<'_>]) -> Metric {
    let found = entries.iter().flat_map(|entry| entry.point.results.iter().filter_map(Found::of));
    found
        .min_by(|a, b| a.loss_ratio.0.total_cmp(&b.loss_ratio.0))
        .map_or(Metric::Mrr, |found| Metric::Goal(found.goal.to_owned()))
}

/// The sizes to show: of those at which most devices have a result, or where none has one an estimate, the least
/// and the greatest, which are the hardest in packets and in bits.
fn sizes(entries: &[Entry<'_>], metric: &Metric) -> Vec<String> {
    let ranked = sizes_of(entries, |entry| best(entry, metric).is_some());
    if ranked.is_empty() { sizes_of(entries, |entry| estimate(entry, metric).is_some()) } else { ranked }
}

/// The same of those entries that have what is asked for.
fn sizes_of(entries: &[Entry<'_>], has: impl Fn(&Entry<'_>) -> bool) -> Vec<String> {
    let mut counted: Vec<(f64, String, usize)> = Vec::new();
    for entry in entries.iter().filter(|entry| has(entry)) {
        match counted.iter_mut().find(|(_, size, _)| *size == entry.size()) {
            Some((.., devices)) => *devices += 1,
            None => counted.push((entry.bytes(), entry.size(), 1)),
        }
    }
    let most = counted.iter().map(|(.., devices)| *devices).max().unwrap_or(0);
    counted.retain(|(.., devices)| *devices == most);
    counted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut shown: Vec<String> = counted.into_iter().map(|(_, size, _)| size).collect();
    if shown.len() > 2 {
        shown.drain(1..shown.len() - 1);
    }
    shown
}

fn result(digest: &Digest<'_>, entry: &Entry<'_>, metric: &Metric) -> Markup {
    let subject = &digest.subjects[entry.subject];
    html! {
        @match (best(entry, metric), estimate(entry, metric)) {
            (Some(best), _) => {
                p { (subject) " " strong { (best.rate) } (badges(&best)) span class="how" { (best.how) (of_wire(entry, &best)) } }
                (aside(entry))
            }
            (None, Some((goal, estimate))) => p {
                (subject) " " span class="estimate" { (estimate) } " "
                span class="badge invalid" title=(estimate.reason) { "estimate" }
                span class="how" { (goal) ": " (estimate.reason) }
            },
            (None, None) => p { (subject) " no valid result" (failures(std::slice::from_ref(entry))) },
        }
    }
}

/// What is known of an entry whose search was not settled, and of which goal; nothing where its trials forbid to rank it.
fn estimate<'a>(entry: &Entry<'a>, metric: &Metric) -> Option<(&'a str, &'a Estimate)> {
    let Metric::Goal(goal) = metric else { return None };
    let mut found = entry.point.results.iter().filter_map(Found::of);
    let found = found.find(|found| found.goal == goal.as_str() && !found.is_invalid(entry))?;
    Some((found.goal, found.estimate?))
}

fn of_wire(entry: &Entry<'_>, best: &Best<'_>) -> String {
    if !best.wired {
        return String::new();
    }
    format!("; {}\u{a0}of\u{a0}{}", percent(entry.of_theoretical(best.rate)), entry.wire_name())
}

/// Small labels: whether it is irregular, and who limits it.
fn badges(best: &Best<'_>) -> Markup {
    html! {
        @if let Some(why) = best.irregular { " " span class="badge invalid" title=(why) { "irregular" } }
        @if let Some(limit) = best.limit {
            @let doubtful = matches!(limit.by, Limiter::Tester | Limiter::Machine);
            " " span class=(if doubtful { "badge tester" } else { "badge" }) title=(limit.why) {
                "limited by " (limit.by.name())
            }
        }
    }
}

fn failures(entries: &[Entry<'_>]) -> String {
    let doubts = entries.iter().flat_map(|entry| {
        let invalid = entry.point.results.iter().filter_map(|result| entry.point.doubt(result));
        invalid.filter(|doubt| doubt.invalid).map(|doubt| doubt.why)
    });
    let irregular = entries.iter().flat_map(|entry| {
        let found = entry.point.results.iter().filter_map(Found::of);
        found
            .filter(|found| found.throughput.is_none())
            .filter_map(|found| found.irregular.map(str::to_owned))
    });
    let reasons: BTreeSet<String> =
        entries.iter().filter_map(Entry::failure).chain(doubts).chain(irregular).collect();
    if reasons.is_empty() {
        String::new()
    } else {
        format!(": {}", reasons.into_iter().collect::<Vec<_>>().join("; "))
    }
}

/// The result of an entry; nothing where it has none that may be ranked.
fn best<'a>(entry: &Entry<'a>, metric: &Metric) -> Option<Best<'a>> {
    let results = entry.point.results.iter();
    match metric {
        Metric::Goal(goal) => {
            let found: Vec<Found<'a>> = results
                .filter_map(Found::of)
                .filter(|found| found.goal == goal.as_str() && !found.is_invalid(entry))
                .collect();
            let rates: Vec<f64> = found.iter().filter_map(|found| Some(found.throughput?.0)).collect();
            let spread = Spread::of(&rates)?;
            let nearest = nearest(&found, spread.median, |found| found.throughput)?;
            let how = match spread.count {
                1 => format!("{goal} {}", bounds(nearest.lower, nearest.upper)),
                _ => format!("{goal}, {}", of_repeats(&spread)),
            };
            let irregular = found.iter().find_map(|found| found.irregular);
            Some(Best { rate: Pps(spread.median), how, wired: true, limit: nearest.limit(), irregular })
        }
        Metric::Mrr => {
            let found: Vec<Greatest<'a>> =
                results.filter_map(Greatest::of).filter(|mrr| !mrr.is_invalid(entry)).collect();
            let spread = Spread::of(&found.iter().map(|mrr| mrr.mean.0).collect::<Vec<_>>())?;
            let nearest = nearest(&found, spread.median, |mrr| Some(mrr.mean))?;
            let how = match spread.count {
                1 => format!("MRR, mean of {} trials, deviation {}", nearest.rates.len(), nearest.deviation),
                _ => format!("MRR, {}", of_repeats(&spread)),
            };
            let (wired, limit) = (nearest.load.is_some(), nearest.limit());
            Some(Best { rate: Pps(spread.median), how, wired, limit, irregular: None })
        }
    }
}

/// The one of several whose rate is nearest to the median: it stands for its repeats.
fn nearest<T>(found: &[T], median: f64, rate: impl Fn(&T) -> Option<Pps>) -> Option<&T> {
    let apart = |found: &&T| rate(found).map_or(f64::INFINITY, |rate| (rate.0 - median).abs());
    found.iter().min_by(|a, b| apart(a).total_cmp(&apart(b)))
}

fn of_repeats(spread: &Spread) -> String {
    format!("median of {} repeats, {} to {}", spread.count, Pps(spread.min), Pps(spread.max))
}

/// What a packet costs and how long it takes, where that was measured.
fn aside(entry: &Entry<'_>) -> Markup {
    let taken = entry.point.results.iter().find_map(|result| match result {
        PointResult::Latency(LatencyResult { label, trial, .. }) => {
            let stored = entry.trials().find(|stored| stored.sequence == *trial)?;
            Some((label, stored.result.latency.as_ref()?))
        }
        _ => None,
    });
    html! {
        @if let Some(cost) = Cost::of(entry) {
            p { @if cost.idle { "At most " } strong { (number(cost.cycles, 0)) } " cycles per packet" }
        }
        @if let Some((label, latency)) = taken {
            p {
                "Delay of " strong { (latency.percentiles[0]) } " in the median"
                span class="how" { "at " (label) ", 99th percentile " (latency.percentiles[2]) }
            }
        }
    }
}
