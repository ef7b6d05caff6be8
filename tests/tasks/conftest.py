"""What the tests of tasks share: folders of a user's own tasks."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import tasks


@pytest.fixture
def own_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of the user's whose tasks the registry has, as if KERNELCAST_TASKS named it."""
    caches = (tasks.get, tasks.reference_code)
    known = set(sys.modules)
    monkeypatch.setattr(tasks, "__path__", [*tasks.__path__, str(tmp_path)])
    for cache in caches:
        cache.cache_clear()
    yield tmp_path
    for cache in caches:
        cache.cache_clear()
    for name in {name for name in sys.modules if name.startswith("tasks.")} - known:
        where = getattr(sys.modules[name], "__path__", None) or [getattr(sys.modules[name], "__file__", None) or ""]
        if any(str(path).startswith(str(tmp_path)) for path in where):
            del sys.modules[name]
