"""Where a newcomer stands: the table of the committed submissions, with one more among them."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from harness.cli.console import say

LONGEST_NAME = 100  # what leaderboard.submission takes

if TYPE_CHECKING:
    from leaderboard.board import Board


def submission_name(expression: str) -> str:
    """Return the name that a surrogate's row gets when none is asked for."""
    return re.sub(r"[^\w.=+-]+", "-", expression).strip("-._=+")[:LONGEST_NAME] or "newcomer"


def warn_skipped(name: str, problem: str) -> None:
    """Say on standard error that a broken submission is not in the table."""
    say(f"kernelcast: skipped submission '{name}': {' '.join(problem.split())}")


def _unless(newcomer: str) -> Callable[[str, str], None]:
    """Return what warns of a broken submission, and raises ValueError if it is the newcomer itself."""

    def skipped(name: str, problem: str) -> None:
        if name == newcomer:
            raise ValueError(problem)
        warn_skipped(name, problem)

    return skipped


def board_with(
    files: Mapping[str, Path],
    manifest: Mapping[str, str],
    resamples: int,
    seed: int = 0,
    submissions: Path | None = None,
) -> Board:
    """Return the leaderboard with a newcomer, in place of a committed submission of its name.

    `files` are its forecast files by track, `manifest` the fields of its `submission.yaml`. Only those tracks are on
    the board.
    """
    import yaml

    from leaderboard.board import score_board
    from leaderboard.submission import MANIFEST, SUBMISSIONS, find_submissions

    with TemporaryDirectory(prefix="kernelcast-") as temporary:
        folder = Path(temporary)
        for other in find_submissions(submissions or SUBMISSIONS, warn_skipped):
            if other.name != manifest["name"]:
                (folder / other.name).symlink_to(other.folder.resolve(), target_is_directory=True)
        own = folder / manifest["name"]
        own.mkdir()
        (own / MANIFEST).write_text(yaml.safe_dump(dict(manifest)), encoding="utf-8")
        for track, path in files.items():
            (own / f"{track}.parquet").symlink_to(path.resolve())
        skipped = _unless(manifest["name"])
        return score_board(manifest["dataset"], resamples, seed, folder, list(files), skipped=skipped)


def table_with(
    files: Mapping[str, Path],
    manifest: Mapping[str, str],
    resamples: int,
    seed: int = 0,
    submissions: Path | None = None,
) -> dict[str, Any]:
    """Return the table of `board_with`; the newcomer's name is under `newcomer`."""
    from leaderboard.table import table_of

    return {**table_of(board_with(files, manifest, resamples, seed, submissions)), "newcomer": manifest["name"]}


def places(table: Mapping[str, Any], wanted: Collection[tuple[str, str]] | None = None) -> list[str]:
    """Return one line for each track and split (of those wanted, if given): the newcomer's rank and headline figure."""
    from leaderboard.notation import with_reason

    lines = []
    for row in table["rows"]:
        if row["name"] != table["newcomer"] or (wanted and (row["track"], row["split"]) not in wanted):
            continue
        headline = table["headlines"][row["track"]]
        figure = row["metrics"][headline]
        same = [r["rank"] for r in table["rows"] if (r["track"], r["split"]) == (row["track"], row["split"])]
        rank = f"not ranked: {row['unranked']}" if row["rank"] is None else _rank(row["rank"], same)
        lines.append(f"{row['name']}, {row['track']}, {row['split']}: {rank}; {headline} {with_reason(figure)}")
    return lines


def _rank(own: int, ranks: Sequence[int | None]) -> str:
    """Return a rank among the others, which may share it; None stands for a row without one."""
    ranked, sharing = sum(rank is not None for rank in ranks), ranks.count(own)
    if sharing == 1:
        return f"rank {own} of {ranked}"
    others = "" if sharing == ranked else f" of {ranked}"
    return f"rank {own}{others}, shared by {sharing} (cannot be told apart)"
