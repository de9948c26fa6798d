//! What can be wrong with a trace, said so that the caller can mend it.

use std::path::PathBuf;
use weir_units::FrameSizeError;

/// Why a trace cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// No trace and no file of that name.
    #[error("no trace is named `{name}`{hint}; the names are {names}; or give the path of a pcap or pcapng file", hint = did_you_mean(nearest))]
    UnknownName {
        /// As typed.
        name: String,
        /// The known name that is most like it.
        nearest: Option<String>,
        /// All names.
        names: String,
    },
    /// A number of flows that cannot be.
    #[error(
        "`{text}` is no number of flows; write flows:N, conversations:N, conversations:NxBURST or l2flows:N, \
         with N from 1 to {max}, and N times BURST too",
        max = super::catalogue::MAX_FLOWS
    )]
    FlowCount {
        /// As typed.
        text: String,
    },
    /// A table of a size that the function it is made for cannot have.
    #[error(
        "`{text}`: what stands last is no number of entries that {function} can have; functions are {forms}"
    )]
    Entries {
        /// As typed.
        text: String,
        /// The kind of function.
        function: &'static str,
        /// What can be written.
        forms: &'static str,
    },
    /// A size that is no frame size.
    #[error(transparent)]
    FrameSize(#[from] FrameSizeError),
    /// A text that is neither a size nor a mix.
    #[error("`{text}` is no frame size; write bytes with FCS (64 to 9022), imix, web, gateway or recorded")]
    SizeText {
        /// As typed.
        text: String,
    },
    /// A size the trace cannot have.
    #[error("trace {name} has frames of its own ({own}); leave --size out, or ask for {own}, not {asked}")]
    SizeOfTrace {
        /// The trace.
        name: String,
        /// Its sizes.
        own: String,
        /// The sizes asked for.
        asked: String,
    },
    /// Options that a trace cannot honour.
    #[error("trace {name}: {option} {reason}")]
    Option {
        /// The trace.
        name: String,
        /// The option.
        option: &'static str,
        /// Why not, and what to do.
        reason: String,
    },
    /// A text that is no IPv4 prefix.
    #[error(
        "`{text}` is no IPv4 prefix; write network/length with no bit set behind the length, for example 198.18.0.0/16"
    )]
    Prefix {
        /// As typed.
        text: String,
    },
    /// A capture file that cannot be opened or read.
    #[error("capture {}: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        reason: String,
    },
    /// A capture that holds no frame that can be sent.
    #[error("capture {} holds no frame that can be sent: {reason}", path.display())]
    NoFrames {
        /// The file.
        path: PathBuf,
        /// What became of its packets.
        reason: String,
    },
}

fn did_you_mean(nearest: &Option<String>) -> String {
    nearest.as_ref().map(|name| format!(" (did you mean `{name}`?)")).unwrap_or_default()
}
