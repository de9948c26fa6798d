#!/usr/bin/env bash
# The `nic` wiring without a NIC: Weir in an emulated PC (QEMU, no hardware virtualisation needed) with
# six emulated network cards, cabled in pairs, all bound to vfio-pci.
#
#   lab port 0 ── device port 0      lab port 0 ── lab port 1  (a cable, as an external box)
#   lab port 1 ── device port 1
#
# Everything is slow there and every rate is small; what is checked is that packets cross physical ports
# by their PCI address, both ways, none lost and none foreign. It takes a few minutes and is no part of
# CI. The guest is a Debian kernel and what this machine has: its libraries, its busybox, its Weir.
#
#   ./x nic-check [--card e1000e|virtio-net-pci] [--weir PROGRAM]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

CARD=e1000e
WEIR=target/release/weir
PATIENCE=900 # seconds until the guest is given up
WORK=target/nic-check
KERNEL=linux-image-amd64

die() { printf 'nic-check: %s\n' "$*" >&2; exit 2; }
while [ $# -gt 0 ]; do
    case "$1" in
        --card) CARD=${2:?--card needs a QEMU device} ;;
        --weir) WEIR=${2:?--weir needs a program} ;;
        *) die "no option \`$1\`; there are --card and --weir" ;;
    esac
    shift 2
done

[ -x "$WEIR" ] || die "$WEIR is not there; build it (./x build) or name it with --weir"
for tool in qemu-system-x86_64:qemu-system-x86 busybox:busybox-static python3:python3; do
    command -v "${tool%%:*}" >/dev/null || die "${tool%%:*} is missing: apt-get install ${tool#*:}"
done

# The kernel, with its modules, unpacked and not installed.
kernel() {
    ls "$WORK"/kernel/boot/vmlinuz-* >/dev/null 2>&1 && return
    local package
    package=$(apt-cache depends "$KERNEL" | sed -n 's/^ *Depends: \(linux-image-.*\)/\1/p' | head -n1)
    [ -n "$package" ] || die "apt knows no $KERNEL: run apt-get update"
    mkdir -p "$WORK/kernel"
    (cd "$WORK" && apt-get download -qq "$package" && dpkg -x "$package"_*.deb kernel && rm "$package"_*.deb)
}

# Copies a program to the guest with the shared libraries it needs.
program() {
    local path library
    path=$(command -v "$1") || die "$1 is missing"
    install -D "$path" "$ROOT/bin/$(basename "$path")"
    { ldd "$path" 2>/dev/null | grep -o '/[^ ]*' || true; } | while read -r library; do
        [ -e "$ROOT$library" ] || install -D "$(readlink -f "$library")" "$ROOT$library"
    done
}

plan() {
    cat <<EOF
nf = $1
dut = "$2"
wiring = "nic"
trace = "flows:100"
size = 128
directions = 2
huge_pages = false
[latency]
loads = ["1kpps"]
duration = "5s"
[nic]
$3
[external]
description = "a cable"
EOF
}

guest() {
    ROOT=$WORK/root
    rm -rf "$ROOT"
    mkdir -p "$ROOT"/{bin,dev,proc,sys,tmp,modules,usr/libexec/coreutils}
    for tool in "$WEIR" busybox setpriv stdbuf; do program "$tool"; done
    objcopy --strip-debug "$ROOT/bin/weir" 2>/dev/null || true # smaller where binutils are there
    find /usr/libexec /usr/lib -name libstdbuf.so -exec cp {} "$ROOT/usr/libexec/coreutils/" \; -quit
    local modules
    modules=$(echo "$WORK"/kernel/lib/modules/*)
    for module in "${MODULES[@]}"; do
        find "$modules" -name "$module.ko" -exec cp {} "$ROOT/modules/" \;
    done
    local lab='lab = ["0000:00:10.0", "0000:00:11.0"]' dut='dut = ["0000:00:12.0", "0000:00:13.0"]'
    plan '["l2fwd", "l3fwd:10"]' nf "$lab"$'\n'"$dut" >"$ROOT/device.toml"
    plan '"l2fwd"' external 'lab = ["0000:00:14.0", "0000:00:15.0"]' >"$ROOT/cable.toml"
    cat >"$ROOT/init" <<EOF
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin HOME=/tmp
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev; mount -t tmpfs tmp /tmp
for module in ${MODULES[*]}; do insmod /modules/\$module.ko || echo "no module \$module"; done
for device in 10 11 12 13 14 15; do
    address=0000:00:\$device.0
    echo vfio-pci >/sys/bus/pci/devices/\$address/driver_override
    echo \$address >/sys/bus/pci/drivers_probe
    echo "\$address is held by \$(basename \$(readlink /sys/bus/pci/devices/\$address/driver))"
done
for plan in device cable; do
    weir bench /\$plan.toml --db /tmp/weir.db -o /tmp/page.html 2>/tmp/errors
    echo "exit code \$?"
    cat /tmp/errors
    weir export @last --json --db /tmp/weir.db >/dev/ttyS1
    echo '@' >/dev/ttyS1
done
poweroff -f
EOF
    chmod +x "$ROOT/init"
    (cd "$ROOT" && find . | busybox cpio -o -H newc 2>/dev/null) | gzip -1 >"$WORK/initramfs"
}

run() {
    local cards=() cable
    # Two ends of each cable: addresses on the bus.
    for cable in 10:12 11:13 14:15; do
        for slot in "${cable%:*}" "${cable#*:}"; do
            local options="$CARD,netdev=n$slot,addr=0x$slot"
            # virtio goes through the IOMMU only when told.
            [[ $CARD == virtio* ]] && options+=",disable-legacy=on,iommu_platform=on"
            cards+=(-netdev "hubport,id=n$slot,hubid=${cable%:*}" -device "$options")
        done
    done
    : >"$WORK/results"
    timeout "$PATIENCE" qemu-system-x86_64 -machine q35,accel=tcg,kernel-irqchip=split -cpu max -smp 3 -m 2048 \
        -device intel-iommu,intremap=on,caching-mode=on,aw-bits=48 "${cards[@]}" \
        -kernel "$WORK"/kernel/boot/vmlinuz-* -initrd "$WORK/initramfs" \
        -append "console=ttyS0 quiet panic=-1 intel_iommu=on iommu=pt" \
        -nodefaults -no-reboot -display none -serial stdio -serial "file:$WORK/results" </dev/null ||
        die "the guest did not come to its end (exit code $?)"
}

# Judges what came out of the guest: every point measured, every packet back.
judge() {
    python3 - "$WORK/results" <<'EOF'
import json, sys

runs = [json.loads(text) for text in open(sys.argv[1]).read().replace("\r", "").split("\n@\n") if text.strip()]
points = [point for run in runs for point in run["points"]]
wrong = [] if len(points) == 3 else [f"{len(points)} points instead of 3"]
for point in points:
    key = point["key"]
    name = f'{key["nf"]} {key["dut"]}'
    if point["error"]:
        wrong.append(f'{name}: {point["error"]}')
    kept = [trial for trial in point["trials"] if not trial["superseded"]]
    # A trial that the tester spoilt itself was run again; the last one counts.
    for trial in kept[-1:]:
        result = trial["result"]
        for number, way in enumerate(result["directions"]):
            counts = {what: way[what] for what in ("intended", "sent", "unsent", "received", "foreign", "duplicated")}
            print(f"{name:<18} port {number} to {1 - number}: {counts}")
            if way["sent"] == 0 or way["received"] != way["sent"] or way["foreign"] or way["duplicated"]:
                wrong.append(f"{name}: port {number} to {1 - number}: {counts}")
for line in wrong:
    print("WRONG:", line)
print("nic-check:", "FAILED" if wrong else "every packet crossed the emulated cards")
sys.exit(bool(wrong))
EOF
}

MODULES=(irqbypass vfio vfio_virqfd vfio_iommu_type1 vfio-pci-core vfio-pci)
kernel
guest
run
judge
