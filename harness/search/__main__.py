"""Run searches where only torch, triton and numpy are: `python3 -m harness.search campaign FILE --out DIR`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from harness.search.arms import ARMS
from harness.search.backends import SEARCH_BACKENDS
from harness.search.config import SELECTIONS
from harness.search.launch import Options, describe, run_file, run_single
from harness.search.second import remeasure


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python3 -m harness.search", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    campaign = commands.add_parser("campaign", help="run the searches of a TOML file")
    campaign.add_argument("file", type=Path, metavar="FILE.toml")
    single = commands.add_parser("run", help="run one search")
    single.add_argument("--task", required=True)
    single.add_argument("--split", default="train")
    single.add_argument("--budget", type=int, default=64)
    single.add_argument("--seed", type=int, default=0)
    single.add_argument("--arm", default="gpu-only", help=", ".join(ARMS))
    single.add_argument("--surrogate")
    single.add_argument("--selection", default="puct", help=", ".join(SELECTIONS))
    again = commands.add_parser("second", help="measure the kernels of searches again, in a session of role second")
    again.add_argument("raw", type=Path, metavar="RAW", help="folder with SEARCH_ID/events.jsonl[.gz]")
    again.add_argument("--splits", default="test,test_unseen_task", help="comma-separated")
    for command in (campaign, single, again):
        command.add_argument("--out", type=Path, required=True, help="folder; what is there is continued")
        command.add_argument("--backend", default="cuda", help=", ".join(SEARCH_BACKENDS))
        command.add_argument("--workers", type=int, default=8)
        command.add_argument("--isolation", default="strict", help="strict, shared")
        command.add_argument("--gpus", help="numbers as nvidia-smi gives them, or all")
        command.add_argument("--ray", default="auto", help="address of the cluster of backend ray")
        command.add_argument("--time-limit", type=float, help="seconds after which nothing new starts")
        command.add_argument("--quiet", action="store_true")
    for command in (campaign, single):
        command.add_argument("--dataset", help="what replay reads and surrogates are fitted on")
        command.add_argument("--mutator", default="source")
        command.add_argument("--at-once", type=int, help="searches at the same time")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0 if every search ended or can be continued, 1 if one failed, 2 for bad input, 130 if interrupted."""
    given = vars(_parser().parse_args(arguments))
    command = given.pop("command")
    names = Options.__dataclass_fields__
    options = Options(**{k: v for k, v in given.items() if k in names})
    rest = {k: v for k, v in given.items() if k not in names}
    try:
        if command == "second":
            done = remeasure(rest["raw"], rest["splits"].split(","), options)
            print(done.line())
            return 0
        outcomes = run_file(options, rest["file"]) if command == "campaign" else run_single(options, **rest)
    except KeyboardInterrupt:
        print("harness.search: interrupted; the same command continues", file=sys.stderr)
        return 130
    except (ValueError, KeyError, OSError) as error:
        if os.environ.get("KERNELCAST_DEBUG") == "1":
            raise
        print(f"harness.search: {error.args[0] if isinstance(error, KeyError) else error}", file=sys.stderr)
        return 2
    for outcome in outcomes:
        print(describe(outcome))
    return int(any(outcome.error for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
