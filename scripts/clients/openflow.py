"""As much of OpenFlow 1.3 as a misbehaving client needs: messages made byte by byte, and a socket for them.

The well-behaved clients are other people's. This one says what no library would let it say.
"""

import socket
import struct

HELLO, ERROR, ECHO_REQUEST, ECHO_REPLY, EXPERIMENTER, FEATURES_REQUEST = 0, 1, 2, 3, 4, 5
FLOW_MOD, MULTIPART_REQUEST, BARRIER_REQUEST, BARRIER_REPLY = 14, 18, 20, 21
VERSION = 4
HEADER = struct.Struct("!BBHI")
ADD, DELETE = 0, 3
ANY = 0xFFFFFFFF
ONF = 0x4F4E4600


def message(kind, body=b"", xid=1, version=VERSION, length=None):
    """A message; with a length of its own choice if it is to lie."""
    return HEADER.pack(version, kind, HEADER.size + len(body) if length is None else length, xid) + body


def hello():
    return message(HELLO, struct.pack("!HHI", 1, 8, 1 << VERSION))


def flow_mod(command, udp_port=None, output=2, priority=1, xid=1):
    """Adds or deletes an entry for UDP to a port, or one for all packets."""
    fields = b""
    if udp_port is not None:
        fields = (struct.pack("!IH", 0x80000A02, 0x0800) + struct.pack("!IB", 0x80001401, 17)
                  + struct.pack("!IH", 0x80002002, udp_port))
    length = 4 + len(fields)
    match = struct.pack("!HH", 1, length) + fields + bytes(-length % 8)
    action = struct.pack("!HHIH6x", 0, 16, output, 0)
    instructions = struct.pack("!HH4x", 4, 8 + len(action)) + action if command == ADD else b""
    fixed = struct.pack("!QQBBHHHIIIH2x", 0, 0, 0, command, 0, 0, priority, ANY, ANY, ANY, 0)
    return message(FLOW_MOD, fixed + match + instructions, xid)


def bundle_control(bundle, step, xid=1):
    """A step of a bundle (ONF's extension to 1.3): 0 opens it, 4 commits it."""
    return message(EXPERIMENTER, struct.pack("!IIIHH", ONF, 2300, bundle, step, 3), xid)


def bundle_add(bundle, inner, xid=1):
    """Adds a message to a bundle; both have one transaction."""
    return message(EXPERIMENTER, struct.pack("!IIIHH", ONF, 2301, bundle, 0, 3) + inner, xid)


def flow_stats(xid=1):
    """Asks for every entry of every table."""
    body = struct.pack("!HH4x", 1, 0) + struct.pack("!B3xII4xQQ", 0xFF, ANY, ANY, 0, 0) + struct.pack("!HH4x", 1, 4)
    return message(MULTIPART_REQUEST, body, xid)


class Client:
    """A connection to a switch, from inside its namespace's loopback."""

    def __init__(self, address, greet=True):
        self.socket = socket.create_connection(address, timeout=5)
        self.buffer = b""
        if greet:
            self.send(hello())

    def send(self, data):
        self.socket.sendall(data)

    def read(self):
        """The next message's kind, transaction and body; None if the switch hung up."""
        while True:
            if len(self.buffer) >= HEADER.size:
                _, kind, length, xid = HEADER.unpack_from(self.buffer)
                if len(self.buffer) >= length:
                    body, self.buffer = self.buffer[HEADER.size:length], self.buffer[length:]
                    return kind, xid, body
            data = self.socket.recv(65536)
            if not data:
                return None
            self.buffer += data

    def wait(self, kind):
        """Reads until a message of this kind comes; answers echoes meanwhile."""
        while True:
            told = self.read()
            if told is None:
                return None
            if told[0] == kind:
                return told
            if told[0] == ECHO_REQUEST:
                self.send(message(ECHO_REPLY, told[2], told[1]))

    def barrier(self):
        """Waits until everything sent was done."""
        self.send(message(BARRIER_REQUEST, xid=99))
        return self.wait(BARRIER_REPLY)

    def close(self):
        self.socket.close()


def noise(random):
    """Bytes that may look like a message: a header that is right, half right, or nothing."""
    body = random.randbytes(random.choice((0, 1, 4, 8, 16, 40, 48, 100, 1000)))
    how = random.random()
    if how < 0.7:
        return message(random.randrange(36), body, random.getrandbits(32))
    if how < 0.8:
        return message(random.randrange(256), body, 1, random.randrange(256))
    if how < 0.9:
        return message(FLOW_MOD, body, 1, length=random.randrange(8, 65536))
    return body
