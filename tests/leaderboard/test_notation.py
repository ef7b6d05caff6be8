"""The one formatter of figures."""

from __future__ import annotations

import pytest

from leaderboard import notation


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (0.0, "0.000"), (-0.0001, "0.000"), (-0.0006, "-0.001"), (0.1235, "0.123"), (12.0, "12.000")],
)
def test_a_number_has_three_decimals_and_zero_no_sign(value: float | None, text: str) -> None:
    assert notation.number(value) == text


def test_intervals_and_reasons() -> None:
    known = {"value": 0.5, "low": -0.25, "high": 1.0, "reason": None}
    assert notation.with_interval(known) == "0.500 [-0.250, 1.000]"
    assert notation.with_interval({**known, "low": None, "high": None}) == "0.500"
    undefined = {"value": None, "low": None, "high": None, "reason": "no positive row"}
    assert (notation.with_interval(undefined), notation.with_reason(undefined)) == ("-", "undefined (no positive row)")


def test_only_a_whole_is_a_hundred_percent() -> None:
    assert [notation.share(v) for v in (1.0, 0.9999, 0.5, 0.0)] == ["100.0%", "99.9%", "50.0%", "0.0%"]
