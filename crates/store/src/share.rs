//! Who pushed a run, and who may see it.

use crate::engine::{Engine, Fault, Result, Row, values};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Who may see a run that was pushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Visibility {
    /// Everybody, and it is listed.
    Public,
    /// Whoever has its address, by its UUID; it is in no list.
    Unlisted,
    /// Its account alone.
    Private,
}

impl Visibility {
    /// Every one.
    pub const ALL: [Self; 3] = [Self::Public, Self::Unlisted, Self::Private];

    /// As it is written and kept.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Unlisted => "unlisted",
            Self::Private => "private",
        }
    }
}

impl fmt::Display for Visibility {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A text that is no visibility.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no visibility; write public, unlisted or private")]
pub struct ParseVisibilityError(String);

impl FromStr for Visibility {
    type Err = ParseVisibilityError;

    fn from_str(text: &str) -> std::result::Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|visibility| visibility.name() == text);
        found.ok_or_else(|| ParseVisibilityError(text.chars().take(40).collect()))
    }
}

/// What stands with a run that was pushed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// Number of the account.
    pub account: i64,
    /// Its name.
    pub by: String,
    /// Who may see it.
    pub visibility: Visibility,
    /// The licence under which it was pushed.
    pub licence: String,
    /// Bytes that count against the account's quota.
    pub bytes: u64,
    /// When it was pushed last, milliseconds since 1970-01-01 UTC.
    pub pushed_ms: i64,
}

/// The columns of a run's share, for a query that joins the tables `shares` and `accounts` to `runs`.
pub(crate) const COLUMNS: &str = "shares.account_id, accounts.name AS shared_by, shares.visibility, shares.licence, \
     shares.bytes, shares.pushed_ms";
/// How they are joined.
pub(crate) const JOIN: &str =
    "LEFT JOIN shares ON shares.run_id = runs.id LEFT JOIN accounts ON accounts.id = shares.account_id";

/// The share in a row of such a query; nothing of a run that was not pushed.
pub(crate) fn share(row: &Row) -> Result<Option<Share>> {
    let Some(account) = row.get("account_id")? else { return Ok(None) };
    let visibility: String = row.get("visibility")?;
    Ok(Some(Share {
        account,
        by: row.get("shared_by")?,
        visibility: visibility.parse().map_err(|error| Fault::nonsense("visibility", error))?,
        licence: row.get("licence")?,
        bytes: row.get::<i64>("bytes")?.unsigned_abs(),
        pushed_ms: row.get("pushed_ms")?,
    }))
}

/// The share of a run.
pub(crate) fn of(db: &Engine, run: i64) -> Result<Option<Share>> {
    let sql = format!("SELECT {COLUMNS} FROM runs {JOIN} WHERE runs.id = ?");
    db.first(&sql, values![run])?.map_or(Ok(None), |row| share(&row))
}

/// Keeps the share of a run in place of the one it has.
pub(crate) fn insert(tx: &Engine, run: i64, share: &Share) -> Result<()> {
    let sql = "INSERT INTO shares (run_id, account_id, visibility, licence, bytes, pushed_ms) VALUES (?, ?, ?, ?, ?, ?)
               ON CONFLICT (run_id) DO UPDATE SET account_id = excluded.account_id, visibility = excluded.visibility,
               licence = excluded.licence, bytes = excluded.bytes, pushed_ms = excluded.pushed_ms";
    let bytes = i64::try_from(share.bytes).unwrap_or(i64::MAX);
    let visibility = share.visibility.name();
    tx.execute(sql, values![run, share.account, visibility, &share.licence, bytes, share.pushed_ms]).map(drop)
}
