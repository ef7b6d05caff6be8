"""`forecast`, `score`, `evaluate`, `leaderboard` and `reproduce`, on the synthetic dataset."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmark import Forecast, Query, read_forecasts
from harness.cli import main
from harness.cli.standing import places, submission_name
from leaderboard.submission import is_name

TRACKS = ("pairs", "pool")
SPLITS = ("test", "test_unseen_task")


class Console:
    """Runs commands and keeps what they print."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys
        self.out = self.err = ""

    def __call__(self, *arguments: str | Path) -> int:
        with pytest.raises(SystemExit) as stopped:
            main([str(a) for a in arguments])
        self.out, self.err = self.capsys.readouterr()
        return int(stopped.value.code or 0)

    def json(self, *arguments: str | Path) -> dict[str, Any]:
        assert self(*arguments, "--json") == 0, self.err
        value = json.loads(self.out)
        assert isinstance(value, dict)
        return value


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], synthetic_dataset: Path) -> Console:
    return Console(capsys)


@pytest.fixture
def submissions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "submissions"
    folder.mkdir()
    monkeypatch.setattr("leaderboard.submission.SUBMISSIONS", folder)
    return folder


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of a module in the working directory with surrogates that behave badly in different ways."""
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "mine_for_tests.py").write_text(
        "from benchmark import Forecast\n"
        "SURE = Forecast(probabilities=(0, 0, 0, 0, 0, 0, 0, 1))\n"
        "class Sure:\n"
        '    """Forecasts a great speedup, always."""\n'
        "    def forecast(self, queries):\n"
        "        return [SURE for _ in queries]\n"
        "class Hopeless:\n"
        "    def forecast(self, queries):\n"
        "        raise RuntimeError('no idea')\n"
        "class Sometimes(Sure):\n"
        "    def forecast(self, queries):\n"
        "        if any(q.query_id < 'p-4' for q in queries):\n"
        "            raise RuntimeError('no idea')\n"
        "        return super().forecast(queries)\n"
        "class Leaves(Sure):\n"
        "    def __init__(self):\n"
        "        raise SystemExit(0)\n"
        "class LeavesWhileFitting(Sure):\n"
        "    def fit(self, train, validation):\n"
        "        raise SystemExit(0)\n"
        "class Curious(Sure):\n"
        "    information = 'oracle'\n"
    )
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield "mine_for_tests"
    sys.modules.pop("mine_for_tests", None)


DATA = ("--dataset", "synthetic")
FAST = (*DATA, "--resamples", "40")


def test_forecast_then_score(run: Console, submissions: Path, tmp_path: Path) -> None:
    out = tmp_path / "random.parquet"
    report = run.json("forecast", "random", "--seed", "3", "--track", "pairs", "--out", out, *DATA)
    assert report["answered"] == report["queries"] > 0
    forecasts = read_forecasts(out)
    assert {k: forecasts.metadata[k] for k in ("dataset", "track", "surrogate")} == {
        "dataset": "synthetic",
        "track": "pairs",
        "surrogate": "random",
    }
    assert json.loads(forecasts.metadata["configuration"]) == {
        "target": "random",
        "options": {"seed": 3},
        "transductive": False,
    }
    scored = run.json("score", out, "--resamples", "40")
    (row,) = scored["rows"]
    assert (row["name"], row["track"], row["split"], row["coverage"]) == ("random", "pairs", "test", 1.0)
    assert row["metrics"]["rps"]["low"] <= row["metrics"]["rps"]["value"] <= row["metrics"]["rps"]["high"]
    assert set(row["per_task"]) == {"row_softmax", "row_total"}
    assert row["rank"] is None  # chance is a reference row, whatever the file is called
    assert run("score", out, "--resamples", "40") == 0
    assert "ranked probability score" in run.out
    assert run.out.splitlines()[-1].startswith("random, pairs, test: not ranked: a reference row")


def test_other_splits_can_be_scored_and_have_no_place(run: Console, submissions: Path, tmp_path: Path) -> None:
    out = tmp_path / "train.parquet"
    run.json("forecast", "uniform", "--track", "pool", "--split", "train", "--out", out, *DATA)
    (row,) = run.json("score", out, "--split", "train", "--resamples", "0")["rows"]
    assert (row["split"], row["rank"]) == ("train", None)
    assert run("score", out) == 2
    assert f"{out} has forecasts of train; none of test or test_unseen_task: give --split train" in run.err


def test_what_cannot_be_scored_says_what_it_is_and_what_to_do(run: Console, submissions: Path, tmp_path: Path) -> None:
    out = tmp_path / "random.parquet"
    run.json("forecast", "random", "--track", "pairs", "--out", out, *DATA)
    for arguments, words in (
        ((out, "--track", "pool"), f"{out}: made for track 'pairs', and is scored on track 'pool'"),
        ((out, "--dataset", "h200-v0"), f"{out}: made for dataset 'synthetic', and is scored on dataset 'h200-v0'"),
        ((tmp_path,), "submission.yaml: no such file; every submission needs one: `kernelcast evaluate SURROGATE"),
    ):
        assert run("score", *arguments) == 2
        (line,) = run.err.splitlines()
        assert words in line
    assert run("evaluate", "uniform", "--out", submissions / "uniform", *FAST) == 0
    (submissions / "uniform" / "pool.parquet").write_bytes(out.read_bytes())
    assert run("score", submissions / "uniform") == 2
    assert "pool.parquet: made for track 'pairs', and is scored on track 'pool'" in run.err


def test_limit_takes_the_first_queries_by_id(run: Console, tmp_path: Path) -> None:
    run.json("forecast", "uniform", "--track", "pairs", "--out", tmp_path / "all.parquet", *DATA)
    run.json("forecast", "uniform", "--track", "pairs", "--out", tmp_path / "some.parquet", "--limit", "5", *DATA)
    some = read_forecasts(tmp_path / "some.parquet").query_id.tolist()
    assert some == read_forecasts(tmp_path / "all.parquet").query_id.tolist()[:5]


def test_a_file_is_never_overwritten_silently(run: Console, tmp_path: Path) -> None:
    out = tmp_path / "x.parquet"
    out.write_text("mine")
    assert run("forecast", "uniform", "--track", "pairs", "--out", out, *DATA) == 2
    assert out.read_text() == "mine"
    problem = f"'{out}' exists already; give another --out, or --overwrite to replace it"
    assert run.err.splitlines() == [f"kernelcast: {problem}"]
    assert run("forecast", "uniform", "--track", "pairs", "--out", out, "--overwrite", *DATA) == 0


@pytest.mark.parametrize(
    ("out", "words"),
    [
        (".", "'.' is a folder, expected a file to write"),
        ("/proc/x.parquet", "no file can be made in '/proc'"),
        ("mine_for_tests.py/x", "'mine_for_tests.py' is not a folder"),
        ("mine_for_tests.py/x/y/z", "'mine_for_tests.py' is not a folder"),
        ("x" * 300, "cannot be reached"),
    ],
)
def test_where_nothing_can_be_written_nothing_is_asked(run: Console, mine: str, out: str, words: str) -> None:
    before = sorted(Path().iterdir())
    assert run("forecast", f"{mine}:Hopeless", "--track", "pairs", "--out", out, "--overwrite", *DATA) == 2
    (line,) = run.err.splitlines()
    assert words in line and "Errno" not in line
    assert sorted(Path().iterdir()) == before


def test_a_pipe_or_a_device_is_never_replaced(run: Console, mine: str) -> None:
    os.mkfifo("pipe")
    assert run("forecast", f"{mine}:Hopeless", "--track", "pairs", "--out", "pipe", "--overwrite", *DATA) == 2
    assert run.err == "kernelcast: 'pipe' is not a regular file, expected a place for one; give another --out\n"
    assert Path("pipe").is_fifo()


def test_a_message_names_the_option_that_it_is_about(run: Console, tmp_path: Path) -> None:
    assert run("score", "absent.parquet", "--figures", tmp_path) == 2
    assert f"'{tmp_path}' exists already; give another --figures, or --overwrite" in run.err
    assert run("leaderboard", "--site", tmp_path) == 2
    assert f"'{tmp_path}' exists already; give another --site, or --overwrite" in run.err


def test_a_name_that_no_submission_can_have_is_refused_before_anything_is_asked(run: Console, mine: str) -> None:
    assert run("evaluate", f"{mine}:Hopeless", "--out", "./my sub", *FAST) == 2
    (line,) = run.err.splitlines()
    assert line.startswith("kernelcast: 'my sub' cannot name a submission: expected up to 100 letters")
    assert not Path("my sub").exists()


def test_a_long_expression_gives_a_name_that_a_submission_can_have() -> None:
    for expression in ("openai=model?base_url=http://localhost:8000/v1&" + "option=1&" * 20, "=x", "\u00fc(a,b)"):
        assert is_name(submission_name(expression))


def test_a_submission_is_not_kept_where_a_file_lies(run: Console, mine: str) -> None:
    before = Path("mine_for_tests.py").read_bytes()
    assert run("evaluate", f"{mine}:Hopeless", "--out", "./mine_for_tests.py", "--overwrite", *FAST) == 2
    (line,) = run.err.splitlines()
    assert "mine_for_tests.py' is not a folder" in line
    assert Path("mine_for_tests.py").read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("forecast", "unifrom", "--track", "pairs", "--out", "x", *DATA), "did you mean 'uniform'"),
        (("forecast", "uniform", "--track", "pear", "--out", "x", *DATA), "unknown track 'pear'"),
        (("forecast", "uniform", "--track", "pairs", "--split", "tset", "--out", "x", *DATA), "did you mean 'test'"),
        (("evaluate", "uniform", "--dataset", "sinthetic"), "did you mean 'synthetic'"),
        (("evaluate", "weights=some/model", *DATA), "unknown surrogate 'weights=some/model'"),
        (("evaluate", "mine_for_tests:Leaves", *DATA), "cannot create 'mine_for_tests:Leaves': SystemExit: 0"),
        (("evaluate", "mine_for_tests:LeavesWhileFitting", *DATA), "cannot fit 'LeavesWhileFitting': SystemExit: 0"),
        (("forecast", "mine_for_tests:Leaves", "--track", "pairs", "--out", "x", *DATA), "SystemExit: 0"),
        (("score", "absent.parquet"), "absent.parquet: no such file"),
        (("leaderboard", "--json", "--csv"), "choose one"),
        (("reproduce", "mine"), "not a committed baseline"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(
    run: Console, submissions: Path, mine: str, arguments: Sequence[str], words: str, tmp_path: Path
) -> None:
    assert run(*arguments) == 2
    assert run.out == ""
    assert words in run.err and len(run.err.splitlines()) == 1 and run.err.startswith("kernelcast: ")
    assert not (tmp_path / "work" / "x").exists()


def test_a_file_that_is_not_a_forecast_is_one_line_and_exit_2(run: Console, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.parquet"
    wrong.write_bytes(b"PAR1 and then nothing")
    assert run("score", wrong, "--json") == 2
    assert run.out == ""
    assert len(run.err.splitlines()) == 1 and str(wrong) in run.err


def test_evaluate_puts_a_newcomer_among_the_others(run: Console, submissions: Path, mine: str) -> None:
    for name in ("base-rate", "oracle"):
        assert run("evaluate", name, "--out", submissions / name, *FAST) == 0
    table = run.json("evaluate", f"{mine}:Sure", *FAST)
    assert table["newcomer"] == f"{mine}-Sure"
    place = {(r["name"], r["track"], r["split"]): r for r in table["rows"]}
    assert set(place) == {(n, t, s) for n in (f"{mine}-Sure", "base-rate", "oracle") for t in TRACKS for s in SPLITS}
    assert place["oracle", "pairs", "test"]["rank"] is None
    assert place["oracle", "pairs", "test"]["metrics"]["ap_141"]["value"] == pytest.approx(1.0)
    assert place["oracle", "pool", "test"]["metrics"]["auc_best"]["value"] == pytest.approx(1.0)
    own = place[f"{mine}-Sure", "pairs", "test"]
    assert (own["coverage"], own["information"], own["description"]) == (
        1.0,
        "source",
        "Forecasts a great speedup, always.",
    )
    assert own["metrics"]["rps"]["value"] > place["base-rate", "pairs", "test"]["metrics"]["rps"]["value"]
    assert run("evaluate", f"{mine}:Sure", *FAST) == 0
    lines = [line for line in run.out.splitlines() if line.startswith(f"{mine}-Sure, ")]
    assert len(lines) == 4
    assert all(": rank 1, shared by 2 (cannot be told apart); " in line for line in lines)
    assert sorted(p.name for p in submissions.iterdir()) == ["base-rate", "oracle"]


@pytest.mark.parametrize(
    ("ranks", "words"),
    [
        ((1, 2, None), "rank 1 of 2; ap_141 0.500"),
        ((1, 1, 1), "rank 1, shared by 3 (cannot be told apart); ap_141 0.500"),
        ((2, 1, 2), "rank 2 of 3, shared by 2 (cannot be told apart); ap_141 0.500"),
        ((None, 1, 1), "not ranked: no reason; ap_141 0.500"),
    ],
)
def test_the_closing_line_says_who_shares_a_rank(ranks: Sequence[int | None], words: str) -> None:
    figure = {"value": 0.5, "low": None, "high": None, "reason": None}
    rows = [
        {"name": f"n{i}", "track": "pairs", "split": "test", "rank": rank, "unranked": "no reason",
         "metrics": {"ap_141": figure}}
        for i, rank in enumerate(ranks)
    ]  # fmt: skip
    table = {"rows": rows, "newcomer": "n0", "headlines": {"pairs": "ap_141"}}
    assert places(table) == [f"n0, pairs, test: {words}"]


def test_gbdt_beats_chance_on_unseen_seeds(run: Console, submissions: Path) -> None:
    assert run("evaluate", "random", "--out", submissions / "random", *FAST) == 0
    rows = run.json("evaluate", "gbdt", *FAST)["rows"]
    for track, metric in (("pairs", "spearman"), ("pool", "spearman"), ("pool", "pairwise")):
        value = {r["name"]: r["metrics"][metric]["value"] for r in rows if (r["track"], r["split"]) == (track, "test")}
        assert value["gbdt"] > value["random"] + 0.2, (track, metric)
    for track in TRACKS:
        rps = {r["name"]: r["metrics"]["rps"]["value"] for r in rows if (r["track"], r["split"]) == (track, "test")}
        assert rps["gbdt"] < 0.7 * rps["random"]


def test_a_surrogate_that_never_answers_exits_1_and_writes_nothing(
    run: Console, submissions: Path, mine: str, tmp_path: Path
) -> None:
    assert run("evaluate", f"{mine}:Hopeless", "--out", tmp_path / "sub", "--quiet", *FAST) == 1
    assert "RuntimeError: no idea" in run.err and "no query was answered" in run.err
    assert not (tmp_path / "sub").exists()
    out = tmp_path / "x.parquet"
    assert run("forecast", f"{mine}:Hopeless", "--track", "pairs", "--out", out, "--json", *DATA) == 1
    assert json.loads(run.out)["out"] is None
    assert not out.exists()


def test_one_that_sometimes_fails_keeps_its_answers(run: Console, mine: str, tmp_path: Path) -> None:
    out = tmp_path / "x.parquet"
    report = run.json("forecast", f"{mine}:Sometimes", "--track", "pairs", "--out", out, *DATA)
    forecasts = read_forecasts(out)
    failed = [i for i, s in zip(forecasts.query_id, forecasts.status, strict=True) if s == "error"]
    assert failed == [i for i in forecasts.query_id if i < "p-4"] and failed
    assert report["problems"] == {"RuntimeError: no idea": len(failed)}
    assert report["answered"] == len(forecasts) - len(failed)
    assert f"{len(failed)} failed, {len(failed)} of them with: RuntimeError: no idea" in run.err


def test_labels_reach_no_class_but_ours(run: Console, mine: str, submissions: Path) -> None:
    assert run("evaluate", f"{mine}:Curious", *FAST) == 2
    assert "declares information 'oracle'" in run.err


def test_the_committed_submission_leaderboard_and_check(run: Console, submissions: Path, tmp_path: Path) -> None:
    assert run("evaluate", "no-change", "--out", submissions / "no-change", *FAST) == 0
    assert run("evaluate", "no-change", "--out", submissions / "no-change", *FAST) == 2
    assert run("evaluate", "no-change", "--out", submissions / "no-change", "--overwrite", *FAST) == 0
    table = run.json("leaderboard", *FAST)
    assert {(r["name"], r["track"], r["split"]) for r in table["rows"]} == {
        ("no-change", t, s) for t in TRACKS for s in SPLITS
    }
    for option, words in {"": "pairs, split test", "--markdown": "| rank | name |", "--csv": "name,dataset"}.items():
        assert run("leaderboard", *([option] if option else []), *FAST) == 0
        assert words in run.out
    assert run("leaderboard", "--record", *FAST) == 0
    assert run("leaderboard", "--check") == 0
    scored = run.json("score", submissions / "no-change", "--resamples", "40")
    assert {(r["track"], r["split"]) for r in scored["rows"]} == {(t, s) for t in TRACKS for s in SPLITS}
    (submissions / "no-change" / "pool.parquet").write_bytes(b"PAR1")
    assert run("leaderboard", "--check", "--json") == 1
    row, _ = json.loads(run.out)["rows"]
    assert row["name"] == "no-change" and "pool.parquet" in row["problem"]


def test_a_broken_submission_does_not_stop_the_table(run: Console, submissions: Path) -> None:
    for name in ("uniform", "random", "no-change"):
        assert run("evaluate", name, "--out", submissions / name, *FAST) == 0
    (submissions / "random" / "pool.parquet").write_bytes(b"PAR1")
    (submissions / "no-change" / "submission.yaml").unlink()
    for arguments, code in ((("leaderboard", "--json"), 1), (("evaluate", "uniform", "--json", "--quiet"), 0)):
        assert run(*arguments, *FAST) == code
        assert {r["name"] for r in json.loads(run.out)["rows"]} == {"uniform"}
        warnings = sorted(line for line in run.err.splitlines() if line.startswith("kernelcast: skipped submission "))
        assert len(warnings) == 2 and "'no-change'" in warnings[0] and "'random'" in warnings[1]
    assert run("leaderboard", "--check") == 1
    assert run("score", submissions / "random") == 2
    assert run.err.startswith("kernelcast: ") and "skipped" not in run.err.splitlines()[-1]


def test_reproduce_writes_the_baselines_and_finds_a_change(run: Console, submissions: Path) -> None:
    names = ("uniform", "random")
    table = run.json("reproduce", *names, *FAST)
    assert {r["name"] for r in table["rows"]} == set(names)
    before = {p: p.read_bytes() for p in submissions.glob("*/*")}
    assert len(before) == 6
    assert run("reproduce", *names, *FAST) == 0
    assert {p: p.read_bytes() for p in submissions.glob("*/*")} == before
    assert run("reproduce", *names, "--check", *DATA) == 0
    assert run("forecast", "random?seed=9", "--track", "pairs", "--out", submissions / "random/pairs.parquet",
               "--overwrite", *DATA) == 0  # fmt: skip
    (submissions / "uniform" / "pool.parquet").unlink()
    assert run("reproduce", *names, "--check", *DATA) == 1
    problems = [line for line in run.err.splitlines() if ".parquet:" in line]
    assert problems == ["uniform/pool.parquet: is not committed", "random/pairs.parquet: other queries or statuses"]


def test_a_forecast_is_the_same_alone_and_in_a_batch(run: Console, tmp_path: Path) -> None:
    for batch in ("1", "1000"):
        out = tmp_path / f"{batch}.parquet"
        run.json("forecast", "gbdt", "--track", "pool", "--out", out, "--batch", batch, *DATA)
    one, many = (read_forecasts(tmp_path / f"{batch}.parquet") for batch in ("1", "1000"))
    assert one.probabilities.tolist() == many.probabilities.tolist()


def test_the_public_names_are_those_of_benchmark() -> None:
    import benchmark
    import kernelcast

    assert kernelcast.Query is Query and kernelcast.Forecast is Forecast
    assert set(kernelcast.__all__) == set(benchmark.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'absent'"):
        kernelcast.absent  # noqa: B018


def run_in(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a process of its own, in a folder."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    command = [sys.executable, "-m", "harness.cli", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)


def test_what_a_surrogate_prints_never_reaches_standard_output(synthetic_dataset: Path, tmp_path: Path) -> None:
    (tmp_path / "loud.py").write_text(
        "import os\n"
        "from benchmark import Forecast\n"
        "def shout(where):\n"
        "    print('python', where)\n"
        "    os.write(1, f'native {where}\\n'.encode())\n"
        "shout('import')\n"
        "class Loud:\n"
        "    def __init__(self):\n"
        "        shout('init')\n"
        "    def fit(self, train, validation):\n"
        "        shout('fit')\n"
        "    def forecast(self, queries):\n"
        "        shout('forecast')\n"
        "        return [Forecast(probabilities=[1 / 8] * 8) for _ in queries]\n"
    )
    done = run_in(tmp_path, "forecast", "loud:Loud", "--track", "pool", "--out", "x.parquet", "--json", *DATA)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["answered"] > 0
    said = set(done.stderr.splitlines())
    assert {f"{how} {where}" for how in ("python", "native") for where in ("import", "init", "fit", "forecast")} <= said


def test_it_works_in_a_folder_with_a_tasks_and_a_benchmark_of_its_own(synthetic_dataset: Path, tmp_path: Path) -> None:
    (tmp_path / "tasks.py").write_text("raise SystemExit('the wrong module')\n")
    (tmp_path / "benchmark").mkdir()
    (tmp_path / "benchmark" / "__init__.py").write_text("raise SystemExit('the wrong package')\n")
    (tmp_path / "model.py").write_text(
        "import tasks\n"
        "from benchmark import Forecast\n"
        "class Model:\n"
        "    def forecast(self, queries):\n"
        "        return [Forecast(probabilities=[1 / 8] * 8) for _ in queries]\n"
    )
    done = run_in(tmp_path, "forecast", "model:Model", "--track", "pairs", "--out", "x.parquet", "--json", *DATA)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["answered"] > 0
