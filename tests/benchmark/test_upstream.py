from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmark.bins import bin_of
from benchmark.data_access import load_eval, load_kernels, load_labels, load_pairs, load_queries, load_table
from benchmark.forecasts import read_forecasts
from benchmark.integrity import check_dataset
from benchmark.upstream.convert import import_release
from benchmark.upstream.release import SURROGATES, TABLES, upstream_bin
from benchmark.upstream.source import UpstreamError
from tests.benchmark.release_fixture import L40S, V2_SEARCH, V3_SEARCH, Rows, release, write_release


def folders(root: Path) -> dict[str, Path]:
    return {name: root / table.dataset for name, table in TABLES.items()}


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    root = tmp_path_factory.mktemp("release")
    report = import_release(folders(write_release(root / "hub")), root / "data" / "upstream")
    return root / "data" / "upstream", report


@pytest.fixture
def loaded(imported: tuple[Path, dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("KERNELCAST_DATA", str(imported[0].parent))
    return "upstream"


@pytest.mark.parametrize(
    ("speedup", "label"),
    [(0.25, 1), (0.3, 1), (0.5, 2), (0.8, 3), (1.0, 4), (1.2, 4), (1.5, 5), (2.1, 6), (2.9, 7), (4.0, 8), (6, 8),
     (0.350631, 1), (1.155647, 4), (1.01841, 4)],
)  # fmt: skip
def test_the_label_of_the_release_follows_its_formula(speedup: float, label: int) -> None:
    assert upstream_bin(speedup) == label


def test_every_count_is_set_against_the_published_one(imported: tuple[Path, dict[str, Any]]) -> None:
    folder, report = imported
    found = {entry["of"]: entry for entry in report["counts"]}
    rows = release()
    assert found["eval"] == {"of": "eval", "published": 424, "found": 19, "difference": 19 - 424}
    assert (
        found["predictions"]["found"] == 7 * 19 * 2 and found["rl"]["found"] == 15 and found["discovery"]["found"] == 3
    )
    assert found["kernels"]["published"] == 12_388
    assert report["left_out"]["repeated_eval_pairs"] == 1 and report["left_out"]["repeated_discovery_pairs"] == 1
    assert report["left_out"]["repeated_forecasts"] == 7 * 2 and report["left_out"]["not_measured"] == 1
    assert report["searches"] == {"events": 2, "version_2": 1, "version_3": 1} and report["summaries"] is True
    assert sum("'combined' repeats the others" in note for note in report["notes"]) == 4
    assert json.loads((folder / "import.json").read_text()) == report
    assert sum(map(len, rows["eval"].values())) == 19


def test_the_dataset_is_valid_and_marks_what_describes_itself(
    loaded: str, imported: tuple[Path, dict[str, Any]]
) -> None:
    assert check_dataset(imported[0]) == []
    rows = load_eval("test", loaded).to_pylist()
    assert len(rows) == 18 and sum(row["self_describing"] for row in rows) == 6
    for row in rows:
        assert row["bin"] == bin_of(row["speedup"]) and row["upstream_bin"] == upstream_bin(row["speedup"])
        assert row["speedup_low"] is None and "targeting" not in row["candidate_code"]
    # 0.35 and 1.16 read one bin higher by the edges of the prompt, 4.0 one bin lower.
    assert {(row["upstream_bin"], row["bin"]) for row in rows} == {(1, 2), (4, 5), (8, 7)}
    assert {row["anchor_kind"] for row in load_eval("train", loaded).to_pylist()} == {"reference", "parent", "kernel"}


def test_lineage_and_outcomes_come_from_both_versions_of_the_log(loaded: str) -> None:
    nodes = {row["node_id"]: row for row in load_table("nodes", dataset=loaded).to_pylist()}
    kernels = {row["kernel_id"]: row for row in load_kernels(dataset=loaded).to_pylist()}

    def outcome(search: str, node: str) -> tuple[str, float | None]:
        kernel = kernels[nodes[f"{search}/{node}"]["kernel_id"]]
        return kernel["status"], kernel["speedup"]

    assert [outcome(V2_SEARCH, f"N{i}") for i in (0, 1, 2, 3, 9)] == [
        ("ok", 1.1), ("ok", 1.65), ("compile", None), ("incorrect", None), ("timeout", None)
    ]  # fmt: skip
    assert f"{V2_SEARCH}/N4" not in nodes and f"{V3_SEARCH}/N2" not in nodes
    assert outcome(V3_SEARCH, "N1") == ("ok", 0.9)
    assert nodes[f"{V2_SEARCH}/N1"]["parent_node_id"] == f"{V2_SEARCH}/N0" and nodes[f"{V2_SEARCH}/N1"]["step"] == 1
    fast = kernels[nodes[f"{V2_SEARCH}/N1"]["kernel_id"]]
    assert fast["time_us_geomean"] == pytest.approx(2.0) and fast["reference_us_geomean"] == pytest.approx(3.3)
    assert kernels[nodes[f"{V3_SEARCH}/N1"]["kernel_id"]]["gpu"] == L40S
    searches = {row["search_id"]: row["arm"] for row in load_table("searches", dataset=loaded).to_pylist()}
    assert searches[V2_SEARCH] == "v2" and searches[V3_SEARCH] == "v3"


def test_pairs_are_labelled_and_can_be_asked_about(loaded: str) -> None:
    pairs = load_pairs("test", loaded).to_pylist()
    assert sorted((pair["task"], pair["speedup"], pair["bin"], pair["upstream_bin"]) for pair in pairs) == [
        ("12_VGG19", 0.9, 4, 3), ("trimul", 1.5, 6, 5)
    ]  # fmt: skip
    for track in ("pairs", "eval", "pool"):
        queries, labels = load_queries(track, "test", loaded), load_labels(track, "test", loaded)
        assert [q.query_id for q in queries] == labels.column("query_id").to_pylist() and queries


def test_published_forecasts_become_submissions(loaded: str, imported: tuple[Path, dict[str, Any]]) -> None:
    import yaml

    folder = imported[0] / "submissions"
    assert len(list(folder.iterdir())) == len(SURROGATES)
    ids = set(load_eval("test", loaded).column("pair_id").to_pylist())
    found = read_forecasts(folder / "upstream-deepseek-v4" / "eval.parquet")
    assert set(found.query_id) == ids and len(found.query_id) == 36 and "unparsed" in set(found.status)
    parsed = found.probabilities[found.status == "ok"]
    assert parsed.sum(axis=1) == pytest.approx(1.0) and parsed.max() == pytest.approx(0.3)
    about = yaml.safe_load((folder / "upstream-deepseek-v4" / "submission.yaml").read_text())
    assert about["name"] == "upstream-deepseek-v4" and about["dataset"] == "upstream"


@pytest.mark.slow
def test_the_same_release_gives_the_same_bytes(imported: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    import_release(folders(write_release(tmp_path / "hub")), tmp_path / "again")
    for path in sorted(p for p in imported[0].rglob("*") if p.is_file() and p.name != "import.json"):
        assert path.read_bytes() == (tmp_path / "again" / path.relative_to(imported[0])).read_bytes(), path


Change = Callable[[dict[str, dict[str, Rows]]], Any]


def event(name: str, index: int, **fields: Any) -> Change:
    def change(rows: dict[str, dict[str, Rows]]) -> None:
        row = rows["events"][name][index]
        row["payload"] = json.dumps({**json.loads(row["payload"]), **fields})

    return change


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda r: r["eval"]["trimul"][1].update(aggregated_speedup=-1.0),
         r"eval-set/data/trimul/eval-00000-of-00001.parquet, row 1, field 'aggregated_speedup': found -1.0"),
        (lambda r: r["eval"]["trimul"][2].update(true_bin=9), "row 2, field 'true_bin': found 9, expected a bin"),
        (lambda r: r["eval"]["trimul"][2].update(anchor_code="x = 1\n"), "row 2, field 'anchor_code'"),
        (lambda r: r["eval"]["trimul"][0].update(hardware=None), "row 0, field 'hardware': found None"),
        (lambda r: r["predictions"]["deepseek_v4"][3].update(comparison_id="zz"), "row 3, field 'comparison_id'"),
        (lambda r: r["predictions"]["deepseek_v4"][3].update(bin_probabilities=[{"bin": 1, "p": 0.5}]),
         "row 3, field 'bin_probabilities': found 0.5, expected probabilities that sum to 1"),
        (lambda r: r["predictions"]["deepseek_v4"][3].update(bin_probabilities=[{"bin": 0, "p": 1.0}]), "row 3, field"),
        (lambda r: r["rl"]["trimul"][1].update(pair_type="odd"), "row 1, field 'pair_type': found 'odd'"),
        (lambda r: r["discovery"]["gpu_mode"][0].update(child_code="y = 1\n"), "row 0, field 'child_code'"),
        (lambda r: r["events"]["trimul__e0033"][3].update(event_kind="mutation_lost"), "field 'event_kind'"),
        (lambda r: r["events"]["trimul__e0033"].pop(0), "a search that begins with search_initialized"),
        (event("trimul__e0033", 4, parent_ulid="gone"), "row 4, field 'payload': found 'gone', expected a parent_ulid"),
        (event("trimul__e0033", 6, evaluation={"observation": {"kind": "odd"}}), "row 6, field 'payload': found 'odd'"),
        (event("trimul__e0033", 6, evaluation={}), "row 6, field 'payload'"),
    ],
)  # fmt: skip
def test_a_surprise_is_named_and_nothing_is_imported(tmp_path: Path, change: Change, expected: str) -> None:
    rows = release()
    change(rows)
    with pytest.raises(UpstreamError) as caught:
        import_release(folders(write_release(tmp_path / "hub", rows)), tmp_path / "out" / "upstream")
    assert any(expected in line for line in caught.value.lines), caught.value.lines
    assert "nothing was imported" in str(caught.value) and "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_files_that_are_missing_cut_or_of_another_shape(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    root = write_release(tmp_path / "hub")
    evals = root / TABLES["eval"].dataset / "data"
    table = pq.read_table(evals / "trimul" / "eval-00000-of-00001.parquet")
    pq.write_table(table.drop_columns(["pack"]), evals / "trimul" / "eval-00000-of-00001.parquet")
    wrong = table.set_column(5, "aggregated_speedup", table.column("aggregated_speedup").cast(pa.string()))
    pq.write_table(wrong, evals / "fp8_quant" / "eval-00000-of-00001.parquet")
    cut = evals / "cross_entropy" / "eval-00000-of-00001.parquet"
    cut.write_bytes(cut.read_bytes()[:-20])
    shutil.rmtree(evals / "gdn_chunk_fwd_o")
    shutil.rmtree(root / TABLES["rl"].dataset)
    with pytest.raises(UpstreamError) as caught:
        import_release(folders(root), tmp_path / "out")
    text = "\n".join(caught.value.lines)
    for expected in (
        "trimul/eval-00000-of-00001.parquet: column 'pack' is missing",
        "row 0, field 'aggregated_speedup': found '0.350631', expected a value of type float",
        "cross_entropy/eval-00000-of-00001.parquet: cannot be read whole",
        "config 'gdn_chunk_fwd_o' names no file",
        "gpu-forecasters-rl-training-pool: no such folder",
    ):
        assert expected in text, expected
    assert not (tmp_path / "out").exists()


def test_an_existing_folder_is_left_alone(tmp_path: Path) -> None:
    with pytest.raises(FileExistsError, match="exists already"):
        import_release(folders(tmp_path), tmp_path)
