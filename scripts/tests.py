#!/usr/bin/env python3
"""Builds and runs every test of the workspace with cargo-nextest, and holds the run to account.

A test is a process of its own. Those that measure take longest and run one at a time: they begin when the program and they are
built. Beside them the rest is built, and then those run that yield to them, by .config/nextest.toml, and a few that mostly wait;
all others, once no test measures. With --lint the lint runs beside them, and then the examples of the documentation, in the time
that they leave (SCHED_IDLE). At the end: what each program and the slowest tests took, how many tests passed, and whether each
place that asks what the machine has (`needs!`, crates/testkit) was come by. In CI (CI=true) a place that was not is a failure,
as is a skipped test.

Random tests draw from WEIR_SEED: a number made of what is committed, so that each commit draws others, and CI what
was drawn before it was sent there.
"""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import time
import tomllib
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent
NEXTEST = ROOT / ".weir" / "venv" / "bin" / "cargo-nextest"
TARGET = ROOT / "target"
LEDGER = TARGET / "test-ledger"
# The workspace, as cargo says: nextest asks it no more.
WORKSPACE = TARGET / "test-workspace.json"
# Long, and little of a core: Open vSwitch is waited for. It runs beside tests that measure, as those do that yield to them.
WAITING = "binary_id(weir-datapath::against_ovs)"
# Programs whose tests pin threads to cores and wait for what these do.
PINNED = (
    "binary_id(weir-datapath::datapath) or binary_id(weir-traffic::tests) and test(/^tester::/)"
    " or binary_id(weir-fuzz::workers) or package(weir-campaign) and test(/^rig::hold::/)"
)
NEXTEST_CONFIG = ROOT / ".config" / "nextest.toml"
FORM = "--message-format=json"
SLOWEST = 20
# Runs of tests that were begun: they end with a build that fails beside them.
RUNNING = []
# Compilers and the lint get what the tests beside them leave of the cores, and give a core back at once when one of these wakes:
# beside two compilers of `nice -n 19` tests that measure took a fifth longer than alone, beside these a fourteenth. Other tests
# get less than those that measure, whose devices poll for as long as somebody else has their cores, and than pinned ones.
IDLE = ["chrt", "--idle", "0"]
LESS = ["nice", "-n", "5"]
# What cargo builds first, of the whole workspace so that all is built with the same features: the program, and the tests that
# measure it. Then everything; benchmarks and examples are linted, nothing here runs them.
FIRST = ["--test=cli"]
EVERYTHING = ["--lib", "--bins", "--tests"]


def is_ci():
    return os.environ.get("CI", "") not in ("", "0", "false")


def environment():
    """What the tests see, the seed among it."""
    chosen = dict(os.environ, WEIR_LEDGER=str(LEDGER))
    chosen.setdefault("WEIR_SEED", seed_of_commit())
    chosen["PROPTEST_RNG_SEED"] = chosen["WEIR_SEED"]
    # A program that runs for a moment zeroes more huge pages than it ever fills: a tenth of what a short `weir bench` takes.
    chosen.setdefault("MIMALLOC_ALLOW_THP", "0")
    print(f"seed of the random tests: WEIR_SEED={chosen['WEIR_SEED']} ./x test draws the same again", flush=True)
    return chosen


def seed_of_commit():
    """The first 63 bits of the hash of all committed files; of a tree that git knows nothing of, of its folder's name."""
    said = subprocess.run(["git", "rev-parse", "HEAD^{tree}"], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    digest = said.stdout.strip() if said.returncode == 0 else hashlib.sha1(ROOT.name.encode()).hexdigest()
    return str(int(digest[:16], 16) >> 1)


def clock():
    """The frequency of the time stamp counter, as a network function that ends at once says: measured once, for all
    tests, each of which would take 0.2 s over it."""
    command = [TARGET / "debug" / "weir", "nf", "l2fwd", "--port=net_null0", "--port=net_null1", "--control=stdio"]
    said = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True).stdout
    return str(json.loads(said.splitlines()[0])["tsc_hz"])


def asked(command, chosen):
    """What a command prints on its way to the built tests."""
    done = subprocess.run(command, cwd=ROOT, env=chosen, stdout=subprocess.PIPE)
    if done.returncode != 0:
        for tests in RUNNING:
            tests.terminate()
        sys.exit("tests: the tests do not build, or not without a warning, which in CI is an error: "
                 f"{' '.join(map(str, command[:3]))} ended with {done.returncode}; what it said is above")
    return done.stdout


def measuring():
    """Which tests measure, as .config/nextest.toml has it."""
    return re.search(r"^package\(weir\) and test\(/\^\(.*\)::/\).*$", NEXTEST_CONFIG.read_text(), re.MULTILINE)[0]


def workspace(chosen):
    """Keeps what cargo says of the workspace."""
    host = re.search(r"^host: (\S+)$", asked(["rustc", "-vV"], chosen).decode(), re.MULTILINE)[1]
    told = ["cargo", "metadata", "--format-version=1", "--all-features", "--locked", f"--filter-platform={host}"]
    WORKSPACE.write_bytes(asked(told, chosen))


def build(name, targets, chosen, nicely=()):
    """Builds test programs. Returns what tells nextest that these are built."""
    programs = TARGET / f"test-programs-{name}.json"
    command = [*nicely, NEXTEST, "nextest", "list", "--list-type=binaries-only", FORM, "--locked", "--workspace", *targets]
    programs.write_bytes(asked(command, chosen))
    return [f"--binaries-metadata={programs}", f"--cargo-metadata={WORKSPACE}"]


def count(built, chosen):
    """How many tests there are, and how many of them take minutes."""
    suites = json.loads(asked([NEXTEST, "nextest", "list", FORM, *built], chosen))["rust-suites"].values()
    tests = [test for suite in suites for test in suite["testcases"].values()]
    ignored = sum(test["ignored"] for test in tests)
    return len(tests) - ignored, ignored


def run(profile, packages, built, chosen, nicely=()):
    """Runs the tests of these: (program, test, seconds, whether it passed) of each, and says which passed at their second
    attempt (those that measure have one)."""
    account = TARGET / "nextest" / profile / "junit.xml"
    account.unlink(missing_ok=True)
    command = [*nicely, NEXTEST, "nextest", "run", f"--profile={profile}", "--no-tests=fail", *built, "-E", packages]
    with subprocess.Popen(command, cwd=ROOT, env=chosen, stdin=subprocess.DEVNULL) as tests:
        RUNNING.append(tests)
    if not account.exists():
        sys.exit(f"tests: `cargo nextest` left no account of {packages}")
    cases = list(xml.etree.ElementTree.parse(account).iter("testcase"))
    for case in cases:
        if case.find("flakyFailure") is not None or case.find("flakyError") is not None:
            print(f"tests: passed at its second attempt: {case.get('classname')} {case.get('name')}")
    return [(case.get("classname"), case.get("name"), float(case.get("time")),
             case.find("failure") is None and case.find("error") is None) for case in cases]


def lint(chosen):
    """The lint, as one test; what it says is printed when it fails, while the tests go on."""
    begin = time.monotonic()
    done = subprocess.run([*IDLE, "./x", "lint"], cwd=ROOT, env=chosen, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    said = "clean" if done.returncode == 0 else f"FAILED\n{done.stdout}"
    print(f"tests: after {time.monotonic() - begin:.0f} s the lint is {said}", flush=True)
    return "lint", "everything", time.monotonic() - begin, done.returncode == 0


def has_examples(source):
    """Whether rustdoc may find an example in a file's documentation: a fence (```) that names none of these other languages, or
    lines indented by four."""
    fenced, before = False, ""
    for line in source.splitlines():
        line = re.match(r"\s*//[/!](?!/) ?(.*)", line)
        if line is None:
            fenced, before = False, ""
        elif fence := re.match(r"\s*(?:```|~~~)(.*)", line[1]):
            if not fenced and fence[1].strip() not in ("text", "toml", "json", "console", "sh"):
                return True
            fenced = not fenced
        elif not fenced and not before.strip() and re.match(r" {4}\S", line[1]):
            return True
        else:
            before = line[1]
    return False


def examples():
    """Whether any crate has examples: without, rustdoc would go through all of them for nothing."""
    return any(has_examples(path.read_text()) for path in (ROOT / "crates").glob("*/src/**/*.rs"))


def doc_tests(chosen):
    """The examples in the documentation, as one test."""
    begin = time.monotonic()
    if not examples():
        print("tests: no documentation has an example that could be run", flush=True)
        return "documentation", "examples", 0.0, True
    command = [*IDLE, "cargo", "test", "--locked", "--workspace", "--doc", "--no-fail-fast", "--quiet"]
    done = subprocess.run(command, cwd=ROOT, env=chosen, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        print(f"tests: examples of the documentation FAILED\n{done.stdout}", flush=True)
    return "documentation", "examples", time.monotonic() - begin, done.returncode == 0


def report(results):
    """What each program took, and the tests that took longest."""
    programs = {}
    for program, _, seconds, _ in results:
        tests, sum_of = programs.get(program, (0, 0.0))
        programs[program] = (tests + 1, sum_of + seconds)
    print("\nseconds of all tests of a program, one after another")
    for program, (tests, seconds) in sorted(programs.items(), key=lambda one: -one[1][1]):
        print(f"{seconds:9.1f}  {tests:4} tests  {program}")
    print(f"\nthe {SLOWEST} tests that took longest, in seconds")
    for program, test, seconds, _ in sorted(results, key=lambda one: -one[2])[:SLOWEST]:
        print(f"{seconds:9.1f}  {program} {test}")
    for program, test, _, is_well in results:
        if not is_well:
            print(f"failed: {program} {test}")


def places():
    """Where the sources ask what the machine has."""
    found = set()
    for path in sorted((ROOT / "crates").glob("**/*.rs")):
        relative = path.relative_to(ROOT)
        if relative.parts[1] == "testkit":
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if "needs!(" in line and not line.lstrip().startswith("//"):
                found.add(f"{relative}:{number}")
    return found


def account():
    """Compares the ledger with the sources. Returns how many tests were skipped, and what is wrong."""
    lines = [line.split("\t") for line in LEDGER.read_text().splitlines()] if LEDGER.exists() else []
    # The testkit's own tests ask for what no machine has.
    lines = [line for line in lines if not line[1].startswith("crates/testkit/")]
    ran = {place for what, place, _ in lines if what == "ran"}
    skipped = [f"{test} ({place})" for what, place, test in lines if what == "skipped"]
    wanted = places()
    wrong = [f"no test came by {place}, which asks what the machine has" for place in sorted(wanted - ran)]
    wrong += [f"skipped: {test}" for test in skipped]
    print(f"tests: {len(wanted & ran)} of {len(wanted)} places that ask what the machine has were come by, "
          f"{len(skipped)} tests skipped")
    return len(skipped), wrong


def unlisted():
    """Files of tests that no program has: where a crate's tests are one program, its `main.rs` names them all."""
    found = []
    for program in sorted((ROOT / "crates").glob("*/tests/main.rs")):
        manifest = (program.parent.parent / "Cargo.toml").read_text()
        named = set(re.findall(r"^mod (\w+);", program.read_text(), re.MULTILINE))
        named |= set(re.findall(r'path = "tests/(\w+)\.rs"', manifest))
        files = {path.stem for path in program.parent.glob("*.rs")}
        found += [program.parent / f"{name}.rs" for name in sorted(files - named)]
    return found


def misgrouped():
    """Files of the crate `weir` whose tests hold both cores, and that nextest may start side by side; or the reverse."""
    folder = ROOT / "crates" / "cli" / "tests"
    hold = {path.stem for path in folder.glob("*.rs") if re.search(r"\bcores\(\)", path.read_text())}
    grouped = re.search(r"/\^\((.*)\)::/", NEXTEST_CONFIG.read_text())
    return sorted(hold ^ set(grouped[1].split("|") if grouped else []))


def yielding():
    """Which tests yield to those that measure, as .config/nextest.toml has it."""
    scripts = tomllib.loads(NEXTEST_CONFIG.read_text())["profile"]["default"]["scripts"]
    return next(script["filter"] for script in scripts if script["run-wrapper"] == "yield")


def main():
    begin = time.monotonic()
    if forgotten := unlisted():
        names = ", ".join(str(path.relative_to(ROOT)) for path in forgotten)
        sys.exit(f"tests: no program has {names}: add `mod NAME;` to the main.rs beside it")
    if wrong := misgrouped():
        sys.exit(f"tests: {NEXTEST_CONFIG.relative_to(ROOT)}: the group `measuring` must be the files whose tests hold "
                 f"both cores (`cores()`); it differs in {', '.join(wrong)}")
    chosen = environment()
    workspace(chosen)
    first = build("first", FIRST, chosen)
    print(f"tests: those that measure were built in {time.monotonic() - begin:.0f} s", flush=True)
    chosen["WEIR_TSC_HZ"] = clock()
    LEDGER.unlink(missing_ok=True)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        measured = pool.submit(run, "measuring", measuring(), first, chosen)
        built = build("all", EVERYTHING, chosen, IDLE)
        wanted, ignored = count(built, chosen)
        print(f"tests: {wanted} tests, built in {time.monotonic() - begin:.0f} s", flush=True)
        jobs = [lint, doc_tests] if "--lint" in sys.argv[1:] else [doc_tests]
        other = pool.submit(lambda: [job(chosen) for job in jobs])
        more = [*built, f"--test-threads={os.cpu_count() + 2}"]
        beside = f"({yielding()}) or {WAITING}"
        pinned = pool.submit(lambda: measured.result() + run("default", PINNED, built, chosen))
        rest = f"not ({PINNED}) and not ({measuring()}) and not ({beside})"
        after = pool.submit(lambda: measured.result() and run("after", rest, more, chosen, LESS))
        results = run("beside", beside, more, chosen, LESS) + after.result() + pinned.result()
        print(f"tests: all have run after {time.monotonic() - begin:.0f} s", flush=True)
        checks = other.result()
    if len(results) != wanted:
        sys.exit(f"tests: {len(results)} tests of {wanted} ran")
    passed = sum(is_well for *_, is_well in results)
    results += checks
    report(results)
    failed = sum(not is_well for *_, is_well in results)
    skipped, wrong = account()
    for line in wrong:
        print(f"tests: {line}")
    if ignored:
        print(f"tests: {ignored} that take minutes are run by `./x test --ignored`")
    print(f"tests: {time.monotonic() - begin:.0f} s")
    if is_ci():
        failed += len(wrong)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
