"""Every command of `ovs-ofctl` that operators use, on OpenFlow 1.3 and 1.0, and what each did, seen from outside.

A packet through the switch, a dump of another command, or a host's counters say whether a command did what
it should; that it ended well is not enough.
"""

import re
import time

import device
from hosts import Host
from lab import Failed, Lab, check_machine, wait_for

# What `ct-flush` asks.
TRACKER = '[service.conntrack]\nkind = "conntrack"\n'
VERSIONS = ("OpenFlow13", "OpenFlow10")
# An Ethernet frame of the smallest size: to 02:..:02 from 02:..:01, of an EtherType for experiments.
FRAME = "02000000000202000000000188b5" + "00" * 46


def arguments(commands):
    parser = commands.add_parser("ofctl", help="every command of ovs-ofctl, on OpenFlow 1.3 and 1.0",
                                 description=__doc__)
    parser.add_argument("--dut", choices=device.KINDS, default="weir")
    parser.set_defaults(run=run)


class Bench:
    """A switch with three ports and a host at each."""

    def __init__(self, lab, options):
        self.lab = lab
        self.space = lab.namespace("device")
        self.hosts = [Host(lab, self.space, f"p{n}", f"h{n}", f"10.0.0.{n}/24") for n in (1, 2, 3)]
        self.device = device.start(options.dut, lab, self.space, device.Wanted(["p1", "p2", "p3"], config=TRACKER), options.weir)
        self.version, self.monitors = VERSIONS[0], 0

    def ofctl(self, *words, **options):
        return self.device.ofctl(*words, version=self.version, **options)

    def flows(self, *match):
        """The entries there are, without counters, sorted."""
        lines = self.ofctl("--no-stats", "dump-flows", *match).splitlines()
        return sorted(line.strip() for line in lines if "actions=" in line)

    def packets(self, match):
        """What the entries counted."""
        return sum(int(count) for count in re.findall(r"n_packets=(\d+)", self.ofctl("dump-flows", match)))

    def difference(self, file):
        """What `diff-flows` prints, which ends with code 2 where there is a difference."""
        try:
            return self.ofctl("diff-flows", file)
        except Failed as error:
            return str(error).split("\n", 1)[1]

    def fresh(self):
        self.ofctl("del-flows")
        if self.version != "OpenFlow10":
            self.ofctl("del-groups")
            self.ofctl("del-meters")

    def monitor(self, how):
        """An `ovs-ofctl monitor` in the background."""
        self.monitors += 1
        return self.space.spawn(f"monitor-{self.monitors}", "ovs-ofctl", "-O", self.version,
                                f"--unixctl={self.lab.folder}/monitor-{self.monitors}.ctl", "monitor", device.LISTEN,
                                how)

    def file(self, name, text):
        file = self.lab.folder / name
        file.write_text(text)
        return file


def expect(what, fact):
    if not fact:
        raise Failed(what)


def expect_in(what, part, text):
    if part not in text:
        raise Failed(f"{what}: no `{part}` in:\n{text}")


def show(bench):
    shown = bench.ofctl("show")
    expect_in("show", "dpid:0000000000000001", shown)
    for port in ("1(p1)", "2(p2)", "3(p3)"):
        expect_in("show", port, shown)
    expect_in("show", "GET_CONFIG_REPLY", shown)
    expect_in("dump-ports-desc", "2(p2)", bench.ofctl("dump-ports-desc"))
    expect_in("dump-desc", "Manufacturer", bench.ofctl("dump-desc"))
    bench.ofctl("probe")


def flows(bench):
    bench.ofctl("add-flow", "priority=10,in_port=1,actions=output:2")
    bench.ofctl("add-flow", "priority=10,in_port=2,actions=output:1")
    bench.hosts[0].ping("10.0.0.2")
    wait_for("packets to be counted", lambda: bench.packets("in_port=1") > 0)
    bench.ofctl("mod-flows", "in_port=1,actions=drop")
    expect("a modified flow drops", not bench.hosts[0].pings("10.0.0.2"))
    bench.ofctl("--strict", "mod-flows", "priority=10,in_port=1,actions=output:2")
    bench.hosts[0].ping("10.0.0.2")
    aggregate = bench.ofctl("dump-aggregate")
    expect_in("dump-aggregate", "flow_count=2", aggregate)
    bench.ofctl("--strict", "del-flows", "priority=9,in_port=1")
    expect("nothing of another priority goes", len(bench.flows()) == 2)
    bench.ofctl("--strict", "del-flows", "priority=10,in_port=1")
    expect("of two flows one is left", len(bench.flows()) == 1)
    bench.ofctl("del-flows")
    expect("none is left", not bench.flows())


def files(bench):
    lines = "".join(f"priority=5,tcp,tcp_dst={port},actions=output:2\n" for port in range(1, 101))
    bench.ofctl("add-flows", "-", stdin=lines)
    expect("100 flows from a file", len(bench.flows()) == 100)
    wanted = bench.file("wanted", "priority=5,tcp,tcp_dst=1,actions=output:2\npriority=7,udp,actions=output:3\n")
    difference = bench.difference(wanted)
    expect_in("diff-flows", "udp", difference)
    bench.ofctl("replace-flows", wanted)
    expect("2 flows replace them", len(bench.flows()) == 2)
    expect("no difference is left", not bench.difference(wanted).strip())


def bundles(bench):
    if bench.version == "OpenFlow10":
        return
    lines = "".join(f"priority=6,udp,udp_dst={port},actions=output:2\n" for port in range(1, 1001))
    bench.ofctl("--bundle", "add-flows", "-", stdin=lines)
    expect("1000 flows in a bundle", len(bench.flows()) == 1000)
    bad = "priority=6,udp,udp_dst=2000,actions=output:2\npriority=6,udp,udp_dst=2001,actions=group:99\n"
    try:
        bench.ofctl("--bundle", "add-flows", "-", stdin=bad)
    except Failed as error:
        expect_in("the reason", "BAD", str(error))
    else:
        raise Failed("a bundle with a group that is not there was taken")
    expect("a bundle that fails changes nothing", len(bench.flows()) == 1000)


def groups(bench):
    if bench.version == "OpenFlow10":
        return
    bench.ofctl("add-group", "group_id=7,type=all,bucket=output:2,bucket=output:3")
    bench.ofctl("add-flow", "in_port=1,actions=group:7")
    before = bench.hosts[2].received()
    bench.ofctl("add-flow", "in_port=2,actions=output:1")
    bench.hosts[0].ping("10.0.0.2")
    expect("the group's other bucket sends too", bench.hosts[2].received() > before)
    expect_in("dump-groups", "group_id=7,type=all", bench.ofctl("dump-groups"))
    expect_in("dump-group-stats", "group_id=7", bench.ofctl("dump-group-stats"))
    bench.ofctl("mod-group", "group_id=7,type=indirect,bucket=output:2")
    expect_in("dump-groups", "type=indirect", bench.ofctl("dump-groups"))
    bench.ofctl("del-groups", "group_id=7")
    expect("its flow went with the group", not bench.flows("in_port=1"))


def meters(bench):
    if bench.version == "OpenFlow10":
        return
    bench.ofctl("add-meter", "meter=3,pktps,bands=type=drop,rate=5")
    expect_in("dump-meters", "meter=3", bench.ofctl("dump-meters"))
    bench.ofctl("add-flow", "priority=10,icmp,in_port=1,actions=meter:3,output:2")
    bench.ofctl("add-flow", "priority=5,in_port=1,actions=output:2")
    bench.ofctl("add-flow", "in_port=2,actions=output:1")
    lost = bench.hosts[0].lost("10.0.0.2", 100)
    expect(f"a meter of 5 packets a second holds back most of 100 in a second (lost {lost})", lost > 50)
    expect_in("meter-stats", "meter:3", bench.ofctl("meter-stats"))
    bench.ofctl("mod-meter", "meter=3,pktps,bands=type=drop,rate=100000")
    expect("a faster meter lets them pass", bench.hosts[0].lost("10.0.0.2", 50) == 0)
    bench.ofctl("del-meter", "meter=3")
    expect("its flow went with the meter", not bench.flows("icmp"))


def packets_out(bench):
    before = bench.hosts[1].received()
    bench.ofctl("packet-out", f"in_port=controller,packet={FRAME},actions=output:2")
    wait_for("the packet that was sent out", lambda: bench.hosts[1].received() > before)
    bench.ofctl("add-flow", "dl_type=0x88b5,actions=output:3")
    before = bench.hosts[2].received()
    bench.ofctl("packet-out", f"in_port=1,packet={FRAME},actions=table")
    wait_for("the packet that went by the tables", lambda: bench.hosts[2].received() > before)


def ports(bench):
    bench.ofctl("add-flow", "in_port=1,actions=output:2")
    bench.ofctl("add-flow", "in_port=2,actions=output:1")
    bench.hosts[0].ping("10.0.0.2")
    bench.ofctl("mod-port", "p2", "no-forward")
    expect("a port that does not forward sends nothing", not bench.hosts[0].pings("10.0.0.2"))
    expect_in("show", "NO_FWD", bench.ofctl("show"))
    bench.ofctl("mod-port", "p2", "forward")
    bench.hosts[0].ping("10.0.0.2")
    dumped = bench.ofctl("dump-ports", "1" if bench.version == "OpenFlow10" else "p1")
    received = re.search(r"rx pkts=(\d+)", dumped)
    expect(f"dump-ports counts: {dumped}", received and int(received[1]) > 0)


def tables(bench):
    bench.ofctl("add-flow", "in_port=1,actions=output:2")
    dumped = bench.ofctl("dump-tables", seconds=60)
    expect_in("dump-tables", "active=1", dumped)
    if bench.version != "OpenFlow10":
        expect_in("dump-table-features", "table 0", bench.ofctl("dump-table-features", seconds=60))


def frags(bench):
    shown = bench.ofctl("get-frags")
    expect_in("get-frags", "normal", shown)


def monitor(bench):
    """`monitor 64`: packets come to the controller, cut off as it asked."""
    bench.ofctl("add-flow", "in_port=1,actions=controller")
    watcher = bench.monitor("64")
    try:
        def seen():
            bench.hosts[0].pings("10.0.0.2")
            return "PACKET_IN" in watcher.output()
        wait_for("a packet-in", seen)
    finally:
        watcher.stop()


def watch(bench):
    """`monitor watch:`: changes of flows are told."""
    watcher = bench.monitor("watch:")
    try:
        # It says that it watches by asking what there is.
        wait_for("the monitor", lambda: "FLOW_MONITOR" in watcher.output() or watcher.ended() is not None)
        time.sleep(0.2)
        bench.ofctl("add-flow", "priority=77,in_port=3,actions=output:1")
        wait_for("the flow that was added", lambda: "event=ADDED" in watcher.output())
        bench.ofctl("del-flows", "in_port=3")
        wait_for("the flow that was deleted", lambda: "event=DELETED" in watcher.output())
    except Failed as error:
        raise Failed(f"{error}\n{watcher.last_words()}") from error
    finally:
        watcher.stop()


def connections(bench):
    """`ct-flush`: connections are forgotten."""
    if bench.version == "OpenFlow10":
        return
    bench.ofctl("add-flow", "priority=10,icmp,in_port=1,actions=ct(commit,zone=5),output:2")
    bench.ofctl("add-flow", "priority=10,icmp,in_port=2,actions=ct(zone=5,table=1)")
    bench.ofctl("add-flow", "priority=5,arp,actions=flood")
    bench.ofctl("add-flow", "table=1,ct_state=+trk+est,actions=output:1")
    bench.hosts[0].ping("10.0.0.2")
    before = bench.packets("table=1")
    bench.ofctl("ct-flush", "zone=4")
    bench.ofctl("ct-flush", "zone=5")
    expect("packets of a connection passed", before > 0)
    bench.ofctl("del-flows", "icmp,in_port=1")
    bench.ofctl("add-flow", "priority=10,icmp,in_port=1,actions=output:2")
    expect("what was flushed is not known any more", not bench.hosts[0].pings("10.0.0.2"))


def mistakes(bench):
    """What cannot be is refused with the error that says why, and changes nothing."""
    cases = [("in_port=1,actions=output:0xfffffff0" if bench.version != "OpenFlow10" else "in_port=1,actions=output:0",
              "OUT_PORT")]
    if bench.version != "OpenFlow10":
        cases = [("in_port=1,actions=group:99", "OUT_GROUP"), ("in_port=1,actions=meter:99,output:2", "METER")]
        for flow, code in cases:
            try:
                bench.ofctl("add-flow", flow)
            except Failed as error:
                expect_in(flow, code, str(error))
            else:
                raise Failed(f"`{flow}` was taken")
    bench.ofctl("add-flow", "check_overlap,priority=3,ip,in_port=1,actions=output:2")
    try:
        bench.ofctl("add-flow", "check_overlap,priority=3,ip,in_port=1,nw_src=1.2.3.4,actions=output:2")
    except Failed as error:
        expect_in("an overlap", "OVERLAP", str(error))
    else:
        raise Failed("an overlapping entry was taken")
    expect("only the one entry is there", len(bench.flows()) == 1)


PARTS = [show, flows, files, bundles, groups, meters, packets_out, ports, tables, frags, monitor, watch, connections,
         mistakes]


def run(options):
    check_machine()
    failed = []
    with Lab() as lab:
        bench = Bench(lab, options)
        for bench.version in VERSIONS:
            for part in PARTS:
                try:
                    bench.fresh()
                    part(bench)
                    print(f"  ok   {bench.version} {part.__name__}", flush=True)
                except Failed as error:
                    bench.device.check()
                    failed.append(f"{bench.version} {part.__name__}: {error}")
                    print(f"  FAIL {failed[-1]}", flush=True)
    if failed:
        raise Failed(f"{len(failed)} of {len(VERSIONS) * len(PARTS)} failed")
