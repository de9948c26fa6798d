//! A graph of devices in a plan: the tables `[[device]]` and `[[link]]`.
//!
//! What is wrong with a graph, the graph says ([`Graph::mistakes`]); here each mistake gets its place in the file. The tables
//! stand in place of `nf` or `chain` and of every key that says where functions run; what a graph is measured with (wiring,
//! traces, sizes, cores, frequency) are axes as ever.

use super::check::{Checker, Span};
use super::file::PlanFile;
use super::placement::Placements;
use schemars::JsonSchema;
use serde::Deserialize;
use toml::Spanned;
use weir_diagnostic::Diagnostic;
use weir_trial::{Deployment, Graph, GraphDevice, GraphEnd, GraphLink, GraphPart, Join, Nf};

/// A device between the tester's ports.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Device of a graph")]
pub(super) struct DeviceTable {
    /// What links and results call it: letters, digits and `_`.
    #[schemars(with = "String")]
    name: Spanned<String>,
    /// The dataplane that it runs on; `weir dut list` names them. Default: nf.
    #[schemars(with = "Option<String>")]
    dut: Option<Spanned<String>>,
    /// Its network function, between its ports 0 and 1, the first on the side of the tester's port 0. Without one it carries packets for others, between its ports 0 and 1, 2 and 3, and so on (weir, ovs-dpdk, testpmd, nf, fastclick, bess).
    #[schemars(with = "Option<Nf>")]
    nf: Option<Spanned<String>>,
}

/// A link between two ports.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Link of a graph")]
pub(super) struct LinkTable {
    /// The two ports, each DEVICE.PORT, counted from 0: ["tester.0", "fw.0"]. What the tester sends into port 0 must come out at its port 1, of port 2 at port 3, and so on.
    #[schemars(with = "[String; 2]")]
    between: Spanned<Vec<Spanned<String>>>,
    /// What a link between two devices is made of: vhost, or memif. Default: vhost where one of them carries packets for others, else memif. The tester's links are the plan's `wiring`.
    #[schemars(with = "Option<Join>")]
    by: Option<Spanned<String>>,
}

impl Placements {
    /// With a graph in place of a chain.
    pub(super) fn with_graph(self, graph: Option<Graph>) -> Self {
        match graph {
            Some(graph) => {
                let bundles = vec![graph.pairs().max(1)];
                Self { deployments: vec![Deployment::Graph], bundles, graph: Some(graph), ..self }
            }
            None => self,
        }
    }
}

impl Checker<'_> {
    /// The graph of a plan, and the place of its first table; nothing where it has none, or one that cannot be.
    pub(super) fn graph(&mut self, file: &mut PlanFile) -> Option<(Span, Graph)> {
        let (devices, links) = (std::mem::take(&mut file.device), std::mem::take(&mut file.link));
        let Some(first) = devices.first().map(Spanned::span) else {
            if let Some(link) = links.first() {
                self.refuse(
                    &link.span(),
                    "[[link]] joins devices of a graph, and there are none; add tables [[device]]",
                );
            }
            self.no_graph(file);
            return None;
        };
        self.says_all(file);
        let before = self.found.len();
        let spans = [devices.iter().map(Spanned::span).collect(), links.iter().map(Spanned::span).collect()];
        let devices: Vec<GraphDevice> =
            devices.into_iter().map(|device| self.graph_device(device.into_inner())).collect();
        let links: Vec<Option<GraphLink>> =
            links.into_iter().map(|link| self.graph_link(link, &devices)).collect();
        let read = self.found.len() == before;
        let graph = Graph { devices, links: links.into_iter().flatten().collect() };
        if read && self.whole {
            self.mistakes(&graph, &first, &spans);
        }
        // Other keys are judged with a function that stands for it.
        let stands_for = || Graph {
            devices: vec![GraphDevice { name: "nf".to_owned(), dut: "nf".to_owned(), nf: Some(Nf::L2Fwd) }],
            links: Vec::new(),
        };
        Some((first, if self.found.len() == before { graph } else { stands_for() }))
    }

    fn mistakes(&mut self, graph: &Graph, first: &Span, [devices, links]: &[Vec<Span>; 2]) {
        for mistake in graph.mistakes() {
            let (table, span) = match mistake.part {
                GraphPart::Device(place) => ("[[device]]", devices.get(place)),
                GraphPart::Link(place) => ("[[link]]", links.get(place)),
                GraphPart::Whole => ("[[device]]", None),
            };
            self.refuse(span.unwrap_or(first), format!("{table}: {}", mistake.why));
        }
    }

    fn graph_device(&mut self, table: DeviceTable) -> GraphDevice {
        let dut = table.dut.map_or_else(
            || "nf".to_owned(),
            |dut| {
                let span = dut.span();
                let dut = dut.into_inner();
                match dut.contains(weir_dut::BETWEEN) {
                    true => self.refuse(
                        &span,
                        format!("`dut`: {dut} are several devices; write a [[device]] for each"),
                    ),
                    false => drop(self.one_device("dut", &span, &dut)),
                }
                dut
            },
        );
        let nf = table.nf.and_then(|nf| {
            let span = nf.span();
            let found = self.functions("nf", vec![(span.clone(), nf.into_inner())]).pop()?;
            if found.members().len() > 1 {
                self.refuse(
                    &span,
                    format!("`nf`: {found} are several functions; write a [[device]] for each"),
                );
            }
            Some(found)
        });
        GraphDevice { name: table.name.into_inner(), dut, nf }
    }

    fn graph_link(&mut self, link: Spanned<LinkTable>, devices: &[GraphDevice]) -> Option<GraphLink> {
        let LinkTable { between, by } = link.into_inner();
        let span = between.span();
        let mut ends = Vec::new();
        for end in between.into_inner() {
            match end.as_ref().parse::<GraphEnd>() {
                Ok(known) => ends.push(known),
                Err(why) => self.refuse(&end.span(), format!("`between`: {why}")),
            }
        }
        let Ok(between) = <[GraphEnd; 2]>::try_from(ends) else {
            self.refuse(
                &span,
                "`between`: a link joins two ports; write two, such as [\"tester.0\", \"fw.0\"]",
            );
            return None;
        };
        let is_testers = between.iter().any(GraphEnd::is_testers);
        let carries = |end: &GraphEnd| devices.iter().any(|one| one.name == end.device && one.nf.is_none());
        let usual = if is_testers || between.iter().any(carries) { Join::Vhost } else { Join::Memif };
        let by = match by {
            Some(by) if is_testers => {
                let why = "what the tester's links are made of says the plan's `wiring`; leave it out";
                self.refuse(&by.span(), format!("`by`: {why}"));
                usual
            }
            Some(by) => by.as_ref().parse().unwrap_or_else(|_| {
                self.found.push(Diagnostic::unknown(
                    by.span(),
                    "by",
                    by.as_ref(),
                    &Join::ALL.map(Join::name),
                ));
                usual
            }),
            None => usual,
        };
        Some(GraphLink { between, by })
    }

    /// Whether a plan without a graph asks for one.
    fn no_graph(&mut self, file: &PlanFile) {
        let asks = |list: &&Spanned<super::text::List<String>>| {
            list.as_ref().0.iter().any(|(_, word)| word == Deployment::Graph.name())
        };
        if let Some(list) = file.deployment.as_ref().filter(asks) {
            let why = "`graph` is what tables [[device]] and [[link]] say, and there are none; add them, or take another";
            self.refuse(&list.span(), format!("`deployment`: {why}"));
        }
    }

    /// Refuses what a graph says itself, and leaves it out.
    fn says_all(&mut self, file: &mut PlanFile) {
        let mut other: Vec<(&str, Option<Span>)> = Vec::new();
        let graph = |(_, word): &(Option<Span>, String)| word == Deployment::Graph.name();
        let only = |list: &Spanned<super::text::List<String>>| list.as_ref().0.iter().all(graph);
        if let Some(deployment) = file.deployment.take().filter(|list| !only(list)) {
            other.push(("deployment", Some(deployment.span())));
        }
        macro_rules! out {
            ($($key:ident),*) => { $(other.push((stringify!($key), file.$key.take().map(|it| it.span())));)* };
        }
        out!(
            nf, chain, length, host, copies, split, vnics, bundles, queues, vcpus, memory, accel, dut,
            server, against
        );
        for (key, span) in other {
            if let Some(span) = span {
                let why = "the tables [[device]] and [[link]] say what stands between the tester's ports, and on what; leave it out";
                self.refuse(&span, format!("`{key}`: {why}"));
            }
        }
    }
}
