//! The page: one HTML file that asks nobody for anything, with scripts or without.

use crate::digest::Digest;
use crate::units::{RATE_UNITS, RateUnit, View};
use crate::{PageOptions, cautions, findings, head, sections, svg};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use weir_units::utc;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
/// Nothing may be fetched; style and script are in the page.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";
/// Series that the legend can show and hide; a plot with more shows the rest always.
const SWITCHABLE: usize = 48;

pub(crate) fn page(digest: &Digest<'_>, options: &PageOptions) -> Markup {
    let unit = RateUnit::fitting(digest.greatest());
    let title = options.title.clone().unwrap_or_else(|| default_title(digest));
    let sections = [
        Section::new("throughput", "Throughput", Some(sections::rates::section(digest))),
        Section::new("sweeps", "Sweeps", sections::sweeps::section(digest)),
        Section::new("latency", "Latency", sections::latency::section(digest)),
        Section::new("curves", "Latency against load", sections::curve::section(digest)),
        Section::new("cycles", "Cycles per packet", sections::cycles::section(digest)),
        Section::new("packets", "Packets", sections::packets::section(digest)),
        Section::new("losses", "Losses", sections::losses::section(digest)),
        Section::new("own-time", "The tester's time", sections::own_time::section(digest)),
        Section::new("frame-loss", "Frame loss", sections::frame_loss::section(digest)),
        Section::new("bursts", "Back-to-back", sections::bursts::section(digest)),
        Section::new("soak", "Soak", sections::soak::section(digest)),
    ];
    let sections: Vec<Section> = sections.into_iter().flatten().collect();
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="color-scheme" content="light dark";
                title { (title) }
                style { (PreEscaped(STYLE)) (PreEscaped(switches(unit))) }
            }
            body {
                header {
                    p class="brand" { "Weir" }
                    h1 { (title) }
                    (head::runs(digest))
                    @if let Some(made) = options.made_ms { p class="provenance" { "Page made " (utc(made, utc::MINUTE)) "." } }
                }
                (toolbar(unit, &sections))
                main {
                    (head::differences(digest))
                    (head::self_checks(digest))
                    (findings::findings(digest))
                    (cautions::cautions(digest))
                    @for section in &sections {
                        section id=(section.id) { h2 { (section.title) } (section.inside) }
                    }
                    (head::details(digest))
                }
                footer {
                    p { "Every trial is kept: " code { "weir export RUN --csv" } " or " code { "--json" } " prints them all." }
                }
                div id="tip" role="status" aria-live="polite" hidden {}
                script { (PreEscaped(SCRIPT)) }
            }
        }
    }
}

/// A part of the page that the toolbar leads to.
struct Section {
    id: &'static str,
    title: &'static str,
    inside: Markup,
}

impl Section {
    /// Nothing where there is nothing inside.
    fn new(id: &'static str, title: &'static str, inside: Option<Markup>) -> Option<Self> {
        inside.map(|inside| Self { id, title, inside })
    }
}

/// The choice of the unit and the ways through the page; stays in sight.
fn toolbar(unit: &str, sections: &[Section]) -> Markup {
    html! {
        div class="toolbar" {
            fieldset class="units" {
                legend { "Rates in" }
                @for choice in RATE_UNITS {
                    label title=(choice.view.quantity()) {
                        input type="radio" name="unit" id=(format!("unit-{}", choice.key)) value=(choice.key)
                            checked[choice.key == unit];
                        span { (choice.label) }
                    }
                }
            }
            nav aria-label="Sections" {
                @for section in sections { a href=(format!("#{}", section.id)) { (section.title) } }
                a href="#details" { "How" }
            }
        }
    }
}

/// The rules by which choices show and hide, where the browser knows `:has()`; else the first unit stays.
fn switches(unit: &str) -> String {
    let mut rules = String::new();
    let hide = |unit: &RateUnit| {
        let others: Vec<_> = View::ALL
            .iter()
            .filter(|view| **view != unit.view)
            .map(|view| format!(".{}", view.class().replace("v ", "")))
            .collect();
        (unit.key, others)
    };
    for (key, others) in RATE_UNITS.iter().map(hide) {
        let on = format!(":root:has(#unit-{key}:checked)");
        rules.push_str(&format!("{on} .u:not(.u-{key})"));
        others.iter().for_each(|other| rules.push_str(&format!(",{on} {other}")));
        rules.push_str("{display:none}\n");
        if key == unit {
            rules.push_str(&format!("@supports not selector(:has(*)){{.u:not(.u-{key}){{display:none}}"));
            others.iter().for_each(|other| rules.push_str(&format!("{other}{{display:none}}")));
            rules.push_str("}\n");
        }
    }
    for index in 0..SWITCHABLE {
        rules.push_str(&format!("figure:has(.t{index}:not(:checked)) .k{index}{{display:none}}\n"));
    }
    for hue in 0..svg::HUES {
        rules.push_str(&format!(".h{hue}{{--c:var(--c{hue})}}.p{hue}{{fill:var(--c{hue})}}\n"));
    }
    rules
}

fn default_title(digest: &Digest<'_>) -> String {
    match digest.run_names.as_slice() {
        [] => "No runs".to_owned(),
        [one] => format!("Run {one}"),
        [first, second] => format!("Runs {first} and {second}"),
        [first, rest @ ..] => format!("Run {first} and {} more", rest.len()),
    }
}
