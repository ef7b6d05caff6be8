"""Packaging, checking, auditing and loading at the size of a full release; the figures are printed with `-s`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmark.audit import audit
from benchmark.data_access import load_eval, load_kernels, load_measurements, load_pairs
from benchmark.integrity import check_dataset
from benchmark.lookup import Lookup
from benchmark.package import package
from tests.benchmark.release_scale import write_logs

pytestmark = pytest.mark.slow
KERNELS = 15_000


@contextmanager
def at_most(what: str, seconds: float) -> Iterator[None]:
    """Time of this thread, which other work on the machine does not stretch."""
    start = time.thread_time()
    yield
    took = time.thread_time() - start
    print(f"{what}: {took:.2f} s")
    assert took < seconds, f"{what} took {took:.2f} s of processor time, expected under {seconds} s"


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("scale")
    raw = write_logs(root / "raw", KERNELS)
    with at_most("package", 900):
        package("scale", raw, root / "data" / "scale")
    return root / "data" / "scale"


def test_a_release_is_checked_audited_and_loaded_in_time(release: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELCAST_DATA", str(release.parent))
    with at_most("validate", 30):
        assert check_dataset(release) == []
    with at_most("audit", 120):
        audit(release)
    load_kernels("validation", "scale", ["kernel_id"])  # imports
    for load in (load_kernels, load_pairs, load_eval, load_measurements):
        with at_most(load.__name__, 1):
            assert load(dataset="scale").num_rows
    kernels = Lookup("kernels", dataset="scale")
    key = next(iter(kernels))
    with at_most("a thousand look-ups", 1):
        for _ in range(1000):
            kernels[key]
