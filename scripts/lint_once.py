#!/usr/bin/python3 -IS
"""Lints what is compiled anyway, for a build that is made once (`./x test` in CI).

`cargo clippy` and `cargo doc` each go through all crates once more, those of others too: a tenth of what `./x test`
takes there. As RUSTC_WORKSPACE_WRAPPER, this is Clippy's compiler, which makes the same programs as rustc and warns as it goes,
and it keeps the command of each library and program. A library's sources come by twice, and Clippy looks at them once, with their
unit tests; by itself a library is made by rustc, whose warnings are errors all the same. What makes warnings errors stands in
CLIPPY_ARGS in cargo's own environment: cargo builds anew what was built with another. Most test programs it does not optimise:
they run for seconds, and optimising them took longer; of benchmarks and examples it makes no program. Programs are linked to
fixed addresses: they are started thousands of times, and relocating them is a fifth of a start. With --documentation it has
rustdoc read the same, and fails as `cargo doc` does: on any warning, and where a crate of the workspace was not compiled.
"""

import json
import os
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
COMMANDS = ROOT / "target" / "lint"
# What rustdoc takes of a compiler's options; each has a value, behind it or behind `=`.
SHARED = ("--crate-name", "--edition", "--crate-type", "--cfg", "--check-cfg", "--extern", "-L", "--cap-lints", "--target")

# Test programs that are optimised as the crates that they test are, by package and crate: those whose own code computes for
# minutes.
OPTIMISED = (("weir-classifier", "tests"), ("weir-traffic", "tests"), ("weir-traffic", "weir_traffic"))

# What cargo, and build scripts of ours, tell a compiler in its environment, for `env!`; nothing else of it is written down.
OF_THE_CRATE = ("CARGO_PKG_", "CARGO_CRATE_", "CARGO_MANIFEST_", "CARGO_BIN_", "OUT_DIR", "WEIR_")


def values(arguments, option):
    """The values of an option, in order."""
    found = []
    for place, argument in enumerate(arguments):
        if argument == option:
            found.append(arguments[place + 1])
        elif argument.startswith(option + "="):
            found.append(argument.removeprefix(option + "="))
    return found


def is_documented(arguments):
    """Whether `cargo doc` documents what is compiled: libraries and programs, neither tests nor benchmarks nor examples."""
    kinds = {"lib", "bin"} & set(values(arguments, "--crate-type"))
    source = [argument for argument in arguments if argument.endswith(".rs")]
    return bool(kinds) and "--test" not in arguments and bool(source) and "/src/" in f"/{source[0]}"


def is_only_linted(options):
    """Whether what is compiled is a benchmark or an example, which nothing runs here."""
    source = next((option for option in options if option.endswith(".rs")), "")
    return "/benches/" in source or "/examples/" in source


def is_not_worth_optimising(options):
    """Whether what is compiled is a program of tests that runs for seconds."""
    return "--test" in options and (os.environ["CARGO_PKG_NAME"], values(options, "--crate-name")[0]) not in OPTIMISED


def is_program(options):
    """Whether what is compiled is a program, one of tests among them."""
    return "--test" in options or values(options, "--crate-type") == ["bin"]


def is_linted_with_its_tests(options):
    """Whether what is compiled is a library whose unit tests are compiled as well: not so where its manifest says that it has none
    (`test = false`), or its code is none of theirs (`not(test)`)."""
    if values(options, "--crate-type") != ["lib"] or "--test" in options:
        return False
    package = pathlib.Path(os.environ["CARGO_MANIFEST_DIR"])
    has_tests = not re.search(r"^test = false$", (package / "Cargo.toml").read_text(), re.MULTILINE)
    return has_tests and not any("not(test)" in path.read_text() for path in (package / "src").glob("**/*.rs"))


def beside(rustc):
    """Clippy's compiler of the same toolchain: what stands for it in a folder of rustup's looks for that first, each time."""
    clippy = os.path.join(os.path.dirname(rustc), "clippy-driver")
    return clippy if os.path.isabs(rustc) and os.path.exists(clippy) else "clippy-driver"


def compiled(arguments):
    """Compiles, and keeps the command."""
    rustc, options = arguments[0], arguments[1:]
    if is_only_linted(options):
        options = ["--emit=dep-info,metadata" if option.startswith("--emit=") else option for option in options]
    elif is_not_worth_optimising(options):
        options = [*options, "-Copt-level=0"]
    if is_program(options):
        options = [*options, "-Crelocation-model=static"]
    if is_documented(options):
        name, kind = values(options, "--crate-name")[0], values(options, "--crate-type")[0]
        COMMANDS.mkdir(parents=True, exist_ok=True)
        environment = {name: value for name, value in os.environ.items() if name.startswith(OF_THE_CRATE)}
        kept = {"directory": os.getcwd(), "options": options, "environment": environment}
        (COMMANDS / f"{name}.{kind}.json").write_text(json.dumps(kept))
    if is_linted_with_its_tests(options):
        os.execvp(rustc, [rustc, *options, "-Dwarnings"])
    clippy = beside(rustc)
    os.execvp(clippy, [clippy, rustc, *options])


def document(path):
    """Has rustdoc check a crate and write no pages; what it says, where it says anything. `--check` is an unstable option, which
    a stable rustdoc takes where RUSTC_BOOTSTRAP is set."""
    kept = json.loads(path.read_text())
    options = kept["options"]
    command = ["rustdoc", next(option for option in options if option.endswith(".rs"))]
    for option in SHARED:
        command += [part for value in values(options, option) for part in (option, value)]
    command += ["--document-private-items", "-D", "warnings", "-Z", "unstable-options", "--check"]
    environment = os.environ | kept["environment"] | {"RUSTC_BOOTSTRAP": "1"}
    done = subprocess.run(command, cwd=kept["directory"], env=environment, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    return "" if done.returncode == 0 else f"{path.stem}: rustdoc ended with {done.returncode}\n{done.stdout}"


def wanted():
    """The libraries and programs of the workspace, as their commands are named."""
    told = subprocess.run(["cargo", "metadata", "--format-version=1", "--no-deps", "--locked"], cwd=ROOT, check=True,
                          stdout=subprocess.PIPE, text=True).stdout
    return {f"{target['name'].replace('-', '_')}.{target['kind'][0]}.json" for package in json.loads(told)["packages"]
            for target in package["targets"]
            if target["kind"][0] in ("lib", "bin") and not target.get("required-features")}


def documentation():
    """Documents all crates, and fails on what is wrong with any."""
    forgotten = sorted(name for name in wanted() if not (COMMANDS / name).exists())
    if forgotten:
        sys.exit(f"lint: not compiled by {pathlib.Path(__file__).name}, so not documented: {', '.join(forgotten)}")
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        wrong = [said for said in pool.map(document, [COMMANDS / name for name in sorted(wanted())]) if said]
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    if sys.argv[1:] == ["--documentation"]:
        # Not above: 120 compilers would wait for them.
        import concurrent.futures
        import subprocess
        documentation()
    else:
        compiled(sys.argv[1:])
