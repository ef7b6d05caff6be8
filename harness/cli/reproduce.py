"""`kernelcast reproduce`: the committed baseline submissions, made again."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer


def reproduce(
    names: Annotated[list[str] | None, typer.Argument(help="Baselines; by default all that are committed.")] = None,
    dataset: Annotated[str | None, typer.Option("--dataset", help="The dataset; by default the newest.")] = None,
    check: Annotated[bool, typer.Option("--check", help="Write nothing; exit 1 if a forecast would change.")] = False,
    speed: Annotated[bool, typer.Option("--speed", help="Only print how fast the committed ones were made.")] = False,
    resamples: Annotated[int, typer.Option("--resamples", min=0, help="Bootstrap resamples of the table.")] = 2000,
    as_json: Annotated[bool, typer.Option("--json", help="Print the table as one JSON object.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No messages.")] = False,
) -> None:
    """Regenerate every committed baseline submission, then print the table."""
    from benchmark.data_access import DEFAULT_DATASET
    from harness import reproduce as work
    from harness.cli.console import print_json, print_table, say
    from harness.cli.standing import warn_skipped
    from leaderboard.render import render
    from leaderboard.submission import SUBMISSIONS
    from leaderboard.table import build_table

    unknown = [name for name in names or () if name not in work.BASELINES]
    if unknown:
        raise ValueError(f"'{unknown[0]}' is not a committed baseline; expected {', '.join(work.BASELINES)}")
    wanted, name = names or list(work.BASELINES), dataset or DEFAULT_DATASET
    tell = partial(say, quiet=quiet)
    if speed:
        rows = work.speeds(SUBMISSIONS, list(wanted))
        if as_json:
            print_json({"rows": rows})
        else:
            cells = [
                [r["name"], r["track"], str(r["rows"]), *map(_figure, (r["seconds"], r["rows_per_second"]))]
                for r in rows
            ]
            print_table(["name", "track", "rows", "seconds", "rows/s"], cells)
        return
    if check:
        lines = work.differences(name, SUBMISSIONS, wanted, tell)
        if as_json:
            print_json({"rows": [{"problem": line} for line in lines]})
        for line in lines:
            say(line)
        raise typer.Exit(int(bool(lines)))
    work.reproduce(name, SUBMISSIONS, wanted, tell)
    table = build_table(name, resamples, submissions=SUBMISSIONS, skipped=warn_skipped)
    if as_json:
        print_json(table)
    else:
        print(render(table), end="")


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}" if value < 100 else f"{value:.0f}"
