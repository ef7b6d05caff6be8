"""Numbers that describe one query: the candidate, how it differs from its anchor, and what the task's facts imply."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from statistics import fmean
from typing import Any

import numpy as np

from benchmark.bins import Floats
from benchmark.query import Query
from harness.surrogates.features import Features, constants, role, source_features

BANDWIDTH = 4.3e12  # bytes per second that a plain copy reaches on an H200
_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?:e-?\d+)?(?![\w.])")


def query_features(query: Query) -> Features:
    """Return the features of one query; a name that is absent stands for zero."""
    candidate, anchor = source_features(query.candidate_code), source_features(query.anchor_code)
    out: Features = {f"candidate.{name}": value for name, value in candidate.items()}
    for name in candidate.keys() | anchor.keys():
        change = candidate.get(name, 0.0) - anchor.get(name, 0.0)
        if change:
            out[f"change.{name}"] = change
    out.update(_edit_features(query.anchor_code, query.candidate_code))
    out.update(_task_features(query.facts, query.anchor_time_us))
    out["anchor.is_parent"] = float(query.anchor_kind == "parent")
    out["anchor.jit"] = anchor.get("jit", 0.0)
    out["anchor.cuda"] = anchor.get("cuda.kernels", 0.0)
    return out


def compiled_features(query: Query) -> Features:
    """Return what the compiler said of both kernels: registers, spills, shared memory, and the change in each.

    Absent facts stand for zero, and `compiled.known` says which kernel has any.
    """
    facts = query.facts.get("compiled")
    if facts is None:
        raise ValueError("the query carries no compiled facts; ask through `kernelcast forecast` or `evaluate`")
    candidate, anchor = facts["candidate"], facts["anchor"]
    out: Features = {"compiled.known": float(bool(candidate)), "compiled.anchor_known": float(bool(anchor))}
    for name, value in candidate.items():
        out[f"compiled.{name}"] = math.log2(1 + value)
        if name in anchor:
            out[f"compiled.change.{name}"] = math.log2(1 + value) - math.log2(1 + anchor[name])
    return out


@lru_cache(maxsize=16384)
def _edit_features(before: str, after: str) -> Mapping[str, float]:
    out: Features = {}
    old, new = before.splitlines(), after.splitlines()
    removed = added = 0
    up = down = 0.0
    for tag, a, b, c, d in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        removed, added = removed + b - a, added + d - c
        for x, y in _number_changes(old[a:b], new[c:d]):
            ratio = math.log2(y / x)
            up, down = up + max(ratio, 0.0), down + min(ratio, 0.0)
    out["edit.removed"], out["edit.added"] = float(removed), float(added)
    out["edit.share"] = (removed + added) / max(len(old) + len(new), 1)
    out["edit.numbers_up"], out["edit.numbers_down"] = up, down
    first, second = constants(before), constants(after)
    for name in sorted(first.keys() & second.keys()):
        if first[name] != second[name] and min(first[name], second[name]) > 0:
            key = f"edit.{role(name)}"
            out[key] = out.get(key, 0.0) + math.log2(second[name] / first[name])
    out["edit.names_added"] = float(len(second.keys() - first.keys()))
    out["edit.names_removed"] = float(len(first.keys() - second.keys()))
    return out


def _number_changes(old: Sequence[str], new: Sequence[str]) -> list[tuple[float, float]]:
    """Return the positive numbers that differ between lines that are equal apart from their numbers."""
    if len(old) != len(new):
        return []
    changes = []
    for before, after in zip(old, new, strict=True):
        if _NUMBER.sub("0", before) == _NUMBER.sub("0", after):
            pairs = zip(map(float, _NUMBER.findall(before)), map(float, _NUMBER.findall(after)), strict=True)
            changes += [(x, y) for x, y in pairs if x != y and x > 0 and y > 0]
    return changes


def _task_features(facts: Mapping[str, Any], anchor_time_us: float | None) -> Features:
    cases = [c for c in facts.get("cases", ()) if c.get("timing", True)]
    out: Features = {"task.cases": float(len(cases))}
    bytes_ = [math.log2(c["bytes"]) for c in cases if c.get("bytes")]
    flops = [math.log2(c["flops"]) for c in cases if c.get("flops")]
    if anchor_time_us:
        out["anchor.time"] = math.log2(anchor_time_us)
    if bytes_:
        out["task.bytes"], out["task.bytes_spread"] = fmean(bytes_), max(bytes_) - min(bytes_)
        floor_us = fmean(bytes_) - math.log2(BANDWIDTH) + math.log2(1e6)
        out["task.floor"] = floor_us
        if anchor_time_us:
            out["anchor.over_floor"] = math.log2(anchor_time_us) - floor_us
    if flops:
        out["task.flops"] = fmean(flops)
        out["task.intensity"] = fmean(flops) - (fmean(bytes_) if bytes_ else 0.0)
    return out


def varying_features(rows: Sequence[Mapping[str, float]]) -> tuple[str, ...]:
    """Return the names of the features that take more than one value over the rows, sorted; absent counts as zero."""
    names = sorted({name for row in rows for name in row})
    values = matrix(rows, names)
    return tuple(name for name, spread in zip(names, np.ptp(values, axis=0), strict=True) if spread > 0)


def matrix(rows: Sequence[Mapping[str, float]], names: Sequence[str]) -> Floats:
    """Return features as an array of shape (len(rows), len(names))."""
    return np.array([[row.get(name, 0.0) for name in names] for row in rows]).reshape(len(rows), len(names))
