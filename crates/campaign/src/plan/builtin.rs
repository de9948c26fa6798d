//! The plans that come with Weir, as commented TOML: to run, to read, to change.

/// A plan that comes with Weir.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Builtin {
    /// Name.
    pub name: &'static str,
    /// One line about it.
    pub about: &'static str,
    /// The commented TOML.
    pub text: &'static str,
}

const BUILTINS: [Builtin; 5] = [
    Builtin {
        name: "quick",
        about: "three network functions on nf and weir, two sizes, NDR and latency, within 90 seconds of measuring",
        text: include_str!("builtin/quick.toml"),
    },
    Builtin {
        name: "nfpa",
        about: "the traces, sizes and trial lengths of NFPA, forwarded rate",
        text: include_str!("builtin/nfpa.toml"),
    },
    Builtin {
        name: "full",
        about: "every network function and size, NDR, PDR, MRR and latency at the standard durations",
        text: include_str!("builtin/full.toml"),
    },
    Builtin {
        name: "fed",
        about: "three network functions on nf and weir from their own memory: one core's capacity, cycles per packet",
        text: include_str!("builtin/fed.toml"),
    },
    Builtin {
        name: "tables",
        about: "a flow table of your own (--flows FILE): right packets, then the rate of one core fed from memory",
        text: include_str!("builtin/tables.toml"),
    },
];

/// All plans that come with Weir.
pub fn builtins() -> &'static [Builtin] {
    &BUILTINS
}

/// The plan of that name.
pub fn builtin(name: &str) -> Option<&'static Builtin> {
    BUILTINS.iter().find(|builtin| builtin.name == name)
}
