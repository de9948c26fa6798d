"""Changes that cannot be, and ends that nobody asked for."""

import os
import signal
import subprocess
import time

from bench import DIES_WITH_US, Broken, Switch, Traffic, wait_for


def bad_flows(switch):
    with Traffic(switch) as traffic:
        client = switch.client()
        lines = [f"priority={number},in_port=99,actions=drop" for number in range(1, 1000)]
        lines[500] = "priority=7,in_port=99,actions=ouput:1"
        said = client.refused("add-flows", flows="\n".join(lines), name="many.flows")
        left = client.ask("dump-flows", flow="in_port=99")
    if "501" not in said or left:
        raise Broken(f"{said}; {len(left)} entries are there")
    return f"the mistake is told by its line, none of 999 entries is there; {traffic.account()}"


def bad_port(switch):
    with Traffic(switch) as traffic:
        client = switch.client()
        for name, spec in (("a", "net_nothing0"), ("b", "trace:gone.pcap"), ("c", "af_packet:gone0"), ("d", "0000:ff:1f.7"), ("in", "null")):
            said = client.refused("add-port", name=name, spec=spec)
            if len(said) < 20:
                raise Broken(f"{spec}: {said}")
        ports = len(client.ask("show"))
    if ports != 2:
        raise Broken(f"there are {ports} ports")
    return f"five ports that cannot be are refused with the reason; {traffic.account()}"


def bad_capture(switch):
    whole = (switch.folder / "in.pcap").read_bytes()
    (switch.folder / "cut.pcap").write_bytes(whole[: len(whole) - 7])
    with Traffic(switch) as traffic:
        client = switch.client()
        said = client.refused("add-port", name="cut", spec=f"trace:{switch.folder}/cut.pcap")
    if "cut.pcap" not in said:
        raise Broken(f"refused without the file's name: {said}")
    said = said.replace(f"{switch.folder}/", "")
    return f"refused: {said}; {traffic.account()}"


def bad_reload(switch):
    with Traffic(switch) as traffic:
        switch.config.write_text(switch.text.replace("[port.out]", "[port.out"))
        client = switch.client()
        said = client.refused("reload")
        os.kill(switch.pid, signal.SIGHUP)
        switch.config.unlink()
        client.refused("reload")
        switch.config.write_text(switch.text)
        client.ask("reload")
    if "switch.toml" not in said:
        raise Broken(said)
    return f"a file that is wrong, and one that is gone, are refused with the place; {traffic.account()}"


def reload_storm(switch):
    with Traffic(switch) as traffic:
        for _ in range(200):
            os.kill(switch.pid, signal.SIGHUP)
            time.sleep(0.002)
        switch.client().ask("version")
    return f"200 in 0.4 s; {traffic.account()}"


def change_storm(switch):
    with Traffic(switch) as traffic:
        client = switch.client()
        begin, changes = time.monotonic(), 0
        while time.monotonic() - begin < 2:
            for number in range(50):
                client.say({"command": "add-flow", "flow": f"priority={1 + number},in_port=99,actions=drop"})
                client.say({"command": "del-flows", "flow": "in_port=99"})
            for _ in range(100):
                if not client.hear()["ok"]:
                    raise Broken("a change is refused")
            changes += 100
    return f"{changes} changes of the tables in 2 s; {traffic.account()}"


def ports_storm(switch):
    with Traffic(switch) as traffic:
        client = switch.client()
        for _ in range(30):
            client.ask("add-port", name="guest", spec="null")
            client.ask("add-flow", flow="priority=9,in_port=guest,actions=output:out")
            client.ask("del-port", port="guest")
    return f"a port came and went 30 times; {traffic.account()}"


def killed(weir):
    """Killed without a word, as when the power goes: the next start finds the sockets of the last."""
    switch = Switch(weir)
    try:
        switch.child.kill()
        switch.child.wait()
        left = [name for name in ("control", "of", "metrics") if (switch.folder / name).exists()]
        begin = time.monotonic()
        switch.start()
        took = time.monotonic() - begin
        with Traffic(switch) as traffic:
            pass
        return f"{len(left)} sockets were left over, the next start forwards after {took:.1f} s; {traffic.account()}"
    finally:
        switch.end()


def second(switch):
    with Traffic(switch) as traffic:
        other = subprocess.run([*DIES_WITH_US, str(switch.weir), "switch", "--config", str(switch.config)], stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
        switch.client().ask("version")
    if other.returncode != 2:
        raise Broken(f"it ended with {other.returncode}: {other.stdout[-300:]}")
    return f"it ends with code 2, and leaves the sockets alone; {traffic.account()}"


def buffers_end(weir):
    """A port that is held up for long, and few buffers."""
    switch = Switch(weir, ports='[port.slow]\nspec = "fault:delay=2s,seed=1:trace:in.pcap,loop,rate=50kpps"\n', more="",
                    flows="in_port=in,actions=output:out\nin_port=slow,actions=output:out")
    try:
        with Traffic(switch, {"no-buffer"}) as traffic:
            time.sleep(1)
            slow = switch.ledger().ports["slow"]
        return f"a port holds {slow.get('waiting', 'its')} packets back, as many as there are buffers for; {traffic.account()}"
    finally:
        switch.end()


def lossy_port(weir):
    """A port that loses, doubles, cuts, spoils and holds up packets."""
    switch = Switch(weir, ports='[port.bad]\nspec = "fault:drop=5%,dup=5%,reorder=5%,corrupt=5%,truncate=5%,seed=3:trace:in.pcap,loop,rate=5kpps"\n',
                    flows="in_port=in,actions=output:out\nin_port=bad,ip,actions=dec_ttl,output:out")
    try:
        with Traffic(switch, {"no-match", "by-flow", "too-short", "bad-header", "ttl-expired"}) as traffic:
            wait_for("faults of each kind", lambda: all(switch.ledger().ports["bad"]["faults"].get(kind, 0) > 10
                                                       for kind in ("lost", "duplicated", "corrupted", "truncated")))
        return f"every packet that came ends once; {traffic.account()}"
    finally:
        switch.end()


def stopped_in_order(weir):
    switch = Switch(weir)
    try:
        with Traffic(switch) as traffic:
            pass
        code = switch.stop()
        said = switch.said()
        if code != 0 or "missing" in said.lower() and "0 missing" not in said.lower():
            raise Broken(f"code {code}: {said[-300:]}")
        if (switch.folder / "control").exists():
            raise Broken("its socket stays")
        return f"code 0, no buffer is missing, no socket stays; {traffic.account()}"
    finally:
        switch.end()
