//! The sections of the page, each a plot and the table behind it for every network function.

mod bundles;
mod bursts;
mod connections;
mod cpu;
mod curve;
mod curve_cpu;
pub(crate) mod cycles;
mod flow_mods;
pub(crate) mod found;
mod frame_loss;
mod latency;
mod losses;
mod own_time;
mod packets;
mod rates;
mod repeats;
mod soak;
mod stages;
mod sweeps;

use crate::around::Around;
use crate::digest::{Digest, Entry};
use crate::exhibit::Form;
use crate::figure::{Figure, Plot, Sample, Series};
use crate::svg;
use crate::table::Table;
use crate::units;
use maud::{Markup, html};
use weir_trial::Nf;
use weir_trial::run::{Method, StoredTrial};

/// A part of the page that the toolbar leads to.
pub(crate) struct Section {
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    /// The methods whose results it is there for; none for one that draws from the trials of all.
    methods: &'static [Method],
    /// What it is made of, in this order; nothing where there is nothing inside.
    pub(crate) parts: fn(&Digest<'_>) -> Vec<Part>,
}

/// What a section is made of.
pub(crate) enum Part {
    /// Words.
    Text(Markup),
    /// A table without a plot of its own.
    Table(Table),
    /// A plot with its legend, its caption and the tables behind it.
    Plot { figure: Figure, tables: Vec<Table> },
    /// A plot in a fold of its own.
    Folded(Folded),
}

/// A plot in a fold of its own, with what could not be drawn of it.
pub(crate) struct Folded {
    summary: String,
    open: bool,
    pub(crate) figure: Figure,
    warnings: Vec<String>,
}

impl Part {
    fn plot(figure: Figure, table: Table) -> Self {
        Self::Plot { figure, tables: vec![table] }
    }

    fn folded(summary: String, open: bool, figure: Figure) -> Self {
        Self::Folded(Folded { summary, open, figure, warnings: Vec::new() })
    }

    /// As it stands on the page.
    pub(crate) fn html(&self, around: &Around<'_>) -> Markup {
        match self {
            Self::Text(text) => text.clone(),
            Self::Table(table) => table.html(around),
            Self::Plot { figure, tables } => shown(figure, tables, around),
            Self::Folded(folded) => folded.html(around),
        }
    }
}

impl Section {
    const fn new(
        id: &'static str,
        title: &'static str,
        methods: &'static [Method],
        parts: fn(&Digest<'_>) -> Vec<Part>,
    ) -> Self {
        Self { id, title, methods, parts }
    }
}

/// The sections, in the order of the page.
pub(crate) const SECTIONS: [Section; 16] = [
    Section::new("throughput", "Throughput", &[Method::Throughput, Method::Mrr], rates::parts),
    Section::new("sweeps", "Sweeps", &[], sweeps::parts),
    Section::new("latency", "Latency", &[Method::Latency], latency::parts),
    Section::new("curves", "Latency against load", &[Method::LatencyCurve], curve::parts),
    Section::new("cycles", "Cycles per packet", &[], cycles::parts),
    Section::new("cpu", "CPU", &[], cpu::parts),
    Section::new("packets", "Packets", &[], packets::parts),
    Section::new("losses", "Losses", &[], losses::parts),
    Section::new("bundles", "Bundles", &[], bundles::parts),
    Section::new("stages", "Stages", &[], stages::parts),
    Section::new("own-time", "The tester's time", &[], own_time::parts),
    Section::new("frame-loss", "Frame loss", &[Method::FrameLoss], frame_loss::parts),
    Section::new("bursts", "Back-to-back", &[Method::BackToBack], bursts::parts),
    Section::new("flow-mods", "Changes of flow entries", &[Method::FlowMods], flow_mods::parts),
    Section::new("connections", "Connections", &[Method::Connections], connections::parts),
    Section::new("soak", "Soak", &[Method::Soak], soak::parts),
];

/// A method whose results have no section does not compile.
const _: () = {
    let mut place = 0;
    while place < Method::ALL.len() {
        assert!(has_section(Method::ALL[place]), "a method's results have no section of the page");
        place += 1;
    }
};

const fn has_section(method: Method) -> bool {
    let (mut section, mut place) = (0, 0);
    while section < SECTIONS.len() {
        let methods = SECTIONS[section].methods;
        if place == methods.len() {
            (section, place) = (section + 1, 0);
        } else if methods[place] as u8 == method as u8 {
            return true;
        } else {
            place += 1;
        }
    }
    false
}

/// A figure with its legend, its caption and the tables behind it.
fn shown(figure: &Figure, tables: &[Table], around: &Around<'_>) -> Markup {
    html! {
        figure id=(figure.id) {
            h3 { (figure.title) }
            div class="plot" { (svg::draw(figure)) }
            figcaption {
                (legend(figure))
                p { (figure.caption) }
                p class="provenance" { "From " (figure.provenance) "." }
                (around.under(&figure.id, &Form::OF_PLOTS))
            }
            @for table in tables { (table.html(around)) }
        }
    }
}

/// The names of what is drawn; its boxes show and hide, without a script.
fn legend(figure: &Figure) -> Markup {
    match &figure.plot {
        Plot::Lines(plot) => html! {
            ul class="legend" {
                @for (index, series) in plot.series.iter().enumerate() {
                    li { label {
                        input type="checkbox" checked class=(format!("t{index}"));
                        svg viewBox="-16 -8 32 16" aria-hidden="true" class=(format!("key h{} d{}", series.hue % svg::HUES, series.stroke % svg::STROKES)) {
                            path class="line" d="M-16 0H16" {}
                            path class="mark" d=(svg::mark(series.hue)) {}
                        }
                        span { (series.label) }
                    } }
                }
                @for limit in &plot.limits {
                    li { span class="row" {
                        svg viewBox="-16 -8 32 16" aria-hidden="true" class="key" { path class="limit" d="M-16 0H16" {} }
                        span { (limit.label) }
                    } }
                }
            }
        },
        Plot::Bars(plot) => html! {
            ul class="legend" {
                @for (index, part) in plot.parts.iter().enumerate() {
                    li { span class="row" {
                        svg viewBox="-16 -8 32 16" aria-hidden="true" class="key" {
                            rect class=(format!("part p{}", index % svg::HUES)) x="-8" y="-6" width="16" height="12" {}
                        }
                        span { (part) }
                    } }
                }
            }
        },
    }
}

/// A plot and its table for each function that has the plot; nothing where none has.
fn by_function(
    digest: &Digest<'_>,
    figure: fn(&Digest<'_>, Nf) -> Option<Figure>,
    table: fn(&Digest<'_>, Nf) -> Table,
) -> Vec<Part> {
    let part = |nf| Some(Part::plot(figure(digest, nf)?, table(digest, nf)));
    digest.functions().into_iter().filter_map(part).collect()
}

impl Folded {
    fn html(&self, around: &Around<'_>) -> Markup {
        let figure = &self.figure;
        html! {
            details class="more" open[self.open] {
                summary { (self.summary) }
                figure id=(figure.id) {
                    div class="plot" { (svg::draw(figure)) }
                    figcaption {
                        (legend(figure))
                        p { (figure.caption) }
                        @for why in &self.warnings { p class="warning" { (why) } }
                        p class="provenance" { "From " (figure.provenance) "." }
                        (around.under(&figure.id, &Form::OF_PLOTS))
                    }
                }
            }
        }
    }
}

/// A series a subject: the marks that `pick` finds among the points of a function.
fn series<'a>(
    digest: &Digest<'a>,
    nf: Nf,
    name: impl Fn(&str) -> String,
    stroke: usize,
    pick: impl Fn(Entry<'a>) -> Option<Sample>,
) -> Vec<Series> {
    by_subject(digest, nf, pick)
        .into_iter()
        .map(|(subject, group)| Series {
            label: name(&digest.subjects[subject]),
            hue: subject,
            stroke,
            marks: true,
            samples: group.into_iter().map(|(_, sample)| sample).collect(),
        })
        .collect()
}

/// The frame sizes of some points, the smallest first: mean bytes and name.
fn sizes(entries: &[Entry<'_>]) -> Vec<(f64, String)> {
    let mut sizes: Vec<(f64, String)> = entries.iter().map(|entry| (entry.bytes(), entry.size())).collect();
    sizes.sort_by(|a, b| a.0.total_cmp(&b.0));
    sizes.dedup();
    sizes
}

/// Why a trial is not valid, in words; nothing where it is.
fn invalid(trial: &StoredTrial) -> Option<String> {
    Some(format!("invalid: {}", trial.spoilt_by()?.says))
}

/// A part of an identifier: letters, digits and hyphens only.
fn slug(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' }).collect()
}

/// One series' worth of points: those of one subject that give `pick` something.
fn by_subject<'a, T>(
    digest: &Digest<'a>,
    nf: Nf,
    pick: impl Fn(Entry<'a>) -> Option<T>,
) -> Vec<(usize, Vec<(Entry<'a>, T)>)> {
    let mut groups: Vec<(usize, Vec<(Entry<'a>, T)>)> = Vec::new();
    for entry in digest.of(nf) {
        let Some(picked) = pick(entry) else { continue };
        match groups.last_mut() {
            Some((subject, group)) if *subject == entry.subject => group.push((entry, picked)),
            _ => groups.push((entry.subject, vec![(entry, picked)])),
        }
    }
    groups
}

/// A rate in the units that say most, for a mark's detail.
fn rate_words(pps: f64, bytes: f64) -> String {
    use weir_units::{Bps, Pps};
    format!(
        "{} = {} L2 = {} L1",
        Pps(pps),
        Bps(units::View::Layer2.of(pps, bytes)),
        Bps(units::View::Layer1.of(pps, bytes))
    )
}
