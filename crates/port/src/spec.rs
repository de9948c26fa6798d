//! What a port's spec says: which kind of port, and what a trace port does.

use crate::PortError;
use crate::af_packet::SocketSpec;
use crate::apart::ApartSpec;
use crate::driver;
use crate::fault::FaultSpec;
use std::path::PathBuf;
use weir_dpdk::RingEnd;
use weir_units::Pps;

/// How the specs of trace ports begin.
const TRACE: &str = "trace:";

/// How the specs of ports over raw sockets begin: ours, and those of DPDK's driver, whose place they take.
const SOCKET: &str = "af_packet:";
const SOCKET_VDEV: [&str; 2] = ["net_af_packet", "eth_af_packet"];

/// How the specs of ports begin whose peers are not trusted.
const UNTRUSTED: &str = "untrusted:";

/// How the specs of ports with faults begin.
const FAULT: &str = "fault:";

/// The spec of the port at which nothing comes in, and that takes everything.
const NULL: &str = "null";

/// A spec, understood.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Spec {
    /// DPDK's: an EAL vdev string or a PCI address.
    Dpdk,
    /// An interface of the system, by raw sockets.
    Socket(SocketSpec),
    /// The null port.
    Null,
    /// A trace port.
    Trace(TraceSpec),
    /// DPDK's, in a process of its own.
    Apart(ApartSpec),
    /// An end of rings, in memory that several processes have in common.
    Ring(RingEnd),
    /// Another port, by its spec, with faults.
    Fault(FaultSpec, String),
}

/// `trace:[RX.pcap][,tx=TX.pcap][,loop][,rate=RATE]`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct TraceSpec {
    /// The capture that is replayed; nothing comes in without.
    pub(crate) rx: Option<PathBuf>,
    /// The capture that is written; what is sent is only counted without.
    pub(crate) tx: Option<PathBuf>,
    /// Whether the replay starts again at its end.
    pub(crate) looped: bool,
    /// How fast it is replayed; as fast as it is polled without.
    pub(crate) rate: Option<Pps>,
}

impl Spec {
    /// Reads a spec.
    pub(crate) fn parse(text: &str) -> Result<Self, PortError> {
        if text == NULL {
            return Ok(Self::Null);
        }
        let wrong = |reason: String| PortError::Spec { port: text.to_owned(), reason };
        if let Some(fault) = text.strip_prefix(FAULT) {
            let (faults, inner) = fault.split_once(':').filter(|(_, inner)| !inner.is_empty()).ok_or_else(
                || wrong("the port behind it is missing: write fault:FAULTS:PORT, such as fault:drop=0.01:null".to_owned()),
            )?;
            if inner.starts_with(FAULT) {
                return Err(wrong("one fault port behind another: name all faults in one".to_owned()));
            }
            return Ok(Self::Fault(FaultSpec::parse(faults).map_err(wrong)?, inner.to_owned()));
        }
        if RingEnd::is_meant(text) {
            return text.parse().map(Self::Ring).map_err(wrong);
        }
        if let Some(port) = text.strip_prefix(UNTRUSTED) {
            return ApartSpec::parse(port).map(Self::Apart).map_err(wrong);
        }
        if let Some(socket) = text.strip_prefix(SOCKET) {
            return socket_spec(&format!("iface={socket}"), &["iface", "slots", "qdisc_bypass"])
                .map(Self::Socket)
                .map_err(wrong);
        }
        if let Some((name, arguments)) = text.split_once(',')
            && SOCKET_VDEV.iter().any(|begin| name.starts_with(begin))
        {
            return socket_spec(arguments, DPDKS_KEYS).map(Self::Socket).map_err(wrong);
        }
        let Some(trace) = text.strip_prefix(TRACE) else {
            let name = text.split(',').next().unwrap_or_default();
            return driver::check(name).map(|()| Self::Dpdk).map_err(wrong);
        };
        let mut parts = trace.split(',');
        let rx = parts.next().filter(|path| !path.is_empty()).map(PathBuf::from);
        let mut spec = TraceSpec { rx, ..TraceSpec::default() };
        for part in parts {
            match part.split_once('=') {
                Some(("tx", path)) if !path.is_empty() => spec.tx = Some(PathBuf::from(path)),
                Some(("rate", rate)) => {
                    let rate: Pps = rate.parse().map_err(|error| wrong(format!("{error}")))?;
                    if rate.0.is_nan() || rate.0 <= 0.0 {
                        return Err(wrong("the rate must be above zero".to_owned()));
                    }
                    spec.rate = Some(rate);
                }
                None if part == "loop" => spec.looped = true,
                _ => return Err(wrong(format!("`{part}` is none of tx=FILE, loop, rate=RATE"))),
            }
        }
        if spec.rx.is_none() && (spec.looped || spec.rate.is_some()) {
            return Err(wrong("there is no capture to be replayed: name one behind `trace:`".to_owned()));
        }
        Ok(Self::Trace(spec))
    }
}

/// What DPDK's driver has. Slots and blocks fit the frames by themselves here, and queues the workers, so that
/// `blocksz`, `framesz` and `qpairs` have nothing to say.
const DPDKS_KEYS: &[&str] = &["iface", "framecnt", "qdisc_bypass", "blocksz", "framesz", "qpairs"];

fn socket_spec(arguments: &str, keys: &[&str]) -> Result<SocketSpec, String> {
    let mut spec = SocketSpec { interface: String::new(), slots: None, bypass: false };
    for argument in arguments.split(',') {
        let (key, value) = argument.split_once('=').unwrap_or((argument, ""));
        let whole =
            || value.parse::<u16>().map_err(|_| format!("`{argument}` is no whole number up to 65535"));
        match key {
            _ if !keys.contains(&key) => {
                return Err(format!("`{argument}` is none of {}", keys.join("=, ") + "="));
            }
            "iface" => value.clone_into(&mut spec.interface),
            "slots" | "framecnt" => spec.slots = Some(whole()?.max(1)),
            "qdisc_bypass" => spec.bypass = whole()? != 0,
            _ => {}
        }
    }
    match spec.interface.as_str() {
        "" => Err("it names no interface: write af_packet:eth1, or net_af_packet0,iface=eth1".to_owned()),
        _ => Ok(spec),
    }
}

/// Whether a spec can be understood; nothing is opened.
///
/// # Errors
/// What in it is wrong.
pub fn check(spec: &str) -> Result<(), PortError> {
    match Spec::parse(spec)? {
        Spec::Fault(_, inner) => check(&inner),
        _ => Ok(()),
    }
}

/// DPDK's name of the device that a spec opens; nothing for other ports. Two ports cannot have one.
pub fn device(spec: &str) -> Option<&str> {
    match Spec::parse(spec) {
        Ok(Spec::Dpdk) => spec.split(',').next(),
        // The inner spec is the end of this one.
        Ok(Spec::Apart(ApartSpec { port: inner, .. }) | Spec::Fault(_, inner)) => {
            device(&spec[spec.len() - inner.len()..])
        }
        _ => None,
    }
}

/// Whether a spec is that of a port whose peer is not trusted, and that needs a helper.
pub fn is_apart(spec: &str) -> bool {
    match Spec::parse(spec) {
        Ok(Spec::Apart(_)) => true,
        Ok(Spec::Fault(_, inner)) => is_apart(&inner),
        _ => false,
    }
}

/// Whether a spec is that of an end of rings, in memory that several processes have in common.
pub fn is_ring(spec: &str) -> bool {
    RingEnd::is_meant(spec)
}

/// Whether a spec needs DPDK to probe the PCI bus: it is a PCI address.
pub fn is_pci(spec: &str) -> bool {
    device(spec).is_some_and(is_pci_name)
}

/// Whether a device's name is a PCI address.
pub(crate) fn is_pci_name(name: &str) -> bool {
    !name.starts_with("net_") && name.contains(':') && name.contains('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_of_rings_are_told_from_devices() {
        assert_eq!(Spec::parse("ring:2:far").unwrap(), Spec::Ring(RingEnd { link: 2, far: true }));
        assert!(is_ring("ring:2:far") && !is_ring("net_ring0"));
        assert_eq!(device("ring:2:far"), None);
        let error = check("ring:2:left").unwrap_err().to_string();
        assert!(error.contains("write ring:N:near or ring:N:far"), "{error}");
    }

    fn trace(text: &str) -> TraceSpec {
        match Spec::parse(text).unwrap() {
            Spec::Trace(spec) => spec,
            other => panic!("{text} is {other:?}"),
        }
    }

    #[test]
    fn a_trace_spec_says_what_is_replayed_and_what_is_written() {
        assert_eq!(trace("trace:a.pcap"), TraceSpec { rx: Some("a.pcap".into()), ..TraceSpec::default() });
        assert_eq!(
            trace("trace:/t/a.pcapng,tx=/t/b.pcap,loop,rate=2Mpps"),
            TraceSpec {
                rx: Some("/t/a.pcapng".into()),
                tx: Some("/t/b.pcap".into()),
                looped: true,
                rate: Some(Pps(2e6)),
            }
        );
        assert_eq!(
            trace("trace:,tx=b.pcap"),
            TraceSpec { tx: Some("b.pcap".into()), ..TraceSpec::default() }
        );
        assert_eq!(trace("trace:"), TraceSpec::default());
    }

    #[test]
    fn a_mistake_in_a_trace_spec_is_named() {
        for (text, named) in [
            ("trace:a.pcap,lop", "`lop`"),
            ("trace:a.pcap,tx=", "`tx=`"),
            ("trace:a.pcap,rate=fast", "fast"),
            ("trace:a.pcap,rate=0pps", "above zero"),
            ("trace:,loop", "no capture"),
        ] {
            let error = Spec::parse(text).unwrap_err().to_string();
            assert!(error.contains(named) && error.contains(text), "{error}");
        }
    }

    #[test]
    fn what_is_neither_null_nor_a_trace_is_dpdks() {
        assert_eq!(Spec::parse("null").unwrap(), Spec::Null);
        for text in ["net_null0", "0000:01:00.0", "net_vhost0,iface=/tmp/s"] {
            assert_eq!(Spec::parse(text).unwrap(), Spec::Dpdk);
        }
        assert_eq!(device("net_vhost0,iface=/tmp/s"), Some("net_vhost0"));
        assert_eq!(device("fault:drop=1%:0000:01:00.0,a=b"), Some("0000:01:00.0"));
        assert!(device("trace:a.pcap").is_none() && device("fault:dup=1:null").is_none());
        assert!(is_pci("fault:drop=1%:0000:01:00.0"));
        assert!(is_pci("0000:01:00.0") && is_pci("01:00.1,arg=1"));
        assert!(!is_pci("null") && !is_pci("net_null0") && !is_pci("trace:a:b.pcap"));
    }

    #[test]
    fn an_interface_is_named_as_ours_or_as_dpdks() {
        let spec = |slots, bypass| SocketSpec { interface: "eth1".to_owned(), slots, bypass };
        for (text, wanted) in [
            ("af_packet:eth1", spec(None, false)),
            ("af_packet:eth1,slots=512,qdisc_bypass=1", spec(Some(512), true)),
            ("net_af_packet0,iface=eth1", spec(None, false)),
            ("net_af_packet7,iface=eth1,blocksz=4096,framesz=2048,framecnt=1024", spec(Some(1024), false)),
        ] {
            assert_eq!(Spec::parse(text).unwrap(), Spec::Socket(wanted), "{text}");
        }
        for (text, named) in [
            ("af_packet:", "names no interface"),
            ("net_af_packet0,framecnt=9", "names no interface"),
            ("af_packet:eth1,framecnt=9", "`framecnt=9` is none of iface=, slots="),
            ("af_packet:eth1,slots=many", "`slots=many` is no whole number"),
        ] {
            let error = Spec::parse(text).unwrap_err().to_string();
            assert!(error.contains(named) && error.contains(text), "{error}");
        }
    }

    #[test]
    fn a_port_of_an_untrusted_peer_says_which_and_where_its_helper_runs() {
        let apart = |core, port: &str| Spec::Apart(ApartSpec { core, port: port.to_owned() });
        for (text, wanted) in [
            ("untrusted:net_vhost0,iface=/t/a", apart(None, "net_vhost0,iface=/t/a")),
            ("untrusted:core=3:net_memif1,role=server", apart(Some(3), "net_memif1,role=server")),
        ] {
            assert_eq!(Spec::parse(text).unwrap(), wanted, "{text}");
            assert!(is_apart(text) && is_apart(&format!("fault:drop=1%:{text}")) && !is_pci(text));
        }
        assert_eq!(device("fault:dup=1:untrusted:core=1:net_vhost7,iface=/t/a"), Some("net_vhost7"));
        assert!(!is_apart("net_vhost0,iface=/t/untrusted:") && !is_apart("untrusted:null"));
        for (text, named) in [
            ("untrusted:null", "`null` does not share memory"),
            ("untrusted:", "`` does not share memory"),
            ("untrusted:0000:01:00.0", "does not share memory"),
            ("untrusted:untrusted:net_vhost0", "does not share memory"),
            ("untrusted:core=x:net_vhost0", "`core=x` is no number"),
            ("untrusted:core=1", "the port behind the core is missing"),
        ] {
            let error = Spec::parse(text).unwrap_err().to_string();
            assert!(error.contains(named) && error.contains(text), "{error}");
        }
    }

    #[test]
    fn a_port_with_faults_says_which_and_before_which_port() {
        let text = "fault:drop=1%,dup=0.5,delay=20us,stall=0.1/2ms,partial=0.25,seed=9:trace:a.pcap,loop";
        let Spec::Fault(faults, inner) = Spec::parse(text).unwrap() else { panic!("{text}") };
        assert_eq!(inner, "trace:a.pcap,loop");
        assert_eq!((faults.delay.0, faults.pause.0, faults.seed), (20_000, 2_000_000, 9));
        let same = FaultSpec::parse("drop=0.01,dup=50%,delay=0.02ms,stall=10%/2000us,partial=25%,seed=9");
        assert_eq!(same, Ok(faults));
        for (text, named) in [
            ("fault:drop=0.01", "the port behind it is missing"),
            ("fault:drop=0.01:", "the port behind it is missing"),
            ("fault::null", "does nothing wrong"),
            ("fault:drop=1:fault:dup=1:null", "all faults in one"),
            ("fault:seed=4:null", "does nothing wrong"),
            ("fault:drop=2:null", "`drop=2`"),
            ("fault:drop=-1%:null", "0% to 100%"),
            ("fault:lose=1:null", "`lose=1` is none of"),
            ("fault:delay=5:null", "such as 50us"),
            ("fault:stall=0.1/5:null", "such as 50us"),
            ("fault:drop=1,seed=x:null", "a whole number"),
        ] {
            let error = Spec::parse(text).unwrap_err().to_string();
            assert!(error.contains(named) && error.contains(text), "{error}");
        }
    }
}
