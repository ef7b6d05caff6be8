"""The top level of the repository is fixed, and the tests mirror it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

FOLDERS = {".ci", "benchmark", "harness", "leaderboard", "tasks", "tests"}
FILES = {
    ".gitattributes", ".gitignore", "CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "DATASET_CARD.md", "LICENSE",
    "LICENSE-DATA", "Makefile", "README.md", "constraints.txt", "kernelcast.py", "pyproject.toml",
}  # fmt: skip


def test_the_top_level_holds_these_and_no_more(project_files: list[Path]) -> None:
    assert {path.parts[0] for path in project_files if len(path.parts) > 1} == FOLDERS
    assert {str(path) for path in project_files if len(path.parts) == 1} == FILES


def test_the_tests_mirror_the_four_folders(project_files: list[Path]) -> None:
    tested = {path.parts[1] for path in project_files if path.parts[0] == "tests" and len(path.parts) > 2}
    assert tested <= FOLDERS - {"tests", ".ci"}


def test_kernelcast_offers_the_names_of_benchmark(root: Path) -> None:
    compare = "import benchmark, kernelcast; assert dir(benchmark) == dir(kernelcast); print(kernelcast.bin_of(1.0))"
    done = subprocess.run([sys.executable, "-c", compare], cwd=root, capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.returncode) == ("4", 0), done.stderr


def test_every_document_names_the_same_version(root: Path) -> None:
    from benchmark import __version__

    cited = re.search(r"^version: (\S+)$", (root / "CITATION.cff").read_text(), re.MULTILINE)
    assert cited and cited[1] == __version__
    assert re.search(rf"^## {re.escape(__version__)}\b", (root / "CHANGELOG.md").read_text(), re.MULTILINE)
