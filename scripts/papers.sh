#!/usr/bin/env bash
# The runs that docs/papers.md is made from, and the page anew from them.
#
#   scripts/papers.sh [-f FOLDER] [-n] [-s] [NAME...]
#
# NAME is PAPER/PLAN or PAPER, as `weir papers` lists them (softflow). Each plan's run is kept as JSON in FOLDER (docs/runs) under the plan's
# name as soon as it is there; figures in the page whose runs are not there say so. -n leaves out plans whose runs are there. -s cuts the plans down as `weir papers --short` does: to try this script,
# not to keep. WEIR names the program (target/release/weir). Root and two cores left alone; `sysctl vm.nr_hugepages=1024` first. A plan that
# fails does not keep the others from running; what a machine cannot measure is in the run with its reason.
set -euo pipefail
folder=docs/runs
new=
short=()
while getopts f:ns option; do
    case $option in
    f) folder=$OPTARG ;;
    n) new=yes ;;
    s) short=(--short) ;;
    *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || set -- softflow
mkdir -p "$folder"
folder=$(realpath "$folder")
cd "$(dirname "$0")/.."
weir=$(realpath "${WEIR:-target/release/weir}")
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

# Without what the page needs not and a repository is better without: tables, latency histograms, the tester's accounts of each trial, and the
# folders of this machine.
lean='import json, os, sys
name = sys.argv[1]
run = json.loads(sys.stdin.read().replace(os.getcwd() + "/", "").replace(os.environ["PLACE"] + "/", ""))
run["name"] = name
for point in run["points"]:
    point["configuration"] = {}
    for trial in point["trials"]:
        trial["result"]["account"] = None
json.dump(run, sys.stdout, separators=(",", ":"), ensure_ascii=False)'

# Each plan of these names, in the papers' order.
"$weir" papers --json | python3 -c 'import json, sys
wanted = set(sys.argv[1:])
for figure in json.load(sys.stdin)["figures"]:
    if {figure["name"], figure["name"].split("/")[0]} & wanted:
        print(figure["name"])' "$@" >"$place/names"
[ -s "$place/names" ] || { echo "no figure is called so: weir papers lists them" >&2; exit 2; }
while read -r figure <&3; do
    name=${figure/\//-}
    if [ -n "$new" ] && [ -e "$folder/$name.json" ]; then continue; fi
    begin=$SECONDS
    "$weir" papers --run "$figure" --json --db "$place/papers.db" "${short[@]}" >"$place/ran" || [ $? -eq 1 ]
    run=$(python3 -c 'import json, sys
ran = json.load(sys.stdin)["figures"][0]["ran"]
print(*ran["why"], sep="\n", file=sys.stderr)
print(ran.get("run") or "")' <"$place/ran")
    echo "$figure: $((SECONDS - begin)) s"
    [ -n "$run" ] || continue
    "$weir" export "$run" --json --db "$place/papers.db" | PLACE=$place python3 -c "$lean" "$name" >"$place/lean"
    mv "$place/lean" "$folder/$name.json"
done 3<"$place/names"
[ "$folder" != "$PWD/docs/runs" ] || "$weir" figures docs/papers.md
