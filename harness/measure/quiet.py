"""Keeping the GPU quiet while one kernel is timed: who may run, and how much device memory may be in use."""

from __future__ import annotations

import fcntl
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager


def send(pid: int, signum: signal.Signals) -> None:
    """Signal a child's process group; before it has called setsid, the child alone. A dead child is no error."""
    for target in (os.killpg, os.kill):
        try:
            target(pid, signum)
        except ProcessLookupError:
            continue
        return


class Children:
    """The live children of an engine. While one is timed, all others with foreign code and a device are stopped."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pids: set[int] = set()
        self._foreign: set[int] = set()
        self._only: int | None = None
        self._since = 0.0  # when the others were stopped
        self._paused: dict[int, float] = {}  # seconds that a child was stopped, before now
        self.asked_s: dict[str, float] = {}  # seconds until they answered, by kind of request
        self._ending = False

    def add(self, pid: int) -> None:
        with self._lock:
            self._pids.add(pid)
            if self._ending:
                send(pid, signal.SIGKILL)

    def foreign(self, pid: int) -> None:
        """Note that this child is about to run foreign code; it waits if another one is being timed."""
        with self._lock:
            if pid in self._foreign:
                return
            self._foreign.add(pid)
            self._paused[pid] = 0.0
            if self._only not in (None, pid):
                self._paused[pid] = self._since - time.monotonic()
                send(pid, signal.SIGSTOP)

    def remove(self, pid: int) -> None:
        with self._lock:
            self._pids.discard(pid)
            self._foreign.discard(pid)
            self._paused.pop(pid, None)

    def paused(self, pid: int) -> tuple[float, bool]:
        """Return for how many seconds a child has been stopped because others were timed, and whether it is now."""
        with self._lock:
            now = self._only not in (None, pid) and pid in self._foreign
            return self._paused.get(pid, 0.0) + (time.monotonic() - self._since if now else 0.0), now

    def answered(self, request: str, seconds: float) -> None:
        """Add up how long children took to answer requests of a kind."""
        with self._lock:
            self.asked_s[request] = self.asked_s.get(request, 0.0) + seconds

    def kill(self) -> None:
        """End all of them, and those that are forked from now on."""
        with self._lock:
            self._ending = True
            for pid in self._pids:
                send(pid, signal.SIGKILL)

    @contextmanager
    def only(self, pid: int) -> Iterator[None]:
        """Stop every other foreign child; what they launched ends within its launch, and nothing new follows."""
        with self._lock:
            self._only, self._since = pid, time.monotonic()
            for other in self._foreign - {pid}:
                send(other, signal.SIGSTOP)
        try:
            yield
        finally:
            with self._lock:
                self._only = None
                for other in self._foreign - {pid}:
                    self._paused[other] += time.monotonic() - self._since
                    send(other, signal.SIGCONT)


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """Stop one child: the reference is timed while nothing foreign can launch work."""
    send(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        send(pid, signal.SIGCONT)


class GpuTurn:
    """The right to use the GPU undisturbed: one holder among the threads here and among all engines of the machine."""

    def __init__(self, path: str) -> None:
        self._threads = threading.Lock()
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)

    def __enter__(self) -> None:
        self._threads.acquire()
        fcntl.flock(self._file, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        fcntl.flock(self._file, fcntl.LOCK_UN)
        self._threads.release()

    def close(self) -> None:
        os.close(self._file)


class Company:
    """Who has a kernel on the GPU: many beside each other, or one alone."""

    def __init__(self) -> None:
        self._many, self._alone = 0, False
        self._changed = threading.Condition()

    @contextmanager
    def among_others(self) -> Iterator[None]:
        """Wait until nobody is, or wants to be, alone."""
        with self._changed:
            self._changed.wait_for(lambda: not self._alone)
            self._many += 1
        try:
            yield
        finally:
            with self._changed:
                self._many -= 1
                self._changed.notify_all()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Wait until all others are done; those that come wait."""
        with self._changed:
            self._changed.wait_for(lambda: not self._alone)
            self._alone = True
            self._changed.wait_for(lambda: not self._many)
        try:
            yield
        finally:
            with self._changed:
                self._alone = False
                self._changed.notify_all()


class DeviceMemory:
    """A budget of bytes that stages reserve before they allocate; one that is larger than the budget runs alone."""

    def __init__(self, budget: int) -> None:
        self._budget, self._used = budget, 0
        self._changed = threading.Condition()

    @contextmanager
    def reserve(self, nbytes: int) -> Iterator[None]:
        nbytes = min(nbytes, self._budget)
        with self._changed:
            self._changed.wait_for(lambda: self._used + nbytes <= self._budget)
            self._used += nbytes
        try:
            yield
        finally:
            with self._changed:
                self._used -= nbytes
                self._changed.notify_all()
