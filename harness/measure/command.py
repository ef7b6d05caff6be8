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
    tasks.get(task)
    if workers < 1:
        raise ValueError(f"workers is {workers}, expected at least 1")
    sources = [read_source(path) for path in files]
    with open_backend(backend, workers=min(workers, len(files))) as engine:
        futures: list[Future[Measurement]] = [engine.submit(task, source) for source in sources]
        pending, started = set(futures), time.monotonic()
        while pending:
            _, pending = wait(pending, timeout=2.0, return_when=FIRST_COMPLETED)
            done, spent = len(futures) - len(pending), time.monotonic() - started
            if pending and done and not quiet and spent > 2:
                left = spent / done * len(pending)
                print(f"{done}/{len(futures)} kernels, {done / spent:.2f}/s, {left:.0f} s left", file=sys.stderr)
        gpu = engine.session["gpu"]
    return [report.summary(f.result(), str(path), gpu) for f, path in zip(futures, files, strict=True)]


def show(rows: Sequence[dict[str, Any]], as_json: bool) -> int:
    """Print the summaries and return the exit code: 0 if every kernel is ok, else 1."""
    print(json.dumps({"rows": list(rows)}, allow_nan=False) if as_json else report.table(rows))
    return 0 if all(row["status"] == "ok" for row in rows) else 1
