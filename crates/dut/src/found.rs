//! Programs that Debian lacks: found on the PATH, or where a variable of the environment says.
//!
//! Weir neither ships nor builds them: whoever measures one has built it, and knows how.

use crate::DutError;
use std::ffi::OsString;
use std::path::PathBuf;

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

#[cfg(test)]
mod tests {
    use super::*;

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
