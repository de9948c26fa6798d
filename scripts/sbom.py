#!/usr/bin/env python3
"""Prints a bill of materials of the program `weir`: CycloneDX 1.6, JSON.

What is in it: every crate that is linked on this platform, with its licence, its origin and the checksum that
Cargo.lock pins; DPDK, which is linked statically, and the shared libraries that the build asks for, with the
version of the Debian package that has them here. What is not: what only builds or tests. Nothing is fetched.

`--features postgres,...` is of a program that was built with these.
"""

import json
import pathlib
import platform
import re
import subprocess
import sys
import tomllib
import uuid

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = "weir"
# As crates/dpdk/build.rs links them: (library's Debian package, what it is to us).
SYSTEM = [("libdpdk-dev", "statically"), ("libnuma1", "shared"), ("libxdp1", "shared"), ("libbpf1", "shared"),
          ("libpcap0.8", "shared"), ("libbsd0", "shared"), ("libc6", "shared")]


def said(*command):
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def crates(features):
    """The linked crates of a program built with `features` (cargo's options): {id: package}, {id: [ids]}, its own id."""
    target = f"{platform.machine()}-unknown-linux-gnu"
    # `cargo tree` resolves features as the build does; `cargo metadata` knows the rest, of some crates more.
    tree = said("cargo", "tree", "--locked", "--offline", "--package", PROGRAM, "--target", target,
                "--edges", "normal,no-proc-macro", "--prefix", "none", "--format", "{p}", *features)
    wanted = {tuple(line.split(" ")[:2]) for line in tree.splitlines() if line}
    found = json.loads(said("cargo", "metadata", "--format-version=1", "--locked", "--offline",
                            "--filter-platform", target, *features))
    linked = {package["id"]: package for package in found["packages"]
              if (package["name"], f"v{package['version']}") in wanted}
    uses = {node["id"]: sorted({edge["pkg"] for edge in node["deps"]
                                if any(kind["kind"] is None for kind in edge["dep_kinds"])} & linked.keys())
            for node in found["resolve"]["nodes"] if node["id"] in linked}
    program = next(one for one, package in linked.items() if package["name"] == PROGRAM)
    return linked, uses, program


def reference(package):
    return f"pkg:cargo/{package['name']}@{package['version']}"


def component(package, checksums):
    is_program = package["name"] == PROGRAM
    described = {
        "type": "application" if is_program else "library",
        "bom-ref": reference(package),
        "name": package["name"],
        "version": package["version"],
        "purl": reference(package),
    }
    if package["license"]:
        described["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    checksum = checksums.get((package["name"], package["version"]))
    if checksum:
        described["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    if package["repository"]:
        described["externalReferences"] = [{"type": "vcs", "url": package["repository"]}]
    return described


def system():
    """What comes from Debian, in the versions that are here."""
    components = []
    for package, how in SYSTEM:
        query = subprocess.run(["dpkg-query", "-W", "-f=${Version}", package], stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, text=True)
        if query.returncode != 0:
            sys.exit(f"sbom: {package}, which `{PROGRAM}` is linked with, is not installed as a Debian package here; "
                     "run `./x setup`, and this again on the machine that builds the release")
        purl = f"pkg:deb/debian/{package}@{query.stdout}"
        components.append({"type": "library", "bom-ref": purl, "name": package, "version": query.stdout,
                           "purl": purl, "properties": [{"name": "weir:linked", "value": how}]})
    return components


def main():
    # As the program was built.
    linked, uses, program = crates(sys.argv[1:] if sys.argv[1:2] == ["--features"] else [])
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())
    checksums = {(package["name"], package["version"]): package.get("checksum") for package in lock["package"]}
    ordered = sorted(linked.values(), key=lambda package: (package["name"], package["version"]))
    libraries = system()
    dpdk = next(one for one in linked.values() if one["name"] == "weir-dpdk")
    dependencies = [{"ref": reference(package), "dependsOn": sorted(
        [reference(linked[one]) for one in uses[package["id"]]]
        + ([library["bom-ref"] for library in libraries] if package is dpdk else []))} for package in ordered]
    components = [component(package, checksums) for package in ordered if package["id"] != program]
    content = json.dumps([components, libraries])
    bill = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        # The same for the same contents.
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, content)}",
        "version": 1,
        "metadata": {"component": component(linked[program], checksums)},
        "components": components + libraries,
        "dependencies": dependencies + [{"ref": library["bom-ref"]} for library in libraries],
    }
    assert all(re.fullmatch(r"pkg:[a-z]+/\S+@\S+", each["purl"]) for each in bill["components"])
    json.dump(bill, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
