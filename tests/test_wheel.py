"""The wheel holds the code, the truth tables and the submissions, and scores where there is no checkout."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from pathlib import Path

import pytest

SIZE_LIMIT = 15_000_000
TOP_LEVEL = {"benchmark", "harness", "leaderboard", "tasks", "kernelcast.py"}
TRUTH = ("eval", "kernels", "nodes", "pairs", "same_program", "searches", "sessions", "tasks")
DOCUMENTS = r"README\.md|croissant\.json|manifest\.json"
DATA = re.compile(rf"benchmark/data/[\w-]+/({DOCUMENTS}|({'|'.join(TRUTH)})/[\w-]+\.parquet)")


@pytest.fixture(scope="module")
def contents(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_the_list_of_packages_is_the_packages_that_exist(root: Path, project_files: list[Path]) -> None:
    listed = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    source = [p for p in project_files if p.suffix == ".py" and p.parts[0] in TOP_LEVEL]
    # What lies in the folder of a task is data of the package that holds it.
    source = [p for p in source if len(p.parts) > 1 and p.parts[0] != "tasks" and "bench_tasks" not in p.parts]
    found = {".".join(path.parent.parts) for path in source}
    assert sorted(listed) == sorted({*found, "tasks"})


def test_the_wheel_holds_only_our_packages(contents: set[str]) -> None:
    top = {name.split("/")[0] for name in contents}
    assert {name for name in top if not name.endswith(".dist-info")} == TOP_LEVEL


def test_the_wheel_holds_every_source_file(contents: set[str], project_files: list[Path]) -> None:
    ours = {str(path) for path in project_files if path.suffix == ".py" and path.parts[0] in TOP_LEVEL}
    assert ours <= contents


def test_the_wheel_holds_truth_tables_and_no_samples_or_logs(contents: set[str], project_files: list[Path]) -> None:
    data = {name for name in contents if name.startswith("benchmark/data/")}
    assert not [name for name in data if not DATA.fullmatch(name)]
    assert data == {str(path) for path in project_files if DATA.fullmatch(str(path))}
    assert {name.split("/")[3] for name in data if name.endswith(".parquet")} <= set(TRUTH)


def test_the_wheel_holds_every_submission(contents: set[str], project_files: list[Path]) -> None:
    submissions = {str(path) for path in project_files if path.is_relative_to("leaderboard/submissions")}
    files = {name for name in submissions if name.endswith((".parquet", "submission.yaml"))}
    assert files and files <= contents


def test_the_wheel_is_small(wheel: Path) -> None:
    assert wheel.stat().st_size < SIZE_LIMIT


def test_the_wheel_carries_both_licences(contents: set[str]) -> None:
    licences = {name.rpartition("/")[2] for name in contents if ".dist-info/licenses/" in name}
    assert licences == {"LICENSE", "LICENSE-DATA"}


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scripts of an environment with the wheel, which borrows its dependencies from the one that runs the tests."""
    environment = tmp_path_factory.mktemp("installed") / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    python = environment / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*pip, str(wheel)], check=True)
    # A folder named in a .pth file is searched, but the .pth files inside it are not read: an editable installation
    # of the checkout in the borrowed folder stays out of sight.
    (packages,) = environment.glob("lib/python*/site-packages")
    (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return environment / "bin"


def _run(command: list[str], folder: Path) -> str:
    kept = {"PATH", "HOME", "LANG"}
    environment = {name: value for name, value in os.environ.items() if name in kept or name.startswith("OPENBLAS")}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_an_installed_command_scores_outside_the_checkout(installed: Path, root: Path, tmp_path: Path) -> None:
    where = "import benchmark, harness, leaderboard, tasks, kernelcast as k\n"
    where += "print(*(m.__file__ for m in (benchmark, harness, leaderboard, tasks, k)), sep='\\n')"
    for file in _run([str(installed / "python"), "-c", where], tmp_path).splitlines():
        assert Path(file).is_relative_to(installed.parent), file
    forecasts = sorted((root / "leaderboard" / "submissions").glob("*/pairs.parquet"))[0]
    shutil.copyfile(forecasts, tmp_path / "mine.parquet")
    result = json.loads(_run([str(installed / "kernelcast"), "score", "mine.parquet", "--json"], tmp_path))
    values = [metric["value"] for row in result["rows"] for metric in row["metrics"].values()]
    assert any(value is not None for value in values)


def test_an_installed_command_prints_the_table(installed: Path, root: Path, tmp_path: Path) -> None:
    table = json.loads(_run([str(installed / "kernelcast"), "leaderboard", "--json"], tmp_path))
    submissions = {path.parent.name for path in (root / "leaderboard" / "submissions").glob("*/submission.yaml")}
    assert {row["name"] for row in table["rows"]} >= submissions
