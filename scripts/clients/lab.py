"""Network namespaces, cables between them, and processes that cannot outlive us.

A namespace is anonymous: a process sleeps in it, and with that process it is gone, with everything in it.
Every process here ends with ours (`setpriv --pdeathsig`), so that a run that is killed leaves nothing
behind. Needs root. Offloads of a cable's ends are off: who reads raw frames wants whole checksums, and no
segments that the kernel would cut later.
"""

import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

DIES_WITH_US = ("setpriv", "--pdeathsig", "KILL", "--")

# What has to be there, and the Debian package that has it.
TOOLS = {
    "ip": "iproute2",
    "nsenter": "util-linux",
    "setpriv": "util-linux",
    "ethtool": "ethtool",
    "busybox": "busybox-static",
    "curl": "curl",
    "iperf3": "iperf3",
    "ping": "iputils-ping",
    "ovs-ofctl": "openvswitch-common",
    "ovs-vswitchd": "openvswitch-switch",
    "vsftpd": "vsftpd",
}


class Unready(Exception):
    """Something this run needs is missing, or did not come up; the text says what, and what to do."""


class Failed(Exception):
    """A device did not do what it should have done."""


def check_machine(*tools):
    """Refuses to begin where it could not end well."""
    if os.geteuid() != 0:
        raise Unready("network namespaces and veth pairs need root; run it as root, or through sudo")
    missing = sorted({TOOLS[tool] for tool in (*TOOLS, *tools) if not shutil.which(tool)})
    if missing:
        raise Unready(f"missing: {', '.join(missing)}; run ./x setup --test")


def wait_for(what, condition, seconds=15.0, interval=0.05):
    """Waits until `condition` returns something true, and returns it."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise Failed(f"waited {seconds:g} s for {what}")
        time.sleep(interval)


class Process:
    """A child of ours, its output in a file. One that is to be `on_time` gets a core when it wants one."""

    def __init__(self, name, words, log, environment=None, stdin=subprocess.DEVNULL, on_time=False):
        self.name, self.log, self.words = name, log, words
        with open(log, "wb") as output:
            self.child = subprocess.Popen(
                [*DIES_WITH_US, *words],
                stdin=stdin,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {})},
                start_new_session=True,
            )
        if on_time:
            self.keep_time()

    def keep_time(self):
        """Real-time priority, the lowest, for it and whatever it starts: it sleeps most of the time."""
        try:
            os.sched_setscheduler(self.child.pid, os.SCHED_RR, os.sched_param(os.sched_get_priority_min(os.SCHED_RR)))
        except (PermissionError, ProcessLookupError):
            pass  # Then it is as late as others are; or it has ended, which others notice.

    @property
    def pid(self):
        return self.child.pid

    def ended(self):
        """Its exit code, or None while it lives."""
        return self.child.poll()

    def output(self):
        return self.log.read_text(errors="replace")

    def last_words(self, lines=8):
        return "\n".join("    | " + line for line in self.output().splitlines()[-lines:])

    def check(self):
        if self.ended() is not None:
            raise Failed(f"{self.name} ended with code {self.ended()}:\n{self.last_words()}")

    def stop(self, patience=5.0, how=signal.SIGTERM):
        """Ends it and its group; returns its exit code."""
        if self.ended() is None:
            self.child.send_signal(how)
            try:
                self.child.wait(patience)
            except subprocess.TimeoutExpired:
                pass
        try:
            os.killpg(self.child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        return self.child.wait()


class Namespace:
    """A network namespace with its loopback up and IPv6 off."""

    def __init__(self, lab, name, ipv6=False):
        self.lab, self.name = lab, name
        words = ["unshare", "--net", *DIES_WITH_US, "sleep", "infinity"]
        self.holder = lab.spawn(f"namespace-{name}", words)
        ours = os.readlink("/proc/self/ns/net")
        link = f"/proc/{self.holder.pid}/ns/net"
        wait_for(f"namespace {name}", lambda: os.readlink(link) != ours, interval=0.002)
        off = "" if ipv6 else "echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6; " \
            "echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6; "
        self.run("sh", "-c", f"[ ! -d /proc/sys/net/ipv6 ] || {{ {off} :; }}; ip link set lo up")

    def enter(self, *words):
        """A command, as it runs inside."""
        return ["nsenter", f"--net=/proc/{self.holder.pid}/ns/net", "--", *map(str, words)]

    def run(self, *words, **options):
        """Runs a tool inside to its end; returns what it printed."""
        return run(*self.enter(*words), **options)

    def tries(self, *words, seconds=30):
        """Whether a tool that runs inside is content."""
        done = subprocess.run([*DIES_WITH_US, *self.enter(*words)], stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=seconds, check=False)
        return done.returncode == 0

    def spawn(self, name, *words, **options):
        return self.lab.spawn(f"{name}-{self.name}", self.enter(*words), **options)

    def ip(self, *words):
        return self.run("ip", *words)

    def address(self, interface, address):
        self.ip("addr", "add", address, "dev", interface)


class Lab:
    """A folder, namespaces and processes; all gone at the end, in reverse order."""

    def __init__(self, keep=None):
        self.folder = pathlib.Path(keep) if keep else pathlib.Path(tempfile.mkdtemp(prefix="weir-clients-"))
        self.folder.mkdir(parents=True, exist_ok=True)
        self.keep = keep
        self.processes = []

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        for process in reversed(self.processes):
            process.stop(patience=2.0)
        if not self.keep:
            shutil.rmtree(self.folder, ignore_errors=True)

    def namespace(self, name, **options):
        return Namespace(self, name, **options)

    def spawn(self, name, words, **options):
        process = Process(name, list(map(str, words)), self.folder / f"{name}.log", **options)
        self.processes.append(process)
        return process

    def cable(self, near, near_name, far, far_name, mtu=1500):
        """A veth pair between two namespaces, both ends up."""
        near.ip("link", "add", near_name, "mtu", mtu, "type", "veth",
                "peer", "name", far_name, "mtu", mtu, "netns", far.holder.pid)
        for end, name in ((near, near_name), (far, far_name)):
            end.run("ethtool", "-K", name, "tx", "off", "rx", "off", "tso", "off", "gso", "off", "gro", "off",
                    "txvlan", "off", "rxvlan", "off", "sg", "off")
            end.ip("link", "set", name, "up")

    def bridge(self, namespace, name, interfaces):
        """A bridge of the kernel's in a namespace: a network that is not under test."""
        namespace.ip("link", "add", name, "type", "bridge")
        for interface in interfaces:
            namespace.ip("link", "set", interface, "master", name)
        namespace.ip("link", "set", name, "up")


def run(*words, seconds=30, environment=None, stdin=None):
    """Runs a tool to its end; returns what it printed, complaints too. One that fails raises Failed."""
    words = list(map(str, words))
    try:
        done = subprocess.run([*DIES_WITH_US, *words], input=stdin, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=seconds, check=False,
                              env={**os.environ, **(environment or {})},
                              **({} if stdin is not None else {"stdin": subprocess.DEVNULL}))
    except subprocess.TimeoutExpired as late:
        raise Failed(f"`{' '.join(words)}` did not end in {seconds} s") from late
    if done.returncode != 0:
        raise Failed(f"`{' '.join(words)}` ended with code {done.returncode}:\n{done.stdout.rstrip()}")
    return done.stdout
