"""A submission: a folder with forecast files and a `submission.yaml` that says what made them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from benchmark.query import OFFLINE_TRACKS

SUBMISSIONS = Path(__file__).resolve().parent / "submissions"
MANIFEST = "submission.yaml"
COMPETITORS = ("baseline", "surrogate")
REFERENCES = ("chance", "probe", "oracle", "ceiling")
CHOICES = {
    "kind": (*COMPETITORS, *REFERENCES),
    "information": ("source", "compiled", "measured"),
    "status": ("recomputed", "reproduced", "retracted"),
}
LEAST_COVERAGE = 0.95

Skipped = Callable[[str, str], None]  # a submission's name, what is wrong with it


class SubmissionError(ValueError):
    """A submission's folder breaks its rules; the message names the file and the field."""


@dataclass(frozen=True)
class Submission:
    """What `submission.yaml` says, and the folder that it stands in.

    `kind` is what the row is for: baselines and surrogates compete, the others are reference rows. `information` is
    what the forecaster sees: the source, compiled facts, or a measurement. `command` regenerates the forecast files.
    """

    folder: Path
    name: str
    kind: str
    information: str
    description: str
    command: str
    dataset: str
    training_data: str
    status: str
    reason: str | None = None

    @property
    def files(self) -> dict[str, Path]:
        """The forecast file of each track that the submission answers."""
        paths = {track: self.folder / f"{track}.parquet" for track in OFFLINE_TRACKS}
        return {track: path for track, path in paths.items() if path.is_file()}

    @property
    def group(self) -> str:
        """Where the row stands in the table: competitors, references, or retracted."""
        if self.status == "retracted":
            return "retracted"
        return "competitors" if self.kind in COMPETITORS else "references"


def why_unranked(submission: Submission, coverage: float) -> str | None:
    """Return why a submission has no rank on a track and split, or None when it has one.

    Table, export and comparisons all ask this function, so that they cannot disagree.
    """
    if submission.status == "retracted":
        return f"retracted: {submission.reason}"
    if submission.kind not in COMPETITORS:
        return f"a reference row ({submission.kind})"
    if submission.information == "measured":
        return "it saw a measurement of the kernels that it forecasts"
    if coverage < LEAST_COVERAGE:
        return f"it answers {coverage:.1%} of the queries, under {LEAST_COVERAGE:.0%}"
    return None


def read_submission(folder: Path) -> Submission:
    """Read and check a submission's folder. Raises SubmissionError with one line that names the field."""
    import yaml

    path = folder / MANIFEST
    if not path.is_file():
        advice = "`kernelcast evaluate SURROGATE --out` writes one, and `kernelcast score FILE` scores a single file"
        raise SubmissionError(f"{path}: no such file; every submission needs one: {advice}")
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise SubmissionError(f"{path}: not YAML ({' '.join(str(error).split())[:120]})") from None
    if not isinstance(content, dict):
        raise SubmissionError(f"{path}: holds {type(content).__name__}, expected fields and values")
    values = _fields(path, content)
    if values["name"] != folder.name:
        raise SubmissionError(f"{path}, field 'name': found '{values['name']}', expected the folder's name")
    submission = Submission(folder=folder, **values)
    if not submission.files:
        raise SubmissionError(f"{folder}: no forecast file; expected one of {', '.join(OFFLINE_TRACKS)} .parquet")
    return submission


def _fields(path: Path, content: dict[Any, Any]) -> dict[str, Any]:
    names = [f.name for f in fields(Submission) if f.name != "folder"]
    unknown = [key for key in content if key not in names]
    if unknown:
        raise SubmissionError(f"{path}: unknown field '{unknown[0]}'; expected {', '.join(names)}")
    for name in names:
        value = content.get(name)
        if name == "reason" and (value is None or isinstance(value, str)):
            continue
        if not isinstance(value, str) or not value.strip():
            raise SubmissionError(f"{path}, field '{name}': found {value!r}, expected text")
        if name in CHOICES and value not in CHOICES[name]:
            raise SubmissionError(f"{path}, field '{name}': found '{value}', expected {', '.join(CHOICES[name])}")
    if content["status"] == "retracted" and not content.get("reason"):
        raise SubmissionError(f"{path}, field 'reason': a retracted submission says why")
    return {name: content.get(name) for name in names}


def find_submissions(folder: Path = SUBMISSIONS, skipped: Skipped | None = None) -> list[Submission]:
    """Return all submissions in a folder, by name; hidden folders are not submissions.

    A broken one raises SubmissionError, unless `skipped` is given and told its name and what is wrong.
    """
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder}: no such folder; expected one folder for each submission")
    found = []
    for path in sorted(p for p in folder.iterdir() if p.is_dir() and p.name[0] not in "._"):
        try:
            found.append(read_submission(path))
        except (SubmissionError, OSError) as error:
            if skipped is None:
                raise
            skipped(path.name, str(error))
    return found
