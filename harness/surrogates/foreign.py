"""Running code that is not ours: what it prints goes to standard error, and what it raises becomes one message."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


class SurrogateError(ValueError):
    """A surrogate cannot be found, loaded or configured; the message says what to write instead."""


class Unavailable(RuntimeError):
    """A surrogate cannot answer any query now: its endpoint is down, or refuses the key. Asking on is of no use.

    The message is one line that says what to do; answers given so far are kept, and a later run continues.
    """


@contextmanager
def prints_to_stderr() -> Iterator[None]:
    """Send what is written to standard output, by Python or by native code, to standard error until the block ends."""
    _flush()
    try:
        kept = os.dup(1)
    except OSError:  # standard output is closed, so that nothing can reach it
        yield
        return
    try:
        os.dup2(2, 1)
        yield
    finally:
        _flush()
        os.dup2(kept, 1)
        os.close(kept)


def _flush() -> None:
    for stream in (sys.stdout, sys.__stdout__):
        if stream is not None and not stream.closed:
            stream.flush()


@contextmanager
def foreign(doing: str) -> Iterator[None]:
    """Run a block that calls foreign code; raises SurrogateError for anything that it raises, sys.exit() included."""
    try:
        with prints_to_stderr():
            yield
    except (SurrogateError, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise SurrogateError(f"cannot {doing}: {said(error)}") from error


def said(error: BaseException) -> str:
    """Return an exception as one line, and how to see where it was raised."""
    text = " ".join(str(error).split())
    kind = type(error).__name__
    return f"{f'{kind}: {text}' if text else kind} (KERNELCAST_DEBUG=1 shows the traceback)"
