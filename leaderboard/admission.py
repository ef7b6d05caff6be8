"""Admission: a submission is checked as a whole, then copied in as a whole or not at all."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from benchmark.answers import Labels
from benchmark.data_access import DataError, available_tracks, dataset_names
from benchmark.forecasts import ForecastError, read_forecasts
from benchmark.revision import dataset_revision
from benchmark.scoring import labels_by_split
from leaderboard.submission import MANIFEST, NOT_STATED, SUBMISSIONS, Submission, SubmissionError, read_submission


def problems(folder: Path, *, in_place: bool = True) -> list[str]:
    """Return everything that keeps a folder off the leaderboard, a line each; none if it is sound.

    A forecast of every test split that the dataset has is asked for on each track that is submitted; how much of a
    split it answers is not (see `submission.standing`).
    """
    try:
        submission = read_submission(folder, in_place=in_place)
    except (SubmissionError, OSError) as error:
        return [str(error)]
    path = folder / MANIFEST
    if submission.status == "retracted":
        return []  # evidence may be anything
    if submission.dataset not in dataset_names():
        return [f"{path}, field 'dataset': found '{submission.dataset}', expected {', '.join(dataset_names())}"]
    lines = [f"{path}, field '{name}': found '{NOT_STATED}'; say what it is, or 'none'" for name in submission.unstated]
    revision = dataset_revision(submission.dataset)
    if submission.revision != revision:
        advice = f"'{submission.dataset}' is at '{revision}' here; make the forecasts again"
        lines.append(f"{path}, field 'revision': found '{submission.revision}', and {advice}")
    tracks = available_tracks(submission.dataset)
    for track, file in submission.files.items():
        if track not in tracks:
            lines.append(f"{file}: '{submission.dataset}' has no track '{track}', expected {', '.join(tracks)}")
            continue
        try:
            lines += _uncovered(file, track, submission, labels_by_split(track, submission.dataset))
        except (ForecastError, DataError, OSError) as error:
            lines.append(str(error))
    return lines


def _uncovered(file: Path, track: str, submission: Submission, labels: Mapping[str, Labels]) -> list[str]:
    """Read a forecast file, which raises for a broken one, and return a line for each split that it leaves out."""
    known = {query_id for one in labels.values() for query_id in one.query_id.tolist()}
    ids = set(read_forecasts(file, known, dataset=submission.dataset, track=track).query_id.tolist())
    advice = "`kernelcast evaluate SURROGATE --out` forecasts all test splits"
    return [
        f"{file}: no forecast of split '{split}'; {advice}"
        for split, one in labels.items()
        if ids.isdisjoint(one.query_id.tolist())
    ]


def admit(folder: Path, submissions: Path = SUBMISSIONS, *, overwrite: bool = False) -> Path:
    """Check a submission, copy it to its place among the others, and return that place.

    Raises SubmissionError with the first problem, for a status that only a maintainer can give, and for a name that is
    taken unless `overwrite`. Files that are no part of a submission stay behind.
    """
    found = problems(folder, in_place=False)
    if found:
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise SubmissionError(found[0] + more)
    submission = read_submission(folder, in_place=False)
    if submission.status != "recomputed":
        rule = "a submission comes in as 'recomputed'; it is 'reproduced' once its command has been run here again"
        raise SubmissionError(f"{folder / MANIFEST}, field 'status': found '{submission.status}'; {rule}")
    target = submissions / submission.name
    if target.resolve() == folder.resolve():
        raise SubmissionError(
            f"{folder}: stands on the leaderboard already; `kernelcast leaderboard --check` checks it"
        )
    if target.exists() and not overwrite:
        raise SubmissionError(f"'{submission.name}' exists already; choose another name, or --overwrite to replace it")
    partial = submissions / f".{submission.name}.partial"
    old = submissions / f".{submission.name}.old"
    shutil.rmtree(partial, ignore_errors=True)
    try:
        partial.mkdir(parents=True)
        for file in (folder / MANIFEST, *submission.files.values()):
            shutil.copyfile(file, partial / file.name)
        if target.exists():
            target.rename(old)
        partial.rename(target)
    finally:
        if old.exists() and not target.exists():
            old.rename(target)
        shutil.rmtree(partial, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)
    return target
