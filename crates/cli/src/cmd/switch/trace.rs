//! `weir switch trace`: the path of a packet.

use super::{Socket, client_error};
use crate::cmd::{BadUse, print};
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use weir_switch::Request;
use weir_switch::protocol::to_hex;
use weir_wire::pcap::CaptureReader;

const LONG_ABOUT: &str = "\
Say what becomes of a packet, step by step, without sending it: tables, stages and services, the \
megaflow it would make, why each bit of its mask is there, and the cycles of each step.

The tables are walked up to 101 times: cycles are of the TSC, the median of the walks behind the first, \
and the first. Services are not run; theirs are what workers measured so far.

The packet is described as flows are matched; what the description leaves open is filled in plainly \
(TTL 64, a SYN where it is TCP). Or it is packet N of a capture, or given by its bytes.";

const EXAMPLES: &str = "\
Examples:
  weir switch trace in_port=left,tcp,nw_src=10.0.0.1,nw_dst=198.18.0.1,tcp_dst=80
  weir switch trace --pcap trouble.pcap --packet 17 --port left
  weir switch trace --frame ffffffffffff0200000000010806... --port 1";

/// Say what becomes of a packet, step by step
#[derive(clap::Args)]
#[command(long_about = LONG_ABOUT, after_long_help = EXAMPLES)]
pub(super) struct Args {
    /// The packet, as flows are matched
    #[arg(value_name = "PACKET", required_unless_present_any = ["pcap", "frame"], conflicts_with_all = ["pcap", "frame"])]
    packet: Option<String>,
    /// Take the packet from a capture
    #[arg(long, value_name = "FILE", requires = "port", conflicts_with = "frame")]
    pcap: Option<PathBuf>,
    /// Which packet of the capture, from 1
    #[arg(long = "packet", value_name = "N", default_value_t = 1, requires = "pcap", value_parser = clap::value_parser!(u64).range(1..))]
    packet_number: u64,
    /// The packet's bytes without FCS, in hexadecimal
    #[arg(long, value_name = "HEX", requires = "port")]
    frame: Option<String>,
    /// The port it comes in by: name or number
    #[arg(long, value_name = "PORT")]
    port: Option<String>,
    /// What services write into sf_metadata, in the order they are met; 1 after the last
    #[arg(long, value_name = "N")]
    metadata: Vec<u32>,
    /// Print JSON: the port, the frame, the steps, and the cycles of each task
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    socket: Socket,
}

pub(super) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let frame = match &args.pcap {
        Some(path) => Some(to_hex(&packet_of(path, args.packet_number)?)),
        None => args.frame,
    };
    let request = Request::Trace { packet: args.packet, frame, in_port: args.port, metadata: args.metadata };
    let told = args.socket.connect()?.ask(&request).map_err(client_error)?;
    if args.json {
        print(&format!("{told:#}\n"))?;
    } else {
        print(&format!("{}\n", told["steps"].as_str().unwrap_or_default().trim_end()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Packet `number` of a capture.
fn packet_of(path: &Path, number: u64) -> anyhow::Result<Vec<u8>> {
    let name = path.display();
    let file = File::open(path).map_err(|error| BadUse::new(format!("{name}: {error}")))?;
    let wrong = |error: &dyn std::fmt::Display| BadUse::new(format!("{name}: {error}"));
    let mut reader = CaptureReader::new(BufReader::new(file)).map_err(|error| wrong(&error))?;
    for _ in 1..number {
        if reader.next_packet().map_err(|error| wrong(&error))?.is_none() {
            break;
        }
    }
    let packets = reader.packets();
    match reader.next_packet().map_err(|error| wrong(&error))? {
        Some(packet) => Ok(packet.data.to_vec()),
        None => Err(wrong(&format!("it holds {packets} packets; there is no packet {number}")).into()),
    }
}
