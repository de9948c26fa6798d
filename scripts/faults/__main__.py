"""What can go wrong with a switch that forwards, each put on purpose: what was promised, what was seen.

Each fault is put while packets come in at a rate and go out. Afterwards the same process (or, where the fault is its end,
the next one) has to forward still, every packet has to be accounted for, and none may be lost but by the fault itself.
With --write the page docs/faults.md is made anew.
"""

import argparse
import dataclasses
import difflib
import os
import pathlib
import platform
import re
import subprocess
import sys
import time

import changes
import clients
import machine
from bench import Broken, Missing, Switch

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs" / "faults.md"
HEAD = ROOT / "scripts" / "faults" / "head.md"
# How the line begins that says how the page was made.
MADE = "Made by `python3 scripts/faults --write`"


@dataclasses.dataclass
class Fault:
    name: str
    what: str  # goes wrong
    promised: str
    run: object  # takes a switch that is shared, or the program where the fault needs a switch of its own
    tests: tuple = ()  # that hold something of it by themselves

    def shared(self):
        return self.run.__code__.co_varnames[0] == "switch"


ALONE = "no packet is lost, others are served"
FAULTS = [
    Fault("client-breaks-off", "a client of the control socket goes within a request", ALONE, clients.broken_off,
          ("lines_that_are_no_requests_are_answered_and_the_connection_goes_on",)),
    Fault("client-never-reads", "a client asks and never reads", ALONE, clients.never_reads,
          ("a_client_that_never_reads_or_writes_holds_up_nobody",)),
    Fault("client-nonsense", "a client sends what is no request", "it is refused, line by line", clients.nonsense,
          ("a_mangled_request_is_answered_or_refused_with_a_sentence",)),
    Fault("client-crowd", "more clients come than are served at once", "who comes later has a turn once some go", clients.crowd,
          ("no_more_clients_are_served_than_there_are_threads_for",)),
    Fault("capture-dies", "who captures packets is killed", "the capture ends with it", clients.capture_dies,
          ("captures_stream_until_enough_and_end_with_their_client",)),
    Fault("monitor-sleeps", "who listens to events does not read them", ALONE, clients.monitor_sleeps,
          ("a_monitor_hears_what_happens",)),
    Fault("socket-removed", "the control socket's file is removed", "who is connected is served", clients.socket_gone),
    Fault("controller-babbles", "a controller says nonsense", ALONE, clients.of_babble,
          ("messages_with_changed_bytes_leave_a_switch_that_serves_others",
           "random_bytes_by_the_megabyte_end_in_refusals_and_nothing_else")),
    Fault("controller-never-reads", "a controller asks and never reads", "what waits for it is bounded, others are served", clients.of_deaf,
          ("who_does_not_read_is_read_no_further_and_loses_what_it_did_not_ask_for",)),
    Fault("controller-dies", "controllers die within a message", ALONE, clients.of_dies,
          ("what_was_sent_before_hanging_up_is_told",)),
    Fault("bundle-left-open", "a controller dies with a bundle open", "nothing of it takes effect", clients.of_bundle,
          ("five_controllers_with_open_bundles_take_no_more_than_all_may_and_leave_room_for_a_small_one",)),
    Fault("controller-crowd", "silent connections take all places", "who says hello gets one", clients.of_crowd,
          ("silent_connections_lock_nobody_out_however_many_there_are",)),
    Fault("scraper-slow", "who asks for metrics never finishes", "another gets its page", clients.metrics_slow,
          ("clients_that_say_nothing_push_out_each_other_and_nobody_who_asks",)),
    Fault("descriptors-end", "the process may open nothing more", "who is connected is served; others once there is one", machine.descriptors),
    Fault("memory-short", "the process may take 256 MiB more, and tables grow", "they fit", machine.memory),
    Fault("memory-ends", "the process may take nothing more, and tables grow", "the change is refused, or it ends and the next start takes over", machine.memory_ends),
    Fault("disk-full", "what a port writes has no room", "it takes nothing more, which is counted", machine.disk_full,
          ("a_full_disk_is_a_port_that_takes_nothing_and_says_so",)),
    Fault("paused", "the machine is paused, and its clock jumps by 6 s", "no worker is taken for dead, no entry goes early", machine.stopped),
    Fault("clock-ahead", "the clock begins a century ahead", "entries end in their time", machine.clock_ahead),
    Fault("core-taken", "others want the worker's core", "what comes waits; changes are answered", machine.core_taken),
    Fault("reader-gone", "who reads what the switch prints is gone", "it goes on", machine.reader_gone),
    Fault("vhost-peer", "the peer of a vhost port is killed, stopped, and comes again", "other ports go on, it is connected again",
          machine.vhost_peer),
    Fault("memif-peer", "the peer of a memif port is killed, stopped, and comes again", "other ports go on, it is connected again",
          machine.memif_peer, ("a_function_attached_to_shared_memory_forwards_and_each_learns_of_the_others_death",)),
    Fault("interface-removed", "the interface of a port is removed", "other ports go on, its link is down", machine.interface_goes),
    Fault("interface-down", "the interface of a port goes down and up", "packets leave by it again", machine.interface_down),
    Fault("bad-flows", "a file of flows has a mistake", "it is told by its line, nothing changes", changes.bad_flows,
          ("flows_are_added_as_a_whole_or_not_at_all",)),
    Fault("bad-port", "a port cannot be opened", "it is refused with the reason, nothing changes", changes.bad_port,
          ("what_cannot_be_opened_says_why",)),
    Fault("bad-capture", "a capture that a port is to replay is cut", "it is refused", changes.bad_capture,
          ("a_truncated_capture_fails_its_point_with_the_offset",)),
    Fault("bad-reload", "the configuration is wrong, or gone, at a reload", "it is refused, nothing changes", changes.bad_reload,
          ("a_reload_that_cannot_be_changes_no_table",)),
    Fault("reload-storm", "reloads come as fast as signals do", "no packet is lost", changes.reload_storm),
    Fault("change-storm", "tables change as fast as they can", "no packet is lost", changes.change_storm,
          ("a_soak_of_changes_loses_nothing_uncounted_and_stays_flat",)),
    Fault("ports-storm", "ports come and go", "no packet of another is lost", changes.ports_storm, ("ports_come_and_go_while_packets_flow",)),
    Fault("killed", "the process is killed without a word", "the next start takes its sockets over", changes.killed,
          ("a_worker_that_comes_round_no_more_ends_the_process_and_the_next_start_takes_over",)),
    Fault("second-switch", "a second switch is started with the same sockets", "it is refused, the first one goes on", changes.second,
          ("a_socket_that_another_switch_holds_is_left_to_it",)),
    Fault("buffers-held", "a port holds packets back for seconds", "other ports go on", changes.buffers_end),
    Fault("lossy-port", "a port loses, doubles, reorders, cuts and spoils packets", "every packet that came ends once", changes.lossy_port,
          ("faults_of_a_receiving_port_are_counted_and_the_sum_comes_out",)),
    Fault("stopped", "it is told to stop while packets come", "no buffer is missing, no socket stays", changes.stopped_in_order),
]

# What goes wrong with a worker, and with the lab: put by tests of the suite alone.
BY_TESTS = [
    ("a service panics", "that packet is lost with its reason, and no other",
     "a_packet_that_makes_a_service_panic_is_lost_with_its_reason_and_no_other"),
    ("a service panics again and again", "it is put in quarantine", "a_service_that_panics_again_and_again_is_put_in_quarantine_and_let_out_by_hand"),
    ("a service takes too long", "it is named and put in quarantine", "a_service_over_its_cycle_budget_is_named_and_put_in_quarantine"),
    ("a service never comes back", "it is named", "a_service_that_never_comes_back_is_named"),
    ("a worker never comes round", "the process ends with code 70", "a_worker_that_comes_round_no_more_ends_the_process_and_the_next_start_takes_over"),
    ("the lab is killed while it saves", "no trial that was acknowledged is lost", "a_campaign_killed_at_any_moment_loses_no_acknowledged_trial"),
    ("the lab's disk is full", "the trials stay, and `weir bench --resume` goes on", "a_full_disk_keeps_the_trials_and_resume_goes_on"),
    ("a page of the database is damaged", "it is named", "a_damaged_page_is_named_and_is_no_panic"),
    ("the lab is killed", "its devices and namespaces go with it", "a_killed_lab_leaves_no_namespace"),
    ("a device dies in a trial", "its point fails, the others go on", "a_device_that_dies_over_shared_memory_takes_only_its_point_along"),
]


def arguments():
    parser = argparse.ArgumentParser(prog="scripts/faults", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weir", type=pathlib.Path, help="the program (target/release/weir, or what was built last)")
    parser.add_argument("--only", action="append", metavar="NAME", choices=[fault.name for fault in FAULTS], help="this fault; may be repeated")
    parser.add_argument("--write", action="store_true", help="make docs/faults.md anew, if all are well")
    parser.add_argument("--check", action="store_true", help="compare docs/faults.md with what there is, but for what was seen")
    parser.add_argument("--list", action="store_true", help="print the faults")
    return parser.parse_args()


def program(options):
    if options.weir:
        return options.weir.resolve()
    built = [path for path in (ROOT / "target" / kind / "weir" for kind in ("release", "debug")) if path.exists()]
    if not built:
        sys.exit("faults: nothing is built; `./x build`, or name a program by --weir")
    return max(built, key=lambda path: path.stat().st_mtime)


def tests_there():
    """Names of all tests in the sources."""
    names = set()
    for path in (ROOT / "crates").glob("**/*.rs"):
        names |= set(re.findall(r"fn (\w+)\(", path.read_text()))
    return names


def forgotten():
    there = tests_there()
    named = {test for fault in FAULTS for test in fault.tests} | {test for *_, test in BY_TESTS}
    return sorted(named - there)


class Bench:
    """The switch that most faults are put to, one after the other; a new one after a fault that was too much."""

    def __init__(self, weir):
        self.weir, self.switch = weir, None

    def put(self, fault):
        if not fault.shared():
            return fault.run(self.weir)
        if self.switch is None:
            self.switch = Switch(self.weir)
        try:
            seen = fault.run(self.switch)
        except Exception:
            self.end()
            raise
        # Its control socket is gone with that fault.
        if not (self.switch.folder / "control").exists():
            self.end()
        return seen

    def end(self):
        if self.switch:
            self.switch.end()
        self.switch = None


def put_all(weir, chosen):
    """Each fault with what was seen, and whether that is what was promised."""
    bench, rows = Bench(weir), []
    try:
        for fault in chosen:
            begin = time.monotonic()
            try:
                seen, is_well = bench.put(fault), True
            except Missing as missing:
                seen, is_well = f"not tried: {missing}", None
            except (Broken, OSError, subprocess.SubprocessError) as broken:
                seen, is_well = f"{type(broken).__name__}: {broken}", False
            word = {True: "as promised", False: "BROKEN", None: "skipped"}[is_well]
            print(f"{fault.name:24} {time.monotonic() - begin:5.1f} s  {word}: {seen}", flush=True)
            rows.append((fault, seen, is_well))
    finally:
        bench.end()
    return rows


def environment(weir):
    version = subprocess.run([weir, "--version"], stdout=subprocess.PIPE, text=True).stdout.strip()
    kind = "a debug build" if "debug" in weir.parts else "a release build"
    return f"{version}, {kind}; Linux {platform.release()}, {len(os.sched_getaffinity(0))} cores"


def page(rows, made):
    """The page: of each fault what was seen, and how the page was made."""
    where = lambda tests: "<br>".join(f"`{test}`" for test in tests) or "—"
    lines = [HEAD.read_text().rstrip(), "", made, "",
             "| what goes wrong | what is promised | what was seen | tests that hold something of it |", "|---|---|---|---|"]
    lines += [f"| {fault.what} (`{fault.name}`) | {fault.promised} | {seen.replace('|', '/')} | {where(fault.tests)} |" for fault, seen in rows]
    lines += ["", "## By tests alone", "", "| what goes wrong | what is promised | the test that puts it |", "|---|---|---|"]
    lines += [f"| {what} | {promised} | `{test}` |" for what, promised, test in BY_TESTS]
    return "\n".join(lines) + "\n"


def differences():
    """Lines of the page that are not as the faults are; what was seen is left as it stands."""
    there = PAGE.read_text().splitlines()
    seen = {row[1]: row[2] for row in re.findall(r"^\| ([^|]*)\(`([\w-]+)`\) \| [^|]* \| ([^|]*) \| [^|]* \|$", PAGE.read_text(), re.M)}
    made = next((line for line in there if line.startswith(MADE)), MADE)
    should = page([(fault, seen.get(fault.name, "not seen")) for fault in FAULTS], made).splitlines()
    return [line for line in difflib.unified_diff(there, should, "docs/faults.md", "scripts/faults", n=0, lineterm="")]


def main():
    options = arguments()
    if options.list:
        for fault in FAULTS:
            print(f"{fault.name:24} {fault.what}")
        return
    if names := forgotten():
        sys.exit(f"faults: there are no tests {', '.join(names)}")
    if options.check:
        if lines := differences():
            sys.exit("\n".join([*lines, "faults: the page is another's; python3 scripts/faults --write"]))
        print(f"docs/faults.md has all {len(FAULTS)} faults and {len(BY_TESTS)} tests")
        return
    weir = program(options)
    chosen = [fault for fault in FAULTS if not options.only or fault.name in options.only]
    begin = time.monotonic()
    rows = put_all(weir, chosen)
    seconds = time.monotonic() - begin
    broken = sum(is_well is False for *_, is_well in rows)
    skipped = sum(is_well is None for *_, is_well in rows)
    print(f"{len(rows) - broken - skipped} passed, {broken} failed, {skipped} skipped")
    if broken:
        sys.exit(1)
    if options.write:
        if options.only or skipped:
            sys.exit("faults: the page is made of all of them; this run left some out")
        made = f"{MADE} in {seconds:.0f} s, with {environment(weir)}."
        PAGE.write_text(page([(fault, seen) for fault, seen, _ in rows], made))


if __name__ == "__main__":
    main()
