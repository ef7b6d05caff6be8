"""Publish a packaged dataset on the Hugging Face Hub, and fetch one from there."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from benchmark.integrity import check_files, read_manifest

MANIFEST = "manifest.json"
_TRUE = ("1", "ON", "YES", "TRUE")
_CLIENT = ("huggingface_hub", "httpx", "httpx2", "httpcore", "httpcore2", "requests", "urllib3", "hf_xet")
Result = TypeVar("Result")


class TransferError(OSError):
    """A dataset could not be sent or fetched whole; the message says what is missing and what to do."""


def hub_files(folder: Path) -> list[str]:
    """Return the files of a packaged dataset that are published: tables, card, Croissant metadata and manifest.

    Raises TransferError, naming the first file, if one is missing, cut or changed against the manifest.
    """
    manifest = read_manifest(folder)
    problems = check_files(folder, manifest)
    if problems:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        raise TransferError(f"{next(iter(problems.values()))}{more}; package the dataset again, or restore the file")
    return [*manifest["files"], *manifest.get("documents", {}), MANIFEST]


def push(folder: Path, repository: str, revision: str = "main", private: bool = False) -> str:
    """Create a dataset repository if need be, send the files of a packaged dataset in one commit, return its address.

    The token comes from HF_TOKEN or `hf auth login`. Raises TransferError for a folder that is not whole, a refused
    token or a network that fails.
    """
    from huggingface_hub import HfApi

    files = hub_files(folder)
    api = HfApi(endpoint=_endpoint())

    def send() -> str:
        api.create_repo(repository, repo_type="dataset", private=private, exist_ok=True)
        if revision != "main":
            api.create_branch(repository, repo_type="dataset", branch=revision, exist_ok=True)
        done = api.upload_folder(
            repo_id=repository,
            repo_type="dataset",
            revision=revision,
            folder_path=folder,
            allow_patterns=files,
            commit_message=f"Add {read_manifest(folder)['dataset']}",
        )
        return str(done.commit_url)

    return _reported(send, f"'{repository}' at {_where()}")


def fetch(
    repository: str, revision: str | None = None, cache: Path | None = None, files: list[str] | None = None
) -> Path:
    """Return the folder of a dataset repository at a revision, with all its files; those that are there are kept.

    A transfer that was interrupted goes on where it stopped. With HF_HUB_OFFLINE=1 the local copy serves. `files`
    restricts what is fetched (patterns). Raises TransferError.
    """
    from huggingface_hub import snapshot_download

    offline = os.environ.get("HF_HUB_OFFLINE", "").upper() in _TRUE
    where = cache or (Path(found) if (found := os.environ.get("HF_HUB_CACHE")) else None)

    def receive() -> Path:
        return Path(
            snapshot_download(
                repository,
                repo_type="dataset",
                revision=revision,
                cache_dir=where,
                endpoint=_endpoint(),
                local_files_only=offline,
                allow_patterns=files,
            )
        )

    return _reported(receive, f"'{repository}', revision '{revision or 'main'}', at {_where()}")


def forget(path: Path) -> None:
    """Remove a file of a fetched folder together with the cached content behind it, so that it is fetched again."""
    if path.is_symlink():
        path.resolve().unlink(missing_ok=True)
    path.unlink(missing_ok=True)


def _endpoint() -> str | None:
    return os.environ.get("HF_ENDPOINT") or None


def _where() -> str:
    return _endpoint() or "https://huggingface.co"


def _reported(work: Callable[[], Result], what: str) -> Result:
    """Do the work, and turn what the hub's client and its transport raise into one line."""
    try:
        return work()
    except Exception as error:
        # Releases of the client use different transports, none of which is a dependency of ours.
        if type(error).__module__.partition(".")[0] not in _CLIENT and not isinstance(error, OSError):
            raise
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise TransferError(f"{what}: {_advice(error)} ({type(error).__name__}: {reason})") from None


def _advice(error: Exception) -> str:
    name = type(error).__name__
    if name in ("LocalEntryNotFoundError", "OfflineModeIsEnabled", "IncompleteSnapshotError"):
        return "the network does not answer or is switched off, and the local copy is not whole; run it again online"
    if name in ("RepositoryNotFoundError", "GatedRepoError", "HFValidationError"):
        return "there is no such repository, or the token may not see it; check the name and HF_TOKEN"
    if name == "RevisionNotFoundError":
        return "there is no such revision"
    return "the transfer failed; run it again, and what arrived is kept"
