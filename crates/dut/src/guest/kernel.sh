# The kernel forwards; this tells its counters to whoever asks. `what` and `channel` were set before.
set +e
exec 3<>"$channel"
echo "{\"ready\":true,\"tid\":0,\"version\":\"Linux $(uname -r), $what\"}" >&3
count() { read -r value <"/sys/class/net/$1/statistics/$2"; }
while read -r line <&3; do
    case "$line" in
        stats)
            count port0 rx_packets; in0=$value
            count port1 rx_packets; in1=$value
            count port0 tx_packets; out0=$value
            count port1 tx_packets; out1=$value
            count port0 tx_dropped; left0=$value
            count port1 tx_dropped; left1=$value
            echo "{\"received\":$((in0 + in1)),\"sent\":$((out0 + out1)),\"ports\":[{\"received\":$in0,\"sent\":$out0,\"refused\":$left0},{\"received\":$in1,\"sent\":$out1,\"refused\":$left1}],\"drops\":{\"transmit-full\":$((left0 + left1))}}" >&3
            ;;
        stop) break ;;
    esac
done
