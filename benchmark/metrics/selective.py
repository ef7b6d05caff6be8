"""Selective prediction: what is the risk among the rows that a forecaster is surest of?

Rows are taken in order of confidence, the highest first; tied confidences take the expectation over random orders. A
risk is any loss for each row, such as one minus the label mass of the forecast's top bin. Everything is a sort and
cumulative sums, O(n log n). Functions named `_resampled` take a `RiskTally` and return one value for each of its m
resamples.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from benchmark.metrics.tally import Draws, Floats, TieGroups, harmonic_numbers, in_blocks
from benchmark.metrics.value import Value

NO_ROW = "no row to select from"


@dataclass(frozen=True)
class RiskTally:
    """Rows and summed risk in each group of tied confidences and before it, from the surest down, each (m, groups)."""

    size: Floats
    before: Floats
    risk: Floats
    risk_before: Floats

    @classmethod
    def of(cls, confidence: npt.ArrayLike, risk: npt.ArrayLike, draws: Draws | None = None) -> RiskTally:
        """Count the sample once, or each of its resamples. Raises ValueError for NaN and for unequal lengths."""
        drawn = draws or Draws.sample(len(np.asarray(risk)))
        return cls.by_cluster(confidence, risk, drawn).drawn(drawn.weight)

    @classmethod
    def by_cluster(cls, confidence: npt.ArrayLike, risk: npt.ArrayLike, draws: Draws) -> RiskTally:
        """Count the rows of each cluster by itself, m = clusters; raises as `of` does."""
        groups = TieGroups.of(confidence, descending=True)
        r = np.asarray(risk, dtype=np.float64)
        if r.shape != groups.group.shape:
            raise ValueError(f"{len(groups.group)} confidences and risks of shape {r.shape}, expected the same length")
        if np.isnan(r).any():
            raise ValueError(f"the risk of row {int(np.isnan(r).argmax())} is NaN")
        return cls(*groups.by_cluster(draws), *groups.by_cluster(draws, r))

    def drawn(self, weight: Floats) -> RiskTally:
        """Return the counts of resamples that hold each cluster as often as `weight`, (m, clusters), says."""
        return RiskTally(*(weight @ part for part in (self.size, self.before, self.risk, self.risk_before)))

    @property
    def rows(self) -> Floats:
        """The number of rows of each resample, shape (m,)."""
        total: Floats = self.size.sum(axis=1)
        return total


def risk_coverage_curve(confidence: npt.ArrayLike, risk: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Return coverage k / n and the mean risk of the k surest rows, for k = 1..n, both (n,), over orders of tied rows.

    El-Yaniv and Wiener 2010. In the units of the risk; the last value is the mean risk of all rows.
    """
    c, r = np.asarray(confidence, dtype=np.float64), np.asarray(risk, dtype=np.float64)
    if c.shape != r.shape or c.ndim != 1:
        raise ValueError(f"confidences of shape {c.shape} and risks of shape {r.shape}, expected one length")
    if np.isnan(c).any() or np.isnan(r).any():
        raise ValueError(f"row {int((np.isnan(c) | np.isnan(r)).argmax())} has a confidence or risk of NaN")
    if not len(c):
        return np.zeros(0), np.zeros(0)
    order = np.argsort(-c)
    start = np.flatnonzero(np.diff(c[order], prepend=np.inf))
    size = np.diff(start, append=len(c))
    each = np.repeat(np.add.reduceat(r[order], start) / size, size)  # within a group the expected risk grows evenly
    k = np.arange(1, len(c) + 1)
    return k / len(c), np.cumsum(each) / k


def aurc_resampled(tally: RiskTally) -> Floats:
    """Return the area under the risk-coverage curve for each resample, shape (m,); see `aurc`."""
    m, n0, risk_before = tally.size, tally.before, tally.risk_before
    # sum over places j = 1..m of a group of (risk_before + j mean) / (n0 + j), in closed form.
    harmonic = harmonic_numbers(int(tally.rows.max(initial=0)))
    inverse = harmonic[(n0 + m).astype(np.int64)] - harmonic[n0.astype(np.int64)]
    mean = tally.risk / np.maximum(m, 1)
    area = (tally.risk + (risk_before - mean * n0) * inverse).sum(axis=1)
    rows = tally.rows
    out: Floats = np.divide(area, rows, out=np.full(len(rows), np.nan), where=rows > 0)
    return out


def aurc(confidence: npt.ArrayLike, risk: npt.ArrayLike) -> Value:
    """Return (1/n) sum_k (mean risk of the k surest rows), the area under the risk-coverage curve; lower is better.

    Geifman, Uziel and El-Yaniv 2019. In the units of the risk, so in [0, 1] for a share. Undefined without rows.
    """
    return Value.of(float(aurc_resampled(RiskTally.of(confidence, risk))[0]), NO_ROW)


def excess_aurc(confidence: npt.ArrayLike, risk: npt.ArrayLike) -> Value:
    """Return AURC minus the least AURC that any order of these risks has, at least 0 (Geifman, Uziel, El-Yaniv 2019).

    0 when the confidence puts the rows in order of their risk.
    """
    r = np.asarray(risk, dtype=np.float64)
    found = aurc(confidence, r)
    return found if found.value is None else Value(max(0.0, found.value - (aurc(-r, r).value or 0.0)))


def risk_at_resampled(tally: RiskTally, coverage: float) -> Floats:
    """Return the mean risk of the ceil(coverage n) surest rows of each resample, shape (m,); NaN without rows."""
    rows = tally.rows
    k = np.maximum(np.ceil(np.round(coverage * rows, 9)), 1)
    taken = np.clip((k[:, None] - tally.before) / np.maximum(tally.size, 1), 0.0, 1.0)
    return np.where(rows > 0, (tally.risk * taken).sum(axis=1) / k, np.nan)


def accuracy_at(confidence: npt.ArrayLike, correct: npt.ArrayLike, coverage: float) -> Value:
    """Return the mean of `correct` over the ceil(coverage n) surest rows, in [0, 1]; `correct` is 0 or 1, or a share.

    Raises ValueError unless the coverage is in (0, 1].
    """
    if not 0 < coverage <= 1:
        raise ValueError(f"the coverage is {coverage}, expected above 0 and at most 1")
    return Value.of(float(risk_at_resampled(RiskTally.of(confidence, correct), coverage)[0]), NO_ROW)


def selective_resampled(
    confidence: npt.ArrayLike, risk: npt.ArrayLike, coverages: tuple[float, ...], draws: Draws
) -> Floats:
    """Return AURC, excess AURC and the risk at each coverage, for each resample, shape (m, 2 + coverages)."""
    r = np.asarray(risk, dtype=np.float64)
    counts, in_order = RiskTally.by_cluster(confidence, r, draws), RiskTally.by_cluster(-r, r, draws)

    def evaluate(part: Draws) -> Floats:
        tally = counts.drawn(part.weight)
        area = aurc_resampled(tally)
        excess = np.maximum(area - aurc_resampled(in_order.drawn(part.weight)), 0.0)
        return np.stack([area, excess, *(risk_at_resampled(tally, c) for c in coverages)], axis=1)

    return in_blocks(draws, 4 * len(r), evaluate)
