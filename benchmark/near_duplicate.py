"""How alike two kernels are in structure: MinHash over runs of tokens of the form that `structure_hash` hashes."""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt

from benchmark.structure import structure_tokens

Signature = npt.NDArray[np.uint64]
RUN = 5  # tokens
PERMUTATIONS = 128
THRESHOLD = 0.8
_PRIME = (1 << 31) - 1  # products of two residues fit into 64 bits
_RNG = np.random.default_rng(20_260_101)
_FACTORS = _RNG.integers(1, _PRIME, PERMUTATIONS, dtype=np.uint64)
_OFFSETS = _RNG.integers(0, _PRIME, PERMUTATIONS, dtype=np.uint64)


def runs(code: str) -> frozenset[int]:
    """Return the hashed runs of RUN consecutive structure tokens; a shorter source is one run."""
    tokens = structure_tokens(code)
    found = {"\0".join(tokens[i : i + RUN]) for i in range(max(1, len(tokens) - RUN + 1))}
    return frozenset(int.from_bytes(hashlib.blake2b(r.encode(), digest_size=8).digest(), "big") % _PRIME for r in found)


def minhash_signature(code: str) -> Signature:
    """Return the MinHash signature, shape (128,), of a source: the share of equal entries estimates the Jaccard index.

    Source: Broder, On the resemblance and containment of documents (1997).
    """
    values = np.fromiter(runs(code), dtype=np.uint64)[:, None]
    signature: Signature = ((values * _FACTORS + _OFFSETS) % np.uint64(_PRIME)).min(axis=0)
    return signature


def jaccard(a: str, b: str) -> float:
    """Return the exact Jaccard index, 0 to 1, of the runs of two sources."""
    left, right = runs(a), runs(b)
    return len(left & right) / len(left | right)


def most_alike(signatures: Signature, others: Signature) -> npt.NDArray[np.float64]:
    """Return the highest estimated Jaccard index of each row of `signatures`, shape (n, 128), with any of `others`."""
    best = np.zeros(len(signatures))
    for other in others:
        np.maximum(best, (signatures == other).mean(axis=1), out=best)
    return best
