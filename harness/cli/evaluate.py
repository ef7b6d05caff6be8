"""`kernelcast evaluate`: where does a surrogate stand?"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from harness.cli.forecast import (
    BATCH_HELP,
    CACHE_HELP,
    CONCURRENCY_HELP,
    SAVE_HELP,
    SURROGATE_HELP,
    TIMEOUT_HELP,
    TIMEOUT_S,
)

QUICK_HELP = "A first look: a sample of each track, beside the committed submissions on the same rows. No ranks."


def evaluate(
    surrogate: Annotated[str, typer.Argument(help=SURROGATE_HELP)],
    out: Annotated[str | None, typer.Option("--out", help="Keep it as submission NAME, or in folder PATH.")] = None,
    dataset: Annotated[str | None, typer.Option("--dataset", help="The dataset; by default the newest.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help=QUICK_HELP)] = False,
    batch: Annotated[int | None, typer.Option("--batch", min=1, help=BATCH_HELP)] = None,
    concurrency: Annotated[int | None, typer.Option("--concurrency", min=1, help=CONCURRENCY_HELP)] = None,
    timeout: Annotated[float, typer.Option("--timeout", min=0.0, help=TIMEOUT_HELP)] = TIMEOUT_S,
    cache: Annotated[Path | None, typer.Option("--cache", help=CACHE_HELP)] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Only the first queries of each track.")] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Passed to a surrogate that takes one.")] = None,
    save: Annotated[Path | None, typer.Option("--save", help=SAVE_HELP)] = None,
    resamples: Annotated[int, typer.Option("--resamples", min=0, help="Bootstrap resamples of the table.")] = 2000,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a submission that exists.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the table as one JSON object.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No messages, no progress.")] = False,
) -> None:
    """Forecast every track's test splits with a surrogate, score it, and show its place among the submissions.

    Interrupted, the same command goes on where it stopped, if it has --out or --cache.
    """
    from benchmark.data_access import DEFAULT_DATASET, available_tracks
    from harness.cli.asking import Asked
    from harness.cli.console import print_json, require_new, say
    from harness.cli.quick import QUERIES, quick_table, render_quick
    from harness.cli.standing import places, submission_name, table_with
    from harness.surrogates.run import Manner
    from harness.surrogates.spec import parse, seeded
    from harness.surrogates.submission import describe, missing_parts, splits_to_submit, write_submission
    from leaderboard.render import render

    if quick and (out or limit):
        raise ValueError("--quick takes a sample of its own and keeps nothing: leave out --out and --limit")
    spec = seeded(parse(surrogate), seed)
    folder = _folder(out) if out else None
    if folder:
        require_new(folder, overwrite, folder=True)
    name = dataset or DEFAULT_DATASET
    asked = Asked(spec, name, Manner(batch, concurrency, timeout or None), folder, cache, save, quiet)
    manifest = describe(spec, asked.surrogate, name, folder.name if folder else submission_name(str(spec)))
    for line in missing_parts(name):
        say(line, quiet)
    limit = QUERIES if quick else limit
    splits_of = {track: splits_to_submit(track, name) for track in available_tracks(name)}
    with asked.answers(splits_of, limit) as answers:
        if not any(answered.n_ok for answered in answers):
            say("no query was answered, so that there is nothing to score")
            raise typer.Exit(1)
        with TemporaryDirectory(prefix="kernelcast-") as temporary:
            target = folder or Path(temporary) / manifest["name"]
            write_submission(answers, spec, target, manifest, overwrite)
            files = {answered.track: target / f"{answered.track}.parquet" for answered in answers if answered.n_ok}
            table = quick_table(files, manifest) if quick else table_with(files, manifest, resamples)
    if as_json:
        print_json(table)
    elif quick:
        print(render_quick(table))
    else:
        print(render(table))
        print("\n".join(places(table)))
    if folder:
        say(f"wrote {folder}", quiet)


def _folder(out: str) -> Path:
    """Return the folder that --out names: a bare name stands in the checkout's submissions."""
    from leaderboard.submission import NAME_RULE, SUBMISSIONS, is_name

    path = Path(out)
    if not is_name(path.resolve().name):
        raise ValueError(f"'{path.resolve().name}' cannot name a submission: expected {NAME_RULE}; give another --out")
    if len(path.parts) > 1 or out.startswith("."):
        return path.resolve()
    if not (SUBMISSIONS.parents[1] / "pyproject.toml").is_file():
        raise ValueError(f"there is no checkout to keep the submission '{out}' in; give a path, such as ./{out}")
    return SUBMISSIONS / out
