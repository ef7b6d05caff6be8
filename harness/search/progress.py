"""How searches go, as one line: counts, rate, time left, the share of correct kernels and the best so far."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from harness.search.state import SearchState

MOST_NAMED = 4


@dataclass
class Progress:
    """Counts over all searches of a campaign, as they go; without times (`timed`) no kernel is called the best."""

    planned: dict[str, int]
    timed: bool = True
    started: float = field(default_factory=time.monotonic)
    states: dict[str, SearchState] = field(default_factory=dict)
    already: dict[str, int] = field(default_factory=dict)

    def update(self, state: SearchState) -> None:
        """Take note of a search; its first state says what an earlier session had measured."""
        self.already.setdefault(state.search_id, state.measured)
        self.states[state.search_id] = state

    def line(self, seconds: float | None) -> str:
        """Return one line; `seconds` is the time limit, if there is one."""
        states = list(self.states.values())
        measured = {s.search_id: s.measured for s in states}
        done, total = sum(measured.values()), sum(self.planned.values())
        elapsed = max(time.monotonic() - self.started, 1e-9)
        rate = (done - sum(self.already.values())) / elapsed
        # An exhausted search leaves its budget unspent for good.
        open_work = sum(self.planned[k] - measured.get(k, 0) for k in self.planned if not self._finished(k))
        left = open_work / rate if rate > 0 else float("inf")
        if seconds is not None:
            left = min(left, max(0.0, seconds - elapsed))
        forecasts = sum(s.costs.forecasts for s in states)
        asked = f", {forecasts} forecasts" if forecasts else ""
        correct = sum(node.status == "ok" for s in states for node in list(s.nodes.values()))
        share = f"{correct / done:.0%} ok" if done else "nothing measured"
        remaining = "?" if left == float("inf") else f"{left:.0f} s"
        return f"[{done}/{total}] {rate:.1f}/s, {remaining} left{asked}, {share}, {self._verdict()}"

    def _verdict(self) -> str:
        if not self.timed:
            return "not timed"
        best = [(2 ** (b.reported or 0.0), k) for k, s in sorted(self.states.items()) if (b := s.best())]
        named = sorted(best, reverse=True)[:MOST_NAMED]
        more = f" and {len(best) - len(named)} more" if len(best) > len(named) else ""
        return f"best {' '.join(f'{k}={v:.2f}x' for v, k in named) or '-'}{more}"

    def _finished(self, search_id: str) -> bool:
        state = self.states.get(search_id)
        return state is not None and state.finished
