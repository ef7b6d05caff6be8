"""What tests of the search share: a recording of a whole search on the table backend, to replay from."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import tasks
from benchmark.event_log import read_search
from harness.search.config import SearchConfig
from harness.search.events import FILE_NAME
from harness.search.recording import Recording, recording_of
from harness.search.run import run_search
from tests.harness.search.table_backend import NumberingMutator, TableBackend

SEEDS = tasks.seed_names("rms_norm", "test")
RECORDED = SearchConfig("rms_norm-test-0", "rms_norm", "test", SEEDS, 240, children_per_parent=6)


@pytest.fixture
def no_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of waits for the disk would only slow a test down."""
    monkeypatch.setattr(os, "fsync", lambda file: None)


@pytest.fixture(scope="session")
def recording_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a search that was measured to its end."""
    folder = tmp_path_factory.mktemp("recorded") / RECORDED.search_id
    run_search(RECORDED, TableBackend(1, wait_s=0.0), folder, mutator=NumberingMutator(6, 4))
    return folder


@pytest.fixture(scope="session")
def recording(recording_folder: Path) -> Recording:
    """That search as a recording."""
    return recording_of([read_search(recording_folder / FILE_NAME)])
