from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.cli import main
from tests.benchmark.release_fixture import write_release
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
    counts = found["counts"]
    assert counts["searches"] == 12 and counts["tasks"] == 3 and counts["same_program_pairs"] == 12
    assert counts["ok_kernels"] == sum(counts["ok_per_task"].values()) and counts["eval"]["pairs"] == 0
    assert counts["test_searches"] == {
        "searches": 6, "least_of_a_task": 2, "least_disjoint_seed_sets": 1
    }  # fmt: skip
    assert 0 < counts["test_pairs"]["resolved_discoveries"] <= counts["test_pairs"]["pairs"]


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
    assert code == 1 and any("was cut" in row["problem"] for row in json.loads(out)["rows"])


@pytest.mark.usefixtures("synthetic_dataset")
def test_audit_prints_its_findings(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "data", "audit", "synthetic")
    assert code == 0 and not err and "| anchor count | chance |" in out and "Label noise" in out
    code, out, _ = run(capsys, "data", "audit", "synthetic", "--json")
    assert code == 0 and {"near_duplicates", "probes", "label_noise", "balance"} <= set(json.loads(out))


def test_the_card_of_the_repository(
    synthetic_dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "CARD.md"
    assert run(capsys, "data", "card", "synthetic", "--out", str(path))[0] == 0
    assert path.read_text().startswith("<!-- Made from benchmark/data/synthetic/README.md")
    assert run(capsys, "data", "card", "synthetic", "--out", str(path), "--check", "--quiet")[0] == 0
    path.write_text("other")
    code, out, err = run(capsys, "data", "card", "synthetic", "--out", str(path), "--check")
    assert code == 1 and not out and "kernelcast data card --out" in err


def test_packaging_says_where_eval_stays_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KERNELCAST_DATA", str(tmp_path))
    make_raw(tmp_path, "small", kernels_per_search=3)
    code, out, err = run(capsys, "data", "package", "small")
    assert code == 0 and not out
    assert "eval, bin 8 with anchor parent: 0 rows of 0 measured twice, 27 short" in err


def test_the_release_of_the_paper_is_imported_or_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hub = write_release(tmp_path / "hub")
    arguments = ("data", "import-upstream", "--from", str(hub), "--out", str(tmp_path / "out"))
    code, out, err = run(capsys, *arguments)
    assert code == 0 and "12388" in out and "repeated eval pairs: 1" in out and "has every count" in err
    assert (tmp_path / "out" / "manifest.json").is_file()
    code, _, err = run(capsys, *arguments)
    assert code == 2 and "exists already" in err
    code, out, err = run(capsys, *arguments[:-1], str(tmp_path / "json"), "--json")
    assert code == 0 and json.loads(out)["counts"][0]["of"] == "kernels"
    path = next((hub / "gpu-forecasters-discovery-pairs" / "data" / "gpu_mode").glob("*.parquet"))
    path.write_bytes(path.read_bytes()[:-8])
    code, out, err = run(capsys, *arguments[:-1], str(tmp_path / "broken"))
    assert code == 2 and not out and f"{path}: cannot be read whole" in err and not (tmp_path / "broken").exists()
    code, _, err = run(capsys, "data", "import-upstream", "--from", str(tmp_path / "no"), "--out", str(tmp_path / "x"))
    assert code == 2 and "no such folder" in err and err.count("\n") == 1
