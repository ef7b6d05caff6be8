"""From a surrogate to forecasts: created, fitted, asked on one track after another, and written to files."""

from __future__ import annotations

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
from harness.surrogates.foreign import SurrogateError, prints_to_stderr
from harness.surrogates.run import Progress, forecast_all
from harness.surrogates.spec import SurrogateSpec, create
from harness.surrogates.training import labelled, prepare

INFORMATION = ("source", "compiled", "measured")  # what a surrogate may declare that it sees
KINDS = {
    "uniform": "chance", "random": "chance", "no-change": "baseline", "base-rate": "baseline", "gbdt": "surrogate",
    "oracle": "oracle",
}  # fmt: skip

ShowProgress = Callable[[str, int], AbstractContextManager[Progress | None]]  # label and number of queries


@dataclass(frozen=True)
class Answered:
    """A surrogate's forecasts of one track, with the queries in the same order.

    `problems` counts, by message, what went wrong with the queries whose status is `error`.
    """

    dataset: str
    track: str
    queries: Sequence[Query]
    forecasts: Sequence[Forecast]
    seconds: float
    problems: Counter[str] = field(default_factory=Counter)
    transductive: bool = False

    @property
    def n_ok(self) -> int:
        """How many queries got a usable forecast."""
        return sum(f.status == "ok" for f in self.forecasts)

    def summary(self) -> str:
        """Return one line that says how many queries were answered, and the commonest problem."""
        line = f"{self.track}: {self.n_ok} of {len(self.queries)} queries answered in {self.seconds:.1f} s"
        if self.problems:
            message, count = self.problems.most_common(1)[0]
            line += f"; {self.problems.total()} failed, {count} of them with: {message}"
        return line


def ready(spec: SurrogateSpec, dataset: str) -> Surrogate:
    """Return the surrogate, fitted on the dataset if it learns."""
    return prepare(create(spec), dataset)


def splits_to_submit(dataset: str) -> tuple[str, ...]:
    """Return the test splits that a dataset has; a submission covers all of them."""
    from benchmark.data_access import available_splits

    return tuple(split for split in TEST_SPLITS if split in available_splits(dataset))


def answer(
    surrogate: Surrogate,
    track: str,
    splits: Sequence[str],
    dataset: str,
    batch: int | None = None,
    limit: int | None = None,
    show: ShowProgress | None = None,
) -> Answered:
    """Return the surrogate's forecasts of a track over some splits, the first `limit` by query_id if given.

    Only the bundled oracle is shown the labels first.
    """
    from benchmark.data_access import load_queries
    from harness.surrogates.baselines import Oracle

    if type(surrogate) is Oracle:
        for split in splits:
            surrogate.reveal(labelled(track, split, dataset))
    queries = [query for split in splits for query in load_queries(track, split, dataset=dataset)]
    queries = sorted(queries, key=lambda q: q.query_id)[:limit]
    problems: Counter[str] = Counter()
    start = time.monotonic()
    with show(f"forecasting {track}", len(queries)) if show else nullcontext() as progress, prints_to_stderr():
        forecasts = forecast_all(surrogate, queries, batch, progress, lambda _, problem: problems.update([problem]))
    transductive = bool(getattr(surrogate, "transductive", False))
    return Answered(dataset, track, queries, forecasts, time.monotonic() - start, problems, transductive)


def answer_all(surrogate: Surrogate, dataset: str, **options: Any) -> Iterator[Answered]:
    """Yield the forecasts of every offline track of a dataset over its test splits; options as for `answer`."""
    from benchmark.data_access import available_tracks

    for track in available_tracks(dataset):
        yield answer(surrogate, track, splits_to_submit(dataset), dataset, **options)


def write(answered: Answered, spec: SurrogateSpec, path: Path, name: str, overwrite: bool = False) -> None:
    """Write a forecast file, with the surrogate's name and configuration in its metadata."""
    from benchmark.forecasts import write_forecasts

    metadata = {
        "dataset": answered.dataset,
        "track": answered.track,
        "surrogate": name,
        "configuration": {**spec.configuration(), "transductive": answered.transductive},
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
    information = getattr(surrogate, "information", "source")
    if spec.bundled:
        kind, description, status = KINDS[spec.target], BUNDLED[spec.target][1], "reproduced"
    else:
        if information not in INFORMATION:
            known = ", ".join(INFORMATION)
            raise SurrogateError(f"'{spec.target}' declares information '{information}', expected one of {known}")
        lines = (type(surrogate).__doc__ or "").strip().splitlines()
        kind, description, status = "surrogate", lines[0] if lines else spec.target, "recomputed"
    learns = hasattr(surrogate, "fit")
    return {
        "name": name,
        "kind": kind,
        "information": "measured" if information == "oracle" else information,
        "description": description,
        "command": f"kernelcast evaluate {shlex.quote(str(spec))} --out {name} --overwrite",
        "dataset": dataset,
        "training_data": f"{dataset}, train and validation" if learns else "none" if spec.bundled else "not stated",
        "status": status,
    }
