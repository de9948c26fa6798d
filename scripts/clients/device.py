"""A switch under test over veth ports: Weir, or a private Open vSwitch beside it.

Both are started the same way and are driven the same way afterwards: by OpenFlow. Ports are interfaces of
the device's namespace, numbered from 1 in their order. A device listens at LISTEN on its namespace's
loopback for `ovs-ofctl`, and connects to the controllers it is given.
"""

import dataclasses
import os
import pathlib

from lab import Failed, Unready, run, wait_for

LISTEN = "tcp:127.0.0.1:6654"
SCHEMA = "/usr/share/openvswitch/vswitch.ovsschema"
KINDS = ("weir", "ovs")


@dataclasses.dataclass
class Wanted:
    """What a device is to be."""

    ports: list  # interfaces of its namespace
    controllers: list = dataclasses.field(default_factory=list)  # "tcp:ADDRESS:PORT"
    datapath_id: int = 1
    fail_mode: str = "secure"
    driver: str = "af_packet"  # how Weir opens interfaces: af_packet or af_xdp
    specs: dict = dataclasses.field(default_factory=dict)  # ports of Weir's that are no interfaces, by name
    config: str = ""  # more of Weir's configuration: services, limits
    core: int = None  # the one core of Weir's worker; None: its default
    access: dict = dataclasses.field(default_factory=dict)  # VLANs of access ports: of an Open vSwitch only
    poll: str = "adaptive:500us"  # how Weir's worker waits
    on_time: bool = False  # an Open vSwitch that belongs to the tester, and has to keep its time


def start(kind, lab, namespace, wanted, weir=None):
    """Starts a device of that kind, and waits until it answers."""
    if kind == "ovs":
        return OpenVSwitch(lab, namespace, wanted)
    return Weir(lab, namespace, wanted, weir)


class Device:
    """What both kinds share."""

    def __init__(self, lab, namespace, wanted):
        self.lab, self.namespace, self.wanted = lab, namespace, wanted

    def ofctl(self, *words, version="OpenFlow13", seconds=30, stdin=None):
        """Runs `ovs-ofctl COMMAND` at this device; `words` holds the command and what follows the switch."""
        options = [word for word in words if str(word).startswith("--")]
        command, *rest = [word for word in words if not str(word).startswith("--")]
        return self.namespace.run("ovs-ofctl", "-O", version, *options, command, LISTEN, *rest,
                                  seconds=seconds, stdin=stdin)

    def answers(self):
        self.process.check()
        return self.namespace.tries("ovs-ofctl", "-O", "OpenFlow13", "--timeout=2", "probe", LISTEN)

    def check(self):
        self.process.check()

    def resident(self):
        """Memory it holds, in bytes."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmRSS"))

    def cpu_seconds(self):
        """Processor time it has used."""
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Weir(Device):
    """`weir switch` over AF_PACKET ports."""

    kind = "weir"

    def __init__(self, lab, namespace, wanted, program):
        super().__init__(lab, namespace, wanted)
        program_version(program)
        self.program = pathlib.Path(program).resolve()
        self.folder = lab.folder / f"weir-{namespace.name}"
        self.folder.mkdir()
        self.configuration = self.folder / "switch.toml"
        self.configuration.write_text(self.text())
        self.start()

    def start(self):
        self.process = self.namespace.spawn("weir", self.program, "switch", "--config", self.configuration)
        wait_for("weir switch to answer", self.answers)

    def stop(self):
        """Ends it in good order; its last words say what became of every packet."""
        self.process.stop(patience=10)

    def text(self):
        quoted = ", ".join(f'"{controller}"' for controller in self.wanted.controllers)
        core = "" if self.wanted.core is None else f"cores = [{self.wanted.core}]\n"
        more = ",blocksz=4096,framesz=2048,framecnt=1024" if self.wanted.driver == "af_packet" else ""
        specs = {interface: f"net_{self.wanted.driver}{number},iface={interface}{more}"
                 for number, interface in enumerate(self.wanted.ports, 1)}
        specs.update(self.wanted.specs)
        ports = "".join(f'[port.{name}]\nnumber = {number}\nspec = "{spec}"\n'
                        for number, (name, spec) in enumerate(specs.items(), 1))
        return (
            f'[switch]\n{core}poll = "{self.wanted.poll}"\n'
            f'control = "{self.folder}/control"\n'
            f"[openflow]\n"
            f'listen = ["p{LISTEN.replace("127.0.0.1:6654", "6654:127.0.0.1")}"]\n'
            f"controllers = [{quoted}]\n"
            f'fail_mode = "{self.wanted.fail_mode}"\n'
            f'datapath_id = "{self.wanted.datapath_id:016x}"\n'
            f"{ports}{self.wanted.config}"
        )

    def stats(self):
        """Its own statistics, as JSON."""
        return run(self.program, "switch", "stats", "--json", "--control", self.folder / "control")



def program_version(weir):
    """What a built `weir` calls itself."""
    if not pathlib.Path(weir).exists():
        raise Unready(f"{weir} is not there; build it (./x build) or name it with --weir")
    return run(weir, "--version").strip()


class OpenVSwitch(Device):
    """A private Open vSwitch: its database, its daemon, one bridge of the userspace datapath."""

    kind = "ovs"
    BRIDGE = "under-test"

    def __init__(self, lab, namespace, wanted):
        super().__init__(lab, namespace, wanted)
        self.folder = lab.folder / f"ovs-{namespace.name}"
        self.folder.mkdir()
        self.environment = {f"OVS_{what}": str(self.folder) for what in ("RUNDIR", "DBDIR", "LOGDIR")}
        self.remote = f"unix:{self.folder}/db.sock"
        self.database = None
        self.start()

    def start(self):
        if self.database is None:
            self.start_database()
        words = ["ovs-vswitchd", self.remote, f"--unixctl={self.folder}/vswitchd.ctl", *self.quiet()]
        self.process = self.namespace.spawn("ovs-vswitchd", *words, environment=self.environment,
                                            on_time=self.wanted.on_time)
        self.configure()
        wait_for("Open vSwitch to answer", self.answers)

    @staticmethod
    def quiet():
        return ["-vconsole:info", "-vsyslog:off", "-vfile:off"]

    def start_database(self):
        file = self.folder / "conf.db"
        run("ovsdb-tool", "create", file, SCHEMA, environment=self.environment)
        words = ["ovsdb-server", file, f"--remote=p{self.remote}", f"--unixctl={self.folder}/ovsdb.ctl"]
        self.database = self.namespace.spawn("ovsdb-server", *words, *self.quiet(), environment=self.environment)
        self.vsctl("--no-wait", "init", "--", "set", "Open_vSwitch", ".",
                   "other_config:n-handler-threads=1", "other_config:n-revalidator-threads=1")

    def vsctl(self, *words):
        return run("ovs-vsctl", f"--db={self.remote}", "--timeout=15", "--retry", *words,
                   environment=self.environment)

    def configure(self):
        bridge = self.BRIDGE
        words = ["--may-exist", "add-br", bridge, "--", "set", "bridge", bridge, "datapath_type=netdev",
                 f"fail_mode={self.wanted.fail_mode}",
                 "protocols=OpenFlow10,OpenFlow13,OpenFlow14,OpenFlow15",
                 f"other-config:datapath-id={self.wanted.datapath_id:016x}",
                 "other-config:disable-in-band=true"]
        for number, interface in enumerate(self.wanted.ports, 1):
            words += ["--", "--may-exist", "add-port", bridge, interface,
                      "--", "set", "interface", interface, f"ofport_request={number}"]
        for interface, vid in self.wanted.access.items():
            words += ["--", "set", "port", interface, f"tag={vid}"]
        listen = "p" + LISTEN.replace("127.0.0.1:6654", "6654:127.0.0.1")
        words += ["--", "set-controller", bridge, listen, *self.wanted.controllers]
        said = self.vsctl(*words)
        if said.strip():
            raise Failed(f"Open vSwitch: {said.strip()}")

    def stop(self):
        self.process.stop(patience=10)

    @staticmethod
    def version():
        return run("ovs-vswitchd", "--version").splitlines()[0].rsplit(" ", 1)[-1]
