//! What a list can be narrowed by: each facet once, for the address, the form, the counts and the search.

use weir_store::{Facts, Outline};
use weir_trial::run::RunState;

/// How many facets there are.
pub(crate) const FACETS: usize = Facet::ALL.len();

/// One dimension by which runs are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Facet {
    /// The network function.
    Nf,
    /// The device under test.
    Dut,
    /// The device's version.
    Version,
    /// The wiring, hence the driver.
    Wiring,
    /// Where the functions run.
    Deployment,
    /// The trace.
    Trace,
    /// The frame size.
    Size,
    /// The method.
    Method,
    /// The machine.
    Machine,
    /// The CPU's name.
    Cpu,
    /// How far it came.
    State,
    /// Who measured it: this database's machine, or who signed the bundle that it came in.
    Origin,
}

impl Facet {
    /// Every facet, in the order of the form.
    pub(crate) const ALL: [Self; 12] = [
        Self::Nf,
        Self::Dut,
        Self::Version,
        Self::Wiring,
        Self::Deployment,
        Self::Trace,
        Self::Size,
        Self::Method,
        Self::Machine,
        Self::Cpu,
        Self::State,
        Self::Origin,
    ];

    /// Its name in addresses and in the search.
    pub(crate) const fn key(self) -> &'static str {
        match self {
            Self::Nf => "nf",
            Self::Dut => "dut",
            Self::Version => "version",
            Self::Wiring => "wiring",
            Self::Deployment => "deployment",
            Self::Trace => "trace",
            Self::Size => "size",
            Self::Method => "method",
            Self::Machine => "machine",
            Self::Cpu => "cpu",
            Self::State => "state",
            Self::Origin => "origin",
        }
    }

    /// Its name on the page.
    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::Nf => "Function",
            Self::Dut => "Dataplane",
            Self::Version => "Its version",
            Self::Wiring => "Wiring",
            Self::Deployment => "Deployment",
            Self::Trace => "Trace",
            Self::Size => "Frame size",
            Self::Method => "Method",
            Self::Machine => "Machine",
            Self::Cpu => "CPU",
            Self::State => "State",
            Self::Origin => "Who measured",
        }
    }

    /// The facet of this name.
    pub(crate) fn of(key: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|facet| facet.key() == key)
    }

    /// Its values in a run.
    pub(crate) fn values(self, outline: &Outline, facts: &Facts) -> Vec<String> {
        let fact = |name: &str| facts.environment.get(name).cloned().into_iter().collect();
        match self {
            Self::Nf => facts.nfs.clone(),
            Self::Dut => facts.duts.clone(),
            Self::Version => facts.versions.iter().map(|version| version_of(version)).collect(),
            Self::Wiring => facts.wirings.clone(),
            Self::Deployment => facts.deployments.clone(),
            Self::Trace => facts.traces.clone(),
            Self::Size => facts.sizes.clone(),
            Self::Method => facts.methods.clone(),
            Self::Machine => fact("machine.id"),
            Self::Cpu => fact("cpu.model"),
            Self::State => vec![state(outline).to_owned()],
            Self::Origin => vec![origin(facts)],
        }
    }

    /// A value as the page shows it.
    pub(crate) fn shown(self, value: &str) -> String {
        match self {
            Self::Size if value.parse::<u32>().is_ok() => format!("{value} B"),
            // A trace of one's own is named by its file.
            Self::Trace => value.rsplit('/').next().unwrap_or(value).to_owned(),
            Self::Machine => short(value, 12),
            _ => short(value, 48),
        }
    }
}

/// A version without what follows the first comma or line: the command line, which has folders in it.
fn version_of(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    let version = line.split([',', ';', '|']).next().unwrap_or_default().trim();
    short(version, 80)
}

/// The state in words: a run that nobody measures any more was cut off.
pub(crate) fn state(outline: &Outline) -> &'static str {
    match (outline.state, outline.live) {
        (RunState::Running, true) => "running",
        (RunState::Running, false) => "cut off",
        (RunState::Finished, _) => "finished",
        (RunState::Interrupted, _) => "interrupted",
    }
}

fn origin(facts: &Facts) -> String {
    match (&facts.imported_as, &facts.signed_by) {
        (None, _) => "measured here".to_owned(),
        (Some(_), None) => "imported, not signed".to_owned(),
        (Some(_), Some(key)) => format!("signed by {key}"),
    }
}

/// The beginning of a long text.
pub(crate) fn short(text: &str, letters: usize) -> String {
    match text.char_indices().nth(letters) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}
