"""A small network over a pair of kernels: featurisation, batches, the encoder, and its loss.

Written to be used apart from the surrogate of the same name: `featurise` turns queries into arrays, `batches` walks
over them, `PairEncoder` maps a batch to one vector for each row, and any head may stand on top: `BinHead` here, a
Dirichlet or a policy elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmark.bins import N_BINS, Floats, bin_mass
from benchmark.query import Query
from harness.surrogates.query_features import query_features
from harness.surrogates.tokens import changed_lines, hashed, tokenise
from harness.surrogates.training import Labelled

WINDOW = 128  # tokens of the changed lines that are read in order, on each side
VOCABULARY = 2048
BAG = 512  # columns that the tokens of a whole source are counted in
ROLES = ("warps", "stages", "threads", "vector", "rows", "group", "block", "other")
NUMBERS = (
    "anchor.is_parent", "anchor.time", "anchor.over_floor", "task.bytes", "task.floor", "task.flops", "task.intensity",
    "edit.added", "edit.removed", "edit.share", "edit.numbers_up", "edit.numbers_down", "candidate.launches",
    "candidate.jit", "candidate.loops", "change.launches", "change.loops", "candidate.cuda.kernels",
    *(f"edit.{role}" for role in ROLES), *(f"candidate.const.{role}.max" for role in ROLES),
)  # fmt: skip


@dataclass(frozen=True)
class Features:
    """Queries as arrays with one row for each: token ids (n, WINDOW), 0 beyond the end, and numbers.

    `bags`, shape (n, 2 x BAG), holds log counts of the candidate's tokens and their change from the anchor's;
    `numbers`, shape (n, len(NUMBERS)), is not standardised: the encoder does that.
    """

    anchor: npt.NDArray[np.int64]
    candidate: npt.NDArray[np.int64]
    bags: npt.NDArray[np.float32]
    numbers: npt.NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.anchor)

    def rows(self, index: npt.NDArray[np.int64]) -> Features:
        """Return some of the rows."""
        return Features(*(getattr(self, f.name)[index] for f in fields(self)))


@dataclass(frozen=True)
class Targets:
    """Labels as arrays: bin distribution (n, 8), log2 S (n,), failed (n,), and the weight of a row.

    A failed row has a distribution of zeros and log2 S of 0, and counts for the failure alone.
    """

    mass: Floats
    log2: Floats
    failed: Floats
    weight: Floats

    def rows(self, index: npt.NDArray[np.int64]) -> Targets:
        """Return some of the rows."""
        return Targets(*(getattr(self, f.name)[index] for f in fields(self)))


def featurise(queries: Sequence[Query]) -> Features:
    """Return the features of queries; a row depends on its own query only."""
    n = len(queries)
    anchor, candidate = np.zeros((n, WINDOW), dtype=np.int64), np.zeros((n, WINDOW), dtype=np.int64)
    bags = np.zeros((n, 2 * BAG), dtype=np.float32)
    numbers = np.zeros((n, len(NUMBERS)), dtype=np.float32)
    for i, query in enumerate(queries):
        before, after = changed_lines(query.anchor_code, query.candidate_code)
        for ids, text in ((anchor[i], before), (candidate[i], after)):
            tokens = [hashed(token, VOCABULARY) for token in tokenise(text)[:WINDOW]]
            ids[: len(tokens)] = tokens
        own, other = _bag(query.candidate_code), _bag(query.anchor_code)
        bags[i, :BAG], bags[i, BAG:] = own, own - other
        found = query_features(query)
        numbers[i] = [found.get(name, 0.0) for name in NUMBERS]
    return Features(anchor, candidate, bags, numbers)


def _bag(code: str) -> npt.NDArray[np.float32]:
    counts = np.bincount([hashed(token, BAG + 1) - 1 for token in tokenise(code)], minlength=BAG)
    return np.log1p(counts).astype(np.float32)


def targets(rows: Labelled) -> Targets:
    """Return the labels of rows; the distribution of a bin is the mass of the log-normal that fits the interval."""
    ok = rows.ok
    log2 = np.where(ok, np.nan_to_num(rows.log2_speedup), 0.0)
    mass = np.where(ok[:, None], bin_mass(log2, np.nan_to_num(rows.log2_sd)), 0.0)
    return Targets(mass, np.clip(log2, -3.0, 3.0), (~ok).astype(np.float64), np.ones(len(rows)))


def batches(
    features: Features, size: int, rng: np.random.Generator | None = None
) -> Iterator[tuple[npt.NDArray[np.int64], Features]]:
    """Yield (row numbers, features) of batches, in a random order if a generator is given."""
    order = np.arange(len(features)) if rng is None else rng.permutation(len(features))
    for start in range(0, len(order), size):
        index = order[start : start + size]
        yield index, features.rows(index)


class PairEncoder(nn.Module):
    """Maps features of n pairs to vectors, shape (n, width): two convolutions over the edit, a layer over the bags."""

    def __init__(self, width: int = 96, embedding: int = 24, channels: int = 32, dropout: float = 0.1) -> None:
        super().__init__()
        self.width = width
        self.register_buffer("mean", torch.zeros(len(NUMBERS)))
        self.register_buffer("scale", torch.ones(len(NUMBERS)))
        self.embed = nn.Embedding(VOCABULARY, embedding, padding_idx=0)
        self.near = nn.Conv1d(embedding, channels, 5, padding=2)
        self.far = nn.Conv1d(channels, channels, 5, padding=4, dilation=2)
        self.bags = nn.Sequential(nn.Linear(2 * BAG, width), nn.GELU(), nn.Dropout(dropout))
        self.numbers = nn.Sequential(nn.Linear(len(NUMBERS), width), nn.GELU(), nn.Dropout(dropout))
        self.join = nn.Sequential(
            nn.Linear(4 * channels + 2 * width, width),
            nn.GELU(),
            nn.Dropout(dropout),
            nn.Linear(width, width),
            nn.GELU(),
        )

    def standardise(self, features: Features) -> None:
        """Take mean and scale of the numbers from the rows that are trained on."""
        kind = self.mean.dtype
        self.mean.copy_(torch.tensor(features.numbers.mean(axis=0), dtype=kind))
        self.scale.copy_(torch.tensor(np.maximum(features.numbers.std(axis=0), 1e-3), dtype=kind))

    def forward(self, features: Features) -> Tensor:
        place, kind = self.mean.device, self.mean.dtype
        candidate = self._read(torch.as_tensor(features.candidate, device=place))
        anchor = self._read(torch.as_tensor(features.anchor, device=place))
        numbers = (torch.as_tensor(features.numbers, device=place).to(kind) - self.mean) / self.scale
        bags = torch.as_tensor(features.bags, device=place).to(kind)
        # A number far outside what training saw says no more than one at its edge.
        parts = [candidate, candidate - anchor, self.bags(bags), self.numbers(numbers.clamp(-5, 5))]
        joined: Tensor = self.join(torch.cat(parts, dim=1))
        return joined

    def _read(self, ids: Tensor) -> Tensor:
        """Return the largest and the mean activation over the tokens of each row, shape (n, 2 x channels)."""
        known = (ids > 0).unsqueeze(1)
        x = functional.gelu(self.near(self.embed(ids).transpose(1, 2))) * known
        x = (x + functional.gelu(self.far(x))) * known
        largest = x.masked_fill(~known, -1.0).amax(dim=2)
        return torch.cat([largest, x.sum(dim=2) / known.sum(dim=2).clamp(min=1)], dim=1)


class BinHead(nn.Module):
    """Logits of the bins (n, 8), log2 S (n,) and the logit of a failure (n,), from the encoder's vectors."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.out = nn.Linear(width, N_BINS + 2)

    def forward(self, vectors: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        out = self.out(vectors)
        return out[:, :N_BINS], out[:, N_BINS], out[:, N_BINS + 1]


def loss(outputs: tuple[Tensor, Tensor, Tensor], wanted: Targets) -> Tensor:
    """Return the mean loss: the log score of the label distribution, a robust one of log2 S, the log score of failure.

    The first and last are proper: nothing but the true probabilities minimises their expectation.
    """
    logits, log2, fail = outputs
    mass, value, failed, weight = (
        torch.as_tensor(getattr(wanted, f.name), device=logits.device).to(logits.dtype) for f in fields(wanted)
    )
    ok = weight * (1 - failed)
    score = -(mass * functional.log_softmax(logits, dim=1)).sum(dim=1)
    point = functional.smooth_l1_loss(log2, value, reduction="none")
    both = (ok * (score + point)).sum() / ok.sum().clamp(min=1)
    failure = functional.binary_cross_entropy_with_logits(fail, failed, weight)
    return both + 0.5 * failure
