#!/usr/bin/env bash
# Builds the DPDK example programs that Weir measures, from the sources that Debian's dpdk-doc installs,
# into the folder where crates/dut/src/example.rs looks. What is built from the present DPDK already is left.
set -euo pipefail

SOURCES=/usr/share/dpdk/examples
PEERS=${XDG_CACHE_HOME:-$HOME/.cache}/weir/peers

die() { printf 'examples: %s\n' "$*" >&2; exit 1; }

# Changes lines of a file by a sed command that must change exactly the given number of them.
edit() {
    local file=$1 count=$2 command=$3
    sed "$command" "$file" >"$file.new"
    local changed
    changed=$(diff "$file" "$file.new" | grep -c '^>' || true)
    [ "$changed" = "$count" ] ||
        die "$file: $changed lines changed where $count should: this DPDK's source is not the one the change was made for ($command)"
    mv "$file.new" "$file"
}

# Its packet buffers must hold a fed trace.
change_l2fwd() {
    edit main.c 1 's/^\t\tnb_lcores \* MEMPOOL_CACHE_SIZE), 8192U);$/\t\tnb_lcores * MEMPOOL_CACHE_SIZE), getenv("WEIR_BUFFERS") ? (unsigned int)atoi(getenv("WEIR_BUFFERS")) : 8192U);/'
}

# Virtual ports cannot check checksums, and l3fwd insists; its packet buffers must hold a fed trace; and the
# source address it writes is its port's, which a virtual port cannot be told.
change_l3fwd() {
    edit main.c 1 's/^\t\t\.offloads = RTE_ETH_RX_OFFLOAD_CHECKSUM,$/\t\t.offloads = 0,/'
    edit main.c 1 's/^\t(unsigned)8192)$/\t(unsigned)atoi(getenv("WEIR_BUFFERS") ? getenv("WEIR_BUFFERS") : "8192"))/'
    edit main.c 1 '/^\t\tprint_ethaddr(" Address:", &ports_eth_addr\[portid\]);$/i\
\t\tports_eth_addr[portid] = (struct rte_ether_addr){ { 2, 0, 0, 0, 1, portid } };'
}

# It asks for jumbo frames whatever its packet buffers hold, which virtio refuses. And its control loop polls
# for commands, which would take half of the tester's core where the two share one.
change_ip_pipeline() {
    edit link.c 1 's/^\t\t\.mtu = 9000 - (RTE_ETHER_HDR_LEN + RTE_ETHER_CRC_LEN), .*$/\t\t.mtu = RTE_ETHER_MTU,/'
    edit conn.c 1 '/epoll_wait(conn->fd_client_group,$/,/);$/s/^\t\t0);$/\t\t100);/'
}

build() {
    local name=$1 version=$2
    [ "$(cat "$PEERS/$name.version" 2>/dev/null)" = "$version" ] && [ -x "$PEERS/$name" ] && return
    [ -d "$SOURCES/$name" ] || die "$SOURCES/$name is not there; install dpdk-doc, or run ./x setup --peers"
    local copy
    copy=$(mktemp -d)
    cp -r "$SOURCES/$name" "$SOURCES/common" "$copy"
    (
        cd "$copy/$name"
        "change_$name"
        CFLAGS=-w make -s shared
    ) || { rm -rf "$copy"; die "$name could not be built"; }
    mkdir -p "$PEERS"
    mv "$copy/$name/build/$name-shared" "$PEERS/$name"
    echo "$version" >"$PEERS/$name.version"
    rm -rf "$copy"
}

pkg-config --exists libdpdk || die "libdpdk is not there; install libdpdk-dev, or run ./x setup --peers"
# What a program was built from: DPDK, and the changes of this script.
version="$(pkg-config --modversion libdpdk) $(cksum <"${BASH_SOURCE[0]}" | cut -d' ' -f1)"
build l2fwd "$version"
build l3fwd "$version"
build ip_pipeline "$version"
