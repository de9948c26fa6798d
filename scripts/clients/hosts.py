"""Hosts: namespaces with an interface and an address, that ping, browse, serve, stream and ask for leases."""

import json
import subprocess
import time

from lab import DIES_WITH_US, Failed, run, wait_for

# What the DHCP client of busybox calls with what it was given.
LEASED = """#!/bin/sh
[ "$1" = bound ] || exit 0
ip addr flush dev "$interface"
ip addr add "$ip/$subnet" dev "$interface"
[ -z "$router" ] || ip route replace default via "$router"
"""


class Host:
    """A namespace behind a cable to a switch."""

    def __init__(self, lab, switch, port, name, address=None, gateway=None, mac=None):
        self.lab, self.name, self.interface, self.mac = lab, name, "eth0", mac
        self.space = lab.namespace(name)
        lab.cable(self.space, self.interface, switch, port)
        if mac:
            self.space.ip("link", "set", self.interface, "address", mac)
        if address:
            self.space.address(self.interface, address)
            self.address = address.split("/")[0]
        if gateway:
            self.space.ip("route", "add", "default", "via", gateway)

    def pings(self, address, seconds=1):
        """Whether an answer comes."""
        return self.space.tries("ping", "-n", "-c", "1", "-W", seconds, address)

    def ping(self, address, seconds=10):
        """Pings until an answer comes."""
        wait_for(f"{self.name} to reach {address}", lambda: self.pings(address), seconds, interval=0.1)

    def answers(self):
        """Answers to pings that its kernel has counted, be it that nobody waits for them any more."""
        names, values = (line.split()[1:] for line in run(*self.space.enter("cat", "/proc/net/snmp")).splitlines()
                         if line.startswith("Icmp:"))
        return int(values[names.index("InEchoReps")])

    def lost(self, address, count=50):
        """How many of so many pings, 10 ms apart, get no answer within five seconds. Once an answer has come, `ping` itself
        waits for twice the longest way only, too short for the last ones on a busy machine: its kernel counts them."""
        before = self.answers()
        words = self.space.enter("ping", "-n", "-c", str(count), "-i", "0.01", address)
        done = subprocess.run([*DIES_WITH_US, *words], capture_output=True, text=True, timeout=60, check=False)
        if " received" not in done.stdout:
            raise Failed(f"{self.name}: ping {address}: {done.stdout}{done.stderr}")
        twice = done.stdout.count("(DUP!)")
        end = time.monotonic() + 5
        while True:
            missing = count - (self.answers() - before - twice)
            if missing <= 0 or time.monotonic() > end:
                return max(missing, 0)
            time.sleep(0.05)

    def serve_web(self, text, port=80):
        """A web server with one page, which listens when this returns; its log names who asked."""
        folder = self.lab.folder / f"web-{self.name}-{port}"
        folder.mkdir()
        (folder / "index.html").write_text(text)
        server = self.space.spawn(f"httpd-{port}", "busybox", "httpd", "-f", "-vv", "-p", f"0.0.0.0:{port}", "-h", folder)
        wait_for(f"a server at port {port} of {self.name}", lambda: self.listens(port))
        return server

    def listens(self, port):
        """Whether a TCP server waits at this port, told without a connection, which its log would name."""
        command = self.space.enter("ss", "--tcp", "--listening", "--no-header", f"sport = :{port}")
        return bool(subprocess.run([*DIES_WITH_US, *command], capture_output=True, text=True, check=True).stdout)

    def browse(self, address, port=80, seconds=3):
        """The page of a web server, or None."""
        words = self.space.enter("curl", "--silent", "--fail", "--max-time", seconds, f"http://{address}:{port}/")
        done = subprocess.run([*DIES_WITH_US, *words], capture_output=True, text=True, timeout=seconds + 20,
                              check=False)
        return done.stdout if done.returncode == 0 else None

    def serve_files(self, files):
        """An FTP server with these files, by name, for everybody."""
        folder = self.lab.folder / f"ftp-{self.name}"
        folder.mkdir()
        for name, content in files.items():
            (folder / name).write_bytes(content)
        settings = self.lab.folder / f"vsftpd-{self.name}.conf"
        settings.write_text("\n".join([
            "listen=YES", "background=NO", "anonymous_enable=YES", "no_anon_password=YES", "local_enable=NO",
            f"anon_root={folder}", "connect_from_port_20=YES", "seccomp_sandbox=NO", ""]))
        return self.space.spawn("vsftpd", "vsftpd", settings)

    def fetch(self, url, *options, seconds=5):
        """What an FTP server has there, or None."""
        words = self.space.enter("curl", "--silent", "--fail", "--max-time", seconds, *options, url)
        done = subprocess.run([*DIES_WITH_US, *words], capture_output=True, timeout=seconds + 20, check=False)
        return done.stdout if done.returncode == 0 else None

    def serve_leases(self, begin, end, router, fixed=None, mask="255.255.255.0"):
        """A DHCP server; `fixed` are addresses of certain cards."""
        file = self.lab.folder / f"udhcpd-{self.name}.conf"
        leases = self.lab.folder / f"udhcpd-{self.name}.leases"
        leases.touch()
        file.write_text(f"start {begin}\nend {end}\ninterface {self.interface}\nlease_file {leases}\n"
                        f"option subnet {mask}\noption router {router}\noption lease 600\n"
                        + "".join(f"static_lease {mac} {address}\n" for mac, address in (fixed or {}).items()))
        self.space.spawn("udhcpd", "busybox", "udhcpd", "-f", file)

    def lease(self, seconds=15):
        """Asks for an address, takes it, and returns it."""
        script = self.lab.folder / "leased.sh"
        if not script.exists():
            script.write_text(LEASED)
            script.chmod(0o755)
        self.space.run("busybox", "udhcpc", "-q", "-n", "-f", "-i", self.interface, "-s", script, "-t", seconds,
                       "-T", 1, "-A", 1, seconds=seconds + 15)
        shown = json.loads(self.space.ip("-j", "addr", "show", "dev", self.interface))
        self.address = next(address["local"] for address in shown[0]["addr_info"] if address["family"] == "inet")
        return self.address

    def received(self):
        """Packets that its interface has received."""
        shown = json.loads(self.space.ip("-j", "-s", "link", "show", "dev", self.interface))
        return shown[0]["stats64"]["rx"]["packets"]


def stream(client, server, seconds=3, reverse=False):
    """iperf3 over TCP from one host to another; the goodput in bits a second."""
    served = server.space.spawn("iperf3", "iperf3", "--server", "--one-off", "--forceflush", "--bind", server.address)
    wait_for("iperf3 to listen", lambda: "listening" in served.output() or served.check())
    words = ["iperf3", "--client", server.address, "--time", str(seconds), "--json", *(["--reverse"] if reverse else [])]
    told = json.loads(client.space.run(*words, seconds=seconds + 30))
    served.stop()
    if "error" in told:
        raise Failed(f"iperf3 from {client.name} to {server.name}: {told['error']}")
    return told["end"]["sum_received"]["bits_per_second"]


def version():
    """Which iperf3 that is."""
    return run("iperf3", "--version").splitlines()[0]
