"""How alike two kernels are in structure: MinHash over runs of tokens of the form that `structure_hash` hashes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from benchmark.structure import hash_tokens, structure_tokens

Signature = npt.NDArray[np.uint64]
Ints = npt.NDArray[np.int64]
RUN = 5  # tokens
PERMUTATIONS = 128
THRESHOLD = 0.8
BLOCK = 1024  # rows compared at once, which bounds the memory
_PRIME = (1 << 31) - 1  # products of two residues fit into 64 bits
_RNG = np.random.default_rng(20_260_101)
_FACTORS = _RNG.integers(1, _PRIME, PERMUTATIONS, dtype=np.uint64)
_OFFSETS = _RNG.integers(0, _PRIME, PERMUTATIONS, dtype=np.uint64)


def runs(tokens: Sequence[str]) -> frozenset[int]:
    """Return the hashed runs of RUN consecutive structure tokens; a shorter source is one run."""
    found = {"\0".join(tokens[i : i + RUN]) for i in range(max(1, len(tokens) - RUN + 1))}
    return frozenset(int.from_bytes(hashlib.blake2b(r.encode(), digest_size=8).digest(), "big") % _PRIME for r in found)


def minhash_signature(code: str) -> Signature:
    """Return the MinHash signature, shape (128,), of a source: the share of equal entries estimates the Jaccard index.

    Source: Broder, On the resemblance and containment of documents (1997).
    """
    return token_signature(structure_tokens(code))


def token_signature(tokens: Sequence[str]) -> Signature:
    """Return the MinHash signature, shape (128,), of structure tokens."""
    values = np.fromiter(runs(tokens), dtype=np.uint64)[:, None]
    signature: Signature = ((values * _FACTORS + _OFFSETS) % np.uint64(_PRIME)).min(axis=0)
    return signature


def distinct_structures(
    codes: Iterable[str], progress: Callable[[int], None] = lambda n: None
) -> tuple[list[str], dict[str, Signature]]:
    """Return the structure_hash of each source, and the signature of each distinct structure."""
    hashes: list[str] = []
    signatures: dict[str, Signature] = {}
    for code in codes:
        tokens = structure_tokens(code)
        hashes.append(hash_tokens(tokens))
        if hashes[-1] not in signatures:
            signatures[hashes[-1]] = token_signature(tokens)
        progress(1)
    return hashes, signatures


def jaccard(a: str, b: str) -> float:
    """Return the exact Jaccard index, 0 to 1, of the runs of two sources."""
    left, right = runs(structure_tokens(a)), runs(structure_tokens(b))
    return len(left & right) / len(left | right)


def most_alike(signatures: Signature, others: Signature) -> tuple[npt.NDArray[np.float64], Ints]:
    """Return the highest estimated Jaccard index of each row of `signatures`, shape (n, 128), with any of `others`,
    and the first row of `others` that has it (-1 if `others` is empty).
    """
    best, where = np.zeros(len(signatures)), np.full(len(signatures), -1, dtype=np.int64)
    for start, equal in _equal_entries(signatures, others):
        row = equal.argmax(axis=1)
        best[start : start + len(row)] = equal[np.arange(len(row)), row] / PERMUTATIONS
        where[start : start + len(row)] = row
    return best, where


def _equal_entries(signatures: Signature, others: Signature) -> Iterator[tuple[int, Ints]]:
    """Yield, for blocks of rows, how many entries each shares with each of `others`.

    Two signatures share as many entries as their sparse indicator rows (one column for each entry and value) have
    columns in common, so that signatures without anything in common cost nothing.
    """
    from scipy.sparse import csr_array

    if not len(signatures) or not len(others):
        return
    both = np.concatenate([signatures, others])
    columns, width = np.empty(both.shape, dtype=np.int64), 0
    for entry in range(PERMUTATIONS):
        values, index = np.unique(both[:, entry], return_inverse=True)
        columns[:, entry] = index + width
        width += len(values)

    def indicator(rows: Ints) -> csr_array:
        ends = np.arange(0, rows.size + 1, PERMUTATIONS)
        return csr_array((np.ones(rows.size, dtype=np.int32), rows.ravel(), ends), shape=(len(rows), width))

    right = indicator(columns[len(signatures) :]).T.tocsr()
    for start in range(0, len(signatures), BLOCK):
        block = columns[start : min(start + BLOCK, len(signatures))]
        yield start, (indicator(block) @ right).toarray()
