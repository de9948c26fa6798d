#!/usr/bin/env bash
# What each dataplane forwards on one core of this machine: the runs that docs/device-rates.md is made from.
#
#   scripts/device-rates.sh [FOLDER]    each run as JSON in FOLDER (docs/runs); root, two cores left alone, some twelve minutes
#
# WEIR names the program (target/release/weir). WEIR_FASTCLICK, WEIR_BESSD and WEIR_VPP name what Debian lacks (docs/measuring.md). A
# device that is not here has no rate, which the run says, and is no error of this script. `sysctl vm.nr_hugepages=1024` first.
set -euo pipefail
folder=$(realpath -m "${1:-docs/runs}")
cd "$(dirname "$0")/.."
weir=${WEIR:-target/release/weir}
place=$(mktemp -d)
database=$place/device-rates.db
others=()

finish() {
    for process in "${others[@]}"; do kill "$process" 2>/dev/null || true; done
    rm -rf "$place"
}
trap finish EXIT

# Without what a page needs not and a repository is better without: tables, the tester's accounts of each trial, and the folders of
# this machine in which programs and plans lie.
lean='import json, os, sys
text = sys.stdin.read()
for program in filter(None, map(os.environ.get, ["WEIR", "WEIR_FASTCLICK", "WEIR_BESSD", "WEIR_VPP"])):
    text = text.replace(program, os.path.basename(program))
run = json.loads(text.replace(os.getcwd() + "/", ""))
for point in run["points"]:
    point["configuration"] = {}
    for trial in point["trials"]:
        trial["result"]["account"] = None
json.dump(run, sys.stdout, separators=(",", ":"), ensure_ascii=False)'

# measure NAME PLAN OPTIONS...: a run, and its JSON.
measure() {
    local name=$1 plan=$2
    shift 2
    "$weir" bench "$plan" "$@" --name "$name" --db "$database" -o /dev/null || [ $? -eq 1 ]
    "$weir" export "$name" --json --db "$database" | python3 -c "$lean" >"$folder/$name.json"
}

# somebody PROGRAM OPTIONS...: a device that is no child of the lab.
somebody() {
    "$@" </dev/null >"$place/others.log" 2>&1 &
    others+=($!)
}

# met NAME DEVICE WORDS: a plan for a device that listens at port0.sock and port1.sock here.
met() {
    cat >"$place/$1.toml" <<EOF
nf = ["l2fwd", "l3fwd:10", "firewall:10"]
dut = "$2"
wiring = "vhost"
trace = "flows:10000"
size = [512, 1500]
directions = 1
line_rate = "100G"
huge_pages = true
[external]
sockets = ["$place/port0.sock", "$place/port1.sock"]
wait_seconds = 20
$3
[mrr]
trials = 3
duration = "300ms"
EOF
}

mkdir -p "$folder"
measure device-rates-forward plans/device-rates.toml --nf l2fwd,l3fwd:10,l3fwd:768
measure device-rates-filter plans/device-rates.toml --nf firewall:10,firewall:100
for nf in l2fwd l3fwd:10 firewall:10; do
    measure "device-rates-vhost-${nf%:*}" plans/device-rates-vhost.toml --nf "$nf"
done
measure device-rates-veth plans/device-rates-veth.toml

# A switch that already runs, and one of which nothing is known: the same switch, so that what the lab asks of it can be seen.
ports=(--port "net_vhost0,iface=$place/port0.sock,queues=1,client=0" --port "net_vhost1,iface=$place/port1.sock,queues=1,client=0")
somebody "$weir" switch "${ports[@]}" --core 1 --huge-pages --listen "punix:$place/of.sock" --control none
met openflow "openflow:unix:$place/of.sock" ""
measure device-rates-openflow "$place/openflow.toml"
kill "${others[0]}"
wait "${others[0]}" || true
rm -f "$place"/port?.sock
somebody "$weir" switch "${ports[@]}" --core 1 --huge-pages --flow in_port=p1,actions=output:p2 --flow in_port=p2,actions=output:p1 --control none
met external external 'description = "weir switch, two flows"'
measure device-rates-external "$place/external.toml" --nf l2fwd
