"""What the tests of the repository itself share: the checkout, its files, and the wheel built from them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

# Kernels of the tests run in Triton's interpreter, which has to be chosen before triton is first imported.
os.environ.setdefault("TRITON_INTERPRET", "1")


@pytest.fixture(scope="session")
def root() -> Path:
    """The top folder of the checkout."""
    return Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def project_files(root: Path) -> list[Path]:
    """Paths, relative to the top folder, of the files that git tracks or would add."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root, capture_output=True, text=True, check=True,
    )  # fmt: skip
    paths = {Path(name) for name in listing.stdout.split("\0") if name}
    return sorted(path for path in paths if (root / path).is_file())


@pytest.fixture(scope="session")
def wheel(root: Path, project_files: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built without a network from a copy that holds the project's files and no leftovers."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    for path in project_files:
        (source / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / path, source / path)
    build = [
        sys.executable,
        "-m",
        "build",
        "--wheel",
        "--no-isolation",
        "--outdir",
        str(folder),
        str(source),
    ]
    done = subprocess.run(build, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="session")
def synthetic_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the synthetic dataset, packaged once; use `synthetic_dataset` to load from it."""
    from tests.factory import make_dataset

    return make_dataset(tmp_path_factory.mktemp("data"), unseen=True)


@pytest.fixture
def synthetic_dataset(synthetic_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the dataset `synthetic`; during the test the library finds it, and no other, by its name."""
    monkeypatch.setenv("KERNELCAST_DATA", str(synthetic_folder.parent))
    monkeypatch.setenv("KERNELCAST_CACHE", str(synthetic_folder.parent / "nothing-downloaded"))
    return synthetic_folder
