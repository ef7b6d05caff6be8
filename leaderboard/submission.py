"""A submission: a folder with forecast files and a `submission.yaml` that says what made them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any

from benchmark.metrics.catalogue import METRICS
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
NOT_STATED = "not stated"
MUST_BE_STATED = ("training_data", "cost", "contamination")
_NAME = re.compile(r"\w[\w.=+-]{0,99}")
NAME_RULE = "up to 100 letters, digits and . _ = + -, a letter or digit first"
_SCORES = {
    "score",
    "scores",
    "metric",
    "metrics",
    "result",
    "results",
    "rank",
    *(m for t in METRICS.values() for m in t),
}

Skipped = Callable[[str, str], None]  # a submission's name, what is wrong with it


class SubmissionError(ValueError):
    """A submission's folder breaks its rules; the message names the file and the field."""


@dataclass(frozen=True)
class Submission:
    """What `submission.yaml` says, and the folder that it stands in.

    `kind` is what the row is for: baselines and surrogates compete, the others are reference rows. `information` is
    what the forecaster sees: the source, compiled facts too, or a few measurements. `command` is what makes the
    forecast files. `revision` is the dataset's (see `benchmark.revision`), `training_data` and `cost` say what it
    learned from and what that and asking it cost, and `contamination` whether it can have seen the test labels. Status
    `recomputed`: the scores are computed here from the forecasts, as they always are; `reproduced`: the forecasts were
    made again too, by `command`; `retracted`: kept as evidence, with a `reason`, and out of every view.
    """

    folder: Path
    name: str
    kind: str
    information: str
    description: str
    command: str
    dataset: str
    revision: str
    training_data: str
    cost: str
    contamination: str
    status: str
    reason: str | None = None
    contact: str | None = None

    @property
    def files(self) -> dict[str, Path]:
        """The forecast file of each track that the submission answers."""
        paths = {track: self.folder / f"{track}.parquet" for track in OFFLINE_TRACKS}
        return {track: path for track, path in paths.items() if path.is_file()}

    @property
    def manifest(self) -> dict[str, str]:
        """The fields of `submission.yaml` that are given."""
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "folder"}
        return {name: value for name, value in values.items() if value is not None}

    @property
    def unstated(self) -> list[str]:
        """The fields that a submission has to state and that still say `not stated`."""
        return [name for name in MUST_BE_STATED if getattr(self, name).strip().lower() == NOT_STATED]


@dataclass(frozen=True)
class Standing:
    """Where a submission stands: its group (None: in no view), whether it competes for a rank, and if not, why."""

    group: str | None
    ranked: bool
    reason: str | None


def standing(submission: Submission, coverage: float = 1.0) -> Standing:
    """Return where a submission stands on a track and split of which it answers the given share of the queries.

    Table, JSON, site and comparisons all follow this one function, so that they cannot disagree.
    """
    if submission.status == "retracted":
        return Standing(None, False, f"retracted: {submission.reason}")
    if submission.kind not in COMPETITORS:
        return Standing("references", False, f"a reference row ({submission.kind})")
    if submission.information == "measured":
        return Standing("competitors", False, "it saw a measurement of the kernels that it forecasts")
    if coverage < LEAST_COVERAGE:
        why = f"it answers {coverage:.1%} of the queries, under {LEAST_COVERAGE:.0%}"
        return Standing("competitors", False, why)
    return Standing("competitors", True, None)


def read_submission(folder: Path, *, in_place: bool = True) -> Submission:
    """Read and check a submission's folder. Raises SubmissionError with one line that names the field.

    `in_place` asks that the folder has the submission's name, as it does on the leaderboard.
    """
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
    if in_place and values["name"] != folder.name:
        raise SubmissionError(f"{path}, field 'name': found '{values['name']}', expected the folder's name")
    submission = Submission(folder=folder, **values)
    if not submission.files:
        raise SubmissionError(f"{folder}: no forecast file; expected one of {', '.join(OFFLINE_TRACKS)} .parquet")
    return submission


def _fields(path: Path, content: dict[Any, Any]) -> dict[str, Any]:
    required = {f.name: f.default is MISSING for f in fields(Submission) if f.name != "folder"}
    unknown = [key for key in content if key not in required]
    if unknown:
        if str(unknown[0]).lower() in _SCORES:
            advice = "scores are recomputed from the forecasts and never read; remove the field"
            raise SubmissionError(f"{path}, field '{unknown[0]}': a submission does not score itself: {advice}")
        raise SubmissionError(f"{path}: unknown field '{unknown[0]}'; expected {', '.join(required)}")
    for name, needed in required.items():
        value = content.get(name)
        if value is None and not needed:
            continue
        if not isinstance(value, str) or not value.strip():
            raise SubmissionError(f"{path}, field '{name}': found {value!r}, expected text")
        if name in CHOICES and value not in CHOICES[name]:
            raise SubmissionError(f"{path}, field '{name}': found '{value}', expected {', '.join(CHOICES[name])}")
    if not is_name(content["name"]):
        raise SubmissionError(f"{path}, field 'name': found '{content['name']}', expected {NAME_RULE}")
    if content["status"] == "retracted" and not content.get("reason"):
        raise SubmissionError(f"{path}, field 'reason': a retracted submission says why")
    return {name: content.get(name) for name in required}


def is_name(text: str) -> bool:
    """Whether a submission can have this name (see NAME_RULE)."""
    return _NAME.fullmatch(text) is not None


def submission_folders(folder: Path = SUBMISSIONS) -> list[Path]:
    """Return the folders of all submissions, by name; hidden folders are not submissions."""
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder}: no such folder; expected one folder for each submission")
    return sorted(p for p in folder.iterdir() if p.is_dir() and p.name[0] not in "._")


def find_submissions(folder: Path = SUBMISSIONS, skipped: Skipped | None = None) -> list[Submission]:
    """Return all submissions in a folder, by name.

    A broken one raises SubmissionError, unless `skipped` is given and told its name and what is wrong.
    """
    found = []
    for path in submission_folders(folder):
        try:
            found.append(read_submission(path))
        except (SubmissionError, OSError) as error:
            if skipped is None:
                raise
            skipped(path.name, str(error))
    return found
