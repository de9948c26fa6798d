//! `weir trace`: what the traces are, and proof that they are that.

use super::BadUse;
use anyhow::{Context as _, bail};
use clap::Subcommand;
use serde::Serialize;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use weir_traffic::trace::catalogue::{ENTRIES, Entry};
use weir_traffic::trace::info::{Check, TraceInfo};
use weir_traffic::trace::{
    CaptureOptions, CutPackets, Direction, FrameSource, Ipv4Prefix, Laps, Sizes, TraceName, TraceOptions,
    TraceSpec, VlanChange,
};
use weir_units::{LineRate, Nanos, Pps, Ratio};
use weir_wire::MacAddress;
use weir_wire::pcap::{CaptureWriter, Format};

/// Traces: list them, count what they hold, write them as captures
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// List the named traces
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Count what a trace really holds, and compare with what its source says
    #[command(long_about = INFO_ABOUT)]
    Info {
        #[command(flatten)]
        which: Which,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Write a trace into a capture file
    #[command(long_about = GEN_ABOUT)]
    Gen {
        #[command(flatten)]
        which: Which,
        /// File to write: pcap, or pcapng where the name ends so
        #[arg(short, long, value_name = "FILE")]
        output: PathBuf,
        /// Packets to write; one lap when left out
        #[arg(long, value_name = "N")]
        count: Option<u64>,
        /// Rate that the time stamps tell, where the trace has no gaps of its own; 10G line rate when left out
        #[arg(long, value_name = "PPS")]
        rate: Option<Pps>,
    },
}

const INFO_ABOUT: &str = "\
Count what a trace really holds, packet by packet: flows, addresses, ports, sizes, conversations and, \
for captures, gaps. Where a paper says how many there must be, each of its numbers is compared with \
what was found; exit code 1 when one differs.

Examples:
  weir trace info tr3i
  weir trace info tr5ul --size 1500 --direction 1
  weir trace info t2 --json
  weir trace info capture.pcapng

Captures are read as a stream, however large; memory grows with the distinct flows only.";

const GEN_ABOUT: &str = "\
Write a trace into a pcap or pcapng file, for another tester or for a look at it. Frames are written \
without the 4-byte FCS, as captures hold them: a 64-byte frame takes 60 bytes.

Examples:
  weir trace gen tr3e --size 128 -o tr3e.128.pcap
  weir trace gen flows:1000 --size imix --count 100000 -o mix.pcapng
  weir trace gen capture.pcap --test-network --vlan-push 7 -o rewritten.pcap";

/// Which trace.
#[derive(clap::Args)]
struct Which {
    /// Name of a trace (see `weir trace list`), or path of a pcap or pcapng file
    #[arg(value_name = "NAME|FILE")]
    trace: String,
    /// Frame size in bytes with FCS (64 to 9022), or a mix: imix, web; captures, t1 and t2 have their own
    #[arg(short, long, value_name = "SIZE")]
    size: Option<String>,
    /// 0: from port 0 to port 1; 1: the reverse, every flow mirrored
    #[arg(short, long, value_name = "0|1", default_value_t = 0)]
    direction: u8,
    /// Seed of whatever is random in the trace
    #[arg(long, value_name = "N", default_value_t = TraceSpec::DEFAULT_SEED)]
    seed: u64,
    #[command(flatten)]
    changes: Changes,
}

/// What is changed in the frames.
#[derive(clap::Args)]
#[command(next_help_heading = "Changes to the frames")]
struct Changes {
    /// Source MAC address of every frame
    #[arg(long, value_name = "MAC")]
    source_mac: Option<MacAddress>,
    /// Destination MAC address of every frame
    #[arg(long, value_name = "MAC")]
    destination_mac: Option<MacAddress>,
    /// Put a VLAN tag before whatever is there
    #[arg(long, value_name = "VLAN", group = "vlan")]
    vlan_push: Option<u16>,
    /// Set the VLAN of the outermost tag; untagged frames get one
    #[arg(long, value_name = "VLAN", group = "vlan")]
    vlan_set: Option<u16>,
    /// Take the outermost VLAN tag off (captures)
    #[arg(long, group = "vlan")]
    vlan_pop: bool,
    /// Move source IPv4 addresses into a prefix (captures)
    #[arg(long, value_name = "PREFIX")]
    source_prefix: Option<Ipv4Prefix>,
    /// Move destination IPv4 addresses into a prefix (captures)
    #[arg(long, value_name = "PREFIX")]
    destination_prefix: Option<Ipv4Prefix>,
    /// Move both into 198.18.0.0/15, as the direction asks (captures; RFC 2544)
    #[arg(long, conflicts_with_all = ["source_prefix", "destination_prefix"])]
    test_network: bool,
    /// What becomes of packets that the capture's snap length cut
    #[arg(long, value_enum, default_value_t = Cut::Refuse)]
    cut: Cut,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Cut {
    /// Refuse the capture
    Refuse,
    /// Pad them with zeros to their length on the wire
    Pad,
    /// Leave them out
    Skip,
}

impl Which {
    fn spec(&self) -> Result<TraceSpec, BadUse> {
        let mut spec = TraceSpec::parse(&self.trace).map_err(BadUse::new)?.seed(self.seed);
        spec.direction = Direction::try_from(self.direction).map_err(BadUse::new)?;
        if let Some(size) = &self.size {
            spec.sizes = size.parse::<Sizes>().map_err(BadUse::new)?;
        }
        spec.options = self.changes.options(spec.direction);
        Ok(spec)
    }
}

impl Changes {
    fn options(&self, direction: Direction) -> TraceOptions {
        let vlan = match (self.vlan_push, self.vlan_set, self.vlan_pop) {
            (Some(vlan), _, _) => Some(VlanChange::Push(vlan)),
            (_, Some(vlan), _) => Some(VlanChange::Set(vlan)),
            (_, _, true) => Some(VlanChange::Pop),
            _ => None,
        };
        let cut = match self.cut {
            Cut::Refuse => CutPackets::Refuse,
            Cut::Pad => CutPackets::Pad,
            Cut::Skip => CutPackets::Skip,
        };
        let options = TraceOptions {
            source_mac: self.source_mac,
            destination_mac: self.destination_mac,
            vlan,
            source_prefix: self.source_prefix,
            destination_prefix: self.destination_prefix,
            laps: Laps::Once,
            capture: CaptureOptions { cut, ..CaptureOptions::default() },
        };
        if self.test_network { options.into_test_network(direction) } else { options }
    }
}

/// Runs `weir trace`.
pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut out = std::io::stdout().lock();
    match args.action {
        Action::List { json } => list(&mut out, json),
        Action::Info { which, json } => info(&mut out, &which.spec()?, json),
        Action::Gen { which, output, count, rate } => generate(&mut out, which.spec()?, &output, count, rate),
    }
}

/// What `weir trace list --json` prints.
#[derive(Serialize, schemars::JsonSchema)]
pub(super) struct Listing {
    /// Version of this document's form.
    schema: u32,
    /// The traces by name.
    traces: Vec<Entry>,
}

fn list(out: &mut impl Write, json: bool) -> anyhow::Result<ExitCode> {
    if json {
        let listing = Listing { schema: weir_traffic::trace::info::SCHEMA_VERSION, traces: ENTRIES.to_vec() };
        writeln!(out, "{}", serde_json::to_string_pretty(&listing)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let yours = Entry {
        name: "FILE",
        summary: "any pcap or pcapng file of Ethernet frames",
        source: "yours",
        sizes: "recorded",
    };
    let title = Entry { name: "name", summary: "what it is", source: "source", sizes: "sizes" };
    let lines: Vec<Entry> = [title].into_iter().chain(ENTRIES).chain([yours]).collect();
    let width = lines.iter().map(|entry| entry.summary.len()).max().unwrap_or(0);
    for Entry { name, sizes, summary, source } in lines {
        writeln!(out, "{name:<15}  {sizes:<8}  {summary:<width$}  {source}")?;
    }
    writeln!(
        out,
        "\nSizes are bytes with FCS: 64 to 9022, imix (7 : 4 : 1 of 64, 570 and 1518) or web (a data-centre web \
         cluster, median 120).\nNext: weir trace info tr3i"
    )?;
    Ok(ExitCode::SUCCESS)
}

fn info(out: &mut impl Write, spec: &TraceSpec, json: bool) -> anyhow::Result<ExitCode> {
    let info = TraceInfo::of(spec).map_err(BadUse::new)?;
    if json {
        writeln!(out, "{}", serde_json::to_string_pretty(&info)?)?;
    } else {
        print(out, &info)?;
    }
    Ok(if info.is_as_claimed() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// A whole number with thousands apart, or one with two decimals.
fn number(value: f64) -> String {
    if value.fract() != 0.0 {
        return format!("{value:.2}");
    }
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn print(out: &mut impl Write, info: &TraceInfo) -> anyhow::Result<()> {
    let whole = |value: u64| number(value as f64);
    writeln!(
        out,
        "trace      {}, sizes {}, direction {}, seed {}",
        info.name, info.sizes, info.direction, info.seed
    )?;
    writeln!(out, "hash       {}", info.hash)?;
    writeln!(out, "\n{:<32}{:>14}", "packets a lap", whole(info.packets))?;
    let mut counts = vec![
        ("flows", info.flows),
        ("source MAC addresses", info.source_macs),
        ("destination MAC addresses", info.destination_macs),
        ("source IP addresses", info.source_addresses),
        ("destination IP addresses", info.destination_addresses),
        ("source ports", info.source_ports),
        ("destination ports", info.destination_ports),
        ("packets that can be stamped", info.stampable),
        ("packets of a flow in a row, most", info.longest_burst),
    ];
    let more = [("packets that are not IP", info.not_ip), ("packets with VLAN tag", info.tagged)];
    counts.extend(more.into_iter().filter(|(_, count)| *count > 0));
    for (what, count) in counts {
        writeln!(out, "{what:<32}{:>14}", whole(count))?;
    }
    let talks = &info.conversations;
    writeln!(out, "{:<32}{:>14}", "conversations", whole(talks.tcp + talks.udp))?;
    writeln!(
        out,
        "  TCP {}, UDP {}; both sides send in {}; packets: mean {:.2}, median {}, most {}",
        whole(talks.tcp),
        whole(talks.udp),
        whole(talks.two_way),
        talks.mean,
        whole(talks.median),
        whole(talks.max)
    )?;

    let sizes = &info.frame_sizes;
    writeln!(
        out,
        "\nframe sizes in bytes with FCS: min {}, median {}, mean {:.1}, max {}",
        sizes.min, sizes.median, sizes.mean, sizes.max
    )?;
    for class in sizes.classes.iter().filter(|class| class.packets > 0) {
        let range = if class.from == class.to {
            class.to.to_string()
        } else {
            format!("{}-{}", class.from, class.to)
        };
        writeln!(out, "  {range:<30}{:>14}{:>11}", whole(class.packets), Ratio(class.share).to_string())?;
    }
    if let Some(gaps) = &info.gaps {
        writeln!(
            out,
            "\ngaps: min {}, median {}, mean {}, max {}; {} from first packet to last",
            gaps.min, gaps.median, gaps.mean, gaps.max, gaps.duration
        )?;
    }
    if let Some(counts) = &info.capture {
        writeln!(
            out,
            "\ncapture: {} packets, {} sent; {} cut by the snap length, {} padded to 64 B, {} too short, {} too long, \
             {} earlier than the one before, {} without time stamp",
            whole(counts.packets),
            whole(counts.sent),
            counts.cut,
            counts.padded,
            counts.too_short,
            counts.too_long,
            counts.backwards,
            counts.untimed
        )?;
    }
    print_checks(out, &info.checks)
}

fn print_checks(out: &mut impl Write, checks: &[Check]) -> anyhow::Result<()> {
    if checks.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{:<36}{:>16}{:>14}", "claimed", "expected", "found")?;
    for check in checks {
        let expected = match check.tolerance {
            0.0 => number(check.expected),
            tolerance => format!("{} ± {tolerance}", number(check.expected)),
        };
        writeln!(
            out,
            "{:<36}{expected:>16}{:>14}  {}",
            check.quantity.words(),
            number(check.found),
            if check.ok { "ok" } else { "DIFFERS" }
        )?;
    }
    Ok(())
}

fn generate(
    out: &mut impl Write,
    mut spec: TraceSpec,
    output: &Path,
    count: Option<u64>,
    rate: Option<Pps>,
) -> anyhow::Result<ExitCode> {
    if let TraceName::Capture(input) = &spec.name
        && same_file(input, output)
    {
        bail!(BadUse::new(format!(
            "{} would be overwritten while it is read; write to another file",
            input.display()
        )));
    }
    if count == Some(0) || rate.is_some_and(|rate| rate.0 <= 0.0) {
        bail!(BadUse::new("--count and --rate must be above zero"));
    }
    if count.is_some() {
        spec.options.laps = Laps::Endless;
    }
    let mut source = spec.build().map_err(BadUse::new)?;
    let packets = count.unwrap_or_else(|| source.packets());
    let rate = rate.unwrap_or_else(|| LineRate::TEN_GIGABIT.max_pps(source.mean_frame_bytes()));
    let file = File::create(output)
        .map_err(|error| BadUse::new(format!("cannot write {}: {error}", output.display())))?;
    let bytes = write_capture(&mut source, file, format_of(output), packets, rate)
        .with_context(|| format!("writing {}", output.display()))?;
    if let Some(error) = source.error() {
        bail!("{error}");
    }
    writeln!(
        out,
        "wrote {} packets, {} bytes of frames without FCS, to {}\nNext: weir trace info {}",
        number(packets as f64),
        number(bytes as f64),
        output.display(),
        output.display()
    )?;
    Ok(ExitCode::SUCCESS)
}

/// Writes packets, timed by their own gaps or by a rate; says how many bytes of frames.
fn write_capture(
    source: &mut FrameSource,
    file: File,
    format: Format,
    packets: u64,
    rate: Pps,
) -> anyhow::Result<u64> {
    let mut writer = CaptureWriter::new(BufWriter::with_capacity(1 << 20, file), format)?;
    let (mut frame, mut now, mut bytes) = (Vec::new(), 0_u64, 0_u64);
    for i in 0..packets {
        let Some(next) = source.next_frame() else { break };
        frame.clear();
        frame.extend_from_slice(next.head);
        frame.extend_from_slice(next.tail);
        now = match next.gap {
            Some(gap) if i > 0 => now + gap.0,
            Some(_) => now,
            None => (i as f64 * Nanos::PER_SECOND as f64 / rate.0) as u64,
        };
        writer.write(Nanos(now), &frame)?;
        bytes += frame.len() as u64;
    }
    writer.finish()?;
    Ok(bytes)
}

fn format_of(output: &Path) -> Format {
    if output.extension().is_some_and(|end| end.eq_ignore_ascii_case("pcapng")) {
        Format::Pcapng
    } else {
        Format::Pcap
    }
}

fn same_file(a: &Path, b: &Path) -> bool {
    matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}
