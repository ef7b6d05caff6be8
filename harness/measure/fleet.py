"""Several measuring engines behind one call: each kernel goes to the engine with the least to do."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, Protocol

from harness.measure.engine import Engine
from harness.measure.limits import InfrastructureError, Limits
from harness.measure.result import Measurement


class Member(Protocol):
    """An engine, wherever it runs."""

    session: dict[str, Any]

    def submit(
        self, task: str, code: str, language: str | None = None, isolation: str | None = None
    ) -> Future[Measurement]: ...

    def session_rows(self) -> list[dict[str, Any]]: ...

    def abort(self) -> None: ...

    def close(self) -> None: ...


class Fleet:
    """A backend of several members. A kernel whose member fails is given to another one, once."""

    def __init__(self, members: Sequence[Member]) -> None:
        if not members:
            raise ValueError("a fleet needs at least one member")
        self.members = list(members)
        self._load = [0] * len(members)
        self._lost: set[int] = set()
        self._lock = threading.Lock()

    @property
    def session(self) -> dict[str, Any]:
        """The session of the first member; every measurement names its own."""
        return self.members[0].session

    def session_rows(self) -> list[dict[str, Any]]:
        """Return the `sessions` rows of all members."""
        return [row for member in self.members for row in member.session_rows()]

    def submit(
        self, task: str, code: str, language: str | None = None, isolation: str | None = None
    ) -> Future[Measurement]:
        """Queue one kernel; see `Engine.submit`."""
        promised: Future[Measurement] = Future()
        self._give((task, code, language, isolation), promised, retry=True)
        return promised

    def _give(self, job: tuple[str, str, str | None, str | None], promised: Future[Measurement], retry: bool) -> None:
        with self._lock:
            able = [n for n in range(len(self.members)) if n not in self._lost] or list(range(len(self.members)))
            number = min(able, key=lambda n: self._load[n])
            self._load[number] += 1
        try:
            future = self.members[number].submit(*job)
        except BaseException:
            self._done(number)
            raise
        future.add_done_callback(partial(self._settle, job, promised, number, retry))

    def _settle(self, job: Any, promised: Future[Measurement], number: int, retry: bool, future: Any) -> None:
        self._done(number)
        error = InfrastructureError("stopped before it was done") if future.cancelled() else future.exception()
        if isinstance(error, InfrastructureError) and retry and not future.cancelled() and len(self.members) > 1:
            with self._lock:
                self._lost.add(number)
            self._give(job, promised, retry=False)
        elif error is not None:
            promised.set_exception(error)
        else:
            with self._lock:
                self._lost.discard(number)
            promised.set_result(future.result())

    def _done(self, number: int) -> None:
        with self._lock:
            self._load[number] -= 1

    def abort(self) -> None:
        """Drop what is queued and end what runs."""
        for member in self.members:
            member.abort()

    def close(self) -> None:
        """Wait for what runs and close every member."""
        with contextlib.ExitStack() as stack:
            for member in self.members:
                stack.callback(member.close)

    def __enter__(self) -> Fleet:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.abort()
        self.close()


def local_fleet(gpus: Sequence[str], workers: int, limits: Limits, isolation: str) -> Fleet:
    """Start one engine for each GPU of this machine, at the same time; `workers` builds are shared between them."""
    each = max(1, workers // len(gpus))
    with ThreadPoolExecutor(len(gpus)) as pool:
        started = [pool.submit(Engine, "cuda", each, limits, isolation, gpu) for gpu in gpus]
    engines = [future.result() for future in started if future.exception() is None]
    failed = [future.exception() for future in started if future.exception() is not None]
    if failed:
        for engine in engines:
            engine.close()
        raise failed[0]  # type: ignore[misc]
    return Fleet(engines)
