//! Programs that Debian lacks: found on the PATH, or where a variable of the environment says. And what a program said of
//! itself, which is asked again only of another file.
//!
//! Weir neither ships nor builds them: whoever measures one has built it, and knows how.

use crate::DutError;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

/// A program that Debian has no package of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    /// The device.
    pub(crate) dut: &'static str,
    /// The program's name.
    pub(crate) program: &'static str,
    /// The variable that holds its path, where it is not on the PATH.
    pub(crate) variable: &'static str,
}

impl Found {
    /// Where it is; an error that says how to name it where it is nowhere.
    pub(crate) fn path(self) -> Result<PathBuf, DutError> {
        self.among(std::env::var_os(self.variable), std::env::var_os("PATH"))
    }

    fn among(self, named: Option<OsString>, path: Option<OsString>) -> Result<PathBuf, DutError> {
        let missing = |named| DutError::Unfound {
            dut: self.dut,
            program: self.program,
            variable: self.variable,
            named,
        };
        if let Some(named) = named.filter(|named| !named.is_empty()).map(PathBuf::from) {
            return if named.is_file() { Ok(named) } else { Err(missing(Some(named))) };
        }
        let path = path.unwrap_or_default();
        let found = std::env::split_paths(&path).map(|folder| folder.join(self.program));
        found.into_iter().find(|path| path.is_file()).ok_or_else(|| missing(None))
    }
}

/// What tells a program's file from another one: where it is, its length and when it was last changed.
type File = (PathBuf, u64, SystemTime);

/// What a program says of itself, for as long as its file is the same: of one that takes its time to say so.
pub(crate) struct Said(Mutex<Option<(File, String)>>);

impl Said {
    /// Nothing yet.
    pub(crate) const fn nothing() -> Self {
        Self(Mutex::new(None))
    }

    /// What the program of this name on the PATH says, asked if it is another than before. An error is not kept.
    pub(crate) fn of<E>(&self, program: &str, ask: impl FnOnce() -> Result<String, E>) -> Result<String, E> {
        self.among(file(program, std::env::var_os("PATH").as_deref()), ask)
    }

    fn among<E>(&self, file: Option<File>, ask: impl FnOnce() -> Result<String, E>) -> Result<String, E> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, said)) = kept.as_ref().filter(|(of, _)| Some(of) == file.as_ref()) {
            return Ok(said.clone());
        }
        let said = ask()?;
        *kept = file.map(|file| (file, said.clone()));
        Ok(said)
    }
}

fn file(program: &str, path: Option<&OsStr>) -> Option<File> {
    let of = |path: &Path| {
        let file = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
        Some((path.to_owned(), file.len(), file.modified().ok()?))
    };
    std::env::split_paths(path?).find_map(|folder| of(&folder.join(program)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_asked_again_only_when_its_file_is_another() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("dataplane");
        let found = || file("dataplane", Some(folder.path().as_os_str()));
        let (said, nobody) = (Said::nothing(), || -> Result<String, String> { panic!("asked again") });
        let answer = |text: &str| -> Result<String, String> { Ok(text.to_owned()) };
        assert_eq!(said.among(found(), || answer("none")).as_deref(), Ok("none"));
        assert_eq!(
            said.among(found(), || answer("none yet")).as_deref(),
            Ok("none yet"),
            "without a file, always"
        );
        std::fs::write(&program, "1").unwrap();
        assert_eq!(said.among(found(), || Err("failed".to_owned())), Err("failed".to_owned()));
        assert_eq!(said.among(found(), || answer("one")).as_deref(), Ok("one"), "an error is not kept");
        assert_eq!(said.among(found(), nobody).as_deref(), Ok("one"));
        std::fs::write(&program, "12").unwrap();
        assert_eq!(said.among(found(), || answer("two")).as_deref(), Ok("two"));
    }

    #[test]
    fn a_program_is_where_the_variable_says_or_on_the_path_or_named_as_missing() {
        let found = Found { dut: "x", program: "dataplane", variable: "WEIR_X" };
        let folder = tempfile::tempdir().unwrap();
        let path = Some(folder.path().as_os_str().to_owned());
        let said = |named: Option<&str>| found.among(named.map(OsString::from), path.clone());
        let error = said(None).unwrap_err().to_string();
        assert!(error.contains("`dataplane`") && error.contains("WEIR_X"), "{error}");
        let program = folder.path().join("dataplane");
        std::fs::write(&program, "").unwrap();
        assert_eq!(said(None).unwrap(), program);
        assert_eq!(said(Some("")).unwrap(), program, "an empty variable names nothing");
        let elsewhere = folder.path().join("other");
        let error = said(elsewhere.to_str()).unwrap_err().to_string();
        assert!(error.contains("other") && error.contains("WEIR_X"), "{error}");
        std::fs::write(&elsewhere, "").unwrap();
        assert_eq!(said(elsewhere.to_str()).unwrap(), elsewhere);
    }
}
