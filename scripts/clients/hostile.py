"""Hostile controllers against a switch that forwards: what does it cost the packets, the memory, the others?

The switch forwards a capture that comes in as fast as it takes it, so that its worker is at its limit, on a
core of its own where there are two. Rates are packets per second of the worker's processor time: what other
programs take from the machine is not counted against it. Each attack goes on for some seconds, several at
once; before it and while it lasts the rate, the memory, and the time in which another client is answered are
taken.
"""

import json
import os
import pathlib
import random
import statistics
import sys
import time

import device
from attacks import ATTACKS
from faucet import check
from lab import Failed, Lab, check_machine, run as run_tool, wait_for

ADDRESS = ("127.0.0.1", "6654")
# How many of each come at once.
TIMES = {"flood": 2, "deaf": 4, "crowd": 1, "babble": 2, "sleepy": 2, "bundles": 5, "silent": 1, "storm": 1}
# Flows that are there before an attack, as they are while it lasts: every packet also goes to controllers.
FLOWS = {"sleepy": ["priority=9,in_port=1,actions=output:2,controller"]}
# What an attack may cost: of the rate, in memory, and in patience of the others. Attackers are programs at work
# too: on processors that share a core or its caches the worker is slower for whatever they do.
RATE_LEFT = 0.6
MEMORY = 512 * 1024 * 1024
PATIENCE = 5.0
# Other clients that come one after the other meanwhile; each has to be let in at once.
PROBES = 20
# Of a thousand connections the switch takes as many as it is told; the others wait until some are thrown out.
PATIENCE_CROWD = 30.0


def arguments(commands):
    parser = commands.add_parser("hostile", help="controllers that flood, never read, babble, come in thousands",
                                 description=__doc__)
    parser.add_argument("--seconds", type=float, default=5, help="of each attack (5)")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32), help="of what is random")
    parser.add_argument("--only", action="append", choices=list(ATTACKS), help="this attack alone; may be repeated")
    parser.add_argument("--json", action="store_true", help="print the measurements as JSON")
    parser.set_defaults(run=run)


class Forwarding:
    """A switch that forwards a capture for ever."""

    def __init__(self, lab, options):
        capture = lab.folder / "in.pcap"
        run_tool(options.weir, "trace", "gen", "flows:1000", "--size", "64", "-o", capture)
        self.space = lab.namespace("device")
        core = max(os.sched_getaffinity(0))
        wanted = device.Wanted([], specs={"in": f"trace:{capture},loop", "out": "null"}, core=core, poll="busy")
        self.switch = device.start("weir", lab, self.space, wanted, options.weir)
        self.fresh()
        tasks = pathlib.Path(f"/proc/{self.switch.process.pid}/task").iterdir()
        self.workers = [task for task in tasks if (task / "comm").read_text().startswith("weir-worker")]
        self.hertz = os.sysconf("SC_CLK_TCK")

    def fresh(self, *more):
        """The tables as they are before an attack. One entry looks at ports, as those of attackers will: what a
        richer table costs is not the attack's doing."""
        self.switch.ofctl("del-flows")
        for flow in ("priority=1,in_port=1,actions=output:2", "priority=2,udp,tp_dst=60000,actions=drop", *more):
            self.switch.ofctl("add-flow", flow)

    def worker_seconds(self):
        total = 0
        for task in self.workers:
            fields = (task / "stat").read_text().rsplit(")", 1)[1].split()
            total += int(fields[11]) + int(fields[12])
        return total / self.hertz

    def sent(self):
        stats = json.loads(self.switch.stats())
        return sum(worker["sent"] for worker in stats["workers"])

    def rate(self, seconds):
        """Packets sent per second of the worker's time: the median of some looks."""
        looks = []
        end = time.monotonic() + seconds
        packets, worked = self.sent(), self.worker_seconds()
        while time.monotonic() < end:
            time.sleep(0.5)
            now, then = self.sent(), self.worker_seconds()
            if then > worked:
                looks.append((now - packets) / (then - worked))
            packets, worked = now, then
        if not looks:
            raise Failed("the worker had no processor time at all; is the machine overloaded?")
        return statistics.median(looks)

    def probes(self):
        """How many of some clients that come one after the other are let in and answered at the first try."""
        return sum(self.space.tries("ovs-ofctl", "-O", "OpenFlow13", "--timeout=5", "probe", device.LISTEN, seconds=10)
                   for _ in range(PROBES))

    def answer_seconds(self):
        """How long another client waits for an answer; it tries again where it is not let in."""
        begin = time.monotonic()
        wait_for("an answer to another client", lambda: self.space.tries(
            "ovs-ofctl", "-O", "OpenFlow13", "--timeout=60", "dump-desc", device.LISTEN, seconds=70), 60)
        return time.monotonic() - begin


def attack(forwarding, lab, name, options):
    """One attack; what was measured."""
    forwarding.fresh(*FLOWS.get(name, ()))
    before = {"rate": forwarding.rate(2), "memory": forwarding.switch.resident()}
    script = pathlib.Path(__file__).parent / "attacks.py"
    attackers = [
        forwarding.space.spawn(f"{name}-{number}", sys.executable, script, *ADDRESS, name, options.seconds,
                               options.seed + number)
        for number in range(TIMES[name])
    ]
    time.sleep(0.3)
    during = {"rate": forwarding.rate(options.seconds / 2), "answer_seconds": forwarding.answer_seconds(),
              "memory": forwarding.switch.resident()}
    if name in ("bundles", "silent", "storm"):
        during["probes"] = forwarding.probes()
        during["memory"] = max(during["memory"], forwarding.switch.resident())
    for attacker in attackers:
        attacker.child.wait(options.seconds + 60)
    told = []
    for attacker in attackers:
        if attacker.ended() != 0:
            raise Failed(f"{attacker.name} ended with code {attacker.ended()}:\n{attacker.last_words()}")
        told.append(json.loads(attacker.output().splitlines()[-1]))
    forwarding.switch.check()
    forwarding.fresh()
    after = {"rate": forwarding.rate(1), "memory": forwarding.switch.resident()}
    return {"attack": name, "attackers": told, "before": before, "during": during, "after": after}


def judge(measured):
    before, during, after = measured["before"], measured["during"], measured["after"]
    left = during["rate"] / before["rate"]
    grown = max(during["memory"], after["memory"]) - before["memory"]
    patience = PATIENCE_CROWD if measured["attack"] == "crowd" else PATIENCE
    what = ", ".join(f"{key} {value}" for key, value in measured["attackers"][0].items())
    check(f"{measured['attack']}: {left:.0%} of the rate ({before['rate'] / 1e6:.2f} to {during['rate'] / 1e6:.2f} Mpps"
          f" of worker time), memory {grown / 1e6:+.0f} MB, another client waits {during['answer_seconds']:.2f} s; {what}",
          left > RATE_LEFT and grown < MEMORY and during["answer_seconds"] < patience)
    if "probes" in during:
        check(f"{measured['attack']}: {during['probes']} of {PROBES} other clients were let in at the first try",
              during["probes"] == PROBES)


def run(options):
    check_machine()
    print(f"seed {options.seed}", file=sys.stderr)
    measured = []
    with Lab() as lab:
        forwarding = Forwarding(lab, options)
        for name in options.only or ATTACKS:
            measured.append(attack(forwarding, lab, name, options))
            if not options.json:
                judge(measured[-1])
    if options.json:
        print(json.dumps(measured, indent=1))
