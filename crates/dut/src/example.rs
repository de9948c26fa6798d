//! DPDK's example programs, built on this machine from the sources that Debian's `dpdk-doc` installs.
//!
//! `./x setup --peers` builds them (`crates/dut/examples.sh`) and puts each beside a file that says
//! of which DPDK it is; here they are only found. They are nobody's package, hence the folder of
//! one's own: `$XDG_CACHE_HOME/weir/peers`, or `~/.cache/weir/peers`.

use crate::DutError;
use std::ffi::OsString;
use std::path::PathBuf;

/// An example program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Example(pub(crate) &'static str);

impl Example {
    /// Where it is, built or not.
    pub(crate) fn path(self) -> PathBuf {
        folder(std::env::var_os("XDG_CACHE_HOME"), std::env::var_os("HOME")).join(self.0)
    }

    /// The DPDK it was built from.
    pub(crate) fn version(self) -> Result<String, DutError> {
        let path = self.path();
        let version = std::fs::read_to_string(path.with_added_extension("version")).ok();
        match version {
            Some(version) if path.is_file() => Ok(format!("DPDK {}", dpdk(&version))),
            _ => Err(DutError::Unbuilt { dut: self.0, program: path }),
        }
    }
}

/// The version of DPDK; behind it stands the state of the script that built the program.
fn dpdk(version: &str) -> &str {
    version.split_whitespace().next().unwrap_or("of unknown version")
}

/// The folder, from the values of `XDG_CACHE_HOME` and `HOME`.
fn folder(cache: Option<OsString>, home: Option<OsString>) -> PathBuf {
    let cache = cache.map(PathBuf::from).filter(|path| path.is_absolute());
    cache.unwrap_or_else(|| PathBuf::from(home.unwrap_or_default()).join(".cache")).join("weir/peers")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_looked_for_in_the_cache_of_the_user() {
        let of = |cache: Option<&str>| folder(cache.map(Into::into), Some("/home/a".into()));
        assert_eq!(of(None), PathBuf::from("/home/a/.cache/weir/peers"));
        assert_eq!(of(Some("/var/c")), PathBuf::from("/var/c/weir/peers"));
        assert_eq!(of(Some("relative")), of(None), "the XDG specification ignores relative paths");
    }

    #[test]
    fn the_version_is_that_of_dpdk() {
        assert_eq!(dpdk("22.11.11 3054811372\n"), "22.11.11");
    }

    #[test]
    fn a_program_that_is_not_built_says_what_builds_it() {
        let error = Example("no-such-example").version().unwrap_err().to_string();
        assert!(error.contains("no-such-example") && error.contains("./x setup --peers"), "{error}");
    }
}
