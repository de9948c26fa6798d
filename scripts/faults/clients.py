"""Clients that are slow, dead or hostile: of the control socket, of OpenFlow, of the metrics."""

import os
import random
import socket
import time

import openflow
from bench import Broken, Client, Traffic, wait_for


def broken_off(switch):
    with Traffic(switch) as traffic:
        for _ in range(50):
            client = switch.client()
            client.say(b'{"command": "add-flow", "flow": "in_po')
            client.close()
    return f"50 broke off within a request; {traffic.account()}"


def never_reads(switch):
    with Traffic(switch) as traffic:
        deaf = switch.client()
        deaf.socket.settimeout(0.2)
        asked = 0
        try:
            while asked < 20_000:
                deaf.say(b'{"command": "stats"}\n' * 50)
                asked += 50
        except TimeoutError:
            pass  # nothing more is taken: as it should be
        begin = time.monotonic()
        other = switch.client()
        other.ask("version")
        waited = time.monotonic() - begin
        deaf.close()
    if waited > 2:
        raise Broken(f"another client waited {waited:.1f} s")
    return f"{asked} requests without reading; another is answered in {waited * 1000:.0f} ms; {traffic.account()}"


def nonsense(switch):
    generator = random.Random(7)
    with Traffic(switch) as traffic:
        client = switch.client()
        refused = 0
        for length in (1, 40, 4000, 400_000):
            client.say(bytes(generator.randrange(1, 256) for _ in range(length)).replace(b"\n", b" ") + b"\n")
            answer = client.hear()
            if answer is None or answer["ok"]:
                raise Broken(f"nonsense is answered with {answer}")
            refused += 1
        client.ask("version")
    return f"{refused} lines of nonsense are refused, the next request of the same client is answered; {traffic.account()}"


def crowd(switch):
    with Traffic(switch) as traffic:
        crowd = []
        for _ in range(100):
            try:
                crowd.append(switch.client())
            except OSError:
                break
        for client in crowd:
            client.close()
        wait_for("a place", lambda: _is_served(switch))
    return f"{len(crowd)} clients at once, and one more is served when they have gone; {traffic.account()}"


def _is_served(switch):
    try:
        client = switch.client()
        client.ask("version")
        client.close()
        return True
    except (OSError, Broken):
        return False


def capture_dies(switch):
    before = switch.descriptors()
    with Traffic(switch) as traffic:
        for _ in range(5):
            client = switch.client()
            client.ask("capture", port="in", snap=64, count=1_000_000)
            if "event" not in client.hear():
                raise Broken("no packet is captured")
            client.close()
    wait_for("its descriptors", lambda: switch.descriptors() <= before + 2)
    return f"5 captures broke off, and nothing of them stays; {traffic.account()}"


def monitor_sleeps(switch):
    with Traffic(switch) as traffic:
        sleepy = switch.client()
        sleepy.ask("monitor")
        client = switch.client()
        for number in range(300):
            client.ask("add-flow", flow=f"priority={10 + number},in_port=99,send_flow_rem,actions=drop")
        client.ask("del-flows", flow="in_port=99")
        sleepy.close()
    return f"300 events that nobody read; {traffic.account()}"


def of_babble(switch):
    generator = random.Random(9)
    with Traffic(switch) as traffic:
        for _ in range(30):
            client = openflow.connect(switch.folder / "of", greet=generator.random() < 0.7)
            client.settimeout(1)
            try:
                for _ in range(40):
                    body = generator.randbytes(generator.randrange(200))
                    client.sendall(openflow.message(generator.randrange(40), body))
                client.shutdown(socket.SHUT_WR)
                while openflow.read(client) is not None:
                    pass
            except OSError:
                pass  # it hung up: it may
            client.close()
        if not openflow.is_served(switch.folder / "of"):
            raise Broken("another controller is not served")
    return f"1,200 random messages, and another controller is served; {traffic.account()}"


def of_deaf(switch):
    before = switch.resident()
    with Traffic(switch) as traffic:
        deaf = openflow.connect(switch.folder / "of")
        deaf.settimeout(0.3)
        asked = 0
        try:
            while asked < 200_000:
                deaf.sendall(openflow.flow_stats() * 500)
                asked += 500
        except (TimeoutError, OSError):
            pass  # nothing more is read of it
        served = openflow.is_served(switch.folder / "of")
        grown = switch.resident() - before
        deaf.close()
    if not served or grown > 160:
        raise Broken(f"another is served: {served}; memory grew by {grown} MiB")
    return f"{asked} questions without reading: {grown} MiB more, another is served; {traffic.account()}"


def of_dies(switch):
    with Traffic(switch) as traffic:
        for _ in range(50):
            client = openflow.connect(switch.folder / "of")
            client.sendall(openflow.message(openflow.BARRIER_REQUEST)[:5])
            client.close()
        if not openflow.is_served(switch.folder / "of"):
            raise Broken("another controller is not served")
    return f"50 died within a message; {traffic.account()}"


def of_bundle(switch):
    with Traffic(switch) as traffic:
        client = openflow.connect(switch.folder / "of")
        client.sendall(openflow.bundle_open(1))
        client.sendall(b"".join(openflow.bundle_add(1, openflow.flow_mod(number)) for number in range(1, 5001)))
        client.sendall(openflow.message(openflow.BARRIER_REQUEST))
        while (told := openflow.read(client)) is not None and told[0] != openflow.BARRIER_REPLY:
            pass
        client.close()
        asked = switch.client()
        left = len(asked.ask("dump-flows", flow="in_port=7"))
    if left:
        raise Broken(f"{left} entries of a bundle that was never committed")
    return f"a bundle of 5,000 entries goes with its controller, none of them is there; {traffic.account()}"


def of_crowd(switch):
    with Traffic(switch) as traffic:
        silent = []
        for _ in range(300):
            try:
                silent.append(openflow.connect(switch.folder / "of", greet=False))
            except OSError:
                break
        begin = time.monotonic()
        served = openflow.is_served(switch.folder / "of")
        waited = time.monotonic() - begin
        for client in silent:
            client.close()
    if not served:
        raise Broken("another controller is not served")
    return f"{len(silent)} silent connections for 64 places; another is served in {waited:.1f} s; {traffic.account()}"


def metrics_slow(switch):
    with Traffic(switch) as traffic:
        slow = []
        for _ in range(40):
            client = socket.socket(socket.AF_UNIX)
            client.connect(str(switch.folder / "metrics"))
            client.sendall(b"GET /metr")
            slow.append(client)
        page = _metrics(switch)
        for client in slow:
            client.close()
    if not page.startswith(b"HTTP/1.1 200"):
        raise Broken(f"another is answered {page[:60]}")
    return f"40 that never finish their request, for 16 places; another gets its page; {traffic.account()}"


def _metrics(switch):
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(10)
    client.connect(str(switch.folder / "metrics"))
    client.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
    page = b""
    while part := client.recv(65536):
        page += part
    client.close()
    return page


def socket_gone(switch):
    """Somebody removes the control socket's file."""
    client = switch.client()
    with Traffic(_Through(switch, client)) as traffic:
        os.unlink(switch.folder / "control")
        client.ask("version")
    return f"the file is gone, who was connected is served; {traffic.account()}"


class _Through:
    """A switch that is asked through a client that was there before."""

    def __init__(self, switch, client):
        self.switch, self.connected = switch, client

    def ledger(self):
        from bench import Ledger
        return Ledger(self.connected.ask("stats", without_tables=True))

    def check(self):
        self.switch.check()
