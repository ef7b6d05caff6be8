"""`forecast` and `evaluate`: what goes wrong, what is kept, and how a run goes on; on the synthetic dataset."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmark import read_forecasts
from harness.cli import main

DATA = ("--dataset", "synthetic")
MODULE = '''
import time
from pathlib import Path
from benchmark import Forecast
from harness.surrogates import Told, Unavailable

CALLS = Path("calls.txt")
FLAT = (1 / 8,) * 8

def note(queries):
    with CALLS.open("a") as file:
        file.writelines(q.query_id + "\\n" for q in queries)

class Flat:
    """The same for all, and it notes what it is asked."""
    def forecast(self, queries):
        note(queries)
        return [self.one(q) for q in queries]
    def one(self, query):
        return Forecast(FLAT, input_tokens=3, output_tokens=2)

class Raises(Flat):
    def one(self, query):
        if query.query_id.endswith(("0", "1")):
            raise RuntimeError("no idea")
        return super().one(query)

class NotANumber(Flat):
    def one(self, query):
        bad = query.query_id.endswith(("0", "1"))
        return Forecast((float("nan"),) * 8) if bad else super().one(query)

class TooFew(Flat):
    def forecast(self, queries):
        return [self.one(q) for q in queries if not q.query_id.endswith(("0", "1"))]

class Hangs(Flat):
    def one(self, query):
        if query.query_id == sorted(Path("hang.txt").read_text().split())[0]:
            time.sleep(30)
        return super().one(query)

class Always(Flat):
    def one(self, query):
        time.sleep(30)

class Endpoint(Flat):
    batch = 1
    def one(self, query):
        if Path("down").exists() and query.query_id >= Path("down").read_text():
            raise Unavailable("http://localhost:1: connection refused; start the server, then run the command again")
        return Told(FLAT, raw={"text": "all alike"})
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, synthetic_dataset: Path) -> Iterator[Path]:
    work = tmp_path / "work"
    work.mkdir()
    (work / "rogue.py").write_text(MODULE)
    monkeypatch.chdir(work)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr("leaderboard.submission.SUBMISSIONS", work / "submissions")
    (work / "submissions").mkdir()
    yield work
    sys.modules.pop("rogue", None)


class Console:
    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys, self.out, self.err = capsys, "", ""

    def __call__(self, *arguments: str) -> int:
        with pytest.raises(SystemExit) as stopped:
            main([*arguments, *DATA])
        self.out, self.err = self.capsys.readouterr()
        return int(stopped.value.code or 0)

    def json(self, *arguments: str) -> dict[str, Any]:
        assert self(*arguments, "--json") == 0, self.err
        found: dict[str, Any] = json.loads(self.out)
        return found


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], folder: Path) -> Console:
    return Console(capsys)


def forecast(name: str, *more: str) -> tuple[str, ...]:
    return ("forecast", f"rogue:{name}", "--track", "pairs", "--out", "x.parquet", *more)


def asked(folder: Path) -> list[str]:
    calls = folder / "calls.txt"
    found = calls.read_text().split() if calls.exists() else []
    calls.unlink(missing_ok=True)
    return found


@pytest.mark.parametrize(
    ("name", "problem"),
    [("Raises", "RuntimeError: no idea"), ("NotANumber", "not all finite"), ("TooFew", "returned 0 forecasts for 1")],
)
def test_the_others_are_kept_and_the_end_says_how_many(run: Console, name: str, problem: str) -> None:
    report = run.json(*forecast(name))
    forecasts = read_forecasts("x.parquet")
    failed = [i for i, s in zip(forecasts.query_id, forecasts.status, strict=True) if s == "error"]
    assert failed == [i for i in forecasts.query_id if i.endswith(("0", "1"))] and 0 < len(failed) < len(forecasts)
    assert report["answered"] == len(forecasts) - len(failed)
    assert sum(report["problems"].values()) == len(failed)
    assert f"{len(failed)} failed" in run.err and problem in run.err


def test_a_hanging_query_is_an_error_after_the_limit(run: Console, folder: Path) -> None:
    run.json(*forecast("Flat"))
    ids = asked(folder)
    (folder / "hang.txt").write_text(ids[3])
    report = run.json(*forecast("Hangs", "--timeout", "0.3", "--overwrite"))
    forecasts = read_forecasts("x.parquet")
    assert [i for i, s in zip(forecasts.query_id, forecasts.status, strict=True) if s == "error"] == [ids[3]]
    assert report["problems"] == {"no answer in 0.3 s": 1}


def test_one_that_always_hangs_ends_soon_with_exit_1(run: Console, folder: Path) -> None:
    assert run(*forecast("Always", "--timeout", "0.1", "--batch", "1")) == 1
    assert "no query was answered" in run.err
    assert not (folder / "x.parquet").exists()


def test_a_complete_run_leaves_no_log_and_counts_tokens(run: Console, folder: Path) -> None:
    report = run.json(*forecast("Flat"))
    n = report["queries"]
    assert (report["input_tokens"], report["output_tokens"], report["answered_before"]) == (3 * n, 2 * n, 0)
    assert sorted(p.name for p in folder.glob("x.*")) == ["x.parquet"]


def test_an_endpoint_that_goes_down_is_one_line_and_the_next_run_goes_on(run: Console, folder: Path) -> None:
    run.json(*forecast("Flat"))
    ids = sorted(asked(folder))
    (folder / "down").write_text(ids[5])
    assert run(*forecast("Endpoint", "--overwrite")) == 1
    lines = [line for line in run.err.splitlines() if "answers are kept" not in line]
    assert lines == ["kernelcast: http://localhost:1: connection refused; start the server, then run the command again"]
    assert "5 answers are kept in x.parquet.answers.jsonl; the same command goes on from there" in run.err
    assert len(asked(folder)) == 6
    (folder / "down").unlink()
    report = run.json(*forecast("Endpoint", "--overwrite"))
    assert (report["answered"], report["answered_before"]) == (len(ids), 5)
    assert sorted(asked(folder)) == ids[5:]
    # Raw output was kept, so that the log is a record and stays.
    lines = (folder / "x.parquet.answers.jsonl").read_text().splitlines()
    assert [json.loads(line)["raw"] for line in lines] == [{"text": "all alike"}] * len(ids)


def test_errors_are_asked_again_and_answers_are_not(run: Console, folder: Path) -> None:
    run.json(*forecast("Raises"))
    failed = {i for i in asked(folder) if i.endswith(("0", "1"))}
    run.json(*forecast("Raises", "--overwrite"))
    assert set(asked(folder)) == failed


def test_a_cache_serves_every_run_with_the_same_code_and_options(run: Console, folder: Path) -> None:
    run.json(*forecast("Flat", "--cache", "kept"))
    n = len(asked(folder))
    report = run.json(*forecast("Flat", "--cache", "kept", "--overwrite"))
    assert (report["answered_before"], asked(folder)) == (n, [])
    (folder / "rogue.py").write_text(MODULE + "\n# edited\n")
    sys.modules.pop("rogue")
    assert run.json(*forecast("Flat", "--cache", "kept", "--overwrite"))["answered_before"] == 0


def test_evaluate_goes_on_too_and_says_what_the_dataset_lacks(run: Console, folder: Path) -> None:
    (folder / "down").write_text("q")
    arguments = ("evaluate", "rogue:Endpoint", "--out", "./mine", "--resamples", "20")
    code = run(*arguments)
    kept = len((folder / "mine.answers.jsonl").read_text().splitlines()) if code else 0
    (folder / "down").unlink()
    asked(folder)
    assert run(*arguments) == 0
    total = sum(len(read_forecasts(p)) for p in (folder / "mine").glob("*.parquet"))
    assert len(asked(folder)) == total - kept
    assert "track eval: skipped, because dataset synthetic does not have it" in run.err or (
        (folder / "mine" / "eval.parquet").exists()
    )


def test_a_quick_look_takes_a_sample_and_keeps_nothing(run: Console, folder: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("harness.cli.quick.QUERIES", 12)
    assert run("evaluate", "base-rate", "--out", str(folder / "submissions" / "base-rate"), "--resamples", "0") == 0
    table = run.json("evaluate", "rogue:Flat", "--quick")
    assert {row["name"] for row in table["rows"]} == {"rogue-Flat", "base-rate"}
    assert all(row["coverage"] == 1 and row["queries"] <= 12 and row["rank"] is None for row in table["rows"])
    assert len(asked(folder)) == 12 * len({row["track"] for row in table["rows"]})
    assert run("evaluate", "rogue:Flat", "--quick") == 0
    assert "> rogue-Flat" in run.out and "a sample of" in run.out
    assert run("evaluate", "rogue:Flat", "--quick", "--limit", "3") == 2
    assert len(run.err.splitlines()) == 1


def test_a_saved_surrogate_is_used_again(run: Console, folder: Path) -> None:
    run.json("forecast", "length", "--track", "pool", "--out", "a.parquet", "--save", "saved")
    report = run.json("forecast", "trained=saved", "--track", "pool", "--out", "b.parquet")
    assert report["answered"] == report["queries"]
    first, second = read_forecasts("a.parquet"), read_forecasts("b.parquet")
    assert first.probabilities.tolist() == second.probabilities.tolist()
    assert run("forecast", "length", "--track", "pool", "--out", "c.parquet", "--save", "saved") == 2
    assert "'saved' exists already" in run.err
    assert run("forecast", "uniform", "--track", "pool", "--out", "c.parquet", "--save", "other") == 2
    assert "no fitted state to save" in run.err


def test_concurrency_that_a_surrogate_does_not_take_is_said(run: Console) -> None:
    assert run(*forecast("Flat", "--concurrency", "4")) == 0
    assert "does not declare concurrency" in run.err


def test_the_speed_of_the_committed_is_read_from_their_files(run: Console, folder: Path) -> None:
    assert run("reproduce", "uniform", "length", "--resamples", "0") == 0
    rows = run.json("reproduce", "uniform", "length", "--speed")["rows"]
    assert {(row["name"], row["track"]) for row in rows} >= {("uniform", "pairs"), ("length", "pool")}
    assert all(row["rows"] > 0 and row["rows_per_second"] > 0 for row in rows)
