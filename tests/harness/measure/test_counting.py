"""Counting wrong elements in one pass gives what `tasks.compare` gives, element for element."""

from __future__ import annotations

import pytest
import torch

from harness.measure import counting
from harness.measure.stages import differs
from tasks.compare import bad_elements

SPECIAL = (float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1.0, 1.0 + 2e-3, -1.0)


@pytest.mark.parametrize("dtype", counting.DTYPES)
@pytest.mark.parametrize("rtol, floor", [(1e-3, 0.0), (0.0, 2e-3), (1e-3, 1e-3)])
@pytest.mark.filterwarnings("ignore:invalid value encountered")
def test_every_pair_of_special_values_is_judged_alike(dtype, rtol, floor):
    out = torch.tensor(SPECIAL, dtype=dtype).repeat_interleave(len(SPECIAL))
    exact = torch.tensor(SPECIAL, dtype=torch.float64).repeat(len(SPECIAL))
    bounds = torch.tensor((rtol, floor), dtype=torch.float64)
    for place in range(len(out)):
        got, want = out[place : place + 1], exact[place : place + 1]
        found = int(counting.launch(got, want, bounds))
        assert found == int(bad_elements(got, want, rtol, floor)), (float(got), float(want))


@pytest.mark.parametrize("n", [0, 1, 4095, 4096, 9001])
def test_counts_of_many_elements_agree(n):
    generator = torch.Generator().manual_seed(n)
    exact = torch.randn(n, generator=generator, dtype=torch.float64)
    out = (exact + 0.01 * torch.randn(n, generator=generator, dtype=torch.float64)).to(torch.float16)
    bounds = torch.tensor((1e-3, 5e-3), dtype=torch.float64)
    found = int(counting.launch(out, exact, bounds))
    assert found == int(bad_elements(out, exact, 1e-3, 5e-3))
    assert n < 4000 or 0 < found < n


def test_what_lies_beyond_the_last_element_does_not_count():
    memory = torch.full((8192,), float("nan"))
    memory[:4099] = 1.0
    exact = torch.ones(4099, dtype=torch.float64)
    assert int(counting.launch(memory[:4099], exact, torch.tensor((0.0, 0.0), dtype=torch.float64))) == 0


@pytest.mark.parametrize("n", [1, 7, 8, 4096, 4097])
def test_bytes_that_differ_are_seen_wherever_they_are(n):
    a = torch.zeros(n + 3, dtype=torch.uint8)
    for start in (0, 3):
        one, other = a[start : start + n], a[start : start + n].clone()
        assert int(differs(one, other)) == 0
        for place in {0, n // 2, n - 1}:
            other[place] = 1
            assert int(differs(one, other)) == 1
            other[place] = 0
