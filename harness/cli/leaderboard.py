"""`kernelcast leaderboard`: the table, recomputed from the committed forecasts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from leaderboard.board import Board


def leaderboard(
    track: Annotated[str | None, typer.Option("--track", help="One track; by default all.")] = None,
    dataset: Annotated[str | None, typer.Option("--dataset", help="The dataset; by default the newest.")] = None,
    resamples: Annotated[int, typer.Option("--resamples", min=0, help="Bootstrap resamples.")] = 2000,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the bootstrap.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print one line for each figure.")] = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown tables.")] = False,
    as_latex: Annotated[bool, typer.Option("--latex", help="Print LaTeX tables (package booktabs).")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Check every submission, and that no figure differs from the record.")
    ] = False,
    record: Annotated[bool, typer.Option("--record", help="Write the record: table.json, and the README.")] = False,
    site: Annotated[
        Path | None, typer.Option("--site", help="Write the site, one static page, to this folder.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a site that exists.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No messages, no progress.")] = False,
) -> None:
    """Recompute every score from the committed forecasts and print the table, or write it as a site."""
    from harness.cli.console import print_json, require_new, say

    formats = {"json": as_json, "csv": as_csv, "markdown": as_markdown, "latex": as_latex}
    if sum(formats.values()) > 1:
        raise ValueError("choose one of --json, --csv, --markdown and --latex")
    if check + record + (site is not None) > 1:
        raise ValueError("choose one of --check, --record and --site")
    if (check or record) and (track or as_csv or as_markdown or as_latex):
        raise ValueError("--check and --record are about the whole table; leave out --track and other formats")
    if site is not None:
        require_new(site, overwrite, folder=True, option="--site")
    if check:
        raise typer.Exit(_check(dataset, as_json, quiet))
    board, broken = _scored(dataset, resamples, seed, track, quiet)
    if site is not None:
        from leaderboard.site.page import write_site

        written = write_site(board, site)
        say(f"wrote {written} ({written.stat().st_size / 1e6:.1f} MB)", quiet)
        if as_json:
            print_json({"out": str(written), "bytes": written.stat().st_size, "skipped": broken})
    elif record:
        _record(board, broken, as_json, quiet)
    else:
        from leaderboard.render import render
        from leaderboard.table import table_of

        table = {**table_of(board), "skipped": broken}
        if as_json:
            print_json(table)
        else:
            print(render(table, next((name for name, wanted in formats.items() if wanted), "text")), end="")
    raise typer.Exit(int(bool(broken)))


def _scored(
    dataset: str | None, resamples: int, seed: int, track: str | None, quiet: bool
) -> tuple[Board, list[dict[str, str]]]:
    """Score all submissions, and warn of the broken ones; return the board, and those by name and problem."""
    from benchmark.data_access import DEFAULT_DATASET
    from benchmark.scoring import check_track, labels_of
    from harness.cli.console import progress
    from harness.cli.standing import warn_skipped
    from leaderboard.board import score_board
    from leaderboard.submission import SUBMISSIONS, find_submissions, standing

    name = dataset or DEFAULT_DATASET
    if track is not None:
        check_track(track)
        labels_of(track, "test", name)  # an unknown dataset, or a track that it does not have, is an error
    broken: list[dict[str, str]] = []

    def skipped(submission: str, problem: str) -> None:
        broken.append({"name": submission, "problem": " ".join(problem.split())})
        warn_skipped(submission, problem)

    sound = find_submissions(SUBMISSIONS, skipped=lambda _name, _problem: None)
    shown = [s for s in sound if s.dataset == name and standing(s).group is not None]
    total = sum(track in (None, one) for s in shown for one in s.files)
    with progress("scoring", total, quiet) as advance:
        board = score_board(
            name, resamples, seed, SUBMISSIONS, [track] if track else None,
            scored=lambda _name, _track: advance(1), skipped=skipped,
        )  # fmt: skip
    return board, broken


def _record(board: Board, broken: list[dict[str, str]], as_json: bool, quiet: bool) -> None:
    from harness.cli.console import print_json, say
    from leaderboard.record import write_record
    from leaderboard.submission import SUBMISSIONS
    from leaderboard.table import table_of

    if broken:
        say("kernelcast: nothing was recorded, because a submission is broken")
        raise typer.Exit(1)
    changed = write_record(table_of(board), SUBMISSIONS)
    for path in changed:
        say(f"wrote {path}", quiet)
    if not changed:
        say("nothing has changed", quiet)
    if as_json:
        print_json({"rows": [str(path) for path in changed]})


def _check(dataset: str | None, as_json: bool, quiet: bool) -> int:
    """Check each submission by itself, then the recomputed table against the record; return the exit code."""
    from harness.cli.console import print_json, say
    from leaderboard.admission import problems
    from leaderboard.submission import SUBMISSIONS, submission_folders

    rows: list[dict[str, Any]] = []

    def report(name: str, lines: list[str]) -> None:
        found = [" ".join(line.split()) for line in lines]
        rows.append({"name": name, "problem": "; ".join(found) or None})
        for line in found or ["ok"]:
            say(f"{name}: {line}", quiet and not found)

    for folder in submission_folders(SUBMISSIONS):
        report(folder.name, problems(folder))
    if any(row["problem"] for row in rows):
        report("table", ["not compared with its record, because a submission is broken"])
    else:
        report("table", _drifted(dataset, lambda settings: _scored(*settings, None, quiet)[0]))
    if as_json:
        print_json({"rows": rows})
    return int(any(row["problem"] for row in rows))


def _drifted(dataset: str | None, scored: Callable[[tuple[str, int, int]], Board]) -> list[str]:
    """Return a line for everything in which the table, recomputed with the settings of its record, differs from it."""
    from leaderboard.record import drift, read_record, readme_drift
    from leaderboard.submission import SUBMISSIONS, SubmissionError
    from leaderboard.table import table_of

    try:
        recorded = read_record(SUBMISSIONS)
    except SubmissionError as error:
        return [str(error)]
    if dataset is not None and recorded["dataset"] != dataset:
        return [f"the record is of dataset '{recorded['dataset']}', not of '{dataset}'"]
    table = table_of(scored((recorded["dataset"], recorded["resamples"], recorded["seed"])))
    return [*drift(recorded, table), *readme_drift(table, SUBMISSIONS)]
