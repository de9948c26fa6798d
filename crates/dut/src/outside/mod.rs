//! `exec:FILE`: a dataplane that Weir has no adapter for, described from outside.
//!
//! Two ways, told apart by the file's name. `FILE.toml` names commands ([`commands`]): one that starts the dataplane,
//! the text it prints once it forwards, one that prints its counters. Any other file is a program that speaks lines of
//! JSON on its standard input and output ([`lines`]). Both are given the function as files ([`tables`]) and are held to
//! the same oracle, verdicts and counters as every other device. `docs/devices.md` is the reference for both.
//!
//! A file is read once and kept for as long as the lab lives, so that one run meets one description.
//!
//! Threads: none beside those of the processes; a lock while a description is looked up.

mod commands;
mod lines;
mod pinned;
mod tables;
mod words;

pub(crate) use commands::{by_port, counted, printed};
pub(crate) use pinned::forwarding;
pub use words::Command;

use crate::wiring::WiringKind;
use crate::{Adapter, DutError, RunningDut, StartRequest};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use weir_trial::{Nf, NfKind};

/// The name before the file.
pub(crate) const NAME: &str = "exec";
/// The function that stands for every one that OpenFlow can say.
const FLOWS: &str = NfKind::Flows.name();

/// What a description says of a dataplane, however it is written.
#[derive(Debug)]
struct About {
    /// `exec:FILE`.
    name: &'static str,
    about: &'static str,
    wirings: &'static [WiringKind],
    /// Kinds of network functions by name.
    functions: Vec<String>,
}

impl About {
    /// Checks what was written; the mistake where there is one.
    fn new(
        name: &'static str,
        about: &str,
        wirings: &[String],
        functions: Vec<String>,
    ) -> Result<Self, String> {
        let wirings = wirings.iter().map(|name| name.parse()).collect::<Result<Vec<WiringKind>, _>>();
        let wirings = wirings.map_err(|error| format!("`wirings`: {error}"))?;
        if wirings.is_empty() {
            return Err("`wirings` is empty; name one that reaches it, such as \"vhost\"".to_owned());
        }
        let known = NfKind::ALL.into_iter().filter(|kind| *kind != NfKind::Chain).map(NfKind::name);
        let known: Vec<&str> = known.collect();
        if let Some(unknown) = functions.iter().find(|name| !known.contains(&name.as_str())) {
            let known = known.join(", ");
            return Err(format!("`functions`: `{unknown}` is no function Weir knows; it knows {known}"));
        }
        if functions.is_empty() {
            return Err("`functions` is empty; name one that it can be, such as \"l2fwd\"".to_owned());
        }
        Ok(Self { name, about: about.to_owned().leak(), wirings: wirings.leak(), functions })
    }

    /// Whether it says that it can be this function; a dataplane of `flows` can be every one that OpenFlow can say.
    fn supports(&self, nf: Nf) -> Result<(), String> {
        let says = |name: &str| self.functions.iter().any(|known| known == name);
        let has_flows = says(FLOWS) && tables::flows(nf).is_ok();
        if says(nf.kind().name()) || has_flows {
            return Ok(());
        }
        let (kind, functions) = (nf.kind().name(), self.functions.join(", "));
        Err(format!("its description says that it can be {functions}; `functions` there has no {kind}"))
    }
}

/// A dataplane described from outside.
trait Outside: Sync + Send {
    fn about(&self) -> &About;
    fn version(&self) -> Result<String, DutError>;
    fn start(&self, request: &StartRequest<'_>) -> Result<Box<dyn RunningDut>, DutError>;
}

impl<T: Outside> Adapter for T {
    fn name(&self) -> &'static str {
        Outside::about(self).name
    }

    fn about(&self) -> &'static str {
        Outside::about(self).about
    }

    fn takes(&self, _file: &str) -> Result<(), String> {
        Ok(())
    }

    fn wirings(&self) -> &'static [WiringKind] {
        Outside::about(self).wirings
    }

    fn supports(&self, nf: Nf) -> Result<(), String> {
        Outside::about(self).supports(nf)
    }

    fn version(&self) -> Result<String, DutError> {
        Outside::version(self)
    }

    fn start(&self, request: &StartRequest<'_>) -> Result<Box<dyn RunningDut>, DutError> {
        let reason =
            |reason| DutError::Unsupported { dut: Outside::about(self).name, nf: request.nf, reason };
        Outside::about(self).supports(request.nf).map_err(reason)?;
        Outside::start(self, request)
    }
}

/// `exec` without a file, or with one that describes nothing: it is listed, and says what is wrong.
pub(crate) struct Undescribed;

impl Adapter for Undescribed {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> &'static str {
        "your own dataplane: exec:FILE.toml with its commands, or exec:PROGRAM that speaks JSON lines"
    }

    fn takes(&self, file: &str) -> Result<(), String> {
        if file.is_empty() {
            return Err(
                "exec wants the file that describes your dataplane: exec:FILE.toml, or exec:PROGRAM \
                        (docs/devices.md)"
                    .to_owned(),
            );
        }
        described(file).map(|_| ())
    }

    fn wirings(&self) -> &'static [WiringKind] {
        &[]
    }

    fn supports(&self, _nf: Nf) -> Result<(), String> {
        Err("its description says what it can be".to_owned())
    }

    fn version(&self) -> Result<String, DutError> {
        Ok("as described".to_owned())
    }

    fn start(&self, request: &StartRequest<'_>) -> Result<Box<dyn RunningDut>, DutError> {
        let reason = self.takes(request.variant).err().unwrap_or_default();
        Err(DutError::Unsupported { dut: NAME, nf: request.nf, reason })
    }
}

type Described = Result<&'static dyn Adapter, String>;

/// Every file that was asked for, with what it describes.
static KNOWN: Mutex<Vec<(String, Described)>> = Mutex::new(Vec::new());

/// The dataplane that a file describes; the mistake in it.
pub(crate) fn described(file: &str) -> Described {
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, described)) = known.iter().find(|(name, _)| name == file) {
        return described.clone();
    }
    let described = read(file).map_err(|why| format!("{file}: {why}"));
    known.push((file.to_owned(), described.clone()));
    described
}

fn read(file: &str) -> Described {
    let name: &'static str = format!("{NAME}:{file}").leak();
    let path = std::path::absolute(file).map_err(|error| error.to_string())?;
    if path.extension().is_some_and(|end| end == "toml") {
        return Ok(Box::leak(Box::new(commands::Commanded::read(name, &path)?)));
    }
    if !is_program(&path) {
        return Err("is no program that may be run, and no description that ends in .toml".to_owned());
    }
    Ok(Box::leak(Box::new(lines::Speaking::ask(name, &path)?)))
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_describes_nothing_is_refused_by_name() {
        let text = tempfile::NamedTempFile::new().unwrap();
        let text = text.path().to_str().unwrap();
        for (file, says) in [
            ("", "exec wants the file"),
            ("/nowhere/mine.toml", "/nowhere/mine.toml: "),
            (text, ": is no program that may be run"),
        ] {
            let error = Undescribed.takes(file).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
        assert_eq!(crate::adapter(&format!("exec:{text}")).unwrap().name(), NAME);
    }

    #[test]
    fn a_dataplane_of_flows_can_be_what_openflow_can_say() {
        let wirings = ["vhost".to_owned()];
        let about = |functions: &[&str]| {
            About::new("exec:x", "x", &wirings, functions.iter().map(|&name| name.to_owned()).collect())
        };
        let flows = about(&["flows"]).unwrap();
        assert!(flows.supports(Nf::L3Fwd { routes: 3 }).is_ok());
        assert!(flows.supports(Nf::PipelineD { noops: 1 }).is_err(), "services are no OpenFlow");
        let forwards = about(&["l2fwd"]).unwrap();
        let error = forwards.supports(Nf::L3Fwd { routes: 3 }).unwrap_err();
        assert!(error.contains("it can be l2fwd") && error.contains("no l3fwd"), "{error}");
        assert!(about(&["l4fwd"]).unwrap_err().contains("`l4fwd` is no function"));
        assert!(about(&[]).unwrap_err().contains("is empty"));
        let error = About::new("exec:x", "x", &["vhsot".to_owned()], Vec::new()).unwrap_err();
        assert!(error.contains("`wirings`: `vhsot`"), "{error}");
    }
}
