"""A synthetic dataset with an unseen task, and submissions of known quality."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from benchmark.bins import bin_mass
from benchmark.data_access import load_labels, load_queries
from benchmark.forecasts import write_forecasts
from benchmark.query import Forecast
from benchmark.revision import dataset_revision
from leaderboard.board import Board, score_board
from tests.factory import make_dataset

SPLITS = ("test", "test_unseen_task")
TRACKS = ("pairs", "pool")
MANIFEST = {
    "kind": "surrogate", "information": "source", "description": "a test", "command": "make it",
    "training_data": "none", "cost": "nothing", "contamination": "none", "status": "recomputed",
}  # fmt: skip

Submit = Callable[..., Path]


@pytest.fixture(scope="session")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_dataset(tmp_path_factory.mktemp("data"), unseen=True, kernels_per_search=16)


@pytest.fixture(autouse=True)
def _find_data(dataset: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELCAST_DATA", str(dataset.parent))


def write_submission(folder: Path, dataset: Path, noise: float | None, keep: float = 1.0, **manifest: Any) -> Path:
    """Write a submission that sees the truth through noise, or is uniform, and answers a share of the queries."""
    for track in TRACKS:
        queries, forecasts = [], []
        rng = np.random.default_rng(0)
        for split in SPLITS:
            found = load_queries(track, split, dataset=dataset.name)
            speedup = load_labels(track, split, dataset=dataset.name).column("speedup").to_pylist()
            for query, s in list(zip(found, speedup, strict=True))[: max(1, round(keep * len(found)))]:
                seen = np.log2(s or 1.0) + rng.normal(0, noise or 0.0)
                p = [1 / 8] * 8 if noise is None else bin_mass(seen, max(noise, 0.05))[0]
                queries.append(query)
                forecasts.append(Forecast(p))
        metadata = {"dataset": dataset.name, "track": track, "surrogate": folder.name, "configuration": {}}
        write_forecasts(folder / f"{track}.parquet", queries, forecasts, metadata)
    content = {
        "name": folder.name, "dataset": dataset.name, "revision": dataset_revision(dataset.name), **MANIFEST, **manifest
    }  # fmt: skip
    (folder / "submission.yaml").write_text(yaml.safe_dump(content))
    return folder


def edit(folder: Path, **changes: Any) -> None:
    """Change fields of a submission's manifest."""
    path = folder / "submission.yaml"
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), **changes}))


@pytest.fixture(scope="session")
def submissions(dataset: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("leaderboard") / "submissions"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KERNELCAST_DATA", str(dataset.parent))
        write_submission(root / "good", dataset, 0.3)
        write_submission(root / "poor", dataset, 3.0, kind="baseline", information="compiled")
        write_submission(root / "tenth", dataset, 0.0, keep=0.1)
        write_submission(root / "uniform", dataset, None, kind="chance")
        write_submission(root / "oracle", dataset, 0.0, kind="oracle", information="measured")
        write_submission(root / "withdrawn", dataset, 0.0, status="retracted", reason="it read the labels")
    shutil.copytree(root / "good", root / "elsewhere")
    edit(root / "elsewhere", name="elsewhere", dataset="another")
    shutil.copytree(root / "good", root / "twin")
    edit(root / "twin", name="twin")
    return root


@pytest.fixture(scope="session")
def board(dataset: Path, submissions: Path) -> Board:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KERNELCAST_DATA", str(dataset.parent))
        return score_board(dataset.name, resamples=300, submissions=submissions)
