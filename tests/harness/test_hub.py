"""Push and download against a server that speaks the Hub's endpoints, in processes of their own: the client reads its
settings when it is imported.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmark.package import package
from tests.factory import make_search
from tests.harness.hub_server import HubServer, hub_server

REPOSITORY = "someone/small"
PAIRS, KERNELS = "pairs/test-00000-of-00001.parquet", "kernels/test-00000-of-00001.parquet"


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("dataset")
    make_search("row_total", "test", kernels=6).save(root / "raw")
    package("small", root / "raw", root / "small")
    return root / "small"


@pytest.fixture
def hub() -> Iterator[HubServer]:
    with hub_server() as server:
        yield server


@pytest.fixture
def published(hub: HubServer, dataset: Path) -> HubServer:
    files = [p for p in dataset.rglob("*") if p.is_file()]
    hub.repositories[REPOSITORY] = {str(p.relative_to(dataset)): p.read_bytes() for p in files}
    return hub


def run(hub: HubServer, home: Path, *arguments: str, **extra: str) -> tuple[int, str, str]:
    environment = {
        **os.environ, "HF_ENDPOINT": hub.url, "HF_HOME": str(home / "hf"), "KERNELCAST_CACHE": str(home / "cache"),
        "HF_TOKEN": "hf_loopback", "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1", "NO_PROXY": "127.0.0.1", **extra,
    }  # fmt: skip
    command = [sys.executable, "-m", "harness.cli", "data", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_what_is_pushed_comes_back(hub: HubServer, dataset: Path, tmp_path: Path) -> None:
    code, out, err = run(hub, tmp_path, "push", REPOSITORY, "--from", str(dataset), "--json")
    assert code == 0, err
    assert json.loads(out)["url"].startswith(f"{hub.url}/datasets/{REPOSITORY}/commit/")
    assert hub.repositories[REPOSITORY] == contents(dataset) and hub.commits == ["Add small"]
    code, out, err = run(hub, tmp_path, "download", REPOSITORY, "--json")
    assert code == 0, err
    found = json.loads(out)
    assert contents(Path(found["folder"])) == contents(dataset)
    assert Path(found["folder"]) == tmp_path / "cache" / "data" / "small" and found["dataset"] == "small"


@pytest.mark.slow
def test_a_connection_that_is_cut_goes_on_where_it_stopped(published: HubServer, dataset: Path, tmp_path: Path) -> None:
    half = len(published.repositories[REPOSITORY][KERNELS]) // 2
    published.cut[KERNELS], published.cuts[KERNELS] = half, 1
    code, _, err = run(published, tmp_path, "download", REPOSITORY)
    assert code == 0, err
    assert contents(tmp_path / "cache" / "data" / "small") == contents(dataset)
    assert len([path for path, _ in published.sent if path == KERNELS]) == 2


@pytest.mark.slow
def test_a_transfer_that_fails_keeps_the_files_that_arrived(
    published: HubServer, dataset: Path, tmp_path: Path
) -> None:
    published.cut[KERNELS] = 0
    code, out, err = run(published, tmp_path, "download", REPOSITORY)
    assert code == 2 and not out and "run it again, and what arrived is kept" in err
    assert not (tmp_path / "cache" / "data").exists()
    published.cut.clear()
    published.sent.clear()
    code, _, err = run(published, tmp_path, "download", REPOSITORY)
    assert code == 0, err
    assert contents(tmp_path / "cache" / "data" / "small") == contents(dataset)
    assert KERNELS in dict(published.sent) and PAIRS not in dict(published.sent)


@pytest.mark.slow
def test_a_wrong_content_is_named_and_fetched_again(published: HubServer, dataset: Path, tmp_path: Path) -> None:
    right = published.repositories[REPOSITORY][PAIRS]
    published.swapped[PAIRS] = right[:-1] + bytes([right[-1] ^ 1])
    code, _, err = run(published, tmp_path, "download", REPOSITORY)
    assert code == 2 and f"{PAIRS}: sha256 is" in err and "nothing was put in place" in err
    assert not (tmp_path / "cache" / "data").exists()
    published.swapped.clear()
    code, _, err = run(published, tmp_path, "download", REPOSITORY)
    assert code == 0 and contents(tmp_path / "cache" / "data" / "small") == contents(dataset), err


@pytest.mark.slow
def test_a_file_that_the_repository_lacks_is_named(published: HubServer, tmp_path: Path) -> None:
    del published.repositories[REPOSITORY][PAIRS]
    code, _, err = run(published, tmp_path, "download", REPOSITORY)
    assert code == 2 and f"{PAIRS}: is in the manifest, but there is no such file" in err


@pytest.mark.slow
def test_offline_the_copy_serves_if_it_is_whole(published: HubServer, dataset: Path, tmp_path: Path) -> None:
    code, _, err = run(published, tmp_path, "download", REPOSITORY, HF_HUB_OFFLINE="1")
    assert code == 2 and "run it again online" in err
    assert run(published, tmp_path, "download", REPOSITORY)[0] == 0
    shutil.rmtree(tmp_path / "cache")
    published.sent.clear()
    code, _, err = run(published, tmp_path, "download", REPOSITORY, HF_HUB_OFFLINE="1")
    assert code == 0 and not published.sent, err
    assert contents(tmp_path / "cache" / "data" / "small") == contents(dataset)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("download", "someone/absent"), "there is no such repository"),
        (("download", REPOSITORY, "--revision", "v9"), "there is no such revision"),
    ],
)
def test_wrong_names_give_one_line(
    published: HubServer, tmp_path: Path, arguments: tuple[str, ...], expected: str
) -> None:
    code, out, err = run(published, tmp_path, *arguments)
    assert code == 2 and not out and expected in err and err.count("\n") == 1


@pytest.mark.slow
def test_a_broken_folder_is_not_pushed(hub: HubServer, dataset: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(dataset, broken)
    (broken / PAIRS).write_bytes((broken / PAIRS).read_bytes()[:-4])
    code, _, err = run(hub, tmp_path, "push", REPOSITORY, "--from", str(broken))
    assert code == 2 and f"{PAIRS}: was cut" in err and not hub.repositories


def test_folders_and_archives_serve_too(dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from harness.download import TransferError, download

    monkeypatch.setenv("KERNELCAST_CACHE", str(tmp_path / "cache"))
    with tarfile.open(tmp_path / "small.tar.gz", "w:gz") as packed:
        packed.add(dataset, arcname="small")
    with zipfile.ZipFile(tmp_path / "small.zip", "w") as archive:
        for name, data in contents(dataset).items():
            archive.writestr(name, data)
    for number, source in enumerate((dataset, tmp_path / "small.tar.gz", tmp_path / "small.zip")):
        assert contents(download(str(source), out=tmp_path / f"out-{number}")) == contents(dataset)
    (tmp_path / "out-0" / PAIRS).unlink()
    with pytest.raises(FileExistsError, match="exists already"):
        download(str(dataset), out=tmp_path / "out-0")
    assert contents(download(str(dataset), out=tmp_path / "out-0", overwrite=True)) == contents(dataset)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("x")
    with pytest.raises(FileExistsError, match="is no dataset"):
        download(str(dataset), out=tmp_path / "mine", overwrite=True)
    (tmp_path / "cut.zip").write_bytes((tmp_path / "small.zip").read_bytes()[:-100])
    with pytest.raises(TransferError, match="not a whole archive"):
        download(str(tmp_path / "cut.zip"))


@pytest.mark.slow
def test_an_archive_comes_from_an_address(published: HubServer, dataset: Path, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "small.tar.gz", "w:gz") as packed:
        packed.add(dataset, arcname="small")
    archive = (tmp_path / "small.tar.gz").read_bytes()
    published.repositories["someone/archives"] = {"small.tar.gz": archive}
    url = f"{published.url}/datasets/someone/archives/resolve/main/small.tar.gz"
    published.cut["small.tar.gz"] = len(archive) // 3
    code, _, err = run(published, tmp_path, "download", url)
    assert code == 2 and "run it again, and what arrived is kept" in err
    published.cut.clear()
    code, _, err = run(published, tmp_path, "download", url, "--out", str(tmp_path / "out"))
    assert code == 0, err
    assert contents(tmp_path / "out") == contents(dataset)
    assert [start for path, start in published.sent if path == "small.tar.gz"] == [0, len(archive) // 3]
