"""`submit`, `leaderboard` and `score`: what they print, write, refuse and exit with, on the synthetic dataset."""

from __future__ import annotations

import json
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.cli import main

FAST = ("--dataset", "synthetic", "--resamples", "40")
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], synthetic_dataset: Path) -> Run:
    """Runs a command and returns its exit code and what it printed to either stream."""

    def run(*arguments: str | Path) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stopped:
            main([str(a) for a in arguments])
        return (int(stopped.value.code or 0), *capsys.readouterr())

    return run


@pytest.fixture(scope="module")
def made(synthetic_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Submissions as `evaluate` writes them, made once: two for the board, and `mine`, complete and from outside."""
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KERNELCAST_DATA", str(synthetic_folder.parent))
        patch.setattr("leaderboard.submission.SUBMISSIONS", tmp_path_factory.mktemp("nothing"))
        for name, surrogate in {"no-change": "no-change", "uniform": "uniform", "mine": "random?seed=5"}.items():
            with pytest.raises(SystemExit) as stopped:
                main(["evaluate", surrogate, "--out", str(folder / name), "--quiet", *FAST])
            assert not stopped.value.code
    edit(folder / "mine", kind="surrogate", status="recomputed")
    return folder


@pytest.fixture
def board(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of submissions with two in it, in a checkout with a README."""
    folder = tmp_path / "leaderboard" / "submissions"
    for name in ("no-change", "uniform"):
        shutil.copytree(made / name, folder / name)
    (tmp_path / "README.md").write_text("# R\n<!-- table:begin -->\n<!-- table:end -->\n")
    monkeypatch.setattr("leaderboard.submission.SUBMISSIONS", folder)
    return folder


@pytest.fixture
def mine(made: Path, tmp_path: Path) -> Path:
    """A complete submission from outside, not added yet."""
    return Path(shutil.copytree(made / "mine", tmp_path / "mine"))


def edit(folder: Path, **changes: Any) -> None:
    path = folder / "submission.yaml"
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), **changes}))


def test_submit_adds_shows_the_place_and_never_overwrites_silently(run: Run, board: Path, mine: Path) -> None:
    code, out, err = run("submit", mine, "--resamples", "40")
    assert code == 0 and f"added {board / 'mine'}" in err
    assert out.startswith("mine, pairs, test: rank ")
    assert {p.name for p in (board / "mine").iterdir()} == {"pairs.parquet", "pool.parquet", "submission.yaml"}
    edit(mine, description="changed")
    code, out, err = run("submit", mine, "--resamples", "40")
    assert (code, out) == (2, "") and err.startswith("kernelcast: 'mine' exists already")
    assert "changed" not in (board / "mine" / "submission.yaml").read_text()
    code, out, _ = run("submit", mine, "--overwrite", "--json", "--resamples", "40", "--quiet")
    value = json.loads(out)
    assert code == 0 and value["name"] == "mine" and {row["name"] for row in value["rows"]} == {"mine"}
    assert "changed" in (board / "mine" / "submission.yaml").read_text()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"score": 0.99}, "field 'score': a submission does not score itself"),
        ({"status": "reproduced"}, "a submission comes in as 'recomputed'"),
        ({"contamination": "not stated"}, "field 'contamination': found 'not stated'"),
    ],
)
def test_submit_refuses_in_one_line_and_adds_nothing(
    run: Run, board: Path, mine: Path, change: dict[str, Any], words: str
) -> None:
    edit(mine, **change)
    code, out, err = run("submit", mine, "--resamples", "0")
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert words in err and str(mine) in err
    assert sorted(p.name for p in board.iterdir()) == ["no-change", "uniform"]


def test_submit_of_nothing_says_what_is_expected(run: Run, board: Path, tmp_path: Path) -> None:
    code, _, err = run("submit", tmp_path / "absent")
    assert code == 2 and "no such folder; expected one with submission.yaml" in err


def test_what_evaluate_writes_for_a_stranger_has_to_be_completed(run: Run, board: Path, tmp_path: Path) -> None:
    module = tmp_path / "stranger_for_tests.py"
    module.write_text(
        "from benchmark import Forecast\n"
        "class Flat:\n"
        '    """Knows nothing."""\n'
        "    def forecast(self, queries):\n"
        "        return [Forecast(probabilities=[1 / 8] * 8) for _ in queries]\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(tmp_path))
        assert run("evaluate", "stranger_for_tests:Flat", "--out", tmp_path / "flat", "--quiet", *FAST)[0] == 0
    code, _, err = run("submit", tmp_path / "flat", "--resamples", "0")
    assert code == 2 and "field 'training_data': found 'not stated'; say what it is, or 'none' (and 2 more)" in err
    edit(tmp_path / "flat", training_data="none", cost="nothing", contamination="none")
    assert run("submit", tmp_path / "flat", "--resamples", "0")[0] == 0


def test_record_then_check_then_drift(run: Run, board: Path) -> None:
    code, _, err = run("leaderboard", "--check", "--dataset", "synthetic")
    assert code == 1 and "table.json: no such file; `kernelcast leaderboard --record` writes it" in err
    code, _, err = run("leaderboard", "--record", *FAST)
    assert code == 0 and err.count("wrote ") == 2
    shown = run("leaderboard", *FAST)[1]
    assert shown.rstrip() in (board.parents[1] / "README.md").read_text()
    code, out, _ = run("leaderboard", "--check", "--dataset", "synthetic", "--json")
    assert code == 0
    assert json.loads(out)["rows"] == [{"name": n, "problem": None} for n in ("no-change", "uniform", "table")]
    assert "nothing has changed" in run("leaderboard", "--record", *FAST)[2]
    record = board.parent / "table.json"
    table = json.loads(record.read_text())
    table["rows"][0]["metrics"]["rps"]["value"] -= 0.01
    record.write_text(json.dumps(table))
    code, _, err = run("leaderboard", "--check", "--dataset", "synthetic")
    assert code == 1 and ", rps value: recorded " in err
    assert run("leaderboard", "--record", *FAST)[0] == 0
    readme = board.parents[1] / "README.md"
    readme.write_text(readme.read_text().replace("no-change", "changed"))
    code, _, err = run("leaderboard", "--check", "--dataset", "synthetic")
    assert code == 1 and "README.md, line " in err


def test_a_broken_submission_is_named_the_others_are_shown_and_the_exit_is_1(run: Run, board: Path) -> None:
    assert run("leaderboard", "--record", *FAST)[0] == 0
    (board / "uniform" / "pool.parquet").write_bytes(b"PAR1")
    code, out, err = run("leaderboard", "--json", *FAST)
    table = json.loads(out)
    assert code == 1 and {row["name"] for row in table["rows"]} == {"no-change"}
    (skipped,) = table["skipped"]
    assert skipped["name"] == "uniform" and "pool.parquet" in skipped["problem"]
    assert err.startswith("kernelcast: skipped submission 'uniform'")
    for format in ((), ("--markdown",), ("--latex",), ("--csv",)):
        code, out, _ = run("leaderboard", *format, *FAST)
        assert code == 1 and "no-change" in out and "uniform" not in out
    assert run("leaderboard", "--record", *FAST)[0] == 1
    assert "uniform" in (board.parent / "table.json").read_text()
    code, _, err = run("leaderboard", "--check", "--dataset", "synthetic")
    assert code == 1 and "uniform: " in err and "no-change: ok" in err and "table: not compared" in err


def test_one_track_alone_has_the_figures_of_the_whole_table(run: Run, board: Path) -> None:
    whole = json.loads(run("leaderboard", "--json", *FAST)[1])["rows"]
    part = json.loads(run("leaderboard", "--track", "pool", "--json", *FAST)[1])["rows"]
    assert part == [row for row in whole if row["track"] == "pool"] and part


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--track", "eval"), "unknown track 'eval'"),
        (("--track", "paris"), "track 'paris' is not scored from forecasts"),
        (("--json", "--latex"), "choose one of --json, --csv, --markdown and --latex"),
        (("--check", "--record"), "choose one of --check, --record and --site"),
        (("--check", "--track", "pool"), "leave out --track"),
        (("--dataset", "sinthetic"), "did you mean 'synthetic'"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(run: Run, board: Path, arguments: tuple[str, ...], words: str) -> None:
    code, out, err = run("leaderboard", *arguments, *(() if "--dataset" in arguments else FAST))
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert words in err


def test_the_site_is_one_file_and_is_not_overwritten_silently(run: Run, board: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    code, out, _ = run("leaderboard", "--site", site, "--json", *FAST)
    assert code == 0 and json.loads(out)["out"] == str(site / "index.html")
    assert [p.name for p in site.iterdir()] == ["index.html"]
    before = (site / "index.html").read_bytes()
    code, _, err = run("leaderboard", "--site", site, *FAST)
    assert code == 2 and "exists already" in err
    assert run("leaderboard", "--site", site, "--overwrite", *FAST)[0] == 0
    assert (site / "index.html").read_bytes() == before


def test_score_shows_the_row_among_the_others_the_tasks_and_what_is_worst(
    run: Run, board: Path, mine: Path, tmp_path: Path
) -> None:
    code, out, _ = run("score", mine, "--track", "pairs", "--split", "test", "--resamples", "40")
    assert code == 0
    for words in ("worst task", "worst class of edits", "worst forecasts", "furthest behind in", "row_softmax"):
        assert words in out
    (own,) = [line for line in out.splitlines() if line.startswith("> ")]
    assert " mine " in own and "\n  1     no-change" in out and "\n  -     uniform" in out
    value = json.loads(run("score", mine, "--track", "pairs", "--split", "test", "--resamples", "40", "--json")[1])
    (row,) = value["rows"]
    assert row["rank"] is not None and row["worst"]["misses"][0]["query_id"] in out
    assert row["worst"]["behind"][0]["by"] == "no-change"  # a reference row is nobody's rival
    assert sum(task["share"] for task in row["worst"]["tasks"]) == pytest.approx(1.0)
    assert value["figures"] == []
    few = ("--track", "pairs", "--split", "test", "--resamples", "40")
    code, alone, _ = run("score", mine, *few, "--alone")
    assert code == 0 and out.startswith(alone[: alone.index("worst task")]) and "no-change" not in alone
    (same,) = json.loads(run("score", mine, *few, "--alone", "--json")[1])["rows"]
    assert same["rank"] is None and same["metrics"] == row["metrics"]


@pytest.mark.slow
def test_score_writes_figures_once(run: Run, board: Path, tmp_path: Path) -> None:
    figures = tmp_path / "figures"
    arguments = ("score", board / "no-change", "--track", "pairs", "--split", "test", "--resamples", "0")
    code, out, err = run(*arguments, "--figures", figures, "--json")
    written = sorted(p.name for p in figures.iterdir())
    keys = ("discovery", "reliability", "risk-coverage")
    assert code == 0 and written == [f"pairs-test-{key}.{kind}" for key in keys for kind in ("png", "svg")]
    assert sorted(Path(file).name for file in json.loads(out)["figures"]) == written
    code, _, err = run(*arguments, "--figures", figures)
    assert code == 2 and "exists already" in err
    assert run(*arguments, "--figures", figures, "--overwrite")[0] == 0


@pytest.mark.slow
def test_the_committed_record_agrees_and_the_whole_table_is_made_in_time(root: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "harness.cli", "leaderboard", "--check", "--json", "--quiet"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr
    dozens = max(1.0, (len(json.loads(done.stdout)["rows"]) - 1) / 12)
    # Processor time, on one core: what else the machine does must not decide.
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 25 * dozens
