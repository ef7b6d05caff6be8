"""What asking an endpoint costs: requests, tokens and money, counted over all threads of a run."""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock
from typing import Any

from harness.surrogates.lm.endpoint import Reply


@dataclass(frozen=True)
class Price:
    """Dollars for a million tokens in and out; None where it is not known."""

    input_usd: float | None = None
    output_usd: float | None = None

    def of(self, input_tokens: int, output_tokens: int) -> float | None:
        """Return the price of so many tokens in dollars, None if one of the two is not known."""
        if self.input_usd is None or self.output_usd is None:
            return None
        return (input_tokens * self.input_usd + output_tokens * self.output_usd) / 1e6


class Account:
    """Counts replies; answers without token counts are counted apart, since their price is not known."""

    def __init__(self, price: Price) -> None:
        self._price = price
        self._lock = Lock()
        self.replies = self.input_tokens = self.output_tokens = 0
        self.without_usage = self.unparsed = self.asked_again = 0

    def add(self, reply: Reply, unparsed: bool, again: bool) -> None:
        """Count a reply; `again` if it answers a query that had an unparsed answer before."""
        with self._lock:
            self.replies += 1
            self.unparsed += unparsed
            self.asked_again += again
            self.without_usage += reply.input_tokens is None or reply.output_tokens is None
            self.input_tokens += reply.input_tokens or 0
            self.output_tokens += reply.output_tokens or 0

    def summary(self) -> dict[str, Any]:
        """Return the counts and the price as JSON values; the price is None where it is not known."""
        return {
            "replies": self.replies,
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "replies_without_token_counts": self.without_usage,
            "unparsed": self.unparsed,
            "asked_again_after_unparsed": self.asked_again,
            "usd": self._price.of(self.input_tokens, self.output_tokens),
        }
