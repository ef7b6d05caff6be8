"""How many points another point beats in both of two orders, for all points at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from benchmark.metrics.tally import Ints


def dominated(x: npt.ArrayLike, y: npt.ArrayLike, other_x: npt.ArrayLike, other_y: npt.ArrayLike) -> Ints:
    """Return, for each point (x, y), how many of the other points are smaller in both coordinates, shape (n,).

    Strictly smaller: equal coordinates do not count. O((n + m) log m) by a wavelet matrix (Claude, Navarro and Ordóñez
    2015): the others' ranks in y, put in order of x, are split bit by bit, and all queries descend together.
    """
    bx, by = np.asarray(other_x, dtype=np.float64), np.asarray(other_y, dtype=np.float64)
    m = len(bx)
    sequence = np.empty(m, dtype=np.int64)
    sequence[np.argsort(by, kind="stable")] = np.arange(m)
    sequence = sequence[np.argsort(bx, kind="stable")]
    right = np.searchsorted(np.sort(bx), np.asarray(x, dtype=np.float64), side="left")
    below = np.searchsorted(np.sort(by), np.asarray(y, dtype=np.float64), side="left")
    left, count = np.zeros_like(right), np.zeros(len(right), dtype=np.int64)
    for bit in reversed(range(m.bit_length())):
        one = (sequence >> bit & 1).astype(bool)
        zeros = np.concatenate([[0], np.cumsum(~one)])
        zero_left, zero_right, upper = zeros[left], zeros[right], (below >> bit & 1).astype(bool)
        count += np.where(upper, zero_right - zero_left, 0)
        left = np.where(upper, zeros[-1] + left - zero_left, zero_left)
        right = np.where(upper, zeros[-1] + right - zero_right, zero_right)
        sequence = np.concatenate([sequence[~one], sequence[one]])
    return count
