"""A linear pool of forecasts, with the weights that fit labels best."""

from __future__ import annotations

import numpy as np

from benchmark.bins import Floats

PSEUDO_COUNT = 2.0  # rows' worth of evidence that each component starts with: no weight reaches zero


def mix(components: Floats, weights: Floats) -> Floats:
    """Return the pooled probabilities, shape (n, 8), of components (n, m, 8) under weights (m,) or (n, m)."""
    pooled = (components * np.broadcast_to(weights, components.shape[:2])[:, :, None]).sum(axis=1)
    return np.asarray(pooled / pooled.sum(axis=1, keepdims=True))


def mixture_weights(components: Floats, target: Floats, iterations: int = 200) -> Floats:
    """Return the weights, shape (m,), that maximise sum target * log(mix(components, weights)) by EM.

    `components` has shape (n, m, 8), `target`, the labels as distributions, (n, 8). The likelihood is concave in the
    weights, so that the result does not depend on the start (Dempster, Laird and Rubin, 1977).
    """
    m = components.shape[1]
    weights = np.full(m, 1 / m)
    for _ in range(iterations):
        joint = components * weights[:, None]
        share = joint / np.maximum(joint.sum(axis=1, keepdims=True), 1e-300)
        counts = np.einsum("nmb,nb->m", share, target) + PSEUDO_COUNT
        weights = counts / counts.sum()
    return weights
