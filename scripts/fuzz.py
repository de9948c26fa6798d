#!/usr/bin/env python3
"""Fuzzes by coverage: libFuzzer over the targets of crates/fuzz, on a stable compiler.

Each target runs for so many minutes (10), from the corpus that is kept and from what earlier runs left in target/fuzz.
At the end a table says what each did: inputs, inputs a second, edges reached, and what was found. With --keep the
smallest inputs that reach all of it go into crates/fuzz/corpus.

--long runs hostile packets through the whole switch with two workers, under random tables; --messages runs control
messages, right ones and changed ones in every version, through a whole switch. Both take a seed after the other, and say
after each what it did; Ctrl-C ends them with the sum so far.
"""

import argparse
import collections
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
WORK = ROOT / "target" / "fuzz"
FOUND = WORK / "found"
BY_HAND = ROOT / "target" / "debug" / "weir-fuzz"
BY_COVERAGE = ROOT / "target" / "debug" / "weir-fuzz-coverage"
WRAPPER = ROOT / "scripts" / "coverage-rustc"
# Seconds until an input that has not come back is given up; memory of the process, in MiB.
HANGS = 60
MEMORY = 4096


def arguments():
    parser = argparse.ArgumentParser(prog="./x fuzz", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", metavar="NAME", help="these alone; all without")
    parser.add_argument("--minutes", type=float, default=10, help="of each target (10)")
    parser.add_argument("--keep", action="store_true", help="keep the smallest inputs that reach all that was reached")
    parser.add_argument("--seed", type=int, default=1, help="of what is random (1)")
    parser.add_argument("--long", type=int, metavar="PACKETS", help="hostile packets through the whole switch instead")
    parser.add_argument("--messages", type=int, metavar="COUNT", help="control messages through a whole switch instead")
    parser.add_argument("--a-seed", type=int, metavar="COUNT", help="with --long and --messages: so many of each seed")
    parser.add_argument("--workers", type=int, default=2, help="with --long (2)")
    return parser.parse_args()


def build():
    """The targets by hand, and with libFuzzer and its counters in our own crates."""
    cargo = ["cargo", "build", "--locked", "--quiet", "-p", "weir-fuzz"]
    subprocess.run([*cargo, "--bin", "weir-fuzz"], cwd=ROOT, check=True)
    wrapped = dict(os.environ, RUSTC_WORKSPACE_WRAPPER=str(WRAPPER))
    subprocess.run([*cargo, "--features", "coverage", "--bin", "weir-fuzz-coverage"], cwd=ROOT, env=wrapped, check=True)


def names():
    said = subprocess.run([BY_HAND, "list"], stdout=subprocess.PIPE, text=True, check=True).stdout
    return [line.split()[0] for line in said.splitlines()]


def run(target, options, more):
    """libFuzzer over a target; what it printed."""
    environment = dict(os.environ, WEIR_FUZZ=target)
    command = [BY_COVERAGE, f"-timeout={HANGS}", f"-rss_limit_mb={MEMORY}", f"-seed={options.seed}",
               f"-artifact_prefix={FOUND}/{target}-", "-max_len=65536", "-print_final_stats=1", *more]
    done = subprocess.run(command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.returncode, done.stdout.decode(errors="replace")


def fuzz(target, options):
    """Runs a target for its time; a row of the table."""
    corpus = WORK / "corpus" / target
    subprocess.run([BY_HAND, "unpack", target, corpus], check=True, stdout=subprocess.DEVNULL)
    FOUND.mkdir(parents=True, exist_ok=True)
    begin = time.monotonic()
    code, said = run(target, options, [f"-max_total_time={round(options.minutes * 60)}", str(corpus)])
    seconds = time.monotonic() - begin
    edges = re.findall(r"cov: (\d+)", said)
    inputs = re.findall(r"stat::number_of_executed_units:\s+(\d+)", said) or re.findall(r"^#(\d+)", said, re.MULTILINE)
    if code != 0:
        (WORK / f"{target}.log").write_text(said)
    if options.keep and code == 0:
        keep(target, corpus, options)
    first, last = (int(edges[0]), int(edges[-1])) if edges else (0, 0)
    count = int(inputs[-1]) if inputs else 0
    return target, seconds, count, first, last, len(list(corpus.iterdir())), code


def keep(target, corpus, options):
    merged = WORK / "merged" / target
    shutil.rmtree(merged, ignore_errors=True)
    merged.mkdir(parents=True)
    code, said = run(target, options, ["-merge=1", str(merged), str(corpus)])
    if code != 0:
        sys.exit(f"fuzz: the inputs of {target} cannot be merged:\n{said[-2000:]}")
    subprocess.run([BY_HAND, "pack", target, merged], check=True)


def by_coverage(options):
    build()
    known = names()
    if unknown := [name for name in options.targets if name not in known]:
        sys.exit(f"fuzz: no target {', '.join(unknown)}; there are {', '.join(known)}")
    print(f"{'target':20} {'s':>5} {'inputs':>10} {'a second':>9} {'edges before':>12} {'after':>6} {'corpus':>6}  found",
          flush=True)
    failed = []
    for target in options.targets or known:
        name, seconds, count, first, last, corpus, code = fuzz(target, options)
        found = "nothing" if code == 0 else f"see {WORK.relative_to(ROOT)}/{target}.log"
        print(f"{name:20} {seconds:5.0f} {count:10} {count / max(seconds, 1):9.0f} {first:12} {last:6} {corpus:6}  {found}",
              flush=True)
        if code != 0:
            failed.append(target)
    if failed:
        sys.exit(f"fuzz: found something: {', '.join(failed)}; the inputs are in {FOUND.relative_to(ROOT)}")


# A long run: the test that draws, by its package and name, what says how many, how many of a seed, and what it prints.
Long = collections.namedtuple("Long", "package test name variable a_seed says")
PACKETS = Long("weir-datapath", "datapath", "malformed::", "WEIR_PACKETS", 10_000_000, "packets received")
MESSAGES = Long("weir-switch", "session", "mutated::", "WEIR_MESSAGES", 1_000_000, "messages in")


def program(of):
    """Builds the test, with optimisation; its program."""
    command = ["cargo", "test", "--locked", "--release", "--no-run", "--message-format=json", "-p", of.package,
               "--test", of.test]
    built = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=True)
    made = (json.loads(line) for line in built.stdout.splitlines() if line.startswith("{"))
    return [one["executable"] for one in made if one.get("executable") and one["target"]["name"] == of.test][-1]


def long(of, count, options):
    """So many packets or messages, a seed after the other."""
    command = [program(of), of.name, "--nocapture", "--test-threads=1"]
    done, seed, begin = 0, options.seed, time.monotonic()
    try:
        while done < count:
            wanted = min(options.a_seed or of.a_seed, count - done)
            environment = dict(os.environ, WEIR_SEED=str(seed), WEIR_WORKERS=str(options.workers))
            environment[of.variable] = str(wanted)
            ended = subprocess.run(command, cwd=ROOT / "crates" / of.package.removeprefix("weir-"), env=environment,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            said = [line for line in ended.stdout.splitlines() if of.says in line]
            if ended.returncode != 0 or not said:
                sys.exit(f"{ended.stdout}\nfuzz: seed {seed} found something")
            done, seed = done + wanted, seed + 1
            print(f"{done} of {count}: {said[0]}", flush=True)
        what = "nothing was found"
    except KeyboardInterrupt:
        what = "ended before its time, nothing was found until then"
    print(f"{done} at least, seeds {options.seed} to {seed - 1}, {time.monotonic() - begin:.0f} s: {what}")


def main():
    options = arguments()
    if options.long is not None:
        long(PACKETS, options.long, options)
    elif options.messages is not None:
        long(MESSAGES, options.messages, options)
    else:
        by_coverage(options)


if __name__ == "__main__":
    main()
