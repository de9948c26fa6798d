#!/usr/bin/env python3
"""Reads the tables of `weir export RUN... --csv=FOLDER` (or --parquet=FOLDER) in pandas and draws a figure.

    weir export @last --csv=tables
    python3 python/trials.py tables rates.png

Each point's forwarded rates, trial by trial: what was measured, before anybody took a mean. Needs pandas and
matplotlib (Debian: python3-pandas, python3-matplotlib); for Parquet files also pyarrow or fastparquet.
"""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")  # no screen is needed

import matplotlib.pyplot as plt
import pandas as pd

TABLES = ("runs", "points", "environment", "trials")


def read(folder):
    """The four tables, by name."""
    tables = {}
    for name in TABLES:
        parquet, text = folder / f"{name}.parquet", folder / f"{name}.csv"
        if parquet.exists():
            tables[name] = pd.read_parquet(parquet)
        elif text.exists():
            # An empty cell has no value; a text that reads "NA" is one.
            tables[name] = pd.read_csv(text, keep_default_na=False, na_values=[""])
        else:
            raise SystemExit(f"{folder} has neither {parquet.name} nor {text.name}; `weir export --csv={folder}` writes them")
    return tables


def rates(tables):
    """Trials that count, with what their points and runs are."""
    trials = tables["trials"]
    trials = trials[trials["valid"].astype(bool) & ~trials["superseded"].astype(bool)]
    points = tables["points"].drop(columns=["trials"])
    joined = trials.merge(points, on=["run_uuid", "point"]).merge(
        tables["runs"][["run_uuid", "run", "cpu_model"]], on="run_uuid"
    )
    joined["mpps"] = joined["forwarded_pps"] / 1e6
    joined["what"] = joined["nf"] + " on " + joined["device"] + ", " + joined["size"].astype(str)
    return joined


def draw(joined, path):
    """A row a point, a mark a trial."""
    names, runs = list(dict.fromkeys(joined["what"])), list(dict.fromkeys(joined["run"]))
    figure, axes = plt.subplots(figsize=(7, 1.6 + 0.4 * len(names)))
    for place, run in enumerate(runs):
        group = joined[joined["run"] == run]
        # Runs stand a little above each other.
        rows = [names.index(name) + 0.5 * (place - (len(runs) - 1) / 2) / len(runs) for name in group["what"]]
        axes.plot(group["mpps"], rows, "o", alpha=0.5, markersize=4, label=run)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlabel("forwarded, Mpps, each trial")
    axes.set_xlim(left=0)
    axes.legend(fontsize=7, loc="best")
    figure.tight_layout()
    # The runs stand in the file, too.
    figure.savefig(path, metadata={"Title": ", ".join(runs)} if path.suffix in (".png", ".pdf", ".svg") else None)


def main():
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    folder, output = Path(sys.argv[1]), Path(sys.argv[2])
    joined = rates(read(folder))
    summary = joined.groupby(["run", "what", "purpose"], sort=False)["mpps"].agg(["count", "median", "min", "max"])
    print(summary.to_string(float_format=lambda value: f"{value:.3f}"))
    draw(joined, output)
    print(f"\nwrote {output}")


if __name__ == "__main__":
    main()
