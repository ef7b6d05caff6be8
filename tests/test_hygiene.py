"""Nothing in the repository depends on the machine that it was written on."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TEXT = {
    ".cff",
    ".cfg",
    ".cu",
    ".html",
    ".j2",
    ".js",
    ".json",
    ".md",
    ".py",
    ".sh",
    ".toml",
    ".txt",
    ".yaml",
    ".yml",
    "",
}
# Joined here, so that this file does not hold what it looks for.
HOSTS = re.compile("|".join(name.replace(".", r"\.") for name in (
    "pypi" + ".org", "pythonhosted" + ".org", "npmjs" + ".org", "deb.debian" + ".org", "conda.anaconda" + ".org",
)))  # fmt: skip
MACHINE_PATHS = re.compile(r"(?<![\w.)}/-])/(?:work|root|home/\w+|Users/\w+|opt/\w+|mnt)(?=/|\b(?![\w-]))")
TEMPORARY = re.compile(r"(?<![\w.)}/-])/tmp\b")
# The sandbox has to name the folders that it hides from a kernel.
NAMES_SYSTEM_FOLDERS = (Path("harness/measure"), Path("tests/harness/measure"))


def _lines(root: Path, paths: list[Path]) -> list[tuple[Path, int, str]]:
    found = []
    for path in paths:
        if path.suffix in TEXT and not path.is_relative_to("benchmark/data"):
            text = (root / path).read_text(encoding="utf-8")
            found += [(path, number, line) for number, line in enumerate(text.splitlines(), 1)]
    return found


def _hits(lines: list[tuple[Path, int, str]], pattern: re.Pattern[str]) -> list[str]:
    return [f"{path}:{number}: {line.strip()[:100]}" for path, number, line in lines if pattern.search(line)]


def test_no_file_names_a_package_registry(root: Path, project_files: list[Path]) -> None:
    assert not _hits(_lines(root, project_files), HOSTS)


def test_no_file_names_a_path_of_one_machine(root: Path, project_files: list[Path]) -> None:
    paths = [path for path in project_files if not any(path.is_relative_to(p) for p in NAMES_SYSTEM_FOLDERS)]
    paths.remove(Path(__file__).resolve().relative_to(root))
    lines = _lines(root, paths)
    assert not _hits(lines, MACHINE_PATHS) + _hits(lines, TEMPORARY)


@pytest.mark.parametrize("line", ["cd /work/main", "path = '/home/ada/x'", "see /root/.cache", "/opt/wheels"])
def test_the_pattern_finds_a_machine_path(line: str) -> None:
    assert MACHINE_PATHS.search(line)


@pytest.mark.parametrize("line", ["the work/main ratio", "https://example.test/home/ada", "{root}/work/x", "/workers"])
def test_the_pattern_leaves_other_text_alone(line: str) -> None:
    assert not MACHINE_PATHS.search(line)


def test_constraints_are_exact_and_name_no_host(root: Path) -> None:
    lines = (root / "constraints.txt").read_text().splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    wrong = [pin for pin in pins if not re.fullmatch(r"[a-z0-9-]+==\d+(\.\d+)*(\.post\d+)?", pin)]
    assert pins and not wrong
    names = [pin.partition("==")[0] for pin in pins]
    assert names == sorted(set(names))
