"""`kernelcast forecast`: a surrogate's forecasts of one track and split, as a file."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer


def forecast(
    surrogate: Annotated[str, typer.Argument(help="NAME or module:Class, then ?key=value&...")],
    track: Annotated[str, typer.Option("--track", help="pairs or pool.")],
    out: Annotated[Path, typer.Option("--out", help="The Parquet file to write.")],
    split: Annotated[str, typer.Option("--split", help="train, validation, test or test_unseen_task.")] = "test",
    dataset: Annotated[str | None, typer.Option("--dataset", help="The dataset; by default the newest.")] = None,
    batch: Annotated[int | None, typer.Option("--batch", min=1, help="Queries given at a time.")] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Only the first queries by id.")] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Passed to a surrogate that takes one.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file if it exists.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No messages, no progress.")] = False,
) -> None:
    """Write a surrogate's forecasts of one track and split to a file."""
    from benchmark.data_access import DEFAULT_DATASET
    from harness.cli.console import print_json, progress, require_new, say
    from harness.surrogates.spec import parse, seeded
    from harness.surrogates.submission import answer, ready, write

    require_new(out, overwrite)
    spec = seeded(parse(surrogate), seed)
    name = dataset or DEFAULT_DATASET
    answered = answer(ready(spec, name), track, [split], name, batch, limit, partial(progress, quiet=quiet))
    say(answered.summary(), quiet and answered.n_ok > 0)
    if answered.n_ok:
        write(answered, spec, out, spec.target, overwrite)
    if as_json:
        print_json(_report(answered, split, out))
    if not answered.n_ok:
        say("no query was answered, so that no file was written")
        raise typer.Exit(1)
    say(f"wrote {out}", quiet)


def _report(answered: Any, split: str, out: Path) -> dict[str, Any]:
    return {
        "out": str(out) if answered.n_ok else None,
        "dataset": answered.dataset,
        "track": answered.track,
        "split": split,
        "queries": len(answered.queries),
        "answered": answered.n_ok,
        "seconds": round(answered.seconds, 3),
        "problems": dict(answered.problems),
    }
