//! The address of the list: which runs, in which order, which page of them.

use crate::answer::Fault;
use crate::catalogue::{Entry, FACETS, Facet, Index};
use form_urlencoded::Serializer;
use std::cmp::Ordering;
use std::sync::Arc;

/// Most runs on a page.
pub(crate) const MOST_A_PAGE: usize = 500;
/// Runs on a page where the address says nothing.
const A_PAGE: usize = 50;
/// Most parameters of an address.
const MOST_PARAMETERS: usize = 200;

/// The order of the list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Sort {
    /// When it was begun.
    #[default]
    Started,
    /// By name.
    Name,
    /// By state.
    State,
    /// Points begun.
    Points,
    /// Trials kept.
    Trials,
    /// How long it took.
    Took,
}

impl Sort {
    /// Every order.
    pub(crate) const ALL: [Self; 6] =
        [Self::Started, Self::Name, Self::State, Self::Points, Self::Trials, Self::Took];

    /// Its name in addresses.
    pub(crate) const fn key(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Name => "name",
            Self::State => "state",
            Self::Points => "points",
            Self::Trials => "trials",
            Self::Took => "took",
        }
    }

    fn compare(self, a: &Entry, b: &Entry) -> Ordering {
        let took = |run: &Entry| run.outline.ended_ms.map(|end| end.saturating_sub(run.outline.started_ms));
        match self {
            Self::Started => a.outline.started_ms.cmp(&b.outline.started_ms),
            Self::Name => a.outline.name.cmp(&b.outline.name),
            Self::State => crate::catalogue::state(&a.outline).cmp(crate::catalogue::state(&b.outline)),
            Self::Points => a.facts.points.cmp(&b.facts.points),
            Self::Trials => a.facts.trials.cmp(&b.facts.trials),
            Self::Took => took(a).cmp(&took(b)),
        }
    }

    /// Whether the greatest come first where the address says nothing.
    pub(crate) fn falls(self) -> bool {
        !matches!(self, Self::Name | Self::State)
    }
}

/// What an address asks of the list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Filter {
    /// Words, all of which must be found; `dut:ovs` looks at that facet alone.
    pub(crate) words: String,
    /// Of each facet, the values of which one must be there; all runs where there is none.
    pub(crate) wanted: [Vec<String>; FACETS],
    /// The first day.
    pub(crate) from: Option<String>,
    /// The last day.
    pub(crate) to: Option<String>,
    pub(crate) sort: Sort,
    /// Against the order's usual direction.
    pub(crate) turned: bool,
    /// From 0.
    pub(crate) page: usize,
    pub(crate) per: Option<usize>,
}

/// A list.
pub(crate) struct Found {
    /// All that are meant, in order.
    pub(crate) runs: Vec<Arc<Entry>>,
    /// Of each facet and value, how many runs there would be with it, the facet's other values left out.
    pub(crate) counts: [Vec<u32>; FACETS],
}

impl Filter {
    /// Reads an address, and whether it has parts that say nothing, as forms send them.
    pub(crate) fn read(query: &str) -> Result<(Self, bool), Fault> {
        let mut filter = Self::default();
        let mut is_full = true;
        for (count, (key, value)) in form_urlencoded::parse(query.as_bytes()).enumerate() {
            if count >= MOST_PARAMETERS {
                return Err(Fault::Bad(format!("an address has {MOST_PARAMETERS} parameters at most")));
            }
            if value.trim().is_empty() {
                is_full = false;
                continue;
            }
            filter.take(&key, value.trim())?;
        }
        Ok((filter, is_full))
    }

    fn take(&mut self, key: &str, value: &str) -> Result<(), Fault> {
        let bad = |may: &str| {
            Fault::Bad(format!("`{key}={}` in the address: {may}", crate::catalogue::short(value, 60)))
        };
        if let Some(facet) = Facet::of(key) {
            let wanted = &mut self.wanted[facet as usize];
            if !wanted.iter().any(|known| known == value) {
                wanted.push(value.to_owned());
            }
            return Ok(());
        }
        match key {
            "q" => value.clone_into(&mut self.words),
            "from" => self.from = Some(day(value).ok_or_else(|| bad("a day is written 2026-11-21"))?),
            "to" => self.to = Some(day(value).ok_or_else(|| bad("a day is written 2026-11-21"))?),
            "sort" => {
                let names = || Sort::ALL.map(Sort::key).join(", ");
                let found = Sort::ALL.into_iter().find(|sort| sort.key() == value);
                self.sort = found.ok_or_else(|| bad(&format!("the list is sorted by {}", names())))?;
            }
            "order" => {
                self.turned = match value {
                    "usual" => false,
                    "turned" => true,
                    _ => return Err(bad("an order is `usual` or `turned`")),
                }
            }
            "page" => {
                let page = value.parse::<usize>().ok().and_then(|page| page.checked_sub(1));
                self.page = page.ok_or_else(|| bad("pages are counted from 1"))?;
            }
            "per" => {
                let per = value.parse().ok().filter(|per| (1..=MOST_A_PAGE).contains(per));
                self.per = Some(per.ok_or_else(|| bad(&format!("a page has 1 to {MOST_A_PAGE} runs")))?);
            }
            _ => {
                let names = Facet::ALL.map(Facet::key).join(", ");
                return Err(Fault::Bad(format!(
                    "`{}` is no filter of the list; there are {names}, q, from, to, sort, order, page and per",
                    crate::catalogue::short(key, 60)
                )));
            }
        }
        Ok(())
    }

    /// The address again, without what is usual; empty, or with a question mark in front.
    pub(crate) fn address(&self) -> String {
        let mut query = Serializer::new(String::new());
        if !self.words.is_empty() {
            query.append_pair("q", &self.words);
        }
        for facet in Facet::ALL {
            self.wanted[facet as usize].iter().for_each(|value| {
                query.append_pair(facet.key(), value);
            });
        }
        for (key, day) in [("from", &self.from), ("to", &self.to)] {
            day.iter().for_each(|day| {
                query.append_pair(key, day);
            });
        }
        if self.sort != Sort::default() {
            query.append_pair("sort", self.sort.key());
        }
        if self.turned {
            query.append_pair("order", "turned");
        }
        if self.page > 0 {
            query.append_pair("page", &(self.page + 1).to_string());
        }
        if let Some(per) = self.per {
            query.append_pair("per", &per.to_string());
        }
        let query = query.finish();
        if query.is_empty() { query } else { format!("?{query}") }
    }

    /// Runs on a page.
    pub(crate) fn per(&self) -> usize {
        self.per.unwrap_or(A_PAGE)
    }

    /// Whether it leaves out nothing.
    pub(crate) fn is_all(&self) -> bool {
        self.words.is_empty()
            && self.from.is_none()
            && self.to.is_none()
            && self.wanted.iter().all(Vec::is_empty)
    }

    /// The runs that are meant, and how many there would be with each value: one pass.
    pub(crate) fn find(&self, index: &Index) -> Found {
        // Values that no run has match none.
        let wanted: [Option<Vec<u32>>; FACETS] = std::array::from_fn(|facet| {
            let place = |value: &String| index.values[facet].iter().position(|name| **name == **value);
            let of = &self.wanted[facet];
            (!of.is_empty()).then(|| of.iter().filter_map(place).map(|place| place as u32).collect())
        });
        let words: Vec<Word> = self.words.split_whitespace().map(Word::of).collect();
        let mut found = Found {
            runs: Vec::new(),
            counts: std::array::from_fn(|facet| vec![0; index.values[facet].len()]),
        };
        for run in &index.runs {
            let in_time = self.from.as_ref().is_none_or(|from| run.day >= *from)
                && self.to.as_ref().is_none_or(|to| run.day <= *to);
            if !in_time || !words.iter().all(|word| word.is_in(run, index)) {
                continue;
            }
            let misses = |facet: &usize| {
                let places = &run.places[*facet];
                wanted[*facet]
                    .as_ref()
                    .is_some_and(|wanted| !places.iter().any(|place| wanted.contains(place)))
            };
            let mut missed = (0..FACETS).filter(misses);
            match (missed.next(), missed.next()) {
                (None, _) => {
                    (0..FACETS).for_each(|facet| count(&mut found.counts[facet], &run.places[facet]));
                    found.runs.push(Arc::clone(run));
                }
                (Some(only), None) => count(&mut found.counts[only], &run.places[only]),
                _ => {}
            }
        }
        let falls = self.sort.falls() != self.turned;
        found.runs.sort_by(|a, b| {
            let order = self.sort.compare(a, b).then(a.outline.id.cmp(&b.outline.id));
            if falls { order.reverse() } else { order }
        });
        found
    }
}

fn count(counts: &mut [u32], places: &[u32]) {
    for place in places {
        counts[*place as usize] += 1;
    }
}

/// A word of the search, in small letters.
enum Word {
    Anywhere(String),
    In(Facet, String),
}

impl Word {
    fn of(word: &str) -> Self {
        let word = word.to_lowercase();
        let of_facet =
            word.split_once(':').and_then(|(key, value)| Some((Facet::of(key)?, value.to_owned())));
        of_facet.map_or(Self::Anywhere(word), |(facet, value)| Self::In(facet, value))
    }

    fn is_in(&self, run: &Entry, index: &Index) -> bool {
        match self {
            Self::Anywhere(word) => run.text.contains(word),
            Self::In(facet, word) => {
                let names = &index.values[*facet as usize];
                let is_it = |place: &u32| {
                    names.get(*place as usize).is_some_and(|name| name.to_lowercase().contains(word))
                };
                run.places[*facet as usize].iter().any(is_it)
            }
        }
    }
}

/// A day as the address has it.
fn day(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let shape = bytes.len() == 10 && bytes[4] == b'-' && bytes[7] == b'-';
    let number = |range: std::ops::Range<usize>| text.get(range)?.parse::<u32>().ok();
    let fits = shape
        && number(0..4).is_some()
        && (1..=12).contains(&number(5..7)?)
        && (1..=31).contains(&number(8..10)?);
    fits.then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(query: &str) -> Filter {
        Filter::read(query).unwrap().0
    }

    #[test]
    fn an_address_is_read_and_written_again() {
        let query =
            "?q=otter+64&dut=nf&dut=a%26b&size=64&from=2026-11-21&sort=trials&order=turned&page=3&per=10";
        assert_eq!(read(&query[1..]).address(), query);
        assert_eq!(read("sort=started&page=1").address(), "");
        let (filter, is_full) = Filter::read("q=&dut=nf&size=+").unwrap();
        assert_eq!((filter.address().as_str(), is_full), ("?dut=nf", false), "what a form leaves empty goes");
    }

    #[test]
    fn nonsense_is_refused_and_says_what_may_be_written() {
        for (query, says) in [
            ("page=0", "counted from 1"),
            ("page=x", "counted from 1"),
            ("per=501", "1 to 500"),
            ("per=99999999999999999999", "1 to 500"),
            ("sort=colour", "started, name"),
            ("order=1", "usual"),
            ("from=yesterday", "2026-11-21"),
            ("to=2026-13-01", "2026-11-21"),
            ("from=2026-1é-01", "2026-11-21"),
            ("dutt=nf", "there are nf, dut"),
        ] {
            let Err(Fault::Bad(text)) = Filter::read(query) else { panic!("{query} was taken") };
            assert!(text.contains(says), "{query}: {text}");
        }
        assert!(Filter::read(&"dut=a&".repeat(MOST_PARAMETERS + 1)).is_err());
        assert_eq!(
            read("q=%ff%00%3Cscript%3E").words,
            "\u{fffd}\u{0}<script>",
            "letters of no text are marked"
        );
    }
}
