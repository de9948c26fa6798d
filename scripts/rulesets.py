#!/usr/bin/env python3
"""Writes a rule set in ClassBench's form, or a routing table, of a given size, drawn by a seed.

    scripts/rulesets.py rules 10000 --seed 1 > acl.rules
    scripts/rulesets.py routes 500000 --seed 1 > routes.txt
    weir bench --flows acl.rules --trace rules:10000 --against ovs-dpdk

Rules: prefixes of 8 to 32 bits in few networks, of which few have most of the rules; TCP, UDP, ICMP and any protocol;
ports mostly one, sometimes a range. Routes: prefix lengths about as the Internet's tables have them, mostly /24 and /22;
16 next hops. No two entries are alike. No rule or table of ClassBench's is copied.
"""

import argparse
import ipaddress
import random
import sys

ALL = 0xFFFFFFFF
NETWORK_LENGTHS = [12, 16, 20, 22, 24, 24, 24]
SOURCE_LENGTHS = [0, 0, 8, 16, 24, 24, 32, 32]
DESTINATION_LENGTHS = [0, 16, 24, 24, 32, 32, 32]
PROTOCOLS = {"0x06/0xFF": 60, "0x11/0xFF": 28, "0x01/0xFF": 5, "0x00/0x00": 7}
WITH_PORTS = ("0x06/0xFF", "0x11/0xFF")
ANY_PORT = "0 : 65535"
SERVICES = [80, 443, 53, 22, 25, 123, 3306, 8080]
RANGES = {ANY_PORT: 20, "1024 : 65535": 4, "0 : 1023": 2, **{f"{port} : {port}": 8 for port in SERVICES}, "6000 : 6063": 2}
ROUTE_LENGTHS = {8: 1, 12: 1, 16: 20, 18: 20, 19: 30, 20: 60, 21: 60, 22: 120, 23: 100, 24: 560, 28: 8, 32: 20}
NEXT_HOPS = 16


def mask(length):
    """The mask of a prefix length."""
    return (ALL << (32 - length)) & ALL


def weighted(draw, choices):
    """One of the choices, by their weights."""
    return draw.choices(list(choices), list(choices.values()))[0]


def rules(draw, count):
    """Filters of a set."""
    networks = [
        (draw.getrandbits(32) & 0xDFFFFFFF | 0x01000000, draw.choice(NETWORK_LENGTHS)) for _ in range(max(16, count // 20))
    ]

    def prefix(lengths):
        length = draw.choice(lengths)
        if length == 0:
            return "0.0.0.0/0"
        network, own = networks[int(len(networks) * draw.random() ** 2)]
        kept = mask(min(own, length))
        address = (network & kept | draw.getrandbits(32) & ~kept & ALL) & mask(length)
        return f"{ipaddress.ip_address(address)}/{length}"

    while True:
        protocol = weighted(draw, PROTOCOLS)
        source_ports = ANY_PORT if draw.random() < 0.9 else weighted(draw, RANGES)
        ports = weighted(draw, RANGES) if protocol in WITH_PORTS else ANY_PORT
        ends = f"@{prefix(SOURCE_LENGTHS)}\t{prefix(DESTINATION_LENGTHS)}"
        yield f"{ends}\t{source_ports}\t{ports}\t{protocol}\t0x0000/0x0000\t", None


def routes(draw, _count):
    """Routes of a table."""
    while True:
        length = weighted(draw, ROUTE_LENGTHS)
        address = (draw.randrange(1, 224) << 24 | draw.getrandbits(24)) & mask(length)
        yield f"{ipaddress.ip_address(address)}/{length}", draw


def main():
    """Writes the entries to standard output."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=("rules", "routes"))
    parser.add_argument("count", type=int, help="how many entries")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    draw = random.Random(args.seed)
    seen = set()
    for entry, hops in {"rules": rules, "routes": routes}[args.kind](draw, args.count):
        if entry not in seen:
            seen.add(entry)
            sys.stdout.write(entry + (f" {hops.randrange(1, NEXT_HOPS + 1)}" if hops else "") + "\n")
        if len(seen) == args.count:
            break


if __name__ == "__main__":
    main()
