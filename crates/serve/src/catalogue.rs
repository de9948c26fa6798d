//! What runs are found by: an index in memory, brought up to date when somebody asks.
//!
//! A list is filtered, counted and sorted here and not by the database: one pass over the runs answers every question of the
//! page, on every engine alike. The outline of all runs is read when the index is older than [`crate::Limits::fresh`]; the
//! facts of a run when it is new, changes, or is being measured. While one reader brings it up to date the others have the
//! old one.

mod facet;

pub(crate) use facet::{FACETS, Facet, short, state};

use crate::answer::Fault;
use crate::stores::Stores;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};
use weir_store::{Facts, Outline, RunId, Store, StoreResult, View, Viewer};
use weir_trial::run::RunState;
use weir_units::utc;

/// Facts of the environment that the list shows or is searched by.
const ENVIRONMENT: [&str; 4] = ["machine.id", "machine.product", "cpu.model", "kernel.release"];
/// Numbers of runs that are read in one go.
const AT_ONCE: i64 = 1000;

/// A run of the list.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) outline: Outline,
    pub(crate) facts: Facts,
    /// Of each facet, the places of its values in [`Index::values`].
    pub(crate) places: [Vec<u32>; FACETS],
    /// The day it was begun: `2026-11-21`.
    pub(crate) day: String,
    /// All that is searched, in small letters.
    pub(crate) text: String,
}

impl Entry {
    /// Tells the run apart from others, and from itself before it went on.
    pub(crate) fn version(&self) -> (i64, &str, &str, Option<i64>, bool, u32) {
        let Outline { id, uuid, name, ended_ms, state, .. } = &self.outline;
        (*id, uuid, name, *ended_ms, *state == RunState::Finished, self.facts.finished)
    }

    /// What names the run in addresses: its identity, which is the same in every database.
    pub(crate) fn address(&self) -> String {
        if self.outline.uuid.is_empty() { self.outline.id.to_string() } else { self.outline.uuid.clone() }
    }
}

/// All runs, newest first.
#[derive(Debug, Default)]
pub(crate) struct Index {
    pub(crate) runs: Vec<Arc<Entry>>,
    /// Of each facet, every value there is or was.
    pub(crate) values: [Vec<Arc<str>>; FACETS],
}

/// The index of all runs, what of it everybody has, and when it was read.
#[derive(Clone)]
struct Known {
    read: Instant,
    all: Arc<Index>,
    public: Arc<Index>,
    /// How often there had been something to forget, and something new, when its reading began.
    forgets: u64,
    news: u64,
}

/// The index, brought up to date when it is asked for.
pub(crate) struct Catalogue {
    fresh: Duration,
    now: RwLock<Option<Known>>,
    reading: tokio::sync::Mutex<()>,
    forgets: AtomicU64,
    news: AtomicU64,
}

impl Catalogue {
    /// A catalogue that is read when it is older than this.
    pub(crate) fn new(fresh: Duration) -> Self {
        Self {
            fresh,
            now: RwLock::default(),
            reading: tokio::sync::Mutex::default(),
            forgets: AtomicU64::default(),
            news: AtomicU64::default(),
        }
    }

    fn known(&self) -> Option<Known> {
        self.now.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Has nobody see what it is now: who may see a run was changed, or a run is gone.
    pub(crate) fn forget(&self) {
        self.forgets.fetch_add(1, Ordering::SeqCst);
    }

    /// Has it read again when it is next asked for, as a run is new. Whoever asks while it is read has it without that run.
    pub(crate) fn renew(&self) {
        self.news.fetch_add(1, Ordering::SeqCst);
    }

    /// The runs that are listed for somebody, as it is now.
    pub(crate) async fn seen(&self, stores: &Stores, viewer: Viewer) -> Result<Arc<Index>, Fault> {
        let known = self.index(stores).await?;
        Ok(match viewer {
            Viewer::Anybody => known.public,
            Viewer::Account(_) => listed(&known.all, viewer),
        })
    }

    async fn index(&self, stores: &Stores) -> Result<Known, Fault> {
        let is_right = |known: &Known| known.forgets == self.forgets.load(Ordering::SeqCst);
        let is_fresh = |known: &Known| {
            is_right(known)
                && known.news == self.news.load(Ordering::SeqCst)
                && known.read.elapsed() < self.fresh
        };
        if let Some(known) = self.known().filter(is_fresh) {
            return Ok(known);
        }
        let reading = match (self.known(), self.reading.try_lock()) {
            // Of what was changed nobody has the old one.
            (Some(old), Err(_)) if is_right(&old) => return Ok(old),
            (_, Ok(reading)) => reading,
            (_, Err(_)) => self.reading.lock().await,
        };
        // Whoever was waited for may have brought it up to date.
        let before = self.known();
        if let Some(known) = before.clone().filter(is_fresh) {
            return Ok(known);
        }
        let before = before.map(|known| (known.all, known.public));
        // What is changed while it is read is read again.
        let (forgets, news) = (self.forgets.load(Ordering::SeqCst), self.news.load(Ordering::SeqCst));
        let known = stores.whole(move |store| Ok(Known::read(store, before, forgets, news)?)).await?;
        *self.now.write().unwrap_or_else(PoisonError::into_inner) = Some(known.clone());
        drop(reading);
        Ok(known)
    }
}

impl Known {
    fn read(
        store: &Store,
        before: Option<(Arc<Index>, Arc<Index>)>,
        forgets: u64,
        news: u64,
    ) -> StoreResult<Self> {
        let (old, old_public) = before.unwrap_or_default();
        let all = read(store, &old)?;
        let is_same = Arc::ptr_eq(&all, &old) && !old.runs.is_empty();
        let public = if is_same { old_public } else { listed(&all, Viewer::Anybody) };
        Ok(Self { read: Instant::now(), all, public, forgets, news })
    }
}

/// The runs that are listed for somebody; of the values of facets those alone that these runs have.
fn listed(all: &Arc<Index>, viewer: Viewer) -> Arc<Index> {
    let is_listed = |run: &&Arc<Entry>| viewer.lists(run.outline.share.as_ref());
    if all.runs.iter().all(|run| is_listed(&run)) {
        return Arc::clone(all);
    }
    let runs: Vec<Arc<Entry>> = all.runs.iter().filter(is_listed).cloned().collect();
    let nothing: Arc<str> = "".into();
    let values = std::array::from_fn(|facet| {
        let mut values = vec![Arc::clone(&nothing); all.values[facet].len()];
        for place in runs.iter().flat_map(|run| &run.places[facet]) {
            values[*place as usize] = Arc::clone(&all.values[facet][*place as usize]);
        }
        values
    });
    Arc::new(Index { runs, values })
}

/// A run by itself, as somebody sees it.
pub(crate) fn one(view: &View<'_>, run: RunId) -> Result<Entry, Fault> {
    let outline = view.outline(run)?.ok_or_else(|| Fault::Missing("the run went away".to_owned()))?;
    Ok(entry(outline, view.facts(run)?, &mut Values::of(&Index::default())))
}

/// The index brought up to date; the old one where nothing changed.
fn read(store: &Store, old: &Arc<Index>) -> StoreResult<Arc<Index>> {
    let outline = store.outline()?;
    let known: HashMap<i64, &Arc<Entry>> = old.runs.iter().map(|run| (run.outline.id, run)).collect();
    let is_known = |run: &Outline| known.get(&run.id).is_some_and(|entry| !run.has_changed(&entry.outline));
    let changed: Vec<i64> = outline.iter().filter(|run| !is_known(run)).map(|run| run.id).collect();
    if changed.is_empty() && outline.len() == old.runs.len() {
        return Ok(Arc::clone(old));
    }
    let mut facts = facts(store, &changed)?;
    let mut values = Values::of(old);
    let mut runs = Vec::with_capacity(outline.len());
    for outline in outline {
        let kept = known.get(&outline.id).filter(|_| !facts.contains_key(&outline.id));
        runs.push(match kept {
            Some(entry) if entry.outline == outline => Arc::clone(entry),
            _ => {
                let facts = facts.remove(&outline.id).unwrap_or_default();
                Arc::new(entry(outline, facts, &mut values))
            }
        });
    }
    Ok(Arc::new(Index { runs, values: values.names }))
}

/// The facts of some runs, newest first: runs whose numbers are near each other are read together.
fn facts(store: &Store, runs: &[i64]) -> StoreResult<BTreeMap<i64, Facts>> {
    let mut found = BTreeMap::new();
    let mut rest = runs;
    while let Some(last) = rest.first() {
        let with = rest.iter().take_while(|id| *id > &(last - AT_ONCE)).count();
        let (these, others) = rest.split_at(with);
        let first = these.last().unwrap_or(last);
        // A few changed runs, far apart, are not worth all that lies between them.
        if ((last - first) as usize) < 4 * these.len() {
            found.extend(store.facts(*first, *last, &ENVIRONMENT)?);
        } else {
            for id in these {
                found.extend(store.facts(*id, *id, &ENVIRONMENT)?);
            }
        }
        rest = others;
    }
    found.retain(|id, _| runs.binary_search_by(|run| id.cmp(run)).is_ok());
    Ok(found)
}

/// Values of facets by name.
struct Values {
    names: [Vec<Arc<str>>; FACETS],
    places: [HashMap<Arc<str>, u32>; FACETS],
}

impl Values {
    fn of(index: &Index) -> Self {
        let places = |names: &Vec<Arc<str>>| names.iter().cloned().zip(0..).collect();
        Self { names: index.values.clone(), places: index.values.each_ref().map(places) }
    }

    fn place(&mut self, facet: usize, value: &str) -> u32 {
        if let Some(place) = self.places[facet].get(value) {
            return *place;
        }
        let (name, place): (Arc<str>, _) = (value.into(), self.names[facet].len() as u32);
        self.names[facet].push(Arc::clone(&name));
        self.places[facet].insert(name, place);
        place
    }
}

fn entry(outline: Outline, facts: Facts, values: &mut Values) -> Entry {
    let places = Facet::ALL.map(|facet| {
        let of = facet.values(&outline, &facts);
        of.iter().map(|value| values.place(facet as usize, value)).collect::<Vec<_>>()
    });
    let lists = [&facts.nfs, &facts.duts, &facts.versions, &facts.wirings, &facts.traces, &facts.methods];
    let words = lists.into_iter().flatten().chain(facts.environment.values());
    let words = words.chain([&outline.name, &outline.uuid, &outline.weir]).chain(&facts.imported_as);
    let text = words.map(|word| word.to_lowercase()).collect::<Vec<_>>().join("\n");
    Entry { places, day: utc(outline.started_ms, utc::DAY), text, outline, facts }
}
