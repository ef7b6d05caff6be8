from __future__ import annotations

import numpy as np
import pytest

from benchmark.near_duplicate import PERMUTATIONS, jaccard, minhash_signature, most_alike
from tests.factory import Recipe

SOURCE = Recipe("chunked").source("row_total")
OTHER_CONSTANTS = Recipe("chunked", block=1024, warps=8).source("row_softmax")
UNRELATED = "import torch\n\ndef custom_kernel(data):\n    return torch.linalg.norm(data[0], dim=-1).clamp(min=0)\n"


def test_what_the_structure_leaves_out_does_not_count() -> None:
    assert jaccard(SOURCE, OTHER_CONSTANTS) == 1.0
    assert (minhash_signature(SOURCE) == minhash_signature(OTHER_CONSTANTS)).all()


def test_the_index_is_that_of_the_runs_of_five_tokens() -> None:
    # Tokens of "def f(:" with n more names, which is no Python: def f ( : and n times `name`.
    assert jaccard("def f(:\n", "def f(:\n") == 1.0
    # name name ( : name | name ( : name name | ( : name name name: the second source has the first two runs only.
    assert jaccard("def f(:\n a b c", "def f(:\n a b") == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    "other", [Recipe("guarded").source("row_total"), Recipe("walking").source("row_total"), UNRELATED]
)
def test_the_signature_estimates_the_index(other: str) -> None:
    exact = jaccard(SOURCE, other)
    estimate = float((minhash_signature(SOURCE) == minhash_signature(other)).mean())
    # Four standard errors of a share of PERMUTATIONS draws.
    assert abs(estimate - exact) <= 4 * np.sqrt(max(exact * (1 - exact), 0.01) / PERMUTATIONS)
    assert exact < 1


def test_the_most_alike_of_several() -> None:
    signatures = np.array([minhash_signature(code) for code in (SOURCE, UNRELATED)])
    best, where = most_alike(signatures, signatures[:1])
    assert best.tolist() == [1.0, float((signatures[0] == signatures[1]).mean())] and where.tolist() == [0, 0]
    best, where = most_alike(signatures, signatures)
    assert best.tolist() == [1.0, 1.0] and where.tolist() == [0, 1]
    best, where = most_alike(signatures, signatures[:0])
    assert best.tolist() == [0.0, 0.0] and where.tolist() == [-1, -1]


def test_many_signatures_are_compared_like_a_few() -> None:
    rng = np.random.default_rng(0)
    # Few values in each entry, so that rows agree by chance, and more rows than one block.
    some, others = (rng.integers(0, 3, (n, PERMUTATIONS), dtype=np.uint64) for n in (1500, 40))
    best, where = most_alike(some, others)
    exact = (some[:, None, :] == others[None, :, :]).mean(axis=2)
    assert best.tolist() == exact.max(axis=1).tolist() and where.tolist() == exact.argmax(axis=1).tolist()
