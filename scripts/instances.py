#!/usr/bin/env python3
"""Many services at once: what a switch with N of them takes in memory, forwards, and how long it reloads.

Starts `weir switch` with one service, and with N of the same kind, each called by a flow entry of its own; a
capture with a packet for each comes in at full speed. Prints the process's memory, its rate, and the time of a
reload that adds them, that builds all of them anew with other settings, and that takes them away. Needs no root.
"""

import argparse
import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
FIRST_PORT = 10000
LOOK = 2.0


def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def packet(port):
    """A UDP packet of 64 B with FCS to this port, without UDP checksum."""
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 46, 0, 0x4000, 64, 17, 0, bytes([198, 18, 0, 1]), bytes([198, 19, 0, 1]))
    head = head[:10] + struct.pack("!H", checksum(head)) + head[12:]
    return bytes([2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0]) + head + struct.pack("!HHHH", 1024, port, 26, 0) + bytes(18)


def capture(path, services):
    with open(path, "wb") as out:
        out.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        for number in range(services):
            frame = packet(FIRST_PORT + number)
            out.write(struct.pack("<IIII", 0, 0, len(frame), len(frame)) + frame)


def configuration(folder, kind, services, settings):
    lines = [
        "[switch]", f'control = "{folder}/switch.sock"', "[port.in]", f'spec = "trace:{folder}/in.pcap,loop"',
        "[port.out]", 'spec = "null"',
    ]
    for number in range(services):
        lines += [f"[service.s{number}]", f'kind = "{kind}"']
        lines += [f"settings = {{ {settings} }}"] if settings else []
    flows = ["table=0,priority=9,sf_stage=1,actions=output:out"]
    flows += [
        f"table=0,priority=5,sf_stage=0,udp,tp_dst={FIRST_PORT + number},actions=softflow:s{number % services}:{number}"
        for number in range(services)
    ]
    lines += ["[tables]", 'flows = """', *flows, '"""', ""]
    (folder / "switch.toml").write_text("\n".join(lines))


class Switch:
    def __init__(self, weir, folder):
        self.weir, self.folder = weir, folder
        command = [weir, "switch", "--config", folder / "switch.toml", "--announce"]
        begin = time.monotonic()
        # A file: at its end the switch says more than a pipe holds that nobody reads.
        said = folder / "said"
        with open(said, "w") as out:
            self.process = subprocess.Popen(command, stdout=out)
        while not said.read_text():
            if self.process.poll() is not None:
                raise SystemExit(f"{' '.join(map(str, command))} did not start")
            time.sleep(0.01)
        self.start = time.monotonic() - begin

    def ctl(self, *words):
        command = [self.weir, "switch", *words, "--control", self.folder / "switch.sock"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{' '.join(map(str, command))}: {done.stderr.strip()}")
        return done.stdout

    def reload(self):
        begin = time.monotonic()
        self.ctl("ctl", "reload")
        return time.monotonic() - begin

    def memory(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) / 1024

    def counts(self):
        stats = json.loads(self.ctl("stats", "--json"))
        sent = sum(worker["sent"] for worker in stats["workers"])
        return time.monotonic(), sent, stats

    def rate(self):
        begin, before, _ = self.counts()
        time.sleep(LOOK)
        end, after, stats = self.counts()
        return (after - before) / (end - begin) / 1e6, stats

    def stop(self):
        self.process.terminate()
        self.process.wait(60)


def measure(options, folder, services):
    capture(folder / "in.pcap", services)
    configuration(folder, options.kind, services, options.settings)
    switch = Switch(options.weir, folder)
    try:
        time.sleep(1)
        rate, stats = switch.rate()
        called = sum(1 for s in stats["services"] if any(i["packets"] for i in s["instances"]))
        result = {"services": services, "called": called, "start_s": switch.start, "memory_mib": switch.memory(), "mpps": rate}
        if options.other:
            configuration(folder, options.kind, services, options.other)
            result["anew_s"] = switch.reload()
        if services > 1:
            configuration(folder, options.kind, 1, options.other or options.settings)
            result["remove_s"] = switch.reload()
            configuration(folder, options.kind, services, options.other or options.settings)
            result["add_s"] = switch.reload()
        return result
    finally:
        switch.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weir", default=ROOT / "target/release/weir", metavar="PROGRAM", help="the built weir")
    parser.add_argument("--services", type=int, default=1000, metavar="N", help="how many (1000)")
    parser.add_argument("--kind", default="counter", help="of which kind (counter)")
    parser.add_argument("--settings", default="arguments = 16", metavar="TOML", help="with which settings (arguments = 16)")
    parser.add_argument("--other", default="arguments = 32", metavar="TOML", help="and with which others after a reload; '' for none")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    if not 1 <= options.services <= 50000:
        parser.error("--services is 1 to 50000")
    results = []
    for services in sorted({1, options.services}):
        with tempfile.TemporaryDirectory() as folder:
            results.append(measure(options, pathlib.Path(folder), services))
    if options.json:
        print(json.dumps({"kind": options.kind, "results": results}, indent=2))
        return
    print(f"services of the kind {options.kind}, each called by packets of its own")
    for result in results:
        print("  " + ", ".join(f"{name} {value:.3g}" if isinstance(value, float) else f"{name} {value}" for name, value in result.items()))


if __name__ == "__main__":
    sys.exit(main())
