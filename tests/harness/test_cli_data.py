from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.cli import main
from tests.factory import make_raw


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as caught:
        main(list(arguments))
    captured = capsys.readouterr()
    return int(caught.value.code or 0), captured.out, captured.err


@pytest.mark.usefixtures("synthetic_dataset")
def test_info_prints_a_table_or_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "data", "info", "synthetic")
    assert code == 0 and not err
    assert out.startswith("synthetic: 12 searches") and "Synthetic GPU" in out and "test_unseen_task" in out
    code, out, err = run(capsys, "data", "info", "synthetic", "--json")
    found = json.loads(out)
    assert code == 0 and not err and found["datasets"] == ["synthetic"]
    assert {row["table"] for row in found["rows"]} >= {"kernels", "pairs", "measurements"}


@pytest.mark.usefixtures("synthetic_dataset")
def test_an_unknown_dataset_is_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "data", "info", "synthetik")
    assert code == 2 and not out
    assert err.count("\n") == 1 and err.startswith("kernelcast: unknown dataset 'synthetik'") and "did you mean" in err


def test_package_then_validate_then_break(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KERNELCAST_DATA", str(tmp_path))
    make_raw(tmp_path, "small", kernels_per_search=3)
    code, out, err = run(capsys, "data", "package", "small", "--json", "--quiet")
    assert code == 0 and not err and json.loads(out)["rows"]
    code, _, err = run(capsys, "data", "package", "small")
    assert code == 2 and "holds a packaged dataset" in err
    code, _, _ = run(capsys, "data", "package", "small", "--overwrite")
    assert code == 0
    code, out, _ = run(capsys, "data", "validate", "small", "--json")
    assert code == 0 and json.loads(out) == {"dataset": "small", "ok": True, "rows": []}
    path = tmp_path / "small" / "pairs" / "test-00000-of-00001.parquet"
    path.write_bytes(path.read_bytes()[:-9])
    code, out, err = run(capsys, "data", "validate", "small")
    assert code == 1 and not out and f"{path}: not a whole Parquet file" in err
    code, out, _ = run(capsys, "data", "validate", "small", "--json")
    assert code == 1 and any("sha256" in row["problem"] for row in json.loads(out)["rows"])
