"""The controller: it never runs foreign code, holds every deadline, and turns one source file into one Measurement.

Per engine there is one judge (trusted, on the GPU) and one fork server; per kernel one fresh child. Children build at
the same time; one lock covers all that is timed or compared, so that nothing else of ours runs on the GPU meanwhile.
"""

from __future__ import annotations

import itertools
import math
import os
import random
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tasks
from benchmark.identity import kernel_id
from benchmark.speedup import Z95, log2_median
from harness.measure import environment
from harness.measure.protocol import Channel, DeadlinePassed, PeerGone, ProtocolError
from harness.measure.quiet import Children, DeviceMemory, GpuTurn, send, stopped
from harness.measure.result import CaseTimes, Measurement

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Limits:
    """Seconds that a stage of one kernel may take, and how precisely a case is timed.

    Sampling of a case ends when the 95% interval of the median is within `precision` of it, or at `max_samples`.
    """

    start_s: float = 60.0
    build_s: float = 120.0
    check_s: float = 30.0
    timing_s: float = 60.0
    precision: float = 0.005
    min_samples: int = 8
    max_samples: int = 32
    max_case_s: float = 1.5


class InfrastructureError(OSError):
    """The engine failed, not the kernel: the measurement may be tried again."""


class _Failed(Exception):
    def __init__(self, status: str, stage: str, error: str) -> None:
        super().__init__(error)
        self.status, self.stage, self.error = status, stage, error


# Of the GPU's memory, what stages may reserve; the rest is for the judge and the contexts. A stage holds its region
# (inputs and outputs, several times over) and what the kernel allocates.
MEMORY_SHARE = 0.6
STAGE_COPIES = 12

CASES_CHECKED_AGAIN = 4

# A claimed time is believed if the engine's own watch, over a batch of calls, does not contradict it.
AUDIT_SECONDS = 0.006
AUDIT_TRIES = 25
AUDIT_PAUSE_S = 0.02
AUDIT_CALLS = (8, 1000)
AUDIT_SLACK_NS = 6_000.0
AUDIT_FACTOR = 1.15
EVENT_AUDIT_SLACK_NS = 300_000.0


class _Process:
    """A helper process of ours with a channel to it."""

    def __init__(self, module: str, *arguments: str, env: Mapping[str, str]) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        line = [sys.executable, "-m", module, str(theirs.fileno()), *arguments]
        path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        self.process = subprocess.Popen(
            line, pass_fds=[theirs.fileno()], env={**os.environ, **env, "PYTHONPATH": path}, stdin=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        theirs.close()
        self.channel = Channel(ours)
        self.lock = threading.Lock()

    def ask(self, request: dict[str, Any], timeout: float) -> dict[str, Any]:
        with self.lock:
            try:
                self.channel.send(request)
                answer = self.channel.receive(time.monotonic() + timeout)
            except (PeerGone, DeadlinePassed, ProtocolError) as error:
                raise InfrastructureError(f"{self.process.args[2]} does not answer: {error}") from None  # type: ignore[index]
        if "error" in answer:
            raise InfrastructureError(answer["error"])
        return answer

    def close(self) -> None:
        self.channel.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


class _Child:
    """One forked child: requests with a deadline, and its end."""

    def __init__(self, forkserver: _Process, children: Children, workdir: Path) -> None:
        self.forkserver = forkserver
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with forkserver.lock:
            forkserver.channel.send({"fork": str(workdir)})
            socket.send_fds(forkserver.channel.sock, [b"!"], [theirs.fileno()])
            theirs.close()
            self.pid = forkserver.channel.receive(time.monotonic() + 60)["pid"]
        self.children = children
        children.add(self.pid)
        self.channel = Channel(ours)
        self.exit_status: int | None = None

    def receive(self, stage: str, seconds: float) -> dict[str, Any]:
        try:
            answer = self.channel.receive(time.monotonic() + seconds)
        except DeadlinePassed:
            raise _Failed("timeout", stage, f"no answer within the {stage} limit of {seconds:g} s") from None
        except PeerGone:
            raise _Failed("runtime", stage, f"the process ended during {stage}: {self.kill()}") from None
        except ProtocolError as error:
            raise _Failed("rejected", stage, f"the process wrote to the harness's channel: {error}") from None
        if "error" in answer:
            raise _Failed(_status_of(str(answer.get("kind"))), stage, str(answer["error"]))
        return answer

    def ask(self, stage: str, seconds: float, request: dict[str, Any]) -> dict[str, Any]:
        try:
            self.channel.send(request, time.monotonic() + seconds)
        except PeerGone:
            raise _Failed("runtime", stage, f"the process ended during {stage}: {self.kill()}") from None
        except DeadlinePassed:
            raise _Failed("timeout", stage, f"no answer within the {stage} limit of {seconds:g} s") from None
        return self.receive(stage, seconds)

    def kill(self) -> str:
        """End the process group and return how the child ended, in words."""
        if self.exit_status is None:
            self.children.remove(self.pid)
            send(self.pid, signal.SIGKILL)
            deadline = time.monotonic() + 30
            while self.exit_status is None:
                self.exit_status = self.forkserver.ask({"reap": self.pid}, 30)["status"]
                if self.exit_status is None:
                    if time.monotonic() > deadline:
                        raise InfrastructureError(f"child {self.pid} does not die")
                    time.sleep(0.002)
            self.channel.close()
        if self.exit_status < 0:
            return f"killed by signal {-self.exit_status} ({signal.Signals(-self.exit_status).name})"
        return f"exit status {self.exit_status}"


def _status_of(kind: str) -> str:
    return {"wrong": "incorrect", "compile": "compile", "oom": "oom"}.get(kind, "runtime")


class Engine:
    """Measures kernels on one GPU, or checks them on the CPU through Triton's interpreter (`device="cpu"`)."""

    def __init__(self, device: str = "cuda", workers: int = 8, limits: Limits | None = None) -> None:
        self.device, self.limits = device, limits or Limits()
        env = {"TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""} if device == "cpu" else {"TRITON_INTERPRET": "0"}
        env["CUDA_MODULE_LOADING"] = "LAZY"
        self.folder = Path(tempfile.mkdtemp(prefix="kernelcast-"))
        self.gpu = GpuTurn(os.path.join(tempfile.gettempdir(), f"kernelcast-{device}-{os.getuid()}.lock"))
        self.children = Children()
        self.judge_s: dict[str, float] = {}
        self._numbers = itertools.count()
        self._missing: list[str] | None = None
        self.judge = _Process("harness.measure.judge", device, env=env)
        described = self.judge.ask({"do": "describe"}, 180)
        self.memory = DeviceMemory(int(MEMORY_SHARE * described["memory_bytes"]))
        self.forkserver = _Process("harness.measure.forkserver", device, str(described["capability"]), env=env)
        try:
            self.forkserver.channel.receive(time.monotonic() + 180)
        except (PeerGone, DeadlinePassed) as error:
            raise InfrastructureError(f"the fork server does not start: {error}") from None
        self.session = environment.session_record(f"s-{secrets.token_hex(8)}", described, "strict", self._probe())
        self._workers = ThreadPoolExecutor(workers, thread_name_prefix="measure")

    def _probe(self) -> str:
        workdir = self._workdir()
        child = _Child(self.forkserver, self.children, workdir)
        try:
            missing = child.receive("start", self.limits.start_s)["missing"]
        except _Failed as failure:
            raise InfrastructureError(f"a child does not start: {failure.error}") from None
        finally:
            child.kill()
            shutil.rmtree(workdir, ignore_errors=True)
        # Children run under the user of the engine, so the sandbox is never full.
        return "partial: same user" + "".join(f"; {part}" for part in missing)

    def _workdir(self) -> Path:
        return Path(tempfile.mkdtemp(dir=self.folder))

    def submit(self, task: str, code: str, language: str | None = None) -> Future[Measurement]:
        """Queue one kernel; the future holds its Measurement, or InfrastructureError. Raises KeyError: no such task."""
        tasks.get(task)
        return self._workers.submit(self.measure, task, code)

    def abort(self) -> None:
        """Drop what is queued and end every child at once; what runs ends as if its process had died."""
        self._workers.shutdown(wait=False, cancel_futures=True)
        self.children.kill()

    def close(self) -> None:
        """Drop what is queued, wait for what runs, end the helper processes and remove the working folder."""
        self._workers.shutdown(wait=True, cancel_futures=True)
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

    def measure(self, task: str, code: str) -> Measurement:
        """Build, check and time one kernel in a child of its own."""
        run = _Run(self, task, code, next(self._numbers))
        workdir = self._workdir()
        status, stage, error = "ok", "", ""
        child = _Child(self.forkserver, self.children, workdir)
        try:
            run.through(child)
        except _Failed as failure:
            status, stage, error = failure.status, failure.stage, failure.error
        finally:
            child.kill()
            run.release()
            shutil.rmtree(workdir, ignore_errors=True)
        return Measurement(
            kernel_id=kernel_id(task, code), task=task, status=status, error=error, stage=stage,
            cases=tuple(run.cases) if status == "ok" else (), facts=run.facts, isolation="strict",
            session_id=self.session["session_id"], process=run.process, measured_at=environment.now(),
            **{name: round(seconds, 6) for name, seconds in run.seconds.items()},
        )  # fmt: skip


class _Run:
    """The course of one kernel through build, check and timing."""

    def __init__(self, engine: Engine, task: str, code: str, process: int) -> None:
        self.engine, self.task, self.code, self.process = engine, task, code, process
        self.limits = engine.limits
        self.cases: list[CaseTimes] = []
        self.facts: dict[str, Any] = {}
        self.seconds = {"compile_s": 0.0, "check_s": 0.0, "timing_s": 0.0, "wait_s": 0.0}
        self.tokens: list[int] = []

    def judge(self, request: dict[str, Any]) -> dict[str, Any]:
        answer = self.engine.judge.ask(request, 300)
        spent = self.engine.judge_s
        spent[request["do"]] = spent.get(request["do"], 0.0) + float(answer["judge_s"])
        if "token" in answer and "handle" in answer:
            self.tokens.append(answer["token"])
        return answer

    def release(self) -> None:
        """Free the judge's regions; the child must have let go of them, or be dead."""
        while self.tokens:
            self.engine.judge.ask({"do": "release", "token": self.tokens.pop()}, 300)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Hold the GPU: nothing of ours is timed or compared there meanwhile."""
        started = time.monotonic()
        with self.engine.gpu:
            self.seconds["wait_s"] += time.monotonic() - started
            yield

    def through(self, child: _Child) -> None:
        limits = self.limits
        child.receive("start", limits.start_s)
        started = time.monotonic()
        child.ask("build", limits.build_s, {"do": "load", "code": tasks.candidate_source(self.task, self.code)})
        self.seconds["compile_s"] += time.monotonic() - started
        first = self.check(child, limits.build_s + limits.check_s, None)
        if self.engine.device == "cpu":
            self.seconds["check_s"] += first
            return
        for case in tasks.get(self.task).timing_cases:
            with self.engine.memory.reserve(STAGE_COPIES * case.bytes):
                self.cases.append(self.time(child, case.case_id))
        # Once more after the timing: a kernel that changes its ways after some calls is caught here.
        self.seconds["check_s"] += self.check(child, limits.check_s, CASES_CHECKED_AGAIN)
        self.seconds["compile_s"] += first
        self.facts = child.ask("check", limits.check_s, {"do": "facts"})["facts"]

    def check(self, child: _Child, seconds: float, cases: int | None) -> float:
        with self._turn():
            opened = self.judge({"do": "open_check", "task": self.task, "cases": cases})
        spent = float(child.ask("check", seconds, {**opened, "do": "check"})["seconds"])
        with self._turn():
            wrong = self.judge({"do": "verify_check", "token": opened["token"]})["mismatch"]
        child.ask("check", seconds, {"do": "detach"})
        self.release()
        if wrong:
            raise _Failed("incorrect", "check", wrong)
        return spent

    def time(self, child: _Child, case_id: str) -> CaseTimes:
        limits = self.limits
        with self._turn():
            opened = self.judge({"do": "open_timing", "task": self.task, "case_id": case_id})
        prepared = child.ask("build", limits.build_s, {**opened, "do": "prepare"})
        self.seconds["compile_s"] += float(prepared["seconds"])
        method = str(prepared["method"])
        if method not in ("graph", "event"):
            raise _Failed("rejected", "timing", f"unknown timing method {method!r}")
        with self._turn(), self.engine.children.only(child.pid):
            started = time.monotonic()
            times = self._sample(child, case_id, opened["token"], method)
            self._audit(child, float(np.median(times.candidate_ns)), method)
            self.seconds["timing_s"] += time.monotonic() - started
        child.ask("timing", limits.timing_s, {"do": "detach"})
        self.release()
        return times

    def _sample(self, child: _Child, case_id: str, token: int, method: str) -> CaseTimes:
        limits = self.limits
        candidate: list[float] = []
        reference: list[float] = []
        candidate_order: list[int] = []
        reference_order: list[int] = []
        order, dropped, batches = itertools.count(), 0, 0
        deadline = time.monotonic() + limits.max_case_s
        request = {"token": token, "case_id": case_id, "method": method}
        look = random.SystemRandom().randrange(2)  # besides the last batch, one whose outputs are looked at
        while True:
            with stopped(child.pid):
                filled = self.judge({"do": "fill", **request})["ns"]
            answer = child.ask("timing", limits.timing_s, {"do": "batch", "first": batches, "method": method})["ns"]
            if len(answer) != len(filled):
                raise _Failed("rejected", "timing", f"{len(answer)} times for {len(filled)} calls")
            for values, times, places in (
                (filled, reference, reference_order), (answer, candidate, candidate_order)
            ):  # fmt: skip
                for value in values:
                    place = next(order)
                    if isinstance(value, float) and math.isfinite(value) and value > 0:
                        times.append(value)
                        places.append(place)
                    else:
                        dropped += 1
            enough = self._enough(candidate, reference) or time.monotonic() > deadline
            if batches == look or enough:
                wrong = self.judge({"do": "verify_timing", "first": batches, **request})["mismatch"]
                if wrong:
                    raise _Failed("incorrect", "timing", wrong)
            batches += 1
            if enough:
                break
            if dropped > limits.max_samples:
                raise _Failed("rejected", "timing", f"{dropped} samples were zero, negative or not finite")
        if not candidate or not reference:
            raise _Failed("rejected", "timing", "no valid time sample")
        return CaseTimes(
            case_id, tuple(candidate), tuple(candidate_order), tuple(reference), tuple(reference_order), method, dropped
        )

    def _enough(self, candidate: list[float], reference: list[float]) -> bool:
        size = min(len(candidate), len(reference))
        if size >= self.limits.max_samples:
            return True
        if size < self.limits.min_samples:
            return False
        return all(Z95 * log2_median(s)[1] * math.log(2) <= self.limits.precision for s in (candidate, reference))

    def _audit(self, child: _Child, claimed_ns: float, method: str) -> None:
        """Time a run of calls from outside; calls cannot take much longer than they claim, cold against warm."""
        count = int(min(max(AUDIT_SECONDS * 1e9 / claimed_ns, AUDIT_CALLS[0]), AUDIT_CALLS[1]))
        slack = AUDIT_SLACK_NS if method == "graph" else EVENT_AUDIT_SLACK_NS
        per_call = math.inf
        for attempt in range(AUDIT_TRIES):
            # The driver setting up or tearing down another child's context holds up launches for a while. That only
            # ever makes a batch longer, so one good batch is enough.
            time.sleep(AUDIT_PAUSE_S if attempt else 0)
            started = time.monotonic()
            child.ask("timing", self.limits.timing_s, {"do": "audit", "count": count, "method": method})
            per_call = min(per_call, (time.monotonic() - started) * 1e9 / count)
            if per_call <= AUDIT_FACTOR * claimed_ns + slack:
                return
        text = f"claimed {claimed_ns / 1e3:.2f} us a call, but {count} calls took {per_call / 1e3:.2f} us each"
        raise _Failed("rejected", "timing", text)
