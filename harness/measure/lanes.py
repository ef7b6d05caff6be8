"""`shared` isolation: a lane is one child that measures many kernels of our own mutator, one after the other.

Between two kernels the child is put back as it was and verified (see `restore`). At intervals, and when nothing more is
queued, its canary, the first kernel that it measured, is measured again: only if the time has not moved are the
results since the last canary given out. At any anomaly the child is replaced, and what it may have touched is measured
in `strict`.
"""

from __future__ import annotations

import math
import queue
import shutil
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.measure.course import JUDGE_S, Course
from harness.measure.limits import Failed, InfrastructureError
from harness.measure.processes import Child
from harness.measure.result import Measurement

if TYPE_CHECKING:
    from harness.measure.builder import Built
    from harness.measure.engine import Engine

LANES = 4
WAIT_S = 0.05
CANARY_EVERY = 24
KERNELS_PER_CHILD = 240
CANARY_LOG_RATIO = math.log(1.03)
# How a kernel can end without its process being in doubt; every other end is looked at again in `strict`.
TRUSTED = ("ok", "compile", "incorrect")


@dataclass
class Job:
    """One kernel on its way through a lane."""

    task: str
    code: str
    checked: Sequence[str]  # ids of its checking cases
    built: Built | Failed
    future: Future[Measurement]


class Lanes:
    """The lanes of one engine, fed from one queue."""

    def __init__(self, engine: Engine, count: int = LANES) -> None:
        self.jobs: queue.Queue[Job | None] = queue.Queue()
        self.count = count
        self.again: queue.Queue[Job | None] = queue.Queue()
        self.counts = {"shared": 0, "canaries": 0, "children": 0, "strict": 0}
        self.anomalies: list[str] = []
        self._coming, self._lock = 0, threading.Lock()
        self._lanes = [Lane(engine, self, number) for number in range(count)]
        self._strict = threading.Thread(target=self._confirm, args=(engine,), daemon=True)
        self._strict.start()

    def expect(self, change: int) -> None:
        """Note that a kernel is being built and will come (1), or that it came or will not (-1)."""
        with self._lock:
            self._coming += change

    @property
    def idle(self) -> bool:
        """Whether no kernel waits or is being built."""
        return self._coming == 0 and self.jobs.empty()

    def put(
        self, task: str, code: str, checked: Sequence[str], built: Built | Failed, future: Future[Measurement]
    ) -> None:
        """Queue a kernel that is built."""
        self.jobs.put(Job(task, code, checked, built, future))

    def _confirm(self, engine: Engine) -> None:
        """Measure in `strict` what a lane could not vouch for."""
        while (job := self.again.get()) is not None:
            self.counts["strict"] += 1
            if not isinstance(job.built, Failed):
                job.built.discard()  # unless a child has it already
            settle(job.future, lambda job=job: engine.measure(job.task, job.code))

    def abort(self) -> None:
        """Drop what is queued."""
        while True:
            try:
                job = self.jobs.get_nowait()
            except queue.Empty:
                return
            if job is not None:
                job.future.set_exception(InfrastructureError("stopped before it was done"))

    def close(self) -> None:
        """Finish what is queued and end the lanes."""
        for _ in self._lanes:
            self.jobs.put(None)
        for lane in self._lanes:
            lane.thread.join()
        self.again.put(None)
        self._strict.join()


def settle(future: Future[Measurement], work: Any) -> None:
    """Give the future what `work` returns or raises."""
    try:
        future.set_result(work())
    except BaseException as error:
        future.set_exception(error)


class Lane:
    """One thread with one child at a time."""

    def __init__(self, engine: Engine, lanes: Lanes, number: int) -> None:
        self.engine, self.lanes, self.holder = engine, lanes, f"lane-{number}"
        self.child: Child | None = None
        self.measured = 0
        self.canary: tuple[Job, str, dict[str, float]] | None = None
        self.held: list[tuple[Job, Measurement]] = []
        self.thread = threading.Thread(target=self._run, name=self.holder, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        while True:
            try:
                job = self.lanes.jobs.get(timeout=WAIT_S if self.held else None)
            except queue.Empty:
                if self.lanes.idle:
                    self._vouch()
                continue
            if job is None:
                self._vouch()
                self._replace()
                return
            try:
                self._one(job)
            except InfrastructureError:
                self._doubt(job)
            except Exception as error:
                job.future.set_exception(error)
                self._doubt()
            if len(self.held) >= CANARY_EVERY:
                self._vouch()
            if self.measured >= KERNELS_PER_CHILD:
                self._vouch()
                self._replace()

    def _one(self, job: Job) -> None:
        """Measure one kernel; its result is held until the canary vouches for it."""
        if isinstance(job.built, Failed):
            course = self._course(job)
            job.future.set_result(self.engine.record(course, job.built, "shared"))
            return
        result, folder = self._measure(job, job.built)
        if result is None or result.status not in TRUSTED:
            self._doubt(job)
            return
        self.lanes.counts["shared"] += 1
        if self.canary is None and result.status == "ok":
            self.canary = job, folder, medians(result)
        elif self.child is not None and folder:
            shutil.rmtree(self.child.workdir / folder, ignore_errors=True)
        self.held.append((job, result))

    def _measure(self, job: Job, built: Built | None, folder: str = "") -> tuple[Measurement | None, str]:
        """Return the result, None if the process could not be put back afterwards, and the folder of what was built.

        `built` is given to the child first; without it, `folder` is where an earlier kernel's lies.
        """
        engine = self.engine
        if self.child is None:
            self.child, self.measured = engine.start_runner("shared"), 0
            if engine.device == "cuda":
                self._course(job).audit.idle(self.child)
            self.child.becomes_foreign()
            self.lanes.counts["children"] += 1
        self.measured += 1
        course, failure = self._course(job), None
        if built is not None:
            folder = engine.builder.give(self.child, built, f"built-{self.measured}")
        try:
            with engine.company.among_others():
                course.through(self.child, folder)
        except Failed as error:
            failure = error
        evict = course.judge({"do": "end"})["evict"]
        result = engine.record(course, failure, "shared", built.seconds if built is not None else 0.0)
        if self.child.exit_status is not None:
            return None, folder
        try:
            answer = self.child.ask("check", engine.limits.check_s, {"do": "reset", "evict": evict})
        except Failed as error:
            self.lanes.anomalies.append(error.error)
            return None, folder
        engine.judge.ask({"do": "free", "holder": self.holder}, JUDGE_S)
        self.lanes.anomalies += answer["anomalies"]
        return None if answer["anomalies"] else result, folder

    def _course(self, job: Job) -> Course:
        return Course(self.engine, job.task, job.code, job.checked, next(self.engine.numbers), self.holder)

    def _vouch(self) -> None:
        """Measure the canary again and give out what was held; in doubt, all of it is measured in `strict`."""
        if self.canary is not None and any(result.status == "ok" for _, result in self.held):
            job, folder, before = self.canary
            self.lanes.counts["canaries"] += 1
            try:
                result, _ = self._measure(job, None, folder)
            except InfrastructureError:
                result = None
            if result is None or result.status != "ok" or moved(before, medians(result)):
                self._doubt()
                return
        for job, result in self.held:
            job.future.set_result(result)
        self.held = []

    def _doubt(self, *more: Job) -> None:
        """Replace the child, and have the kernels that were held, and `more`, measured in `strict`."""
        jobs = [job for job, _ in self.held] + list(more)
        self.held = []
        self._replace()
        for job in jobs:
            self.lanes.again.put(job)

    def _replace(self) -> None:
        """End the child; a new one is started when it is needed. The lane goes on whatever has died."""
        child, self.child, self.canary = self.child, None, None
        if child is None:
            return
        try:
            child.kill()
            self.engine.judge.ask({"do": "free", "holder": self.holder, "gone": True}, JUDGE_S)
        except InfrastructureError as error:
            self.lanes.anomalies.append(str(error))
            self._revive()

    def _revive(self) -> None:
        try:
            self.engine.revive()
        except InfrastructureError as error:  # those who are measured next are told
            self.lanes.anomalies.append(str(error))


def medians(result: Measurement) -> dict[str, float]:
    """Return the median time of each case in nanoseconds."""
    return {case.case_id: float(np.median(case.candidate_ns)) for case in result.cases}


def moved(before: dict[str, float], after: dict[str, float]) -> bool:
    """Return whether any case's time differs by more than the canary may."""
    return any(abs(math.log(after[case] / before[case])) > CANARY_LOG_RATIO for case in before)
