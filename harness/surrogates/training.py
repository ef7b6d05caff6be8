"""Labels for those who may see them: surrogates that fit, from train and validation, and the oracle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmark.bins import Floats
from benchmark.query import Query, Surrogate
from harness.surrogates.foreign import foreign


@dataclass(frozen=True)
class Labelled:
    """Queries with what was measured: one row per query, in the same order.

    `log2_speedup` and its standard deviation `log2_sd` have shape (n,); both are NaN where the candidate failed
    (`status` is not ok), and `log2_sd` is 0 where no interval was measured.
    """

    queries: Sequence[Query]
    status: Sequence[str]
    log2_speedup: Floats
    log2_sd: Floats

    def __len__(self) -> int:
        return len(self.queries)

    @property
    def ok(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Which rows carry a speedup, shape (n,)."""
        return np.isfinite(self.log2_speedup)


def labelled(track: str, split: str, dataset: str) -> Labelled:
    """Return the queries and labels of one track and split. Raises what `load_queries` raises for an unknown one."""
    from benchmark.data_access import load_labels, load_queries

    queries = load_queries(track, split, dataset=dataset)
    table = load_labels(track, split, dataset=dataset)
    ids = table.column("query_id").to_pylist()
    if ids != [q.query_id for q in queries]:
        raise ValueError(f"dataset '{dataset}', track '{track}', split '{split}': labels are not those of the queries")
    speedup = _floats(table, "speedup")
    sd = _floats(table, "log2_sd")
    with np.errstate(invalid="ignore"):
        log2 = np.log2(speedup)
    sd = np.where(np.isfinite(log2) & np.isnan(sd), 0.0, sd)
    return Labelled(queries, table.column("status").to_pylist(), log2, sd)


def _floats(table: Any, column: str) -> Floats:
    return np.array([np.nan if v is None else v for v in table.column(column).to_pylist()], dtype=np.float64)


def join(parts: Sequence[Labelled]) -> Labelled:
    """Return the rows of several tracks as one."""
    return Labelled(
        [q for part in parts for q in part.queries],
        [s for part in parts for s in part.status],
        np.concatenate([part.log2_speedup for part in parts]) if parts else np.zeros(0),
        np.concatenate([part.log2_sd for part in parts]) if parts else np.zeros(0),
    )


def prepare(surrogate: Surrogate, dataset: str) -> Surrogate:
    """Fit a surrogate that has `fit(train, validation)`, on every track of the dataset; return it.

    `train` and `validation` are Labelled rows of those two splits; no label of a test split is among them. One that
    declares itself `fitted` already, as a saved one does, is left as it is. Raises SurrogateError if the surrogate
    cannot be fitted.
    """
    fit = getattr(surrogate, "fit", None)
    if fit is not None and getattr(surrogate, "fitted", False) is not True:
        train, validation = (learning_rows(surrogate, split, dataset) for split in ("train", "validation"))
        with foreign(f"fit '{type(surrogate).__name__}'"):
            fit(train, validation)
    return surrogate


def learning_rows(surrogate: Surrogate, split: str, dataset: str) -> Labelled:
    """Return the labelled rows of a split over all tracks, as this surrogate may see them."""
    from benchmark.data_access import available_tracks
    from benchmark.scoring import labels_by_split
    from harness.surrogates.privileged import labelled_for, reveal

    # The evaluation pairs are for testing only: that track has no rows to learn from.
    tracks = [track for track in available_tracks(dataset) if labels_by_split(track, dataset, [split])]
    for track in tracks:
        reveal(surrogate, track, split, dataset)
    return join([labelled_for(surrogate, track, split, dataset) for track in tracks])
