"""The log of a search: one JSON object per line, flushed to the disk before the search goes on."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FILE_NAME = "events.jsonl"
SCHEMA_VERSION = 1
Event = Mapping[str, Any]


class LogError(ValueError):
    """A log cannot be read or continued; the message names the file and the line or field."""


class LogUnwritable(OSError):
    """An event did not get onto the disk; the log before it is whole, and the message says so."""


def _event(line: bytes, where: str) -> dict[str, Any]:
    try:
        event = json.loads(line.decode("utf-8"))
    except ValueError as error:
        raise LogError(f"{where}: not a JSON object ({error}); restore the file from a copy") from None
    if not isinstance(event, dict) or not isinstance(event.get("kind"), str) or not isinstance(event.get("index"), int):
        raise LogError(f"{where}: expected an object with 'index' and 'kind'; this is not the log of a search")
    return event


def _split(raw: bytes, path: Path) -> tuple[list[dict[str, Any]], int, bool]:
    """Return the events, the bytes to keep, and whether the last kept line still needs its newline."""
    complete, _, tail = raw.rpartition(b"\n")
    lines = complete.split(b"\n") if complete else []
    events = [_event(line, f"{path}, line {number}") for number, line in enumerate(lines, 1)]
    keep, unterminated = len(raw) - len(tail), False
    if tail:
        try:
            events.append(_event(tail, str(path)))
            keep, unterminated = len(raw), True
        except LogError:
            pass  # a line cut off by a crash: its event never counted, because the search waits for the write
    for position, event in enumerate(events):
        if event["index"] != position:
            found = event["index"]
            raise LogError(f"{path}, line {position + 1}: event index {found}, expected {position}; lines are missing")
    return events, keep, unterminated


def read_events(path: Path | str) -> list[dict[str, Any]]:
    """Return the events of a log without changing it; a line cut off at the end is left out. Raises LogError."""
    path = Path(path)
    return _split(path.read_bytes(), path)[0]


class EventLog:
    """An append-only log held by one process; opening repairs a line that a crash has cut off.

    A log that is not `durable` does not wait for the disk: enough where nothing in it was paid for.
    Raises LogError if the file is damaged elsewhere or another process holds it.
    """

    def __init__(self, path: Path | str, durable: bool = True) -> None:
        self.path, self._durable = Path(path), durable
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else str(error)
            raise LogUnwritable(f"{self.path}: cannot be opened: {reason}; choose another folder") from None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.events = self._repair()
        except BlockingIOError:
            os.close(self._file)
            raise LogError(
                f"{self.path}: another process writes this log; wait for it or choose another folder"
            ) from None
        except BaseException:
            os.close(self._file)
            raise
        self._next = len(self.events)
        self._writing = False

    def _repair(self) -> list[dict[str, Any]]:
        events, keep, unterminated = _split(self.path.read_bytes(), self.path)
        os.ftruncate(self._file, keep)
        if unterminated:
            os.write(self._file, b"\n")
        os.fsync(self._file)
        return events

    def append(self, kind: str, payload: Mapping[str, Any]) -> dict[str, Any]:
        """Write one event, to the disk itself if the log is durable, and return it as a reader will see it."""
        if self._writing:  # an interrupt came in the middle of the last write: the file knows whether it got through
            self._next = len(self._repair())
        row = {"index": self._next, "kind": kind, **payload}
        line = json.dumps(row, allow_nan=False, ensure_ascii=False).encode("utf-8") + b"\n"
        self._writing = True
        try:
            written = 0
            while written < len(line):
                written += os.write(self._file, line[written:])
            if self._durable:
                os.fsync(self._file)
        except OSError as error:
            raise self._unwritten(error) from None
        self._next += 1
        self._writing = False
        event: dict[str, Any] = json.loads(line)
        return event

    def _unwritten(self, error: OSError) -> LogUnwritable:
        """Take back what got through of a line, so that the log stays whole, and return the error to raise."""
        self._next = len(self._repair())
        self._writing = False
        reason = os.strerror(error.errno) if error.errno else str(error)
        return LogUnwritable(
            f"{self.path}: cannot be written: {reason}; its {self._next} events are whole: make room and run this again"
        )

    def close(self) -> None:
        """Release the file."""
        os.close(self._file)

    def __enter__(self) -> EventLog:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def require_same_config(path: Path, logged: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Raise LogError, naming each field that differs, unless a log was started with this configuration."""
    differ = [
        f"{key} is {logged.get(key)!r} in the log and {wanted.get(key)!r} now"
        for key in sorted({*logged, *wanted})
        if logged.get(key) != wanted.get(key)
    ]
    if differ:
        raise LogError(f"{path}: another configuration: {'; '.join(differ)}; use it again or choose another folder")
