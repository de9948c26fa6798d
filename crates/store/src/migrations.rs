//! The steps that raise a store to this version, a file each; a file once released is never changed.
//!
//! Both databases have the same versions. PostgreSQL came with version 6: its first file has all tables.

use rusqlite_migration::M;

/// SQLite's, in order, from version 1.
pub(crate) const SQLITE: &[M<'static>] = &[
    M::up(include_str!("../migrations/1-runs.sql")),
    M::up(include_str!("../migrations/2-truth.sql")).foreign_key_check(),
    M::up(include_str!("../migrations/3-provenance.sql")),
    M::up(include_str!("../migrations/4-placement.sql")),
    M::up(include_str!("../migrations/5-advice.sql")),
    M::up(include_str!("../migrations/6-imports.sql")),
    M::up(include_str!("../migrations/7-central.sql")),
];

/// PostgreSQL's: the version that a file leads to, and its text.
#[cfg(feature = "postgres")]
pub(crate) const POSTGRES: &[(u32, &str)] = &[
    (6, include_str!("../migrations/postgres/6-store.sql")),
    (7, include_str!("../migrations/postgres/7-central.sql")),
];

/// The store version this build writes, of either database.
pub const VERSION: u32 = SQLITE.len() as u32;

#[cfg(all(test, feature = "postgres"))]
mod tests {
    use super::*;

    #[test]
    fn both_databases_have_the_same_version() {
        let versions: Vec<u32> = POSTGRES.iter().map(|(version, _)| *version).collect();
        assert_eq!(
            versions,
            (versions[0]..=VERSION).collect::<Vec<_>>(),
            "a new version has a file for each database"
        );
    }
}
