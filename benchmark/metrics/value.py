"""A metric's value with its interval, or the reason why there is none."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Value:
    """One figure. `value` is None when the metric is undefined; then `reason` says why.

    `low` and `high` bound the 95% interval. A reason beside a value explains a missing interval, or says how many tasks
    the value leaves out. Raises ValueError for a number that is not finite, and for an undefined one without a reason.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    reason: str | None = None

    def __post_init__(self) -> None:
        for name in ("value", "low", "high"):
            number = getattr(self, name)
            if number is not None and not math.isfinite(number):
                raise ValueError(f"{name} is {number}; an undefined figure is None with a reason")
        if self.value is None and not self.reason:
            raise ValueError("an undefined value needs a reason")
        if (self.low is None) != (self.high is None):
            raise ValueError("an interval has two ends")

    @classmethod
    def of(cls, number: float, undefined: str) -> Value:
        """Return the number as a Value, or the reason `undefined` when it is NaN."""
        return cls(None, reason=undefined) if math.isnan(number) else cls(float(number))

    def to_dict(self) -> dict[str, float | str | None]:
        """Return {"value", "low", "high", "reason"}, safe for strict JSON."""
        return {"value": self.value, "low": self.low, "high": self.high, "reason": self.reason}
