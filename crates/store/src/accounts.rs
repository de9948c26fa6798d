//! Accounts of a server for several: a name, a quota, and tokens that stand for it.
//!
//! A token is `weir_KEY_SECRET`: the key names it and may be shown, the secret has 256 bits of the system's randomness. The store
//! has the SHA-256 of the secret: whoever reads the store cannot push. As nobody guesses such a secret, a hash that is slow on
//! purpose would protect nothing.

use crate::bundle::sha256;
use crate::engine::{Engine, Fault, Result, Row, values};
use crate::error::{StoreError, StoreResult};
use crate::open::Store;
use ring::rand::{SecureRandom as _, SystemRandom};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use subtle::ConstantTimeEq as _;

/// What every token begins with, so that one which was published by mistake is found.
pub const TOKEN_PREFIX: &str = "weir_";
const KEY_DIGITS: usize = 16;
const SECRET_DIGITS: usize = 64;
/// Longest name of an account.
const LONGEST_NAME: usize = 40;
/// Most tokens of an account that are not revoked.
pub const MOST_TOKENS: usize = 100;
/// When a token was last used is kept to the minute: reading must not write each time.
const USED_EVERY_MS: i64 = 60_000;

/// What a token may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// See the account's runs, and nothing else.
    Read,
    /// Push runs, change who may see them, and delete them, too.
    Push,
}

impl Scope {
    /// As it is written and kept.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Push => "push",
        }
    }

    fn of(row: &Row) -> Result<Self> {
        match row.get::<String>("scope")?.as_str() {
            "read" => Ok(Self::Read),
            "push" => Ok(Self::Push),
            other => Err(Fault::nonsense("scope", format!("`{other}` is no scope"))),
        }
    }
}

/// How much an account has pushed, or may.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Amount {
    /// Bytes that its bundles unpack to.
    pub bytes: u64,
    /// Runs.
    pub runs: u64,
}

/// A token without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TokenInfo {
    /// What names it.
    pub key: String,
    /// What it may do.
    pub scope: Scope,
    /// When it was made, milliseconds since 1970-01-01 UTC.
    pub created_ms: i64,
    /// When it was last used, to the minute; nothing of one that never was.
    pub used_ms: Option<i64>,
    /// When it was revoked.
    pub revoked_ms: Option<i64>,
}

/// An account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Account {
    /// Its name.
    pub name: String,
    /// When it was made, milliseconds since 1970-01-01 UTC.
    pub created_ms: i64,
    /// When it was closed; its runs stay.
    pub closed_ms: Option<i64>,
    /// What it may push.
    pub quota: Amount,
    /// What it has pushed.
    pub used: Amount,
    /// Its tokens, the oldest first.
    pub tokens: Vec<TokenInfo>,
}

/// Whom a token stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bearer {
    /// Number of the account.
    pub account: i64,
    /// Its name.
    pub name: String,
    /// What names the token.
    pub key: String,
    /// What it may do.
    pub scope: Scope,
    /// When it was last used.
    used_ms: Option<i64>,
}

/// A new token, whole: the only time that it is seen.
#[derive(PartialEq, Eq)]
pub struct NewToken {
    key: String,
    secret: String,
}

impl fmt::Debug for NewToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewToken").field("key", &self.key).finish_non_exhaustive()
    }
}

impl NewToken {
    fn random() -> std::result::Result<Self, &'static str> {
        let digits = |count: usize| -> std::result::Result<String, &'static str> {
            let mut bytes = vec![0_u8; count / 2];
            let filled = SystemRandom::new().fill(&mut bytes);
            filled.map_err(|_| "the system gives no random numbers, of which tokens are made")?;
            Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
        };
        Ok(Self { key: digits(KEY_DIGITS)?, secret: digits(SECRET_DIGITS)? })
    }

    /// What names it.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The token as it is used.
    pub fn text(&self) -> String {
        format!("{TOKEN_PREFIX}{}_{}", self.key, self.secret)
    }
}

/// The key and the secret of a token; nothing of what cannot be one.
fn parts(token: &str) -> Option<(&str, &str)> {
    let (key, secret) = token.strip_prefix(TOKEN_PREFIX)?.split_once('_')?;
    let is = |text: &str, digits: usize| {
        text.len() == digits && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    (is(key, KEY_DIGITS) && is(secret, SECRET_DIGITS)).then_some((key, secret))
}

/// What is wrong with the name of an account, if anything.
fn fault(name: &str) -> Option<&'static str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() {
        Some("it is empty")
    } else if !name.chars().all(is_plain) || name.starts_with(['-', '.']) {
        Some("a name has letters, digits, `-`, `_` and `.`, and begins with a letter or a digit")
    } else if name.len() > LONGEST_NAME {
        Some("it is longer than 40 letters")
    } else {
        None
    }
}

impl Store {
    /// Makes an account, and its first token, which may push.
    pub fn add_account(&mut self, name: &str, quota: Amount, now_ms: i64) -> StoreResult<NewToken> {
        let bad = |why| StoreError::BadAccount { name: name.to_owned(), why };
        if let Some(why) = fault(name) {
            return Err(bad(why));
        }
        let token = NewToken::random().map_err(bad)?;
        let made = self.transact(None, |tx| {
            let sql = "INSERT INTO accounts (name, created_ms, quota_bytes, quota_runs) VALUES (?, ?, ?, ?)";
            let [bytes, runs] = [quota.bytes, quota.runs].map(number);
            let Some(account) = tx.insert_new(sql, values![name, now_ms, bytes, runs])? else {
                return Ok(false);
            };
            insert(tx, account, &token, Scope::Push, now_ms).map(|()| true)
        })?;
        if made {
            Ok(token)
        } else {
            Err(bad("there is one already; `weir account token NAME` gives it another token"))
        }
    }

    /// Makes another token of an account.
    pub fn add_token(&mut self, name: &str, scope: Scope, now_ms: i64) -> StoreResult<NewToken> {
        let bad = |why| StoreError::BadAccount { name: name.to_owned(), why };
        let token = NewToken::random().map_err(bad)?;
        let account = self.account_number(name)?;
        let made = self.transact(None, |tx| {
            let open = "UPDATE accounts SET closed_ms = closed_ms WHERE id = ? AND closed_ms IS NULL";
            if tx.execute(open, values![account])? == 0 {
                return Ok(Err("it was closed"));
            }
            let sql = "SELECT count(*) AS tokens FROM tokens WHERE account_id = ? AND revoked_ms IS NULL";
            if tx.one(sql, values![account])?.get::<i64>("tokens")? >= MOST_TOKENS as i64 {
                return Ok(Err("it has 100 tokens; revoke some"));
            }
            insert(tx, account, &token, scope, now_ms).map(Ok)
        })?;
        made.map(|()| token).map_err(bad)
    }

    /// Changes what an account may push.
    pub fn set_quota(&mut self, name: &str, quota: Amount) -> StoreResult<()> {
        let account = self.account_number(name)?;
        let [bytes, runs] = [quota.bytes, quota.runs].map(number);
        let sql = "UPDATE accounts SET quota_bytes = ?, quota_runs = ? WHERE id = ?";
        self.transact(None, |tx| tx.execute(sql, values![bytes, runs, account]).map(drop))
    }

    /// Revokes a token of an account by its key, or closes the account with all its tokens; how many tokens ended.
    pub fn revoke(&mut self, name: &str, key: Option<&str>, now_ms: i64) -> StoreResult<u64> {
        let account = self.account_number(name)?;
        let ended = self.transact(None, |tx| match key {
            Some(key) => {
                let sql =
                    "UPDATE tokens SET revoked_ms = coalesce(revoked_ms, ?) WHERE account_id = ? AND key = ?";
                tx.execute(sql, values![now_ms, account, key])
            }
            None => {
                let sql = "UPDATE accounts SET closed_ms = coalesce(closed_ms, ?) WHERE id = ?";
                tx.execute(sql, values![now_ms, account])?;
                let sql = "UPDATE tokens SET revoked_ms = ? WHERE account_id = ? AND revoked_ms IS NULL";
                tx.execute(sql, values![now_ms, account])
            }
        })?;
        match key {
            Some(_) if ended == 0 => Err(StoreError::BadAccount {
                name: name.to_owned(),
                why: "it has no such token; `weir account list` has the keys of each",
            }),
            _ => Ok(ended),
        }
    }

    /// All accounts, by name.
    pub fn accounts(&self) -> StoreResult<Vec<Account>> {
        self.read(|db| {
            let sql =
                "SELECT id, name, created_ms, closed_ms, quota_bytes, quota_runs FROM accounts ORDER BY name";
            db.query(sql, &[])?.iter().map(|row| account(db, row)).collect()
        })
    }

    /// One account by its number.
    pub fn account(&self, number: i64) -> StoreResult<Option<Account>> {
        self.read(|db| {
            let sql =
                "SELECT id, name, created_ms, closed_ms, quota_bytes, quota_runs FROM accounts WHERE id = ?";
            db.first(sql, values![number])?.map(|row| account(db, &row)).transpose()
        })
    }

    /// Whom a token stands for; nobody where it is wrong or revoked, or the account closed. How long it takes tells nothing of
    /// how much of a secret is right.
    pub fn bearer(&self, token: &str) -> StoreResult<Option<Bearer>> {
        let Some((key, secret)) = parts(token) else { return Ok(None) };
        let found = self.read(|db| {
            let row = db.first(BY_KEY, values![key])?;
            row.map(|row| Ok((row.get::<String>("hash")?, bearer(&row)?))).transpose()
        })?;
        let given = sha256(secret.as_bytes());
        let (hash, bearer) = found.map_or((String::new(), None), |(hash, bearer)| (hash, Some(bearer)));
        Ok(bearer.filter(|_| bool::from(given.as_bytes().ct_eq(hash.as_bytes()))))
    }

    /// Whom a token stands for that was shown before, by its key: nobody where it was revoked since.
    pub fn bearer_by_key(&self, key: &str) -> StoreResult<Option<Bearer>> {
        self.read(|db| db.first(BY_KEY, values![key])?.map(|row| bearer(&row)).transpose())
    }

    /// Keeps that a token was used, where that was not kept a moment ago.
    pub fn used(&mut self, bearer: &Bearer, now_ms: i64) -> StoreResult<()> {
        if bearer.used_ms.is_some_and(|used| now_ms.saturating_sub(used) < USED_EVERY_MS) {
            return Ok(());
        }
        let sql = "UPDATE tokens SET used_ms = ? WHERE key = ?";
        self.transact(None, |tx| tx.execute(sql, values![now_ms, &bearer.key]).map(drop))
    }

    fn account_number(&self, name: &str) -> StoreResult<i64> {
        let found = self.read(|db| {
            let row = db.first("SELECT id FROM accounts WHERE name = ?", values![name])?;
            row.map(|row| row.get("id")).transpose()
        })?;
        found.ok_or_else(|| StoreError::BadAccount {
            name: name.to_owned(),
            why: "there is none of this name; `weir account list` has all, `weir account add` makes one",
        })
    }
}

const BY_KEY: &str =
    "SELECT accounts.id AS account, accounts.name, tokens.key, tokens.hash, tokens.scope, tokens.used_ms
    FROM tokens JOIN accounts ON accounts.id = tokens.account_id
    WHERE tokens.key = ? AND tokens.revoked_ms IS NULL AND accounts.closed_ms IS NULL";

fn bearer(row: &Row) -> Result<Bearer> {
    Ok(Bearer {
        account: row.get("account")?,
        name: row.get("name")?,
        key: row.get("key")?,
        scope: Scope::of(row)?,
        used_ms: row.get("used_ms")?,
    })
}

fn insert(tx: &Engine, account: i64, token: &NewToken, scope: Scope, now_ms: i64) -> Result<()> {
    let sql = "INSERT INTO tokens (account_id, key, hash, scope, created_ms) VALUES (?, ?, ?, ?, ?)";
    let hash = sha256(token.secret.as_bytes());
    tx.execute(sql, values![account, &token.key, hash, scope.name(), now_ms]).map(drop)
}

fn account(db: &Engine, row: &Row) -> Result<Account> {
    let id: i64 = row.get("id")?;
    let sql =
        "SELECT key, scope, created_ms, used_ms, revoked_ms FROM tokens WHERE account_id = ? ORDER BY id";
    let token = |row: &Row| {
        Ok(TokenInfo {
            key: row.get("key")?,
            scope: Scope::of(row)?,
            created_ms: row.get("created_ms")?,
            used_ms: row.get("used_ms")?,
            revoked_ms: row.get("revoked_ms")?,
        })
    };
    let amount = |name: &str| row.get::<i64>(name).map(i64::unsigned_abs);
    Ok(Account {
        name: row.get("name")?,
        created_ms: row.get("created_ms")?,
        closed_ms: row.get("closed_ms")?,
        quota: Amount { bytes: amount("quota_bytes")?, runs: amount("quota_runs")? },
        used: used(db, id, None)?,
        tokens: db.query(sql, values![id])?.iter().map(token).collect::<Result<_>>()?,
    })
}

/// What an account has pushed, one run left out.
pub(crate) fn used(db: &Engine, account: i64, without: Option<i64>) -> Result<Amount> {
    let sql = "SELECT count(*) AS runs, CAST(coalesce(sum(bytes), 0) AS BIGINT) AS bytes FROM shares
               WHERE account_id = ? AND run_id <> ?";
    let row = db.one(sql, values![account, without.unwrap_or(-1)])?;
    let count = |name: &str| row.get::<i64>(name).map(i64::unsigned_abs);
    Ok(Amount { bytes: count("bytes")?, runs: count("runs")? })
}

/// A count as databases have it.
pub(crate) fn number(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_long_random_and_shows_its_secret_nowhere_but_in_its_text() {
        let (one, other) = (NewToken::random().unwrap(), NewToken::random().unwrap());
        let text = one.text();
        assert_eq!(text.len(), TOKEN_PREFIX.len() + KEY_DIGITS + 1 + SECRET_DIGITS);
        assert_eq!(parts(&text), Some((one.key.as_str(), one.secret.as_str())));
        assert!(one.key != other.key && one.secret != other.secret);
        assert!(!format!("{one:?}").contains(&one.secret));
    }

    #[test]
    fn what_is_no_token_is_told_before_the_store_is_asked() {
        let good = NewToken::random().unwrap().text();
        for bad in [
            "",
            "weir_",
            "weir__",
            &good[1..],
            &good[..good.len() - 1],
            &good.to_uppercase(),
            &format!("{good}0"),
            "x",
        ] {
            assert_eq!(parts(bad), None, "{bad}");
        }
    }

    #[test]
    fn names_of_accounts_are_plain() {
        for name in ["lab", "lab-2.north_east", "7"] {
            assert_eq!(fault(name), None, "{name}");
        }
        for name in ["", "-x", ".x", "a b", "a/b", "<b>", "ünicode", &"x".repeat(41)] {
            assert!(fault(name).is_some(), "{name}");
        }
    }
}
