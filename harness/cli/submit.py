"""`kernelcast submit`: a submission is checked, added to the leaderboard's folder, and shown its place."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def submit(
    folder: Annotated[Path, typer.Argument(help="A folder with submission.yaml and a forecast file for each track.")],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a submission of this name.")] = False,
    resamples: Annotated[int, typer.Option("--resamples", min=0, help="Bootstrap resamples of the table.")] = 2000,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the bootstrap.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the submission's rows as one JSON object.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No messages.")] = False,
) -> None:
    """Check a submission and add it to leaderboard/submissions; its scores are computed here, never read."""
    from harness.cli.console import print_json, say
    from harness.cli.standing import places, table_with
    from leaderboard.admission import admit
    from leaderboard.submission import SUBMISSIONS, read_submission

    if not folder.is_dir():
        raise ValueError(f"{folder}: no such folder; expected one with submission.yaml and a forecast file for a track")
    added = admit(folder, SUBMISSIONS, overwrite=overwrite)
    say(f"added {added}", quiet)
    submission = read_submission(added)
    table = table_with(submission.files, submission.manifest, resamples, seed)
    if as_json:
        own = [row for row in table["rows"] if row["name"] == submission.name]
        print_json({"name": submission.name, "out": str(added), "rows": own})
    else:
        print("\n".join(places(table)))
    say("`kernelcast leaderboard --record` writes the table with it; commit both to propose the submission", quiet)
