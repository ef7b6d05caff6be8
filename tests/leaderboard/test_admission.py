"""What is let in, what is refused, and that nothing is half done."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from leaderboard.admission import admit, problems
from leaderboard.submission import SubmissionError, read_submission
from tests.leaderboard.conftest import edit


@pytest.fixture
def mine(submissions: Path, tmp_path: Path) -> Path:
    """A sound submission in a folder that does not have its name."""
    return Path(shutil.copytree(submissions / "good", tmp_path / "somewhere"))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "submissions").mkdir()
    return tmp_path / "submissions"


def _content(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_sound_submission_comes_in_whole_without_other_files(mine: Path, home: Path) -> None:
    (mine / "weights.bin").write_bytes(b"x")
    assert problems(mine, in_place=False) == []
    added = admit(mine, home)
    assert added == home / "good" and read_submission(added).name == "good"
    assert set(_content(home)) == {f"good/{name}" for name in ("pairs.parquet", "pool.parquet", "submission.yaml")}
    assert all(_content(home)[f"good/{p.name}"] == p.read_bytes() for p in mine.iterdir() if p.name != "weights.bin")


def test_a_name_that_is_taken_is_replaced_only_when_asked(mine: Path, home: Path) -> None:
    admit(mine, home)
    before = _content(home)
    edit(mine, description="another")
    (mine / "pool.parquet").unlink()
    with pytest.raises(SubmissionError, match="'good' exists already; choose another name, or --overwrite"):
        admit(mine, home)
    assert _content(home) == before
    admit(mine, home, overwrite=True)
    assert set(_content(home)) == {"good/pairs.parquet", "good/submission.yaml"}
    with pytest.raises(SubmissionError, match="stands on the leaderboard already"):
        admit(home / "good", home, overwrite=True)


@pytest.mark.parametrize(("change", "message"), [
    ({"status": "reproduced"}, "field 'status': found 'reproduced'; a submission comes in as 'recomputed'"),
    ({"status": "retracted", "reason": "no"}, "field 'status': found 'retracted'"),
    ({"contamination": "not stated"}, "field 'contamination': found 'not stated'; say what it is"),
    ({"cost": "Not stated "}, "field 'cost': found 'not stated'"),
    ({"revision": "0"}, "field 'revision': found '0', and 'synthetic' is at"),
    ({"dataset": "h200-v9"}, "field 'dataset': found 'h200-v9', expected synthetic"),
    ({"scores": {"rps": 0}}, "field 'scores': a submission does not score itself"),
    ({"name": ".."}, "field 'name': found '..'"),
])  # fmt: skip
def test_a_bad_manifest_is_refused_and_leaves_nothing(
    mine: Path, home: Path, change: dict[str, Any], message: str
) -> None:
    edit(mine, **change)
    with pytest.raises(SubmissionError) as refused:
        admit(mine, home)
    assert message in str(refused.value) and "\n" not in str(refused.value)
    assert list(home.iterdir()) == []


def test_bad_forecasts_are_named_by_file_and_row_and_leave_nothing(mine: Path, home: Path) -> None:
    table = pq.read_table(mine / "pairs.parquet")
    halved = table.set_column(1, "p1", pq.read_table(mine / "pairs.parquet").column("p2"))
    pq.write_table(halved, mine / "pairs.parquet")
    with pytest.raises(SubmissionError, match=r"pairs\.parquet, row \d+, field 'p1..p8': found 'a sum of"):
        admit(mine, home)
    pq.write_table(table, mine / "pairs.parquet")
    pq.write_table(table, mine / "eval.parquet")
    with pytest.raises(SubmissionError, match=r"eval\.parquet: 'synthetic' has no track 'eval', expected pairs, pool"):
        admit(mine, home)
    (mine / "eval.parquet").unlink()
    from benchmark.data_access import load_queries

    unseen = {query.query_id for query in load_queries("pairs", "test_unseen_task", dataset="synthetic")}
    keep = [i for i, query in enumerate(table.column("query_id").to_pylist()) if query not in unseen]
    pq.write_table(table.take(keep), mine / "pairs.parquet")
    with pytest.raises(SubmissionError, match=r"pairs\.parquet: no forecast of split 'test_unseen_task'"):
        admit(mine, home)
    assert list(home.iterdir()) == []


def test_several_problems_are_counted(mine: Path, home: Path) -> None:
    edit(mine, cost="not stated", revision="0")
    (mine / "pool.parquet").write_bytes(b"PAR1")
    assert len(problems(mine, in_place=False)) == 3
    with pytest.raises(SubmissionError, match=r"\(and 2 more\)$"):
        admit(mine, home)


def test_evidence_of_a_retracted_submission_may_be_anything(submissions: Path, tmp_path: Path) -> None:
    shutil.copytree(submissions / "withdrawn", tmp_path / "withdrawn")
    (tmp_path / "withdrawn" / "pairs.parquet").write_bytes(b"")
    assert problems(tmp_path / "withdrawn") == []


def test_an_interrupted_replacement_leaves_the_old_one(mine: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    admit(mine, home)
    before = _content(home)
    rename = Path.rename

    def fails(self: Path, target: Path) -> Path:
        if self.name.endswith(".partial"):
            raise OSError("disk full")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fails)
    with pytest.raises(OSError, match="disk full"):
        admit(mine, home, overwrite=True)
    assert _content(home) == before
