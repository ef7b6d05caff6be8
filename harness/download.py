"""Bring a packaged dataset here, from the Hub, a folder or an archive, and put it in place only once it is whole."""

from __future__ import annotations

import hashlib
import os
import shutil
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from benchmark.integrity import check_files, read_manifest
from benchmark.locate import cache_root
from benchmark.records import RecordError
from harness.hub import MANIFEST, TransferError, fetch, forget

ARCHIVES = (".tar.gz", ".tgz", ".tar", ".zip")
CHUNK = 1 << 20
TIMEOUT_S = 30.0
Advance = Callable[[str, int], Callable[[int], None]]


def _silent(label: str, total: int) -> Callable[[int], None]:
    return lambda n: None


def download(
    source: str, revision: str | None = None, out: Path | None = None, overwrite: bool = False, stage: Advance = _silent
) -> Path:
    """Return the folder of a dataset that was brought from a Hub repository, a folder, an archive or its address.

    Every file is checked against the manifest first; without `out` the dataset goes into the download cache, where
    loading finds it. Raises TransferError, naming a missing, cut or changed file, and FileExistsError.
    """
    if Path(source).is_dir():
        return _place(Path(source), out, overwrite, stage)
    if urlsplit(source).scheme in ("http", "https") or source.endswith(ARCHIVES):
        archive = _archive(source, stage)
        with tempfile.TemporaryDirectory(prefix="kernelcast-") as folder:
            return _place(_unpack(archive, Path(folder)), out, overwrite, stage)
    folder = fetch(source, revision)
    try:
        return _place(folder, out, overwrite, stage)
    except TransferError:
        _forget_broken(folder)
        raise


def _forget_broken(folder: Path) -> None:
    """What was stored with wrong content would be taken for right by the next attempt."""
    try:
        problems = check_files(folder, read_manifest(folder))
    except RecordError:
        problems = {MANIFEST: ""}
    for relative in problems:
        forget(folder / relative)


def _place(folder: Path, out: Path | None, overwrite: bool, stage: Advance) -> Path:
    try:
        manifest = read_manifest(folder)
    except RecordError as error:
        raise TransferError(f"{error}; a packaged dataset has one") from None
    problems = check_files(folder, manifest)
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise TransferError(f"{next(iter(problems.values()))}{more}; nothing was put in place, run it again")
    files = [*manifest["files"], *manifest.get("documents", {}), MANIFEST]
    target = out or cache_root() / manifest["dataset"]
    if target.exists():
        same = (target / MANIFEST).is_file() and (target / MANIFEST).read_bytes() == (folder / MANIFEST).read_bytes()
        if same and not check_files(target, manifest):
            return target
        if not (target / MANIFEST).is_file() and any(target.iterdir() if target.is_dir() else [target]):
            raise FileExistsError(f"{target}: exists and is no dataset; choose another --out")
        if out is not None and not overwrite:
            raise FileExistsError(f"{target}: exists already; choose another --out, or --overwrite to replace it")
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        advance = stage("placing files", len(files))
        for relative in files:
            (partial / relative).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(folder / relative, partial / relative)
            advance(1)
        if target.exists():
            shutil.rmtree(target)
        os.chmod(partial, 0o755)
        os.replace(partial, target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return target


def _archive(source: str, stage: Advance) -> Path:
    if urlsplit(source).scheme not in ("http", "https"):
        path = Path(source)
        if not path.is_file():
            raise FileNotFoundError(
                f"{path}: no such archive; expected a Hub repository, a folder, an archive or its URL"
            )
        return path
    name = Path(urlsplit(source).path).name
    if not name.endswith(ARCHIVES):
        raise TransferError(f"{source}: expected the address of an archive ({', '.join(ARCHIVES)})")
    folder = cache_root().parent / "archives" / hashlib.sha256(source.encode()).hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    return _retrieve(source, folder / name, stage)


def _retrieve(url: str, path: Path, stage: Advance) -> Path:
    """Fetch a file whole; a part of it that is there already is not fetched again. Raises TransferError."""
    partial = path.with_name(path.name + ".partial")
    start = partial.stat().st_size if partial.exists() else 0
    try:
        with urlopen(Request(url, headers={"Range": f"bytes={start}-"} if start else {}), timeout=TIMEOUT_S) as answer:
            resumed = answer.status == 206
            total = int(answer.headers.get("Content-Length") or 0) + (start if resumed else 0)
            advance = stage("downloading bytes", total)
            with open(partial, "ab" if resumed else "wb") as file:
                while chunk := answer.read(CHUNK):
                    file.write(chunk)
                    advance(len(chunk))
    except (URLError, OSError) as error:
        raise TransferError(f"{url}: the transfer failed ({error}); run it again, and what arrived is kept") from None
    size = partial.stat().st_size
    if total and size != total:
        raise TransferError(f"{url}: cut after {size:,} of {total:,} bytes; run it again, and what arrived is kept")
    os.replace(partial, path)
    return path


def _unpack(archive: Path, folder: Path) -> Path:
    """Return the folder of the archive that holds a manifest. Raises TransferError for what is no such archive."""
    try:
        if archive.name.endswith(".zip"):
            with zipfile.ZipFile(archive) as packed:
                packed.extractall(folder)
        else:
            with tarfile.open(archive) as packed_tar:
                packed_tar.extractall(folder, filter="data")
    except (tarfile.TarError, zipfile.BadZipFile, EOFError, OSError) as error:
        raise TransferError(f"{archive}: not a whole archive ({error})") from None
    found = sorted(folder.rglob(MANIFEST), key=lambda path: len(path.parts))
    if not found:
        raise TransferError(f"{archive}: holds no {MANIFEST}; expected a packaged dataset")
    return found[0].parent
