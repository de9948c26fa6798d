"""What the machine takes away: descriptors, memory, disk, cores, time, interfaces, peers."""

import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import time

from bench import DIES_WITH_US, PATIENCE, Broken, Client, Missing, Switch, Traffic, wait_for


def _limit(switch, what, value):
    before = resource.prlimit(switch.pid, what)
    resource.prlimit(switch.pid, what, (value, before[1]))
    return before


def descriptors(switch):
    held = switch.client()
    with Traffic(_of(switch, held)) as traffic:
        before = _limit(switch, resource.RLIMIT_NOFILE, switch.lowest_free())
        refused = 0
        for _ in range(20):
            # Those of a client that went before may be free only now.
            _limit(switch, resource.RLIMIT_NOFILE, switch.lowest_free())
            try:
                client = Client(switch.folder / "control")
                client.socket.settimeout(0.05)
                client.ask("version")
                client.close()
            except (OSError, Broken):
                refused += 1
        resource.prlimit(switch.pid, resource.RLIMIT_NOFILE, before)
        wait_for("an answer once there are descriptors", switch.answers)
    if refused == 0:
        raise Broken("clients were served without descriptors")
    held.close()
    return f"{refused} of 20 clients got no answer while there was no descriptor, all do afterwards; {traffic.account()}"


def _of(switch, client):
    from clients import _Through
    return _Through(switch, client)


# The allocator reserves a gigabyte of addresses in advance, which a limit of addresses would not see.
RESERVES_LITTLE = ["env", "MIMALLOC_ARENA_RESERVE=8MiB"]


def _limit_memory(switch, more):
    """Lets the process take so many bytes more; what its limit was."""
    status = pathlib.Path(f"/proc/{switch.pid}/status").read_text()
    size = int(re.search(r"VmSize:\s+(\d+)", status)[1]) * 1024
    return _limit(switch, resource.RLIMIT_AS, size + more)


def _entries(begin, count):
    """Entries of a table, each of its own."""
    address = lambda number: f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"
    return "\n".join(f"in_port=99,ip,nw_src={address(number)},actions=drop" for number in range(begin, begin + count))


def memory(weir):
    """The process may take little more; a change of the tables needs some."""
    switch = Switch(weir, wrapper=RESERVES_LITTLE)
    try:
        with Traffic(switch) as traffic:
            client = switch.client()
            client.socket.settimeout(60)
            before = _limit_memory(switch, 256 << 20)
            client.ask("add-flows", flows=_entries(0, 5_000))
            resource.prlimit(switch.pid, resource.RLIMIT_AS, before)
            client.ask("del-flows", flow="in_port=99")
        return f"5,000 entries with 256 MiB to take: they fit; {traffic.account()}"
    finally:
        switch.end()


def memory_ends(weir):
    """The process may take nothing more at all, and its tables grow until there is no memory: its supervisor's next
    start takes over."""
    switch = Switch(weir, wrapper=RESERVES_LITTLE)
    try:
        client = switch.client()
        client.socket.settimeout(60)
        # Who comes anew finds no memory for a thread of its own.
        with Traffic(_of(switch, client)) as limited:
            before = _limit_memory(switch, 0)
        entries, refused = 0, ""
        try:
            while entries < 400_000 and not refused:
                client.say({"command": "add-flows", "flows": _entries(entries, 10_000)})
                answer = client.hear()
                if answer is None:
                    break  # it has ended
                entries, refused = entries + 10_000, "" if answer["ok"] else answer["error"]
        except OSError:
            pass  # it has ended
        if refused:
            # It goes on with what it has.
            with Traffic(_of(switch, client)) as traffic:
                resource.prlimit(switch.pid, resource.RLIMIT_AS, before)
                wait_for("an answer once there is memory", switch.answers)
            return f"after {entries:,} entries a change is refused ({refused}), and it goes on; {traffic.account()}"
        if entries >= 400_000:
            raise Broken("400,000 entries found memory, so that the fault was not put")
        code = switch.child.wait(PATIENCE)
        log = switch.said()
        switch.start()
        with Traffic(switch) as traffic:
            pass
        end = f"signal {-code}" if code < 0 else f"code {code}"
        words = "it says so" if "memory allocation" in log else "without a word"
        return (f"{limited.sent} packets forwarded meanwhile; after {entries:,} entries more the process ended by {end} ({words}); "
                f"the next start takes its sockets over; {traffic.account()}")
    finally:
        switch.end()


def disk_full(weir):
    """What a port writes has no room: it takes nothing more, which is counted; the other port goes on."""
    if os.geteuid() != 0:
        raise Missing("a file system of its own needs root")
    with_disk = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o size=64k none "$0" && shift 0; exec "$@"']
    folder = pathlib.Path(subprocess.run(["mktemp", "-d"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip())
    switch = Switch(weir, ports=f'[port.disk]\nspec = "trace:,tx={folder}/out.pcap"\n',
                    flows="in_port=in,actions=output:disk,output:out", wrapper=[*with_disk, str(folder)])
    try:
        with Traffic(switch, lost={"transmit-full"}) as traffic:
            wait_for("a full disk", lambda: switch.ledger().reasons.get("transmit-full", 0) > 100)
        return f"what the file had no room for is counted, the other port goes on; {traffic.account()}"
    finally:
        switch.end()
        shutil.rmtree(folder, ignore_errors=True)


def stopped(switch):
    """The whole process is stopped for a while, as a machine that is paused or moved: its clock jumps by that."""
    with Traffic(switch) as traffic:
        client = switch.client()
        client.ask("add-flow", flow="priority=9,in_port=99,idle_timeout=60,actions=drop")
        os.kill(switch.pid, signal.SIGSTOP)
        time.sleep(6)
        os.kill(switch.pid, signal.SIGCONT)
        left = client.ask("dump-flows", flow="in_port=99")
        if not left:
            raise Broken("an entry of 60 s went after 6")
        client.ask("del-flows", flow="in_port=99")
    return f"6 s without a step: no worker is taken for dead, no entry goes early; {traffic.account()}"


def clock_ahead(weir):
    """The monotonic clock begins a century ahead (a namespace of time)."""
    if os.geteuid() != 0:
        raise Missing("a namespace of time needs root")
    ahead = ["unshare", "--time", "--fork", "--kill-child", "--monotonic", "3000000000", "--boottime", "3000000000"]
    if subprocess.run([*ahead, "true"], stderr=subprocess.DEVNULL).returncode != 0:
        raise Missing("this kernel has no namespaces of time")
    switch = Switch(weir, wrapper=ahead)
    try:
        with Traffic(switch) as traffic:
            client = switch.client()
            client.ask("add-flow", flow="priority=9,in_port=99,hard_timeout=1,actions=drop")
            wait_for("the entry's end", lambda: not client.ask("dump-flows", flow="in_port=99"), 5)
        return f"an entry of a second ends in its time; {traffic.account()}"
    finally:
        switch.end()


def core_taken(switch):
    """Others want the worker's core."""
    cores = sorted(os.sched_getaffinity(0))
    with Traffic(switch) as traffic:
        burners = [subprocess.Popen([*DIES_WITH_US, "sh", "-c", "while :; do :; done"]) for _ in range(2 * len(cores))]
        time.sleep(2)
        client = switch.client()
        client.ask("add-flow", flow="priority=9,in_port=99,actions=drop")
        client.ask("del-flows", flow="in_port=99")
        for burner in burners:
            burner.kill()
            burner.wait()
    return f"{len(burners)} programs that never rest, on {len(cores)} cores; changes are answered; {traffic.account()}"


def reader_gone(weir):
    """Whoever reads what the switch prints is gone."""
    switch = Switch(weir, heard=False)
    try:
        with Traffic(switch) as traffic:
            client = switch.client()
            for _ in range(5):
                os.kill(switch.pid, signal.SIGHUP)  # of which it tells
                time.sleep(0.02)
            client.ask("version")
        if switch.stop() != 0:
            raise Broken("told to stop, it says that it failed")
        return f"it goes on, and obeys signals; {traffic.account()}"
    finally:
        switch.end()


class Peer:
    """Another switch, whose port is the other end of a shared-memory port; packets go to the first one."""

    def __init__(self, weir, folder, spec, name):
        text = f"""[switch]
poll = "adaptive:200us"
memory_mib = 128
buffers = 2048
control = "{name}.control"
[port.in]
spec = "trace:in.pcap,loop,rate=5kpps"
[port.wire]
spec = "{spec}"
[tables]
flows = "in_port=in,actions=output:wire"
"""
        config = folder / f"{name}.toml"
        config.write_text(text)
        self.log = open(folder / f"{name}.log", "wb")
        self.child = subprocess.Popen([*DIES_WITH_US, str(weir), "switch", "--config", str(config)], stdin=subprocess.DEVNULL,
                                      stdout=self.log, stderr=self.log, cwd=folder)

    def end(self):
        self.child.kill()
        self.child.wait()
        self.log.close()


def _peers(weir, spec, other):
    """A port whose peer is killed, and comes again; then one that is stopped."""
    switch = Switch(weir, ports=f'[port.wire]\nspec = "{spec}"\n',
                    flows="in_port=in,actions=output:out,output:wire\nin_port=wire,actions=output:out")
    folder, peers = switch.folder, []
    of_wire = lambda: switch.ledger().ports["wire"]["received"]
    # To a port whose peer is away nothing can be sent.
    lost = {"transmit-full", "port-down", "link-down", "no-port"}
    try:
        with Traffic(switch, lost) as traffic:
            for number in range(3):
                before = of_wire()
                peer = Peer(weir, folder, other.format(folder=folder, number=number), f"peer{number}")
                peers.append(peer)
                wait_for("packets of the peer", lambda: of_wire() > before + 100, 30)
                if number == 1:
                    os.kill(peer.child.pid, signal.SIGSTOP)
                    time.sleep(0.5)
                peer.end()
        return f"a peer was killed twice and stopped once, and its successor's packets came each time; {traffic.account()}"
    finally:
        for peer in peers:
            peer.end()
        switch.end()


def vhost_peer(weir):
    return _peers(weir, "net_vhost0,iface=wire", "net_virtio_user{number},path={folder}/wire,queues=1")


def memif_peer(weir):
    return _peers(weir, "net_memif0,role=server,socket={folder}/wire,socket-abstract=no",
                  "net_memif0,role=client,socket={folder}/wire,socket-abstract=no")


def _pair():
    if os.geteuid() != 0 or not shutil.which("ip"):
        raise Missing("a pair of interfaces needs root and iproute2")
    name = f"wf{os.getpid() % 10000}"
    subprocess.run(["ip", "link", "add", f"{name}a", "type", "veth", "peer", "name", f"{name}b"], check=True)
    for end in "ab":
        subprocess.run(["ip", "link", "set", f"{name}{end}", "up"], check=True)
    return name


def interface_goes(weir):
    """The interface of a port is removed while packets go out by it."""
    name = _pair()
    switch = None
    try:
        switch = Switch(weir, ports=f'[port.wire]\nspec = "af_packet:{name}a"\n',
                        flows="in_port=in,actions=output:out,output:wire\nin_port=wire,actions=drop")
        with Traffic(switch, {"transmit-full", "port-down", "link-down", "by-flow"}) as traffic:
            time.sleep(0.3)
            subprocess.run(["ip", "link", "delete", f"{name}a"], check=True)
            time.sleep(0.5)
            up = switch.ledger().ports["wire"]["link_up"]
            client = switch.client()
            client.ask("del-port", port="wire")
        if up:
            raise Broken("the port's link is said to be up")
        return f"its link is told to be down, the port can be removed; {traffic.account()}"
    finally:
        if switch:
            switch.end()
        subprocess.run(["ip", "link", "delete", f"{name}a"], stderr=subprocess.DEVNULL)


def interface_down(weir):
    """The interface of a port goes down and comes up again."""
    name = _pair()
    switch = None
    try:
        switch = Switch(weir, ports=f'[port.wire]\nspec = "af_packet:{name}a"\n',
                        flows="in_port=in,actions=output:out,output:wire\nin_port=wire,actions=drop")
        sent = lambda: switch.ledger().ports["wire"]["sent"]
        with Traffic(switch, {"transmit-full", "port-down", "link-down", "by-flow"}) as traffic:
            for _ in range(3):
                subprocess.run(["ip", "link", "set", f"{name}a", "down"], check=True)
                time.sleep(0.15)
                subprocess.run(["ip", "link", "set", f"{name}a", "up"], check=True)
                before = sent()
                wait_for("packets that leave by it", lambda: sent() > before)
        return f"three times down and up, and packets leave by it again; {traffic.account()}"
    finally:
        if switch:
            switch.end()
        subprocess.run(["ip", "link", "delete", f"{name}a"], stderr=subprocess.DEVNULL)
