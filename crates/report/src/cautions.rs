//! What to know before quoting a number of the page.

use crate::digest::{Digest, Entry};
use crate::sections::found::{Found, STANDARD_TRIAL, above_ceiling};
use maud::{Markup, html};
use std::collections::{BTreeMap, BTreeSet};
use weir_trial::Limiter;
use weir_trial::run::{RunState, StoredTrial};
use weir_units::Nanos;

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
                @for (run, name) in digest.runs.iter().zip(&digest.run_names) {
                    @let mix = run.mix();
                    @if !mix.is_empty() { li class="warning" {
                        "Run " (name) " is a mix: it was taken up again under other conditions:"
                        ul { @for difference in &mix { li {
                            (difference.key) ": " (difference.a.as_deref().unwrap_or("not told")) ", then "
                            (difference.b.as_deref().unwrap_or("not told"))
                        } } }
                    } }
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
    let by_machine = results()
        .filter(|(_, result)| result.limit().is_some_and(|limit| limit.by == Limiter::Machine))
        .count();
    if by_machine > 0 {
        cautions.push(format!(
            "{} limited by the machine, which gave the cores to others: the device may be faster.",
            plural(by_machine, "result is", "results are")
        ));
    }
    let above = results().filter(|(entry, result)| above_ceiling(entry, result).is_some()).count();
    if above > 0 {
        cautions.push(format!(
            "{} above what tester and wiring reached with nothing in between: that ceiling is not known well enough.",
            plural(above, "result is", "results are")
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
