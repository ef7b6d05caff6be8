"""`python -m harness.measure FILE... --task NAME`: the same as `kernelcast measure`, on a machine with only PyTorch."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from harness.measure import BACKENDS, ISOLATIONS
from harness.measure.command import measure_files, show


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m harness.measure", description="Build, check and time kernels.")
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--task", required=True)
    parser.add_argument("--backend", choices=BACKENDS, default="cuda")
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--gpus")
    parser.add_argument("--ray")
    parser.add_argument("--isolation", choices=ISOLATIONS, default="strict")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quiet", action="store_true")
    options = vars(parser.parse_args())
    as_json = options.pop("json")
    try:
        rows = measure_files(**options)
    except (OSError, ValueError, KeyError) as error:
        print(f"kernelcast: {error.args[0] if isinstance(error, KeyError) else error}", file=sys.stderr)
        return 2
    return show(rows, as_json)


if __name__ == "__main__":
    sys.exit(main())
