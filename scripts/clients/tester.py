"""A pair of switches with os-ken's tester: a device under test, the tester's own switch, and what drives both.

    namespace `tester`                     namespace `device`
    osken-manager, Open vSwitch (s2) ═══ three cables ═══ the device (s1)
                                     ─── a link for OpenFlow ───

The tester's switch is Open vSwitch whatever the device is. The tester is os-ken's, unchanged. What dies
or hangs is started again, the case at hand gets that as its reason, and the rest goes on. The tester and its
switch have real-time priority where that is allowed: it judges by packets that it sends at a rate, with whatever device.
"""

import dataclasses
import pathlib
import re
import shutil
import time

import cases as all_about_cases
import device
from lab import Failed, wait_for

CABLES = 3
TESTER_SIDE = "192.0.2.1"
DEVICE_SIDE = "192.0.2.2"
OPENFLOW = 6653
TESTER_DPID = 2

# How the tester waits: select(2) takes microseconds, where epoll_wait(2) rounds what is left of 10 ms up, and a
# tenth of the packets that it promised were never sent.
PRECISE = {"EVENTLET_HUB": "selects"}

# What the tester prints for a case, and below it why it failed.
RESULT = re.compile(r"^ {4}(?P<description>\S.*?) +(?P<result>OK|ERROR)$")
REASON = re.compile(r"^ {8}(?P<reason>\S.*)$")


class Pair:
    """A device and its tester, wired up."""

    def __init__(self, lab, name, kind, python, weir):
        self.lab, self.name, self.kind, self.weir = lab, name, kind, weir
        # Not resolved: the interpreter of a virtual environment is known by the path it is called by.
        self.manager = pathlib.Path(python).parent / "osken-manager"
        self.package = all_about_cases.package(python)
        self.near = lab.namespace(f"tester-{name}")
        self.far = lab.namespace(f"device-{name}")
        for cable in range(1, CABLES + 1):
            lab.cable(self.near, f"s2-eth{cable}", self.far, f"s1-eth{cable}")
        lab.cable(self.near, "control", self.far, "control")
        self.near.address("control", f"{TESTER_SIDE}/30")
        self.far.address("control", f"{DEVICE_SIDE}/30")
        own = dataclasses.replace(self.wanted("s2", TESTER_DPID, "127.0.0.1"), on_time=True)
        self.own = device.start("ovs", lab, self.near, own)
        self.start_device()
        self.rounds = 0

    def wanted(self, prefix, datapath_id, controller):
        ports = [f"{prefix}-eth{cable}" for cable in range(1, CABLES + 1)]
        # A raw socket (AF_PACKET) has lost a tag's TPID when DPDK sees it; AF_XDP has the frame as it was sent.
        return device.Wanted(ports, [f"tcp:{controller}:{OPENFLOW}"], datapath_id, driver="af_xdp")

    def start_device(self):
        self.device = device.start(self.kind, self.lab, self.far, self.wanted("s1", 1, TESTER_SIDE), self.weir)

    def run(self, cases, tell):
        """Runs cases; calls `tell(case, passed, reason)` once for each, in order."""
        left = list(cases)
        while left:
            done = self.round(left, tell)
            left = left[done:]
            if left and not self.mend():
                tell(left.pop(0), False, "the switch cannot be started again")

    def mend(self):
        """Starts again what ended; whether all is well now."""
        for switch in (self.own, self.device):
            if switch.process.ended() is not None:
                try:
                    switch.start()
                except Failed:
                    return False
        return True

    def round(self, cases, tell):
        """One life of the tester: as many cases as it comes to. Returns how many were told of."""
        self.rounds += 1
        folder = self.lab.folder / f"cases-{self.name}-{self.rounds}"
        all_about_cases.write(cases, folder)
        words = [self.manager, "--nouse-syslog", "--ofp-listen-host", "0.0.0.0", "--ofp-tcp-listen-port", OPENFLOW,
                 "--test-switch-dir", folder, self.package / "tester.py"]
        tester = self.near.spawn(f"tester-{self.rounds}", *words, on_time=True, environment=PRECISE)
        try:
            return self.follow(tester, cases, tell)
        finally:
            tester.stop(patience=3)
            shutil.rmtree(folder)

    def follow(self, tester, cases, tell):
        """Reads what the tester prints until it ends, is done, or hangs."""
        results, told, changed, size = [], 0, time.monotonic(), 0
        while True:
            ended = tester.ended() is not None
            text = tester.output()
            if len(text) != size:
                size, changed = len(text), time.monotonic()
            results = read(text)
            # The last result may still be waiting for its reason.
            known = len(results) if ended or "---  Test end  ---" in text else max(len(results) - 1, 0)
            for passed, reason in results[told:known]:
                tell(cases[told], passed, reason)
                told += 1
            if told >= len(cases):
                return told
            patience = cases[told].patience
            trouble = self.trouble(tester, ended, time.monotonic() - changed, patience)
            if trouble:
                for passed, reason in results[told:]:
                    tell(cases[told], passed, reason)
                    told += 1
                if told < len(cases):
                    tell(cases[told], False, trouble)
                    told += 1
                return told
            time.sleep(0.05)

    def trouble(self, tester, ended, silent, patience):
        """Why the case at hand will not come to its end, if so."""
        if self.device.process.ended() is not None:
            return f"the switch ended with code {self.device.process.ended()}:\n{self.device.process.last_words()}"
        if self.own.process.ended() is not None:
            return "the tester's own switch ended"
        if ended:
            return f"the tester ended:\n{tester.last_words()}"
        if silent > patience:
            return f"nothing for {patience} s: {last_error(tester.output())}"
        return None


def read(text):
    """The results in what the tester printed: whether it passed, and why not."""
    results = []
    for line in text.splitlines():
        result = RESULT.match(line)
        reason = REASON.match(line)
        if result:
            results.append((result["result"] == "OK", None))
        elif reason and results and not results[-1][0] and results[-1][1] is None:
            results[-1] = (False, reason["reason"])
    return results


def last_error(text):
    """The exception that stopped the tester's thread, if it printed one."""
    errors = [line for line in text.splitlines() if re.match(r"^\w*(Error|Exception)\b", line)]
    return f"the tester's thread died of {errors[-1]}" if errors else "the tester hangs"


def ready(pair):
    """Waits until both switches of a pair answer."""
    wait_for("both switches", lambda: pair.own.answers() and pair.device.answers())
