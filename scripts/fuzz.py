#!/usr/bin/env python3
"""Fuzzes by coverage: libFuzzer over the targets of crates/fuzz, on a stable compiler.

Each target runs for so many minutes (10), from the corpus that is kept and from what earlier runs left in target/fuzz.
At the end a table says what each did: inputs, inputs a second, edges reached, and what was found. With --keep the
smallest inputs that reach all of it go into crates/fuzz/corpus.

--long runs hostile packets through the whole switch with two workers, under random tables, a seed after the other.
"""

import argparse
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
    parser.add_argument("--packets-a-seed", type=int, default=10_000_000, help="with --long (10,000,000)")
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


def long(options):
    """Hostile packets, so many a seed; the test of the datapath that draws tables and frames."""
    done, seed, begin = 0, options.seed, time.monotonic()
    while done < options.long:
        packets = min(options.packets_a_seed, options.long - done)
        environment = dict(os.environ, WEIR_PACKETS=str(packets), WEIR_SEED=str(seed), WEIR_WORKERS=str(options.workers))
        command = ["cargo", "test", "--locked", "--release", "--quiet", "-p", "weir-datapath", "--test", "datapath", "malformed",
                   "--", "--nocapture"]
        ended = subprocess.run(command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True)
        if ended.returncode != 0:
            sys.exit(f"{ended.stdout}\nfuzz: seed {seed} of {options.workers} workers found something")
        said = [line for line in ended.stdout.splitlines() if "packets received" in line]
        print(f"seed {seed}: {said[0] if said else 'passed'}", flush=True)
        done, seed = done + packets, seed + 1
    print(f"{done} packets at least, {seed - options.seed} seeds, {time.monotonic() - begin:.0f} s: nothing was found")


def main():
    options = arguments()
    if options.long is not None:
        long(options)
    else:
        by_coverage(options)


if __name__ == "__main__":
    main()
