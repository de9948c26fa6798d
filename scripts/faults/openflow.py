"""As much of OpenFlow 1.3 as a fault needs."""

import socket
import struct

HELLO, ERROR, ECHO_REQUEST, FEATURES_REQUEST, FEATURES_REPLY = 0, 1, 2, 5, 6
FLOW_MOD, MULTIPART_REQUEST, BARRIER_REQUEST, BARRIER_REPLY = 14, 18, 20, 21
EXPERIMENTER = 4
ONF = 0x4F4E4600


def message(kind, body=b"", xid=1):
    return struct.pack("!BBHI", 4, kind, 8 + len(body), xid) + body


def flow_stats():
    """All flow entries, please."""
    return message(MULTIPART_REQUEST, struct.pack("!HH4x", 1, 0) + struct.pack("!B3xII4xQQ", 255, 0xFFFFFFFF, 0xFFFFFFFF, 0, 0) +
                   struct.pack("!HH4x", 1, 4))


def flow_mod(priority):
    """An entry that drops what comes in by a port that is not there."""
    match = struct.pack("!HHIII", 1, 12, 0x80000004, 7, 0)
    body = struct.pack("!QQBBHHHIIIH2x", 0, 0, 0, 0, 0, 0, priority, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0) + match
    return message(FLOW_MOD, body)


def bundle_open(number):
    return message(EXPERIMENTER, struct.pack("!IIIHH", ONF, 2300, number, 0, 3))


def bundle_add(number, inner):
    return message(EXPERIMENTER, struct.pack("!IIIHH", ONF, 2301, number, 0, 3) + inner)


def connect(path, greet=True):
    """A connection, once both sides said hello."""
    client = socket.socket(socket.AF_UNIX)
    client.settimeout(10)
    client.connect(str(path))
    if greet:
        client.sendall(message(HELLO))
        read(client)
    return client


def read(client):
    """The next message: its kind and its body; none if the switch hung up."""
    header = _exactly(client, 8)
    if header is None:
        return None
    _, kind, length, _ = struct.unpack("!BBHI", header)
    return kind, _exactly(client, length - 8)


def _exactly(client, count):
    found = b""
    while len(found) < count:
        part = client.recv(count - len(found))
        if not part:
            return None
        found += part
    return found


def is_served(path):
    """Whether another controller is answered."""
    client = connect(path)
    client.sendall(message(BARRIER_REQUEST, xid=9))
    while (told := read(client)) is not None and told[0] != BARRIER_REPLY:
        pass
    client.close()
    return told is not None
