//! `weir switch capture`: packets into a file while traffic runs.

use super::{Socket, client_error};
use crate::cmd::BadUse;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::rc::Rc;
use weir_switch::protocol::{CapturedLine, from_hex};
use weir_switch::{Client, Request};
use weir_units::Nanos;
use weir_wire::pcap::{CaptureWriter, Format, SeenPacket};

const LONG_ABOUT: &str = "\
Copy packets of a running switch into a capture: those that come in, as they came in, and those that \
go out, as they went; each with its port and direction, in pcapng.

The switch does not wait for the capture: of packets that come faster than they can be written, some \
are missing in the file. Ctrl-C ends it, and the file is whole.";

const EXAMPLES: &str = "\
Examples:
  weir switch capture --port left --write left.pcapng --count 1000
  weir switch capture --flow tcp,tcp_dst=80 --snap 96 --write - | tcpdump -nr -";

/// Copy packets of a running switch into a file
#[derive(clap::Args)]
#[command(long_about = LONG_ABOUT, after_long_help = EXAMPLES)]
pub(super) struct Args {
    /// At this port only: name or number
    #[arg(long, value_name = "PORT")]
    port: Option<String>,
    /// Only packets that match this as they come in, as flows are matched
    #[arg(long, value_name = "MATCH", default_value = "")]
    flow: String,
    /// Only packets that come in
    #[arg(long)]
    received: bool,
    /// Only packets that go out
    #[arg(long)]
    sent: bool,
    /// File to write: pcapng, or pcap where the name ends so; - for standard output
    #[arg(long, short, value_name = "FILE")]
    write: PathBuf,
    /// End after so many packets
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Bytes kept of each packet; 0 for all
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    snap: u32,
    #[command(flatten)]
    socket: Socket,
}

/// A buffered file that can be flushed from beside its writer.
#[derive(Clone)]
struct Shared(Rc<RefCell<BufWriter<Box<dyn Write>>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.borrow_mut().flush()
    }
}

/// The capture that is written.
struct Capture {
    writer: CaptureWriter<Shared>,
    file: Shared,
    names: BTreeMap<u64, String>,
    interfaces: BTreeMap<u32, u32>,
    packets: u64,
}

pub(super) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut client = args.socket.connect()?;
    let shown = client.ask(&Request::Show {}).map_err(client_error)?;
    let ports = shown.as_array().cloned().unwrap_or_default();
    let name = |port: &serde_json::Value| Some((port["number"].as_u64()?, port["name"].as_str()?.to_owned()));
    let names = ports.iter().filter_map(name).collect();
    let request = Request::Capture {
        port: args.port,
        matching: args.flow,
        received: args.received,
        sent: args.sent,
        snap: args.snap,
        count: args.count.unwrap_or(0),
    };
    let stop = client.hang_up().map_err(client_error)?;
    client.ask(&request).map_err(client_error)?;
    // The file is made when the switch has agreed.
    let mut capture = Capture::create(&args.write, names)?;
    ctrlc::set_handler(move || stop.now())?;
    let done = capture.fill(&mut client);
    let Capture { writer, packets, .. } = capture;
    done?;
    writer.finish()?;
    eprintln!("{packets} packets");
    Ok(ExitCode::SUCCESS)
}

impl Capture {
    fn create(path: &Path, names: BTreeMap<u64, String>) -> anyhow::Result<Self> {
        let out: Box<dyn Write> = if path.as_os_str() == "-" {
            Box::new(io::stdout())
        } else {
            let named = |error| BadUse::new(format!("{}: {error}; name another file", path.display()));
            Box::new(File::create(path).map_err(named)?)
        };
        let format =
            if path.extension().is_some_and(|end| end == "pcap") { Format::Pcap } else { Format::Pcapng };
        let file = Shared(Rc::new(RefCell::new(BufWriter::new(out))));
        let writer = CaptureWriter::new(file.clone(), format)?;
        Ok(Self { writer, file, names, interfaces: BTreeMap::new(), packets: 0 })
    }

    /// Writes what comes until it ends.
    fn fill(&mut self, client: &mut Client) -> anyhow::Result<()> {
        self.file.flush()?;
        while let Some(event) = client.event().map_err(client_error)? {
            let line: CapturedLine = serde_json::from_value(event)?;
            self.write(&line)?;
            if !client.has_more() {
                self.file.flush()?;
            }
        }
        Ok(())
    }

    fn write(&mut self, line: &CapturedLine) -> anyhow::Result<()> {
        let interface = match self.interfaces.get(&line.port) {
            Some(interface) => *interface,
            None => {
                let unnamed = || format!("port {}", line.port);
                let name = self.names.get(&u64::from(line.port)).cloned().unwrap_or_else(unnamed);
                let interface = self.writer.interface(&name)?;
                self.interfaces.insert(line.port, interface);
                interface
            }
        };
        let data = from_hex(&line.frame).map_err(anyhow::Error::msg)?;
        self.writer.write_seen(&SeenPacket {
            timestamp: Nanos(line.unix_ns),
            original_len: u32::try_from(line.length).unwrap_or(u32::MAX),
            data: &data,
            interface,
            sent: line.sent,
        })?;
        self.packets += 1;
        Ok(())
    }
}
