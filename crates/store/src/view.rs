//! What somebody may see of a store: the one way by which a server reads runs.
//!
//! A run that was not pushed, or is public, is seen by everybody. An unlisted one is found by its UUID alone: not by its name, its
//! number or the beginning of either, and it is in no list. A private one is there for its account, and for nobody else is it
//! told from one that is not there.

use crate::catalogue::{Facts, Outline};
use crate::engine::{Result, Row, values};
use crate::error::{StoreError, StoreResult};
use crate::import::Origin;
use crate::open::Store;
use crate::select::Selector;
use crate::share::{Share, Visibility, of};
use crate::write::RunId;
use weir_trial::run::{PointKey, Run};

/// Who looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Viewer {
    /// Somebody who did not say who they are.
    #[default]
    Anybody,
    /// An account, by its number.
    Account(i64),
}

impl Viewer {
    /// The account's number for a query: of nobody one that no account has.
    fn number(self) -> i64 {
        match self {
            Self::Anybody => -1,
            Self::Account(number) => number,
        }
    }

    /// Whether a run is this account's.
    pub fn owns(self, share: Option<&Share>) -> bool {
        share.is_some_and(|share| self == Self::Account(share.account))
    }

    /// Whether a run with this share is in the lists of this viewer.
    pub fn lists(self, share: Option<&Share>) -> bool {
        share.is_none_or(|share| share.visibility == Visibility::Public) || self.owns(share)
    }

    /// Whether a run with this share may be seen by this viewer, who has its address.
    pub fn sees(self, share: Option<&Share>) -> bool {
        share.is_none_or(|share| share.visibility != Visibility::Private) || self.owns(share)
    }
}

/// What a query adds to have the runs alone that a viewer, `?1`, has in lists.
const LISTED: &str = "FROM runs LEFT JOIN shares ON shares.run_id = runs.id
    WHERE (shares.visibility IS NULL OR shares.visibility = 'public' OR shares.account_id = ?1)";

/// A store as somebody sees it.
#[derive(Debug)]
pub struct View<'a> {
    store: &'a Store,
    viewer: Viewer,
}

impl Store {
    /// The store as somebody sees it.
    pub fn view(&self, viewer: Viewer) -> View<'_> {
        View { store: self, viewer }
    }
}

impl View<'_> {
    /// Who looks.
    pub fn viewer(&self) -> Viewer {
        self.viewer
    }

    /// The run that a selector means, of those that are seen.
    pub fn find(&self, selector: &Selector) -> StoreResult<RunId> {
        let viewer = self.viewer.number();
        let listed = |end: &str| format!("SELECT runs.id AS id, runs.name AS name {LISTED} {end}");
        let found = self.store.read(|db| match selector {
            Selector::Last(back) => {
                db.query(&listed("ORDER BY runs.id DESC LIMIT 1 OFFSET ?2"), values![viewer, *back])
            }
            Selector::Number(number) => db.query(&listed("AND runs.id = ?2"), values![viewer, *number]),
            Selector::Name(name) => {
                let by_uuid = db.query("SELECT id, name FROM runs WHERE uuid = ?", values![name])?;
                let mut seen = Vec::new();
                for row in by_uuid {
                    if self.viewer.sees(of(db, row.get("id")?)?.as_ref()) {
                        seen.push(row);
                    }
                }
                if !seen.is_empty() && !name.is_empty() {
                    return Ok(seen);
                }
                let exact = db.query(&listed("AND runs.name = ?2"), values![viewer, name])?;
                if !exact.is_empty() {
                    return Ok(exact);
                }
                let beyond = format!("{name}\u{10ffff}");
                let sql = listed("AND runs.name >= ?2 AND runs.name < ?3 ORDER BY runs.id DESC LIMIT 20");
                db.query(&sql, values![viewer, name, beyond])
            }
        })?;
        match found.as_slice() {
            [run] => self.store.read(|_| run.get("id")).map(RunId),
            [] => Err(self.none(selector)?),
            several => {
                let names = |rows: &[Row]| rows.iter().map(|row| row.get("name")).collect::<Result<_>>();
                let matches = self.store.read(|_| names(several))?;
                Err(StoreError::Ambiguous { selector: selector.clone(), matches })
            }
        }
    }

    fn none(&self, selector: &Selector) -> StoreResult<StoreError> {
        let sql = format!("SELECT count(*) AS runs {LISTED}");
        let count = self.store.read(|db| db.one(&sql, values![self.viewer.number()])?.get::<i64>("runs"))?;
        let (selector, path) = (selector.clone(), self.store.path.clone());
        Ok(StoreError::NoSuchRun { selector, path, runs: count.unsigned_abs() })
    }

    /// What stands with a run that was pushed; an error where it is not seen.
    pub fn share(&self, run: RunId) -> StoreResult<Option<Share>> {
        let share = self.store.share(run)?;
        if self.viewer.sees(share.as_ref()) { Ok(share) } else { Err(self.none(&Selector::Number(run.0))?) }
    }

    /// A whole run, every trial and histogram in it.
    pub fn load(&self, run: RunId) -> StoreResult<Run> {
        self.share(run)?;
        self.store.load(run)
    }

    /// What a run says of the points that are wanted, as [`Store::load_points`].
    pub fn load_points(&self, run: RunId, wanted: &dyn Fn(&PointKey) -> bool) -> StoreResult<Option<Run>> {
        self.share(run)?;
        self.store.load_points(run, wanted)
    }

    /// A run in one line; nothing where it went away.
    pub fn outline(&self, run: RunId) -> StoreResult<Option<Outline>> {
        let outline = self.store.outline_of(run)?;
        Ok(outline.filter(|outline| self.viewer.sees(outline.share.as_ref())))
    }

    /// What a run can be found by.
    pub fn facts(&self, run: RunId) -> StoreResult<Facts> {
        self.share(run)?;
        Ok(self.store.facts(run.0, run.0, &[])?.remove(&run.0).unwrap_or_default())
    }

    /// Where a run came from.
    pub fn origin(&self, run: RunId) -> StoreResult<Option<Origin>> {
        self.share(run)?;
        self.store.origin(run)
    }
}
