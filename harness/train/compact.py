"""The compact policy: the encoder of the neural pair model with a Dirichlet over forecasts on top.

An action is a whole probability vector. If the forecast were the policy's own softmax and the action a bin, all
rollouts of a query would carry the same forecast, and a score of it would cancel in a group-relative advantage.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Dirichlet

from benchmark.bins import N_BINS, Floats
from benchmark.query import Forecast, Query
from harness.surrogates.foreign import SurrogateError
from harness.surrogates.neural_model import Features, PairEncoder, batches, featurise

LEAST_CONCENTRATION, MOST_CONCENTRATION = 4.0, 256.0
FLOOR = 0.25  # of each parameter: far below 1, densities and the gradient's variance grow without bound
SMALLEST = 1e-9  # of a sampled probability, so that its logarithm is finite
EXPRESSION = "harness.train.compact:Compact"
DECIMALS = 9


class DirichletHead(nn.Module):
    """Concentrations alpha (n, 8) from vectors (n, width): c softmax(z) + FLOOR, with 4 < c < 256."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.out = nn.Linear(width, N_BINS + 1)

    def forward(self, vectors: Tensor) -> Tensor:
        return concentrations(self.out(vectors))


def concentrations(raw: Tensor) -> Tensor:
    """Return alpha (n, 8) from raw numbers (n, 9): eight logits of the mean and one of the total."""
    low, high = math.log(LEAST_CONCENTRATION), math.log(MOST_CONCENTRATION)
    total = torch.exp(low + (high - low) * torch.sigmoid(raw[:, N_BINS:] - 1.0))
    alpha: Tensor = total * torch.softmax(raw[:, :N_BINS], dim=1) + FLOOR
    return alpha


def mean_forecast(alpha: Tensor) -> Tensor:
    """Return the mean of the Dirichlet, shape (n, 8): the forecast that stands for the policy.

    The scores are concave in the forecast, so that the mean is rewarded no less than rollouts are on average.
    """
    return alpha / alpha.sum(dim=1, keepdim=True)


def sample(alpha: Tensor, group: int) -> tuple[Floats, Tensor]:
    """Return `group` forecasts of each query, (n, group, 8), and their log density, (n, group), which has a gradient.

    Random numbers come from torch's global generator.
    """
    with torch.no_grad():
        drawn = Dirichlet(alpha).sample(torch.Size([group])).clamp(min=SMALLEST)
        forecast = (drawn / drawn.sum(dim=2, keepdim=True)).transpose(0, 1)
    density = Dirichlet(alpha.unsqueeze(1), validate_args=False).log_prob(forecast)
    return forecast.cpu().numpy(), density


def new_model(width: int) -> nn.Sequential:
    """Return the untrained policy, in double precision: two machines then agree to more digits than are compared."""
    return nn.Sequential(PairEncoder(width), DirichletHead(width)).double()


def forecasts(model: nn.Module, features: Features, size: int = 256) -> Floats:
    """Return the mean forecast of each row, shape (n, 8), without dropout."""
    was, parts = model.training, [np.zeros((0, N_BINS))]
    model.eval()
    with torch.no_grad():
        # The last bits of a product depend on the number of rows; no forecast should.
        parts += [np.round(mean_forecast(model(part)).numpy(), DECIMALS) for _, part in batches(features, size)]
    model.train(was)
    p = np.concatenate(parts)
    return np.asarray(p / np.maximum(p.sum(axis=1, keepdims=True), 1e-12))


class Compact:
    """A trained compact policy as a surrogate: it answers with the mean of its Dirichlet. `trained=DIR` makes one."""

    information = "source"
    transductive = False

    def __init__(self, width: int = 96) -> None:
        self.width, self.fitted = width, False
        self.model: nn.Sequential | None = None

    def forecast(self, queries: Sequence[Query]) -> list[Forecast]:
        if self.model is None:
            raise SurrogateError(f"{EXPRESSION} holds no weights: train with `kernelcast train`, then trained=DIR")
        before = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            rows = forecasts(self.model, featurise(queries))
        finally:
            torch.set_num_threads(before)
        return [Forecast(probabilities=tuple(row.tolist())) for row in rows]

    def fitted_state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Return the weights, for `harness.surrogates.saved`."""
        assert self.model is not None
        return {}, {name: tensor.numpy() for name, tensor in self.model.state_dict().items()}

    def restore_fitted(self, values: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        """Take back what `fitted_state` returned."""
        self.model = new_model(self.width)
        self.model.load_state_dict({name: torch.tensor(array) for name, array in arrays.items()})
        self.model.eval()
        self.fitted = True
