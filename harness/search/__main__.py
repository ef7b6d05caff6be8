"""Run searches where only torch, triton and numpy are: `python3 -m harness.search campaign FILE --out DIR`."""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import tasks
from harness.destination import check_destination
from harness.measure import BACKENDS, open_backend
from harness.search.campaign import Outcome, load_campaign, run_campaign
from harness.search.run import SearchConfig


def named_search(task: str, split: str, budget: int, seed: int) -> SearchConfig:
    """Return the search of one task from all seeds of a split, named TASK-SPLIT-SEED."""
    return SearchConfig(f"{task}-{split}-{seed}", task, split, tasks.seed_names(task, split), budget, seed)


def run_configs(
    configs: Sequence[SearchConfig],
    backend: str,
    workers: int,
    out: Path,
    minutes: float | None,
    report: bool = True,
) -> list[Outcome]:
    """Open the backend, run the searches under OUT, and say on standard error how it goes.

    Raises ValueError, before anything starts, for options with which no search could run or be kept.
    """
    if workers < 1:
        raise ValueError(f"workers is {workers}, expected at least 1")
    if minutes is not None and not (math.isfinite(minutes) and minutes > 0):
        raise ValueError(f"minutes is {minutes}, expected a finite number above 0")
    check_destination(out, folder=True)

    def to_stderr(line: str) -> None:
        if report:
            print(line, file=sys.stderr, flush=True)

    with open_backend(backend, workers=workers) as opened:
        return run_campaign(configs, opened, out, minutes=minutes, report=to_stderr)


def describe(outcome: Outcome) -> str:
    """Return one line about how a search ended."""
    if outcome.error is not None:
        return f"{outcome.search_id}: error: {outcome.error}"
    return f"{outcome.search_id}: {outcome.reason}, {outcome.measured} measured"


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0 if every search ended or can be continued, 1 if one failed, 2 for bad input."""
    parser = argparse.ArgumentParser(prog="python3 -m harness.search", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    campaign = commands.add_parser("campaign", help="run the searches of a TOML file")
    campaign.add_argument("file", type=Path, metavar="FILE.toml")
    single = commands.add_parser("run", help="run one search")
    single.add_argument("--task", required=True)
    single.add_argument("--split", default="train")
    single.add_argument("--budget", type=int, default=64)
    single.add_argument("--seed", type=int, default=0)
    for command in (campaign, single):
        command.add_argument("--out", type=Path, required=True, help="folder; a search that is there is continued")
        command.add_argument("--backend", choices=BACKENDS, default="cuda")
        command.add_argument("--workers", type=int, default=8)
        command.add_argument("--minutes", type=float, help="start nothing new after this time")
        command.add_argument("--quiet", action="store_true")
    options = parser.parse_args(arguments)
    try:
        if options.command == "campaign":
            configs = load_campaign(options.file)
        else:
            configs = [named_search(options.task, options.split, options.budget, options.seed)]
        outcomes = run_configs(
            configs, options.backend, options.workers, options.out, options.minutes, not options.quiet
        )
    except (ValueError, KeyError, OSError) as error:
        if os.environ.get("KERNELCAST_DEBUG") == "1":
            raise
        print(f"harness.search: {error}", file=sys.stderr)
        return 2
    for outcome in outcomes:
        print(describe(outcome))
    return int(any(outcome.error for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
