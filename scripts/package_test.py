#!/usr/bin/env python3
"""Installs, runs, upgrades, removes and purges target/package/weir_VERSION_amd64.deb in a new Debian root.

The root is made by mmdebstrap, with what Debian calls essential and apt, and started by systemd-nspawn, without an engine of
containers: its systemd is the first process of a namespace of its own. What the package needs, apt finds. Root, the network
(for Debian's packages), and some minutes.

    scripts/package_test.py [--whole] [--keep]

`--whole` runs all of `weir bench` in place of one point of it. `--keep` leaves the root where it is. The bare root is
kept as target/package/debian-RELEASE.tar; remove it to have it made anew.
"""

import argparse
import hashlib
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / "target" / "package"
UNITS = ("weir-switch", "weir-serve")
# What is tried with it, and no dependency of the package.
BESIDE = ("man-db", "bash-completion", "iproute2")
PORT = 18080
PATIENCE = 90

SWITCH = """
[switch]
poll = "adaptive:100us"
control = "/run/weir/switch.sock"
[port.left]
spec = "af_packet:left1"
[port.right]
spec = "af_packet:right1"
[port.guest]
spec = "net_vhost0,iface=/run/weir/guest"
[tables]
flows = \"\"\"
in_port=left actions=output:right
in_port=right actions=output:left
\"\"\"
[openflow]
listen = ["punix:/run/weir/of.sock"]
"""

# Two points of the simulated device: measured in no time, on no core.
PLAN = """
nf = "l2fwd"
dut = "simulated"
trace = "tr3i"
size = [64, 1500]
[mrr]
trials = 3
duration = "100ms"
[simulated]
capacity = "1Mpps"
"""

# Sends frames into one end, and counts what comes out of the other.
THROUGH = """
import socket, sys, time
a = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
a.bind(("left0", 0))
b = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
b.bind(("right0", 0))
b.settimeout(1)
frame = bytes.fromhex("02000000000202000000000188b5") + b"weir" * 20
end, came = time.monotonic() + 60, 0
while came < 20 and time.monotonic() < end:
    a.send(frame)
    try:
        while b.recv(2000) != frame:
            pass
        came += 1
    except TimeoutError:
        pass
sys.exit(came < 20)
"""

# Prints the status and the body of what an address answers.
ASK = """
import ssl, sys, urllib.error, urllib.request
request = urllib.request.Request(sys.argv[1])
if sys.argv[2]:
    request.add_header("Authorization", "Bearer " + sys.argv[2])
context = ssl.create_default_context(cafile=sys.argv[3]) if sys.argv[3] else None
try:
    answer = urllib.request.urlopen(request, timeout=20, context=context)
except urllib.error.HTTPError as error:
    answer = error
print(answer.status)
print(answer.read().decode())
"""


class Failed(Exception):
    pass


class Machine:
    """A Debian root, by itself or with its systemd running."""

    def __init__(self, folder):
        self.folder = folder
        self.nspawn = None
        self.first = None

    def path(self, name):
        return self.folder / name.lstrip("/")

    def nspawn_arguments(self):
        return ["systemd-nspawn", "--quiet", "--register=no", "--keep-unit", f"--directory={self.folder}", "--machine=weir-package"]

    def command(self, words):
        if self.first is None:
            return [*self.nspawn_arguments(), "--pipe", *words]
        return ["nsenter", f"--target={self.first}", "--all", "--", *words]

    def run(self, *words, **options):
        """What a command in there prints, both outputs; a failure has it in its message."""
        may_fail = options.pop("may_fail", False)
        done = subprocess.run(self.command(["env", "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C.UTF-8", *words]), stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", timeout=900)
        # The host's part of nspawn, where it is itself in a container.
        said = "".join(line for line in done.stdout.splitlines(keepends=True) if "/run/systemd/nspawn/" not in line)
        if done.returncode != 0 and not may_fail:
            raise Failed(f"`{' '.join(words)}` ended with {done.returncode}:\n{said[-3000:]}")
        return said

    def fails(self, *words):
        return subprocess.run(self.command(words), stdin=subprocess.DEVNULL, capture_output=True, timeout=300).returncode != 0

    def boot(self):
        log = open(FOLDER / "boot.log", "w")
        # Networks of its own, where it may make interfaces; DPDK looks up modules of the kernel, which nspawn hides.
        self.nspawn = subprocess.Popen([*self.nspawn_arguments(), "--private-network", "--bind-ro=/sys/module", "--boot"],
                                       stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        self.first = until("the first process", lambda: self.first_process("systemd", "boot.log"))
        until("systemd", lambda: self.run("systemctl", "is-system-running", may_fail=True).strip() == "running")

    def run_as(self, arguments, *words):
        """What a command in there prints, under more of nspawn's arguments."""
        done = subprocess.run([*self.nspawn_arguments(), *arguments, "--pipe", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
        must(done.returncode == 0, f"`{' '.join(words)}` ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout

    def start(self, arguments, *words):
        """Starts a command in there that goes on, as the first process of its own."""
        log = open(FOLDER / "image.log", "w")
        self.nspawn = subprocess.Popen([*self.nspawn_arguments(), *arguments, "--pipe", *words], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                       start_new_session=True)
        self.first = until("the command", lambda: self.first_process(pathlib.Path(words[0]).name, "image.log"))

    def first_process(self, name, log):
        if self.nspawn.poll() is not None:
            raise Failed(f"systemd-nspawn ended: {(FOLDER / log).read_text()[-2000:]}")
        children = pathlib.Path(f"/proc/{self.nspawn.pid}/task/{self.nspawn.pid}/children").read_text().split()
        for child in children:
            if pathlib.Path(f"/proc/{child}/comm").read_text().strip() == name:
                return child
        return None

    def shut_down(self):
        if self.nspawn is None:
            return
        if self.nspawn.poll() is None:
            # SIGTERM has nspawn tell its systemd to power off.
            self.nspawn.terminate()
            try:
                self.nspawn.wait(60)
            except subprocess.TimeoutExpired:
                self.nspawn.kill()
                self.nspawn.wait()
        self.nspawn = self.first = None

    def through(self):
        """Whether twenty frames get from one interface to the other."""
        done = subprocess.run(["nsenter", f"--target={self.first}", "--net", sys.executable, "-c", THROUGH], timeout=120)
        return done.returncode == 0

    def page(self, address):
        return self.asked(f"http://127.0.0.1:{PORT}{address}")[1]

    def asked(self, url, token=None, authority=None):
        """The status and the body of an answer, asked for from inside; 0 where there is none."""
        done = subprocess.run(["nsenter", f"--target={self.first}", "--net", sys.executable, "-c", ASK, url, token or "", authority or ""],
                              capture_output=True, text=True, timeout=120)
        status, _, body = done.stdout.partition("\n")
        return int(status or 0), body

    def process_of(self, unit):
        return self.run("systemctl", "show", "--property=MainPID", "--value", unit).strip()

    def state_of(self, unit):
        return self.run("systemctl", "show", "--property=ActiveState", "--value", unit).strip()

    def told(self, unit):
        return self.run("journalctl", "--no-pager", f"--unit={unit}", "--lines=20", may_fail=True)


def until(what, look):
    end = time.monotonic() + PATIENCE
    while True:
        if found := look():
            return found
        if time.monotonic() > end:
            raise Failed(f"waited {PATIENCE} s for {what}")
        time.sleep(0.2)


def must(holds, what):
    if not holds:
        raise Failed(what)


BEGIN = time.monotonic()


def say(text):
    print(f"{time.monotonic() - BEGIN:6.1f} s  {text}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--whole", action="store_true", help="run all of `weir bench`")
    parser.add_argument("--keep", action="store_true", help="leave the root where it is")
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("package_test: this needs root: it starts a Debian of its own")
    package = newest()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="weir-package-"))
    machine = Machine(folder / "root")
    image = Machine(folder / "image")
    try:
        lint(package)
        unpack(machine.folder)
        begun = install(machine, package)
        measure(machine, options.whole, begun)
        by_hand(machine, package)
        machine.boot()
        by_systemd(machine)
        accounts(machine)
        upgrade(machine, package, folder)
        leave(machine)
        machine.shut_down()
        in_container(image, package)
        say("all of it holds")
    except Failed as failure:
        sys.exit(f"package_test: {failure}")
    finally:
        machine.shut_down()
        image.shut_down()
        if options.keep:
            say(f"the root is in {machine.folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)


def newest():
    found = sorted(FOLDER.glob("weir_*_amd64.deb"), key=lambda path: path.stat().st_mtime)
    if not found:
        sys.exit(f"package_test: there is no package in {FOLDER}; `./x package` makes one")
    return found[-1]


def lint(package):
    done = subprocess.run(["lintian", "--allow-root", "--fail-on=error,warning", str(package)], capture_output=True, text=True)
    must(done.returncode == 0, f"lintian:\n{done.stdout}{done.stderr}")
    say(f"{package.name}: lintian has no error and no warning")


def unpack(folder):
    """The Debian that the package was built on, with nothing but what is essential, and apt."""
    release = re.search(r"^VERSION_CODENAME=(\S+)", pathlib.Path("/etc/os-release").read_text(), re.MULTILINE)[1]
    bare = FOLDER / f"debian-{release}.tar"
    if not bare.exists():
        unfinished = bare.with_suffix(".unfinished.tar")
        done = subprocess.run(["mmdebstrap", "--quiet", "--variant=minbase", release, str(unfinished)], capture_output=True, text=True)
        must(done.returncode == 0, f"mmdebstrap:\n{done.stderr[-2000:]}")
        unfinished.rename(bare)
    folder.mkdir()
    # Its devices nspawn makes itself.
    subprocess.run(["tar", "--extract", f"--file={bare}", f"--directory={folder}", "--exclude=./dev/*"], check=True)
    say(f"a bare Debian {release}, {sum(1 for _ in (folder / 'var/lib/dpkg/info').glob('*.list'))} packages")


def install(machine, package):
    machine.run("apt-get", "update", "-qq")
    machine.run("apt-get", "install", "-y", "--no-install-recommends", *BESIDE)
    shutil.copy(package, machine.path(f"/root/{package.name}"))
    begin = time.monotonic()
    machine.run("apt-get", "install", "-y", "--no-install-recommends", f"/root/{package.name}")
    say(f"installed by apt in {time.monotonic() - begin:.1f} s: "
        + machine.run("dpkg-query", "--show", "--showformat=${Package} ${Version}, ${Installed-Size} KiB\\n", "weir").strip())
    must(not machine.run("dpkg", "--verify", "weir").strip(), "files that are not as they were packed")
    tools = [tool for tool in ("cc", "gcc", "rustc", "cargo", "ld") if not machine.fails("which", tool)]
    must(not tools, f"this Debian was to have no toolchain, and has {tools}")
    return begin


def by_hand(machine, package):
    # As the action for GitHub installs it (packaging/ci): the same version again.
    sums = hashlib.sha256(package.read_bytes()).hexdigest()
    machine.run("env", f"WEIR_PACKAGE=/root/{package.name}", f"WEIR_SHA256={sums}", "/usr/share/weir/ci/install.sh")
    say(machine.run("weir", "--version").strip() + ": runs")
    for page in ("weir", "weir-bench", "weir-switch"):
        text = machine.run("sh", "-c", f"man --warnings {page}")
        must("SYNOPSIS" in text, f"man {page} shows no page:\n{text[:500]}")
    completed = machine.run("bash", "-c", ". /usr/share/bash-completion/bash_completion; _completion_loader weir; COMP_WORDS=(weir be) COMP_CWORD=1; "
                            "$(complete -p weir | sed 's/.*-F \\([^ ]*\\).*/\\1/') weir be weir; echo \"${COMPREPLY[@]}\"")
    must("bench" in completed.split(), f"bash completes `weir be` to {completed!r}")
    for file in ("/usr/share/zsh/vendor-completions/_weir", "/usr/share/fish/vendor_completions.d/weir.fish",
                 "/usr/share/weir/schemas/run.schema.json", "/usr/share/weir/plans/l2.toml", "/usr/share/doc/weir/docs/measuring.md"):
        must(machine.path(file).is_file(), f"{file} is missing")
    say("manual pages are shown, bash completes commands")


def measure(machine, whole, begun):
    machine.run("useradd", "--create-home", "lab")
    arguments = [] if whole else ["--nf", "l2fwd", "--size", "64"]
    begin = time.monotonic()
    machine.run("runuser", "-u", "lab", "--", "env", "--chdir=/home/lab", "HOME=/home/lab", "weir", "bench", *arguments, "--name", "packaged",
                "--output", "/home/lab/page.html")
    page = machine.path("/home/lab/page.html").read_text()
    must(page.rstrip().endswith("</html>") and "packaged" in page, "the page is not whole")
    say(f"from the beginning of `apt install` to the page of `{' '.join(['weir', 'bench', *arguments])}`: {time.monotonic() - begun:.1f} s")
    machine.run("runuser", "-u", "lab", "--", "env", "--chdir=/home/lab", "HOME=/home/lab", "weir", "verify", "packaged")
    machine.run("runuser", "-u", "lab", "--", "env", "--chdir=/home/lab", "HOME=/home/lab", "weir", "export", "packaged", "--bundle",
                "--output", "/home/lab/packaged.weir")
    say(f"`weir bench {' '.join(arguments)}` by a user without rights: {time.monotonic() - begin:.1f} s to a page of {len(page)} bytes; "
        "verified")


def by_systemd(machine):
    verified = machine.run("systemd-analyze", "verify", *(f"/lib/systemd/system/{unit}.service" for unit in UNITS))
    must(not verified.strip(), f"systemd-analyze verify:\n{verified}")
    for unit in UNITS:
        must(machine.state_of(unit) == "inactive" and machine.fails("systemctl", "is-enabled", unit), f"{unit} was started by being installed")
        told = machine.run("systemd-analyze", "security", "--no-pager", "--offline=true", f"/lib/systemd/system/{unit}.service")
        say(told.strip().splitlines()[-1].strip("→ "))
    for name in ("left", "right"):
        machine.run("ip", "link", "add", f"{name}0", "type", "veth", "peer", "name", f"{name}1")
        for end in "01":
            machine.run("ip", "link", "set", f"{name}{end}", "up")
    # The switch as it was packed, then one with ports.
    machine.run("systemctl", "start", "weir-switch")
    answers(machine)
    machine.path("/etc/weir/switch.toml").write_text(SWITCH)
    machine.run("systemctl", "restart", "weir-switch")
    answers(machine)
    must(machine.through(), f"no packet gets through the switch:\n{machine.told('weir-switch')}")
    before = machine.process_of("weir-switch")
    machine.run("systemctl", "reload", "weir-switch")
    must(machine.process_of("weir-switch") == before and machine.through(), "a reload does not leave the switch running")
    machine.run("sh", "-c", f"kill -KILL {before}")
    until("the switch to be started anew", lambda: machine.process_of("weir-switch") not in ("0", before))
    answers(machine)
    must(machine.through(), "no packet gets through the switch that was started anew")
    say("weir-switch forwards between interfaces, reloads, and is started anew after SIGKILL")
    machine.run("chmod", "o+rx", "/home/lab")
    machine.run("runuser", "-u", "weir", "--", "env", "--chdir=/", "weir", "import", "/home/lab/packaged.weir", "--db", "/var/lib/weir/weir.db")
    settings = machine.path("/etc/weir/serve.conf")
    settings.write_text(re.sub(r"^LISTEN=.*", f"LISTEN=127.0.0.1:{PORT}", settings.read_text(), flags=re.MULTILINE))
    machine.run("systemctl", "start", "weir-serve")
    until("the page of the store", lambda: "packaged" in machine.page("/runs"))
    must("l2fwd" in machine.page("/runs/packaged"), f"the run's page is missing:\n{machine.told('weir-serve')}")
    say("weir-serve shows the run")


def accounts(machine):
    """A server for several: an account, runs that it pushes, and who sees them; then over TLS with a certificate of its own."""
    def as_lab(*words):
        return machine.run("runuser", "-u", "lab", "--", "env", "--chdir=/home/lab", "HOME=/home/lab", *words)

    def restart(options, listen):
        text = settings.read_text()
        text = re.sub(r"^OPTIONS=.*", f"OPTIONS={options}", text, flags=re.MULTILINE)
        settings.write_text(re.sub(r"^LISTEN=.*", f"LISTEN={listen}", text, flags=re.MULTILINE))
        machine.run("systemctl", "restart", "weir-serve")

    settings = machine.path("/etc/weir/serve.conf")
    made = machine.run("runuser", "-u", "weir", "--", "env", "--chdir=/", "weir", "account", "add", "lab", "--json", "--db", "/var/lib/weir/weir.db")
    token = json.loads(made)["token"]
    machine.path("/home/lab/token").write_text(token + "\n")
    machine.run("chown", "lab:", "/home/lab/token")
    machine.run("chmod", "600", "/home/lab/token")
    machine.path("/home/lab/plan.toml").write_text(PLAN)
    as_lab("weir", "bench", "plan.toml", "--name", "pushed", "--output", "/home/lab/pushed.html")
    restart("--allow-push", f"127.0.0.1:{PORT}")
    plain = f"http://127.0.0.1:{PORT}"
    until("the server", lambda: machine.asked(f"{plain}/api/v1")[0] == 200)
    push = ("weir", "push", plain, "pushed", "--token-file", "token")
    as_lab(*push)
    seen = [machine.asked(f"{plain}/api/v1/runs/pushed", who)[0] for who in (None, token)]
    must(seen == [404, 200], f"a private run is answered with {seen} to nobody and to its account:\n{machine.told('weir-serve')}")
    as_lab(*push, "--public")
    status, page = machine.asked(f"{plain}/runs/pushed")
    must(status == 200 and "Pushed by" in page, f"a public run is answered with {status}")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=DNS:localhost", "-keyout", str(machine.path("/root/key.pem")),
                    "-out", str(machine.path("/root/cert.pem"))], check=True, capture_output=True)
    machine.run("install", "-d", "-g", "weir", "-m", "750", "/etc/weir/tls")
    machine.run("install", "-g", "weir", "-m", "640", "/root/cert.pem", "/root/key.pem", "/etc/weir/tls")
    restart("--allow-push --tls-cert /etc/weir/tls/cert.pem --tls-key /etc/weir/tls/key.pem", f"127.0.0.1:{PORT}")
    authority = str(machine.path("/root/cert.pem"))
    secure = f"https://localhost:{PORT}"
    until("the server over TLS", lambda: machine.asked(f"{secure}/runs/pushed", authority=authority)[0] == 200)
    must(machine.asked(f"{plain}/runs")[0] == 400, "plain HTTP is answered where there is TLS")
    machine.run("runuser", "-u", "weir", "--", "env", "--chdir=/", "weir", "account", "revoke", "lab", "--db", "/var/lib/weir/weir.db")
    status = machine.asked(f"{secure}/api/v1/account", token, authority)[0]
    must(status == 401, f"a revoked token is answered with {status}")
    restart("--allow-push", f"127.0.0.1:{PORT}")
    machine.run("rm", "-r", "/etc/weir/tls", "/root/cert.pem", "/root/key.pem")
    say("weir-serve takes a run that an account pushes, private and public; speaks TLS with its own certificate; refuses a revoked token")


def in_container(image, package):
    """What the Containerfile says, done to a bare Debian: COPY and RUN, then the command as the user, on a root that is only read."""
    unpack(image.folder)
    steps = re.sub(r"\\\n", " ", (ROOT / "packaging/container/Containerfile").read_text())
    said = {}
    for line in steps.splitlines():
        word, _, rest = line.partition(" ")
        if word == "COPY":
            pattern, into = rest.split()
            copied = [path for path in FOLDER.glob(pattern) if path == package]
            must(copied, f"the Containerfile copies {pattern}, which {package.name} is not")
            shutil.copy(package, image.path(into) / package.name)
        elif word == "RUN":
            image.run("sh", "-c", rest)
        elif word in ("FROM", "USER", "WORKDIR", "EXPOSE", "ENTRYPOINT", "CMD"):
            said[word] = json.loads(rest) if rest.startswith("[") else rest
        else:
            must(not word or word.startswith("#"), f"the Containerfile has an instruction that this test does not know: {word}")
    must("bookworm" in said["FROM"], "the image is made of another Debian than this test's")
    user = [f"--user={said['USER']}", f"--chdir={said['WORKDIR']}"]
    made = image.run_as(user, *said["ENTRYPOINT"], "account", "add", "lab", "--json", "--db", "/var/lib/weir/weir.db")
    token = json.loads(made)["token"]
    image.start([*user, "--private-network", "--read-only", f"--bind={image.path('/var/lib/weir')}:/var/lib/weir", "--tmpfs=/tmp"],
                *said["ENTRYPOINT"], *said["CMD"])
    # The image listens for the machine around it; its network is one of its own here.
    url = f"http://127.0.0.1:{said['EXPOSE']}"
    until("the server of the image", lambda: image.asked(f"{url}/api/v1")[0] == 200)
    status, body = image.asked(f"{url}/api/v1/account", token)
    must(status == 200 and json.loads(body)["name"] == "lab", f"its account is answered with {status}")
    image.shut_down()
    say(f"the Containerfile's steps on a bare Debian: `{shlex.join([*said['ENTRYPOINT'], *said['CMD']])}` serves as {said['USER']}, its root only read")


def answers(machine):
    def asked():
        must(machine.state_of("weir-switch") in ("active", "activating"), f"the switch ended:\n{machine.told('weir-switch')}")
        return not machine.fails("weir", "switch", "stats", "--json", "--control", "/run/weir/switch.sock")
    until("the switch to answer", asked)


def upgrade(machine, package, folder):
    """The same program by another version, one of whose files of settings has changed, as has the administrator's."""
    tree = folder / "newer"
    subprocess.run(["dpkg-deb", "--raw-extract", str(package), str(tree)], check=True)
    control = tree / "DEBIAN" / "control"
    old = re.search(r"^Version: (.*)$", control.read_text(), re.MULTILINE)[1]
    new = f"{old}+newer"
    control.write_text(re.sub(r"^Version: .*$", f"Version: {new}", control.read_text(), flags=re.MULTILINE))
    with open(tree / "etc" / "weir" / "serve.conf", "a") as settings:
        settings.write("# A line that is new.\n")
    subprocess.run(["dpkg-deb", "--root-owner-group", "-Zgzip", "-z1", "--build", str(tree), str(machine.path("/root/newer.deb"))],
                   check=True, stdout=subprocess.DEVNULL)
    machine.run("systemctl", "enable", *UNITS)
    before = {unit: machine.process_of(unit) for unit in UNITS}
    machine.run("apt-get", "install", "-y", "--no-install-recommends", "-o", "Dpkg::Options::=--force-confold", "/root/newer.deb")
    must(machine.run("dpkg-query", "--show", "--showformat=${Version} ${db:Status-Status}", "weir") == f"{new} installed", "it was not upgraded")
    must(machine.process_of("weir-switch") == before["weir-switch"] and machine.through(), "the upgrade stopped the switch")
    until("weir-serve to be started anew", lambda: machine.process_of("weir-serve") not in ("0", before["weir-serve"]))
    until("the page of the store", lambda: "packaged" in machine.page("/runs"))
    must(machine.path("/etc/weir/switch.toml").read_text() == SWITCH, "the upgrade changed the administrator's switch.toml")
    must(f"LISTEN=127.0.0.1:{PORT}" in machine.path("/etc/weir/serve.conf").read_text(), "the upgrade changed the administrator's serve.conf")
    say(f"upgraded from {old} to {new}: the switch went on forwarding, the page was started anew, settings and store stayed")


def leave(machine):
    machine.run("apt-get", "remove", "-y", "weir")
    must(all(machine.state_of(unit) == "inactive" for unit in UNITS), "a unit runs without its program")
    must(machine.fails("which", "weir"), "the program stayed")
    must(machine.path("/var/lib/weir/weir.db").is_file() and machine.path("/etc/weir/switch.toml").is_file(), "a removal took store or settings")
    machine.run("apt-get", "purge", "-y", "weir")
    machine.run("rm", "-rf", "/home/lab", *(f"/root/{path.name}" for path in machine.path("/root").glob("*.deb")))
    left = machine.run("find", "/", "-xdev", "(", "-iname", "*weir*", "-o", "-nouser", "-o", "-nogroup", ")", "-print").split()
    # What others write about everything they do; pages that `man` showed, which it forgets by itself after a while.
    left = [name for name in left if not name.startswith(("/proc/", "/sys/", "/var/log/", "/var/cache/man/"))]
    must(not left, f"left behind: {left}")
    named = machine.run("grep", "-rlw", "weir", "/etc", "/var/lib/systemd", may_fail=True).split()
    # Of accounts, a copy of the file before its last change is kept by whoever changes it.
    named = [name for name in named if name not in ("/etc/passwd-", "/etc/group-", "/etc/shadow-", "/etc/gshadow-")]
    must(not named, f"named behind: {named}")
    must(machine.fails("ls", "/run/weir") and machine.fails("getent", "passwd", "weir") and machine.fails("getent", "group", "weir"),
         "the folder, user or group of the units stayed")
    say("removed: settings and store stayed; purged: nothing did")


if __name__ == "__main__":
    main()
