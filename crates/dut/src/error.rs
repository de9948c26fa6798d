//! What can go wrong with a DUT, and how to mend it.

use std::path::PathBuf;
use weir_trial::Nf;

/// A DUT that cannot be started, read or stopped.
#[derive(Clone, Debug, thiserror::Error)]
pub enum DutError {
    /// One process of a chain.
    #[error("{stage}: {error}")]
    Stage {
        /// Which.
        stage: String,
        /// What went wrong with it.
        error: Box<DutError>,
    },
    /// The dataplane has no such function.
    #[error("{dut} cannot be {nf}: {reason}")]
    Unsupported {
        /// Adapter.
        dut: &'static str,
        /// Network function.
        nf: Nf,
        /// Why not.
        reason: String,
    },
    /// The program is not installed.
    #[error(
        "{dut} needs `{program}`, which is not installed; on Debian 12: apt-get install {package} (or ./x setup --peers)"
    )]
    Missing {
        /// Adapter.
        dut: &'static str,
        /// Program looked for.
        program: &'static str,
        /// Debian package that has it.
        package: &'static str,
    },
    /// A program that functions in guests need is not installed.
    #[error(
        "functions in guests need `{program}`, which is not installed; on Debian 12: apt-get install {package} (or ./x guest)"
    )]
    MissingForGuests {
        /// Program looked for.
        program: &'static str,
        /// Debian package that has it.
        package: &'static str,
    },
    /// The program is not built.
    #[error("{dut} needs `{program}`, which is not built; to build it from Debian's dpdk-doc: ./x setup --peers", program = program.display())]
    Unbuilt {
        /// Adapter.
        dut: &'static str,
        /// Program looked for.
        program: PathBuf,
    },
    /// A program that Debian has no package of was not found.
    #[error(
        "{dut} needs `{program}`, which {}; Debian has no package of it: build it, and put it on the PATH or name its path in the \
         variable {variable}",
        unfound(.named.as_ref())
    )]
    Unfound {
        /// Adapter.
        dut: &'static str,
        /// Program looked for.
        program: &'static str,
        /// The variable that may hold its path.
        variable: &'static str,
        /// The path that it holds.
        named: Option<PathBuf>,
    },
    /// The system would not run the program.
    #[error("`{program}` cannot be run: {reason}")]
    Spawn {
        /// Program.
        program: String,
        /// The system's reason.
        reason: String,
    },
    /// The program ended by itself.
    #[error("{dut} ended by itself ({status}){last_words}")]
    Died {
        /// Adapter.
        dut: &'static str,
        /// Exit status or signal.
        status: String,
        /// The end of its output, each line on its own.
        last_words: String,
    },
    /// The program did not say what was waited for.
    #[error("{dut} did not {what} within {seconds} s{last_words}")]
    Silent {
        /// Adapter.
        dut: &'static str,
        /// What was waited for.
        what: &'static str,
        /// Seconds waited.
        seconds: u64,
        /// The end of its output.
        last_words: String,
    },
    /// A program that sets the dataplane up refused to.
    #[error("{dut}: `{command}` failed: {reason}{last_words}")]
    Refused {
        /// Adapter.
        dut: &'static str,
        /// What was run or said.
        command: String,
        /// What it answered.
        reason: String,
        /// The end of the dataplane's output.
        last_words: String,
    },
    /// A guest that did not come up, or did not stay.
    #[error("the guest ({accel}) {what}{console}")]
    Guest {
        /// Who made its processors.
        accel: weir_trial::Accel,
        /// What became of it.
        what: String,
        /// The end of its console, each line on its own.
        console: String,
    },
    /// The wait for it was given up because everything is to stop.
    #[error("{dut}: interrupted")]
    Interrupted {
        /// Adapter.
        dut: &'static str,
    },
    /// The program answered something else than was asked.
    #[error("{dut} answered `{answer}` where {expected} was expected")]
    Answer {
        /// Adapter.
        dut: &'static str,
        /// What it said.
        answer: String,
        /// What was expected.
        expected: &'static str,
    },
    /// Something of the network could not be set up.
    #[error("{what}: {reason}")]
    Network {
        /// What.
        what: String,
        /// Why not, and what to do.
        reason: String,
    },
    /// A file or folder of the DUT could not be made.
    #[error("{path}: {reason}", path = path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// The system's reason.
        reason: String,
    },
}

/// Where a program was not found.
fn unfound(named: Option<&PathBuf>) -> String {
    named.map_or_else(|| "is not on the PATH".to_owned(), |path| format!("is not at {}", path.display()))
}

impl DutError {
    /// Said of one process of a chain.
    pub(crate) fn within(self, stage: String) -> Self {
        Self::Stage { stage, error: Box::new(self) }
    }

    /// Whether a process was ended by a signal.
    pub(crate) fn is_kill(&self) -> bool {
        match self {
            Self::Stage { error, .. } => error.is_kill(),
            Self::Died { status, .. } => status.starts_with("signal"),
            _ => false,
        }
    }

    /// Whether a wait was given up because everything is to stop.
    pub fn is_interrupt(&self) -> bool {
        match self {
            Self::Stage { error, .. } => error.is_interrupt(),
            error => matches!(error, Self::Interrupted { .. }),
        }
    }
}
