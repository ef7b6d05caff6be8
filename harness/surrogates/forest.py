"""Boosted trees as plain arrays: fitted by scikit-learn, evaluated and saved without it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmark.bins import Floats

Ints = npt.NDArray[np.int32]
_CHUNK = 256  # rows evaluated at a time, which keeps the node table small


@dataclass(frozen=True)
class Forest:
    """The trees of all rounds and outputs, one after another in the node arrays; a leaf is its own child.

    `roots`, shape (trees,), index the nodes; `output`, shape (trees,), says which score a tree adds to; `baseline`,
    shape (outputs,), is where each score starts.
    """

    feature: Ints
    threshold: Floats
    left: Ints
    right: Ints
    value: Floats
    roots: Ints
    output: Ints
    baseline: Floats
    depth: int

    @classmethod
    def of(cls, model: Any) -> Forest:
        """Return the trees of a fitted HistGradientBoosting model without categories; missing values do not occur."""
        rounds = [tree for outputs in model._predictors for tree in enumerate(outputs)]
        sizes = [len(tree.nodes) for _, tree in rounds]
        roots = np.concatenate([[0], np.cumsum(sizes)[:-1]]) if sizes else np.zeros(0)
        nodes = np.concatenate([tree.nodes for _, tree in rounds])
        start = np.repeat(roots, sizes)
        itself = np.arange(len(nodes))
        leaf = nodes["is_leaf"].astype(bool)
        return cls(
            feature=np.where(leaf, 0, nodes["feature_idx"]).astype(np.int32),
            threshold=np.where(leaf, np.inf, nodes["num_threshold"]),
            left=np.where(leaf, itself, nodes["left"] + start).astype(np.int32),
            right=np.where(leaf, itself, nodes["right"] + start).astype(np.int32),
            value=np.where(leaf, nodes["value"], 0.0),
            roots=roots.astype(np.int32),
            output=np.array([output for output, _ in rounds], dtype=np.int32),
            baseline=np.asarray(model._baseline_prediction, dtype=np.float64).reshape(-1),
            depth=int(nodes["depth"].max()),
        )

    def scores(self, x: Floats) -> Floats:
        """Return the raw scores, shape (n, outputs), of features of shape (n, features); rows are independent."""
        parts = [self._scores(x[start : start + _CHUNK]) for start in range(0, len(x), _CHUNK)]
        return np.concatenate(parts) if parts else np.zeros((0, len(self.baseline)))

    def _scores(self, x: Floats) -> Floats:
        at = np.broadcast_to(self.roots, (len(x), len(self.roots)))
        for _ in range(self.depth):
            goes_left = np.take_along_axis(x, self.feature[at], axis=1) <= self.threshold[at]
            at = np.where(goes_left, self.left[at], self.right[at])
        values = self.value[at]
        # Contiguous, or the order of the sum, and with it the last bits, would depend on the number of rows.
        own = [np.ascontiguousarray(values[:, self.output == k]) for k in range(len(self.baseline))]
        return np.stack([part.sum(axis=1) for part in own], axis=1) + self.baseline

    def arrays(self, prefix: str) -> dict[str, np.ndarray]:
        """Return the forest as named arrays."""
        names = ("feature", "threshold", "left", "right", "value", "roots", "output", "baseline")
        return {f"{prefix}.{name}": getattr(self, name) for name in names} | {f"{prefix}.depth": np.array(self.depth)}

    @classmethod
    def from_arrays(cls, prefix: str, arrays: Mapping[str, np.ndarray]) -> Forest:
        """Return the forest that `arrays` wrote."""
        own = {name.removeprefix(f"{prefix}."): a for name, a in arrays.items() if name.startswith(f"{prefix}.")}
        return cls(**{**own, "depth": int(own["depth"])})
