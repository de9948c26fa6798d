#!/usr/bin/env python3
"""Builds and runs every test of the workspace, and holds the run to account.

Test programs that measure or pin threads to cores (those of MEASURING) run one after another with all cores; the
others run as many at a time as there are cores, one thread each, so that a long test of one keeps no core idle. At the
end: what each program took, how many tests passed, and whether each place that asks what the machine has
(`needs!`, crates/testkit) was come by. In CI (CI=true) a place that was not is a failure, as is a skipped test.

Random tests draw from WEIR_SEED; in CI that is a new number each time, which is printed.
"""

import concurrent.futures
import json
import os
import pathlib
import re
import secrets
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
LEDGER = ROOT / "target" / "test-ledger"
MEASURING = {"weir", "weir-datapath", "weir-traffic"}
# However slow the machine: only what hangs takes longer.
PATIENCE = 1500
RESULT = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored", re.MULTILINE)


def is_ci():
    return os.environ.get("CI", "") not in ("", "0", "false")


def environment():
    """What the tests see; chooses the seed."""
    chosen = dict(os.environ, WEIR_LEDGER=str(LEDGER))
    if is_ci():
        chosen.setdefault("WEIR_SEED", str(secrets.randbits(63)))
    if "WEIR_SEED" in chosen:
        chosen["PROPTEST_RNG_SEED"] = chosen["WEIR_SEED"]
        print(f"seed of the random tests: WEIR_SEED={chosen['WEIR_SEED']} ./x test draws the same again", flush=True)
    return chosen


def build():
    """Builds the test programs: (package, target, folder, program) of each."""
    # The examples are linted; nothing here runs them.
    command = ["cargo", "test", "--locked", "--workspace", "--lib", "--bins", "--tests", "--no-run",
               "--message-format=json-render-diagnostics"]
    output = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if output.returncode != 0:
        sys.exit("tests: the tests do not build")
    programs = []
    for line in output.stdout.splitlines():
        message = json.loads(line)
        if message.get("reason") == "compiler-artifact" and message["profile"]["test"] and message["executable"]:
            folder = pathlib.Path(message["manifest_path"]).parent
            target = message["target"]
            package = re.search(r'^name = "(.*)"', (folder / "Cargo.toml").read_text(), re.MULTILINE).group(1)
            programs.append((package, f"{package} {'/'.join(target['kind'])} {target['name']}", folder,
                             message["executable"]))
    return programs


def run(program, arguments, chosen):
    """Runs one of them: name, seconds, exit code, what it printed."""
    package, name, folder, executable = program
    chosen = dict(chosen, CARGO_MANIFEST_DIR=str(folder), CARGO_PKG_NAME=package)
    begin = time.monotonic()
    try:
        done = subprocess.run([executable, *arguments], cwd=folder, env=chosen, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=PATIENCE)
        code, text = done.returncode, done.stdout
    except subprocess.TimeoutExpired as hanging:
        code, text = "none: it hangs", hanging.stdout or b""
    return name, time.monotonic() - begin, code, text.decode(errors="replace")


def doc_tests(chosen):
    """The examples in the documentation."""
    begin = time.monotonic()
    command = ["cargo", "test", "--locked", "--workspace", "--doc", "--no-fail-fast", "--quiet"]
    done = subprocess.run(command, cwd=ROOT, env=chosen, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return "examples of the documentation", time.monotonic() - begin, done.returncode, done.stdout


def report(result):
    name, seconds, code, text = result
    counts = [tuple(map(int, found)) for found in RESULT.findall(text)]
    passed, failed, ignored = (sum(column) for column in zip(*counts)) if counts else (0, 0, 0)
    is_well = code == 0 and counts
    if not is_well:
        failed = max(failed, 1)
        print(text)
        print(f"tests: {name} ended with exit code {code}")
    print(f"{seconds:7.1f} s  {passed:4} passed  {name}", flush=True)
    return passed, failed, ignored


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


def main():
    begin = time.monotonic()
    if forgotten := unlisted():
        names = ", ".join(str(path.relative_to(ROOT)) for path in forgotten)
        sys.exit(f"tests: no program has {names}: add `mod NAME;` to the main.rs beside it")
    chosen = environment()
    programs = build()
    print(f"tests: {len(programs)} programs, built in {time.monotonic() - begin:.0f} s", flush=True)
    LEDGER.unlink(missing_ok=True)
    measuring = [program for program in programs if program[0] in MEASURING]
    others = [program for program in programs if program[0] not in MEASURING]
    results = [report(run(program, [], chosen)) for program in measuring]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        running = [pool.submit(run, program, ["--test-threads=1"], chosen) for program in others]
        results += [report(done.result()) for done in concurrent.futures.as_completed(running)]
    results.append(report(doc_tests(chosen)))
    passed, failed, ignored = (sum(column) for column in zip(*results))
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
