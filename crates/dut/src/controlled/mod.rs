//! `openflow:`: a switch that already runs and speaks OpenFlow 1.3.
//!
//! Its ports meet the lab's as those of `external` do ([`crate::wiring::External`]). The lab is its controller: it connects, or lets the
//! switch connect ([`address`]), learns who it is and which ports it has, installs the function's flows under a cookie of
//! its own, asks port and flow counters between trials, and takes everything out at the end ([`tables`]). Tables that
//! hold entries of somebody else are left alone, unless the device says `replace`: then they are put back.
//!
//! Threads: one a connection ([`session`]), asleep while the switch is silent. No CPU time of the switch is known.

mod address;
mod encrypted;
mod session;
mod tables;
#[cfg(test)]
mod with_ovs;

use crate::openflow::{self, Dialect};
use crate::process::Process;
use crate::wiring::WiringKind;
use crate::{Adapter, Counters, DutError, Kind, PortCounts, RunningDut, StartRequest, external};
use address::Named;
use session::Session;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tables::Installed;
use weir_codec::{Desc, FlowQuery, Port, PortStats, Reply, Request};
use weir_openflow::PortNo;
use weir_trial::Nf;
use weir_units::Nanos;

const NAME: &str = "openflow";

/// How often a switch is tried, and asked for ports that it has not yet.
const LOOK: Duration = Duration::from_millis(200);

/// The adapter.
pub(crate) struct OpenFlow;

struct Running {
    /// Goes before the session: it takes the flows out.
    installed: Installed,
    ports: [PortNo; 2],
    description: String,
}

impl Adapter for OpenFlow {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> &'static str {
        "a switch that already runs: openflow:tcp:HOST:PORT, ssl:HOST:PORT, unix:PATH, ptcp:PORT, pssl:PORT or punix:PATH; \
         OpenFlow 1.3"
    }

    fn kind(&self) -> Kind {
        Kind::OnTheWire
    }

    fn wirings(&self) -> &'static [WiringKind] {
        external::WIRINGS
    }

    fn supports(&self, nf: Nf) -> Result<(), String> {
        openflow::flows(nf, Dialect::OpenVSwitch).map(drop)
    }

    fn version(&self) -> Result<String, DutError> {
        Ok("as the switch says".to_owned())
    }

    fn takes(&self, variant: &str) -> Result<(), String> {
        Named::parse(variant).map(drop)
    }

    fn to_connect(&self, variant: &str) -> Option<String> {
        Named::parse(variant).ok().map(|named| named.address.to_connect())
    }

    fn start(&self, request: &StartRequest<'_>) -> Result<Box<dyn RunningDut>, DutError> {
        let unsupported = |reason| DutError::Unsupported { dut: NAME, nf: request.nf, reason };
        let named = Named::parse(request.variant).map_err(unsupported)?;
        let flows = openflow::flows(request.nf, Dialect::OpenVSwitch).map_err(unsupported)?;
        request.folder.write("flows.txt", &flows)?;
        let place = named.address.to_string();
        let wrong = |reason: String| DutError::Network { what: format!("the switch at {place}"), reason };
        let end = Instant::now() + request.external.wait;
        let mut session = meet(&named, request, end)?;
        let features = session.features().map_err(wrong)?;
        let desc = session.desc().unwrap_or_default();
        let ports = find_ports(&mut session, &named, request, end)?;
        let numbers = [ports[0].number, ports[1].number];
        let who = described(&desc, features.datapath_id, features.n_tables, &ports);
        let wrong =
            |reason: String| DutError::Network { what: format!("the switch at {place} ({who})"), reason };
        let flows = tables::adapted(&flows, numbers).map_err(wrong)?;
        let installed = Installed::install(session, flows, named.replace).map_err(wrong)?;
        let description = format!("{who}; {}; {}", request.external.description, named.address);
        Ok(Box::new(Running { installed, ports: numbers, description }))
    }
}

/// Connects, or waits until the switch does; an error that says what was tried when the time is over.
fn meet(named: &Named, request: &StartRequest<'_>, end: Instant) -> Result<Session, DutError> {
    let place = named.address.to_string();
    let absent = |reason: String| DutError::Network {
        what: format!(
            "no switch that speaks OpenFlow 1.3 came to {place} within {} s",
            request.external.wait.as_secs()
        ),
        reason: format!("{reason}; {}", named.address.to_connect()),
    };
    let meeting = named.open().map_err(|error| absent(error.to_string()))?;
    loop {
        let why = match meeting.stream() {
            Ok(stream) => return Session::begin(stream, request.alarm.clone()).map_err(absent),
            Err(error) if error.kind() == ErrorKind::InvalidData => return Err(absent(error.to_string())),
            Err(error) => error.to_string(),
        };
        if request.alarm.load(Ordering::Relaxed) {
            return Err(DutError::Interrupted { dut: NAME });
        }
        if Instant::now() > end {
            return Err(absent(why));
        }
        std::thread::sleep(LOOK);
    }
}

/// The two ports that are measured; those that are named, or the only two that there are. Waits for them.
fn find_ports(
    session: &mut Session,
    named: &Named,
    request: &StartRequest<'_>,
    end: Instant,
) -> Result<[Port; 2], DutError> {
    let wrong =
        |reason: String| DutError::Network { what: format!("the switch at {}", named.address), reason };
    loop {
        let ports = session.ports().map_err(wrong)?;
        let why = match chosen(&ports, named.ports.as_ref()) {
            Ok(found) => return Ok(found),
            Err(why) => why,
        };
        if request.alarm.load(Ordering::Relaxed) {
            return Err(session.ended().unwrap_or(DutError::Interrupted { dut: NAME }));
        }
        if Instant::now() > end {
            return Err(wrong(why));
        }
        std::thread::sleep(LOOK);
    }
}

/// Two of these ports, port 0 first; why not, where there are no such.
fn chosen(ports: &[Port], wanted: Option<&[String; 2]>) -> Result<[Port; 2], String> {
    let real: Vec<&Port> = ports.iter().filter(|port| !port.number.is_reserved()).collect();
    let known = || match real[..] {
        [] => "it has no port".to_owned(),
        _ => {
            let known: Vec<String> =
                real.iter().map(|port| format!("{} ({})", port.name, port.number.0)).collect();
            format!("it has the ports {}", known.join(", "))
        }
    };
    let Some(wanted) = wanted else {
        return match real[..] {
            [first, second] if first.number < second.number => Ok([first.clone(), second.clone()]),
            [first, second] => Ok([second.clone(), first.clone()]),
            _ => Err(format!("{}; name the two that meet the lab's by `+ports=FIRST/SECOND`", known())),
        };
    };
    let find = |name: &String| {
        let is = |port: &&&Port| port.name == *name || name.parse() == Ok(port.number.0);
        let found = real.iter().find(is);
        found.map(|port| (*port).clone()).ok_or_else(|| format!("it has no port `{name}`: {}", known()))
    };
    Ok([find(&wanted[0])?, find(&wanted[1])?])
}

fn described(desc: &Desc, datapath: u64, tables: u8, ports: &[Port; 2]) -> String {
    let words = [&desc.manufacturer, &desc.hardware, &desc.software];
    let words: Vec<&str> =
        words.into_iter().map(|word| word.trim()).filter(|word| !word.is_empty()).collect();
    let who =
        if words.is_empty() { "a switch that says nothing of itself".to_owned() } else { words.join(", ") };
    let [first, second] = ports.each_ref().map(|port| format!("{} ({})", port.name, port.number.0));
    format!("{who}; datapath {datapath:016x}, {tables} tables, ports {first} and {second}")
}

impl Running {
    fn session(&mut self) -> &mut Session {
        &mut self.installed.session
    }

    /// Port counters, and what else it tells.
    fn read(&mut self) -> Result<(Vec<PortCounts>, BTreeMap<String, u64>), String> {
        let ports = self.ports;
        let Reply::Port(stats) = self.session().part(Request::Port(PortNo::ANY))? else {
            return Err("it did not answer with counters of ports".to_owned());
        };
        let counts = ports.iter().map(|number| counts(&stats, *number)).collect::<Result<_, _>>()?;
        let mut details = BTreeMap::new();
        let query = FlowQuery { cookie: tables::COOKIE, cookie_mask: u64::MAX, ..FlowQuery::default() };
        // Not every switch has these; what is refused is left out.
        if let Ok(Reply::Aggregate(_, sum)) = self.session().part(Request::Aggregate(query)) {
            details.insert("flow entries packets".to_owned(), sum.packets);
        }
        if let Ok(Reply::Table(tables)) = self.session().part(Request::Table) {
            for table in tables.iter().filter(|table| table.active > 0) {
                details.insert(format!("table {} lookups", table.table.0), table.lookups);
                details.insert(format!("table {} matches", table.table.0), table.matched);
            }
        }
        Ok((counts, details))
    }
}

/// What a port counted.
fn counts(stats: &[PortStats], number: PortNo) -> Result<PortCounts, String> {
    let kept = |count: u64| (count != u64::MAX).then_some(count);
    let port = stats.iter().find(|port| port.number == number);
    let port = port.ok_or_else(|| format!("its port {} has gone", number.0))?;
    match (kept(port.rx_packets), kept(port.tx_packets)) {
        (Some(received), Some(sent)) => Ok(PortCounts { received, sent, refused: kept(port.tx_dropped) }),
        _ => Err(format!("it does not count the packets of port {}", number.0)),
    }
}

impl RunningDut for Running {
    fn description(&self) -> String {
        self.description.clone()
    }

    fn counters(&mut self) -> Result<Counters, DutError> {
        let asked = Instant::now();
        let read = self.read();
        let at = asked + asked.elapsed() / 2;
        let (ports, details) = match (read, self.ended()) {
            (Ok(read), _) => read,
            (Err(_), Some(ended)) => return Err(ended),
            (Err(reason), None) => {
                let what = format!("the counters of {}", self.description);
                return Err(DutError::Network { what, reason });
            }
        };
        let (received, sent) = PortCounts::totals(&ports);
        Ok(Counters { ports, details, ..Counters::new(received, sent, Nanos(0), at) })
    }

    fn threads(&self) -> Vec<(u32, u32)> {
        Vec::new()
    }

    fn processes(&self) -> Vec<&Process> {
        Vec::new()
    }

    fn ended(&mut self) -> Option<DutError> {
        self.session().ended()
    }

    fn stop(mut self: Box<Self>) -> Result<(), DutError> {
        let description = self.description.clone();
        self.installed.take_out().map_err(|reason| DutError::Network {
            what: format!("the flows of the lab could not all be taken out of {description}"),
            reason,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(number: u32, name: &str) -> Port {
        let (address, config, state, current) = ([0; 6], 0, 0, 0);
        let (advertised, supported, peer, current_speed, greatest_speed) = (0, 0, 0, 0, 0);
        let (number, name) = (PortNo(number), name.to_owned());
        Port {
            number,
            address,
            name,
            config,
            state,
            current,
            advertised,
            supported,
            peer,
            current_speed,
            greatest_speed,
        }
    }

    #[test]
    fn the_only_two_ports_are_taken_in_order_and_others_are_named() {
        let (local, p7, p3, p9) = (port(PortNo::LOCAL.0, "br"), port(7, "a"), port(3, "b"), port(9, "c"));
        let two = [local.clone(), p7.clone(), p3.clone()];
        assert_eq!(chosen(&two, None), Ok([p3.clone(), p7.clone()]));
        let three = [local, p7.clone(), p3, p9.clone()];
        let said = chosen(&three, None).unwrap_err();
        assert!(said.contains("a (7), b (3), c (9)") && said.contains("+ports="), "{said}");
        assert_eq!(chosen(&three, Some(&["9".to_owned(), "a".to_owned()])), Ok([p9, p7]));
        assert!(chosen(&three, Some(&["d".to_owned(), "a".to_owned()])).unwrap_err().contains("no port `d`"));
        assert!(chosen(&[], None).unwrap_err().contains("it has no port"));
    }

    #[test]
    fn counters_that_are_not_kept_are_told() {
        let no = u64::MAX;
        let stats = |received, dropped| PortStats {
            number: PortNo(1),
            rx_packets: received,
            tx_packets: 5,
            tx_dropped: dropped,
            rx_bytes: no,
            tx_bytes: no,
            rx_dropped: no,
            rx_errors: no,
            tx_errors: no,
            rx_frame_err: no,
            rx_over_err: no,
            rx_crc_err: no,
            collisions: no,
            duration: None,
        };
        let counted = PortCounts { received: 7, sent: 5, refused: None };
        assert_eq!(counts(&[stats(7, no)], PortNo(1)), Ok(counted));
        assert!(counts(&[stats(no, 0)], PortNo(1)).unwrap_err().contains("does not count"));
        assert!(counts(&[stats(7, 0)], PortNo(2)).unwrap_err().contains("port 2 has gone"));
    }
}
