"""Measure a list of kernel files with one backend, in the order given, with progress on standard error."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tasks
from benchmark.identity import kernel_id
from harness.measure import Measurement, open_backend, report

if TYPE_CHECKING:
    from harness.search.events import EventLog

MAX_SOURCE_BYTES = 1 << 20
PROGRESS_SECONDS = 5.0
INTERRUPTED = 130


def read_source(path: Path) -> str:
    """Return the text of a kernel file. Raises OSError or ValueError that names the file."""
    if not path.is_file():
        what = "a folder" if path.is_dir() else "not there"
        raise ValueError(f"{path} is {what}; name kernel files (*.py)")
    if path.stat().st_size > MAX_SOURCE_BYTES:
        raise ValueError(f"{path} has {path.stat().st_size} bytes; a kernel file has at most {MAX_SOURCE_BYTES}")
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text ({error})") from None


def measure_files(
    files: Sequence[Path],
    task: str,
    backend: str,
    workers: int,
    quiet: bool = False,
    out: Path | None = None,
    **options: Any,
) -> list[dict[str, Any]]:
    """Return one summary per file (see `report.summary`). Raises before anything is started if an input is unusable.

    `out` is a log that every result is written to as it comes; kernels that it holds already are not measured again.
    `options` are those of `open_backend`.
    """
    task = tasks.get(task).name
    if workers < 1:
        raise ValueError(f"workers is {workers}, expected at least 1")
    sources = {path: read_source(path) for path in files}
    with _log(out) as log:
        known = _measured(log, task)
        todo = {path: code for path, code in sources.items() if kernel_id(task, code) not in known}
        if known and not quiet:
            print(f"{len(sources) - len(todo)} of {len(sources)} kernels are in {out} already", file=sys.stderr)
        found: dict[Path, Measurement] = {}
        sessions = _sessions(log)
        if todo:
            with open_backend(backend, workers=min(workers, len(todo)), **options) as engine:
                rows = engine.session_rows()
                sessions |= {row["session_id"]: row for row in rows}
                for row in rows if log else ():
                    log.append("session_started", {"session": row})
                futures = {engine.submit(task, code): path for path, code in todo.items()}
                try:
                    for future in _as_they_come(futures, quiet):
                        found[futures[future]] = _result(future, task)
                        if log is not None and found[futures[future]].session_id:
                            record = found[futures[future]].to_json()
                            log.append("measured", {"file": str(futures[future]), "measurement": record})
                except KeyboardInterrupt:  # what is done is shown; the rest is named
                    engine.abort()
    lost = Measurement("", task, "interrupted", "stopped before it was done")
    results = {path: found.get(path) or known.get(kernel_id(task, code), lost) for path, code in sources.items()}
    return [report.summary(one, str(path), sessions.get(one.session_id, {})) for path, one in results.items()]


@contextmanager
def _log(out: Path | None) -> Iterator[EventLog | None]:
    if out is None:
        yield None
        return
    from harness.search.events import EventLog

    with EventLog(out) as log:
        yield log


def _measured(log: EventLog | None, task: str) -> dict[str, Measurement]:
    """Return what the log holds of this task, by kernel id."""
    events = log.events if log is not None else ()
    rows = (Measurement.from_json(event["measurement"]) for event in events if event["kind"] == "measured")
    return {row.kernel_id: row for row in rows if row.task == task}


def _sessions(log: EventLog | None) -> dict[str, Mapping[str, Any]]:
    events = log.events if log is not None else ()
    sessions = [event["session"] for event in events if event["kind"] == "session_started"]
    return {session["session_id"]: session for session in sessions}


def _as_they_come(futures: Mapping[Future[Measurement], Path], quiet: bool) -> Iterator[Future[Measurement]]:
    pending, started = set(futures), time.monotonic()
    shown = started
    while pending:
        done, pending = wait(pending, timeout=1.0, return_when=FIRST_COMPLETED)
        yield from done
        now, count = time.monotonic(), len(futures) - len(pending)
        if pending and not quiet and now - shown > PROGRESS_SECONDS:
            shown, rate = now, count / (now - started)
            left = f"{len(pending) / rate:.0f} s left" if count else "a kernel may take its limits, up to minutes"
            print(f"{count}/{len(futures)} kernels, {rate:.2f}/s, {left}", file=sys.stderr)


def _result(future: Future[Measurement], task: str) -> Measurement:
    error = future.exception()
    if error is None:
        return future.result()
    if not isinstance(error, OSError):
        raise error
    return Measurement("", task, "infrastructure", str(error))


def show(rows: Sequence[dict[str, Any]], as_json: bool) -> int:
    """Print the summaries and return the exit code: 0 if every kernel is ok, 130 after Ctrl-C, else 1."""
    print(json.dumps({"rows": list(rows)}, allow_nan=False) if as_json else report.table(rows))
    if any(row["status"] == "interrupted" for row in rows):
        return INTERRUPTED
    return 0 if all(row["status"] == "ok" for row in rows) else 1
