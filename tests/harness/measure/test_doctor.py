from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.measure.doctor import STATES, examine


def findings() -> dict[str, object]:
    return {finding.name: finding for finding in examine()}


def test_every_finding_that_is_not_ok_says_what_to_do():
    for finding in examine():
        assert finding.state in STATES
        assert finding.detail
        assert bool(finding.advice) == (finding.state != "ok"), finding


def test_a_machine_without_a_gpu_is_told_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert findings()["gpu"].state == "missing"


SMI = """#!/bin/sh
case "$*" in
  *-L*) echo "GPU 0: NVIDIA H200 (UUID: GPU-1)";;
  *compute-apps*) printf "%s" "$BUSY";;
  *) echo "580.1, 1980, 3201, 38";;
esac
"""


@pytest.mark.parametrize("busy, state", [("", "ok"), ("4711, python, 300 MiB\n", "warning")])
def test_other_processes_on_the_gpu_are_named(monkeypatch, tmp_path: Path, busy: str, state: str):
    (tmp_path / "nvidia-smi").write_text(SMI)
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/usr/bin{os.pathsep}/bin")
    monkeypatch.setenv("BUSY", busy)
    found = findings()
    assert (found["gpu"].detail, found["driver"].detail) == ("GPU 0: NVIDIA H200", "580.1")
    assert found["other processes"].state == state
    assert busy.strip().replace(",", "", 1) in found["other processes"].detail
