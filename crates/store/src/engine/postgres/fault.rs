//! What an error of PostgreSQL means to whoever uses the store.

use super::address::NO_TLS;
use crate::error::StoreError;
use crate::open::BUSY_TIMEOUT;
use ::postgres::Error;
use ::postgres::error::SqlState;
use std::path::PathBuf;

/// Whether the connection is gone, and with it what was not committed.
pub(super) fn is_lost(error: &Error) -> bool {
    match error.as_db_error() {
        // Class 08: the connection; 57P: the server stops, or does not take anybody yet.
        Some(said) => said.code().code().starts_with("08") || said.code().code().starts_with("57P"),
        None => error.is_closed() || is_io(error),
    }
}

/// Sorts PostgreSQL's errors by what the user can do about them.
pub(crate) fn sorted(path: PathBuf, kept: u64, error: &Error) -> StoreError {
    if is_lost(error) {
        return StoreError::Gone { path, why: all_of(error) };
    }
    let Some(said) = error.as_db_error() else {
        return StoreError::Engine { path, source: all_of(error).into() };
    };
    let why = said.message().to_owned();
    match said.code() {
        &SqlState::DISK_FULL => StoreError::Full { path, kept },
        &SqlState::LOCK_NOT_AVAILABLE => StoreError::Busy { path, seconds: BUSY_TIMEOUT.as_secs() },
        &SqlState::INVALID_CATALOG_NAME => {
            StoreError::Refused { path, why: format!("{why}; `createdb` makes one") }
        }
        &SqlState::INVALID_AUTHORIZATION_SPECIFICATION if why.ends_with("no encryption") => {
            StoreError::Refused { path, why: format!("{why}: {NO_TLS}") }
        }
        &SqlState::INVALID_PASSWORD | &SqlState::INVALID_AUTHORIZATION_SPECIFICATION => StoreError::Refused {
            path,
            why: format!("{why}; the password is taken from the address, PGPASSWORD or ~/.pgpass"),
        },
        &SqlState::TOO_MANY_CONNECTIONS => StoreError::Refused { path, why },
        &SqlState::INSUFFICIENT_PRIVILEGE => StoreError::Refused {
            path,
            why: format!("{why}; who measures must own the database (`createdb -O USER NAME`)"),
        },
        &SqlState::READ_ONLY_SQL_TRANSACTION => {
            StoreError::Refused { path, why: format!("{why}; it may only be read there") }
        }
        &SqlState::DATA_CORRUPTED | &SqlState::INDEX_CORRUPTED => StoreError::Damaged { path, what: why },
        code => StoreError::Engine { path, source: format!("{why} (SQLSTATE {})", code.code()).into() },
    }
}

fn is_io(error: &Error) -> bool {
    std::error::Error::source(error).is_some_and(<dyn std::error::Error>::is::<std::io::Error>)
}

/// An error with its causes, in a line.
pub(super) fn all_of(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.ends_with(&more) {
            text.push_str(&format!(": {more}"));
        }
        cause = error.source();
    }
    text
}
