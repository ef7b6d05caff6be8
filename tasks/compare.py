"""Compare a kernel's outputs with the expected ones; run by trusted code that holds the expected values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from tasks.spec import Tolerance

CHUNK_ELEMENTS = 1 << 24


def mismatch(
    outputs: Any,
    expected: Sequence[torch.Tensor],
    tolerances: Sequence[Tolerance],
    expected_like: Sequence[Any],
) -> str | None:
    """Return what is wrong with the outputs in one line, None if they pass.

    `outputs` is a tensor, or a tuple or list of tensors; `expected` are the oracle's float64 tensors; `expected_like`
    have the shape, dtype and device that each output must have. An element passes if
    |out - expected| <= rtol |expected| + atol RMS(finite expected); where the expected value is NaN or infinite, the
    output must equal it. Raises ValueError if the three expectations differ in length or shape.
    """
    if not len(expected) == len(tolerances) == len(expected_like):
        raise ValueError(
            f"{len(expected)} expected outputs, {len(tolerances)} tolerances and {len(expected_like)} descriptions; "
            "give one of each for every output"
        )
    # A subclass can answer each question differently, so only the exact types count.
    if type(outputs) is torch.Tensor:
        outputs = (outputs,)
    if type(outputs) not in (tuple, list):
        return f"expected {_count(len(expected))}, got {type(outputs).__name__}"
    if len(outputs) != len(expected):
        return f"expected {_count(len(expected))}, got {len(outputs)}"
    for place, (out, want, tolerance, like) in enumerate(
        zip(outputs, expected, tolerances, expected_like, strict=True)
    ):
        if tuple(want.shape) != tuple(like.shape):
            raise ValueError(f"output {place}: the oracle's shape {tuple(want.shape)} is not {tuple(like.shape)}")
        wrong = _wrong_form(out, like) or _wrong_values(out, want, tolerance)
        if wrong:
            return f"output {place}: {wrong}"
    return None


def rms(values: torch.Tensor) -> float:
    """Return the root mean square of the finite values in float64, 0 if there is none."""
    squares, counts = [], []
    for part in _chunks(values):
        finite = part.isfinite()
        squares.append(torch.where(finite, part, 0.0).double().square().sum())
        counts.append(finite.sum())
    count = int(torch.stack(counts).sum()) if counts else 0
    return float((torch.stack(squares).sum() / count).sqrt()) if count else 0.0


def bad_elements(out: torch.Tensor, expected: torch.Tensor, rtol: float, floor: float) -> torch.Tensor:
    """Return how many elements differ by more than rtol |expected| + floor: a 0-d tensor on the device of `expected`.

    The device is not waited for, so that several outputs can be judged at the price of one wait.
    """
    rows = zip(_chunks(out), _chunks(expected), strict=True)
    counts = [_bad(got, exact, rtol, floor).sum() for got, exact in rows]
    return torch.stack(counts).sum() if counts else torch.zeros((), dtype=torch.int64, device=expected.device)


def _wrong_form(out: Any, like: Any) -> str | None:
    if type(out) is not torch.Tensor:
        return f"expected a torch.Tensor, got {type(out).__module__}.{type(out).__qualname__}"
    if out.layout != torch.strided:
        return f"expected a dense tensor, got layout {out.layout}"
    if tuple(out.shape) != tuple(like.shape):
        return f"expected shape {tuple(like.shape)}, got {tuple(out.shape)}"
    if out.dtype != like.dtype:
        return f"expected {like.dtype}, got {out.dtype}"
    if out.device != like.device:
        return f"expected a tensor on {like.device}, got one on {out.device}"
    return None


def _wrong_values(out: torch.Tensor, want: torch.Tensor, tolerance: Tolerance) -> str | None:
    floor = tolerance.atol * rms(want)
    counts = [
        _bad(got.to(exact.device), exact, tolerance.rtol, floor).sum()
        for got, exact in zip(_chunks(out), _chunks(want), strict=True)
    ]
    total = int(torch.stack(counts).sum()) if counts else 0
    if not total:
        return None
    chunk = next(i for i, count in enumerate(counts) if int(count))
    got, exact = list(_chunks(out))[chunk].to(want.device), list(_chunks(want))[chunk]
    first = int(_bad(got, exact, tolerance.rtol, floor).to(torch.uint8).argmax())
    index = [int(i) for i in torch.unravel_index(torch.tensor(chunk * CHUNK_ELEMENTS + first), want.shape)]
    value, right = float(got[first]), float(exact[first])
    return (
        f"{total} of {want.numel()} elements differ, the first at {index}: got {value:.9g}, expected {right:.9g} "
        f"within {tolerance.rtol * abs(right) + floor:.3g}"
    )


def _bad(got: torch.Tensor, exact: torch.Tensor, rtol: float, floor: float) -> torch.Tensor:
    got, exact = got.double(), exact.double()
    close = (got - exact).abs() <= exact.abs() * rtol + floor
    same = (got == exact) | (got.isnan() & exact.isnan())
    # Every comparison with NaN is false, so a NaN that is not expected is never close.
    return ~torch.where(exact.isfinite(), close, same)


def _chunks(values: torch.Tensor) -> Iterator[torch.Tensor]:
    flat = values.detach().reshape(-1)
    for start in range(0, flat.numel(), CHUNK_ELEMENTS):
        yield flat[start : start + CHUNK_ELEMENTS]


def _count(outputs: int) -> str:
    return "1 output tensor" if outputs == 1 else f"{outputs} output tensors"
