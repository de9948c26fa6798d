#!/usr/bin/env python3
"""Runs the steps of a composite GitHub Action here, as GitHub's runner does: for a test of one where there is no runner.

    scripts/action.py packaging/ci [--workspace FOLDER] [--pull-request NUMBER] [NAME=VALUE...]

Each NAME=VALUE is an input. GITHUB_TOKEN, GITHUB_API_URL and GITHUB_REPOSITORY are taken from the environment. Steps that `run`
something are run by the shell that they name, after their condition; steps that use other actions are named and left out. It
knows as much of GitHub's expressions as this action has: inputs, the token, the pull request's number, `always()`.

Exit codes: 0 every step went well; 1 one did not; 2 the action is not well formed. It needs PyYAML (`./x site` installs it).
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import yaml

SHELLS = {"sh": ["sh", "-e"], "bash": ["bash", "--noprofile", "--norc", "-eo", "pipefail"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("action", type=pathlib.Path)
    parser.add_argument("--workspace", type=pathlib.Path, default=pathlib.Path.cwd())
    parser.add_argument("--pull-request", default="")
    parser.add_argument("inputs", nargs="*", metavar="NAME=VALUE")
    options = parser.parse_intermixed_args()
    action = yaml.safe_load((options.action / "action.yml").read_text())
    if action["runs"]["using"] != "composite":
        wrong("it is not composite")
    context = {"github.token": os.environ.get("GITHUB_TOKEN", ""), "github.event.pull_request.number": options.pull_request}
    inputs = {name: str(declared.get("default", "")) for name, declared in action["inputs"].items()}
    for given in options.inputs:
        name, _, value = given.partition("=")
        if name not in inputs:
            wrong(f"it has no input `{name}`")
        inputs[name] = value
    context |= {f"inputs.{name}": filled(value, context) for name, value in inputs.items()}
    for output in action.get("outputs", {}).values():
        filled(output["value"], context)
    with tempfile.TemporaryDirectory() as folder:
        sys.exit(run(action["runs"]["steps"], context, options, pathlib.Path(folder)))


def run(steps, context, options, folder):
    files = {name: folder / name.lower() for name in ("GITHUB_PATH", "GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT")}
    for file in files.values():
        file.touch()
    failed = False
    for step in steps:
        name = step.get("name", step.get("uses"))
        condition = step.get("if", "success()")
        if condition not in ("success()", "always()"):
            wrong(f"`{name}`: I do not know the condition `{condition}`")
        if failed and condition == "success()":
            print(f"-- {name}: left out, as a step before failed", flush=True)
            continue
        if "uses" in step:
            for value in step.get("with", {}).values():
                filled(str(value), context)
            print(f"-- {name}: another action, left out", flush=True)
            continue
        print(f"-- {name}", flush=True)
        path = [line for line in files["GITHUB_PATH"].read_text().splitlines() if line]
        environment = os.environ | {key: filled(str(value), context) for key, value in step.get("env", {}).items()} | {
            "GITHUB_ACTION_PATH": str(options.action.resolve()), "PATH": os.pathsep.join([*reversed(path), os.environ["PATH"]])}
        environment |= {key: str(file) for key, file in files.items()}
        script = folder / "step.sh"
        # A shell is named by each step of a composite action: GitHub refuses one without.
        script.write_text(filled(step["run"], context))
        done = subprocess.run([*SHELLS[step["shell"]], script], cwd=options.workspace, env=environment)
        failed |= done.returncode != 0
    print("-- the summary\n" + files["GITHUB_STEP_SUMMARY"].read_text(), flush=True)
    return int(failed)


def filled(text, context):
    """A text with its expressions replaced."""
    def value(found):
        if found[1] not in context:
            wrong(f"I do not know the expression `{found[1]}`")
        return context[found[1]]
    return re.sub(r"\$\{\{\s*(.*?)\s*\}\}", value, text)


def wrong(what):
    print(f"action: {what}", file=sys.stderr)
    sys.exit(2)


if __name__ == "__main__":
    main()
