"""os-ken's switch tester against one switch or two, several pairs at a time, each result kept.

Results go into a document (JSON), written anew after every batch. A run that finds the document there goes
on where it ended: cases that have their runs are not run again. What the document says of a device is read
by `report`.
"""

import collections
import json
import os
import queue
import threading
import time

import report
import tester
from cases import all_cases, package, pick
from lab import Failed, Lab, Unready, check_machine

# Cases of one life of the tester: few enough to share the work out, many enough to make its start cheap.
BATCH = 60
BATCH_THROUGHPUT = 2


def arguments(commands):
    parser = commands.add_parser("conformance", help="os-ken's switch tester: 991 cases of OpenFlow 1.3",
                                 description=__doc__)
    parser.add_argument("--only", action="append", default=[], metavar="CASE",
                        help="cases whose name begins so: match, action, group, meter, match/04_ETH, or with * and ?")
    parser.add_argument("--runs", type=int, default=3, help="runs of each case (3)")
    parser.add_argument("--dut", choices=["weir", "ovs", "both"], default="both")
    parser.add_argument("--pairs", type=int, default=2, help="testers at work at the same time (2)")
    parser.add_argument("-o", "--output", metavar="FILE", help="keep the results here, and go on from what is there")
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    parser.set_defaults(run=run)


class Results:
    """What is known of each case, by device; several threads tell it."""

    def __init__(self, file, cases):
        self.file, self.lock = file, threading.Lock()
        self.document = {"cases": {case.name: case.description for case in cases}, "devices": {}}
        if file and os.path.exists(file):
            with open(file, encoding="utf-8") as text:
                kept = json.load(text)
            self.document["cases"] = {**kept["cases"], **self.document["cases"]}
            self.document["devices"] = kept["devices"]

    def device(self, kind, version):
        known = self.document["devices"].setdefault(kind, {"version": version, "results": {}})
        if known["version"] != version:
            raise Unready(f"{self.file} has results of {kind} {known['version']}, this is {version}; name another file")

    def of(self, kind, case):
        return self.document["devices"][kind]["results"].setdefault(case.name, [])

    def tell(self, kind, case, passed, reason):
        with self.lock:
            self.of(kind, case).append({"passed": passed, "reason": reason})

    def save(self):
        if not self.file:
            return
        with self.lock:
            text = json.dumps(self.document, indent=1)
        with open(f"{self.file}.new", "w", encoding="utf-8") as out:
            out.write(text + "\n")
        os.replace(f"{self.file}.new", self.file)


def batches(cases):
    """Cases in pieces, those that take half a minute first: the last to end would be one of them."""
    slow = [case for case in cases if case.throughput]
    fast = [case for case in cases if not case.throughput]
    for part, size in ((slow, BATCH_THROUGHPUT), (fast, BATCH)):
        for begin in range(0, len(part), size):
            yield part[begin:begin + size]


class Work:
    """Batches that are to be run, and the pairs that run them."""

    def __init__(self, options, results):
        self.options, self.results = options, results
        self.todo = queue.SimpleQueue()
        self.errors = []
        self.left = collections.Counter()
        self.lock = threading.Lock()
        # Set when the lab goes: what is told then is about the lab.
        self.over = threading.Event()

    def plan(self, kinds, cases):
        """Run by run, and in turns between the devices: what the machine does meanwhile falls on both."""
        for run_number in range(self.options.runs):
            missing = {kind: list(batches([case for case in cases if len(self.results.of(kind, case)) <= run_number]))
                       for kind in kinds}
            for step in range(max(map(len, missing.values()), default=0)):
                for kind in kinds:
                    if step < len(missing[kind]):
                        self.todo.put((kind, missing[kind][step]))
                        self.left[kind] += len(missing[kind][step])

    def progress(self, kind, case, passed, reason):
        if self.over.is_set():
            raise Failed("interrupted")
        self.results.tell(kind, case, passed, reason)
        with self.lock:
            self.left[kind] -= 1
            left = sum(self.left.values())
        if not self.options.json:
            print(f"{left:5} left  {kind:4} {'ok  ' if passed else 'FAIL'} {case.name}"
                  + (f": {reason.splitlines()[0]}" if reason else ""), flush=True)

    def serve(self, lab, number):
        """One thread: it has a pair of each device, made when first needed."""
        pairs = {}
        try:
            while True:
                kind, batch = self.todo.get_nowait()
                if kind not in pairs:
                    pairs[kind] = tester.Pair(lab, f"{kind}{number}", kind, self.options.python, self.options.weir)
                    tester.ready(pairs[kind])
                pairs[kind].run(batch, lambda case, passed, reason, kind=kind: self.progress(kind, case, passed, reason))
                self.results.save()
        except queue.Empty:
            pass
        except (Failed, Unready, OSError) as error:
            self.errors.append(error)


def run(options):
    check_machine()
    cases = pick(all_cases(package(options.python)), options.only)
    kinds = ["weir", "ovs"] if options.dut == "both" else [options.dut]
    results = Results(options.output, cases)
    for kind in kinds:
        results.device(kind, report.version(kind, options.weir))
    work = Work(options, results)
    work.plan(kinds, cases)
    begin = time.monotonic()
    with Lab() as lab:
        threads = [threading.Thread(target=work.serve, args=(lab, number)) for number in range(options.pairs)]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                thread.join()
        finally:
            work.over.set()
    results.save()
    if options.json:
        print(json.dumps(results.document, indent=1))
    else:
        print(f"\n{time.monotonic() - begin:.0f} s\n" + report.text(results.document, [case.name for case in cases]))
    if work.errors:
        raise work.errors[0]
