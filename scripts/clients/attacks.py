"""Controllers that do harm, each a program of its own: `attacks.py ADDRESS PORT ATTACK SECONDS SEED`.

At the end it prints, as JSON, what it sent and what it was told.
"""

import collections
import json
import random
import resource
import socket
import struct
import sys
import time

import openflow
from openflow import Client


def flood(address, end, _random):
    """Flow-mods as fast as they are taken, 100 entries added and deleted over and over, and never a pause."""
    client = Client(address)
    client.wait(openflow.HELLO)
    batch = b"".join(openflow.flow_mod(openflow.ADD, port) for port in range(1, 101))
    batch += b"".join(openflow.flow_mod(openflow.DELETE, port) for port in range(1, 101))
    sent = 0
    while time.monotonic() < end:
        client.send(batch)
        sent += 200
        if sent % 2000 == 0 and client.barrier() is None:
            break
    return {"flow_mods": sent}


def deaf(address, end, _random):
    """Asks for everything again and again, and never reads an answer."""
    client = Client(address)
    client.socket.settimeout(1)
    asked = 0
    question = openflow.flow_stats() * 50
    while time.monotonic() < end:
        try:
            client.send(question)
            asked += 50
        except TimeoutError:
            continue  # nothing is taken any more: as it should be
        except OSError:
            client = Client(address)
            client.socket.settimeout(1)
    return {"asked": asked}


def crowd(address, end, _random):
    """A thousand connections, every other one silent."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    clients, refused = [], 0
    for number in range(1000):
        try:
            clients.append(Client(address, greet=number % 2 == 0))
        except OSError:
            refused += 1
    while time.monotonic() < end:
        time.sleep(0.1)
    alive = 0
    for client in clients:
        try:
            client.socket.settimeout(0.01)
            alive += bool(client.socket.recv(16))
        except OSError:
            pass
    return {"opened": len(clients), "refused": refused, "greeted": alive}


def babble(address, end, generator):
    """Random messages, half of them with a right header, some a byte at a time."""
    sent, connections, errors = 0, 0, collections.Counter()
    while time.monotonic() < end:
        try:
            client = Client(address)
            connections += 1
            client.socket.settimeout(0.2)
            for _ in range(200):
                data = b"".join(openflow.noise(generator) for _ in range(20))
                client.send(data)
                sent += 20
            client.socket.shutdown(socket.SHUT_WR)
            while (told := client.read()) is not None:
                if told[0] == openflow.ERROR:
                    errors[struct.unpack_from("!HH", told[2])] += 1
        except OSError:
            pass  # it hung up: it may
        finally:
            client.close()
    kinds = {f"{kind}/{code}": count for (kind, code), count in sorted(errors.items())}
    return {"messages": sent, "connections": connections, "errors": kinds}


def sleepy(address, end, _random):
    """Is sent packets by a flow, and reads none."""
    client = Client(address)
    client.barrier()
    while time.monotonic() < end:
        time.sleep(0.1)
    return {}


def bundles(address, end, _random):
    """Opens bundles, fills them as fast as it can, and never commits one."""
    client = Client(address)
    client.wait(openflow.HELLO)
    client.socket.settimeout(5)
    client.send(b"".join(openflow.bundle_control(bundle, 0) for bundle in range(8)))
    added, refused = 0, 0
    while time.monotonic() < end:
        batch = b"".join(
            openflow.bundle_add(number % 8, openflow.flow_mod(openflow.ADD, 1 + number % 60000, priority=number % 9))
            for number in range(added, added + 500))
        client.send(batch + openflow.message(openflow.BARRIER_REQUEST, xid=99))
        added += 500
        while (told := client.read()) is not None and told[0] != openflow.BARRIER_REPLY:
            refused += told[0] == openflow.ERROR
    return {"added": added, "refused": refused}


def silent(address, end, _random):
    """As many connections as there are slots, which say nothing and are made again when they are closed."""
    kept = [socket.create_connection(address, timeout=5) for _ in range(64)]
    made = len(kept)
    for connection in kept:
        connection.setblocking(False)
    while time.monotonic() < end:
        for place, connection in enumerate(kept):
            try:
                while connection.recv(4096):
                    pass  # its hello
            except BlockingIOError:
                continue
            except OSError:
                pass
            connection.close()
            kept[place] = socket.create_connection(address, timeout=5)
            kept[place].setblocking(False)
            made += 1
        time.sleep(0.01)
    return {"made": made}


def storm(address, end, _random):
    """Five hundred silent connections a second, each kept as long as the switch keeps it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(16384, hard), hard))
    kept, made, refused = collections.deque(), 0, 0
    begin = time.monotonic()
    while (now := time.monotonic()) < end:
        while made < (now - begin) * 500:
            try:
                kept.append(socket.create_connection(address, timeout=5))
            except OSError:
                refused += 1
            made += 1
        while len(kept) > 2000:
            kept.popleft().close()
        time.sleep(0.002)
    return {"made": made, "refused": refused}


ATTACKS = {attack.__name__: attack
           for attack in (flood, deaf, crowd, babble, sleepy, bundles, silent, storm)}


def main(host, port, name, seconds, seed):
    end = time.monotonic() + float(seconds)
    print(json.dumps(ATTACKS[name]((host, int(port)), end, random.Random(int(seed)))))


if __name__ == "__main__":
    main(*sys.argv[1:])
