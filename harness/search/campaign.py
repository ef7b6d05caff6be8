"""Many searches over one backend at a time, from a grid in a TOML file."""

from __future__ import annotations

import threading
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tasks
from harness.measure import Backend
from harness.search.run import SearchConfig, run_search
from harness.search.state import SearchState

REPORT_SECONDS = 5.0
_TABLES = {"tasks", "splits", "search"}
_SPLIT_FIELDS = {"searches", "budget"}
_SEARCH_FIELDS = {"seed", "parents_per_step", "children_per_parent", "c_puct"}


def load_campaign(path: Path | str) -> list[SearchConfig]:
    """Return the searches of a campaign file.

    The file has `tasks` (names), a table `splits.NAME` with `searches` and `budget` for each split, and optionally a
    table `search` with fields that all searches share. Search i of a split is named TASK-SPLIT-i and has the seed
    `seed + i`. Raises ValueError, naming the file and the field, for anything else.
    """
    path = Path(path)
    try:
        grid = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path}: not a TOML file: {error}") from None
    _check_fields(path, "the top level", grid, _TABLES)
    shared = grid.get("search", {})
    _check_fields(path, "[search]", shared, _SEARCH_FIELDS)
    if not grid.get("tasks") or not grid.get("splits"):
        raise ValueError(f"{path}: expected a list 'tasks' and a table [splits.NAME] for each split")
    configs = []
    for split, fields in grid["splits"].items():
        _check_fields(path, f"[splits.{split}]", fields, _SPLIT_FIELDS)
        for name in ("searches", "budget"):
            if type(fields.get(name)) is not int or fields[name] < 1:
                raise ValueError(
                    f"{path}, [splits.{split}]: '{name}' is {fields.get(name)!r}, expected an integer from 1"
                )
    for task in grid["tasks"]:
        for split, fields in grid["splits"].items():
            configs += _searches(task, split, fields, shared)
    return configs


def _check_fields(path: Path, where: str, found: Any, allowed: set[str]) -> None:
    if not isinstance(found, dict):
        raise ValueError(f"{path}, {where}: expected a table, found {found!r}")
    for name in found:
        if name not in allowed:
            raise ValueError(f"{path}, {where}: unknown field '{name}'; known fields: {', '.join(sorted(allowed))}")


def _searches(task: str, split: str, fields: Mapping[str, int], shared: Mapping[str, Any]) -> list[SearchConfig]:
    common = dict(shared)
    first_seed = common.pop("seed", 0)
    return [
        SearchConfig(f"{task}-{split}-{i}", task, split, seeds, fields["budget"], seed=first_seed + i, **common)
        for i, seeds in enumerate(divide_seeds(tasks.seed_names(task, split), fields["searches"]))
    ]


def divide_seeds(seeds: Sequence[str], searches: int) -> list[tuple[str, ...]]:
    """Return the seeds of each search: disjoint parts of nearly equal size, or all for each if there are too few."""
    if len(seeds) < searches:
        return [tuple(seeds)] * searches
    return [tuple(seeds[i::searches]) for i in range(searches)]


@dataclass
class Progress:
    """Counts over all searches of a campaign, as they go; without times (`timed`) no kernel is called the best."""

    planned: dict[str, int]
    timed: bool = True
    started: float = field(default_factory=time.monotonic)
    states: dict[str, SearchState] = field(default_factory=dict)
    already: dict[str, int] = field(default_factory=dict)

    def update(self, state: SearchState) -> None:
        """Take note of a search; its first state says what an earlier session had measured."""
        self.already.setdefault(state.search_id, state.measured)
        self.states[state.search_id] = state

    def line(self, minutes: float | None) -> str:
        """Return one line: measured and planned, rate, time left, share of correct kernels, best of each search."""
        states = list(self.states.values())
        measured = {s.search_id: s.measured for s in states}
        done, total = sum(measured.values()), sum(self.planned.values())
        elapsed = max(time.monotonic() - self.started, 1e-9)
        rate = (done - sum(self.already.values())) / elapsed
        # An exhausted search leaves its budget unspent for good.
        open_work = sum(self.planned[k] - measured.get(k, 0) for k in self.planned if not self._finished(k))
        left = open_work / rate if rate > 0 else float("inf")
        if minutes is not None:
            left = min(left, max(0.0, 60 * minutes - elapsed))
        correct = sum(n.status == "ok" for s in states for n in list(s.nodes.values()))
        best = " ".join(f"{k}={2 ** (b.value or 0.0):.2f}x" for k, s in sorted(self.states.items()) if (b := s.best()))
        verdict = f"best {best or '-'}" if self.timed else "not timed"
        share = f"{correct / done:.0%} ok" if done else "nothing measured"
        remaining = "?" if left == float("inf") else f"{left:.0f} s"
        return f"[{done}/{total}] {rate:.1f}/s, {remaining} left, {share}, {verdict}"

    def _finished(self, search_id: str) -> bool:
        state = self.states.get(search_id)
        return state is not None and state.finished


@dataclass(frozen=True)
class Outcome:
    """How one search of a campaign ended: `reason` as in its log, or the error that stopped it."""

    search_id: str
    reason: str
    measured: int = 0
    error: BaseException | None = None


def run_campaign(
    configs: Sequence[SearchConfig],
    backend: Backend,
    out_dir: Path | str,
    minutes: float | None = None,
    searches: int | None = None,
    report: Callable[[str], None] = lambda line: None,
) -> list[Outcome]:
    """Run or continue searches side by side in OUT/SEARCH_ID and return how each ended.

    After `minutes` no measurement is started any more; what runs is logged, and the same call continues later. An error
    ends its own search only and stands in its outcome. `searches` limits how many run at once.
    """
    timed = backend.session.get("timing_method") != "none"
    progress = Progress({c.search_id: c.budget for c in configs}, timed)
    deadline = None if minutes is None else progress.started + 60 * minutes
    halt = threading.Event()

    def stop() -> bool:
        return halt.is_set() or (deadline is not None and time.monotonic() >= deadline)

    def one(config: SearchConfig) -> Outcome:
        if stop():
            return Outcome(config.search_id, "interrupted")
        try:
            state = run_search(config, backend, Path(out_dir) / config.search_id, progress.update, stop=stop)
        except Exception as error:  # the others go on; the caller reports it and fails
            return Outcome(config.search_id, "error", error=error)
        progress.update(state)
        return Outcome(config.search_id, state.completed or "interrupted", state.measured)

    with ThreadPoolExecutor(max_workers=searches or len(configs) or 1) as pool:
        futures = [pool.submit(one, config) for config in configs]
        try:
            while not all(future.done() for future in futures):
                report(progress.line(minutes))
                _wait(futures, REPORT_SECONDS)
        except BaseException:
            halt.set()
            raise
    report(progress.line(minutes))
    return [future.result() for future in futures]


def _wait(futures: Sequence[Any], seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until and not all(future.done() for future in futures):
        time.sleep(0.05)
