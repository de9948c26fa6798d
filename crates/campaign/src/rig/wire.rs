//! Wiring up a rig: folder, captures (for `fed`), whichever side must be there first, the other
//! side, links.

use super::open::{First, Opener};
use super::{Device, FedDut, Flags, Home, LINK_PATIENCE, RigError, RigSetup, Wired, lab_buffers};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use weir_dpdk::{Eal, Pool, PortConfig, PortError, RxQueue, TxQueue};
use weir_dut::chain::{self, ChainRequest};
use weir_dut::folder::Folder;
use weir_dut::namespace::Namespace;
use weir_dut::wiring::{Fed, MOST_LINKS, Nic, Side, VethDriver, VethPairs, WiringKind, with_queues};
use weir_dut::{DutError, RunningDut, SPARE_BUFFERS, StartRequest};
use weir_traffic::{DirectionSetup, Layout, Sender, Tester};
use weir_trial::Server;

/// What a wiring comes down to: the ports of both sides, and who comes up first.
pub(super) struct Links {
    /// The lab's ports, as EAL `--vdev` strings or PCI addresses.
    pub(super) lab: Vec<String>,
    /// The DUT's.
    dut: Vec<String>,
    pub(super) first: First,
    /// Sockets at which the lab's ports block until the DUT connects.
    pub(super) listening: Vec<PathBuf>,
    /// Sockets of the DUT, each of which is waited for before the port is opened that connects to it.
    pub(super) calling: Vec<PathBuf>,
}

impl Links {
    /// The links of a rig. `number` tells the lab's ports from those of earlier rigs.
    fn of(setup: &RigSetup<'_>, folder: &Folder, number: u32) -> Result<Self, RigError> {
        let plain = |[lab, dut]: [Vec<String>; 2], dut_first| Self {
            lab,
            dut,
            first: if dut_first { First::Dut } else { First::Lab },
            listening: Vec::new(),
            calling: Vec::new(),
        };
        let count = setup.placement.ports();
        let external = setup.external();
        let links = match setup.wiring {
            WiringKind::Vhost => {
                let vhost = setup.outer_vhost();
                let sockets = external.map_or_else(|| vhost.sockets(folder, count), |it| it.sockets.to_vec());
                let ports = [(Side::Lab, number), (Side::Dut, 0)].map(|(side, number)| {
                    let first = number as usize * MOST_LINKS;
                    let each = sockets.iter().enumerate();
                    each.map(|(link, socket)| vhost.port_at(side, first + link, socket)).collect()
                });
                let plain = plain(ports, vhost.dut_first());
                match (vhost.backend, vhost.server) {
                    (Side::Dut, Side::Lab) => Self { first: First::Neither, listening: sockets, ..plain },
                    (Side::Lab, Side::Dut) => Self { first: First::Neither, calling: sockets, ..plain },
                    _ => plain,
                }
            }
            WiringKind::Memif => {
                let memif = setup.wirings.memif;
                let frame = setup.traffic.max_frame();
                let ports = [(Side::Lab, number), (Side::Dut, 0)].map(|(side, number)| match external {
                    None => memif.ports(side, folder, (number, count), frame),
                    Some(external) => {
                        let first = number as usize * MOST_LINKS;
                        let each = external.sockets.iter().enumerate();
                        each.map(|(link, socket)| memif.port_at(side, (first + link, link), socket, frame))
                            .collect()
                    }
                });
                plain(ports, memif.dut_first())
            }
            WiringKind::Veth => {
                let ends = |side, number| Vec::from(setup.wirings.veth.ports(side, number));
                plain([ends(Side::Lab, number), ends(Side::Dut, 0)], true)
            }
            WiringKind::Nic => {
                let Nic { lab, dut } = setup.wirings.nic.clone();
                // Another machine's are looked at there, by the device.
                let dut_here = if setup.far().is_some() { Vec::new() } else { dut.clone() };
                Nic { lab: lab.clone(), dut: dut_here }.check()?;
                plain([lab, dut], true)
            }
            // Its DUT has ports of its own only.
            WiringKind::Fed => plain([Vec::new(), Vec::new()], true),
        };
        let told = |ports: Vec<String>| ports.iter().map(|port| with_queues(port, setup.queues())).collect();
        Ok(Self { lab: told(links.lab), dut: told(links.dut), ..links })
    }
}

fn request<'a>(
    setup: &RigSetup<'a>,
    ports: &'a [String],
    buffers: u32,
    home: &'a Home,
    flags: &Flags,
) -> StartRequest<'a> {
    let (core, control_core) = setup.there.unwrap_or((setup.cores.dut, setup.cores.control));
    StartRequest {
        nf: setup.nf,
        variant: setup.variant,
        ports,
        core,
        queues: setup.queues(),
        further: match setup.placement.is_inline() {
            true => setup.seats.forwarding.get(1..).unwrap_or_default(),
            false => &[],
        },
        control_core,
        huge_pages: setup.huge_pages,
        buffers,
        max_frame: setup.traffic.max_frame(),
        folder: &home.folder,
        namespace: home.pairs.as_ref().map(|pairs| &pairs.dut).or(home.namespace.as_ref()),
        external: &setup.wirings.external,
        shared_core: false,
        contained: false,
        sharing: None,
        far: setup.far(),
        alarm: Arc::clone(&flags.stop),
    }
}

/// Starts the DUT; how long that took.
pub(super) fn start(
    setup: &RigSetup<'_>,
    request: &StartRequest<'_>,
) -> Result<(Box<dyn RunningDut>, Duration), RigError> {
    let began = Instant::now();
    let dut = if setup.placement.is_inline() {
        setup.adapter.start(request)?
    } else {
        let (start, cores, devices) =
            (request.clone(), &setup.seats.forwarding, weir_dut::devices(setup.device));
        let mut dut =
            chain::start(&ChainRequest { start, devices: &devices, placement: setup.placement, cores })?;
        dut.tap(&weir_traffic::stamp::key().to_string())?;
        dut
    };
    Ok((dut, began.elapsed()))
}

/// A rig whose ports are linked to the DUT's.
pub(super) fn linked(
    eal: &'static Eal,
    setup: &RigSetup<'_>,
    number: u32,
    flags: &Flags,
) -> Result<Wired, RigError> {
    let folder = Folder::new()?;
    let pairs_of_ports = setup.placement.bundles.max(1);
    let pool = Pool::new(eal, lab_buffers(setup.placement.links()), setup.traffic.max_frame())?;
    let links = Links::of(setup, &folder, number)?;
    let pairs = match setup.wiring {
        WiringKind::Veth => {
            let (veth, frame) = (setup.wirings.veth, setup.traffic.max_frame());
            Some(match (setup.external(), &setup.placement.server) {
                (Some(external), _) => veth.lay_towards(external, frame)?,
                (None, Some(Server::Namespace(name))) => Arc::new(veth.lay_into(name, frame)?),
                (None, _) => Arc::new(veth.lay(frame)?),
            })
        }
        _ => None,
    };
    let set = |pairs: &Arc<VethPairs>| pairs.set_offloads(&setup.placement.offloads);
    let offloads = pairs.as_ref().map(set).transpose()?.flatten();
    // A driver that has a program of its own there polls anyway.
    let polls = setup.adapter.wants_polled_ends() && setup.wirings.veth.driver == VethDriver::AfPacket;
    let polled =
        pairs.as_ref().filter(|_| polls).map(|pairs| pairs.poll_lab()).transpose()?.unwrap_or_default();
    let namespace = match &setup.placement.server {
        Some(Server::Namespace(name)) if pairs.is_none() => {
            Some(Arc::new(Namespace::open(Some(name.as_str()))?))
        }
        _ => None,
    };
    let home = Home { folder, pairs, namespace, _polled: polled, offloads };
    let (max_frame, queues) = (setup.traffic.max_frame(), setup.queues());
    let config = PortConfig { max_frame, queues, ..PortConfig::default() };
    // A chain's processes say themselves what their ports take.
    let further = if setup.placement.is_inline() { pairs_of_ports - 1 } else { 0 };
    let request = request(setup, &links.dut, further * SPARE_BUFFERS, &home, flags);
    let (pairs, patience) = (home.pairs.as_deref(), patience(setup));
    let opener = Opener { links: &links, pairs, pool: &pool, config, flags, patience };
    let (mut ports, dut) = opener.meet(setup, &request).map_err(|error| absent(error, setup))?;
    let mut device = Device::new(dut, setup, home, flags)?;
    device.wait_links(&ports, patience).map_err(|error| absent(error, setup))?;
    let (mut receivers, mut senders) = (Vec::new(), Vec::new());
    for port in &mut ports {
        let (receive, send): (Vec<RxQueue>, Vec<TxQueue>) = std::iter::from_fn(|| port.take_queue()).unzip();
        receivers.push(receive);
        senders.push(send);
    }
    let (mut directions, mut laps) = (Vec::new(), Vec::new());
    let mut senders = senders.into_iter().enumerate();
    for bundle in 0..u64::from(pairs_of_ports) {
        // Each bundle has the same traces, and its own turns of what is drawn.
        let seed = setup.traffic.seed().wrapping_add(bundle);
        let mut sources = setup.traffic.spread(queues.into(), setup.shape)?.into_iter();
        for (from, each) in senders.by_ref().take(2) {
            let Some(shares) = sources.next() else { continue };
            let packets: Vec<String> = shares.iter().map(|share| share.packets().to_string()).collect();
            laps.push(packets.join(" and "));
            let of = |(source, tx)| Sender::new(source, tx, &pool, setup.shape, setup.stamp_every, seed);
            let senders = shares.into_iter().zip(each).map(of).collect();
            directions.push(DirectionSetup { senders, from, to: from ^ 1 });
        }
    }
    device.queues = (queues > 1).then(|| {
        let threads = device.dut.threads().len();
        let laps = laps.join("; ");
        format!("{queues} a port, served by {threads} thread(s); packets of a lap by queue, direction by direction: {laps}")
    });
    let ends: Vec<usize> = directions.iter().map(|direction| direction.to).collect();
    let layout = Layout::of(setup.testers, ports.len(), &ends, queues.into());
    let tester = Tester::new(eal, &layout, ports, receivers, directions);
    let dut_stops_first = setup.wiring == WiringKind::Memif;
    Ok(Wired { tester, device, nf: setup.nf, script: None, dut_stops_first })
}

/// How long the other side may take to come.
fn patience(setup: &RigSetup<'_>) -> Duration {
    setup.external().map_or(LINK_PATIENCE, |external| external.wait)
}

/// Waits for the sockets of a device that somebody else started, where it listens.
pub(super) fn wait_for_somebody_else(setup: &RigSetup<'_>, flags: &Flags) -> Result<(), RigError> {
    let Some(external) = setup.external() else { return Ok(()) };
    let listens = match setup.wiring {
        WiringKind::Vhost => setup.outer_vhost().server == Side::Dut,
        WiringKind::Memif => setup.wirings.memif.server == Side::Dut,
        _ => false,
    };
    if !listens || external.wait_for_sockets(&flags.stop)? {
        return Ok(());
    }
    Err(RigError::Absent { told: setup.to_connect().unwrap_or_default(), waited: external.wait })
}

/// A link without its other side, where somebody else was to bring it: what had to be connected.
fn absent(error: RigError, setup: &RigSetup<'_>) -> RigError {
    match (error, setup.external(), setup.to_connect()) {
        (RigError::Port(PortError::NoLink { .. }), Some(external), Some(told)) => {
            RigError::Absent { told, waited: external.wait }
        }
        (error, ..) => error,
    }
}

/// A rig whose DUT feeds itself, and discards what it sends or writes it into these sinks, one a port.
pub(super) fn fed(setup: &RigSetup<'_>, flags: &Flags, sinks: &[PathBuf]) -> Result<FedDut, RigError> {
    let folder = Folder::new()?;
    let (queues, most) = (setup.adapter.queues(setup.variant), setup.adapter.most_fed());
    let made = setup.traffic.turns_ports();
    if made {
        let why =
            |reason| RigError::Dut(DutError::Unsupported { dut: setup.adapter.name(), nf: setup.nf, reason });
        setup.adapter.makes_laps().map_err(why)?;
    }
    let (fed, packets) = if made {
        let (laps, packets) = setup.traffic.write_laps(&folder)?;
        (Fed::of_laps(laps), packets)
    } else {
        let (captures, packets) = setup.traffic.write_captures(&folder, queues, most)?;
        (Fed::new(captures, packets, most)?, packets)
    };
    let home = Home { folder, pairs: None, namespace: None, _polled: Vec::new(), offloads: None };
    let ports = fed.ports_into(sinks);
    let mut request = request(setup, &ports, fed.buffers(), &home, flags);
    if !made && packets > Fed::MOST_PACKETS {
        // So many buffers fit the machine only if they are no larger than their packets.
        request.max_frame = setup.traffic.longest_frame();
    }
    let dut = start(setup, &request)?;
    let device = Device::new(dut, setup, home, flags)?;
    Ok(FedDut {
        device,
        packets,
        are_new: made,
        first: None,
        choice: setup.choice.cloned(),
        unsettled: None,
        waited: false,
        has_settled: false,
        slow_for_good: false,
    })
}
