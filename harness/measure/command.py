"""Measure a list of kernel files with one engine, in the order given, with progress on standard error."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from pathlib import Path
from typing import Any

import tasks
from harness.measure import Measurement, open_backend, report

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
    files: Sequence[Path], task: str, backend: str, workers: int, quiet: bool = False
) -> list[dict[str, Any]]:
    """Return one summary per file (see `report.summary`). Raises before anything is started if an input is unusable."""
    task = tasks.get(task).name
    if workers < 1:
        raise ValueError(f"workers is {workers}, expected at least 1")
    sources = [read_source(path) for path in files]
    with open_backend(backend, workers=min(workers, len(files))) as engine:
        futures: list[Future[Measurement]] = [engine.submit(task, source) for source in sources]
        try:
            _await(futures, quiet)
        except KeyboardInterrupt:  # what is done is shown; the rest is named
            done = [future.done() for future in futures]
            engine.abort()
        else:
            done = [True] * len(futures)
        gpu = engine.session["gpu"]
    named = zip(files, futures, done, strict=True)
    return [
        _row(future, task, str(path), gpu) if known else _lost(task, str(path), gpu) for path, future, known in named
    ]


def _await(futures: Sequence[Future[Measurement]], quiet: bool) -> None:
    pending, started = set(futures), time.monotonic()
    shown = started
    while pending:
        _, pending = wait(pending, timeout=1.0, return_when=FIRST_COMPLETED)
        now, done = time.monotonic(), len(futures) - len(pending)
        if pending and not quiet and now - shown > PROGRESS_SECONDS:
            shown, rate = now, done / (now - started)
            left = f"{len(pending) / rate:.0f} s left" if done else "a kernel may take its limits, up to minutes"
            print(f"{done}/{len(futures)} kernels, {rate:.2f}/s, {left}", file=sys.stderr)


def _row(future: Future[Measurement], task: str, file: str, gpu: str) -> dict[str, Any]:
    error = future.exception()
    if error is not None:
        if not isinstance(error, OSError):
            raise error
        return report.summary(Measurement("", task, "infrastructure", str(error)), file, gpu)
    return report.summary(future.result(), file, gpu)


def _lost(task: str, file: str, gpu: str) -> dict[str, Any]:
    return report.summary(Measurement("", task, "interrupted", "stopped before it was done"), file, gpu)


def show(rows: Sequence[dict[str, Any]], as_json: bool) -> int:
    """Print the summaries and return the exit code: 0 if every kernel is ok, 130 after Ctrl-C, else 1."""
    print(json.dumps({"rows": list(rows)}, allow_nan=False) if as_json else report.table(rows))
    if any(row["status"] == "interrupted" for row in rows):
        return INTERRUPTED
    return 0 if all(row["status"] == "ok" for row in rows) else 1
