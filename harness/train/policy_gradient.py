"""Policy gradient with group-relative advantages: several rollouts of one query are judged against each other.

There is no learned critic. One update is made for each batch of rollouts, so that the ratio of new to old policy, which
clipped objectives bound, is 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmark.bins import Floats

SCALES = ("batch", "group", "none")


def require_sensible(settings: Any) -> None:
    """Raise ValueError, naming the field, for settings of a run with which no policy gradient can be computed."""
    for name, least in (("steps", 1), ("batch", 1), ("group", 2), ("seed", 0)):
        if getattr(settings, name) < least:
            raise ValueError(f"{name} is {getattr(settings, name)}, expected at least {least}")
    if not 0 < settings.learning_rate < 1:
        raise ValueError(f"learning rate is {settings.learning_rate}, expected between 0 and 1")
    _require_scale(settings.advantage_scale)


def _require_scale(scale: str) -> None:
    if scale not in SCALES:
        raise ValueError(f"unknown scale '{scale}' of advantages; expected one of {', '.join(SCALES)}")


def group_advantages(rewards: Floats, scale: str = "batch") -> Floats:
    """Return the advantages of rewards, shape (n, G): G rollouts of each of n queries.

    A_i = (r_i - mean of the other G - 1) / s. The mean of the others, unlike that of all, leaves the gradient unbiased
    (Kool et al. 2019, "Buy 4 REINFORCE samples, get a baseline for free"). s is 1 for `none`; for `group` it is the
    group's own standard deviation, as in GRPO (Shao et al. 2024), up to the factor (G - 1) / G; for `batch` the root
    mean square deviation over all groups. Dividing each group by its own weighs a label by how much its rewards happen
    to vary, after which the best answer to a proper score is no longer the truth; one number for all keeps it. Groups
    of equal rewards have no advantage. Raises ValueError for fewer than two rollouts, or an unknown scale.
    """
    n, size = rewards.shape
    if size < 2:
        raise ValueError(f"a group has {size} rollouts, expected at least 2: they are judged against each other")
    _require_scale(scale)
    deviation = rewards - rewards.mean(axis=1, keepdims=True)
    # What is left of equal rewards after rounding is no difference, and must not be divided by itself.
    deviation[np.abs(deviation).max(axis=1, initial=0.0) < 1e-12] = 0.0
    advantage = deviation * (size / (size - 1))
    if scale == "none" or not n:
        return advantage
    spread = np.sqrt((deviation**2).mean(axis=1, keepdims=True) if scale == "group" else (deviation**2).mean())
    return np.asarray(advantage / np.where(spread > 0, spread, 1.0))


def policy_loss(log_probability: Tensor, advantages: Floats, weight: Floats | None = None) -> Tensor:
    """Return -mean(w A log pi), whose gradient is minus that of the expected reward (REINFORCE, Williams 1992).

    `log_probability` and `advantages` have shape (n, G), `weight` (n,).
    """
    judged = torch.as_tensor(advantages, dtype=log_probability.dtype, device=log_probability.device)
    if weight is not None:
        judged = judged * torch.as_tensor(weight, dtype=judged.dtype, device=judged.device)[:, None]
    return -(judged * log_probability).mean()
