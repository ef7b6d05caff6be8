"""A backend without a device, where the outcome of a kernel is a pure function of its source, and a cheap mutator."""

from __future__ import annotations

import hashlib
import random
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

from benchmark.identity import kernel_id
from harness.measure.result import CaseTimes, Measurement
from harness.search.mutate import Proposal


def outcome(task: str, code: str) -> Measurement:
    """Return a failure for one source in five, else times between 1/4 and 4 times the reference's."""
    digest = hashlib.sha256(code.encode()).digest()
    identity = kernel_id(task, code)
    if digest[0] < 51:
        return Measurement(identity, task, "incorrect", error="digest", stage="check")
    time = 1000.0 * 2 ** (4 * digest[1] / 255 - 2)
    case = CaseTimes("only", (time, time * 1.01), (0, 2), (1000.0, 1010.0), (1, 3), "event")
    return Measurement(identity, task, "ok", cases=(case,))


class TableBackend:
    """Finishes what was submitted in a scrambled order; counts submissions; can raise after some of them."""

    def __init__(self, order: int = 0, fail_after: int | None = None, error: type[BaseException] = OSError) -> None:
        self.session: dict[str, Any] = {"session_id": f"s-{order}", "isolation": "strict", "torch": "0", "triton": "0"}
        self.submitted: Counter[str] = Counter()
        self.fail_after, self.error = fail_after, error
        self._rng, self._lock = random.Random(order), threading.Lock()
        self._held: list[tuple[Future[Measurement], str, str]] = []

    def submit(self, task: str, code: str, language: str | None = None) -> Future[Measurement]:
        future: Future[Measurement] = Future()
        with self._lock:
            self.submitted[code] += 1
            total = sum(self.submitted.values())
            self._held.append((future, task, code))
            if self.fail_after is not None and total > self.fail_after:
                raise self.error("the table is closed")
        threading.Timer(0.002, self._finish_one).start()
        return future

    def _finish_one(self) -> None:
        with self._lock:
            future, task, code = self._held.pop(self._rng.randrange(len(self._held)))
        if future.set_running_or_notify_cancel():
            future.set_result(outcome(task, code))

    def close(self) -> None:
        pass


class NumberingMutator:
    """Appends numbered assignments: so many children per parent, down to a depth of two."""

    name = "numbering"

    def __init__(self, children: int = 3) -> None:
        self.children = children

    def propose(
        self,
        parent_code: str,
        rng: random.Random,
        n: int,
        partners: Sequence[str] = (),
        known: Callable[[str], bool] = lambda code: False,
    ) -> list[Proposal]:
        if parent_code.count("number = ") == 2:
            return []
        codes = [f"{parent_code}\nnumber = {i}\n" for i in range(self.children)]
        return [Proposal(code, "number", "constants") for code in codes if not known(code)][:n]
