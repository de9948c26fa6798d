//! The address of a history: the filters of the list, which narrow the runs and the points in them, and one series of those left.

use crate::answer::Fault;
use crate::catalogue::{Facet, short};
use crate::filter::Filter;
use form_urlencoded::Serializer;
use maud::{Markup, html};
use ring::digest::{SHA256, digest};
use weir_methods::history::{Document, Series};
use weir_trial::run::PointKey;

/// The filters that points themselves are narrowed by, beside their runs, and what a point has of each.
const OF_POINTS: [(Facet, Value); 6] = [
    (Facet::Nf, |key| key.nf.to_string()),
    (Facet::Dut, |key| key.dut.clone()),
    (Facet::Wiring, |key| key.wiring.clone()),
    (Facet::Deployment, |key| key.placement.deployment.to_string()),
    (Facet::Trace, |key| key.trace.clone()),
    (Facet::Size, |key| key.size.clone()),
];

/// What a point has of a facet.
type Value = fn(&PointKey) -> String;

/// What an address asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) filter: Filter,
    /// What was measured: `forwarded rate`.
    pub(super) quantity: Option<String>,
    /// The series of this identity.
    pub(super) series: Option<String>,
}

impl Asked {
    /// Reads an address, and whether it has parts that say nothing, as forms send them.
    pub(super) fn read(query: &str) -> Result<(Self, bool), Fault> {
        let mut asked = Self::default();
        let mut rest = Serializer::new(String::new());
        let mut is_full = true;
        for (key, value) in form_urlencoded::parse(query.as_bytes()) {
            let value = value.trim();
            match &*key {
                "quantity" | "series" if value.is_empty() => is_full = false,
                "quantity" => asked.quantity = Some(value.to_owned()),
                "series" => asked.series = Some(value.to_owned()),
                "sort" | "order" | "page" | "per" => {
                    return Err(Fault::Bad(format!(
                        "`{key}` is of the list of runs; a history has all runs in the order of their starts"
                    )));
                }
                _ => {
                    rest.append_pair(&key, value);
                }
            }
        }
        let (filter, of_filter) = Filter::read(&rest.finish())?;
        asked.filter = filter;
        Ok((asked, is_full && of_filter))
    }

    /// The address again, below a path.
    pub(super) fn address(&self, path: &str) -> String {
        let filter = self.filter.address();
        let mut query = Serializer::new(filter.trim_start_matches('?').to_owned());
        for (key, value) in [("quantity", &self.quantity), ("series", &self.series)] {
            value.iter().for_each(|value| {
                query.append_pair(key, value);
            });
        }
        let query = query.finish();
        if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
    }

    /// One of the series, as an address that stays: its point narrows the runs.
    pub(super) fn of(&self, series: &Series) -> Self {
        let asked = self.of_point(&series.point, series.machine.as_ref());
        Self { quantity: Some(series.quantity.clone()), series: Some(identity(series)), ..asked }
    }

    /// A point, on one machine where that is told.
    pub(super) fn of_point(&self, key: &PointKey, machine: Option<&String>) -> Self {
        let mut asked = self.clone();
        let mut only = |facet: Facet, value: String| asked.filter.wanted[facet as usize] = vec![value];
        OF_POINTS.into_iter().for_each(|(facet, of)| only(facet, of(key)));
        if let Some(machine) = machine {
            only(Facet::Machine, machine.clone());
        }
        asked
    }

    /// Whether a point is meant.
    pub(super) fn wants(&self, key: &PointKey) -> bool {
        OF_POINTS.into_iter().all(|(facet, of)| {
            let wanted = &self.filter.wanted[facet as usize];
            wanted.is_empty() || wanted.contains(&of(key))
        })
    }

    /// Tells apart the points that are meant, as [`Self::wants`] does.
    pub(super) fn points(&self) -> String {
        format!("{:?}", OF_POINTS.map(|(facet, _)| &self.filter.wanted[facet as usize]))
    }

    /// The series that are meant.
    pub(super) fn narrow(&self, mut document: Document) -> Result<Document, Fault> {
        if let Some(quantity) = &self.quantity {
            let mut there: Vec<String> =
                document.series.iter().map(|series| series.quantity.clone()).collect();
            document.series.retain(|series| series.quantity == *quantity);
            if document.series.is_empty() && !there.is_empty() {
                there.sort();
                there.dedup();
                return Err(Fault::Missing(format!(
                    "no series is of `{}`; there are {}",
                    short(quantity, 60),
                    there.join(", ")
                )));
            }
        }
        if let Some(wanted) = &self.series {
            document.series.retain(|series| identity(series) == *wanted);
            if document.series.is_empty() {
                return Err(Fault::Missing(format!(
                    "there is no series `{}` of these runs; drop `series` from the address to see which there are",
                    short(wanted, 60)
                )));
            }
        }
        Ok(document)
    }

    /// What the form has no choice for, so that it stays.
    pub(super) fn others(&self, offered: &[Facet]) -> Markup {
        let filter = &self.filter;
        html! {
            @for facet in Facet::ALL.into_iter().filter(|facet| !offered.contains(facet)) {
                @for value in &filter.wanted[facet as usize] { input type="hidden" name=(facet.key()) value=(value); }
            }
            @if !filter.words.is_empty() { input type="hidden" name="q" value=(filter.words); }
        }
    }
}

/// What names a series in addresses: the beginning of the hash of all that makes it one.
pub(super) fn identity(series: &Series) -> String {
    let key = serde_json::to_string(&(&series.point, &series.machine, &series.quantity)).unwrap_or_default();
    digest(&SHA256, key.as_bytes()).as_ref()[..6].iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_and_written_again() {
        let query = "?nf=l2fwd&size=64&from=2026-11-21&quantity=forwarded+rate&series=0123456789ab";
        let (asked, is_full) = Asked::read(&query[1..]).unwrap();
        assert_eq!((asked.address("/history"), is_full), (format!("/history{query}"), true));
        assert_eq!(asked.quantity.as_deref(), Some("forwarded rate"));
        let (asked, is_full) = Asked::read("nf=&quantity=+&to=2026-11-22").unwrap();
        assert_eq!((asked.address("/history").as_str(), is_full), ("/history?to=2026-11-22", false));
        for query in ["sort=name", "page=2", "colour=red", "from=monday"] {
            assert!(matches!(Asked::read(query), Err(Fault::Bad(_))), "{query}");
        }
    }
}
