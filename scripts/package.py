#!/usr/bin/env python3
"""Packs target/release/weir as a Debian package: target/package/weir_VERSION_amd64.deb, its debug symbols beside it.

What is packed stands in packaging/debian/weir.install; debhelper strips the program, finds the libraries that it
needs, and writes the scripts that run when it is installed and removed. Nothing is compiled: `./x package` builds
the program before, with the features that FEATURES names.

    scripts/package.py [--version VERSION] [--output FOLDER] [--features]

`--version` is the package's, where that is to be another than the program's. The packager is who DEBFULLNAME and
DEBEMAIL name. `--features` prints what the program is to be built with, and packs nothing; other options are checked.
"""

import argparse
import email.utils
import os
import pathlib
import re
import shutil
import subprocess
import sys

import sbom

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "target" / "release" / "weir"
DEBIAN = ROOT / "packaging" / "debian"
# Who installs a package cannot build another one: it has all that a program can have.
FEATURES = "weir/postgres,weir/parquet"
SHELLS = {"bash": "weir", "fish": "weir.fish", "zsh": "_weir"}
# Files of a crate that say under which terms it may be passed on.
NOTICES = re.compile(r"(licen[cs]e|copying|notice|copyright|unlicense)", re.IGNORECASE)
DPDK_NOTICES = pathlib.Path("/usr/share/doc/libdpdk-dev/copyright")
# Debian's own rule, without an epoch and a revision.
VERSION = re.compile(r"[0-9][A-Za-z0-9.+~]*")


def main():
    options = arguments()
    if options.version is not None and not VERSION.fullmatch(options.version):
        sys.exit(f"package: `{options.version}` is no version of a Debian package: it begins with a digit and has letters, digits "
                 "and . + ~ only")
    if options.features:
        print(FEATURES)
        return
    if shutil.which("dh") is None:
        sys.exit("package: there is no `dh` here; `./x package` installs it (Debian's package debhelper)")
    version = options.version or version_of(PROGRAM)
    output = options.output.resolve()
    work = output / "work"
    shutil.rmtree(work, ignore_errors=True)
    tree = work / f"weir-{version}"
    lay_out(tree, version)
    environment = dict(os.environ, SOURCE_DATE_EPOCH=str(committed()), DEB_BUILD_OPTIONS="nocheck")
    log = output / "build.log"
    with open(log, "w") as written:
        built = subprocess.run(["dpkg-buildpackage", "--build=binary", "--unsigned-changes", "--unsigned-buildinfo"],
                               cwd=tree, env=environment, stdout=written, stderr=subprocess.STDOUT)
    if built.returncode != 0:
        sys.exit(f"package: dpkg-buildpackage failed; its last lines, of {log}:\n" + "".join(
            log.read_text().splitlines(keepends=True)[-15:]))
    for package in sorted(work.glob("*.deb")):
        final = output / package.name
        package.replace(final)
        print(f"{final}  {final.stat().st_size / 1e6:.1f} MB")
    shutil.rmtree(work)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--version", help="the package's version [default: that of the program]")
    parser.add_argument("--output", type=pathlib.Path, default=ROOT / "target" / "package", help="a folder for the packages")
    parser.add_argument("--features", action="store_true", help="print what the program is to be built with")
    return parser.parse_args()


def said(*command):
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def version_of(program):
    if not program.exists():
        sys.exit(f"package: there is no {program} to pack; `./x package` builds it")
    return said(program, "--version").split()[1]


def committed():
    """When what is packed was committed, in seconds since 1970: the same tree gives the same package."""
    told = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True)
    return int(told.stdout) if told.returncode == 0 and told.stdout.strip() else int(PROGRAM.stat().st_mtime)


def lay_out(tree, version):
    """What debhelper works on: copies of what is packed, and what the program itself and cargo say."""
    generated = tree / "generated"
    (generated / "completions").mkdir(parents=True)
    for name in installed_from():
        if name.startswith("generated/"):
            continue
        source, copy = ROOT / name, tree / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, copy)
    shutil.copy2(PROGRAM, generated / "weir")
    said(PROGRAM, "man", "--output", generated / "man")
    for shell, name in SHELLS.items():
        (generated / "completions" / name).write_text(said(PROGRAM, "completions", shell))
    (generated / "THIRD-PARTY.txt").write_text(notices())
    (generated / "weir.cdx.json").write_text(said(sys.executable, "scripts/sbom.py", "--features", FEATURES))
    shutil.copytree(DEBIAN, tree / "debian")
    control = tree / "debian" / "control"
    text = control.read_text()
    packager = f"{os.environ['DEBFULLNAME']} <{os.environ['DEBEMAIL']}>" if {"DEBFULLNAME", "DEBEMAIL"} <= os.environ.keys() \
        else re.search(r"^Maintainer: (.*)$", text, re.MULTILINE)[1]
    control.write_text(re.sub(r"^Maintainer: .*$", lambda _: f"Maintainer: {packager}", text, flags=re.MULTILINE))
    (tree / "debian" / "changelog").write_text(changelog(version, packager))


def installed_from():
    """The files and folders of the repository that are packed."""
    lines = (DEBIAN / "weir.install").read_text().splitlines()
    return [line.split()[0] for line in lines if line.strip()]


def changelog(version, packager):
    date = email.utils.formatdate(committed())
    return (f"weir ({version}) unstable; urgency=medium\n\n"
            f"  * Packed from {said(PROGRAM, '--version').strip()}; CHANGELOG.md beside this file has the changes.\n\n"
            f" -- {packager}  {date}\n")


def notices():
    """The terms of everything that is linked statically: each text once, with whose it is."""
    linked, _, program = sbom.crates(["--features", FEATURES])
    texts = {}
    for one, package in sorted(linked.items(), key=lambda each: (each[1]["name"], each[1]["version"])):
        if one == program or package["source"] is None:
            continue
        folder = pathlib.Path(package["manifest_path"]).parent
        named = f"{package['name']} {package['version']} ({package['license'] or 'see below'})"
        files = [path for path in sorted(folder.iterdir()) if path.is_file() and NOTICES.match(path.name)]
        for path in files:
            texts.setdefault(path.read_text(errors="replace").strip(), []).append(named)
        if not files:
            texts.setdefault("(This crate comes without a file of its terms; its licence is the one named above.)", []).append(named)
    if not DPDK_NOTICES.exists():
        sys.exit(f"package: there is no {DPDK_NOTICES}, which has the terms of DPDK; run `./x setup`")
    texts[DPDK_NOTICES.read_text().strip()] = ["DPDK, as Debian's package libdpdk-dev has it"]
    rule = "\n\n" + "=" * 100 + "\n\n"
    return rule.join("\n".join(sorted(set(whose))) + "\n\n" + text for text, whose in texts.items()) + "\n"


if __name__ == "__main__":
    main()
