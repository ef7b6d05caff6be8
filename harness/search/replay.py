"""The backend that measures nothing: it answers from a recording and charges what the recorded measurement took."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import benchmark
from benchmark.identity import kernel_id
from harness.measure.result import Measurement
from harness.search.config import Problem
from harness.search.recording import Recording


class NotRecorded(KeyError):
    """A kernel was asked for that the recording does not have."""

    def __str__(self) -> str:
        return str(self.args[0])


class ReplayBackend:
    """Answers at once; `clock_s` is the time that the recorded compilation, check and timing took, repeats free."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.clock_s = 0.0
        self._charged: set[str] = set()
        self._lock = threading.Lock()
        self.session: dict[str, Any] = {
            "session_id": f"replay-{recording.digest}", "role": "replay", "isolation": "replay",
            "sandbox": "none: nothing runs", "timing_method": "replay", "gpu": recording.gpu,
            "harness_version": benchmark.__version__,
        }  # fmt: skip

    def peek(self, task: str, code: str) -> Measurement:
        """Return the recorded measurement without charging for it. Raises NotRecorded if there is none."""
        key = kernel_id(task, code)
        found = self.recording.measurements.get(key)
        if found is None:
            raise NotRecorded(f"kernel {key} of task '{task}' is not in the recording; replay only recorded children")
        return replace(found, session_id=self.session["session_id"])

    def submit(
        self, task: str, code: str, language: str | None = None, isolation: str | None = None
    ) -> Future[Measurement]:
        """Return the recorded measurement, of whatever level, as a finished future. Raises NotRecorded without one."""
        found = self.peek(task, code)
        with self._lock:
            if found.kernel_id in self._charged:
                found = replace(found, compile_s=0.0, check_s=0.0, timing_s=0.0, wait_s=0.0)
            else:
                self._charged.add(found.kernel_id)
                self.clock_s += found.compile_s + found.check_s + found.timing_s
        future: Future[Measurement] = Future()
        future.set_result(found)
        return future

    def close(self) -> None:
        """Nothing to release."""

    def __enter__(self) -> ReplayBackend:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def recorded_problem(recording: Recording) -> Problem:
    """Return the problem of a recording: the task and the seeds as they were, not as this installation has them.

    Its `seed_code` raises KeyError for a seed that was not recorded.
    """
    return Problem(recording.description, recording.seeds.__getitem__)
