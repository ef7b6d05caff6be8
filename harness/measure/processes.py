"""The processes of an engine as its controller sees them: trusted helpers, forked children, and children in waiting."""

from __future__ import annotations

import os
import queue
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from harness.measure.limits import Failed, InfrastructureError
from harness.measure.protocol import Channel, DeadlinePassed, PeerGone, ProtocolError
from harness.measure.quiet import Children, send
from harness.measure.users import Users

ROOT = Path(__file__).resolve().parents[2]
START_S = 180.0
REAP_S = 30.0
PAUSE_S = 0.05  # how often a child that is stopped while another is timed is looked at
ERROR_CHARACTERS = 8000


class Helper:
    """A process of ours with a channel to it: the judge, or the fork server."""

    def __init__(self, module: str, *arguments: str, env: Mapping[str, str]) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        line = [sys.executable, "-m", module, str(theirs.fileno()), *arguments]
        path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        self.module = module
        self.process = subprocess.Popen(
            line, pass_fds=[theirs.fileno()], env={**os.environ, **env, "PYTHONPATH": path}, stdin=subprocess.DEVNULL,
            stdout=2, start_new_session=True,
        )  # fmt: skip
        theirs.close()
        self.channel = Channel(ours)
        self.lock = threading.Lock()

    def ask(self, request: dict[str, Any], timeout: float) -> dict[str, Any]:
        """Return the answer to one request. Raises InfrastructureError: none in time, or an error for an answer."""
        with self.lock:
            try:
                self.channel.send(request)
                answer = self.channel.receive(time.monotonic() + timeout)
            except (PeerGone, DeadlinePassed, ProtocolError) as error:
                self.process.kill()  # what it would still answer belongs to nobody
                raise InfrastructureError(f"{self.module} does not answer: {error or type(error).__name__}") from None
        if "error" in answer:
            raise InfrastructureError(answer["error"])
        return answer

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def close(self) -> None:
        self.channel.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


class Child:
    """One forked child with its private folder: requests with a deadline, and its end.

    `role` is `runner` (has the device) or `builder` (has none). A runner is ours alone until `load` gives it foreign
    code; from then on it is stopped while another one is timed.
    """

    def __init__(
        self, forkserver: Helper, children: Children, users: Users, parent: Path, role: str = "runner"
    ) -> None:
        self.forkserver, self.children, self.role = forkserver, children, role
        self.workdir = Path(tempfile.mkdtemp(prefix=f"{role}-", dir=parent))
        users.give(self.workdir)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with forkserver.lock:
                forkserver.channel.send({"fork": str(self.workdir), "role": role})
                socket.send_fds(forkserver.channel.sock, [b"!"], [theirs.fileno()])
                theirs.close()
                self.pid = forkserver.channel.receive(time.monotonic() + START_S)["pid"]
        except (OSError, ProtocolError) as error:
            forkserver.process.kill()
            ours.close()
            shutil.rmtree(self.workdir, ignore_errors=True)
            raise InfrastructureError(f"the fork server does not answer: {error}") from None
        children.add(self.pid)
        self.channel = Channel(ours)
        self.exit_status: int | None = None
        self.context_s = 0.0

    def receive(self, stage: str, seconds: float) -> dict[str, Any]:
        """Return the next message of the child. Raises Failed with the status that its absence or error means.

        The time for which the child is stopped, because another one is timed, does not count.
        """
        try:
            answer = self._next(seconds)
        except DeadlinePassed:
            raise Failed("timeout", stage, f"no answer within the {stage} limit of {seconds:g} s") from None
        except PeerGone:
            raise Failed("runtime", stage, f"the process ended during {stage}: {self.kill()}") from None
        except ProtocolError as error:
            raise Failed("rejected", stage, f"the process wrote to the harness's channel: {error}") from None
        if "error" in answer:
            raise Failed(_status_of(str(answer.get("kind"))), stage, printable(answer["error"]))
        return answer

    def _next(self, seconds: float) -> dict[str, Any]:
        deadline, (before, _) = time.monotonic() + seconds, self.children.paused(self.pid)
        while True:
            paused, now = self.children.paused(self.pid)
            left = deadline + paused - before - time.monotonic()
            try:
                return self.channel.receive(time.monotonic() + (max(left, PAUSE_S) if now else left))
            except DeadlinePassed:
                later, now = self.children.paused(self.pid)
                if later == paused and not now:
                    raise

    def ask(self, stage: str, seconds: float, request: dict[str, Any]) -> dict[str, Any]:
        """Send a request and return its answer, both within `seconds`; see `receive`."""
        started = time.monotonic()
        try:
            self.channel.send(request, time.monotonic() + seconds)
        except PeerGone:
            raise Failed("runtime", stage, f"the process ended during {stage}: {self.kill()}") from None
        except DeadlinePassed:
            raise Failed("timeout", stage, f"no answer within the {stage} limit of {seconds:g} s") from None
        answer = self.receive(stage, seconds)
        self.children.answered(request["do"], time.monotonic() - started)
        return answer

    def becomes_foreign(self) -> None:
        """From now on this process runs foreign code, and is stopped while another is timed."""
        self.children.foreign(self.pid)

    def kill(self) -> str:
        """End the process group, remove the folder, and return how the child ended, in words."""
        if self.exit_status is None:
            self.children.remove(self.pid)
            send(self.pid, signal.SIGKILL)
            self.channel.close()
            deadline = time.monotonic() + REAP_S
            if not self.forkserver.alive:  # its children end with it
                self.exit_status = -signal.SIGKILL
            while self.exit_status is None:
                self.exit_status = self.forkserver.ask({"reap": self.pid}, REAP_S)["status"]
                if self.exit_status is None:
                    if time.monotonic() > deadline:
                        raise InfrastructureError(f"child {self.pid} does not die")
                    time.sleep(0.002)
            shutil.rmtree(self.workdir, ignore_errors=True)
        if self.exit_status < 0:
            return f"killed by signal {-self.exit_status} ({signal.Signals(-self.exit_status).name})"
        return f"exit status {self.exit_status}"


def number(answer: Mapping[str, Any], name: str, stage: str, most: float = 1e9) -> float:
    """Return a number of a child's answer, from 0 to below `most`. Raises Failed if there is none."""
    value = answer.get(name)
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < most:
        return float(value)
    raise Failed("rejected", stage, f"the process answered without the number '{name}'")


def printable(text: Any) -> str:
    """Return what a child says as text of bounded length that can be encoded."""
    return str(text)[:ERROR_CHARACTERS].encode("utf-8", "replace").decode("utf-8")


def _status_of(kind: str) -> str:
    return {"wrong": "incorrect", "compile": "compile", "oom": "oom"}.get(kind, "runtime")


class Nursery:
    """Keeps a few runners started, context and all, so that a kernel finds one waiting.

    At most `contexts` runners are alive, those that wait among them. The driver makes contexts one after the other, a
    fifth of a second each, whoever asks; begun early, that time passes beside the timing of other kernels.
    """

    def __init__(self, start: Callable[[], Child], contexts: int, starters: int = 3) -> None:
        self._start, self._slots = start, threading.Semaphore(contexts)
        self._ready: queue.SimpleQueue[Child | BaseException] = queue.SimpleQueue()
        self._closing = threading.Event()
        self._threads = [threading.Thread(target=self._raise, daemon=True) for _ in range(min(starters, contexts))]
        for thread in self._threads:
            thread.start()

    def _raise(self) -> None:
        while True:
            self._slots.acquire()
            if self._closing.is_set():
                return
            try:
                self._ready.put(self._start())
            except Exception as error:  # it keeps its place until somebody is told
                self._ready.put(error)

    def take(self) -> Child:
        """Return a started runner; its place is given back with `give_back`. Raises InfrastructureError."""
        while not self._closing.is_set():
            try:
                child = self._ready.get(timeout=0.5)
            except queue.Empty:
                continue
            if isinstance(child, BaseException):
                self._slots.release()
                raise child
            if child.forkserver.alive:
                return child
            self.give_back(child)
        raise InfrastructureError("the engine is closing")

    def give_back(self, child: Child) -> None:
        """End a runner and free its place."""
        try:
            child.kill()
        finally:
            self._slots.release()

    def close(self) -> None:
        """End the runners that wait, and start no more; those that were taken must be given back before."""
        self._closing.set()
        for _ in self._threads:
            self._slots.release()
        for thread in self._threads:
            thread.join(START_S)
        while not self._ready.empty():
            child = self._ready.get()
            if isinstance(child, Child):
                child.kill()
