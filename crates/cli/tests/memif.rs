//! A memif port of the built switch, with a peer of another make: DPDK's testpmd comes, goes and is killed.

use crate::lab::{wait_for, weir};
use serde_json::Value;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use weir_testkit::Need;

/// A child that ends with its owner.
struct Ending(Child);

impl Drop for Ending {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A generator that sends as fast as the ring takes, without huge pages or PCI.
fn peer(folder: &Path) -> Ending {
    let vdev = format!("net_memif0,role=client,socket={},socket-abstract=no", folder.join("memif").display());
    let mut command = Command::new("dpdk-testpmd");
    command.args([
        "--lcores=0@0,1@0",
        "-m",
        "128",
        "--no-huge",
        "--no-shconf",
        "--no-pci",
        "--no-telemetry",
        "--vdev",
        &vdev,
    ]);
    command.args(["--", "--forward-mode=txonly", "--auto-start", "--no-mlockall", "--disable-link-check"]);
    command.args(["--total-num-mbufs=8192", "--nb-cores=1"]);
    // With a period it asks for no commands.
    command.arg("--stats-period=1").current_dir(folder);
    Ending(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
}

fn stats(folder: &Path) -> Option<Value> {
    let mut command = weir();
    command.args(["switch", "stats", "--json", "--control"]).arg(folder.join("control"));
    serde_json::from_slice(&command.output().ok()?.stdout).ok()
}

fn port(stats: &Value) -> (bool, u64) {
    let port = &stats["ports"][0];
    (port["link_up"] == true, port["received"].as_u64().unwrap_or(0))
}

#[test]
fn a_memif_port_comes_up_and_outlives_peers_that_are_killed() {
    if !weir_testkit::needs!(Need::Program("dpdk-testpmd", "dpdk-dev")) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut command = weir();
    command
        .args(["switch", "--poll", "adaptive", "--flow", "in_port=left,actions=output:right", "--control"])
        .arg(folder.join("control"));
    let memif =
        format!("left=net_memif1,role=server,socket={},socket-abstract=no", folder.join("memif").display());
    command.args(["--port", &memif, "--port", "right=trace:"]);
    let mut switch = Ending(command.spawn().unwrap());
    // testpmd asks once for the socket: nothing connects to a switch that is not there yet.
    wait_for("the switch", || stats(folder));
    let mut before = 0;
    for _ in 0..3 {
        let peer = peer(folder);
        wait_for("packets of the peer", || stats(folder).filter(|stats| port(stats).1 > before + 10_000));
        // While the ring is full and a worker polls it.
        drop(peer);
        let down = wait_for("the link to go down", || stats(folder).filter(|stats| !port(stats).0));
        before = port(&down).1;
        assert_eq!(switch.0.try_wait().unwrap(), None, "the switch runs");
    }
    let last = stats(folder).unwrap();
    let sum = |key: &str| -> u64 {
        last["workers"].as_array().unwrap().iter().map(|worker| worker[key].as_u64().unwrap()).sum()
    };
    assert_eq!((sum("received"), sum("sent")), (before, before), "{last}");
}
