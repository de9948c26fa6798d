#!/usr/bin/env bash
# Fetches the kernel of guests (deployment `vm`): Debian's package, from where apt has its packages, unpacked into the
# folder where crates/dut/src/guest/kernel.rs looks, and not installed. What is there already is left. The rest of a
# guest is put together when one is first started, of what is on this machine.
set -euo pipefail

KERNEL=linux-image-cloud-amd64
GUEST=${XDG_CACHE_HOME:-$HOME/.cache}/weir/guest

die() { printf 'guest: %s\n' "$*" >&2; exit 1; }

package=$(apt-cache depends "$KERNEL" 2>/dev/null | sed -n 's/^ *Depends: \(linux-image-.*\)/\1/p' | head -n1)
[ -n "$package" ] || die "apt knows no $KERNEL: run apt-get update"
version=$(apt-cache show --no-all-versions "$package" | sed -n 's/^Version: //p' | head -n1)
if [ "$(cat "$GUEST/kernel/version" 2>/dev/null)" = "$package $version" ]; then
    exit 0
fi

mkdir -p "$GUEST"
work=$(mktemp -d "$GUEST/fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT
# Without a user of its own for it, which could not write here.
(cd "$work" && apt-get -o APT::Sandbox::User=root download -qq "$package") || die "apt-get could not download $package"
dpkg-deb -x "$work/$package"_*.deb "$work/package"
mkdir "$work/kernel"
mv "$work"/package/boot/vmlinuz-* "$work/kernel/vmlinuz"
# Where Debian has merged /usr, modules lie below it.
for modules in "$work"/package/lib/modules/*/kernel "$work"/package/usr/lib/modules/*/kernel; do
    [ ! -d "$modules" ] || mv "$modules" "$work/kernel/modules"
done
[ -d "$work/kernel/modules" ] || die "$package has no modules where I looked"
printf '%s %s\n' "$package" "$version" >"$work/kernel/version"
rm -rf "$GUEST/kernel"
mv "$work/kernel" "$GUEST/kernel"
printf 'guest: %s %s in %s\n' "$package" "$version" "$GUEST/kernel" >&2
