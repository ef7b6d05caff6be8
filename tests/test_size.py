"""The whole tree travels to GPU machines, so it has to stay small."""

from __future__ import annotations

from pathlib import Path

MIB = 1 << 20
TREE_LIMIT = 40 * MIB
DATA_LIMIT = 28_000_000


def _largest(root: Path, paths: list[Path]) -> str:
    by_size = sorted(paths, key=lambda path: -(root / path).stat().st_size)[:5]
    return ", ".join(f"{path} {(root / path).stat().st_size:,}" for path in by_size)


def test_the_tree_stays_under_40_mib(root: Path, project_files: list[Path]) -> None:
    size = sum((root / path).stat().st_size for path in project_files)
    assert size < TREE_LIMIT, f"{size:,} bytes; the largest: {_largest(root, project_files)}"


def test_the_data_stays_under_28_mb(root: Path, project_files: list[Path]) -> None:
    data = [path for path in project_files if path.is_relative_to("benchmark/data")]
    size = sum((root / path).stat().st_size for path in data)
    assert size < DATA_LIMIT, f"{size:,} bytes; the largest: {_largest(root, data)}"
