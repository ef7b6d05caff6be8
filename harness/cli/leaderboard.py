"""`kernelcast leaderboard`: the table, recomputed from the committed forecasts."""

from __future__ import annotations

from typing import Annotated

import typer


def leaderboard(
    dataset: Annotated[str | None, typer.Option("--dataset", help="The dataset; by default the newest.")] = None,
    resamples: Annotated[int, typer.Option("--resamples", min=0, help="Bootstrap resamples.")] = 2000,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the bootstrap.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print one line for each figure.")] = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown tables.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Only check that every submission can be scored.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No messages, no progress.")] = False,
) -> None:
    """Recompute every score from the committed forecasts and print the table."""
    from benchmark.data_access import DEFAULT_DATASET
    from harness.cli.console import print_json, progress
    from harness.cli.standing import warn_skipped
    from leaderboard.submission import SUBMISSIONS, find_submissions
    from leaderboard.table import build_table, render

    if as_json + as_csv + as_markdown > 1:
        raise ValueError("choose one of --json, --csv and --markdown")
    name = dataset or DEFAULT_DATASET
    if check:
        raise typer.Exit(_check(as_json, quiet))
    # The table warns of those that are broken; here they only have no share in the progress.
    sound = find_submissions(SUBMISSIONS, skipped=lambda _name, _problem: None)
    with progress("scoring", sum(len(s.files) for s in sound if s.dataset == name), quiet) as advance:
        table = build_table(
            name, resamples, seed, SUBMISSIONS, scored=lambda _name, _track: advance(1), skipped=warn_skipped
        )
    if as_json:
        print_json(table)
    else:
        print(render(table, "csv" if as_csv else "markdown" if as_markdown else "text"), end="")


def _check(as_json: bool, quiet: bool) -> int:
    """Check each submission by itself, so that one that is broken does not hide the next; return the exit code."""
    from benchmark.forecasts import read_forecasts
    from benchmark.scoring import labels_by_split
    from harness.cli.console import print_json, say
    from leaderboard.submission import SUBMISSIONS, read_submission

    rows = []
    for folder in sorted(p for p in SUBMISSIONS.iterdir() if p.is_dir() and p.name[0] not in "._"):
        problem = None
        try:
            entry = read_submission(folder)
            for track, path in entry.files.items():
                labels = labels_by_split(track, entry.dataset).values()
                known = {query_id for split in labels for query_id in split.query_id.tolist()}
                read_forecasts(path, known, dataset=entry.dataset, track=track)
        except (ValueError, OSError, KeyError) as error:
            problem = " ".join(str(error).split())
        rows.append({"name": folder.name, "problem": problem})
        say(f"{folder.name}: {problem or 'ok'}", quiet and problem is None)
    if as_json:
        print_json({"rows": rows})
    return int(any(row["problem"] for row in rows))
