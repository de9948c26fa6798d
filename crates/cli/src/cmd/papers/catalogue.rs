//! The papers' figures and tables, each with the plan that measures it.

/// A paper.
#[derive(Debug)]
pub(super) struct Paper {
    /// Its folder below `plans/papers`.
    pub(super) folder: &'static str,
    /// Authors, title, year.
    pub(super) title: &'static str,
}

/// A figure or table, or a part of one.
#[derive(Debug)]
pub(super) struct Figure {
    /// `PAPER/PLAN`, as the files are called below `plans/papers`.
    pub(super) name: &'static str,
    /// What it is in the paper, and in which others it stands as well.
    pub(super) figure: &'static str,
    /// What the plan sweeps.
    pub(super) sweeps: &'static str,
    /// The plan.
    pub(super) text: &'static str,
}

impl Figure {
    /// The paper's folder.
    pub(super) fn folder(&self) -> &'static str {
        self.name.split('/').next().unwrap_or(self.name)
    }
}

/// The four papers.
pub(super) const PAPERS: [Paper; 4] = [
    Paper {
        folder: "nfv-first",
        title: "Benchmarking NFV Software Dataplanes, first edition (throughput; SoftNIC, ClickOS)",
    },
    Paper {
        folder: "nfv-second",
        title: "Benchmarking NFV Software Dataplanes, second edition (and latency; BESS, ClickOS)",
    },
    Paper { folder: "nfpa", title: "NFPA: Network Function Performance Analyzer" },
    Paper { folder: "softflow", title: "SoftFlow: A Middlebox Architecture for Open vSwitch" },
];

macro_rules! figures {
    ($($name:literal, $figure:literal, $sweeps:literal;)*) => {
        &[$(Figure {
            name: $name,
            figure: $figure,
            sweeps: $sweeps,
            text: include_str!(concat!("../../../../../plans/papers/", $name, ".toml")),
        }),*]
    };
}

/// Every plan, in the papers' order.
pub(super) const FIGURES: &[Figure] = figures! {
    "nfv-first/figure2", "figure 2 (second edition: 2)", "frame sizes, CPU frequencies, dataplanes";
    "nfv-first/table1", "table 1 (second edition: 1)", "functions, CPU frequencies, dataplanes";
    "nfv-first/section41", "section 4.1 (second edition: 4.1)", "a web cluster's sizes, two CPU frequencies";
    "nfv-first/table2", "table 2", "CPU use by frame size";
    "nfv-first/figure3", "figure 3", "processors and memory of a guest, frame sizes";
    "nfv-first/figure4", "figure 4, and 3's virtual ports", "virtual ports, round robin or by flow, frame sizes";
    "nfv-first/figure5", "figure 5 (second edition: 3)", "chains of one to three, frame sizes, dataplanes";
    "nfv-first/figure7", "figures 6 and 7 (second edition: 4)", "chains of one to three, NUMA nodes, frame sizes";
    "nfv-first/figure7-servers", "figure 7, servers (second edition: 4)", "here or on another machine, frame sizes";
    "nfv-first/figure8", "figure 8", "one to three bundles, frame sizes, dataplanes";
    "nfv-second/section42", "section 4.2", "queues of a port, frame sizes, devices";
    "nfv-second/figure5", "figure 5", "delay by sending rate, dataplanes";
    "nfv-second/figure6", "figure 6", "delay of functions and chains by component, dataplanes";
    "nfpa/figure2-drivers", "figure 2, drivers", "drivers, frame sizes";
    "nfpa/figure2-environments", "figure 2, environments", "native, container, guest; frame sizes";
    "nfpa/figure3", "figure 3", "traces, fast and slow processor, frame sizes";
    "nfpa/figure3-tables", "figure 3, with rules for the addresses", "MAC addresses, fast and slow processor, frame sizes";
    "softflow/figure5", "figure 5, pipelines", "pipelines A to D: inline, processes, shared memory, guests";
    "softflow/figure5-functions", "figure 5, what carries packets", "inline, virtio, shared memory, guests";
    "softflow/figure6", "figure 6", "coalescing on and off, pipelines A to C";
    "softflow/figure6-exact", "figure 6, exact-match cache off", "coalescing on and off, pipelines A to C";
    "softflow/figure6-share", "section 7.3, stage coalescing", "the share of packets that are coalesced";
    "softflow/figure7", "figure 7", "services in a row, coalescing on and off";
    "softflow/figure8", "figure 8", "cores, pipelines A to C";
    "softflow/figure9", "figure 9", "hints in the packets on and off, pipelines A to C";
    "softflow/figure9-exact", "figure 9, exact-match cache off", "hints in the packets on and off, pipelines A to C";
    "softflow/figure9-share", "section 7.3, hardware offload", "the share of packets with a hint";
    "softflow/figure9-tcam", "figure 9's table, emulated", "a table of 1,024 entries on and off";
    "softflow/figure10", "figure 10", "random reads a packet";
    "softflow/figure11", "figure 11", "the share of packets that miss, exact-match cache on and off";
    "softflow/figure11-conversations", "beside figure 11", "conversations";
    "softflow/figure12", "figure 12", "cycles by step: plain, coalesced, with hints; exact-match cache on and off";
};

/// The figures of these names; a paper's name stands for all of its own. The first name that is none is the error.
pub(super) fn named(names: &[String]) -> Result<Vec<&'static Figure>, &str> {
    let is = |figure: &Figure, name: &String| figure.name == name || figure.folder() == name;
    match names.iter().find(|name| !FIGURES.iter().any(|figure| is(figure, name))) {
        Some(unknown) => Err(unknown),
        None => Ok(FIGURES.iter().filter(|figure| names.iter().any(|name| is(figure, name))).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_papers_name_stands_for_all_its_figures_and_each_is_taken_once() {
        let names = ["nfpa".to_owned(), "nfpa/figure3".to_owned(), "nfv-first/table1".to_owned()];
        let found: Vec<&str> = named(&names).unwrap().iter().map(|figure| figure.name).collect();
        let expected = [
            "nfv-first/table1",
            "nfpa/figure2-drivers",
            "nfpa/figure2-environments",
            "nfpa/figure3",
            "nfpa/figure3-tables",
        ];
        assert_eq!(found, expected);
        assert_eq!(named(&["nfpa".to_owned(), "figure3".to_owned()]).unwrap_err(), "figure3");
    }

    #[test]
    fn every_figure_is_of_a_paper_that_is_named() {
        for figure in FIGURES {
            assert!(PAPERS.iter().any(|paper| paper.folder == figure.folder()), "{}", figure.name);
        }
    }
}
