"""The backends of a search behind one call: local GPUs, a Ray cluster, the interpreter, or recorded results."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from harness.measure import Backend, open_backend

PRECISION = 0.01  # half-width of the 95% interval of the median of a case, as a share of it
SEARCH_BACKENDS = ("cuda", "cpu", "ray", "replay")


def check_backend(name: str) -> None:
    """Raise ValueError for an unknown backend."""
    if name not in SEARCH_BACKENDS:
        raise ValueError(f"unknown backend '{name}'; known backends: {', '.join(SEARCH_BACKENDS)}")


@contextmanager
def open_live_backend(
    name: str, workers: int, isolation: str = "strict", gpus: str | None = None, address: str = "auto"
) -> Iterator[Backend]:
    """Open a backend that measures: cuda, cpu, or ray, the GPUs of the cluster at `address`.

    Raises what `harness.measure.open_backend` raises where that cannot be.
    """
    check_backend(name)
    kind = "cuda" if name == "ray" else name
    where = {"ray": address} if name == "ray" else {"gpus": gpus}
    with open_backend(kind, workers=workers, isolation=isolation, precision=PRECISION, **where) as backend:
        yield backend


def session_rows(backend: Backend) -> list[dict[str, Any]]:
    """Return the rows of every session that a backend's measurements can name: several for more than one GPU."""
    several = getattr(backend, "session_rows", None)
    return [dict(backend.session)] if several is None else [dict(row) for row in several()]
