"""Faucet, an OpenFlow 1.3 controller for campus networks, with hosts that use its network.

    office (VLAN 100)   h1, h2 and h5 at ports 1, 2 and 5; h5 has its address from h2's DHCP server
    guests (VLAN 200)   h3 at port 3
    port 4, tagged      a trunk to another switch, an Open vSwitch of its own, with h4 in office

Faucet learns addresses, keeps the VLANs apart, routes between them, and has an ACL at port 3. What is asked:
that hosts reach each other, exactly those that should, by ping, HTTP, DHCP and iperf3.
"""

import os
import pathlib

import device
from hosts import Host, stream
from lab import Failed, Lab, Unready, check_machine, wait_for

CONFIGURATION = """
vlans:
  office: {vid: 100, faucet_vips: ["10.0.100.254/24"], faucet_mac: "0e:00:00:00:01:00"}
  guests: {vid: 200, faucet_vips: ["10.0.200.254/24"], faucet_mac: "0e:00:00:00:02:00"}
routers:
  between: {vlans: [office, guests]}
acls:
  guests-may:
    - rule: {dl_type: 0x800, nw_proto: 6, tcp_dst: 8000, actions: {allow: 0}}
    - rule: {actions: {allow: 1}}
dps:
  under-test:
    dp_id: 1
    hardware: "Open vSwitch"
    interfaces:
      1: {native_vlan: office}
      2: {native_vlan: office}
      3: {native_vlan: guests, acls_in: [guests-may]}
      4: {tagged_vlans: [office, guests]}
      5: {native_vlan: office}
"""
PORTS = [f"p{number}" for number in range(1, 6)]
LISTENS = "tcp:127.0.0.1:6653"


def arguments(commands):
    parser = commands.add_parser("faucet", help="Faucet with hosts: learning, VLANs, routing, ACLs, DHCP, iperf3",
                                 description=__doc__)
    parser.add_argument("--dut", choices=device.KINDS, default="weir")
    parser.add_argument("--seconds", type=int, default=3, help="of iperf3 each way (3)")
    parser.set_defaults(run=run)


class Controller:
    """Faucet, in the device's namespace."""

    def __init__(self, lab, namespace, python, configuration=CONFIGURATION):
        # Not resolved: the interpreter of a virtual environment is known by the path it is called by.
        programs = pathlib.Path(python).absolute().parent
        if not (programs / "faucet").exists():
            raise Unready(f"{programs} has no faucet; run ./x setup --test")
        self.lab, self.namespace, self.programs = lab, namespace, programs
        self.file = lab.folder / "faucet.yaml"
        self.file.write_text(configuration)
        self.start()

    def start(self):
        environment = {
            "FAUCET_CONFIG": str(self.file),
            "FAUCET_LOG": str(self.lab.folder / "faucet-says.log"),
            "FAUCET_EXCEPTION_LOG": str(self.lab.folder / "faucet-exceptions.log"),
            # It calls osken-manager by name, and would find Debian's.
            "PATH": f"{self.programs}:{os.environ['PATH']}",
        }
        self.process = self.namespace.spawn("faucet", self.programs / "faucet", "--ryu-ofp-listen-host=127.0.0.1",
                                            "--ryu-ofp-tcp-listen-port=6653", environment=environment)

    def said(self):
        file = self.lab.folder / "faucet-says.log"
        return file.read_text(errors="replace") if file.exists() else ""

    def stop(self):
        self.process.stop()


class Campus:
    """The network of this file's head."""

    def __init__(self, lab, kind, options):
        self.space = lab.namespace("device")
        self.h1, self.h2 = (Host(lab, self.space, f"p{n}", f"h{n}", f"10.0.100.{n}/24", "10.0.100.254") for n in (1, 2))
        self.h3 = Host(lab, self.space, "p3", "h3", "10.0.200.3/24", "10.0.200.254")
        beyond = lab.namespace("beyond")
        lab.cable(beyond, "trunk", self.space, "p4")
        self.h4 = Host(lab, beyond, "access", "h4", "10.0.100.4/24", "10.0.100.254")
        device.start("ovs", lab, beyond, device.Wanted(["trunk", "access"], fail_mode="standalone",
                                                       access={"access": 100}))
        self.h5 = Host(lab, self.space, "p5", "h5")
        self.controller = Controller(lab, self.space, options.python)
        wanted = device.Wanted(PORTS, [LISTENS])
        self.device = device.start(kind, lab, self.space, wanted, options.weir)
        wait_for("Faucet to configure the switch", lambda: "Cold start" in self.controller.said(), 30)


def check(said, fact):
    if not fact:
        raise Failed(said)
    print(f"  ok  {said}", flush=True)


def learning(campus):
    campus.h1.ping("10.0.100.2")
    check("hosts of a VLAN reach each other", campus.h2.pings("10.0.100.1"))
    wait_for("flows of the addresses learnt", lambda: campus.h1.lost("10.0.100.2", 5) == 0)
    before = campus.h5.received()
    lost = campus.h1.lost("10.0.100.2", 100)
    check("no ping of 100 is lost", lost == 0)
    flooded = campus.h5.received() - before
    check(f"what is for a learnt address goes nowhere else ({flooded} packets came by)", flooded < 20)


def vlans(campus):
    campus.h1.ping("10.0.100.4")
    check("a host at an untagged port reaches one behind a trunk", campus.h4.pings("10.0.100.2"))
    campus.h3.space.address("eth0", "10.0.100.33/24")
    check("a host of another VLAN is not reached, though it has an address of ours",
          not campus.h1.pings("10.0.100.33"))
    campus.h3.space.ip("addr", "del", "10.0.100.33/24", "dev", "eth0")


def routing(campus):
    campus.h1.ping("10.0.100.254")
    check("Faucet's own address answers", True)
    campus.h1.ping("10.0.200.3", 20)
    check("hosts of different VLANs reach each other by way of Faucet's router", campus.h3.pings("10.0.100.2"))


def acl(campus):
    for port in (8000, 8001):
        campus.h1.serve_web(f"page at {port}", port)
    wait_for("the page", lambda: campus.h3.browse("10.0.100.1", 8001) == "page at 8001")
    check("what the ACL allows, passes", True)
    check("what it denies, does not", campus.h3.browse("10.0.100.1", 8000, 2) is None)
    check("and is there for others", campus.h2.browse("10.0.100.1", 8000) == "page at 8000")


def dhcp(campus):
    leases = [f"10.0.100.{number}" for number in range(50, 61)]
    campus.h2.serve_leases(leases[0], leases[-1], "10.0.100.254")
    address = campus.h5.lease()
    check(f"a host gets an address by DHCP ({address})", address in leases)
    campus.h5.ping("10.0.100.1")
    check("and is reached by it", campus.h1.pings(address))


def throughput(campus, seconds):
    for way, client, server in (("same VLAN", campus.h1, campus.h2), ("routed", campus.h1, campus.h3)):
        rate = stream(client, server, seconds)
        check(f"iperf3, {way}: {rate / 1e6:.0f} Mb/s", rate > 1e6)


def lost_controller(campus):
    """It dies and comes back; what was learnt keeps working meanwhile."""
    campus.controller.stop()
    check("without its controller, what was learnt goes on (fail-secure)", campus.h1.lost("10.0.100.2", 50) == 0)
    starts = campus.controller.said().count("Cold start")
    campus.controller.start()
    wait_for("Faucet to come back", lambda: campus.controller.said().count("Cold start") > starts, 40)
    campus.h1.ping("10.0.100.2")
    check("and with it again", campus.h2.pings("10.0.100.1"))


def run(options):
    check_machine()
    with Lab() as lab:
        campus = Campus(lab, options.dut, options)
        for part in (learning, vlans, routing, acl, dhcp):
            part(campus)
        throughput(campus, options.seconds)
        lost_controller(campus)
        campus.device.check()
