"""Content-addressed ids: the same kernel, pair or evaluation row has the same id on every machine."""

from __future__ import annotations

import hashlib


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def normalise_newlines(code: str) -> str:
    """Return the source with LF line endings, the form that is hashed and stored."""
    return code.replace("\r\n", "\n").replace("\r", "\n")


def kernel_id(task: str, code: str) -> str:
    """Return `k-` and 16 hex digits of SHA-256 over task, NUL and the LF-ended source."""
    return "k-" + _digest(task, normalise_newlines(code))


def pair_id(search_id: str, parent_id: str, child_id: str) -> str:
    """Return `p-` and 16 hex digits over the search and the two kernel ids."""
    return "p-" + _digest(search_id, parent_id, child_id)


def pool_query_id(task: str, split: str, candidate_id: str) -> str:
    """Return `q-` and 16 hex digits over task, split and kernel id: the id of a pool query."""
    return "q-" + _digest("pool", task, split, candidate_id)


def eval_id(task: str, anchor_id: str | None, candidate_id: str) -> str:
    """Return `e-` and 16 hex digits over task, anchor (None for the task's reference) and candidate."""
    return "e-" + _digest(task, anchor_id or "reference", candidate_id)
