"""A switch that forwards while something goes wrong, and the account of its packets.

One capture comes in at a rate, for ever, and goes out by a port that takes everything. The switch is `weir switch`
itself, with its sockets in a folder of ours. Nothing here outlives the program: children end with it.
"""

import json
import os
import pathlib
import signal
import socket
import struct
import subprocess
import tempfile
import time

DIES_WITH_US = ("setpriv", "--pdeathsig", "KILL", "--")
# Packets a second: what any machine forwards in a debug build, beside other work.
RATE = 20_000
# How long the switch may take for an answer, in seconds: far above what it takes on a machine with other work.
PATIENCE = 30
# Seconds of traffic around a fault, at least.
LEAST = 0.3
# What is done with the traffic.
FLOW = "in_port=in,actions=output:out"


class Broken(Exception):
    """What was promised does not hold; the text says what was seen."""


class Missing(Exception):
    """This machine cannot do it; the text says what is missing."""


def wait_for(what, condition, seconds=PATIENCE):
    """Waits until `condition` returns something true, and returns it."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise Broken(f"waited {seconds} s for {what}")
        time.sleep(0.02)


def capture(path, packets=200):
    """A pcap file of UDP datagrams of as many flows."""
    out = bytearray(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
    for number in range(packets):
        payload = bytes(22)
        udp = struct.pack("!HHHH", 1000 + number, 80, 8 + len(payload), 0) + payload
        header = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0, bytes([198, 18, 0, 1]), bytes([198, 19, 0, 1]))
        total = sum(struct.unpack("!10H", header))
        header = header[:10] + struct.pack("!H", ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF) + header[12:]
        frame = bytes([2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0]) + header + udp
        out += struct.pack("<IIII", 0, number, len(frame), len(frame)) + frame
    path.write_bytes(out)


class Client:
    """A client of the control socket."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(PATIENCE)
        self.socket.connect(str(path))
        self.received = b""

    def say(self, line):
        self.socket.sendall(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n")

    def hear(self):
        """The next line; none if the switch hung up."""
        while b"\n" not in self.received:
            part = self.socket.recv(65536)
            if not part:
                return None
            self.received += part
        line, self.received = self.received.split(b"\n", 1)
        return json.loads(line)

    def ask(self, command, **fields):
        """What a request is answered with; refusals are `Broken`."""
        self.say({"command": command, **fields})
        answer = self.hear()
        if answer is None or not answer.get("ok"):
            raise Broken(f"{command}: {(answer or {}).get('error', 'the switch hung up')}")
        return answer["result"]

    def refused(self, command, **fields):
        """What a request is refused with."""
        self.say({"command": command, **fields})
        answer = self.hear()
        if answer is None or answer.get("ok"):
            raise Broken(f"{command} was not refused: {answer}")
        return answer["error"]

    def close(self):
        self.socket.close()


class Ledger:
    """The account of packets at one moment."""

    def __init__(self, document):
        workers = document["workers"]
        of = lambda name: sum(worker[name] for worker in workers)
        self.received, self.sent = of("received"), of("sent")
        self.reasons = {}
        for worker in workers:
            for reason, packets in worker["dropped"].items():
                self.reasons[reason] = self.reasons.get(reason, 0) + packets
            came = sum(worker[name] for name in ("received", "injected", "copied", "taken_over"))
            went = sum(worker[name] for name in ("sent", "to_controller", "handed_over", "held"))
            if came != went + sum(worker["dropped"].values()):
                raise Broken(f"the sum of worker {worker['worker']} is wrong: {worker}")
        self.ports = {port["name"]: port for port in document["ports"]}


class Switch:
    """`weir switch` that forwards from `in` to `out`, with whatever else a fault needs."""

    def __init__(self, weir, more="", ports="", rate=RATE, flows=FLOW, wrapper=(), heard=True):
        self.weir, self.heard = weir, heard
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="weir-faults-"))
        capture(self.folder / "in.pcap")
        ports = ports.replace("{folder}", str(self.folder))
        self.config = self.folder / "switch.toml"
        self.text = f"""[switch]
poll = "adaptive:200us"
memory_mib = 256
buffers = 4096
control = "control"
metrics = "unix:metrics"
{more}
[port.in]
spec = "trace:in.pcap,loop,rate={rate / 1000:g}kpps"
[port.out]
spec = "null"
{ports}
[tables]
flows = '''
{flows}
'''
[openflow]
listen = ["punix:of"]
max_connections = 64
"""
        self.config.write_text(self.text)
        self.start(wrapper)

    def start(self, wrapper=()):
        self.log = open(self.folder / "log", "ab")
        output, errors = (self.log, self.log) if self.heard else (subprocess.PIPE, subprocess.PIPE)
        self.child = subprocess.Popen([*DIES_WITH_US, *wrapper, str(self.weir), "switch", "--config", str(self.config)],
                                      stdin=subprocess.DEVNULL, stdout=output, stderr=errors, start_new_session=True,
                                      cwd=self.folder)
        if not self.heard:
            # Whoever reads what it prints is gone before it prints anything.
            self.child.stdout.close()
            self.child.stderr.close()
        wait_for("the switch to answer", self.answers, 30)
        self.pid = self.child.pid

    def said(self):
        return (self.folder / "log").read_text(errors="replace")

    def answers(self):
        if self.child.poll() is not None:
            raise Broken(f"the switch ended with {self.child.returncode}: {self.said()[-500:]}")
        try:
            client = Client(self.folder / "control")
            client.ask("version")
            client.close()
            return True
        except (OSError, Broken):
            return False  # not yet, or it will be found to have ended

    def client(self):
        return Client(self.folder / "control")

    def ledger(self):
        client = self.client()
        document = client.ask("stats", without_tables=True)
        client.close()
        return Ledger(document)

    def check(self):
        if self.child.poll() is not None:
            raise Broken(f"the switch ended with {self.child.returncode}: {self.said()[-500:]}")

    def resident(self):
        """Memory it holds, in MiB."""
        status = pathlib.Path(f"/proc/{self.pid}/status").read_text()
        return next(int(line.split()[1]) // 1024 for line in status.splitlines() if line.startswith("VmRSS"))

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def lowest_free(self):
        """The descriptor that would be opened next: under a limit of that, none can be."""
        taken = {int(name) for name in os.listdir(f"/proc/{self.pid}/fd")}
        return next(number for number in range(len(taken) + 1) if number not in taken)

    def end(self):
        if self.child.poll() is None:
            self.child.kill()
        self.child.wait()
        self.log.close()
        subprocess.run(["rm", "-rf", "--", self.folder], check=False)

    def stop(self):
        """Has it stop in order; its exit code."""
        self.child.send_signal(signal.SIGTERM)
        return self.child.wait(PATIENCE)


class Traffic:
    """What became of the traffic while something went wrong: `with Traffic(switch) as traffic`."""

    def __init__(self, switch, lost=()):
        self.switch, self.may_be_lost = switch, set(lost)

    def __enter__(self):
        before = self.switch.ledger()
        wait_for("packets", lambda: self.switch.ledger().sent > before.sent)
        self.before = self.switch.ledger()
        self.began = time.monotonic()
        return self

    def __exit__(self, kind, *_):
        if kind is not None:
            return
        self.switch.check()
        at = self.switch.ledger()
        time.sleep(max(0, LEAST - (time.monotonic() - self.began)))
        # It still forwards.
        wait_for("packets after the fault", lambda: self.switch.ledger().sent > at.sent)
        after = self.switch.ledger()
        self.seconds = time.monotonic() - self.began
        self.sent = after.sent - self.before.sent
        self.lost = {reason: packets - self.before.reasons.get(reason, 0) for reason, packets in after.reasons.items()
                     if packets > self.before.reasons.get(reason, 0)}
        unforeseen = {reason: packets for reason, packets in self.lost.items() if reason not in self.may_be_lost}
        if unforeseen:
            raise Broken(f"packets were lost: {unforeseen}")

    def account(self):
        lost = ", ".join(f"{packets} {reason}" for reason, packets in sorted(self.lost.items())) or "none lost"
        return f"{self.sent} packets forwarded in {self.seconds:.1f} s, {lost}"
