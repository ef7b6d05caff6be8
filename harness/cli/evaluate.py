"""`kernelcast evaluate`: where does a surrogate stand?"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer


def evaluate(
    surrogate: Annotated[str, typer.Argument(help="NAME or module:Class, then ?key=value&...")],
    out: Annotated[str | None, typer.Option("--out", help="Keep it as submission NAME, or in folder PATH.")] = None,
    dataset: Annotated[str | None, typer.Option("--dataset", help="The dataset; by default the newest.")] = None,
    batch: Annotated[int | None, typer.Option("--batch", min=1, help="Queries given at a time.")] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Only the first queries of each track.")] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Passed to a surrogate that takes one.")] = None,
    resamples: Annotated[int, typer.Option("--resamples", min=0, help="Bootstrap resamples of the table.")] = 2000,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a submission that exists.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the table as one JSON object.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No messages, no progress.")] = False,
) -> None:
    """Forecast every track's test splits with a surrogate, score it, and show its place among the submissions."""
    from benchmark.data_access import DEFAULT_DATASET
    from harness.cli.console import print_json, progress, require_new, say
    from harness.cli.standing import places, submission_name, table_with
    from harness.surrogates.spec import parse, seeded
    from harness.surrogates.submission import answer_all, describe, ready, write_submission
    from leaderboard.table import render

    spec = seeded(parse(surrogate), seed)
    folder = _folder(out) if out else None
    if folder:
        require_new(folder, overwrite, folder=True)
    name = dataset or DEFAULT_DATASET
    forecaster = ready(spec, name)
    manifest = describe(spec, forecaster, name, folder.name if folder else submission_name(str(spec)))
    answers = []
    for answered in answer_all(forecaster, name, batch=batch, limit=limit, show=partial(progress, quiet=quiet)):
        say(answered.summary(), quiet and answered.n_ok > 0)
        answers.append(answered)
    if not any(answered.n_ok for answered in answers):
        say("no query was answered, so that there is nothing to score")
        raise typer.Exit(1)
    with TemporaryDirectory(prefix="kernelcast-") as temporary:
        target = folder or Path(temporary) / manifest["name"]
        write_submission(answers, spec, target, manifest, overwrite)
        files = {answered.track: target / f"{answered.track}.parquet" for answered in answers if answered.n_ok}
        table = table_with(files, manifest, resamples)
    if as_json:
        print_json(table)
    else:
        print(render(table))
        print("\n".join(places(table)))
    if folder:
        say(f"wrote {folder}", quiet)


def _folder(out: str) -> Path:
    """Return the folder that --out names: a bare name stands in the checkout's submissions."""
    from leaderboard.submission import SUBMISSIONS

    path = Path(out)
    if len(path.parts) > 1 or out.startswith("."):
        return path.resolve()
    if not (SUBMISSIONS.parents[1] / "pyproject.toml").is_file():
        raise ValueError(f"there is no checkout to keep the submission '{out}' in; give a path, such as ./{out}")
    return SUBMISSIONS / out
