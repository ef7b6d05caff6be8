"""The controller: it never runs foreign code, holds every deadline, and turns one source file into one Measurement.

An engine has one judge (trusted, on the GPU) and one fork server. A kernel is first built in a child without a device,
many at once; then a child with a device loads what was built, is checked and timed. `strict` gives every kernel such a
child of its own; `shared` lanes (see `lanes`) measure one kernel after another in theirs. One lock covers all that is
timed or compared, so that nothing else of ours runs on the GPU meanwhile.
"""

from __future__ import annotations

import itertools
import os
import secrets
import shutil
import tempfile
import threading
import time
from collections import Counter, deque
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

import tasks
from benchmark.identity import kernel_id
from harness.measure import environment
from harness.measure.audit import OWN_CODE, OWN_TASK
from harness.measure.builder import Builder
from harness.measure.course import Course
from harness.measure.limits import Contradicted, Disturbed, Failed, InfrastructureError, Limits
from harness.measure.processes import START_S, Child, Helper, Nursery
from harness.measure.protocol import DeadlinePassed, PeerGone
from harness.measure.quiet import Children, Company, DeviceMemory, GpuTurn
from harness.measure.result import Measurement
from harness.measure.users import Users

# Of the GPU's memory, what stages may reserve; the rest is for the judge and the contexts.
MEMORY_SHARE = 0.3
CONTEXTS = 9
REMEMBERED, QUICK = 256, 0.25
DISTURBED_PAUSES_S = (5.0, 20.0, 60.0)  # a kernel that does not end may keep the GPU busy until its deadline


class Engine:
    """Measures kernels on one GPU, or checks them on the CPU through Triton's interpreter (`device="cpu"`).

    `workers` kernels are built at once. `isolation` is the default of `submit`.
    """

    def __init__(
        self, device: str = "cuda", workers: int = 8, limits: Limits | None = None, isolation: str = "strict",
        gpu: str | None = None,
    ) -> None:  # fmt: skip
        self.device, self.limits, self.isolation = device, limits or Limits(), isolation
        # Line information holds the time of the source file: the same kernel would have another cubin each time.
        self._env = {
            "CUDA_MODULE_LOADING": "LAZY", "TRITON_INTERPRET": "1" if device == "cpu" else "0",
            "TRITON_DISABLE_LINE_INFO": "1",
        }  # fmt: skip
        if device == "cpu":
            self._env["CUDA_VISIBLE_DEVICES"] = ""
        elif gpu is not None:
            self._env["CUDA_VISIBLE_DEVICES"] = gpu
        self.folder = Path(tempfile.mkdtemp(prefix="kernelcast-"))
        self.folder.chmod(0o711)  # children reach their own folders in it, and see no others
        self.users = Users(device, self.folder)
        self.regions = self.folder / "regions"
        self.regions.mkdir(0o700)
        number = gpu or os.environ.get("CUDA_VISIBLE_DEVICES") or "0"
        lock = f"kernelcast-{device}-{number}-{os.getuid()}.lock"
        self.gpu = GpuTurn(os.path.join(tempfile.gettempdir(), lock))
        self.children = Children()
        self.company = Company()
        self.judge_s: dict[str, float] = {}
        # Of each audit, ns per call: claimed, the engine's watch, its bound; then attempts that failed, calls.
        self.audits: list[tuple[float, float, float, int, int]] = []
        self.messages: deque[float] = deque(maxlen=REMEMBERED)  # ns of the messages of an audit
        self.overhead_ns = 0.0  # of an audit, beyond its messages and its calls
        self.numbers = itertools.count()
        self._revival = threading.Lock()
        self._aborted = False
        self._stopping = threading.Event()
        self.judge, self.described = self._start_judge()
        self.memory = DeviceMemory(int(MEMORY_SHARE * self.described["memory_bytes"]))
        self.forkserver = self._start_forkserver()
        sandbox = self._probe()
        levels = ("strict",) if isolation == "strict" else (isolation, "strict")
        self.sessions = {
            level: environment.session_record(
                f"s-{secrets.token_hex(8)}", self.described, level, sandbox, self.limits.method, gpu
            )
            for level in levels
        }
        self.builder = Builder(self, workers)
        contexts = CONTEXTS if device == "cuda" else workers
        self.nursery = Nursery(self.start_runner, contexts)
        self._threads = ThreadPoolExecutor(workers + contexts, thread_name_prefix="measure")
        self._lanes: Any = None
        try:
            if device == "cuda":
                self._learn()
        except BaseException:
            self.abort()
            self.close()
            raise
        if isolation == "shared":
            from harness.measure.lanes import Lanes

            self._lanes = Lanes(self)

    @property
    def session(self) -> dict[str, Any]:
        """The `sessions` row of the engine's own isolation level."""
        return self.sessions[self.isolation]

    @property
    def message_ns(self) -> float:
        """Nanoseconds of an audit that are not in its calls, as busy as the machine is now."""
        return self.overhead_ns + float(np.quantile(self.messages, QUICK))

    @property
    def lane_counts(self) -> dict[str, int]:
        """How many kernels the lanes measured, children they used, canaries, and kernels given to `strict`."""
        return dict(self._lanes.counts) if self._lanes is not None else {}

    @property
    def lane_anomalies(self) -> dict[str, int]:
        """Why lanes replaced their children, and how often."""
        return dict(Counter(self._lanes.anomalies)) if self._lanes is not None else {}

    def session_rows(self) -> list[dict[str, Any]]:
        """Return the `sessions` rows that measurements of this engine can name."""
        return list(self.sessions.values())

    def _start_judge(self) -> tuple[Helper, dict[str, Any]]:
        judge = Helper("harness.measure.judge", self.device, str(self.regions), env=self._env)
        with self.gpu:
            return judge, judge.ask({"do": "describe", "method": self.limits.method}, START_S)

    def _start_forkserver(self) -> Helper:
        capability = str(self.described["capability"])
        forkserver = Helper("harness.measure.forkserver", self.device, capability, env=self._env)
        try:
            forkserver.channel.receive(time.monotonic() + START_S)
        except (PeerGone, DeadlinePassed) as error:
            raise InfrastructureError(f"the fork server does not start: {error or type(error).__name__}") from None
        return forkserver

    def _probe(self) -> str:
        """Start a runner and a builder, and say what of their confinement could not be enforced."""
        missing: list[str] = []
        for role in ("runner", "builder") if self.device == "cuda" else ("runner",):
            child = self.start_child(role)
            try:
                missing += child.receive("start", self.limits.start_s)["missing"]
            except Failed as failure:
                raise InfrastructureError(f"a {role} does not start: {failure.error}") from None
            finally:
                child.kill()
        self.builders_have_no_device = not any(part.startswith("files") for part in missing)
        if self.users.why_not:
            missing.append(f"user: {self.users.why_not}")
        return f"partial: {'; '.join(dict.fromkeys(missing))}" if missing else "full"

    def _learn(self) -> None:
        """Learn from a kernel of ours what an audit takes beyond its messages and its calls."""
        course, child = Course(self, OWN_TASK, OWN_CODE, (), next(self.numbers)), self.nursery.take()
        try:
            overhead = course.audit.learn(child)
        except Failed as failure:
            raise InfrastructureError(f"the engine's own kernel ended as {failure.status}: {failure.error}") from None
        finally:
            self.nursery.give_back(child)
            course.judge({"do": "end"})
        self.overhead_ns = overhead - float(np.quantile(self.messages, QUICK))

    def start_child(self, role: str) -> Child:
        """Fork a child that enters its sandbox; it reports when it has."""
        return Child(self.forkserver, self.children, self.users, self.folder, role)

    def start_runner(self, role: str = "runner") -> Child:
        """Start a child with a device; its context stands when this returns. Raises InfrastructureError."""
        child = self.start_child(role)
        try:
            child.context_s = float(child.receive("start", self.limits.start_s)["context_s"])
        except Failed as failure:
            child.kill()
            raise InfrastructureError(f"a {role} does not start: {failure.error}") from None
        return child

    def submit(
        self, task: str, code: str, language: str | None = None, isolation: str | None = None
    ) -> Future[Measurement]:
        """Queue one kernel; the future holds its Measurement, or InfrastructureError.

        Raises KeyError: no such task; ValueError: the engine has no lanes for `shared`.
        """
        tasks.get(task)
        level = isolation or self.isolation
        if level not in self.sessions:
            raise ValueError(f"isolation '{level}' is not open here; open the backend with isolation='{level}'")
        if level == "shared":
            future: Future[Measurement] = Future()
            future.set_running_or_notify_cancel()  # nobody but a lane settles it
            self._lanes.expect(1)
            fed = self._threads.submit(self._feed, task, code, future)
            fed.add_done_callback(lambda done: self._unfed(future) if done.cancelled() else None)
            return future
        return self._threads.submit(self.measure, task, code)

    def _feed(self, task: str, code: str, future: Future[Measurement]) -> None:
        """Build a kernel and hand it to the lanes."""
        try:
            checked = self.builder.draw_cases(task)
            self._lanes.put(task, code, checked, self.builder.build(task, code, checked), future)
        except BaseException as error:
            future.set_exception(error)
        finally:
            self._lanes.expect(-1)

    def _unfed(self, future: Future[Measurement]) -> None:
        self._lanes.expect(-1)
        future.set_exception(InfrastructureError("stopped before it was done"))

    def measure(self, task: str, code: str) -> Measurement:
        """Build, check and time one kernel in a child of its own.

        Once more if a process of ours died meanwhile. A kernel whose claim is contradicted is measured again with no
        other kernel on the GPU, and rejected if it is contradicted there. So is one beside which the GPU is never
        quiet, for that may be the kernel's own doing.
        """
        pauses, contradicted = list(DISTURBED_PAUSES_S), False
        while True:
            try:
                return self._whatever_dies(task, code, alone=contradicted)
            except Disturbed as error:
                again = not contradicted if isinstance(error, Contradicted) else bool(pauses)
                if not again:
                    course = Course(self, task, code, (), next(self.numbers))
                    return self.record(course, Failed("rejected", "timing", str(error)), "strict")
                pause = 0.0 if isinstance(error, Contradicted) else pauses.pop(0)
                contradicted |= isinstance(error, Contradicted)
                if self._stopping.wait(pause):
                    raise

    def _whatever_dies(self, task: str, code: str, alone: bool) -> Measurement:
        try:
            return self._measure(task, code, alone)
        except Disturbed:
            raise
        except InfrastructureError:
            if self._aborted:
                raise
            self.revive()
            return self._measure(task, code, alone)

    def _measure(self, task: str, code: str, alone: bool) -> Measurement:
        checked = self.builder.draw_cases(task)
        course, failure = Course(self, task, code, checked, next(self.numbers)), None
        built = self.builder.build(task, code, checked)
        if isinstance(built, Failed):
            return self.record(course, built, "strict")
        child = self.nursery.take()
        try:
            folder = self.builder.give(child, built, "built")
            with self.company.alone() if alone else self.company.among_others():
                child.becomes_foreign()
                course.through(child, folder)
        except Failed as error:
            failure = error
        finally:
            built.discard()
            self.nursery.give_back(child)
            course.judge({"do": "end"})
        if failure is not None and self._aborted:
            raise InfrastructureError("stopped before it was done")
        return self.record(course, failure, "strict", built.seconds)

    def record(self, course: Course, failure: Failed | None, isolation: str, built_s: float = 0.0) -> Measurement:
        """Return the Measurement of a course that has ended."""
        seconds = {name: round(value, 6) for name, value in course.seconds.items()}
        seconds["compile_s"] = round(seconds["compile_s"] + built_s, 6)
        return Measurement(
            kernel_id=kernel_id(course.task, course.code), task=course.task, status=failure.status if failure else "ok",
            error=failure.error if failure else "", stage=failure.stage if failure else "",
            cases=() if failure else tuple(course.cases), facts=course.facts, isolation=isolation,
            session_id=self.sessions[isolation]["session_id"], process=course.number, measured_at=environment.now(),
            **seconds,
        )  # fmt: skip

    def lend(self, handle: str, child: Child) -> str:
        """Return the handle under which the child reaches a region: on the CPU, a link in its own folder."""
        if self.device == "cuda":
            return handle
        link = child.workdir / Path(handle).name
        if not link.exists():
            os.link(handle, link)
        return str(link)

    def revive(self) -> None:
        """Restart the judge or the fork server if it has died. Raises InfrastructureError."""
        with self._revival:
            if not self.judge.alive:
                self.judge, _ = self._start_judge()
            if not self.forkserver.alive:
                self.forkserver = self._start_forkserver()
                self.builder.forget_stubs()  # they went with it

    def abort(self) -> None:
        """Drop what is queued and end every child at once; what runs ends as if its process had died."""
        self._aborted = True
        self._stopping.set()
        self._threads.shutdown(wait=False, cancel_futures=True)
        if self._lanes is not None:
            self._lanes.abort()
        self.children.kill()

    def close(self) -> None:
        """Drop what is queued, wait for what runs, end the helper processes and remove the working folder."""
        self._threads.shutdown(wait=True, cancel_futures=True)
        if self._lanes is not None:
            self._lanes.close()
        self.nursery.close()
        self.forkserver.close()
        self.judge.close()
        self.gpu.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.abort()
        self.close()
