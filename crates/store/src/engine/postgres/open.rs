//! What a server's database holds, and how it becomes a store of this version.

use super::LOCKS;
use super::fault::{all_of, sorted};
use crate::error::{StoreError, StoreResult};
use crate::migrations::{POSTGRES as MIGRATIONS, VERSION};
use crate::open::BUSY_TIMEOUT;
use ::postgres::{Client, Config, Error, NoTls, Transaction};
use std::path::Path;

/// The oldest server that this is meant for.
const OLDEST: i32 = 130_000;

/// What a database holds.
enum Found {
    Nothing,
    Version(i64),
    Foreign(String),
}

/// Connects, and raises the database to this version. One that holds nothing becomes a store where `make` says so.
pub(super) fn open(config: &Config, place: &Path, make: bool) -> StoreResult<Client> {
    let path = || place.to_owned();
    let mut client = config.connect(NoTls).map_err(|error| connecting(place, &error))?;
    let found = set_up(&mut client).map_err(|error| sorted(path(), 0, &error))?;
    let newer = |found: i64| {
        let found = u32::try_from(found).unwrap_or(u32::MAX);
        StoreError::Newer { path: path(), found, known: VERSION }
    };
    match found {
        Found::Foreign(what) => return Err(StoreError::NotADatabase { path: path(), what }),
        Found::Nothing if !make => return Err(StoreError::Missing { path: path() }),
        Found::Version(found) if found > i64::from(VERSION) => return Err(newer(found)),
        Found::Version(found) if found == i64::from(VERSION) => {}
        Found::Nothing | Found::Version(_) => {
            let raised = raise(&mut client).map_err(|error| match sorted(path(), 0, &error) {
                StoreError::Refused { path, why } => StoreError::Refused {
                    path,
                    why: format!("its tables must be raised to version {VERSION}, and {why}"),
                },
                other => other,
            })?;
            if raised > i64::from(VERSION) {
                return Err(newer(raised));
            }
        }
    }
    Ok(client)
}

/// Sets the session up and says what the database holds. Writes nothing.
fn set_up(client: &mut Client) -> Result<Found, Error> {
    client.batch_execute(&format!(
        "SET lock_timeout = '{}s'; SET client_min_messages = warning;
         SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'",
        BUSY_TIMEOUT.as_secs()
    ))?;
    let row = client.query_one(
        "SELECT current_setting('server_version_num')::INTEGER, current_setting('server_version'),
                current_schema() IS NULL, current_setting('server_encoding'),
                count(*) FILTER (WHERE relname = 'weir_store') > 0, count(*)
         FROM pg_class
         WHERE relnamespace = to_regnamespace(quote_ident(current_schema())) AND relkind IN ('r', 'p', 'v', 'm', 'f')",
        &[],
    )?;
    let (number, version): (i32, String) = (row.get(0), row.get(1));
    let (nowhere, encoding): (bool, String) = (row.get(2), row.get(3));
    // Both from one look at the catalogue, which another process may be filling.
    let (ours, others): (bool, i64) = (row.get(4), row.get(5));
    if number < OLDEST {
        return Ok(Found::Foreign(format!("its server is PostgreSQL {version}, and 13 or later is needed")));
    }
    if nowhere {
        return Ok(Found::Foreign("its search_path names no schema that is there".to_owned()));
    }
    if ours {
        return Ok(match client.query_opt("SELECT version FROM weir_store", &[])? {
            Some(row) => Found::Version(row.get(0)),
            None => Found::Foreign("its table weir_store is empty".to_owned()),
        });
    }
    if encoding != "UTF8" {
        return Ok(Found::Foreign(format!(
            "its encoding is {encoding}; `createdb -E UTF8 -T template0` makes one"
        )));
    }
    Ok(match others {
        0 => Found::Nothing,
        1 => Found::Foreign("it has a table of another program; `createdb` makes an empty one".to_owned()),
        n => Found::Foreign(format!("it has {n} tables of another program; `createdb` makes an empty one")),
    })
}

/// Raises the database to this version, and says which it has then. Of two processes at it at once, the second finds
/// nothing to do.
fn raise(client: &mut Client) -> Result<i64, Error> {
    let mut transaction = client.transaction()?;
    transaction.execute("SELECT pg_advisory_xact_lock($1, 0)", &[&LOCKS])?;
    let found = version(&mut transaction)?;
    for (version, sql) in MIGRATIONS.iter().filter(|(version, _)| i64::from(*version) > found) {
        transaction.batch_execute(sql)?;
        transaction.execute("UPDATE weir_store SET version = $1", &[&i64::from(*version)])?;
    }
    transaction.commit()?;
    Ok(found.max(i64::from(VERSION)))
}

fn version(transaction: &mut Transaction<'_>) -> Result<i64, Error> {
    // Read from the catalogue: `to_regclass` would answer from a cache that does not yet know what was committed while the
    // lock was waited for.
    let there = "SELECT EXISTS (SELECT 1 FROM pg_class WHERE relname = 'weir_store'
                                AND relnamespace = to_regnamespace(quote_ident(current_schema())))";
    if !transaction.query_one(there, &[])?.get::<_, bool>(0) {
        return Ok(0);
    }
    Ok(transaction.query_one("SELECT version FROM weir_store", &[])?.get(0))
}

/// Why no connection came about.
fn connecting(place: &Path, error: &Error) -> StoreError {
    match error.as_db_error() {
        Some(_) => sorted(place.to_owned(), 0, error),
        None => StoreError::Unreachable { path: place.to_owned(), why: all_of(error) },
    }
}
