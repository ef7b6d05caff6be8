"""One object that says what it expects, checks it, and scores it: `Evaluator("h200-v0", track="pairs")`."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmark.answers import Labels
from benchmark.comparison import LEAST_COVERAGE
from benchmark.forecasts import COLUMNS, ForecastError, Forecasts, check_made_for, forecasts_of, read_forecasts
from benchmark.metrics.catalogue import HEADLINES, METRICS, NO_RUNS
from benchmark.metrics.value import Value
from benchmark.query import TEST_SPLITS, TRACKS
from benchmark.replay import BUDGET_SHARE, Runs, Tree, check_runs, load_trees, read_runs, runs_of, score_runs
from benchmark.replay import COLUMNS as RUN_COLUMNS
from benchmark.scoring import ScoreResult, labels_by_split, labels_of, score_labels

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

MEAN = "mean"  # the task column of a figure that is the mean over tasks


class CoverageWarning(UserWarning):
    """Some queries have no usable forecast; the message says what that costs."""


@dataclass(frozen=True)
class Evaluation:
    """The scores of one submission on one track: `results[split]`, and why it would have no rank there, if so."""

    name: str
    dataset: str
    track: str
    results: Mapping[str, ScoreResult]

    @property
    def headline(self) -> Mapping[str, Value]:
        """The figure that ranks, by split."""
        return {split: result.headline for split, result in self.results.items()}

    def unranked(self, split: str) -> str | None:
        """Return why the submission could have no rank on a split, or None."""
        result = self.results[split]
        if result.headline.value is None:
            return f"no headline figure: {result.headline.reason}"
        if result.coverage < LEAST_COVERAGE:
            return f"it answers {result.coverage:.1%} of the queries, under {LEAST_COVERAGE:.0%}"
        return None

    def to_dataframe(self) -> pd.DataFrame:
        """Return one row for each split, task and metric: value, interval, reason; task `mean` is the mean of all."""
        import pandas as pd

        columns = ("name", "dataset", "track", "split", "task", "metric", "better", "value", "low", "high", "reason")
        frame = pd.DataFrame(list(self._rows()), columns=list(columns))
        return frame.astype({name: "float64" for name in ("value", "low", "high")})

    def _rows(self) -> Iterator[tuple[Any, ...]]:
        for split, result in self.results.items():
            for task, values in ((MEAN, result.metrics), *result.per_task.items()):
                for metric, v in values.items():
                    better = METRICS[self.track][metric].better
                    place = (self.name, self.dataset, self.track, split, task, metric, better)
                    yield (*place, v.value, v.low, v.high, v.reason)

    def to_dict(self) -> dict[str, Any]:
        """Return {"rows": [...]} with one row for each split, in the form of the leaderboard's JSON."""
        return {"rows": [result.to_dict() for result in self.results.values()]}

    def __str__(self) -> str:
        lines = [f"{self.name}: {self.dataset}, track {self.track}"]
        for split, result in self.results.items():
            why = self.unranked(split)
            lines.append(f"{split}: {HEADLINES[self.track]} {_text(result.headline)}, {result.coverage:.1%} answered")
            lines += [f"  not ranked: {why}"] if why else []
        return "\n".join([*lines, "all figures: .to_dataframe()"])


def _text(value: Value) -> str:
    if value.value is None:
        return f"undefined ({value.reason})"
    return f"{value.value:.4f}" + (f" [{value.low:.4f}, {value.high:.4f}]" if value.low is not None else "")


class Evaluator:
    """Scores forecasts, or replay runs, on one track of a dataset.

    `split` is one split, by default every test split that the dataset has. Raises DataError for a dataset, split or
    track that does not exist, naming those that do, and ValueError for a track that is not scored offline.
    """

    def __init__(
        self,
        dataset: str | None = None,
        *,
        track: str,
        split: str | None = None,
        resamples: int = 2000,
        seed: int = 0,
    ) -> None:
        from benchmark.data_access import DEFAULT_DATASET

        if track not in METRICS:
            advice = "it needs a GPU: `kernelcast search run`" if track in TRACKS else f"known: {', '.join(METRICS)}"
            raise ValueError(f"track '{track}' is not scored by an Evaluator; {advice}")
        if resamples < 0:
            raise ValueError(f"resamples is {resamples}, expected at least 0")
        self.dataset, self.track = dataset or DEFAULT_DATASET, track
        self.resamples, self.seed = resamples, seed
        self._labels: dict[str, Labels] = {}
        self._trees: dict[str, dict[str, Tree]] = {}
        if track == "replay":
            self._trees = self._load_trees(split)
        elif split is None:
            self._labels = labels_by_split(track, self.dataset)
            if not self._labels:
                labels_of(track, TEST_SPLITS[0], self.dataset)  # says what there is instead
        else:
            self._labels = {split: labels_of(track, split, self.dataset)}

    def _load_trees(self, split: str | None) -> dict[str, dict[str, Tree]]:
        from benchmark.data_access import available_splits

        splits = [split] if split else [s for s in TEST_SPLITS if s in available_splits(self.dataset)]
        return {s: load_trees(self.dataset, s) for s in splits}

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits that are scored."""
        return tuple(self._trees or self._labels)

    def describe(self) -> str:
        """Return what `evaluate` expects: columns, ids, rules, and the figure that ranks."""
        metric = METRICS[self.track][HEADLINES[self.track]]
        ranks = f"Ranks by {metric.name}: {metric.title}, {metric.better} is better."
        head = f"Evaluator('{self.dataset}', track='{self.track}')"
        return "\n".join([head, *(self._describe_runs() if self._trees else self._describe_forecasts()), ranks])

    def _describe_forecasts(self) -> list[str]:
        sizes = ", ".join(f"{split} ({len(labels)} queries)" for split, labels in self._labels.items())
        return [
            "expects one row for each query: a Parquet file, an Arrow table, a pandas frame, or columns by name",
            f"  splits       {sizes}",
            f"  query_id     an id of load_queries('{self.track}', split, '{self.dataset}'); any other is refused",
            "  p1..p8       probabilities of the eight speedup bins, finite, in [0, 1]; a sum within 1e-4 of 1 is",
            "               renormalised, any other is refused; null unless status is ok",
            f"  optional     {', '.join(COLUMNS[9:])}",
            "  repeat       from 0; (query_id, repeat) is unique; every repeat is scored, then their mean is taken",
            "  status       ok, unparsed, refused or error; any other column is refused",
            "A query without a usable forecast gets the worse of the uniform forecast and the own mean on its task,",
            f"and is ordered last; under {LEAST_COVERAGE:.0%} coverage there is no rank. An empty split is refused.",
        ]

    def _describe_runs(self) -> list[str]:
        trees = [
            f"  {split:<12} " + ", ".join(f"{task} (budget {tree.budget})" for task, tree in of_split.items())
            for split, of_split in self._trees.items()
        ]
        return [
            "expects one row for each measurement of each run: a Parquet file, an Arrow table, a pandas frame, columns",
            "by name, or a folder of search logs (`kernelcast search run --backend replay`)",
            *trees,
            f"  columns      {', '.join(RUN_COLUMNS)}; run numbers the seeds, measurement counts from 1",
            f"Every task needs a run. A run may measure {BUDGET_SHARE:.0%} of its tree, each kernel once.",
            "Speedups are looked up in the dataset, never taken from the run. A run that misses the target counts its",
            f"whole budget. evaluate(None) gives null for every figure: {NO_RUNS}.",
        ]

    def __repr__(self) -> str:
        return self.describe()

    def validate(self, forecasts: Any) -> Forecasts | Runs:
        """Return forecasts, or runs, in checked form; see `describe`. Raises ForecastError by row and field."""
        if self._trees:
            runs = self._runs(forecasts)
            for split, trees in self._trees.items():
                check_runs(self._of_split(runs, split), trees)
            return runs
        checked = self._forecasts(forecasts)
        ids = set(checked.query_id.tolist())
        for split, labels in self._labels.items():
            if ids.isdisjoint(labels.query_id.tolist()):
                advice = f"give Evaluator(..., split='{self._some_other(split)}') to score one split"
                raise ForecastError(
                    f"{checked.source}: no forecast of split '{split}' ({len(labels)} queries); {advice}"
                )
        return checked

    def _some_other(self, split: str) -> str:
        return next((s for s in self._labels if s != split), split)

    def _forecasts(self, forecasts: Any) -> Forecasts:
        others = labels_by_split(self.track, self.dataset, [s for s in TEST_SPLITS if s not in self._labels])
        known = {i for labels in (*self._labels.values(), *others.values()) for i in labels.query_id.tolist()}
        if isinstance(forecasts, Forecasts):
            check_made_for(forecasts.metadata, forecasts.source, self.dataset, self.track)
            strange = next((i for i in forecasts.query_id.tolist() if i not in known), None)
            if strange is not None:
                raise ForecastError(f"{forecasts.source}: '{strange}' is not the id of a query of this track")
            return forecasts
        if isinstance(forecasts, str | os.PathLike):
            return read_forecasts(forecasts, known, dataset=self.dataset, track=self.track)
        return forecasts_of(forecasts, known, dataset=self.dataset, track=self.track)

    def _runs(self, runs: Any) -> Runs:
        known = {task for trees in self._trees.values() for task in trees}
        found = read_runs(runs) if isinstance(runs, str | os.PathLike) else runs_of(runs)
        for task in found:
            if task not in known:
                raise ForecastError(f"runs of task '{task}', which has no recorded tree; expected {', '.join(known)}")
        return found

    def _of_split(self, runs: Runs, split: str) -> Runs:
        return {task: of_task for task, of_task in runs.items() if task in self._trees[split]}

    def evaluate(
        self, forecasts: str | os.PathLike[str] | Forecasts | pa.Table | pd.DataFrame | Mapping[str, Any] | None,
        name: str | None = None,
    ) -> Evaluation:  # fmt: skip
        """Return the scores of forecasts, or on the track `replay` of runs; see `describe` for what is expected.

        Warns with CoverageWarning where queries are left unanswered. Raises ForecastError as `validate` does.
        """
        if self._trees:
            return self._evaluate_runs(forecasts, name)
        if forecasts is None:
            raise ValueError("evaluate() needs forecasts: a path or a table; .describe() says which")
        checked = self.validate(forecasts)
        assert isinstance(checked, Forecasts)
        results = {
            split: score_labels(checked, labels, self.track, split, self.dataset, self.resamples, self.seed, name)
            for split, labels in self._labels.items()
        }
        for split, result in results.items():
            if result.coverage < 1:
                missing = round((1 - result.coverage) * result.queries)
                warnings.warn(
                    f"{checked.source}: {missing} of {result.queries} queries of split '{split}' are not answered; "
                    f"each gets the worse of uniform and the own mean, and under {LEAST_COVERAGE:.0%} there is no rank",
                    CoverageWarning,
                    stacklevel=2,
                )
        found = next(iter(results.values())).name
        return Evaluation(found, self.dataset, self.track, results)

    def _evaluate_runs(self, runs: Any, name: str | None) -> Evaluation:
        checked = None if runs is None else self.validate(runs)
        assert not isinstance(checked, Forecasts)
        called = name or (Path(runs).stem if isinstance(runs, str | os.PathLike) else "runs")
        results = {}
        for split, trees in self._trees.items():
            own = None if checked is None else self._of_split(checked, split)
            results[split] = score_runs(own, trees, split, self.dataset, self.resamples, self.seed, called)
        return Evaluation(called, self.dataset, self.track, results)
