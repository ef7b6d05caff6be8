"""`kernelcast search`: run one search, or a campaign of many."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.search.campaign import Outcome

app = typer.Typer(
    help="Run a kernel search, or continue one.", no_args_is_help=True, add_completion=False, rich_markup_mode=None
)
Out = Annotated[Path, typer.Option(help="Folder for the logs; a search that is there already is continued.")]
Backend = Annotated[str, typer.Option(help="cuda (local GPU) or cpu (interpreter, correctness only).")]
Workers = Annotated[int, typer.Option(help="Processes that compile and check at once.")]
Minutes = Annotated[float | None, typer.Option(help="Start no new measurement after this time.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress on standard error.")]


@app.command()
def run(
    task: Annotated[str, typer.Option(help="Task to search.")],
    out: Out,
    split: Annotated[str, typer.Option(help="Split whose seeds start the search.")] = "train",
    budget: Annotated[int, typer.Option(help="Candidate measurements, the seeds included.")] = 64,
    seed: Annotated[int, typer.Option(help="Seed of the search.")] = 0,
    backend: Backend = "cuda",
    workers: Workers = 8,
    minutes: Minutes = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Search for fast kernels of one task; the same command continues an interrupted search."""
    from harness.search.__main__ import named_search, run_configs

    configs = [named_search(task, split, budget, seed)]
    _finish(run_configs(configs, backend, workers, out, minutes, not quiet), as_json)


@app.command()
def campaign(
    file: Annotated[Path, typer.Argument(help="TOML file with tasks, splits and budgets.")],
    out: Out,
    backend: Backend = "cuda",
    workers: Workers = 8,
    minutes: Minutes = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run the searches of a campaign side by side; the same command continues it."""
    from harness.search.__main__ import run_configs
    from harness.search.campaign import load_campaign

    _finish(run_configs(load_campaign(file), backend, workers, out, minutes, not quiet), as_json)


def _finish(outcomes: Sequence[Outcome], as_json: bool) -> None:
    from harness.cli.console import print_json
    from harness.search.__main__ import describe

    if as_json:
        rows = [
            {
                "search_id": o.search_id,
                "reason": o.reason,
                "measured": o.measured,
                "error": str(o.error) if o.error else None,
            }
            for o in outcomes
        ]
        print_json({"rows": rows})
    else:
        for outcome in outcomes:
            typer.echo(describe(outcome))
    if any(outcome.error for outcome in outcomes):
        raise typer.Exit(1)
