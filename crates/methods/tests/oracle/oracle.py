"""Answers tests/oracle.rs: one JSON request a line on stdin, one JSON answer a line on stdout.

Requests: {"ask": "probe"}: a device's counts; {"ask": "classify"}: what trials at one load prove;
{"ask": "search"}: a whole search, driven by the MLRsearch package over the device of device.py.
"""

import json
import sys

from device import trial
from MLRsearch import (
    AbstractMeasurer,
    Config,
    MeasurementResult,
    MultipleLossRatioSearch,
    SearchGoal,
)
from MLRsearch.target_spec import TargetSpec
from MLRsearch.target_stat import TargetStat

# Requests give times in 64ths of a second: such times and their sums are exact in binary.
TICK = 1.0 / 64.0


def answer_probe(request):
    return list(trial(request["device"], request["number"], request["load"], request["ticks"] * TICK))


def answer_classify(request):
    goal = request["requirement"]
    target = TargetSpec(
        loss_ratio=goal["loss_ratio"],
        exceed_ratio=goal["exceed_ratio"],
        discrete_width=None,
        trial_duration=goal["trial"] * TICK,
        duration_sum=goal["sum"] * TICK,
        expansion_coefficient=2,
        fail_fast=False,
        preceding=None,
    )
    stat = TargetStat(target)
    for duration, effective, intended, lost in request["trials"]:
        stat.add(
            MeasurementResult(
                intended_duration=duration * TICK,
                intended_load=request["load"],
                offered_count=intended,
                loss_count=lost,
                duration_with_overheads=effective * TICK,
            )
        )
    optimistic, pessimistic = stat.estimates()
    name = {(True, True): "lower", (False, False): "upper", (True, False): "undecided"}
    loss = stat.pessimistic_loss_ratio if stat.long_losses else 1.0
    return {"class": name[(optimistic, pessimistic)], "throughput": request["load"] * (1.0 - loss)}


class Device(AbstractMeasurer):
    """The device as the package wants it."""

    def __init__(self, device):
        self.device = device
        self.trials = 0
        self.spent = 0.0

    def measure(self, intended_duration, intended_load):
        intended, lost = trial(self.device, self.trials, intended_load, intended_duration)
        effective = intended_duration + self.device["overhead_ticks"] * TICK
        self.trials += 1
        self.spent += effective
        return MeasurementResult(
            intended_duration=intended_duration,
            intended_load=intended_load,
            offered_count=intended,
            loss_count=lost,
            duration_with_overheads=effective,
        )


def answer_search(request):
    goals = [
        SearchGoal(
            loss_ratio=goal["loss_ratio"],
            exceed_ratio=goal["exceed_ratio"],
            relative_width=goal["width"],
            initial_trial_duration=goal["initial"] * TICK,
            final_trial_duration=goal["trial"] * TICK,
            duration_sum=goal["sum"] * TICK,
            preceding_targets=goal["preceding"],
            fail_fast=False,
        )
        for goal in request["goals"]
    ]
    measurer = Device(request["device"])
    try:
        config = Config()
        config.goals = goals
        config.max_load = request["max"]
        config.min_load = request["min"]
        config.warmup_duration = 0.0
        found = MultipleLossRatioSearch(config).search(measurer, debug=lambda text: None)
    except (RuntimeError, ValueError) as error:
        return {"error": str(error)}

    return {
        "goals": [bounds_of(found[goal]) for goal in goals],
        "trials": measurer.trials,
        "spent": measurer.spent,
    }


def bounds_of(result):
    """Lower bound, upper bound and conditional throughput; null for what is not there."""
    try:
        throughput = result.conditional_throughput
    except RuntimeError:
        # The package refuses a throughput of zero, which rounding gives it where the exceed ratio is
        # no binary fraction.
        throughput = None
    loads = (result.relevant_lower_bound, result.relevant_upper_bound, throughput)
    return [None if load is None else float(load) for load in loads]


ANSWERS = {"probe": answer_probe, "classify": answer_classify, "search": answer_search}

for line in sys.stdin:
    question = json.loads(line)
    print(json.dumps(ANSWERS[question["ask"]](question)))
