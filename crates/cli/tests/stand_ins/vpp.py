#!/usr/bin/env python3
"""In VPP's place in tests: reads its start-up file, speaks its command line at a socket, and has `weir nf` forward.

WEIR is the program. STAND_IN=dies ends it a while after it began to forward, STAND_IN=refuses has it know no lists of rules.
"""

import json
import os
import re
import socket
import subprocess
import sys
import threading
import time

VERSION = "vpp v25.10-stand-in built by weir on here at now"
GREETING = bytes([255, 252, 34, 255, 253, 24, 255, 250, 24, 1, 255, 240])
ANSWER = bytes([255, 250, 24, 0]) + b"vppctl" + bytes([255, 240])


class Vpp:
    def __init__(self, conf):
        self.core = re.search(r"corelist-workers (\d+)", conf).group(1)
        self.buffers = re.search(r"buffers-per-numa (\d+)", conf).group(1)
        self.ports, self.sockets, self.up, self.nf = [], {}, 0, None
        self.kind, self.entries, self.lists = "l2fwd", None, 0

    def add(self, name, vdev):
        self.ports.append((name, vdev))

    def do(self, command):
        """What a command prints."""
        words = command.split()
        match words:
            case ["show", "version"]:
                return VERSION
            case ["create", "vhost-user", "socket", path, *rest]:
                number = len(self.ports)
                name = f"VirtualEthernet0/0/{number}"
                self.add(name, f"net_vhost{number},iface={path},queues=1,client={int('server' not in rest)}")
                return name
            case ["create", "memif", "socket", "id", number, "filename", path]:
                self.sockets[number] = path
            case ["create", "interface", "memif", "id", number, "socket-id", place, role, "ring-size", _, "buffer-size", size, "no-zero-copy", *_]:
                role = "server" if role == "master" else "client"
                path = self.sockets[place]
                vdev = f"net_memif{len(self.ports)},role={role},id={number},socket={path},socket-abstract=no,rsize=10,bsize={size}"
                self.add(f"memif{place}/{number}", vdev)
            case ["exec", path]:
                with open(path) as file:
                    for line in file:
                        if printed := self.read(line):
                            print(printed, flush=True)
                            return "exec: CLI line error: "
            case ["set", "interface", "l2", "xconnect", *_] | ["set", "acl-plugin", "interface", *_]:
                pass
            case ["set", "interface", "secondary-mac-address" | "ip", *_] | ["ip", "neighbor", *_]:
                pass
            case ["set", "interface", "state", _, "up"]:
                self.up += 1
                if self.up == len(self.ports):
                    self.forward()
            case ["show", "errors"]:
                return "   Count   Node   Reason   Severity"
            case ["show", "interface"]:
                return self.interfaces()
            case _:
                return f"unknown input `{command}'"
        return ""

    def read(self, line):
        """Does a line of a file; what is wrong with it."""
        if line.startswith("set acl-plugin acl "):
            if os.environ.get("STAND_IN") == "refuses":
                return "set acl-plugin: unknown input `acl'"
            self.kind, self.entries = "firewall", line.count(",") + 1
        elif line.startswith("ip route add "):
            self.kind, self.entries = "l3fwd", (self.entries or 0) + 1
        else:
            return f"unknown input `{line}'"
        return ""

    def forward(self):
        command = [os.environ["WEIR"], "nf", self.kind, "--core", self.core, "--buffers", self.buffers, "--control", "stdio"]
        for _, vdev in self.ports:
            command += ["--port", vdev]
        command += ["--entries", str(self.entries)] if self.entries else []
        self.nf = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.answer()
        if os.environ.get("STAND_IN") == "dies":
            words = "received signal SIGSEGV, PC 0x0"
            threading.Thread(target=lambda: (time.sleep(1.5), print(words, flush=True), os._exit(139))).start()

    def answer(self):
        return next(json.loads(line) for line in self.nf.stdout if line.startswith("{"))

    def interfaces(self):
        self.nf.stdin.write("stats\n")
        self.nf.stdin.flush()
        lines = ["Name  Idx  State  MTU (L3/IP4/IP6/MPLS)  Counter  Count"]
        for (name, _), port in zip(self.ports, self.answer()["ports"]):
            lines += [f"{name:32} 1 up 9000/0/0/0 rx packets {port['received']}", f"    tx packets {port['sent']}"]
        return "\n".join(lines)


def serve(vpp, path):
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    peer, _ = listener.accept()
    peer.sendall(GREETING)
    assert peer.recv(4096) == ANSWER
    while command := peer.recv(4096):
        printed = vpp.do(command.decode().strip())
        peer.sendall(printed.replace("\n", "\r\n").encode() + b"\r\n\0" if printed else b"\0")


def main():
    assert sys.argv[1] == "-c", sys.argv
    with open(sys.argv[2]) as file:
        conf = file.read()
    if script := re.search(r"  exec (\S+)", conf):
        with open(script.group(1)) as file:
            assert file.read() == "show version\n"
        print(VERSION, flush=True)
        time.sleep(30)
        return
    serve(Vpp(conf), re.search(r"cli-listen (\S+)", conf).group(1))


main()
