"""Search for fast kernels: an archive, a mutator, an event log, and the loop that joins them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_EXPORTS = {
    "Archive": "harness.search.archive",
    "EventLog": "harness.search.events",
    "LogError": "harness.search.events",
    "read_events": "harness.search.events",
    "SearchConfig": "harness.search.run",
    "run_search": "harness.search.run",
    "SearchState": "harness.search.state",
    "fold": "harness.search.state",
    "SourceMutator": "harness.search.mutate",
}
__all__ = sorted(_EXPORTS)


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module 'harness.search' has no attribute '{name}'")
    return getattr(import_module(_EXPORTS[name]), name)
