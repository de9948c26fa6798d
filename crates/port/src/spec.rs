//! What a port's spec says: which kind of port, and what a trace port does.

use crate::PortError;
use std::path::PathBuf;
use weir_units::Pps;

/// How the specs of trace ports begin.
const TRACE: &str = "trace:";

/// The spec of the port at which nothing comes in, and that takes everything.
const NULL: &str = "null";

/// A spec, understood.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Spec {
    /// DPDK's: an EAL vdev string or a PCI address.
    Dpdk,
    /// The null port.
    Null,
    /// A trace port.
    Trace(TraceSpec),
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
        let Some(trace) = text.strip_prefix(TRACE) else { return Ok(Self::Dpdk) };
        let wrong = |reason: String| PortError::Spec { port: text.to_owned(), reason };
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

/// Whether packets come in as soon as the port is polled, and are gone if nobody is ready for them: a
/// replayed capture. Such ports are opened after the others.
pub fn replays(spec: &str) -> bool {
    matches!(Spec::parse(spec), Ok(Spec::Trace(TraceSpec { rx: Some(_), .. })))
}

/// Whether a spec needs DPDK to probe the PCI bus: it is a PCI address.
pub fn is_pci(spec: &str) -> bool {
    let name = spec.split(',').next().unwrap_or_default();
    matches!(Spec::parse(spec), Ok(Spec::Dpdk))
        && !name.starts_with("net_")
        && name.contains(':')
        && name.contains('.')
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert!(replays("trace:a.pcap") && !replays("trace:,tx=a.pcap") && !replays("null"));
        assert!(is_pci("0000:01:00.0") && is_pci("01:00.1,arg=1"));
        assert!(!is_pci("null") && !is_pci("net_null0") && !is_pci("trace:a:b.pcap"));
    }
}
