"""From a surrogate to forecasts: created, fitted, asked on one track after another, and written to files."""

from __future__ import annotations

import hashlib
import json
import shlex
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmark.query import OFFLINE_TRACKS, TEST_SPLITS, Forecast, Query, Surrogate
from harness.surrogates import BUNDLED
from harness.surrogates.answer_log import AnswerLog
from harness.surrogates.foreign import SurrogateError, prints_to_stderr
from harness.surrogates.privileged import queries_for, reveal
from harness.surrogates.run import Manner, Progress, forecast_all
from harness.surrogates.spec import SurrogateSpec, create, fingerprint
from harness.surrogates.training import prepare

NOT_STATED = "not stated"  # what the author of a submission has to fill in
INFORMATION = ("source", "compiled", "measured")  # what a surrogate may declare that it sees
KINDS = {name: entry.kind for name, entry in BUNDLED.items()}

ShowProgress = Callable[[str, int], AbstractContextManager[Progress | None]]  # label and number of queries


@dataclass(frozen=True)
class Answered:
    """A surrogate's forecasts of one track, with the queries in the same order.

    `problems` counts, by message, what went wrong with the queries whose status is `error`; `n_kept` queries were
    answered by an earlier run, and `details` are what the surrogate says about itself.
    """

    dataset: str
    track: str
    queries: Sequence[Query]
    forecasts: Sequence[Forecast]
    seconds: float
    problems: Counter[str] = field(default_factory=Counter)
    transductive: bool = False
    n_kept: int = 0
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def n_ok(self) -> int:
        """How many queries got a usable forecast."""
        return sum(f.status == "ok" for f in self.forecasts)

    @property
    def tokens(self) -> tuple[int, int]:
        """How many tokens went in and out, over all answers."""
        return sum(f.input_tokens or 0 for f in self.forecasts), sum(f.output_tokens or 0 for f in self.forecasts)

    def summary(self) -> str:
        """Return one line that says how many queries were answered, how fast, and the commonest problem."""
        asked = len(self.queries) - self.n_kept
        rate = f" ({_rate(asked / self.seconds)} rows/s)" if asked and self.seconds else ""
        line = f"{self.track}: {self.n_ok} of {len(self.queries)} queries answered in {self.seconds:.1f} s{rate}"
        if self.n_kept:
            line += f", {self.n_kept} of them by an earlier run"
        if any(self.tokens):
            line += f", {self.tokens[0]} tokens in, {self.tokens[1]} out"
        others = Counter(f.status for f in self.forecasts if f.status not in ("ok", "error"))
        line += "".join(f"; {count} {status}" for status, count in sorted(others.items()))
        if self.problems:
            message, count = self.problems.most_common(1)[0]
            line += f"; {self.problems.total()} failed, {count} of them with: {message}"
        return line


def _rate(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def ready(spec: SurrogateSpec, dataset: str) -> Surrogate:
    """Return the surrogate, fitted on the dataset if it learns."""
    return prepare(create(spec), dataset)


def splits_to_submit(track: str, dataset: str) -> tuple[str, ...]:
    """Return the test splits that a dataset has rows of a track in; a submission covers all of them."""
    from benchmark.scoring import labels_by_split

    return tuple(labels_by_split(track, dataset))


def answer(
    surrogate: Surrogate,
    track: str,
    splits: Sequence[str],
    dataset: str,
    manner: Manner | None = None,
    limit: int | None = None,
    show: ShowProgress | None = None,
    log: AnswerLog | None = None,
) -> Answered:
    """Return the surrogate's forecasts of a track over some splits, the first `limit` by query_id if given.

    What its class may see besides the queries is shown to it first. Raises Unavailable if the surrogate does.
    """
    for split in splits:
        reveal(surrogate, track, split, dataset)
    queries = [query for split in splits for query in queries_for(surrogate, track, split, dataset)]
    queries = sorted(queries, key=lambda q: q.query_id)[:limit]
    problems: Counter[str] = Counter()

    def report(_: str, problem: str) -> None:
        problems[problem] += 1

    n_kept = sum(log.get(query) is not None for query in queries) if log is not None else 0
    start = time.monotonic()
    with show(f"forecasting {track}", len(queries)) if show else nullcontext() as progress, prints_to_stderr():
        forecasts = forecast_all(surrogate, queries, None, progress, report, manner, log)
    transductive = bool(getattr(surrogate, "transductive", False))
    seconds = time.monotonic() - start
    details = dict(getattr(surrogate, "details", {}))
    return Answered(dataset, track, queries, forecasts, seconds, problems, transductive, n_kept, details)


def answer_all(surrogate: Surrogate, dataset: str, **options: Any) -> Iterator[Answered]:
    """Yield the forecasts of every offline track of a dataset over its test splits; options as for `answer`."""
    from benchmark.data_access import available_tracks

    for track in available_tracks(dataset):
        yield answer(surrogate, track, splits_to_submit(track, dataset), dataset, **options)


def open_log(path: Path, spec: SurrogateSpec, surrogate: Surrogate, dataset: str) -> AnswerLog:
    """Return the log of what a surrogate answers; its key holds the options, the code and what was learned from."""
    from benchmark.data_access import load_manifest

    files = json.dumps(load_manifest(dataset)["files"], sort_keys=True).encode()
    learned_from = [dataset, hashlib.sha256(files).hexdigest()[:16]] if hasattr(surrogate, "fit") else None
    configuration = {
        **spec.configuration(), "fingerprint": fingerprint(spec, surrogate), "learned_from": learned_from,
        "details": getattr(surrogate, "details", {}),
    }  # fmt: skip
    return AnswerLog(path, configuration)


def missing_parts(dataset: str) -> list[str]:
    """Return one line for each offline track and test split that a dataset does not have, and that is skipped."""
    from benchmark.data_access import available_splits, available_tracks

    tracks, splits = available_tracks(dataset), available_splits(dataset)
    parts = [f"track {track}" for track in OFFLINE_TRACKS if track not in tracks]
    parts += [f"split {split}" for split in TEST_SPLITS if split not in splits]
    return [f"{part}: skipped, because dataset {dataset} does not have it" for part in parts]


def write(answered: Answered, spec: SurrogateSpec, path: Path, name: str, overwrite: bool = False) -> None:
    """Write a forecast file, with the surrogate's name and configuration in its metadata."""
    from benchmark.forecasts import write_forecasts

    metadata = {
        "dataset": answered.dataset,
        "track": answered.track,
        "surrogate": name,
        "configuration": {**spec.configuration(), "transductive": answered.transductive, **answered.details},
    }
    write_forecasts(path, answered.queries, answered.forecasts, metadata, overwrite=overwrite)


def write_submission(
    answers: Sequence[Answered], spec: SurrogateSpec, folder: Path, manifest: Mapping[str, str], overwrite: bool = False
) -> None:
    """Write a submission folder: one forecast file for each track that has an answer, and `submission.yaml`.

    Raises ValueError if no query of any track was answered, and FileExistsError for a folder that exists.
    """
    import yaml

    useful = [answered for answered in answers if answered.n_ok]
    if not useful:
        raise ValueError(f"{manifest['name']} answered no query, so that there is nothing to submit")
    if folder.exists() and not overwrite:
        raise FileExistsError(f"{folder} exists already; choose another name, or --overwrite to replace it")
    folder.mkdir(parents=True, exist_ok=True)
    for answered in useful:
        write(answered, spec, folder / f"{answered.track}.parquet", manifest["name"], overwrite=True)
    for stale in {f"{track}.parquet" for track in OFFLINE_TRACKS} - {f"{a.track}.parquet" for a in useful}:
        (folder / stale).unlink(missing_ok=True)
    text = yaml.safe_dump(dict(manifest), sort_keys=False, width=1000, allow_unicode=True)
    (folder / "submission.yaml").write_text(text, encoding="utf-8")


def describe(spec: SurrogateSpec, surrogate: Surrogate, dataset: str, name: str) -> dict[str, str]:
    """Return the fields of a surrogate's `submission.yaml`: what it is, sees and learned from, and how to rerun it."""
    from benchmark.revision import dataset_revision

    information = getattr(surrogate, "information", "source")
    if spec.bundled:
        information = {"oracle": "measured", "probe": "source"}.get(information, information)
    elif information not in INFORMATION:
        known = ", ".join(INFORMATION)
        raise SurrogateError(f"'{spec.target}' declares information '{information}', expected one of {known}")
    return {
        "name": name,
        "kind": spec.entry.kind if spec.entry else "surrogate",
        "information": information,
        "description": _description(spec, surrogate),
        "command": f"kernelcast evaluate {shlex.quote(str(spec))} --out {name} --overwrite",
        "dataset": dataset,
        "revision": dataset_revision(dataset),
        "training_data": _training_data(spec, surrogate, dataset),
        "cost": "minutes at most on two CPU cores" if spec.bundled else NOT_STATED,
        "contamination": _contamination(spec) if spec.bundled else NOT_STATED,
        "status": "reproduced" if spec.bundled else "recomputed",
    }


def _training_data(spec: SurrogateSpec, surrogate: Surrogate, dataset: str) -> str:
    stated = getattr(surrogate, "training_data", None)
    if isinstance(stated, str):
        return stated
    if hasattr(surrogate, "fit"):
        return f"{dataset}, train and validation"
    return "none" if spec.bundled else NOT_STATED


def _contamination(spec: SurrogateSpec) -> str:
    if spec.entry is not None and spec.entry.kind in ("oracle", "ceiling"):
        return "total: it is shown measurements of the kernels that it forecasts"
    if spec.entry is not None and spec.entry.kind == "probe":
        return "none: it sees what must not tell, and learns from the train and validation splits"
    return "none: it sees nothing but the queries, and learns from the train and validation splits at most"


def _description(spec: SurrogateSpec, surrogate: Surrogate) -> str:
    if spec.members:
        assert spec.entry is not None
        return f"{spec.entry.description}: {', '.join(str(member) for member in spec.members)}"
    if spec.entry is not None and spec.bundled:
        return spec.entry.description
    lines = (type(surrogate).__doc__ or "").strip().splitlines()
    return lines[0] if lines else spec.target
