#!/bin/sh
# Measures a change against its base, and writes a verdict for people: for any CI, and by hand.
#
#     measure.sh BASE CHANGE [BOUND]
#
# BASE and CHANGE are two checkouts, built, each with the plan weir.toml (WEIR_PLAN names another), which is run in its
# own folder. BOUND is how much worse the change may be (3%). Into WEIR_RESULTS (the folder `weir-results`) go verdict.md,
# a page of each run, and their bundles, which `weir import` takes elsewhere. WEIR names the program.
#
# Exit codes: 0 the bound holds; 1 it is broken, or nothing could be judged, or a measurement failed; 2 bad use.
set -eu

if [ $# -lt 2 ] || [ $# -gt 3 ]; then
    echo "usage: measure.sh BASE CHANGE [BOUND]" >&2
    exit 2
fi
weir=${WEIR:-weir}
plan=${WEIR_PLAN:-weir.toml}
bound=${3:-3%}
mkdir -p "${WEIR_RESULTS:-weir-results}"
results=$(cd "${WEIR_RESULTS:-weir-results}" && pwd)
store=$results/runs.db
if [ -e "$store" ]; then
    echo "measure.sh: $store is of a measurement before; remove it, or name another folder with WEIR_RESULTS" >&2
    exit 2
fi

# What spoils a measurement on this machine goes into the log; it decides nothing.
"$weir" doctor >"$results/doctor.txt" 2>&1 || true

measure() {
    [ -f "$2/$plan" ] || {
        echo "measure.sh: there is no plan $2/$plan; write one, or name it with WEIR_PLAN" >&2
        exit 2
    }
    (cd "$2" && "$weir" bench "$plan" --name "$1" --db "$store" --output "$results/$1.html") || {
        code=$?
        echo "measure.sh: measuring the $1 in $2 ended with $code" >&2
        exit "$code"
    }
    "$weir" export "$1" --db "$store" --bundle --output "$results/$1.weir"
}

measure base "$1"
measure change "$2"
code=0
"$weir" compare base change --db "$store" --bound "$bound" --markdown >"$results/verdict.md" || code=$?
cat "$results/verdict.md"
exit "$code"
