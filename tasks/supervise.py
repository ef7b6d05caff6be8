"""Verify many tasks at once: a process per task, limits on time, and a failed proof where a process dies or hangs."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import tasks
from tasks.report import Proof, Report
from tasks.steps import proof_steps, skipped_seeds

ROOT = Path(tasks.__file__).resolve().parents[1]
START_S = 120.0
END_S = 15.0
TAIL_CHARACTERS = 300
CUDA_JOBS = 12
TIMING_SHARE = 0.2  # of the whole run's time limit, kept for timing the seeds at the end


@dataclass(frozen=True)
class Limits:
    """Seconds for one step (a case or a seed), for one task, and for the whole run."""

    step_s: float = 120.0
    task_s: float = 600.0
    total_s: float = 86_400.0


@dataclass
class _Found:
    """What the worker processes of one task have said so far."""

    proofs: list[dict[str, Any]] = field(default_factory=list)
    rough: list[dict[str, Any]] = field(default_factory=list)

    def fail(self, label: str, why: str) -> None:
        self.proofs.append({"kind": "error", "subject": label, "passed": False, "detail": why})


class Run:
    """A verification of several tasks on one device.

    `on_step(n)` is called with the number of steps that are over, `on_report` with the report of each task when it is
    complete; both from other threads, never two at a time. Raises ValueError if the device cannot be used.
    """

    def __init__(
        self,
        names: Sequence[str],
        device: str,
        jobs: int | None = None,
        limits: Limits | None = None,
        on_step: Callable[[int], None] = lambda n: None,
        on_report: Callable[[Report], None] = lambda report: None,
    ) -> None:
        self.names, self.device, self.limits = list(names), device, limits or Limits()
        cores = os.cpu_count() or 1
        wanted = jobs or (min(CUDA_JOBS, cores) if device == "cuda" else max(1, cores // 2))
        if wanted < 1:
            raise ValueError(f"jobs is {wanted}, expected at least 1")
        self.jobs = max(1, min(wanted, len(self.names)))
        self.threads = max(1, cores // self.jobs)
        self.on_step, self.on_report = on_step, on_report
        self.environment: dict[str, str] = {}
        self.end = time.monotonic() + self.limits.total_s
        kept = TIMING_SHARE * self.limits.total_s if device == "cuda" else 0.0
        self.proofs_end = self.end - kept
        self._lock = threading.Lock()
        self._children: set[subprocess.Popen[bytes]] = set()
        self._refused = ""
        self._stopped = False

    def steps(self) -> int:
        """Return how many steps `on_step` counts; a task that cannot be loaded has none."""
        return sum(len(proof_steps(task, self.device)) for task in map(_loadable, self.names) if task is not None)

    def verify(self) -> list[Report]:
        """Prove all tasks and, on `cuda`, time the seeds that pass; the reports are in the order of the names."""
        with ThreadPoolExecutor(self.jobs) as pool:
            try:
                reports = list(pool.map(self._prove, self.names))
                if self._refused:
                    raise ValueError(self._refused)
                return self._time(reports) if self.device == "cuda" else reports
            except BaseException:
                # Before the pool waits for its threads: an interrupt must not have to wait for the workers.
                self._stop()
                raise

    def _prove(self, name: str) -> Report:
        started, found = time.monotonic(), _Found()
        if self._refused or self._stopped:
            return Report(name, self.device, (), (), 0.0)
        self._follow("proofs", [name], found, min(self.proofs_end, started + self.limits.task_s))
        report = _report(name, self.device, found, time.monotonic() - started)
        with self._lock:
            if not self._refused and not self._stopped:
                self.on_report(report)
        return report

    def _time(self, reports: list[Report]) -> list[Report]:
        """Time the seeds of all tasks in one process, after all else, so that the GPU is quiet."""
        found, names = _Found(), []
        for report in reports:
            passed = [seed for seed in _seeds(report.task) if not _failed(report, seed)]
            if passed and report.proofs:
                names.append(f"{report.task}={','.join(passed)}")
        if names:
            self._follow("times", names, found, self.end, count=False)
        for row in found.proofs:
            print(f"not timed: {row['subject']}: {row['detail']}", file=sys.stderr)
        rough: dict[str, dict[str, dict[str, float]]] = {}
        for row in found.rough:
            rough.setdefault(row["task"], {})[row["case_id"]] = row["us"]
        return [replace(report, rough_us=rough.get(report.task, {})) for report in reports]

    def _follow(self, work: str, names: Sequence[str], found: _Found, end: float, count: bool = True) -> None:
        """Have workers do all steps of the work: when one dies or hangs, the next goes on after the step it was at."""
        first = 0
        while True:
            if time.monotonic() >= end:
                found.fail(", ".join(names), "the time limit passed before all steps were done")
                return
            step = self._worker(work, names, first, found, end, count)
            if step is None:
                return
            first = step + 1

    def _worker(
        self, work: str, names: Sequence[str], first: int, found: _Found, end: float, count: bool
    ) -> int | None:
        """Listen to one worker and return the step that it ended at, None if there is nothing left to do."""
        with _Worker(self, work, names, first) as worker:
            at, label, over = first - 1, "start", True
            while True:
                limit = START_S if at < first else self.limits.step_s
                message = worker.receive(min(end, time.monotonic() + limit))
                if message is None:
                    if at >= first and over:
                        return at
                    late = "the task's time limit" if time.monotonic() >= end else f"{limit:g} s"
                    found.fail(label, worker.ending or f"no answer within {late}")
                    self._advance(count)
                    return None if at < first or self._stopped else at
                if "refused" in message:
                    self._refused = str(message["refused"])
                    return None
                if "environment" in message:
                    self.environment = message["environment"]
                elif "begins" in message:
                    at, label, over = message["begins"], message["label"], False
                elif "ends" in message:
                    over = True
                    found.proofs += message.get("proofs", [])
                    found.rough += [message] if "us" in message else []
                    self._advance(count)
                else:
                    return None

    def _advance(self, count: bool) -> None:
        if count:
            with self._lock:
                self.on_step(1)

    def _stop(self) -> None:
        self._stopped = True
        for process in list(self._children):
            _kill(process)


class _Worker:
    """One worker process, its messages, and how it ended."""

    def __init__(self, run: Run, work: str, names: Sequence[str], first: int) -> None:
        self.run = run
        ours, theirs = os.pipe()
        self.said = tempfile.TemporaryFile()  # noqa: SIM115 (closed in __exit__)
        path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        environment = {
            **os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": str(run.threads),
            "TRITON_INTERPRET": "1" if run.device == "cpu" else "0",
        }  # fmt: skip
        line = [sys.executable, "-m", "tasks.worker", str(theirs), work, run.device, str(first), *names]
        self.process = subprocess.Popen(
            line, pass_fds=[theirs], stdin=subprocess.DEVNULL, stdout=self.said, stderr=self.said, env=environment,
            start_new_session=True,
        )  # fmt: skip
        os.close(theirs)
        self.pipe, self.buffer, self.ending = ours, b"", ""
        run._children.add(self.process)

    def __enter__(self) -> _Worker:
        return self

    def __exit__(self, *_: object) -> None:
        _kill(self.process)
        self.run._children.discard(self.process)
        os.close(self.pipe)
        self.said.close()

    def receive(self, deadline: float) -> dict[str, Any] | None:
        """Return the next message; None if there is none by the deadline, or at the end, which `ending` describes."""
        with selectors.DefaultSelector() as selector:
            selector.register(self.pipe, selectors.EVENT_READ)
            while b"\n" not in self.buffer:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    return None
                part = os.read(self.pipe, 1 << 16)
                if not part:
                    self.ending = self._describe_end()
                    return None
                self.buffer += part
        line, _, self.buffer = self.buffer.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        return message

    def _describe_end(self) -> str:
        code = _end_of(self.process)
        if code is None:
            how = "closed its channel"
        else:
            how = f"ended with signal {signal.Signals(-code).name}" if code < 0 else f"ended with exit status {code}"
        self.said.seek(0)
        last = " ".join(self.said.read().decode(errors="replace").split())[-TAIL_CHARACTERS:]
        return f"the process {how}: {last}" if last else f"the process {how}"


def _kill(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        _end_of(process)


def _end_of(process: subprocess.Popen[bytes]) -> int | None:
    """The exit status; None if the driver does not let go of the process, which must not hold up the run."""
    try:
        return process.wait(END_S)
    except subprocess.TimeoutExpired:
        return None


def _loadable(name: str) -> Any:
    try:
        return tasks.get(name)
    except Exception:  # the worker meets the same error and reports it
        return None


def _seeds(name: str) -> tuple[str, ...]:
    return tasks.seed_names(name) if _loadable(name) is not None else ()


def _failed(report: Report, seed: str) -> bool:
    return any(seed in (p.subject.partition(":")[0], p.subject.rpartition(" ")[2]) for p in report.failures)


def _report(name: str, device: str, found: _Found, seconds: float) -> Report:
    task = _loadable(name)
    skipped = skipped_seeds(task, device) if task is not None else ()
    return Report(name, device, tuple(Proof(**row) for row in found.proofs), skipped, seconds)
