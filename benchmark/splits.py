"""Which split each kernel stands in: by the lineage of its search, and never beside a near copy of what is scored."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmark.event_log import LogError, SearchLog
from benchmark.near_duplicate import THRESHOLD, Signature, most_alike
from benchmark.query import SPLITS, TEST_SPLITS
from benchmark.records import TABLES
from benchmark.samples import Kernel, Row

RULES = {
    "seeds": "the seeds of a task are divided between the splits before any search; a search uses those of its split",
    "same structure": "equal syntax trees after literals, launch options and names are replaced never stand in two "
    "splits: the copy on the training side is left out",
    "near-duplicate": f"so is a kernel whose structure has a MinHash Jaccard index of at least {THRESHOLD} with one of "
    "the scored side; test comes before validation, validation before train",
}


class Dropped:
    """Rows that were left out, by table and reason."""

    def __init__(self) -> None:
        self.ids: dict[tuple[str, str], list[str]] = defaultdict(list)
        self.counts: dict[tuple[str, str], int] = defaultdict(int)

    def add(self, table: str, reason: str, row_id: str | None = None, rows: int = 1) -> None:
        """Count rows of a table that were left out, and keep the id of one."""
        if table not in TABLES:
            raise KeyError(table)
        self.counts[table, reason] += rows
        if row_id is not None:
            self.ids[table, reason].append(row_id)

    def rows(self) -> list[Row]:
        """Return {table, reason, rows, ids} in a fixed order."""
        return [
            {"table": table, "reason": reason, "rows": rows, "ids": sorted(self.ids[table, reason])}
            for (table, reason), rows in sorted(self.counts.items())
        ]


def seed_splits(logs: Sequence[SearchLog]) -> dict[str, dict[str, str]]:
    """Return task -> seed -> split; a seed in two splits breaks the lineage rule, so it is a LogError."""
    splits: dict[str, dict[str, str]] = defaultdict(dict)
    searches: dict[str, SearchLog] = {}
    for log in logs:
        if log.split not in SPLITS:
            raise LogError(f"{log.path}, line 1: split is '{log.split}', expected one of {', '.join(SPLITS)}")
        if log.search_id in searches:
            raise LogError(f"{log.path}, line 1: search_id '{log.search_id}' is that of {searches[log.search_id].path}")
        searches[log.search_id] = log
        for seed in sorted({*log.seeds, *(n.seed_id for n in log.nodes.values())}):
            known = splits[log.task["name"]].setdefault(seed, log.split)
            if known != log.split:
                raise LogError(
                    f"{log.path}: seed '{seed}' is in split '{log.split}', but another search has it in '{known}'"
                )
    return {task: dict(sorted(seeds.items())) for task, seeds in sorted(splits.items())}


def unseen_tasks(splits: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Return the tasks of `test_unseen_task`. Raises LogError if one of them has a seed in another split."""
    unseen = [task for task, seeds in splits.items() if "test_unseen_task" in seeds.values()]
    for task in unseen:
        other = next((f"'{s}' in '{split}'" for s, split in splits[task].items() if split != "test_unseen_task"), None)
        if other:
            raise LogError(f"task '{task}' is in test_unseen_task, but another search uses its seed {other}")
    return unseen


def place_kernels(
    kernels: Mapping[str, Kernel],
    structures: Mapping[str, str],
    signatures: Mapping[str, Signature],
    dropped: Dropped,
) -> dict[str, str]:
    """Return the split of each kernel that stays; a near copy of the scored side leaves the training side.

    `structures` gives the structure_hash of each kernel, `signatures` the MinHash signature of each structure.
    """
    side = _by_structure(kernels, structures, dropped)
    for leaving, scored in (("validation", TEST_SPLITS), ("train", ("validation", *TEST_SPLITS))):
        near = near_structures(side, structures, signatures, leaving, scored)
        for k in [k for k, split in side.items() if split == leaving and structures[k] in near]:
            dropped.add("kernels", f"a near-duplicate stands in {near[structures[k]]}", k)
            del side[k]
    return side


def near_structures(
    side: Mapping[str, str],
    structures: Mapping[str, str],
    signatures: Mapping[str, Signature],
    leaving: str,
    scored: Sequence[str],
) -> dict[str, str]:
    """Return {structure of split `leaving`: split of its nearest in `scored`}, where the index reaches THRESHOLD."""
    split_of = {structures[k]: split for k, split in side.items()}
    own = sorted(s for s, split in split_of.items() if split == leaving)
    others = sorted(s for s, split in split_of.items() if split in scored)
    if not own or not others:
        return {}
    best, row = most_alike(np.array([signatures[s] for s in own]), np.array([signatures[s] for s in others]))
    near = np.nonzero(best >= THRESHOLD)[0]
    return {own[i]: split_of[others[row[i]]] for i in near}


def _by_structure(kernels: Mapping[str, Kernel], structures: Mapping[str, str], dropped: Dropped) -> dict[str, str]:
    """A structure stands on one side only: on the test side if it appears there, else in validation."""
    places: dict[str, set[str]] = defaultdict(set)
    for k, kernel in kernels.items():
        places[structures[k]].update(log.split for log, _ in kernel.measured)
    side: dict[str, str] = {}
    for k, kernel in kernels.items():
        seen = places[structures[k]]
        allowed = seen.intersection(TEST_SPLITS) or seen.intersection(("validation",)) or seen
        own = [split for split in SPLITS if split in allowed and any(log.split == split for log, _ in kernel.measured)]
        if own:
            side[k] = own[-1]
        else:
            dropped.add("kernels", f"its structure appears in {', '.join(sorted(allowed))}", k)
    return side


def split_manifest(splits: Mapping[str, Mapping[str, str]], logs: Sequence[SearchLog]) -> dict[str, Any]:
    """Return what the manifest says of the splits: the rules, and the seeds and searches of each split."""
    searches: dict[str, list[str]] = {split: [] for split in SPLITS}
    for log in logs:
        searches[log.split].append(log.search_id)
    return {
        "rules": RULES,
        "seeds": splits,
        "unseen_tasks": unseen_tasks(splits),
        "searches": {split: sorted(ids) for split, ids in searches.items() if ids},
    }
