"""How forecasts are put in order: the order key, and the probability that a speedup exceeds a threshold."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from benchmark.bins import LOG2_BOUNDS, LOG2_MIDPOINTS, N_BINS

Floats = npt.NDArray[np.float64]

# Forecasts that are equal on paper must tie, whatever renormalisation did to their last bits.
TIE_DECIMALS = 12


def _probabilities(probabilities: npt.ArrayLike) -> Floats:
    p = np.asarray(probabilities, dtype=np.float64)
    if p.ndim != 2 or p.shape[1] != N_BINS:
        raise ValueError(f"probabilities have shape {p.shape}, expected (n, {N_BINS})")
    return p


def expected_log2(probabilities: npt.ArrayLike) -> Floats:
    """Return sum_b p_b m_b, shape (n,), in [-2.5, 2.5]: mean log2 S with each bin at its representative value."""
    key: Floats = (_probabilities(probabilities) * LOG2_MIDPOINTS).sum(axis=1)
    return np.round(key, TIE_DECIMALS)


def order_key(
    probabilities: npt.ArrayLike, log2_speedup: npt.ArrayLike | None = None, rank_score: npt.ArrayLike | None = None
) -> Floats:
    """Return the key that orders forecasts, shape (n,), higher is faster.

    It is `rank_score` if given, else `log2_speedup` where it is not NaN, else the expected log2 S. The last two share a
    unit, so they may be mixed by row; a rank score has no unit and is for all rows or none. Raises ValueError when a
    rank score is given and is not finite.
    """
    if rank_score is not None:
        scores = np.asarray(rank_score, dtype=np.float64)
        if not np.isfinite(scores).all():
            raise ValueError("rank_score must be finite in every row, or be left out")
        return scores
    key = expected_log2(probabilities)
    if log2_speedup is None:
        return key
    point = np.asarray(log2_speedup, dtype=np.float64)
    return np.where(np.isnan(point), key, np.round(point, TIE_DECIMALS))


def probability_above(probabilities: npt.ArrayLike, tau: float) -> Floats:
    """Return P(S > tau), shape (n,), in [0, 1]: the bins above tau, and a linear share in log2 S of the bin around it.

    The open bins end at log2 S = -3 and 3. At an edge the value is the exact sum of the bins above: p6 + p7 + p8 at
    sqrt 2. Raises ValueError unless tau is finite and positive.
    """
    if not (np.isfinite(tau) and tau > 0):
        raise ValueError(f"tau is {tau}, expected a finite, positive speedup")
    share = (LOG2_BOUNDS[1:] - np.log2(tau)) / np.diff(LOG2_BOUNDS)
    # log2(2 ** 0.5) is not exactly 0.5; without rounding a sliver of the bin below the edge would count.
    share = np.clip(np.round(share, TIE_DECIMALS), 0.0, 1.0)
    above: Floats = (_probabilities(probabilities) * share).sum(axis=1)
    return np.clip(np.round(above, TIE_DECIMALS), 0.0, 1.0)
