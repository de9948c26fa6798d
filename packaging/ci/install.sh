#!/bin/sh
# Sees to it that there is a weir on a runner of GitHub's: action.yml beside this file says by which of three ways.
set -eu

if [ -z "${WEIR_PACKAGE:-}" ]; then
    if command -v weir >/dev/null; then
        weir --version
        exit 0
    fi
    root=$(cd "$(dirname "$0")/../.." && pwd)
    [ -x "$root/x" ] || {
        echo "install.sh: no weir here and no sources beside this action; name a package with \`package\`" >&2
        exit 2
    }
    (cd "$root" && ./x build)
    echo "$root/target/release" >>"$GITHUB_PATH"
    exit 0
fi

package=$WEIR_PACKAGE
case $package in
https://*)
    folder=$(mktemp -d)
    curl --fail --silent --show-error --location --proto '=https' --output "$folder/weir.deb" "$package" || {
        echo "install.sh: cannot fetch $package" >&2
        exit 1
    }
    package=$folder/weir.deb
    ;;
*)
    [ -f "$package" ] || {
        echo "install.sh: \`package\` is neither an https address nor a file: $package" >&2
        exit 2
    }
    package=$(realpath "$package")
    ;;
esac
if [ -n "${WEIR_SHA256:-}" ]; then
    echo "$WEIR_SHA256  $package" | sha256sum --check --quiet || {
        echo "install.sh: $WEIR_PACKAGE has another SHA-256 than \`sha256\` says" >&2
        exit 1
    }
fi
as_root=
[ "$(id -u)" = 0 ] || as_root=sudo
$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$package"
weir --version
