"""Changes of flow entries: how many a second, and what they cost the packets meanwhile.

Rate: `ovs-ofctl add-flows` of so many entries, one message after the other or as one bundle, into an empty
table, timed from its start to its end; then as many strict modifications and deletions of them, one after the
other; and modifications of the one entry of a table that has two. The devices take turns. It is the client's time
too, the same for both; one after the other, it waits for a barrier behind each.

Loss: Weir's tester offers packets at a load over veth pairs while entries come and go, which the packets are
told apart from only by looking at them: by the thousand one after the other, and all of them as one bundle. Lost
packets divided by the load are the time for which nothing was forwarded. The same load without changes is measured
beside it.
"""

import json
import statistics
import time

import device
from lab import Failed, Lab, check_machine, wait_for

# How Weir's worker waits: Open vSwitch's userspace datapath sleeps between packets of veth ports too, and there
# may be no more than two cores for client, switch and worker.
POLL = "adaptive:500us"

PLAN = """
nf = "l2fwd"
dut = "external"
wiring = "nic"
trace = "flows:1000"
size = 64
directions = 1
self_check = false
[soak]
load = "{load}"
time = "{seconds}s"
slice = "{seconds}s"
[nic]
lab = ["net_af_packet0,iface=lab1,blocksz=4096,framesz=2048,framecnt=1024", "net_af_packet1,iface=lab2,blocksz=4096,framesz=2048,framecnt=1024"]
[external]
description = "a switch over veth"
"""


def arguments(commands):
    parser = commands.add_parser("flowmods", help="changes of flow entries a second, and packets lost to them",
                                 description=__doc__)
    parser.add_argument("--flows", type=int, default=100_000, help="entries of each file (100000)")
    parser.add_argument("--rounds", type=int, default=3, help="of each device, in turns (3)")
    parser.add_argument("--load", default="50kpps", help="offered while entries change (50kpps); none: leave that out")
    parser.add_argument("--seconds", type=int, default=5, help="of load (5)")
    parser.add_argument("--dut", choices=["weir", "ovs", "both"], default="both")
    parser.add_argument("--json", action="store_true", help="print the measurements as JSON")
    parser.set_defaults(run=run)


class Bench:
    """A device between two cables to a tester."""

    def __init__(self, lab, kind, options):
        self.kind, self.options, self.lab = kind, options, lab
        self.tester = lab.namespace(f"tester-{kind}")
        self.space = lab.namespace(f"device-{kind}")
        for cable in (1, 2):
            lab.cable(self.tester, f"lab{cable}", self.space, f"p{cable}")
        self.device = device.start(kind, lab, self.space, device.Wanted(["p1", "p2"], poll=POLL), options.weir)

    def fresh(self):
        self.device.ofctl("del-flows", seconds=120)
        self.device.ofctl("add-flow", "priority=1,in_port=1,actions=output:2")
        self.device.ofctl("add-flow", "priority=1,in_port=2,actions=output:1")

    def changed(self, file, left, *how):
        """Does a file of changes, after which so many entries are left; the seconds it took."""
        begin = time.monotonic()
        self.device.ofctl(*how, "add-flows", file, seconds=600)
        taken = time.monotonic() - begin
        told = self.device.ofctl("dump-aggregate", seconds=120)
        if f"flow_count={left}" not in told:
            raise Failed(f"{self.kind}: {left} entries should be left, and it says {told.strip()}")
        return taken

    def loaded(self, plan, name, changes):
        """One soak, with `changes()` over and over meanwhile; what the tester counted, and how many changes."""
        self.fresh()
        database = self.lab.folder / f"{self.kind}-{name}.db"
        page = self.lab.folder / f"{self.kind}-{name}.html"
        bench = self.tester.spawn(f"bench-{name}", self.options.weir, "bench", plan, "--db", database, "-o", page)
        made = 0
        while bench.ended() is None:
            made += changes()
        if bench.ended() != 0:
            raise Failed(f"weir bench ended with code {bench.ended()}:\n{bench.last_words(20)}")
        told = json.loads(self.tester.run(self.options.weir, "export", "@last", "--json", "--db", database))
        trials = [trial for trial in told["points"][0]["trials"] if not trial["superseded"]]
        ways = [trial["result"]["directions"][0] for trial in trials]
        return {"sent": sum(way["sent"] for way in ways), "received": sum(way["received"] for way in ways),
                "unsent": sum(way["unsent"] for way in ways), "changes": made}


def entries(count, begin=0):
    """Entries that differ in address and port."""
    return "".join(
        f"priority=10,udp,nw_dst=10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255},"
        f"tp_dst={number % 60000 + 1},actions=output:2\n"
        for number in range(begin, begin + count))


def changes(count):
    """Files of so many changes, by what they do: their text, the words before it, and how many entries are left
    of the first two, which `fresh` leaves."""
    lines = entries(count).splitlines()
    matches = [line.rsplit(",actions=", 1)[0] for line in lines]
    of_one = "".join(f"modify_strict priority=1,in_port=1,actions=output:{1 + number % 2}\n"
                     for number in range(count))
    return {
        "add": ("\n".join(lines), (), count + 2),
        "modify": ("".join(f"modify_strict {match},actions=output:1\n" for match in matches), (), count + 2),
        "delete": ("".join(f"delete_strict {match}\n" for match in matches), (), 2),
        "modify one": (of_one, (), 2),
        "bundle": ("\n".join(lines), ("--bundle",), count + 2),
    }


def rates(benches, options, folder):
    wanted = changes(options.flows)
    for how, (text, _, _) in wanted.items():
        (folder / how).write_text(text)
    taken = {(how, bench.kind): [] for how in wanted for bench in benches}
    for _ in range(options.rounds):
        for bench in benches:
            bench.fresh()
        for how, (_, words, left) in wanted.items():
            for bench in benches:
                taken[how, bench.kind].append(bench.changed(folder / how, left, *words))
    return [{"device": kind, "how": how, "seconds": seconds, "flows": options.flows}
            for (how, kind), seconds in taken.items()]


def losses(benches, options, folder):
    plan = folder / "plan.toml"
    plan.write_text(PLAN.format(load=options.load, seconds=options.seconds))
    some, whole = folder / "some", folder / "whole"
    some.write_text(entries(1000))
    whole.write_text(entries(options.flows))

    def nothing():
        time.sleep(0.05)
        return 0

    measured = []
    for bench in benches:
        def changes(bench=bench):
            bench.device.ofctl("add-flows", some)
            bench.device.ofctl("del-flows", "udp")
            return 2000

        def bundles(bench=bench):
            bench.device.ofctl("--bundle", "add-flows", whole, seconds=600)
            bench.device.ofctl("del-flows", "udp", seconds=120)
            return 2 * options.flows

        for name, work in (("calm", nothing), ("changing", changes), ("bundles", bundles)):
            measured.append({"device": bench.kind, "while": name, **bench.loaded(plan, name, work)})
    return measured


def run(options):
    check_machine()
    kinds = ["weir", "ovs"] if options.dut == "both" else [options.dut]
    told = {"flows": [], "loss": []}
    with Lab() as lab:
        benches = [Bench(lab, kind, options) for kind in kinds]
        wait_for("the devices", lambda: all(bench.device.answers() for bench in benches))
        told["flows"] = rates(benches, options, lab.folder)
        if options.load != "none":
            told["loss"] = losses(benches, options, lab.folder)
    if options.json:
        print(json.dumps(told, indent=1))
        return
    for row in told["flows"]:
        best, middle = min(row["seconds"]), statistics.median(row["seconds"])
        print(f"{row['device']:<5} {row['how']:<10} {row['flows']} entries: median {middle:.2f} s "
              f"({min(row['seconds']):.2f} to {max(row['seconds']):.2f} in {len(row['seconds'])}), "
              f"{row['flows'] / best:,.0f} a second at best")
    for row in told["loss"]:
        lost = row["sent"] - row["received"]
        print(f"{row['device']:<5} {row['while']:<9} {row['sent']} sent, {lost} lost ({lost / max(row['sent'], 1):.4%}), "
              f"{row['unsent']} unsent, {row['changes']} changes of entries meanwhile")
