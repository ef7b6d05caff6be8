"""Measuring a list of kernels on a backend: every result is logged as it comes, whatever happens to the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait

from harness.measure import Backend, Measurement
from harness.search.node import Node

POLL_SECONDS = 0.25
CONFIRMATION = "confirmation"  # the role that is measured in `strict`, whatever the backend's own isolation
Job = tuple[Node, str]  # a node and its role: candidate, anchor or confirmation
Emit = Callable[[Node, str, Measurement], None]


class Measuring:
    """What is under way on the backend for one search."""

    def __init__(self, backend: Backend, task: str, stop: Callable[[], bool], emit: Emit) -> None:
        self._backend, self._task, self._stop, self._emit = backend, task, stop, emit
        self._pending: dict[Future[Measurement], Job] = {}

    def run(self, jobs: Sequence[Job]) -> bool:
        """Measure and log; False if the search was stopped before all were done.

        An error of the backend itself is raised once everything else that was under way has been logged.
        """
        failure: BaseException | None = None
        for job in jobs:
            if self._stop():
                break
            try:
                self._pending[self._submit(*job)] = job
            except Exception as refused:
                failure = refused
                break
        complete = failure is None and len(self._pending) == len(jobs)
        if failure:
            self._withdraw()
        while self._pending:
            done, _ = wait(self._pending, timeout=POLL_SECONDS, return_when=FIRST_COMPLETED)
            for future in done:
                node, role = self._pending.pop(future)
                if error := future.exception():
                    failure = failure or error
                else:
                    self._emit(node, role, future.result())
            if failure or self._stop():
                complete &= not self._withdraw()
        if failure:
            raise failure
        return complete

    def _submit(self, node: Node, role: str) -> Future[Measurement]:
        if role == CONFIRMATION:
            return self._backend.submit(self._task, node.code, node.language, isolation="strict")
        return self._backend.submit(self._task, node.code, node.language)

    def _withdraw(self) -> bool:
        """Take back what the backend has not begun, and return whether there was any."""
        withdrawn = [future for future in self._pending if future.cancel()]
        for future in withdrawn:
            del self._pending[future]
        return bool(withdrawn)

    def cancel(self) -> None:
        """Take back what the backend has not begun and forget the rest."""
        self._withdraw()
        self._pending.clear()
