//! The top of the page in words: what was found, and what to know before quoting it.

use crate::digest::{Digest, Entry};
use crate::sections::cycles::Cost;
use crate::sections::found::{Found, Greatest, STANDARD_TRIAL, bounds, limiter};
use crate::units::{number, percent};
use maud::{Markup, html};
use std::collections::{BTreeMap, BTreeSet};
use weir_trial::run::{PointResult, RunState, StoredTrial};
use weir_trial::{Limit, Limiter, Nf};
use weir_units::{Bps, Nanos, Pps};

/// The best of one subject at one network function. Invalid results are not among those it is taken from.
struct Best<'a> {
    entry: Entry<'a>,
    rate: Pps,
    /// How it was found, with its interval.
    how: String,
    /// Whether there was a wire to compare with.
    wired: bool,
    /// Who limits it, where that is known.
    limit: Option<&'a Limit>,
}

impl Best<'_> {
    fn of_wire(&self) -> String {
        if !self.wired {
            return String::new();
        }
        format!("; {}\u{a0}of\u{a0}{}", percent(self.entry.of_theoretical(self.rate)), self.entry.wire_name())
    }

    fn bits(&self) -> Bps {
        Bps(self.rate.0 * 8.0 * self.entry.bytes())
    }
}

/// The best results, one line for each network function and device.
pub(crate) fn findings(digest: &Digest<'_>) -> Markup {
    let functions = digest.functions();
    html! {
        section id="findings" {
            h2 { "What was found" }
            @if functions.is_empty() { p { "Nothing was measured: no run here holds a point." } }
            div class="cards" {
                @for nf in functions {
                    article class="card" {
                        h3 { (nf) }
                        ul { @for subject in 0..digest.subjects.len() { (finding(digest, nf, subject)) } }
                    }
                }
            }
        }
    }
}

fn finding(digest: &Digest<'_>, nf: Nf, subject: usize) -> Markup {
    let entries: Vec<_> = digest.of(nf).into_iter().filter(|entry| entry.subject == subject).collect();
    if entries.is_empty() {
        return html! {};
    }
    let bests: Vec<_> = entries.iter().filter_map(best).collect();
    let most_packets = bests.iter().max_by(|a, b| a.rate.0.total_cmp(&b.rate.0));
    let most_bits = bests.iter().max_by(|a, b| a.bits().0.total_cmp(&b.bits().0));
    html! {
        li {
            h4 { (digest.subjects[subject]) }
            @match (most_packets, most_bits) {
                (Some(packets), Some(bits)) => {
                    p { strong { (packets.rate) } " at " (packets.entry.size()) (badge(packets.limit)) span class="how" { (packets.how) (packets.of_wire()) } }
                    @if bits.entry.point.index != packets.entry.point.index {
                        p { strong { (bits.bits()) } " L2 at " (bits.entry.size()) (badge(bits.limit)) span class="how" { (bits.how) (bits.of_wire()) } }
                    }
                    (aside(&packets.entry))
                }
                _ => p { "No valid rate was found" (failures(&entries)) "." },
            }
        }
    }
}

/// Who limits a result, as a small label.
fn badge(limit: Option<&Limit>) -> Markup {
    html! {
        @if let Some(limit) = limit {
            " " span class=[(limit.by == Limiter::Tester).then_some("badge tester").or(Some("badge"))] title=(limit.why) {
                "limited by the " (limiter(limit.by))
            }
        }
    }
}

fn failures(entries: &[Entry<'_>]) -> String {
    let doubts = entries.iter().flat_map(|entry| {
        let invalid = entry.point.results.iter().filter_map(|result| entry.point.doubt(result));
        invalid.filter(|doubt| doubt.invalid).map(|doubt| doubt.why)
    });
    let reasons: BTreeSet<String> = entries.iter().filter_map(Entry::failure).chain(doubts).collect();
    if reasons.is_empty() {
        String::new()
    } else {
        format!(": {}", reasons.into_iter().collect::<Vec<_>>().join("; "))
    }
}

/// The result of the strictest goal; MRR where no goal was searched for.
fn best<'a>(entry: &Entry<'a>) -> Option<Best<'a>> {
    let strictest = entry
        .point
        .results
        .iter()
        .filter_map(Found::of)
        .filter(|found| found.throughput.is_some() && !found.is_invalid(entry))
        .min_by(|a, b| a.loss_ratio.0.total_cmp(&b.loss_ratio.0));
    if let Some(found) = strictest {
        let how = format!("{} {}", found.goal, bounds(found.lower, found.upper));
        return Some(Best { entry: *entry, rate: found.throughput?, how, wired: true, limit: found.limit() });
    }
    let mrr = entry.point.results.iter().filter_map(Greatest::of).find(|mrr| !mrr.is_invalid(entry))?;
    let how = format!("MRR, mean of {1} trials, deviation {0}", mrr.deviation, mrr.rates.len());
    Some(Best { entry: *entry, rate: mrr.mean, how, wired: mrr.load.is_some(), limit: mrr.limit() })
}

/// What a packet costs and how long it takes, where that was measured.
fn aside(entry: &Entry<'_>) -> Markup {
    let taken = entry.point.results.iter().find_map(|result| match result {
        PointResult::Latency { label, trial, .. } => {
            let stored = entry.trials().find(|stored| stored.sequence == *trial)?;
            Some((label, stored.result.latency.as_ref()?))
        }
        _ => None,
    });
    html! {
        @if let Some(cost) = Cost::of(entry) {
            p { @if cost.idle { "At most " } strong { (number(cost.cycles, 0)) } " cycles per packet at " (entry.size()) }
        }
        @if let Some((label, latency)) = taken {
            p {
                "Delay of " strong { (latency.percentiles[0]) } " in the median at " (entry.size())
                span class="how" { "at " (label) ", 99th percentile " (latency.percentiles[2]) }
            }
        }
    }
}

/// What a reader must know before quoting a number.
pub(crate) fn cautions(digest: &Digest<'_>) -> Markup {
    let failed: Vec<_> = digest.entries.iter().filter_map(|entry| Some((entry, entry.failure()?))).collect();
    html! {
        section id="cautions" {
            h2 { "Before you quote a number" }
            ul {
                @for (run, name) in digest.runs.iter().zip(&digest.run_names) {
                    @match run.state {
                        RunState::Finished => {}
                        RunState::Running => li class="warning" {
                            "Run " (name) " is not finished: it is still being measured, or was cut off. "
                            code { "weir bench --resume" } " goes on with one that was cut off."
                        },
                        RunState::Interrupted => li class="warning" {
                            "Run " (name) " was interrupted; what was measured until then is here."
                        },
                    }
                }
                @if !failed.is_empty() {
                    li class="warning" {
                        (plural(failed.len(), "point was", "points were")) " not measured:"
                        ul { @for (entry, why) in &failed { li {
                            (entry.point.key.nf) " · " (digest.subjects[entry.subject]) " · " (entry.size()) ": " (why)
                        } } }
                    }
                }
                @for caution in about_results(digest) { li class="warning" { (caution) } }
                li {
                    "A search's bounds tell how finely it searched, not how much a second run would differ. Repeat a \
                     run before you call one device faster than another."
                }
                li {
                    "Frame sizes include the 4-byte FCS. L2 bit rates count the frame; the theoretical line and L1 bit \
                     rates also count the 20\u{a0}B that each frame takes on the wire. Rates are sums over all directions."
                }
                li {
                    "Tests of this kind belong in an isolated lab: RFC 6815 keeps them off production networks."
                }
            }
        }
    }
}

fn about_results(digest: &Digest<'_>) -> Vec<String> {
    let found: Vec<_> = digest
        .entries
        .iter()
        .flat_map(|entry| entry.point.results.iter().filter_map(Found::of).map(move |found| (entry, found)))
        .collect();
    let mut cautions = Vec::new();
    cautions.extend(invalid_results(digest));
    let irregular = found.iter().filter(|(_, found)| found.is_irregular()).count();
    if irregular > 0 {
        cautions.push(format!(
            "{} irregular: a bound is missing. The tables say which and why.",
            plural(irregular, "result is", "results are")
        ));
    }
    let late = found.iter().filter(|(entry, found)| found.tester_late(entry).is_some()).count();
    if late > 0 {
        cautions.push(format!(
            "{} limited by the tester, which was too late with part of the packets: the device may be faster.",
            plural(late, "result may be", "results may be")
        ));
    }
    let short: BTreeSet<Nanos> =
        found.iter().map(|(_, found)| found.trial_duration).filter(|time| *time < STANDARD_TRIAL).collect();
    if !short.is_empty() {
        let lengths: Vec<_> = short.iter().map(Nanos::to_string).collect();
        cautions.push(format!(
            "Trials lasted {}, less than the 60\u{a0}s of RFC 2544 (section 24): rare losses may have been missed.",
            lengths.join(" and ")
        ));
    }
    cautions
}

/// Results that are not ranked, results that the tester limits, and what was found in their trials.
fn invalid_results(digest: &Digest<'_>) -> Vec<String> {
    let results = || {
        digest.entries.iter().flat_map(|entry| entry.point.results.iter().map(move |result| (entry, result)))
    };
    let invalid = results()
        .filter(|(entry, result)| entry.point.doubt(result).is_some_and(|doubt| doubt.invalid))
        .count();
    let mut cautions = Vec::new();
    if invalid > 0 {
        cautions.push(format!(
            "{} invalid and ranked nowhere: the tables say why.",
            plural(invalid, "result is", "results are")
        ));
    }
    let by_tester = results()
        .filter(|(_, result)| result.limit().is_some_and(|limit| limit.by == Limiter::Tester))
        .count();
    if by_tester > 0 {
        cautions.push(format!(
            "{} limited by the tester, not by the device, which may be faster.",
            plural(by_tester, "result is", "results are")
        ));
    }
    let mut found: BTreeMap<&str, (usize, &str)> = BTreeMap::new();
    for finding in digest.entries.iter().flat_map(Entry::trials).filter_map(StoredTrial::spoilt_by) {
        found.entry(finding.code.name()).or_insert((0, &finding.says)).0 += 1;
    }
    let told = found.into_iter().map(|(name, (count, says))| {
        format!("{} invalid or wrong, {name}: for one {says}.", plural(count, "trial", "trials"))
    });
    cautions.extend(told);
    cautions
}

fn plural(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}
