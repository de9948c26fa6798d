//! Runs that an account pushes, and what it does with them afterwards.
//!
//! A run, its share, and the check of the quota are one transaction: pushes at the same time cannot go beyond a quota together, as
//! each holds the account's row while it counts.

use crate::accounts::used;
use crate::engine::{Engine, Fault, Result, values};
use crate::error::{StoreError, StoreResult};
use crate::import::{Imported, Origin};
use crate::open::Store;
use crate::share::{self, Share, Visibility};
use crate::write::RunId;
use weir_trial::run::Run;

/// How an account pushes a run.
#[derive(Clone, Copy, Debug)]
pub struct Push<'a> {
    /// Number of the account.
    pub account: i64,
    /// Who may see it; where nothing is said, a run that was pushed before stays as it is, and a new one is private.
    pub visibility: Option<Visibility>,
    /// The licence under which it is pushed.
    pub licence: &'a str,
    /// What counts against the quota.
    pub bytes: u64,
    /// Now, milliseconds since 1970-01-01 UTC.
    pub now_ms: i64,
}

impl Store {
    /// Takes in a run that an account pushes, whole or not at all. Doing it again changes nothing but who may see the run.
    pub fn push(&mut self, run: &Run, origin: &Origin, push: &Push<'_>) -> StoreResult<Imported> {
        if let Some(id) = self.find_uuid(&run.uuid)? {
            match self.share(id)? {
                Some(share) if share.account == push.account => {}
                there => {
                    // What everybody may see need not be hidden from who has it.
                    let is_public = there.is_none_or(|share| share.visibility == Visibility::Public);
                    let stored = self.load(id)?;
                    let same = Run { id: stored.id, name: stored.name.clone(), ..run.clone() } == stored;
                    return match is_public && same {
                        true => Ok(Imported::Known(id)),
                        false => Err(StoreError::OthersRun { uuid: run.uuid.clone() }),
                    };
                }
            }
        }
        let imported = self.take_in(run, origin, &|tx, id| insert(tx, id, push))?;
        if let (Imported::Known(id) | Imported::Older(id), Some(visibility)) = (&imported, push.visibility) {
            self.set_visibility(*id, push.account, visibility)?;
        }
        // Another account may have been quicker.
        match self.share(imported.run())? {
            Some(share) if share.account == push.account => Ok(imported),
            _ => Err(StoreError::OthersRun { uuid: run.uuid.clone() }),
        }
    }

    /// What stands with a run that was pushed.
    pub fn share(&self, run: RunId) -> StoreResult<Option<Share>> {
        self.read(|db| share::of(db, run.0))
    }

    /// Changes who may see a run of an account; false where it is not the account's.
    pub fn set_visibility(&mut self, run: RunId, account: i64, visibility: Visibility) -> StoreResult<bool> {
        let sql = "UPDATE shares SET visibility = ? WHERE run_id = ? AND account_id = ?";
        let changed =
            self.transact(None, |tx| tx.execute(sql, values![visibility.name(), run.0, account]))?;
        Ok(changed > 0)
    }

    /// Forgets a run of an account with everything in it; false where it is not the account's.
    pub fn remove_shared(&mut self, run: RunId, account: i64) -> StoreResult<bool> {
        let sql = "DELETE FROM runs WHERE id = ?1 AND EXISTS (SELECT 1 FROM shares WHERE run_id = ?1 AND account_id = ?2)";
        Ok(self.transact(None, |tx| tx.execute(sql, values![run.0, account]))? > 0)
    }

    /// Whether an account has room for one more run of so many bytes; the error says what is used up.
    pub fn has_room(&self, account: i64, bytes: u64) -> StoreResult<()> {
        self.read(|db| room(db, account, None, bytes))
    }
}

/// Within the transaction that inserts a run: its share, if the account has room for it.
fn insert(tx: &Engine, run: i64, push: &Push<'_>) -> Result<()> {
    // Holds the account's row, so that of two pushes the second counts the first.
    let open = "UPDATE accounts SET quota_runs = quota_runs WHERE id = ? AND closed_ms IS NULL";
    if tx.execute(open, values![push.account])? == 0 {
        let why = "it was closed";
        return Err(Fault::refused(StoreError::BadAccount { name: push.account.to_string(), why }));
    }
    room(tx, push.account, Some(run), push.bytes)?;
    let before = share::of(tx, run)?.map(|share| share.visibility);
    let Push { account, bytes, now_ms, .. } = *push;
    let visibility = push.visibility.or(before).unwrap_or(Visibility::Private);
    let (by, licence) = (String::new(), push.licence.to_owned());
    share::insert(tx, run, &Share { account, by, visibility, licence, bytes, pushed_ms: now_ms })
}

fn room(db: &Engine, account: i64, without: Option<i64>, bytes: u64) -> Result<()> {
    let sql = "SELECT quota_bytes, quota_runs FROM accounts WHERE id = ?";
    let row = db.one(sql, values![account])?;
    let used = used(db, account, without)?;
    let quota = |name: &str| row.get::<i64>(name).map(i64::unsigned_abs);
    let (most_bytes, most_runs) = (quota("quota_bytes")?, quota("quota_runs")?);
    if used.runs >= most_runs {
        let what = format!("it has {} runs here and may have {most_runs}", used.runs);
        return Err(Fault::refused(StoreError::Quota { what }));
    }
    if used.bytes.saturating_add(bytes) > most_bytes {
        let what = format!(
            "its runs take {} bytes here, this one takes {bytes}, and it may have {most_bytes}",
            used.bytes
        );
        return Err(Fault::refused(StoreError::Quota { what }));
    }
    Ok(())
}
