"""Labels and forecasts as aligned arrays, and what a missing forecast costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

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

SCORES: Mapping[str, Callable[[npt.ArrayLike, npt.ArrayLike], Floats]] = {
    "rps": calibration.ranked_probability_score,
    "half_brier": calibration.half_brier,
    "log_loss": calibration.log_loss,
}


@dataclass(frozen=True)
class Labels:
    """The labels of one track and split, ordered by query id; arrays of length n.

    `speedup`, `low` and `high` are NaN for a failed kernel. `mass` and `hard`, both (n, 8), are the label distribution
    and the one-hot bin, zero for a failed kernel. `task` and `search` index `tasks` and the searches of the split.
    `weight` is the inverse of the rate at which a row was sampled, 1 where nothing was; `second` is the speedup by a
    second measurement, NaN where there is none. `least` is what the best forecast would score, by proper score.
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
    weight: Floats
    second: Floats
    least: Mapping[str, Floats]

    def __len__(self) -> int:
        return len(self.query_id)

    def select(self, rows: Bools) -> Labels:
        """Return the labels of some rows, with the tasks that they have."""
        kept, task = np.unique(self.task[rows], return_inverse=True)
        arrays = {f.name: getattr(self, f.name)[rows] for f in fields(self) if f.name not in ("tasks", "task", "least")}
        least = {name: values[rows] for name, values in self.least.items()}
        return Labels(tasks=tuple(self.tasks[t] for t in kept), task=task.astype(np.int64), least=least, **arrays)

    @classmethod
    def from_table(cls, table: pa.Table) -> Labels:
        """Read the columns of `load_labels`; raises ValueError when it has no row.

        The columns `weight` and `second_speedup` may be absent. Raises ValueError for a weight that is not positive.
        """
        if not table.num_rows:
            raise ValueError("the label table has no rows, so that nothing can be scored")
        ids = table.column("query_id").to_numpy().astype(str)
        rows = np.argsort(ids, kind="stable")

        def text(name: str) -> Strings:
            return np.asarray(table.column(name).fill_null("").to_numpy().astype(str))[rows]

        def number(name: str, missing: float = np.nan) -> Floats:
            if name not in table.column_names:
                return np.full(len(rows), missing)
            return np.asarray(table.column(name).to_numpy(), dtype=np.float64)[rows]

        speedup = number("speedup")
        measured = (text("status") == "ok") & ~np.isnan(speedup)
        speedup = np.where(measured, speedup, np.nan)
        mass, hard = np.zeros((len(rows), N_BINS)), np.zeros((len(rows), N_BINS))
        if measured.any():
            mass[measured] = bin_mass(np.log2(speedup[measured]), np.nan_to_num(number("log2_sd")[measured]))
            hard[measured] = calibration.one_hot(bin_of(speedup[measured]))
        low, high = number("speedup_low"), number("speedup_high")
        weight = number("weight", 1.0)
        if not (weight > 0).all():
            row = int((~(weight > 0)).argmax())
            raise ValueError(f"the weight of query '{ids[rows][row]}' is {weight[row]}, expected a positive number")
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
            weight=weight,
            second=np.where(measured, number("second_speedup"), np.nan),
            least=_least(mass, measured),
        )


def _least(mass: Floats, measured: Bools) -> dict[str, Floats]:
    """Return the least value of each proper score against each label distribution; NaN for a failed kernel."""
    known = mass[measured]
    found = {
        "rps": calibration.ranked_probability_score(known, known),
        "half_brier": calibration.half_brier(known, known),
        "log_loss": calibration.least_log_loss(known),
    }
    least = {name: np.full(len(mass), np.nan) for name in found}
    for name, values in found.items():
        least[name][measured] = values
    return least


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
    failed kernel. `probabilities`, `confidence`, `correct` and `entropy` are NaN where there is no forecast or no
    speedup. `surety` and `risk` are the confidence, -1 where there is no forecast, and the loss of the top bin, one
    minus the label mass of it, with the penalty in place; NaN for a failed kernel.
    """

    answered: Bools
    key: Floats
    above: Mapping[str, Floats]
    losses: Mapping[str, Floats]
    probabilities: Floats
    confidence: Floats
    correct: Floats
    entropy: Floats
    surety: Floats
    risk: Floats
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
    risk = np.where(labels.measured, np.where(answered, 1 - correct, 1 - 1 / N_BINS), np.nan)
    p_fail = spread(forecasts.p_fail)
    return Answers(
        answered=answered,
        key=_ranks(key, answered),
        above=above,
        losses=_losses(p, answered, labels),
        probabilities=np.where(scored[:, None], p, np.nan),
        confidence=confidence,
        correct=correct,
        entropy=spreads,
        surety=np.where(labels.measured, np.where(answered, confidence, -1.0), np.nan),
        risk=_penalise(risk, answered, labels),
        p_fail=p_fail if answered.any() and not np.isnan(p_fail[answered]).any() else None,
    )


def _losses(p: Floats, answered: Bools, labels: Labels) -> dict[str, Floats]:
    """Return every proper score of each row against the label distribution, its excess, and against the hard bin."""
    measured = labels.measured
    mass, hard = labels.mass[measured], labels.hard[measured]
    uniform = np.full((int(measured.sum()), N_BINS), 1 / N_BINS)
    filled = np.where(answered[measured, None], p[measured], uniform)
    losses = {}
    for name, function in SCORES.items():
        for suffix, target in (("", mass), ("_hard", hard)):
            loss = np.full(len(labels), np.nan)
            loss[measured] = function(filled, target)
            losses[name + suffix] = _penalise(loss, answered, labels)
        losses[f"{name}_excess"] = losses[name].copy()
        losses[f"{name}_excess"][measured] = np.maximum(losses[name][measured] - labels.least[name][measured], 0.0)
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
