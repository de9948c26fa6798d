//! Ports: any DPDK port by its EAL `--vdev` string (`net_vhost0,iface=/tmp/s`) or PCI address.

use crate::eal::describe;
use crate::interrupts;
use crate::socket::vacate;
use crate::{Burst, Eal, Memory, Pool, ffi, vhost};
use std::ffi::CString;
use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use weir_units::FrameSize;

/// How to set a port up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortConfig {
    /// Receive queues, and as many transmit queues.
    pub queues: u16,
    /// Descriptors per queue, adjusted to what the driver allows.
    pub descriptors: u16,
    /// The largest frame it must carry.
    pub max_frame: FrameSize,
}

impl Default for PortConfig {
    fn default() -> Self {
        Self { queues: 1, descriptors: 1024, max_frame: FrameSize::new(1522).expect("a legal size") }
    }
}

/// Counters of a port since it was attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortStats {
    /// Packets received.
    pub received: u64,
    /// Packets transmitted.
    pub sent: u64,
    /// Bytes received, without FCS.
    pub received_bytes: u64,
    /// Bytes transmitted, without FCS.
    pub sent_bytes: u64,
    /// Packets lost because a ring was full or no mbuf was free.
    pub missed: u64,
    /// Packets received in error.
    pub receive_errors: u64,
    /// Packets that failed to go out.
    pub send_errors: u64,
}

/// A port that could not be attached, set up or read.
#[derive(Clone, Debug, thiserror::Error)]
pub enum PortError {
    /// Neither a vdev string nor a PCI address.
    #[error("`{0}` is no port: write an EAL vdev (net_vhost0,iface=PATH) or a PCI address (0000:01:00.0)")]
    Name(String),
    /// DPDK could not create it.
    #[error("port `{port}` cannot be attached: {reason}{log}{advice}")]
    Attach {
        /// As asked for.
        port: String,
        /// DPDK's error.
        reason: String,
        /// What DPDK logged.
        log: String,
        /// How to mend it.
        advice: String,
    },
    /// DPDK could not set it up or start it.
    #[error(
        "port `{port}` cannot be set up (queues: {}, descriptors: {}, frames up to {}): {reason}{log}",
        config.queues, config.descriptors, config.max_frame
    )]
    Configure {
        /// As asked for.
        port: String,
        /// The configuration.
        config: PortConfig,
        /// DPDK's error.
        reason: String,
        /// What DPDK logged.
        log: String,
    },
    /// DPDK would not bind its socket, and would remove the file all the same.
    #[error(
        "port `{port}` cannot make its socket: {path} exists. The socket is in use, or it is no socket of this user: \
         end whoever holds it, remove the file, or name another"
    )]
    SocketExists {
        /// As asked for.
        port: String,
        /// The file.
        path: String,
    },
    /// Its network namespace could not be entered.
    #[error(
        "port `{port}`: its network namespace cannot be entered: {reason}; this needs root (CAP_SYS_ADMIN)"
    )]
    Namespace {
        /// As asked for.
        port: String,
        /// The system's reason.
        reason: String,
    },
    /// The other side did not come.
    #[error("port `{port}` has no link after {waited:?}: nobody is at its other end")]
    NoLink {
        /// As asked for.
        port: String,
        /// Time waited.
        waited: Duration,
    },
}

/// A started port. It is closed when the port and all its queues are dropped.
#[derive(Debug)]
pub struct Port {
    pub(crate) inner: Arc<Inner>,
    queues: Vec<(RxQueue, TxQueue)>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) id: u16,
    pub(crate) spec: String,
    vdev: Option<CString>,
    pub(crate) eal: &'static Eal,
    /// Queues it was set up with.
    pub(crate) queues: u16,
    /// Whether its bursts take turns with its driver's callbacks (`csrc/memif.c`).
    is_memif: bool,
    /// The network namespace it was opened in, if not the lab's own.
    namespace: Option<File>,
    /// Keeps the memory that the port receives into.
    pool: Pool,
}

/// One receive queue: whoever owns it is the only one that polls it.
#[derive(Debug)]
pub struct RxQueue {
    port: Arc<Inner>,
    queue: u16,
}

/// One transmit queue: whoever owns it is the only one that fills it.
#[derive(Debug)]
pub struct TxQueue {
    port: Arc<Inner>,
    queue: u16,
}

impl Port {
    /// Attaches, sets up and starts a port that receives into `pool`.
    pub fn open(spec: &str, config: PortConfig, pool: &Pool) -> Result<Self, PortError> {
        Self::open_here(spec, config, pool, None)
    }

    /// The same in a network namespace, given as an open file of it (`/proc/PID/ns/net`): a thread
    /// enters it, opens the port and ends. The port is closed there too, because a driver may look
    /// for its interface again (AF_XDP does), and must not find another's of the same number.
    pub fn open_in(namespace: &File, spec: &str, config: PortConfig, pool: &Pool) -> Result<Self, PortError> {
        let unreachable = |reason: String| PortError::Namespace { port: spec.to_owned(), reason };
        let ours = namespace.try_clone().map_err(|error| unreachable(error.to_string()))?;
        inside(namespace, || Self::open_here(spec, config, pool, Some(ours)))
            .unwrap_or_else(|error| Err(unreachable(error.to_string())))
    }

    fn open_here(
        spec: &str,
        config: PortConfig,
        pool: &Pool,
        namespace: Option<File>,
    ) -> Result<Self, PortError> {
        let eal = pool.eal();
        let _control = eal.control();
        if let Some(path) = own_socket(spec).filter(|path| !vacate(Path::new(path))) {
            return Err(PortError::SocketExists { port: spec.to_owned(), path: path.to_owned() });
        }
        let mark = eal.log_mark();
        let (id, vdev) = attach(eal, spec, mark)?;
        let inner = Arc::new(Inner {
            id,
            spec: spec.to_owned(),
            vdev,
            eal,
            queues: config.queues,
            is_memif: spec.starts_with(MEMIF),
            namespace,
            pool: pool.clone(),
        });
        let mut pools = vec![pool.as_ptr(); usize::from(config.queues)];
        // SAFETY: the port was just attached; `pools` holds one valid pool per queue.
        let error = unsafe {
            ffi::weir_port_configure(
                id,
                config.queues,
                config.descriptors,
                config.max_frame.bytes(),
                pools.as_mut_ptr(),
            )
        };
        if error < 0 {
            let log = eal.log_since(mark);
            drop(_control); // `inner` closes the port under the same lock
            return Err(PortError::Configure { port: spec.into(), config, reason: describe(error), log });
        }
        if own_socket(spec).is_some() && spec.starts_with(VHOST) {
            vhost::wake();
        }
        let queue = |queue| (RxQueue { port: inner.clone(), queue }, TxQueue { port: inner.clone(), queue });
        let queues = (0..config.queues).rev().map(queue).collect();
        Ok(Self { inner, queues })
    }

    /// DPDK's number of the port.
    pub fn id(&self) -> u16 {
        self.inner.id
    }

    /// The string it was opened by.
    pub fn spec(&self) -> &str {
        &self.inner.spec
    }

    /// Takes the next queue pair, from 0 up; nothing when all are taken.
    pub fn take_queue(&mut self) -> Option<(RxQueue, TxQueue)> {
        self.queues.pop()
    }

    /// Whether the link is up, as the driver says without waiting.
    pub fn link_up(&self) -> bool {
        // SAFETY: the port is attached while inner lives.
        unsafe { ffi::weir_port_link_up(self.inner.id) == 1 }
    }

    /// Waits for the link. A vhost port that connects to its peer's socket tries once a second.
    pub fn wait_link(&self, patience: Duration) -> Result<(), PortError> {
        let start = Instant::now();
        while !self.link_up() {
            if start.elapsed() > patience {
                return Err(PortError::NoLink { port: self.inner.spec.clone(), waited: patience });
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Reads the driver's counters. Some drivers keep none and answer zeros.
    pub fn stats(&self) -> PortStats {
        let mut out = [0_u64; 7];
        // SAFETY: `out` has the seven places that the shim fills.
        if unsafe { ffi::weir_port_stats(self.inner.id, out.as_mut_ptr()) } < 0 {
            return PortStats::default();
        }
        let [received, sent, received_bytes, sent_bytes, missed, receive_errors, send_errors] = out;
        PortStats { received, sent, received_bytes, sent_bytes, missed, receive_errors, send_errors }
    }

    /// The port's MAC address.
    pub fn mac(&self) -> [u8; 6] {
        let mut mac = [0; 6];
        // SAFETY: `mac` has six places.
        unsafe { ffi::weir_port_mac(self.inner.id, mac.as_mut_ptr()) };
        mac
    }
}

impl RxQueue {
    /// Receives packets behind those in the burst, as many as there are and fit. Returns how many.
    #[inline]
    pub fn receive(&mut self, burst: &mut Burst) -> usize {
        let room = burst.room();
        burst.extend_with(room, |slots| {
            // SAFETY: the port is started; `slots` has the room that is passed.
            let count = unsafe {
                let (mbufs, count) = (slots.as_mut_ptr().cast(), slots.len() as u16);
                if self.port.is_memif {
                    ffi::weir_memif_rx_burst(self.port.id, self.queue, mbufs, count)
                } else {
                    ffi::weir_rx_burst(self.port.id, self.queue, mbufs, count)
                }
            };
            usize::from(count)
        })
    }
}

impl TxQueue {
    /// Transmits from the front of the burst. Returns how many the port took; the rest stay.
    #[inline]
    pub fn transmit(&mut self, burst: &mut Burst) -> usize {
        burst.hand_over(|mbufs| {
            // SAFETY: the port is started; it becomes the owner of the packets it takes.
            let count = unsafe {
                let (mbufs, count) = (mbufs.as_mut_ptr(), mbufs.len() as u16);
                if self.port.is_memif {
                    ffi::weir_memif_tx_burst(self.port.id, self.queue, mbufs, count)
                } else {
                    ffi::weir_tx_burst(self.port.id, self.queue, mbufs, count)
                }
            };
            usize::from(count)
        })
    }

    /// Has the driver send what it took and could not pass on yet. Only an AF_PACKET port keeps
    /// such packets until it is called again; nothing happens for any other.
    pub fn flush(&mut self) {
        if self.port.spec.starts_with(AF_PACKET) {
            // SAFETY: the port is started, its driver is AF_PACKET, and the pool lives as long as it.
            unsafe { ffi::weir_af_packet_go_on(self.port.id, self.queue, self.port.pool.as_ptr()) };
        }
    }
}

/// How the EAL strings of memif ports begin.
const MEMIF: &str = "net_memif";

/// How the EAL strings of vhost ports begin.
const VHOST: &str = "net_vhost";

/// How the EAL strings of AF_PACKET ports begin.
const AF_PACKET: &str = "net_af_packet";

impl Drop for Inner {
    fn drop(&mut self) {
        // A memif port may be learning of its peer's end at this moment, in the interrupt thread.
        let _held = self.is_memif.then(interrupts::hold);
        let close = || {
            let _control = self.eal.control();
            let vdev = self.vdev.as_ref().map_or(std::ptr::null(), |name| name.as_ptr());
            // SAFETY: the last handle to the port; nobody polls it any more. The pool goes after it.
            unsafe { ffi::weir_port_close(self.id, vdev) };
        };
        let closed = self.namespace.as_ref().map(|namespace| inside(namespace, close));
        // A namespace that cannot be entered any more is no reason to keep the port.
        if !matches!(closed, Some(Ok(()))) {
            close();
        }
    }
}

/// Runs something on a thread of its own that has entered a network namespace.
fn inside<T: Send>(namespace: &File, work: impl FnOnce() -> T + Send) -> std::io::Result<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("weir-netns".into()).spawn_scoped(scope, || {
            // SAFETY: setns on an open descriptor touches no memory, and moves this thread alone.
            match unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) } {
                0 => Ok(work()),
                _ => Err(std::io::Error::last_os_error()),
            }
        })?;
        thread.join().unwrap_or_else(|_| Err(std::io::Error::other("the thread that entered it died")))
    })
}

fn attach(eal: &'static Eal, spec: &str, mark: u64) -> Result<(u16, Option<CString>), PortError> {
    let wrong = || PortError::Name(spec.to_owned());
    let (name, arguments) = spec.split_once(',').unwrap_or((spec, ""));
    let text = |text: &str| CString::new(text).map_err(|_| wrong());
    let mut id = 0;
    if is_pci(name) {
        // SAFETY: both pointers outlive the call.
        let error = unsafe { ffi::weir_pci_attach(text(name)?.as_ptr(), &raw mut id) };
        return if error < 0 { Err(refused(eal, spec, error, mark)) } else { Ok((id, None)) };
    }
    if !name.starts_with("net_") && !name.starts_with("virtio_user") && !name.starts_with("eth_") {
        return Err(wrong());
    }
    let name = text(name)?;
    // SAFETY: all pointers outlive the call.
    let error = unsafe { ffi::weir_vdev_attach(name.as_ptr(), text(arguments)?.as_ptr(), &raw mut id) };
    if error < 0 { Err(refused(eal, spec, error, mark)) } else { Ok((id, Some(name))) }
}

fn is_pci(name: &str) -> bool {
    let digits = |part: &str, len: usize| part.len() == len && part.bytes().all(|b| b.is_ascii_hexdigit());
    let mut parts = name.rsplit(':');
    let (Some(device), Some(bus), domain, None) = (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return false;
    };
    let device =
        device.split_once('.').is_some_and(|(slot, function)| digits(slot, 2) && digits(function, 1));
    device && digits(bus, 2) && domain.is_none_or(|domain| digits(domain, 4))
}

fn refused(eal: &'static Eal, spec: &str, error: i32, mark: u64) -> PortError {
    let log = eal.log_since(mark);
    let advice = if error == -libc::EEXIST {
        "\nA port of that name exists in this process.".to_owned()
    } else if log.contains("Address already in use") || log.contains("failed to bind") {
        "\nThe socket is in use, or left over: end whoever holds it, remove the file, or name another."
            .to_owned()
    } else if spec.contains("virtio_user") && eal.config().memory == Memory::Huge {
        "\nvirtio-user needs its peer's socket, and few memory regions.".to_owned()
    } else {
        String::new()
    };
    PortError::Attach { port: spec.to_owned(), reason: describe(error), log, advice }
}

/// The socket that a port makes itself: a vhost port's unless it is a client, a virtio-user or memif
/// port's when it is the server.
fn own_socket(spec: &str) -> Option<&str> {
    let (name, arguments) = spec.split_once(',')?;
    let value = |key: &str| {
        let mut pairs = arguments.split(',').filter_map(|pair| pair.split_once('='));
        pairs.find(|(name, _)| *name == key).map(|(_, value)| value)
    };
    if name.contains("vhost") && value("client") != Some("1") {
        value("iface")
    } else if name.contains("virtio_user") && value("server") == Some("1") {
        value("path")
    } else if name.contains("memif") && value("role") == Some("server") {
        value("socket").filter(|_| value("socket-abstract") == Some("no"))
    } else {
        None
    }
}

/// Removes the socket at which a port of this string listened, where whoever had it open has ended without. What is somebody
/// else's stays.
pub fn remove_socket(spec: &str) {
    if let Some(path) = own_socket(spec) {
        vacate(Path::new(path));
    }
}

#[cfg(test)]
mod tests {
    use super::{is_pci, own_socket};

    #[test]
    fn pci_addresses_are_told_from_vdevs() {
        for address in ["0000:01:00.0", "01:00.1", "abcd:fe:1f.7"] {
            assert!(is_pci(address), "{address}");
        }
        for other in ["net_null0", "0000:01:00", "1:2:3:4.0", "", ":", "zz:00.0"] {
            assert!(!is_pci(other), "{other}");
        }
    }

    #[test]
    fn the_socket_of_a_port_is_its_own_when_it_listens() {
        for (spec, own) in [
            ("net_vhost0,iface=/t/a,queues=1", Some("/t/a")),
            ("net_vhost0,iface=/t/a,client=0", Some("/t/a")),
            ("net_vhost0,iface=/t/a,client=1", None),
            ("net_virtio_user0,path=/t/b,server=1", Some("/t/b")),
            ("net_virtio_user0,path=/t/b", None),
            ("net_memif0,role=server,id=0,socket=/t/c,socket-abstract=no", Some("/t/c")),
            ("net_memif0,role=server,id=0,socket=/t/c", None),
            ("net_memif0,role=client,id=0,socket=/t/c,socket-abstract=no", None),
            ("net_null0,no-rx=1", None),
            ("0000:01:00.0", None),
        ] {
            assert_eq!(own_socket(spec), own, "{spec}");
        }
    }
}
