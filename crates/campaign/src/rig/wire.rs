//! Wiring up a rig: folder, captures (for `fed`), whichever side has the vhost back end, the other
//! side, links.

use super::{Device, FedDut, Flags, LAB_BUFFERS, LINK_PATIENCE, RigError, RigSetup, Wired};
use crate::knock::Knocker;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use weir_dpdk::{Eal, Pool, Port, PortConfig, PortError};
use weir_dut::folder::Folder;
use weir_dut::wiring::{Fed, Side};
use weir_dut::{RunningDut, StartRequest};
use weir_traffic::{DirectionSetup, Sender, Tester};

fn request<'a>(
    setup: &RigSetup<'a>,
    ports: &'a [String],
    buffers: u32,
    folder: &'a Folder,
    flags: &Flags,
) -> StartRequest<'a> {
    StartRequest {
        nf: setup.nf,
        ports,
        core: setup.cores.dut,
        control_core: setup.cores.control,
        huge_pages: setup.huge_pages,
        buffers,
        max_frame: setup.traffic.max_frame(),
        folder,
        alarm: Arc::clone(&flags.stop),
    }
}

pub(super) fn vhost(
    eal: &'static Eal,
    setup: &RigSetup<'_>,
    number: u32,
    flags: &Flags,
) -> Result<Wired, RigError> {
    let folder = Folder::new()?;
    let pool = Pool::new(eal, LAB_BUFFERS, setup.traffic.max_frame())?;
    let lab_specs = setup.vhost.ports(Side::Lab, &folder, number);
    let dut_specs = setup.vhost.ports(Side::Dut, &folder, 0);
    let config = PortConfig { max_frame: setup.traffic.max_frame(), ..PortConfig::default() };
    // A port that waits for its peer to connect may take a second: Ctrl-C counts between them.
    let open_one = |spec: &String| match flags.interrupted.load(Ordering::Relaxed) {
        true => Err(RigError::Interrupted),
        false => Port::open(spec, config, &pool).map_err(RigError::Port),
    };
    let open = || lab_specs.iter().map(open_one).collect::<Result<Vec<_>, _>>();
    let request = request(setup, &dut_specs, 0, &folder, flags);
    let (mut ports, dut) = if setup.vhost.dut_first() {
        let mut dut = setup.adapter.start(&request)?;
        let lab_listens = setup.vhost.server == Side::Lab;
        let sockets = if lab_listens { setup.vhost.sockets(&folder).to_vec() } else { Vec::new() };
        let knocker = Knocker::start(sockets, Arc::clone(&flags.stop), LINK_PATIENCE);
        let opened = open();
        let knocked = knocker.end();
        (opened.map_err(|error| unopened(error, knocked, dut.as_mut(), flags))?, dut)
    } else {
        let ports = open()?;
        (ports, setup.adapter.start(&request)?)
    };
    let mut device = Device::new(eal, dut, folder, flags);
    device.wait_links(&ports)?;
    let (mut receivers, mut senders) = (Vec::new(), Vec::new());
    for (receiver, sender) in ports.iter_mut().filter_map(Port::take_queue) {
        receivers.push(receiver);
        senders.push(sender);
    }
    let mut directions = Vec::new();
    for ((from, tx), source) in senders.into_iter().enumerate().zip(setup.traffic.sources()?) {
        let sender = Sender::new(source, tx, &pool, setup.shape, setup.stamp_every, setup.traffic.seed());
        directions.push(DirectionSetup { sender, to: 1 - from });
    }
    Ok(Wired { tester: Tester::new(eal, setup.cores.tester, ports, receivers, directions), device })
}

/// Why the lab could not open its ports to a DUT that was there before: the cause, not its effect.
fn unopened(error: RigError, knocked: bool, dut: &mut dyn RunningDut, flags: &Flags) -> RigError {
    if flags.interrupted.load(Ordering::Relaxed) {
        return RigError::Interrupted;
    }
    match (dut.ended(), error) {
        (Some(ended), _) => RigError::Dut(ended),
        (None, RigError::Port(PortError::Attach { port, .. })) if knocked => {
            RigError::Port(PortError::NoLink { port, waited: LINK_PATIENCE })
        }
        (None, error) => error,
    }
}

pub(super) fn fed(eal: &'static Eal, setup: &RigSetup<'_>, flags: &Flags) -> Result<FedDut, RigError> {
    let folder = Folder::new()?;
    let (captures, packets) = setup.traffic.write_captures(&folder)?;
    let fed = Fed::new(captures, packets)?;
    let ports = fed.ports();
    let dut = setup.adapter.start(&request(setup, &ports, fed.buffers(), &folder, flags))?;
    Ok(FedDut { device: Device::new(eal, dut, folder, flags) })
}
