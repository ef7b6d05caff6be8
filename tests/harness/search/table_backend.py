"""A backend without a device, where the outcome of a kernel is a pure function of its source, and a cheap mutator."""

from __future__ import annotations

import hashlib
import random
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import cache
from typing import Any

import tasks
from benchmark.identity import kernel_id
from harness.measure.result import CaseTimes, Measurement
from harness.search.mutate import Feedback, Proposal


@cache
def seed_codes(task: str) -> frozenset[str]:
    return frozenset(tasks.seed_code(task, name) for name in tasks.seed_names(task))


def outcome(task: str, code: str) -> Measurement:
    """Return a failure for one source in five, seeds apart, else times between 1/4 and 4 times the reference's."""
    digest = hashlib.sha256(code.encode()).digest()
    identity = kernel_id(task, code)
    if digest[0] < 51 and code not in seed_codes(task):
        return Measurement(identity, task, "incorrect", error="digest", stage="check", compile_s=0.5)
    time = 1000.0 * 2 ** (4 * digest[1] / 255 - 2)
    case = CaseTimes("only", (time, time * 1.01), (0, 2), (1000.0, 1010.0), (1, 3), "event")
    costs = {"compile_s": 0.5, "check_s": 0.25, "timing_s": 0.125}
    return Measurement(identity, task, "ok", cases=(case,), measured_at="2026-01-01T00:00:00Z", **costs)


class TableBackend:
    """Finishes what was submitted in a scrambled order; counts submissions; can raise after some of them."""

    def __init__(
        self,
        order: int = 0,
        fail_after: int | None = None,
        error: type[BaseException] = OSError,
        wait_s: float = 0.002,
    ) -> None:
        self.session: dict[str, Any] = {
            "session_id": f"s-{order}", "isolation": "strict", "torch": "0", "triton": "0", "gpu": "table",
        }  # fmt: skip
        self._wait_s = wait_s
        self.submitted: Counter[str] = Counter()
        self.fail_after, self.error = fail_after, error
        self._rng, self._lock = random.Random(order), threading.Lock()
        self._held: list[tuple[Future[Measurement], str, str]] = []

    def submit(
        self, task: str, code: str, language: str | None = None, isolation: str | None = None
    ) -> Future[Measurement]:
        future: Future[Measurement] = Future()
        with self._lock:
            self.submitted[code] += 1
            total = sum(self.submitted.values())
            self._held.append((future, task, code))
            if self.fail_after is not None and total > self.fail_after:
                raise self.error("the table is closed")
        if self._wait_s:
            threading.Timer(self._wait_s, self._finish_one).start()
        else:
            self._finish_one()
        return future

    def _finish_one(self) -> None:
        with self._lock:
            future, task, code = self._held.pop(self._rng.randrange(len(self._held)))
        if future.set_running_or_notify_cancel():
            future.set_result(replace(outcome(task, code), session_id=self.session["session_id"]))

    def close(self) -> None:
        pass


class NumberingMutator:
    """Appends numbered assignments: so many children per parent, down to a depth."""

    name = "numbering"
    may_succeed_later = False

    def __init__(self, children: int = 3, depth: int = 2) -> None:
        self.children, self.depth = children, depth

    def propose(
        self,
        parent_code: str,
        rng: random.Random,
        n: int,
        partners: Sequence[str] = (),
        known: Callable[[str], bool] = lambda code: False,
        feedback: Feedback | None = None,
        seed_id: str = "",
    ) -> list[Proposal]:
        if parent_code.count("number = ") == self.depth:
            return []
        codes = [f"{parent_code}\nnumber = {i}\n" for i in range(self.children)]
        return [Proposal(code, "number", "constants") for code in codes if not known(code)][:n]
