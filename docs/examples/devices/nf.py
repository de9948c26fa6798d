#!/usr/bin/env python3
"""An adapter in Python: `weir nf` behind lines of JSON. docs/devices.md says what each line holds.

    weir bench --dut exec:docs/examples/devices/nf.py --nf l3fwd:10 --size 64

WEIR names the program, `weir` on the PATH otherwise. Your own dataplane takes the place of `weir nf` here.
"""

import json
import os
import subprocess
import sys

WEIR = os.environ.get("WEIR", "weir")


def describe(_):
    version = subprocess.run([WEIR, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    return {"version": version, "wirings": ["vhost", "memif", "fed"], "functions": ["l2fwd", "l3fwd", "firewall"]}


class Dataplane:
    """The dataplane, once it was started."""

    process = None

    def start(self, asked):
        command = [WEIR, "nf", asked["kind"], "--core", str(asked["core"]), "--buffers", str(asked["buffers"])]
        command += ["--max-frame", str(asked["max_frame"]), "--control", "stdio"]
        if asked["entries"]:
            command += ["--entries", str(asked["entries"])]
        if asked["huge_pages"]:
            command += ["--huge-pages"]
        for port in asked["ports"]:
            command += ["--port", port]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        ready = self.answer()
        return {"threads": [[self.process.pid, ready["tid"]]], "description": " ".join(command)}

    def counters(self, _):
        stats = self.ask("stats")
        drops = {f"dropped {reason}": count for reason, count in stats["drops"].items()}
        return {"ports": stats["ports"], "details": drops}

    def stop(self, _):
        if self.process:
            self.process.stdin.write("stop\n")
            self.process.stdin.close()
            self.process.wait(timeout=5)
        return {}

    def ask(self, words):
        self.process.stdin.write(words + "\n")
        self.process.stdin.flush()
        return self.answer()

    def answer(self):
        for line in self.process.stdout:
            if line.startswith("{"):
                return json.loads(line)
        raise RuntimeError(f"weir nf ended by itself with {self.process.wait()}")


def main():
    dataplane = Dataplane()
    answers = {"describe": describe, "start": dataplane.start, "counters": dataplane.counters, "stop": dataplane.stop}
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            answer = answers[asked["ask"]](asked)
        except Exception as error:  # whatever went wrong is the lab's to tell
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


main()
