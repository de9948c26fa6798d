"""Answers tests/history.rs: a list of numbers a line on stdin; on stdout how many each of jumpavg's groups holds."""

import json
import sys

from jumpavg import classify

for line in sys.stdin:
    groups = classify(json.loads(line))
    print(json.dumps([[len(group), group.stats.avg, group.stats.stdev] for group in groups]))
