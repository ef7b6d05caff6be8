"""What commands print: results on standard output, messages and progress on standard error."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from harness.destination import check_destination

PATIENCE_S = 2.0
PLAIN_INTERVAL_S = 15.0


def say(message: str, quiet: bool = False) -> None:
    """Print a message to standard error, unless quiet."""
    if not quiet:
        print(message, file=sys.stderr)


def print_json(value: dict[str, Any]) -> None:
    """Print one JSON object to standard output. Raises ValueError for NaN, which JSON does not have."""
    print(json.dumps(value, indent=2, allow_nan=False))


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print aligned columns; a column is aligned right if every cell that says something begins like a number."""
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    left = [i == 0 or not all(_numeric(row[i]) for row in rows) for i in range(len(header))]
    for row in [header, *rows]:
        cells = [cell.ljust(w) if text else cell.rjust(w) for cell, w, text in zip(row, widths, left, strict=True)]
        print("  ".join(cells).rstrip())


def _numeric(cell: str) -> bool:
    return not cell.strip("+-") or cell.lstrip("+-")[0].isdigit()


def require_new(path: Path, overwrite: bool, folder: bool = False, option: str = "--out") -> None:
    """Raise ValueError unless a file, or else a folder, can be written at the path and may be if one is there."""
    check_destination(path, folder, option)
    if path.exists() and not overwrite:
        raise ValueError(f"'{path}' exists already; give another {option}, or --overwrite to replace it")


def require_torch(what: str) -> None:
    """Raise ValueError unless torch and triton, which some work needs, are installed."""
    if any(find_spec(package) is None for package in ("torch", "triton")):
        raise ValueError(f"{what} needs torch and triton; install with: pip install 'kernelcast[gpu]'")


@contextmanager
def progress(label: str, total: int, quiet: bool = False) -> Iterator[Callable[[int], None]]:
    """Give a function that counts finished items; work longer than two seconds shows count, rate and time left."""
    start = last = time.monotonic()
    done = 0
    bar: Any = None

    def advance(n: int) -> None:
        nonlocal done, last, bar
        done += n
        now = time.monotonic()
        if quiet or now - start < PATIENCE_S:
            return
        if sys.stderr.isatty():
            bar = bar or _bar(label, total)
            bar.update(bar.task_ids[0], completed=done)
        elif now - last >= PLAIN_INTERVAL_S:
            last = now
            rate = done / (now - start)
            left = (total - done) / rate if rate else float("inf")
            say(f"{label}: {done}/{total}, {rate:.1f}/s, {left:.0f} s left")

    try:
        yield advance
    finally:
        if bar is not None:
            bar.stop()


@contextmanager
def stages(quiet: bool = False) -> Iterator[Callable[[str, int], Callable[[int], None]]]:
    """Give a function that begins a named step of so many items, ending the one before, and counts what is done."""
    with ExitStack() as running:

        def begin(label: str, total: int) -> Callable[[int], None]:
            running.close()
            return running.enter_context(progress(label, total, quiet))

        yield begin


def _bar(label: str, total: int) -> Any:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        ProgressColumn,
        Task,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    class Rate(ProgressColumn):
        def render(self, task: Task) -> Text:
            # rich knows no speed before the second update.
            return Text("-/s" if task.speed is None else f"{task.speed:.1f}/s")

    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
        Rate(), TimeRemainingColumn(),
    )  # fmt: skip
    bar = Progress(*columns, console=Console(stderr=True))
    bar.add_task(label, total=total)
    bar.start()
    return bar
