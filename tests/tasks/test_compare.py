"""The comparison: what counts as an output, where the tolerance lies, and what a message says."""

from __future__ import annotations

import pytest
import torch

from tasks import compare
from tasks.compare import mismatch, rms
from tasks.spec import Tolerance

LOOSE = Tolerance(rtol=0.1, atol=0.0)


def judge(
    out: object, want: torch.Tensor, tolerance: Tolerance = LOOSE, like: torch.Tensor | None = None
) -> str | None:
    return mismatch(out, [want.double()], [tolerance], [want.float() if like is None else like])


def test_the_tolerance_is_relative_plus_a_share_of_the_rms() -> None:
    want = torch.tensor([3.0, 4.0, 0.0])  # RMS is sqrt(25 / 3) = 2.886751
    assert rms(want) == pytest.approx(2.886751, abs=1e-6)
    tolerance = Tolerance(rtol=0.01, atol=0.001)
    assert judge(torch.tensor([3.0328, 3.9572, 0.0028]), want, tolerance) is None
    assert "at [0]: got 3.0329" in str(judge(torch.tensor([3.0329, 4.0, 0.0]), want, tolerance))
    assert "at [2]: got 0.00289999" in str(judge(torch.tensor([3.0, 4.0, 0.0029]), want, tolerance))


def test_a_tolerance_of_zero_asks_for_equality() -> None:
    want = torch.tensor([1.0, -0.0])
    assert judge(torch.tensor([1.0, 0.0]), want, Tolerance(0.0, 0.0)) is None
    assert judge(torch.tensor([1.0, 1e-30]), want, Tolerance(0.0, 0.0))


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_nan_and_infinity_fail_where_a_finite_value_is_expected(bad: float) -> None:
    out = torch.tensor([1.0, bad, 2.0])
    assert "at [1]" in str(judge(out, torch.tensor([1.0, 1.0, 2.0]), Tolerance(1e9, 1e9)))


def test_non_finite_expectations_ask_for_the_same_value() -> None:
    inf, nan = float("inf"), float("nan")
    want = torch.tensor([inf, -inf, nan, 1.0])
    assert judge(want.clone(), want) is None
    for place, value in ((0, -inf), (1, 3.0), (2, 0.0)):
        out = want.clone()
        out[place] = value
        assert f"at [{place}]" in str(judge(out, want))


def test_form_is_checked_before_values() -> None:
    want = torch.ones(2, 3)
    assert "shape (2, 3), got (3, 2)" in str(judge(torch.ones(3, 2), want))
    assert "torch.float32, got torch.float64" in str(judge(torch.ones(2, 3, dtype=torch.float64), want))
    assert "on cpu, got one on meta" in str(judge(torch.ones(2, 3, device="meta"), want))
    assert "dense" in str(judge(torch.ones(2, 3).to_sparse(), want))


class FakeOutput(torch.Tensor):
    """A tensor that claims to be close to everything."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return torch.ones(1, dtype=torch.bool)


class Pretender(list):
    """A list that answers for its length only."""


@pytest.mark.parametrize(
    "fake",
    [
        torch.zeros(2).as_subclass(FakeOutput),
        torch.nn.Parameter(torch.ones(2)),
        [1.0, 1.0],
        None,
        "ones",
        lambda: torch.ones(2),
        Pretender([torch.ones(2)]),
        iter([torch.ones(2)]),
        {0: torch.ones(2)},
    ],
)
def test_fake_outputs_are_refused(fake: object) -> None:
    assert judge(fake, torch.ones(2))


def test_fake_element_of_a_tuple_is_refused() -> None:
    want = [torch.ones(2).double(), torch.ones(2).double()]
    like = [torch.ones(2), torch.ones(2)]
    message = mismatch((torch.ones(2), torch.ones(2).as_subclass(FakeOutput)), want, [LOOSE, LOOSE], like)
    assert message is not None and message.startswith("output 1: expected a torch.Tensor, got")


def test_the_number_of_outputs() -> None:
    want = torch.ones(2)
    assert judge((want,), want) is None
    assert judge([want], want) is None
    assert judge((want, want), want) == "expected 1 output tensor, got 2"
    assert judge((), want) == "expected 1 output tensor, got 0"


def test_a_message_names_output_place_and_values() -> None:
    out = torch.ones(3, 4)
    out[1, 2] = 5.0
    out[2, 3] = 6.0
    message = mismatch(
        (torch.ones(1), out), [torch.ones(1).double(), torch.ones(3, 4).double()], [LOOSE] * 2, [torch.ones(1), out]
    )
    assert message == "output 1: 2 of 12 elements differ, the first at [1, 2]: got 5, expected 1 within 0.1"


def test_chunks_are_compared_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(5)
    want = torch.randn(7, 11, generator=generator)
    out = want.clone()
    out[6, 3] += 1.0
    out[6, 9] += 1.0
    whole = judge(out, want, Tolerance(1e-5, 1e-5))
    monkeypatch.setattr(compare, "CHUNK_ELEMENTS", 5)
    assert judge(want.clone(), want, Tolerance(1e-5, 1e-5)) is None
    assert judge(out, want, Tolerance(1e-5, 1e-5)) == whole
    assert "2 of 77" in str(whole) and "[6, 3]" in str(whole)


def test_strided_outputs_are_compared_by_place() -> None:
    want = torch.arange(6.0).view(2, 3) + 1
    assert judge(want.t().contiguous().t(), want) is None


def test_empty_and_scalar_outputs() -> None:
    assert judge(torch.ones(0, 3), torch.ones(0, 3)) is None
    assert judge(torch.tensor(1.0), torch.tensor(1.0)) is None
    assert "at []" in str(judge(torch.tensor(2.0), torch.tensor(1.0)))


def test_half_precision_is_compared_exactly() -> None:
    want = torch.tensor([1.0 + 2**-9], dtype=torch.float64)
    out = torch.ones(1, dtype=torch.bfloat16)
    assert mismatch(out, [want], [Tolerance(2**-8, 0.0)], [out]) is None
    assert mismatch(out, [want], [Tolerance(2**-10, 0.0)], [out])


def test_expectations_have_to_agree() -> None:
    with pytest.raises(ValueError, match="give one of each"):
        mismatch(torch.ones(1), [torch.ones(1).double()], [LOOSE, LOOSE], [torch.ones(1)])
    with pytest.raises(ValueError, match="oracle's shape"):
        mismatch(torch.ones(1), [torch.ones(2).double()], [LOOSE], [torch.ones(1)])
