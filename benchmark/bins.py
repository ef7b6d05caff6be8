"""The eight speedup bins: edges, labels, representative values, and the mass that an uncertain speedup puts in each."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

EDGES: Floats = np.array([0.25, 0.5, 2**-0.5, 1.0, 2**0.5, 2.0, 4.0])
N_BINS = 8
BINS = tuple(range(1, N_BINS + 1))
LABELS = (
    "S <= 0.25",
    "0.25 < S <= 0.5",
    "0.5 < S <= 0.71",
    "0.71 < S <= 1",
    "1 < S <= 1.41",
    "1.41 < S <= 2",
    "2 < S <= 4",
    "S > 4",
)
LOG2_EDGES: Floats = np.array([-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0])
LOG2_MIDPOINTS: Floats = np.array([-2.5, -1.5, -0.75, -0.25, 0.25, 0.75, 1.5, 2.5])
# The open bins are as wide as their representative value implies: 1 in log2 S on either side.
LOG2_BOUNDS: Floats = np.concatenate([[-3.0], LOG2_EDGES, [3.0]])


def bin_of(speedup: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Return the bin, 1 to 8, of each speedup: one plus the number of edges strictly below it.

    Edges are closed above, so 1.0 is bin 4 ("slower or equal") and 4.0 is bin 7. Raises ValueError unless every
    speedup is finite and positive.
    """
    values = np.asarray(speedup, dtype=np.float64)
    if not np.all(np.isfinite(values) & (values > 0)):
        raise ValueError("a speedup must be finite and positive")
    return np.searchsorted(EDGES, values, side="left").astype(np.int64) + 1


def bin_mass(log2_speedup: npt.ArrayLike, log2_sd: npt.ArrayLike) -> Floats:
    """Return the mass of each bin, shape (n, 8), under S log-normal: log2 S ~ N(log2_speedup, log2_sd^2).

    A standard deviation of zero gives the hard label as a one-hot row.
    """
    from scipy.special import ndtr

    mean = np.atleast_1d(np.asarray(log2_speedup, dtype=np.float64))[:, None]
    sd = np.broadcast_to(np.asarray(log2_sd, dtype=np.float64).reshape(-1, 1), mean.shape)
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.where(sd > 0, (LOG2_EDGES - mean) / np.where(sd > 0, sd, 1.0), 0.0)
    hard = np.where(mean <= LOG2_EDGES, 1.0, 0.0)
    cdf = np.where(sd > 0, ndtr(z), hard)
    return np.diff(np.concatenate([np.zeros_like(mean), cdf, np.ones_like(mean)], axis=1), axis=1)
