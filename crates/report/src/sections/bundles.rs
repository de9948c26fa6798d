//! Bundles beside one another: the rate of each, their sum, and how fairly they share.
//!
//! Of each point two loads are told, as far as they differ: the greatest at which nothing was lost, and the greatest. Bars are
//! drawn of the greatest.

use super::{Part, by_function, slug};
use crate::digest::{Digest, Entry};
use crate::figure::{Bar, Bars, Figure, Plot};
use crate::table::{Cell, Kind, Row, Table, column};
use crate::units::{number, percent};
use weir_trial::{BundleRates, Nf};
use weir_units::{Nanos, Pps, Spread};

/// The whole section; nothing where no point has several bundles.
pub(crate) fn parts(digest: &Digest<'_>) -> Vec<Part> {
    by_function(digest, figure, table)
}

fn figure(digest: &Digest<'_>, nf: Nf) -> Option<Figure> {
    let mut bars = Vec::new();
    for entry in digest.of(nf) {
        let Some(rates) = BundleRates::of(entry.point).pop() else { continue };
        let subject = &digest.subjects[entry.subject];
        bars.push(Bar {
            label: format!("{subject} · {}", entry.size()),
            shares: Vec::new(),
            detail: String::new(),
        });
        for (place, bundle) in (1..).zip(&rates.each) {
            bars.push(Bar {
                label: format!("bundle {place}"),
                shares: vec![bundle.share],
                detail: format!(
                    "{subject} · {} · bundle {place}, at {}\n{} forwarded, {} of all\n{} lost",
                    entry.size(),
                    rates.load,
                    Pps(bundle.rate.mean),
                    percent(bundle.share),
                    percent(bundle.loss),
                ),
            });
        }
    }
    (!bars.is_empty()).then(|| Figure {
        id: format!("bundles-{}", slug(&nf.to_string())),
        title: format!("{nf}: how bundles beside one another share"),
        caption: "At the greatest load: of the packets that all bundles of a device forwarded, the share of each. Bars of one \
                  length are a fair share."
            .to_owned(),
        provenance: digest.provenance.clone(),
        plot: Plot::Bars(Bars {
            label: "Share of the forwarded packets".to_owned(),
            parts: vec!["forwarded".to_owned()],
            bars,
        }),
    })
}

fn table(digest: &Digest<'_>, nf: Nf) -> Table {
    let mut rows = Vec::new();
    for entry in digest.of(nf) {
        for rates in BundleRates::of(entry.point) {
            rows.extend((1..).zip(&rates.each).map(|(place, bundle): (u32, _)| {
                let delay = bundle.delay.map(|delay| Nanos(delay.max(0.0) as u64));
                let cells = [
                    Cell::Text(place.to_string()),
                    Cell::rate(Some(Pps(bundle.rate.mean)), entry.bytes()),
                    deviation(&bundle.rate, &entry),
                    Cell::percent(bundle.share),
                    Cell::percent(bundle.loss),
                    delay.map_or(Cell::None, Cell::time),
                ];
                row(digest, (&entry, &rates), cells)
            }));
            let all = [
                Cell::Text("all".to_owned()),
                Cell::rate(Some(Pps(rates.sum.mean)), entry.bytes()),
                deviation(&rates.sum, &entry),
                Cell::None,
                Cell::None,
                Cell::None,
            ];
            rows.push(row(digest, (&entry, &rates), all));
        }
    }
    Table {
        id: format!("bundles-{}-table", slug(&nf.to_string())),
        caption: format!("{nf}: rate of each bundle, and of all"),
        columns: vec![
            column("Frame", "frame", Kind::Text),
            column("Device", "device", Kind::Text),
            column("Offered to all", "offered_pps", Kind::Rate),
            column("Bundle", "bundle", Kind::Text),
            column("Forwarded", "forwarded_pps", Kind::Rate),
            column("Deviation", "deviation_pps", Kind::Rate),
            column("Its share", "share", Kind::Number),
            column("Lost", "lost", Kind::Number),
            column("Mean delay", "mean_delay_ns", Kind::Number),
            column("Fairness (Jain)", "fairness", Kind::Number),
            column("Trials", "trials", Kind::Number),
        ],
        rows,
    }
}

fn row(digest: &Digest<'_>, (entry, rates): (&Entry<'_>, &BundleRates), cells: [Cell; 6]) -> Row {
    let before = [
        Cell::Text(entry.size()),
        Cell::Text(digest.subjects[entry.subject].clone()),
        Cell::rate(Some(rates.load), entry.bytes()),
    ];
    let fairness = rates.fairness.as_ref();
    let behind = [
        fairness.map_or(Cell::None, |index| Cell::Number(number(index.mean, 4), index.mean)),
        Cell::count(rates.trials as u64),
    ];
    Row { cells: before.into_iter().chain(cells).chain(behind).collect(), suspect: rates.invalid }
}

/// The standard deviation of a rate, where there is one.
fn deviation(rate: &Spread, entry: &Entry<'_>) -> Cell {
    Cell::rate(rate.deviation.map(Pps), entry.bytes())
}
