"""The small neural pair model as a surrogate: trained on a CPU in minutes, the same for the same seed."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmark.query import Query
from harness.surrogates.foreign import SurrogateError
from harness.surrogates.learned import Estimate, Learned
from harness.surrogates.training import Labelled

if TYPE_CHECKING:
    import torch

    from harness.surrogates.neural_model import Features, Targets

BATCH, LEARNING_RATE, WEIGHT_DECAY = 64, 2e-3, 0.05
MIRROR_WEIGHT = 0.5  # of a pair turned round, which is the same measurement again
DECIMALS = 9  # the last bits of a product depend on the number of rows; no forecast should


class NeuralPair(Learned):
    """Convolutions over the changed lines and token counts of both kernels, trained with a proper score.

    Measured pairs are also shown turned round. The weights are those of the epoch with the least loss on the validation
    split; at most `steps` batches are trained on, so that ten times the data does not take ten times as long.
    """

    def __init__(
        self, seed: int = 0, calibrate: str = "temperature", epochs: int = 24, steps: int = 2400, width: int = 96
    ) -> None:
        super().__init__(seed, calibrate)
        self.epochs, self.steps, self.width = epochs, steps, width
        self._model: torch.nn.Sequential | None = None

    def learn(self, train: Labelled, validation: Labelled) -> None:
        torch = _torch()
        from harness.surrogates.neural_model import batches, featurise, loss, targets

        features, wanted = _with_mirrored(train)
        held, held_wanted = featurise(validation.queries), targets(validation)
        rng = np.random.default_rng(self.seed)
        per_epoch = -(-len(features) // BATCH)
        epochs = max(1, min(self.epochs, self.steps // per_epoch))
        with one_thread(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            self._model = model = self._new_model()
            model[0].standardise(features)
            optimiser = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY)
            schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, LEARNING_RATE, total_steps=epochs * per_epoch)
            best, kept = float("inf"), copy.deepcopy(model.state_dict())
            for _ in range(epochs):
                model.train()
                for index, part in batches(features, BATCH, rng):
                    optimiser.zero_grad()
                    loss(model(part), wanted.rows(index)).backward()
                    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                    optimiser.step()
                    schedule.step()
                now = _mean_loss(model, held, held_wanted) if len(held) else -1.0
                if now < best or not len(held):
                    best, kept = now, copy.deepcopy(model.state_dict())
            # Single precision is what is saved: a model and its copy from disk then give the same forecasts.
            model.load_state_dict({name: tensor.float() for name, tensor in kept.items()})
            model.eval()

    def estimate(self, queries: Sequence[Query]) -> Estimate:
        torch = _torch()
        from harness.surrogates.neural_model import batches, featurise

        assert self._model is not None
        parts: list[tuple[np.ndarray, ...]] = [(np.zeros((0, 8)), np.zeros(0), np.zeros(0))]
        with torch.no_grad(), one_thread():
            for _, part in batches(featurise(queries), BATCH):
                logits, log2, fail = self._model(part)
                outputs = (torch.softmax(logits, dim=1), log2, torch.sigmoid(fail))
                parts.append(tuple(np.round(out.numpy(), DECIMALS) for out in outputs))
        classified, log2, p_fail = (np.concatenate(column) for column in zip(*parts, strict=True))
        return Estimate(log2, p_fail, classified / np.maximum(classified.sum(axis=1, keepdims=True), 1e-12))

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        assert self._model is not None
        return {}, {name: tensor.numpy().astype(np.float32) for name, tensor in self._model.state_dict().items()}

    def restore(self, values: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        torch = _torch()
        self._model = self._new_model()
        self._model.load_state_dict({name: torch.tensor(array) for name, array in arrays.items()})
        self._model.eval()

    def _new_model(self) -> torch.nn.Sequential:
        from harness.surrogates.neural_model import BinHead, PairEncoder

        # In double precision two machines agree to more digits than a forecast is compared to.
        return _torch().nn.Sequential(PairEncoder(self.width), BinHead(self.width)).double()  # type: ignore[no-any-return]


def _torch() -> Any:
    try:
        import torch
    except ModuleNotFoundError:
        raise SurrogateError("neural needs torch, which is not installed: pip install 'kernelcast[gpu]'") from None
    return torch


@contextmanager
def one_thread() -> Iterator[None]:
    """Keep to one thread: how a sum is split shows in its last bits, and busy cores do not stall each other."""
    torch = _torch()
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _with_mirrored(train: Labelled) -> tuple[Features, Targets]:
    """Return features and targets of the rows, and of the measured pairs turned round, their anchor's time known."""
    from dataclasses import replace

    from harness.surrogates.neural_model import Features, Targets, featurise, targets
    from harness.surrogates.wrappers import turned

    wanted = targets(train)
    index = [i for i, query in enumerate(train.queries) if query.anchor_kind == "parent" and train.ok[i]]
    back = []
    for i in index:
        query = train.queries[i]
        time_us = query.anchor_time_us and query.anchor_time_us / float(2 ** train.log2_speedup[i])
        back.append(replace(turned(query), anchor_time_us=time_us))
    first, second = featurise(train.queries), featurise(back)
    mirrored = Targets(
        wanted.mass[index, ::-1], -wanted.log2[index], wanted.failed[index], np.full(len(index), MIRROR_WEIGHT)
    )
    names = ("anchor", "candidate", "bags", "numbers")
    features = Features(*(np.concatenate([getattr(first, n), getattr(second, n)]) for n in names))
    names = ("mass", "log2", "failed", "weight")
    return features, Targets(*(np.concatenate([getattr(wanted, n), getattr(mirrored, n)]) for n in names))


def _mean_loss(model: torch.nn.Module, features: Features, wanted: Targets) -> float:
    from harness.surrogates.neural_model import batches, loss

    model.eval()
    total = 0.0
    with _torch().no_grad():
        for index, part in batches(features, 4 * BATCH):
            total += float(loss(model(part), wanted.rows(index))) * len(index)
    return total / len(features)
