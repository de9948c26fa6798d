//! What the readers of the store share: where it is, which run is meant, and instants.

use super::{BadUse, store_error};
use std::io::{BufRead, BufReader, ErrorKind};
use std::path::{Path, PathBuf};
use weir_report::shell_word;
use weir_store::bundle::{self, Bundle};
use weir_store::{RunId, Selector, Store, StoreError, without_password};
use weir_trial::environment::Difference;
use weir_trial::run::Run;
use weir_units::utc;

/// Where runs are kept.
#[derive(clap::Args)]
pub(crate) struct Database {
    /// The database: a file, or postgres://USER@HOST/NAME [default: weir/weir.db in $XDG_DATA_HOME, else in
    /// ~/.local/share]
    #[arg(long, value_name = "DB")]
    db: Option<PathBuf>,
}

impl Database {
    /// The one that is named, or the usual one.
    pub(crate) fn of(db: Option<PathBuf>) -> Self {
        Self { db }
    }

    /// Opens the store to read.
    pub(crate) fn open(&self) -> anyhow::Result<Store> {
        Store::open_existing(self.db.as_deref()).map_err(store_error)
    }

    /// Opens the store to write to, and makes it where it is not there.
    pub(crate) fn open_or_make(&self) -> anyhow::Result<Store> {
        Store::open(self.db.as_deref()).map_err(store_error)
    }

    /// The run that is meant, whole; also one that `weir export --json` or `--bundle` wrote into a file.
    pub(crate) fn load(&self, selector: &Selector) -> anyhow::Result<Run> {
        if let Some(path) = bundle_file(selector) {
            return Ok(open_bundle(path)?.run);
        }
        if let Some(run) = exported(selector)? {
            return Ok(run);
        }
        if let Some(path) = path_of(selector) {
            return Err(unreadable(path).into());
        }
        let found =
            Store::open_existing(self.db.as_deref()).and_then(|store| Ok((store.find(selector)?, store)));
        let (run, store) = found.map_err(|error| match (&error, selector) {
            (StoreError::NoSuchRun { .. } | StoreError::Missing { .. }, Selector::Name(name))
                if Path::new(name).exists() || names_a_file(name) =>
            {
                unreadable(Path::new(name)).into()
            }
            _ => store_error(error),
        })?;
        store.load(run).map_err(store_error)
    }

    /// Whether a run is being measured now.
    pub(crate) fn is_live(&self, run: &Run, selector: &Selector) -> anyhow::Result<bool> {
        if exported_file(selector).is_some() || bundle_file(selector).is_some() {
            return Ok(false);
        }
        let outline = self.open()?.outline_of(RunId(run.id)).map_err(store_error)?;
        Ok(outline.is_some_and(|outline| outline.live))
    }

    /// The database that was named, where one was.
    pub(crate) fn named(&self) -> Option<&Path> {
        self.db.as_deref()
    }

    /// `--db DB` again, for a command that is suggested.
    pub(crate) fn flag(&self) -> String {
        db_flag(self.db.as_deref())
    }
}

/// The bundle that a selector names, where it names one.
pub(crate) fn bundle_file(selector: &Selector) -> Option<&Path> {
    let Selector::Name(name) = selector else { return None };
    Some(Path::new(name)).filter(|path| bundle::looks_like_one(path))
}

/// Whether a text ends as the files do that runs are exported into.
pub(crate) fn names_a_file(text: &str) -> bool {
    Path::new(text).extension().is_some_and(|end| end == "weir" || end == "json")
}

/// What can only be a path, as no run has a slash in its name.
fn path_of(selector: &Selector) -> Option<&Path> {
    let Selector::Name(name) = selector else { return None };
    name.contains('/').then(|| Path::new(name))
}

/// Why there is no run at a path that is neither a bundle nor JSON of `weir export`.
fn unreadable(path: &Path) -> BadUse {
    let why = match std::fs::metadata(path) {
        Ok(found) if found.is_file() => match open_bundle(path) {
            Err(error) => return BadUse::new(error),
            Ok(_) => "the file changed while it was read; try again",
        },
        Ok(found) if found.is_dir() => "this is a folder, not a bundle",
        Ok(_) => "this is no regular file, and a bundle is one",
        Err(error) if error.kind() == ErrorKind::NotFound => "there is no such file",
        Err(error) => return BadUse::new(format!("{}: {error}", path.display())),
    };
    let show = path.display();
    BadUse::new(format!(
        "{show}: {why}; `weir export RUN --bundle -o FILE` writes a bundle, `weir runs` lists the runs"
    ))
}

/// A bundle, its hashes checked. What this Weir would drop of it is an error.
pub(crate) fn open_bundle(path: &Path) -> anyhow::Result<Bundle> {
    let wrong = |why: &dyn std::fmt::Display| BadUse::new(format!("{}: {why}", path.display()));
    let file = std::fs::File::open(path).map_err(|error| wrong(&error))?;
    Ok(read_bundle(BufReader::new(file)).map_err(|why| wrong(&why))?)
}

/// A bundle, its hashes checked, from wherever it comes.
pub(crate) fn read_bundle(stream: impl BufRead) -> Result<Bundle, String> {
    let bundle = bundle::read(stream).map_err(|error| error.to_string())?;
    bundle.numbers_hold().map_err(|error| error.to_string())?;
    if bundle.unknown.is_empty() {
        return Ok(bundle);
    }
    let (weir, fields) = (&bundle.run.weir, bundle.unknown.join(", "));
    Err(format!(
        "it was written by a Weir that keeps what this one does not know and would drop: {fields}; read it with {weir} or a \
         newer one, not with {}",
        super::WEIR
    ))
}

/// The file that a selector names, where it names one.
fn exported_file(selector: &Selector) -> Option<&Path> {
    let Selector::Name(name) = selector else { return None };
    Some(Path::new(name)).filter(|path| path.extension().is_some_and(|end| end == "json") && path.is_file())
}

/// The run in a file; nothing where the selector names none.
fn exported(selector: &Selector) -> anyhow::Result<Option<Run>> {
    let Some(path) = exported_file(selector) else { return Ok(None) };
    let wrong = |why: &dyn std::fmt::Display| {
        BadUse::new(format!("{}: {why}; `weir export --json` writes a run into a file", path.display()))
    };
    let text = std::fs::read_to_string(path).map_err(|error| wrong(&error))?;
    Ok(Some(serde_json::from_str(&text).map_err(|error| wrong(&error))?))
}

/// `--db DB` for a command that is suggested, without a password; nothing for the database that is meant without it.
pub(crate) fn db_flag(db: Option<&Path>) -> String {
    db.map_or_else(String::new, |path| {
        format!(" --db {}", shell_word(&without_password(path).to_string_lossy()))
    })
}

/// In what a run was taken up differently, in a line: `kernel.release was 6.1, then 6.2`.
pub(crate) fn mixed(mix: &[Difference]) -> String {
    let said = |value: &Option<String>| value.clone().unwrap_or_else(|| "not told".to_owned());
    let one = |difference: &Difference| {
        format!("{} was {}, then {}", difference.key, said(&difference.a), said(&difference.b))
    };
    mix.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// `2026-11-21 12:05 UTC` for milliseconds since 1970.
pub(crate) fn when(ms: i64) -> String {
    utc(ms, utc::MINUTE)
}

/// `2026-11-21 12:05:09 UTC` for milliseconds since 1970.
pub(crate) fn clock(ms: i64) -> String {
    utc(ms, utc::SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_said_in_universal_time() {
        assert_eq!(when(1_795_219_200_000 + 12 * 3_600_000 + 5 * 60_000 + 59_999), "2026-11-21 12:05 UTC");
        assert_eq!(when(-1), "1969-12-31 23:59 UTC");
        assert_eq!(clock(1_795_219_200_000 + 12 * 3_600_000 + 9_999), "2026-11-21 12:00:09 UTC");
    }

    #[test]
    fn suggested_paths_can_be_pasted() {
        let flag = |path: &str| Database { db: Some(path.into()) }.flag();
        assert_eq!(flag("/tmp/a.db"), " --db /tmp/a.db");
        assert_eq!(flag("/tmp/it's a.db"), r" --db '/tmp/it'\''s a.db'");
        assert_eq!(Database { db: None }.flag(), "");
    }
}
