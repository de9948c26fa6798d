#!/usr/bin/env bash
# Questions to `weir advise`, each with the check that confirms or refutes it, and the table of their errors at the end.
#
#   scripts/advice.sh simulated [DATABASE]   twenty, on the simulated device of known parts: no root, no core, a minute
#   scripts/advice.sh real [DATABASE]        twenty, on nf and the switch over fed and vhost: root, two cores left alone, eight minutes
#
# WEIR names the program (target/release/weir). A check that refutes, and a question that a run leaves open (on a busy machine its
# rates may be the tester's), are no errors of this script.
set -euo pipefail
cd "$(dirname "$0")/.."
weir=${WEIR:-target/release/weir}
kind=${1:-simulated}
database=${2:-advice-$kind.db}
plans=plans/advice
rm -f "$database"

# ask PLAN QUESTION OPTIONS...: of the run that measured the plan, which is measured when it is first asked of.
ask() {
    local name=$1 question=$2
    shift 2
    if ! "$weir" show "$name" --db "$database" >/dev/null 2>&1; then
        "$weir" bench "$plans/$name.toml" --name "$name" --db "$database" -o /dev/null >/dev/null
    fi
    "$weir" advise "$name" --question "$question" "$@" --check --db "$database" || [ $? -le 2 ]
}

case $kind in
    simulated)
        ask shares speed --point 0 --load 1.5Mpps
        ask shares speed --point 0 --load 3Mpps
        ask shares speed --point 0 --load 6Mpps
        ask shares speed --point 3 --load 600kpps
        ask shares speed --point 3 --load 4Mpps
        ask clocks speed --load 3Mpps
        ask clocks speed --load 5Mpps --delay 'p90 < 1us'
        ask clocks speed --load 6.5Mpps --delay 'p99 < 2us'
        ask copies copies --point 0 --load 4Mpps
        ask copies copies --point 0 --load 8Mpps --delay 'p90 < 1us'
        ask copies copies --point 0 --load 15Mpps
        ask copies copies --point 1 --load 2.5Mpps
        ask chains cores --point 8 --load 3.5Mpps
        ask chains placement --point 6 --load 3Mpps
        ask chains placement --point 6 --load 4.25Mpps
        ask chains placement --point 12 --chain firewall:10+l3fwd:10+l2fwd+l2fwd --load 1Mpps
        ask functions placement --chain firewall:10+l3fwd:10 --load 3Mpps
        ask functions placement --chain firewall:10+firewall:10+l3fwd:10 --load 2Mpps
        ask functions split --point 0
        ask functions split --point 2 --load 10Mpps --delay 'p99 < 2us'
        ;;
    real)
        # Of nf, and of the switch: points 3, 9 and 15.
        ask fed-shares speed --point 0 --load 10Mpps
        ask fed-shares speed --point 0 --load 25Mpps
        ask fed-shares speed --point 3 --load 10Mpps
        ask fed-shares speed --point 3 --load 20Mpps
        ask fed-shares speed --point 6 --load 8Mpps
        ask fed-shares speed --point 6 --load 20Mpps
        ask fed-shares speed --point 9 --load 6Mpps
        ask fed-shares speed --point 9 --load 15Mpps
        ask fed-shares speed --point 12 --load 4Mpps
        ask fed-shares speed --point 12 --load 12Mpps
        ask fed-shares speed --point 15 --load 5Mpps
        ask fed-shares speed --point 15 --load 12Mpps
        ask fed-functions placement --chain firewall:10+l3fwd:10
        ask fed-functions placement --chain l3fwd:10+l2fwd
        ask fed-functions placement --chain firewall:10+firewall:10
        ask fed-functions placement --chain firewall:10+l3fwd:10+l2fwd
        ask vhost-copies copies --load 1Mpps
        ask vhost-curve split
        ask vhost-curve split --delay 'p90 < 100us'
        ask vhost-curve split --load 1Mpps --delay 'p99 < 100us'
        ;;
    *)
        echo "scripts/advice.sh: write simulated or real, not $kind" >&2
        exit 2
        ;;
esac
"$weir" advise --errors --db "$database"
