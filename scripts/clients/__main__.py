"""Real OpenFlow clients against `weir switch`, and against Open vSwitch in the same set-up.

Everything runs in network namespaces on veth pairs, needs root, and leaves nothing behind.
"""

import argparse
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import conformance  # noqa: E402
import examples  # noqa: E402
import faucet  # noqa: E402
import flowmods  # noqa: E402
import hostile  # noqa: E402
import ofctl  # noqa: E402
from lab import Failed, Unready  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PARTS = [conformance, ofctl, faucet, examples, hostile, flowmods]


def main():
    parser = argparse.ArgumentParser(prog="./x clients", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weir", default=ROOT / "target/release/weir", metavar="PROGRAM", help="the built weir")
    parser.add_argument("--python", default=ROOT / ".weir/venv/bin/python", metavar="PROGRAM",
                        help="the interpreter whose packages are os-ken and Faucet")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for part in PARTS:
        part.arguments(commands)
    options = parser.parse_args()
    options.root = ROOT
    try:
        options.run(options)
    except (Unready, Failed) as error:
        kind, code = ("not ready", 2) if isinstance(error, Unready) else ("FAILED", 1)
        print(f"x clients: {kind}: {error}", file=sys.stderr)
        sys.exit(code)
    except KeyboardInterrupt:
        sys.exit(130)


main()
