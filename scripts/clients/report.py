"""What the results of the switch tester say: by group, by device, and where the devices differ.

A case with three runs passes in all of them, in some, or in none; with one or two runs the same is said of
those.
"""

import collections
import re

import device


def version(kind, weir):
    """Which program that is."""
    return device.OpenVSwitch.version() if kind == "ovs" else device.program_version(weir)


class Score:
    """The runs of one case on one device."""

    def __init__(self, runs):
        self.runs = len(runs)
        self.passed = sum(run["passed"] for run in runs)
        self.reasons = collections.Counter(plain(run["reason"]) for run in runs if run["reason"])

    @property
    def always(self):
        return self.runs > 0 and self.passed == self.runs

    @property
    def mostly(self):
        """In two of three runs; in more than half of however many there are."""
        return self.passed * 2 > self.runs

    @property
    def never(self):
        return self.runs > 0 and self.passed == 0

    @property
    def reason(self):
        return self.reasons.most_common(1)[0][0] if self.reasons else "not run"


def plain(reason):
    """A reason in one line, without what differs from run to run."""
    if not reason:
        return None
    line = " ".join(reason.split())
    return re.sub(r"\d+\.\d+(?=(kbps|pktps))", "N ", line)[:200]


def scores(document, kind, names):
    results = document["devices"].get(kind, {}).get("results", {})
    return {name: Score(results.get(name, [])) for name in names}


def text(document, names=None):
    """The report, for people."""
    names = names or list(document["cases"])
    kinds = list(document["devices"])
    by_kind = {kind: scores(document, kind, names) for kind in kinds}
    lines = [f"{kind}: {document['devices'][kind]['version']}" for kind in kinds]
    lines += ["", f"{'group':<8} {'cases':>5}" + "".join(
        f"   {kind:>5}: {'all runs':>8} {'most':>5} {'never':>5} {'not run':>7}" for kind in kinds)]
    groups = sorted({name.split("/")[0] for name in names})
    for group in [*groups, "all"]:
        of_group = [name for name in names if group in ("all", name.split("/")[0])]
        line = f"{group:<8} {len(of_group):>5}"
        for kind in kinds:
            of_kind = [by_kind[kind][name] for name in of_group]
            counts = [sum(getattr(score, what) for score in of_kind) for what in ("always", "mostly", "never")]
            missing = sum(score.runs == 0 for score in of_kind)
            line += f"   {'':>5}  {counts[0]:>8} {counts[1]:>5} {counts[2]:>5} {missing:>7}"
        lines.append(line)
    if {"weir", "ovs"} <= set(kinds):
        lines += behind(by_kind, names)
    for kind in kinds:
        lines += failures(kind, by_kind[kind])
    return "\n".join(lines)


def behind(by_kind, names):
    """What Open vSwitch passes every time and Weir does not."""
    worse = [name for name in names if by_kind["ovs"][name].always and not by_kind["weir"][name].always
             and by_kind["weir"][name].runs]
    if not worse:
        return ["", "No case that Open vSwitch passes in every run fails in a run of Weir's."]
    lines = ["", f"Open vSwitch passes {len(worse)} in every run, and Weir does not:"]
    for name in worse:
        score = by_kind["weir"][name]
        lines.append(f"  {name:<44} {score.passed} of {score.runs}: {score.reason}")
    return lines


def failures(kind, of_kind):
    """Cases that fail in most runs, by the reason that was given."""
    reasons = collections.defaultdict(list)
    for name, score in of_kind.items():
        if score.runs and not score.mostly:
            reasons[score.reason].append(name)
    if not reasons:
        return []
    lines = ["", f"{kind}: what fails in most runs, by reason"]
    for reason, names in sorted(reasons.items(), key=lambda item: -len(item[1])):
        files = collections.Counter(name.split("#")[0] for name in names)
        where = ", ".join(f"{file} ({count})" for file, count in files.items())
        lines += [f"  {len(names):>4}  {reason}", f"        {where}"]
    return lines

