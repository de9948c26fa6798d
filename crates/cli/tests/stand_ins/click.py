#!/usr/bin/env python3
"""In FastClick's place in tests: speaks its command line and its control socket, and has `weir nf` forward.

WEIR is the program. STAND_IN=dies ends it a while after it began to forward.
"""

import json
import os
import re
import socket
import subprocess
import sys
import threading
import time


def option(words, name):
    return [words[place + 1] for place, word in enumerate(words) if word == name]


def forward(words, text):
    """`weir nf` between the ports of the EAL's options, on the second of its cores."""
    kind, _, entries = re.match(r"// (\S+)", text).group(1).partition(":")
    core = option(words, "-l")[0].split(",")[1]
    buffers = int(re.search(r"NB_MBUF (\d+)", text).group(1)) + 1
    command = [os.environ["WEIR"], "nf", kind, "--core", core, "--buffers", str(buffers), "--control", "stdio"]
    for port in option(words, "--vdev"):
        # It asks for the ports by their drivers' names.
        assert f"FromDPDKDevice({port.split(',')[0]}," in text, text
        command += ["--port", port]
    command += ["--entries", entries] if entries else []
    nf = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    answer(nf)
    return nf


def answer(nf):
    return next(json.loads(line) for line in nf.stdout if line.startswith("{"))


def handler(nf, name):
    end, number, what = re.match(r"(in|out)(\d)\.(count|dropped)$", name).groups()
    nf.stdin.write("stats\n")
    nf.stdin.flush()
    port = answer(nf)["ports"][int(number)]
    return str(port.get("refused" if what == "dropped" else "received" if end == "in" else "sent") or 0)


def serve(nf, path):
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    peer, _ = listener.accept()
    peer.sendall(b"Click::ControlSocket/1.3\r\n")
    for line in peer.makefile("r"):
        verb, name = line.split()
        assert verb == "READ", line
        data = handler(nf, name)
        peer.sendall(f"200 Read handler '{name}' OK\r\nDATA {len(data)}\r\n{data}".encode())


def main():
    words = sys.argv[1:]
    if words == ["--version"]:
        print("click (FastClick) stand-in")
        return
    assert words[0] == "--dpdk" and words[-2] == "--", words
    with open(words[-1]) as file:
        text = file.read()
    nf = forward(words, text)
    if os.environ.get("STAND_IN") == "dies":
        threading.Thread(target=lambda: (time.sleep(1.5), print("no more DPDK buffer", flush=True), os._exit(6))).start()
    serve(nf, re.search(r'ControlSocket\(UNIX, "([^"]+)"\)', text).group(1))


main()
