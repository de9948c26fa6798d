//! Axes given on the command line, written over those of the plan.
//!
//! They become part of the plan's text, so that the stored run holds all that was measured and
//! mistakes are reported the same way as in a file.

use std::ops::Range;
use toml_edit::{Array, Document, DocumentMut, Item, Value};
use weir_campaign::plan::PlanError;
use weir_diagnostic::Diagnostic;
use weir_traffic::trace::TraceName;

/// Axes that replace the plan's.
#[derive(clap::Args)]
pub(super) struct Overrides {
    /// Network functions: l2fwd, l3fwd or l3fwd:ROUTES, firewall or firewall:RULES; several in a row joined by +
    #[arg(long, value_name = "NF", value_delimiter = ',')]
    nf: Vec<String>,
    /// A flow table of your own as the network function: a file as `ovs-ofctl add-flows` reads it, whose ports 1
    /// and 2 are the tester's sides
    #[arg(long, value_name = "FILE", conflicts_with = "nf")]
    flows: Vec<String>,
    /// Devices under test (see `weir dut list`)
    #[arg(long, value_name = "DUT", value_delimiter = ',')]
    dut: Vec<String>,
    /// A second device to measure against the plan's one, trial by trial in turns
    #[arg(long, value_name = "DUT2")]
    against: Option<String>,
    /// How functions are placed: inline, vhost, vale, container, shared, vm
    #[arg(long, value_name = "HOW", value_delimiter = ',')]
    deployment: Vec<String>,
    /// The dataplane that carries packets between functions in vhost, container and vm: weir, ovs-dpdk, testpmd
    #[arg(long, value_name = "DUT", value_delimiter = ',')]
    host: Vec<String>,
    /// Copies of the whole chain side by side behind the host, 1 to 8
    #[arg(long, value_name = "N", value_delimiter = ',')]
    copies: Vec<i64>,
    /// How the host splits packets among copies and virtual ports: round-robin, flow
    #[arg(long, value_name = "HOW", value_delimiter = ',')]
    split: Vec<String>,
    /// Virtual ports of each function behind the host: 2, 4, 6 or 8
    #[arg(long, value_name = "N", value_delimiter = ',')]
    vnics: Vec<i64>,
    /// Chains beside one another, each with a pair of the tester's ports of its own, 1 to 8
    #[arg(long, value_name = "N", value_delimiter = ',')]
    bundles: Vec<i64>,
    /// Queues of each port between the tester and the device, 1 to 8
    #[arg(long, value_name = "N", value_delimiter = ',')]
    queues: Vec<i64>,
    /// The device's cores: own, shared where all its processes take turns on one, a number of cores, or these (on:1+2)
    #[arg(long, value_name = "WHOSE", value_delimiter = ',')]
    cores: Vec<String>,
    /// How fast the device's cores are: a clock (1.5GHz, by cpufreq), or a share of their time (50%)
    #[arg(long, value_name = "HOW", value_delimiter = ',')]
    frequency: Vec<String>,
    /// Offloads of veth interfaces, on both sides: gro=on+tso=off of rx, tx, sg, tso, gso and gro, or as-is
    #[arg(long, value_name = "WHICH", value_delimiter = ',')]
    offloads: Vec<String>,
    /// The NUMA node of the device's cores: same (the tester's), or other
    #[arg(long, value_name = "WHICH", value_delimiter = ',')]
    node: Vec<String>,
    /// The machine on which the device runs: here, ssh://USER@HOST:PORT, or netns:NAME for a namespace that stands for one
    #[arg(long, value_name = "WHERE", value_delimiter = ',')]
    server: Vec<String>,
    /// Processors of each guest, in deployment vm
    #[arg(long, value_name = "N", value_delimiter = ',')]
    vcpus: Vec<String>,
    /// Memory of each guest, in MiB, in deployment vm
    #[arg(long, value_name = "MIB", value_delimiter = ',')]
    memory: Vec<String>,
    /// Who makes the processors of guests: kvm, or tcg where QEMU emulates them
    #[arg(long, value_name = "WHO", value_delimiter = ',')]
    accel: Vec<String>,
    /// Wirings: vhost, memif, veth, nic, fed
    #[arg(long, value_name = "WIRING", value_delimiter = ',')]
    wiring: Vec<String>,
    /// Traces (see `weir trace list`) or capture files; A|B for a trace per direction
    #[arg(long, value_name = "TRACE", value_delimiter = ',')]
    trace: Vec<String>,
    /// Frame sizes in bytes with FCS, imix, web, gateway, or recorded for captures
    #[arg(long, value_name = "SIZE", value_delimiter = ',')]
    size: Vec<String>,
    /// Directions with traffic: 1 or 2
    #[arg(long, value_name = "N", value_delimiter = ',')]
    directions: Vec<i64>,
    /// Huge pages: true, false or auto
    #[arg(long, value_name = "WHETHER", value_delimiter = ',')]
    huge_pages: Vec<String>,
    /// How often each point is measured
    #[arg(long, value_name = "N")]
    repeats: Option<i64>,
}

/// An axis as the command line gives it.
struct Given {
    key: &'static str,
    option: &'static str,
    said: String,
    value: Value,
}

/// A plan with the axes of the command line in place of its own.
#[derive(Debug)]
pub(super) struct Applied {
    /// The plan's text.
    pub(super) text: String,
    /// Where in it each option stands, and the option as it was given.
    options: Vec<(Range<usize>, String)>,
}

impl Overrides {
    /// The plan with these axes in place of its own.
    pub(super) fn apply(&self, plan: &str) -> Applied {
        let given = self.given();
        let whole = || Applied { text: plan.to_owned(), options: Vec::new() };
        // A plan with a mistake in it is left alone: the plan's reader says where the mistake is.
        let Some(mut document) = plan.parse::<DocumentMut>().ok().filter(|_| !given.is_empty()) else {
            return whole();
        };
        for one in &given {
            if one.key == "nf" {
                // It stands in place of a chain as well.
                document.remove("chain");
                document.remove("length");
            }
            set(&mut document, one.key, one.value.clone());
        }
        let text = document.to_string();
        let Ok(placed) = Document::parse(text.as_str()) else { return whole() };
        let place = |one: &Given| {
            let item = placed.get(one.key)?.span()?;
            Some((item, format!("{} {}", one.option, one.said)))
        };
        let options = given.iter().filter_map(place).collect();
        Applied { options, text }
    }

    /// The axes that are given, as options.
    pub(super) fn said(&self) -> Vec<String> {
        self.given().iter().map(|one| format!("{} {}", one.option, one.said)).collect()
    }

    /// Whether a flow table is the function.
    pub(super) fn has_flows(&self) -> bool {
        !self.flows.is_empty()
    }

    fn given(&self) -> Vec<Given> {
        let flows: Vec<Value> = self.flows.iter().map(|file| format!("flows:{file}").into()).collect();
        // Captures come in their own sizes only.
        let captures =
            self.has_flows() && !self.trace.is_empty() && self.trace.iter().all(|name| is_capture(name));
        let recorded =
            if captures && self.size.is_empty() { vec!["recorded".to_owned()] } else { Vec::new() };
        let size = if recorded.is_empty() { &self.size } else { &recorded };
        let directions: Vec<String> = self.directions.iter().map(ToString::to_string).collect();
        let copies: Vec<String> = self.copies.iter().map(ToString::to_string).collect();
        let vnics: Vec<String> = self.vnics.iter().map(ToString::to_string).collect();
        let bundles: Vec<String> = self.bundles.iter().map(ToString::to_string).collect();
        let queues: Vec<String> = self.queues.iter().map(ToString::to_string).collect();
        let lists = [
            ("nf", "--nf", &self.nf, texts(&self.nf)),
            ("nf", "--flows", &self.flows, flows),
            ("dut", "--dut", &self.dut, texts(&self.dut)),
            ("deployment", "--deployment", &self.deployment, texts(&self.deployment)),
            ("host", "--host", &self.host, texts(&self.host)),
            ("copies", "--copies", &copies, words(&copies)),
            ("split", "--split", &self.split, texts(&self.split)),
            ("vnics", "--vnics", &vnics, words(&vnics)),
            ("bundles", "--bundles", &bundles, words(&bundles)),
            ("queues", "--queues", &queues, words(&queues)),
            ("cores", "--cores", &self.cores, words(&self.cores)),
            ("frequency", "--frequency", &self.frequency, texts(&self.frequency)),
            ("offloads", "--offloads", &self.offloads, texts(&self.offloads)),
            ("node", "--node", &self.node, texts(&self.node)),
            ("server", "--server", &self.server, texts(&self.server)),
            ("vcpus", "--vcpus", &self.vcpus, words(&self.vcpus)),
            ("memory", "--memory", &self.memory, words(&self.memory)),
            ("accel", "--accel", &self.accel, texts(&self.accel)),
            ("wiring", "--wiring", &self.wiring, texts(&self.wiring)),
            ("trace", "--trace", &self.trace, texts(&self.trace)),
            ("size", "--size", size, words(size)),
            ("directions", "--directions", &directions, words(&directions)),
            ("huge_pages", "--huge-pages", &self.huge_pages, words(&self.huge_pages)),
        ];
        let list = |(key, option, said, values): (&'static str, &'static str, &Vec<String>, Vec<Value>)| {
            let value = Value::Array(Array::from_iter(values));
            (!said.is_empty()).then(|| Given { key, option, said: said.join(","), value })
        };
        let mut given: Vec<Given> = lists.into_iter().filter_map(list).collect();
        if let Some(against) = &self.against {
            let value = against.as_str().into();
            given.push(Given { key: "against", option: "--against", said: against.clone(), value });
        }
        if let Some(repeats) = self.repeats {
            let said = repeats.to_string();
            given.push(Given { key: "repeats", option: "--repeats", said, value: repeats.into() });
        }
        given
    }
}

impl Applied {
    /// The mistakes of a plan in the words of those who gave options: what an option says is told by
    /// its name, and the rest in its place in the plan.
    pub(super) fn blame(&self, mut error: PlanError) -> String {
        let mut told = Vec::new();
        for (place, option) in &self.options {
            for mistake in error.take_within(place) {
                told.push(of_option(option, &mistake));
            }
        }
        if !error.is_empty() {
            told.push(error.to_string());
            let given: Vec<&str> = self.options.iter().map(|(_, option)| option.as_str()).collect();
            if !given.is_empty() {
                told.push(format!("in place of the plan's own stand {}", given.join(" ")));
            }
        }
        told.join("\n")
    }
}

/// A mistake in an option: what, and what may be written.
fn of_option(option: &str, mistake: &Diagnostic) -> String {
    let mut text = format!("{option}: {}", mistake.message);
    if !mistake.label.is_empty() {
        text.push_str(&format!("\n  {}", mistake.label));
    }
    if !mistake.allowed.is_empty() {
        text.push_str(&format!("\n  allowed: {}", mistake.allowed.join(", ")));
    }
    text
}

fn is_capture(name: &str) -> bool {
    name.split('|').all(|name| TraceName::parse(name).is_ok_and(|name| name.is_capture()))
}

fn set(document: &mut DocumentMut, key: &str, value: Value) {
    match document.get_mut(key).and_then(Item::as_value_mut) {
        Some(old) => {
            let decor = old.decor().clone();
            *old = value;
            *old.decor_mut() = decor;
        }
        None => {
            document.insert(key, Item::Value(value));
        }
    }
}

fn texts(values: &[String]) -> Vec<Value> {
    values.iter().map(|value| value.as_str().into()).collect()
}

/// Numbers and booleans as such, everything else as text.
fn words(values: &[String]) -> Vec<Value> {
    let word = |value: &String| match (value.parse::<i64>(), value.parse::<bool>()) {
        (Ok(number), _) => number.into(),
        (_, Ok(truth)) => truth.into(),
        _ => value.as_str().into(),
    };
    values.iter().map(word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overrides() -> Overrides {
        Overrides {
            nf: vec!["l2fwd".into()],
            flows: vec![],
            dut: vec![],
            deployment: vec![],
            host: vec![],
            copies: vec![2],
            split: vec!["flow".into()],
            vnics: vec![2, 4],
            bundles: vec![1, 2],
            queues: vec![1, 4],
            cores: vec![],
            vcpus: vec![],
            memory: vec![],
            accel: vec![],
            frequency: vec![],
            offloads: vec![],
            node: vec![],
            server: vec![],
            against: Some("testpmd".into()),
            wiring: vec![],
            trace: vec![],
            size: vec!["64".into(), "imix".into()],
            directions: vec![1],
            huge_pages: vec!["auto".into()],
            repeats: Some(3),
        }
    }

    #[test]
    fn given_axes_replace_the_plans_and_the_rest_stays() {
        let plan = "# mine\nnf = \"l3fwd\" # routing\nsize = [512]\ntrace = \"tr3i\"\n\n[mrr]\ntrials = 2\n";
        let text = overrides().apply(plan).text;
        assert!(text.contains("nf = [\"l2fwd\"] # routing"), "{text}");
        assert!(text.contains("size = [64, \"imix\"]") && text.contains("trace = \"tr3i\""), "{text}");
        assert!(text.contains("against = \"testpmd\""), "{text}");
        assert!(text.contains("repeats = 3") && text.find("repeats") < text.find("[mrr]"), "{text}");
        assert!(text.contains("huge_pages = [\"auto\"]"), "{text}");
        assert!(text.contains("copies = [2]") && text.contains("split = [\"flow\"]"), "{text}");
        assert!(text.contains("bundles = [1, 2]") && text.contains("vnics = [2, 4]"), "{text}");
        assert!(text.contains("queues = [1, 4]"), "{text}");
    }

    #[test]
    fn flows_are_the_function_and_a_capture_comes_as_it_was_recorded() {
        let given = Overrides {
            nf: vec![],
            flows: vec!["site.flows".into()],
            trace: vec!["site.pcap".into()],
            size: vec![],
            ..overrides()
        };
        let text = given.apply("nf = \"l2fwd\"\nsize = 64\ntrace = \"simple\"\n").text;
        assert!(
            text.contains("nf = [\"flows:site.flows\"]") && text.contains("size = [\"recorded\"]"),
            "{text}"
        );
        let sized = Overrides { trace: vec!["flows:100".into()], ..given };
        assert!(sized.apply("size = 64\n").text.contains("size = 64"));
    }

    #[test]
    fn a_plan_that_cannot_be_read_is_left_to_the_plans_reader() {
        assert_eq!(overrides().apply("nf = ").text, "nf = ");
    }
}
