//! The page: one HTML file that asks nobody for anything, with scripts or without.

use crate::digest::Digest;
use crate::sections::{Part, SECTIONS, Section};
use crate::svg::style;
use crate::units::{RATE_UNITS, RateUnit, View};
use crate::{Around, PageOptions, cautions, findings, head, ratios};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use weir_units::utc;

pub(crate) const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
/// Nothing may be fetched; style and script are in the page.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";
/// Series that the legend can show and hide; a plot with more shows the rest always.
const SWITCHABLE: usize = 48;

pub(crate) fn page(digest: &Digest<'_>, options: &PageOptions, around: &Around<'_>) -> Markup {
    let unit = RateUnit::fitting(digest.greatest());
    let title = options.title.clone().unwrap_or_else(|| default_title(digest));
    let shown: Vec<(&Section, Vec<Part>)> = SECTIONS
        .iter()
        .map(|section| (section, (section.parts)(digest)))
        .filter(|(_, parts)| !parts.is_empty())
        .collect();
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                @if !around.is_site() { meta http-equiv="Content-Security-Policy" content=(POLICY); }
                meta name="color-scheme" content="light dark";
                title { (title) }
                style { (PreEscaped(style::properties())) (PreEscaped(STYLE)) (PreEscaped(style::RULES)) (PreEscaped(switches(unit))) }
                (PreEscaped(around.head))
            }
            body {
                (PreEscaped(around.top))
                header {
                    @if !around.is_site() { p class="brand" { "Weir" } }
                    h1 { (title) }
                    @if !around.compares { (head::runs(digest)) }
                    @if let Some(made) = options.made_ms { p class="provenance" { "Page made " (utc(made, utc::MINUTE)) "." } }
                    (PreEscaped(around.beside))
                }
                (toolbar(unit, &shown, !options.ratios.is_empty()))
                main {
                    @if !around.compares { (head::differences(digest)) }
                    (head::self_checks(digest))
                    (findings::findings(digest))
                    (ratios::ratios(&options.ratios))
                    (cautions::cautions(digest))
                    @for (section, parts) in &shown {
                        section id=(section.id) { h2 { (section.title) } @for part in parts { (part.html(around)) } }
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

/// The choice of the unit and the ways through the page; stays in sight.
fn toolbar(unit: &str, shown: &[(&Section, Vec<Part>)], ratios: bool) -> Markup {
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
                @if ratios { a href="#ratios" { "Ratios" } }
                @for (section, _) in shown { a href=(format!("#{}", section.id)) { (section.title) } }
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
    rules.push_str(&style::hues());
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
