"""Labels and forecasts as aligned arrays, and what a missing forecast costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from benchmark.bins import N_BINS, bin_mass, bin_of
from benchmark.forecasts import Forecasts
from benchmark.metrics import calibration
from benchmark.metrics.order import order_key, probability_above
from benchmark.metrics.tally import Floats, Ints
from benchmark.records import TAUS

if TYPE_CHECKING:
    import pyarrow as pa

Bools = npt.NDArray[np.bool_]
Strings = npt.NDArray[np.str_]


@dataclass(frozen=True)
class Labels:
    """The labels of one track and split, ordered by query id; arrays of length n.

    `speedup`, `low` and `high` are NaN for a failed kernel. `mass` and `hard`, both (n, 8), are the label distribution
    and the one-hot bin, zero for a failed kernel. `task` and `search` index `tasks` and the searches of the split.
    """

    query_id: Strings
    tasks: tuple[str, ...]
    task: Ints
    search: Ints
    seed: Strings
    operator_class: Strings
    measured: Bools
    speedup: Floats
    low: Floats
    high: Floats
    mass: Floats
    hard: Floats

    def __len__(self) -> int:
        return len(self.query_id)

    def select(self, rows: Bools) -> Labels:
        """Return the labels of some rows, with the tasks that they have."""
        kept, task = np.unique(self.task[rows], return_inverse=True)
        arrays = {f.name: getattr(self, f.name)[rows] for f in fields(self) if f.name not in ("tasks", "task")}
        return Labels(tasks=tuple(self.tasks[t] for t in kept), task=task.astype(np.int64), **arrays)

    @classmethod
    def from_table(cls, table: pa.Table) -> Labels:
        """Read the columns of `load_labels`; raises ValueError when it has no row."""
        if not table.num_rows:
            raise ValueError("the label table has no rows, so that nothing can be scored")
        ids = np.asarray(table.column("query_id").to_pylist(), dtype=str)
        rows = np.argsort(ids, kind="stable")

        def text(name: str) -> Strings:
            return np.asarray([v or "" for v in table.column(name).to_pylist()], dtype=str)[rows]

        def number(name: str) -> Floats:
            return np.asarray([np.nan if v is None else v for v in table.column(name).to_pylist()], dtype=float)[rows]

        speedup = number("speedup")
        measured = (text("status") == "ok") & ~np.isnan(speedup)
        speedup = np.where(measured, speedup, np.nan)
        mass, hard = np.zeros((len(rows), N_BINS)), np.zeros((len(rows), N_BINS))
        if measured.any():
            mass[measured] = bin_mass(np.log2(speedup[measured]), np.nan_to_num(number("log2_sd")[measured]))
            hard[measured] = calibration.one_hot(bin_of(speedup[measured]))
        low, high = number("speedup_low"), number("speedup_high")
        tasks, task = np.unique(text("task"), return_inverse=True)
        _, search = np.unique(text("search_id"), return_inverse=True)
        return cls(
            query_id=ids[rows],
            tasks=tuple(str(t) for t in tasks),
            task=task.astype(np.int64),
            search=search.astype(np.int64),
            seed=text("seed_id"),
            operator_class=text("operator_class"),
            measured=measured,
            speedup=speedup,
            low=np.where(np.isnan(low), speedup, low),
            high=np.where(np.isnan(high), speedup, high),
            mass=mass,
            hard=hard,
        )


def _ranks(values: Floats, answered: Bools) -> Floats:
    """Return dense ranks that keep order and ties, with -1, behind all others, for a missing forecast."""
    ranks = np.full(len(values), -1.0)
    ranks[answered] = np.unique(values[answered], return_inverse=True)[1]
    return ranks


@dataclass(frozen=True)
class Answers:
    """One repeat of a submission aligned with the labels; arrays of length n.

    `key` orders rows by forecast speedup and `above[tau]` by forecast discovery: the rank score if the submission gives
    one, else P(S > tau). `losses` are the per-row scores, with the penalty for missing forecasts in place; NaN for a
    failed kernel. `confidence`, `correct` and `entropy` are NaN where there is no forecast or no speedup.
    """

    answered: Bools
    key: Floats
    above: Mapping[str, Floats]
    losses: Mapping[str, Floats]
    confidence: Floats
    correct: Floats
    entropy: Floats
    p_fail: Floats | None


def align(forecasts: Forecasts, repeat: int, labels: Labels) -> Answers:
    """Put one repeat in the order of the labels; rows for other queries are left out."""
    n = len(labels)
    given = np.flatnonzero((forecasts.repeat == repeat) & (forecasts.status == "ok"))
    ids = forecasts.query_id[given].astype(str)
    at = np.minimum(np.searchsorted(labels.query_id, ids), n - 1)
    known = labels.query_id[at] == ids
    rows, source = at[known], given[known]
    answered = np.zeros(n, dtype=bool)
    answered[rows] = True

    def spread(values: Floats) -> Floats:
        full = np.full((n, *values.shape[1:]), np.nan)
        full[rows] = values[source]
        return full

    p = spread(forecasts.probabilities)
    scores = None if forecasts.rank_score is None else spread(forecasts.rank_score)
    key = np.full(n, np.nan)
    point = spread(forecasts.log2_speedup)
    key[answered] = order_key(p[answered], point[answered], None if scores is None else scores[answered])
    above = {}
    for tau, threshold in TAUS.items():
        chance = np.full(n, np.nan)
        chance[answered] = probability_above(p[answered], threshold)
        above[tau] = _ranks(chance if scores is None else scores, answered)
    scored = answered & labels.measured
    confidence, correct, spreads = np.full(n, np.nan), np.full(n, np.nan), np.full(n, np.nan)
    if scored.any():
        confidence[scored], correct[scored] = calibration.top_label(p[scored], labels.mass[scored])
        spreads[scored] = calibration.entropy(p[scored])
    p_fail = spread(forecasts.p_fail)
    return Answers(
        answered=answered,
        key=_ranks(key, answered),
        above=above,
        losses=_losses(p, answered, labels),
        confidence=confidence,
        correct=correct,
        entropy=spreads,
        p_fail=p_fail if answered.any() and not np.isnan(p_fail[answered]).any() else None,
    )


def _losses(p: Floats, answered: Bools, labels: Labels) -> dict[str, Floats]:
    """Return every proper score of each row against the label distribution, its excess, and against the hard bin."""
    measured = labels.measured
    mass, hard = labels.mass[measured], labels.hard[measured]
    uniform = np.full((int(measured.sum()), N_BINS), 1 / N_BINS)
    filled = np.where(answered[measured, None], p[measured], uniform)
    least = {
        "rps": calibration.ranked_probability_score(mass, mass),
        "half_brier": calibration.half_brier(mass, mass),
        "log_loss": calibration.least_log_loss(mass),
    }
    functions: dict[str, Any] = {
        "rps": calibration.ranked_probability_score,
        "half_brier": calibration.half_brier,
        "log_loss": calibration.log_loss,
    }
    losses = {}
    for name, function in functions.items():
        for suffix, target in (("", mass), ("_hard", hard)):
            loss = np.full(len(labels), np.nan)
            loss[measured] = function(filled, target)
            losses[name + suffix] = _penalise(loss, answered, labels)
        losses[f"{name}_excess"] = losses[name].copy()
        losses[f"{name}_excess"][measured] = np.maximum(losses[name][measured] - least[name], 0.0)
    return losses


def _penalise(loss: Floats, answered: Bools, labels: Labels) -> Floats:
    """Give a missing forecast the worse of uniform on that row and the submission's own mean loss on that task.

    `loss` already holds the uniform forecast's loss where nothing was answered. Leaving out rows then never helps: not
    the rows on which a forecaster is bad, nor all rows but the easy ones.
    """
    scored = answered & labels.measured
    count = np.bincount(labels.task[scored], minlength=len(labels.tasks))
    total = np.bincount(labels.task[scored], weights=loss[scored], minlength=len(labels.tasks))
    own = np.divide(total, count, out=np.zeros(len(count)), where=count > 0)
    return np.where(answered, loss, np.maximum(loss, own[labels.task]))
