#!/usr/bin/env python3
"""Kills a server for several, or its PostgreSQL, again and again while runs are pushed to it, and says what it saw.

    scripts/central_faults.py [--kills 200] [--on postgres|file] [--weir target/debug/weir] [--seed 1]

A simulated device is measured once; its bundle is pushed under one identity after another by four clients at a time. Every
moment, at a random time, the server of pages or the database server is killed as a crash would (SIGKILL) and started again.
In the end `weir verify` derives every run that is there again, and:

- every run that was acknowledged is there, whole;
- no run is there half: each has all of the points and trials of the one that was sent;
- what was sent again after it was kept is known, and there once.

Exit codes: 0 all of it holds; 1 something does not; 2 it cannot be tried here. docs/central.md has what it printed.
"""

import argparse
import collections
import concurrent.futures
import gzip
import hashlib
import http.client
import io
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PLAN = """
name = "faults"
nf = "l2fwd"
dut = "simulated"
wiring = "vhost"
trace = "tr3i"
size = [64, 128, 256, 512, 1024, 1500]
[mrr]
trials = 20
duration = "100ms"
[simulated]
capacity = "1Mpps"
"""
CLIENTS = 4
SETTINGS = ["listen_addresses=", "autovacuum=off", "jit=off", "shared_buffers=16MB"]


def say(text):
    print(f"{time.strftime('%H:%M:%S')}  {text}", flush=True)


class Postgres:
    """A server in a folder of its own. It syncs, as a real one does."""

    def __init__(self, folder):
        versions = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
        if not versions:
            sys.exit("central_faults: PostgreSQL is not installed: ./x setup --test")
        self.programs = versions[-1].parent
        self.folder = folder
        self.as_user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups", "--"] if os.geteuid() == 0 else []
        self.data, self.run = folder / "data", folder / "run"
        for path in (self.data, self.run):
            path.mkdir()
            if self.as_user:
                shutil.chown(path, "postgres", "postgres")
        subprocess.run([*self.as_user, self.programs / "initdb", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--username=weir",
                        "-D", self.data], check=True, stdout=subprocess.DEVNULL, cwd="/")
        self.process = None
        self.start()

    def address(self):
        return f"postgres://weir@{str(self.run).replace('/', '%2F')}/postgres?connect_timeout=2"

    def start(self):
        words = [*self.as_user, self.programs / "postgres", "-D", self.data, "-c", f"unix_socket_directories={self.run}"]
        for setting in SETTINGS:
            words += ["-c", setting]
        log = open(self.folder / "log", "a")
        for _ in range(40):
            self.process = subprocess.Popen(words, stdout=log, stderr=log, cwd="/", stdin=subprocess.DEVNULL)
            for _ in range(100):
                if self.process.poll() is not None:
                    break
                if subprocess.run([self.programs / "pg_isready", "-q", "-h", self.run]).returncode == 0:
                    return
                time.sleep(0.05)
            # Its children of before hold the memory that they shared for a moment.
            time.sleep(0.2)
        raise SystemExit(f"central_faults: PostgreSQL does not start: {(self.folder / 'log').read_text()[-1000:]}")

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        time.sleep(0.2)
        (self.data / "postmaster.pid").unlink(missing_ok=True)

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait()


class Pages:
    """The server that runs are pushed to."""

    def __init__(self, weir, database):
        self.weir, self.database, self.process, self.port = weir, database, None, 0
        self.start()

    def start(self):
        words = [self.weir, "serve", "--allow-push", "--listen", f"127.0.0.1:{self.port}", "--db", self.database]
        for _ in range(100):
            self.process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            line = self.process.stdout.readline()
            if "http://" in line:
                self.port = int(line.split("http://127.0.0.1:")[1].split(" ")[0])
                return
            self.process.wait()
            time.sleep(0.1)
        raise SystemExit("central_faults: weir serve does not start")

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


def sha256(content):
    return hashlib.sha256(content).hexdigest()


class Bundle:
    """A bundle, of which more are made under other identities."""

    def __init__(self, content):
        with tarfile.open(fileobj=io.BytesIO(gzip.decompress(content))) as archive:
            self.parts = {member.name: archive.extractfile(member).read() for member in archive.getmembers()}
        self.trials = json.loads(self.parts["manifest.json"])["trials"]
        self.points = json.loads(self.parts["manifest.json"])["points"]

    def named(self, number):
        uuid, parts = f"01938f2e-0000-7000-8000-{number:012}", dict(self.parts)
        head, manifest = json.loads(parts["run.json"]), json.loads(parts["manifest.json"])
        for document in (head, manifest):
            document["uuid"], document["name"] = uuid, f"faults-{number}"
        parts["run.json"] = (json.dumps(head, indent=2) + "\n").encode()
        for part in manifest["parts"]:
            if part["name"] == "run.json":
                part["bytes"], part["sha256"] = len(parts["run.json"]), sha256(parts["run.json"])
        parts["manifest.json"] = (json.dumps(manifest, indent=2) + "\n").encode()
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
            for name, content in parts.items():
                member = tarfile.TarInfo(name)
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
        # Two blocks of zeros end it; more would be padding that the reader counts.
        content = packed.getvalue()
        end = len(content.rstrip(b"\0"))
        content = content[:-(-end // 512) * 512] + bytes(1024)
        return uuid, gzip.compress(content, 6, mtime=0)


def push(pages, token, content):
    """The status of a push; nothing where the server went away."""
    try:
        connection = http.client.HTTPConnection("127.0.0.1", pages.port, timeout=120)
        connection.request("POST", "/api/v1/runs?visibility=public", content,
                           {"Authorization": f"Bearer {token}", "Content-Type": "application/gzip"})
        answer = connection.getresponse()
        answer.read()
        return answer.status
    except (OSError, http.client.HTTPException):
        return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--on", choices=("postgres", "file"), default="postgres")
    parser.add_argument("--weir", default=str(ROOT / "target/release/weir"))
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if not pathlib.Path(options.weir).exists():
        sys.exit(f"central_faults: there is no {options.weir}; name a built weir with --weir")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="weir-faults-"))
    folder.chmod(0o755)
    postgres = None
    try:
        if options.on == "postgres":
            (folder / "postgres").mkdir(mode=0o755)
            postgres = Postgres(folder / "postgres")
        return tried(options, folder, postgres)
    finally:
        if postgres:
            postgres.stop()
        shutil.rmtree(folder, ignore_errors=True)


def tried(options, folder, postgres):
    dice = random.Random(options.seed)
    database = postgres.address() if postgres else str(folder / "central.db")

    def weir(*words):
        done = subprocess.run([options.weir, *words], capture_output=True, text=True, cwd=folder,
                              env={**os.environ, "WEIR_LEASES": str(folder / "leases")})
        if done.returncode != 0:
            raise SystemExit(f"central_faults: weir {' '.join(words)} ended with {done.returncode}: {done.stderr}")
        return done.stdout

    (folder / "plan.toml").write_text(PLAN)
    weir("bench", "plan.toml", "--db", "own.db", "-o", "page.html")
    weir("export", "@last", "--db", "own.db", "--bundle", "-o", "run.weir")
    bundle = Bundle((folder / "run.weir").read_bytes())
    token = json.loads(weir("account", "add", "faults", "--quota-runs", "1000000", "--quota-bytes", "1TiB", "--json", "--db", database))["token"]
    pages = Pages(options.weir, database)
    done, counts, acknowledged, lock = threading.Event(), collections.Counter(), set(), threading.Lock()
    next_number = iter(range(10**9))

    def client():
        while not done.is_set():
            with lock:
                number = next(next_number)
            uuid, content = bundle.named(number)
            # Until it is acknowledged, as `weir push` does.
            while not done.is_set():
                status = push(pages, token, content)
                with lock:
                    counts[status] += 1
                    if status in (200, 201):
                        acknowledged.add(uuid)
                if status in (200, 201):
                    break
                if status not in (None, 408, 429, 500, 503):
                    raise SystemExit(f"central_faults: a push was answered with {status}")
                time.sleep(0.05)

    begin = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
        clients = [pool.submit(client) for _ in range(CLIENTS)]
        for kill in range(options.kills):
            time.sleep(dice.uniform(0.0, 0.6))
            victim = postgres if postgres and dice.random() < 0.4 else pages
            victim.kill()
            victim.start()
            if (kill + 1) % 20 == 0:
                say(f"{kill + 1} kills, {len(acknowledged)} runs acknowledged")
        time.sleep(3)
        done.set()
        for one in clients:
            one.result()
    pages.kill()
    seconds = time.monotonic() - begin
    runs = json.loads(weir("runs", "--json", "--db", database))["runs"]
    there = {run["uuid"] for run in runs}
    lost = acknowledged - there
    half = [run["name"] for run in runs if (run["points"], run["trials"], run["state"]) != (bundle.points, bundle.trials, "finished")]
    wrong = []
    for run in runs:
        verified = subprocess.run([options.weir, "verify", run["uuid"], "--db", database], capture_output=True, text=True)
        if verified.returncode != 0:
            wrong.append(run["name"])
    statuses = ", ".join(f"{count} times {'no answer' if status is None else status}" for status, count in sorted(counts.items(), key=str))
    say(f"{options.kills} kills in {seconds:.0f} s on {options.on}; pushes: {statuses}")
    say(f"{len(acknowledged)} acknowledged, {len(there)} there, {len(runs) - len(there)} twice, {len(lost)} lost, {len(half)} half, "
        f"{len(wrong)} that `weir verify` refuses")
    return 1 if lost or half or wrong or len(runs) != len(there) else 0


if __name__ == "__main__":
    sys.exit(main())
