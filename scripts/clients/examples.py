"""The documented examples, run: a home router, and SoftFlow's pipeline A, each a file of flows.

    h1, h2 ── ports 1, 2 ─┐
    dhcp ──── port 4 ─────┤ the router's flows ├── port 3 ── outside, a web server

    clients ── port 1 ─── pipeline A ─── port 2 ── servers
"""

import random

import device
from faucet import check
from hosts import Host, stream
from lab import Lab, check_machine, wait_for

PUBLIC = "203.0.113.1"
OUTSIDE = "203.0.113.80"
# What `ct` of a flow asks.
TRACKER = '[service.conntrack]\nkind = "conntrack"\n'


def arguments(commands):
    parser = commands.add_parser("examples", help="the home router and the service chain of docs/clients.md",
                                 description=__doc__)
    parser.add_argument("--dut", choices=device.KINDS, default="weir")
    parser.add_argument("--only", choices=["home-router", "pipeline-a"])
    parser.add_argument("--seconds", type=int, default=3, help="of iperf3 (3)")
    parser.set_defaults(run=run)


def flows(options, name):
    return options.root / "docs/examples" / f"{name}.flows"


def home_router(lab, options):
    space = lab.namespace("router")
    h1 = Host(lab, space, "p1", "h1", mac="02:00:00:00:01:11")
    h2 = Host(lab, space, "p2", "h2", mac="02:00:00:00:01:12")
    outside = Host(lab, space, "p3", "outside", f"{OUTSIDE}/24", mac="02:00:00:00:03:50")
    server = Host(lab, space, "p4", "dhcp", "192.168.1.2/24", mac="02:00:00:00:01:02")
    switch = device.start(options.dut, lab, space, device.Wanted(["p1", "p2", "p3", "p4"], config=TRACKER), options.weir)
    switch.ofctl("--bundle", "add-flows", flows(options, "home-router"))
    server.serve_leases("192.168.1.20", "192.168.1.90", "192.168.1.1",
                        {h1.mac: "192.168.1.11", h2.mac: "192.168.1.12"})
    web = outside.serve_web("the world", 80)
    for host in (h1, h2):
        check(f"{host.name} gets {host.lease()} by DHCP", host.address in ("192.168.1.11", "192.168.1.12"))
    h1.ping("192.168.1.12")
    check("hosts inside reach each other", h2.pings("192.168.1.11"))
    for host in (h1, h2):
        wait_for("the page", lambda host=host: host.browse(OUTSIDE) == "the world")
        check(f"{host.name} browses a server outside", True)
    seen = {line.rsplit("[", 1)[-1].split("]")[0].split(":")[-2] if "[" in line else line.split(":")[0]
            for line in web.output().splitlines() if "url" in line}
    check(f"which sees nobody but the router ({', '.join(sorted(seen))})", seen == {PUBLIC})
    h1.ping(OUTSIDE)
    check("pings pass, and their answers", h2.pings(OUTSIDE))
    outside.space.ip("route", "add", "192.168.1.0/24", "via", PUBLIC)
    h1.serve_web("private", 80)
    check("from outside nobody inside is reached",
          not outside.pings("192.168.1.11") and outside.browse("192.168.1.11", seconds=2) is None)
    check("and nothing listens at the router", outside.browse(PUBLIC, seconds=2) is None)
    outside.serve_web("elsewhere", 8080)
    check("both hosts at once, to one server", all(host.browse(OUTSIDE, 8080) == "elsewhere" for host in (h1, h2)))
    check(f"iperf3 through the router: {stream(h1, outside, options.seconds) / 1e6:.0f} Mb/s up, "
          f"{stream(h1, outside, options.seconds, reverse=True) / 1e6:.0f} Mb/s down", True)
    transfer(h1, outside, switch)
    dumped = switch.ofctl("dump-flows", "table=2")
    check("the flows' counters tell what was held back", "n_packets=0" not in dumped.splitlines()[-1])
    switch.check()


# What curl is told to open a data connection by each of FTP's four ways.
WAYS = {"EPRT": ["--ftp-port", "-"], "PORT": ["--ftp-port", "-", "--disable-eprt"],
        "EPSV": [], "PASV": ["--disable-epsv"]}


def transfer(client, server, switch):
    """Files by FTP: by each way with the helper, and by those that need it not without."""
    content = random.Random(7).randbytes(300_000)
    server.serve_files({"file": content})
    url = f"ftp://{OUTSIDE}/file"
    wait_for("the FTP server", lambda: client.fetch(url) == content)
    for way, options in WAYS.items():
        check(f"{client.name} fetches a file by {way}", client.fetch(url, *options) == content)
    switch.ofctl("--strict", "del-flows", "table=1,priority=15,tcp,tp_dst=21,ct_state=+trk+new-rel")
    check("and without a helper not where the server has to connect",
          client.fetch(url) == content and client.fetch(url, *WAYS["PORT"], seconds=2) is None)


def pipeline_a(lab, options):
    space = lab.namespace("chain")
    clients = Host(lab, space, "p1", "clients", "10.1.0.1/8", mac="02:00:00:00:01:01")
    clients.space.address("eth0", "10.1.0.2/8")
    servers = Host(lab, space, "p2", "servers", "10.2.0.1/8", mac="02:00:00:00:02:01")
    servers.space.address("eth0", "10.2.0.2/8")
    servers.space.address("eth0", "10.2.9.1/8")
    switch = device.start(options.dut, lab, space, device.Wanted(["p1", "p2"], config=TRACKER), options.weir)
    switch.ofctl("--bundle", "add-flows", flows(options, "pipeline-a"))
    for port in (80, 81):
        servers.serve_web(f"port {port}", port)
    clients.serve_web("a client's", 80)
    wait_for("the page", lambda: clients.browse("10.2.0.1", 80) == "port 80")
    check("a connection that a rule allows is opened, and answered", True)
    check("one that no rule allows is not", clients.browse("10.2.0.1", 81, 2) is None
          and clients.browse("10.2.0.2", 80, 2) is None)
    check("nor from the other side", servers.browse("10.1.0.1", 80, 2) is None)
    check("pings are answered one way", clients.pings("10.2.0.2") and not servers.pings("10.1.0.1"))
    check("a longer prefix that leads nowhere wins", not clients.pings("10.2.9.1"))
    switch.check()


def run(options):
    check_machine()
    for name, example in (("home-router", home_router), ("pipeline-a", pipeline_a)):
        if options.only in (None, name):
            print(name)
            with Lab() as lab:
                example(lab, options)
