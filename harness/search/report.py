"""What searches found for what they spent: best-so-far curves, one row per arm with intervals over seeds, operators."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmark.event_log import LOG_NAMES
from benchmark.event_log import read_events as read_any
from harness.search.confirmation import confirmation_rows
from harness.search.launch import leaf_share, replayed
from harness.search.state import SearchState, apply

Floats = npt.NDArray[np.float64]
CHANGED_LOG2 = math.log2(1.03)
DISCOVERY_LOG2 = 0.5  # sqrt(2)
NEAR_BEST = 0.95
RESAMPLES = 2000


@dataclass(frozen=True)
class Run:
    """One search, and its best log2 speedup after each measurement (nan until one works), shape (measured,).

    The curve holds what the search read; kernels whose confirmation in `strict` failed are left out.
    """

    state: SearchState
    curve: Floats

    @property
    def arm(self) -> str:
        """The arm, with the surrogate that it follows."""
        surrogate = self.state.config.get("surrogate")
        name = str(self.state.config.get("arm"))
        tree = " (tree)" if self.state.config.get("selection") == "uniform" else ""
        return f"{name} {surrogate}" if surrogate else name + tree

    @property
    def group(self) -> tuple[str, str, str]:
        """What searches are compared as: task, split and arm."""
        return str(self.state.task["name"]), str(self.state.config["split"]), self.arm

    @property
    def best(self) -> float | None:
        """The best log2 speedup, as confirmed in `strict` where kernels were; None if no kernel worked or was timed."""
        best = self.state.best()
        return None if best is None or not best.cases else best.reported

    @property
    def peak(self) -> float | None:
        """The highest log2 speedup that the search read; None if no kernel worked."""
        return None if not len(self.curve) or np.isnan(self.curve[-1]) else float(self.curve[-1])


def find_runs(folders: Iterable[Path]) -> list[Run]:
    """Return the searches in folders, each that of one search or of several. Raises FileNotFoundError, LogError."""
    runs: dict[Path, Run] = {}
    for folder in folders:
        places = [folder, *sorted(p for p in folder.iterdir() if p.is_dir())] if folder.is_dir() else []
        found = [place / name for place in places for name in LOG_NAMES if (place / name).is_file()]
        if not found:
            raise FileNotFoundError(f"{folder}: no search here; expected {LOG_NAMES[0]} in it or in a folder of it")
        for path in found:
            if path.resolve() not in runs:
                runs[path.resolve()] = _run(path)
    return list(runs.values())


def _run(path: Path) -> Run:
    events, _ = read_any(path)
    state = SearchState()
    spent: list[str] = []
    for event in events:
        before = state.measured
        apply(state, event)
        if state.measured > before:
            spent.append(event["node_id"])
    if not state.started:
        raise ValueError(f"{path}: an empty log; nothing to report")
    worked = [
        node.value if node.cases and node.reported is not None else None for node in map(state.nodes.__getitem__, spent)
    ]
    values = [-math.inf if value is None else value for value in worked]
    curve = np.maximum.accumulate(np.array(values)) if values else np.zeros(0)
    return Run(state, np.where(np.isneginf(curve), np.nan, curve))


def rows_of(runs: Sequence[Run], seed: int = 0) -> list[dict[str, Any]]:
    """Return one row per task, split and arm: the best speedup with its 95% interval over searches, and the costs.

    `to_near_best` is the median number of measurements to reach 95% of the mean best speedup of gpu-only there; None
    where half of the searches never do, or nothing is to compare with; what the searches read as they went decides.
    `best_isolation` is the level at which the best ones were measured. An interval needs three searches.
    """
    groups: dict[tuple[str, str, str], list[Run]] = defaultdict(list)
    for run in runs:
        groups[run.group].append(run)
    rng = np.random.default_rng(seed)
    rows = []
    for (task, split, arm), members in sorted(groups.items()):
        best = [run.best for run in members if run.best is not None]
        low, high = interval(np.array(best), rng)
        rival = [run.peak for run in groups.get((task, split, "gpu-only"), []) if run.peak is not None]
        target = float(np.mean(rival)) + math.log2(NEAR_BEST) if rival else None
        rows.append(
            {
                "task": task,
                "split": split,
                "arm": arm,
                "searches": len(members),
                "measured": sum(run.state.measured for run in members),
                "best_speedup": 2 ** float(np.mean(best)) if best else None,
                "best_low": None if low is None else 2**low,
                "best_high": None if high is None else 2**high,
                "best_isolation": _levels([run.state for run in members]),
                "to_near_best": None if target is None else _to_reach([run.curve for run in members], target),
                **shares([run.state for run in members]),
                **_costs([run.state for run in members]),
            }
        )
    return rows


def _levels(states: Sequence[SearchState]) -> str | None:
    best = [node for state in states if (node := state.best()) is not None]
    return "+".join(sorted({node.reported_isolation or "unknown" for node in best})) or None


def confirmations(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return one row for each kernel that was measured again in `strict`, by search; see `confirmation_rows`."""
    return [row for run in runs for row in confirmation_rows(run.state)]


def interval(values: Floats, rng: np.random.Generator) -> tuple[float | None, float | None]:
    """Return the 95% percentile bootstrap interval of a mean over searches; (None, None) for fewer than three."""
    if len(values) < 3:
        return None, None
    means = values[rng.integers(0, len(values), (RESAMPLES, len(values)))].mean(axis=1)
    low, high = np.quantile(means, (0.025, 0.975))
    return float(low), float(high)


def _to_reach(curves: Sequence[Floats], target: float) -> int | None:
    """Return the median number of measurements after which a curve is at the target; None if half never are."""
    needed = [math.inf if not (c >= target).any() else float(np.argmax(c >= target) + 1) for c in curves]
    middle = float(np.median(needed))
    return math.ceil(middle) if math.isfinite(middle) else None


def shares(states: Sequence[SearchState]) -> dict[str, float | None]:
    """Return the shares of measured children that work, that differ from the parent by over 3%, and that beat it by
    over sqrt 2; None without a child.
    """
    edges = [edge for state in states for edge in edges_of(state)]
    return _shares([log2 for _, log2 in edges])


def edges_of(state: SearchState) -> list[tuple[str, float | None]]:
    """Return (operator, log2 speedup over the parent) of every measured child of a measured parent; None if it failed.

    Both are the first measurements, so that the parent of a lucky reading makes its children look slow.
    """
    edges = []
    for node in state.nodes.values():
        parent = state.nodes.get(node.parent_node_id or "")
        if parent is not None and parent.value is not None and node.status is not None:
            edges.append((node.operator or "", None if node.value is None else node.value - parent.value))
    return edges


def _shares(logs: Sequence[float | None]) -> dict[str, float | None]:
    ok = [log2 for log2 in logs if log2 is not None]
    count = len(logs)
    return {
        "ok_share": len(ok) / count if count else None,
        "changed_share": sum(abs(x) > CHANGED_LOG2 for x in ok) / count if count else None,
        "discovery_share": sum(x > DISCOVERY_LOG2 for x in ok) / count if count else None,
    }


def operators(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return the shares of each operator over all searches; a child of several edits counts for each of them."""
    found: dict[str, list[float | None]] = defaultdict(list)
    for run in runs:
        for names, log2 in edges_of(run.state):
            for name in names.split("+"):
                found[name].append(log2)
    rows = [{"operator": name, "children": len(logs), **_shares(logs)} for name, logs in found.items()]
    return sorted(rows, key=lambda row: (-row["children"], row["operator"]))


def _costs(states: Sequence[SearchState]) -> dict[str, Any]:
    leaves = [leaf_share(state) for state in states if replayed(state)]
    return {
        "proposals": sum(s.costs.proposals for s in states),
        "forecasts": sum(s.costs.forecasts for s in states),
        "tokens": sum(s.costs.proposal_tokens + s.costs.forecast_tokens for s in states),
        "forecast_s": math.fsum(s.costs.forecast_seconds for s in states),
        "measuring_s": math.fsum(s.costs.measuring_seconds for s in states),
        "leaf_share": sum(leaves) / len(leaves) if leaves else None,
    }
