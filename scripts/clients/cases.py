"""The cases of os-ken's switch tester: where they are, what they are called, how some of them are picked.

The tester runs every case of the files in a folder, in the order of the files' descriptions, and prints one
result a case. To run some cases only, and to know whose result a line is, the cases are written into a folder
of ours, in files whose descriptions are numbers.
"""

import dataclasses
import fnmatch
import json
import pathlib

from lab import Unready

VERSION = "of13"

# How long a case may be silent, in seconds: the tester's own time limits are 3 s a step.
PATIENCE = 45
PATIENCE_THROUGHPUT = 120


@dataclasses.dataclass(frozen=True)
class Case:
    """One case. Its name is `group/file#number`, its number that in the file, from 0."""

    name: str
    description: str
    body: dict = dataclasses.field(hash=False, compare=False, repr=False)

    @property
    def group(self):
        return self.name.split("/", 1)[0]

    @property
    def throughput(self):
        """Whether packets are sent for half a minute and counted."""
        return any(isinstance(test["ingress"], dict) for test in self.body["tests"])

    @property
    def patience(self):
        return PATIENCE_THROUGHPUT * len(self.body["tests"]) if self.throughput else PATIENCE


def package(python):
    """The tester's folder in the packages of that Python."""
    found = sorted(pathlib.Path(python).resolve().parent.parent.glob("lib/python*/site-packages/os_ken/tests/switch")) \
        or sorted(pathlib.Path(python).parent.parent.glob("lib/python*/site-packages/os_ken/tests/switch"))
    if not found:
        raise Unready(f"{python} has no os_ken; run ./x setup --test")
    return found[0]


def all_cases(switch_tests, version=VERSION):
    """Every case of a version, in the order of their names."""
    root = switch_tests / version
    cases = []
    for file in sorted(root.rglob("*.json")):
        stem = file.relative_to(root).with_suffix("").as_posix()
        bodies = [body for body in json.loads(file.read_text()) if isinstance(body, dict)]
        cases += [Case(f"{stem}#{number}", body["description"], body) for number, body in enumerate(bodies)]
    if not cases:
        raise Unready(f"{root} has no cases; install os-ken 3.1.0 (./x setup --test)")
    return cases


def pick(cases, patterns):
    """Those whose name one of the patterns is the begin of, or matches (`*` and `?`)."""
    if not patterns:
        return cases
    picked = [case for case in cases
              if any(case.name.startswith(pattern) or fnmatch.fnmatch(case.name, pattern) for pattern in patterns)]
    if not picked:
        raise Unready(f"no case is called {' or '.join(patterns)}; try match, action, group, meter or match/04_ETH*")
    return picked


def write(cases, folder):
    """Writes cases for the tester, which runs them in this order."""
    folder.mkdir(parents=True)
    for number, case in enumerate(cases):
        text = json.dumps([f"{number:06}", case.body])
        (folder / f"{number:06}.json").write_text(text)
