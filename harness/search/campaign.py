"""Many searches over one backend at a time, from a grid in a TOML file."""

from __future__ import annotations

import threading
import time
import tomllib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import tasks
from harness.measure import Backend
from harness.search.arms import ARMS
from harness.search.config import SearchConfig
from harness.search.forecasting import Forecaster
from harness.search.progress import Progress
from harness.search.run import run_search
from harness.search.setting import Setting, live_setting
from harness.search.state import SearchState

REPORT_SECONDS = 5.0
_TOP = {"tasks", "splits", "search", "arms", "surrogate", "label"}
_SPLIT_FIELDS = {"searches", "budget", "repeats", "selection"}
_SEARCH_FIELDS = {
    "seed", "parents_per_step", "children_per_parent", "measured_per_parent", "c_puct", "selection",
    "measure_parents_again", "confirmations",
}  # fmt: skip
SeedNames = Callable[[str, str], Sequence[str]]


def load_campaign(path: Path | str, seed_names: SeedNames = tasks.seed_names) -> list[SearchConfig]:
    """Return the searches of a campaign file.

    The file has `tasks` (names), a table `splits.NAME` with `searches`, `budget` and optionally `repeats` and its own
    `selection` for each split, optionally `arms` and the `surrogate` of those that ask one, and a table `search` with
    fields that all searches share. The seeds of a split are divided between its searches; repeat r of search i has the
    seed `seed + i + r * searches` and the name TASK-SPLIT-NUMBER, followed by the arm if it is not gpu-only, by
    `uniform` if parents are drawn so, and by the file's `label` if it has one. Raises ValueError, naming the file and
    the field, for anything else.
    """
    path = Path(path)
    try:
        grid = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: not a TOML file: {error}") from None
    _check_fields(path, "the top level", grid, _TOP)
    shared = grid.get("search", {})
    _check_fields(path, "[search]", shared, _SEARCH_FIELDS)
    if not grid.get("tasks") or not grid.get("splits"):
        raise ValueError(f"{path}: expected a list 'tasks' and a table [splits.NAME] for each split")
    arms = grid.get("arms", ["gpu-only"])
    if not isinstance(arms, list) or not arms or not all(isinstance(arm, str) for arm in arms):
        raise ValueError(f"{path}: 'arms' is {arms!r}, expected a list of names: {', '.join(ARMS)}")
    for split, fields in grid["splits"].items():
        _check_split(path, split, fields)
    configs = []
    for task, (split, fields), arm in product(grid["tasks"], grid["splits"].items(), arms):
        surrogate = grid.get("surrogate") if arm in ARMS and ARMS[arm].asks else None
        try:
            found = _searches(task, split, seed_names(task, split), fields, {**shared, "arm": arm}, surrogate)
            configs += [replace(c, search_id="-".join(filter(None, (c.search_id, grid.get("label"))))) for c in found]
        except (TypeError, ValueError) as error:
            raise ValueError(f"{path}: {error}") from None
    return configs


def _check_split(path: Path, split: str, fields: Any) -> None:
    _check_fields(path, f"[splits.{split}]", fields, _SPLIT_FIELDS)
    for name in ("searches", "budget", "repeats"):
        value = fields.get(name, 1 if name == "repeats" else None)
        if type(value) is not int or value < 1:
            raise ValueError(f"{path}, [splits.{split}]: '{name}' is {value!r}, expected an integer from 1")


def _check_fields(path: Path, where: str, found: Any, allowed: set[str]) -> None:
    if not isinstance(found, dict):
        raise ValueError(f"{path}, {where}: expected a table, found {found!r}")
    for name in found:
        if name not in allowed:
            raise ValueError(f"{path}, {where}: unknown field '{name}'; known fields: {', '.join(sorted(allowed))}")


def _searches(
    task: str, split: str, seeds: Sequence[str], fields: Mapping[str, Any], shared: Mapping[str, Any],
    surrogate: str | None,
) -> list[SearchConfig]:  # fmt: skip
    common = {**shared, **{k: v for k, v in fields.items() if k == "selection"}}
    first = common.pop("seed", 0)
    parts = divide_seeds(seeds, fields["searches"]) * fields.get("repeats", 1)
    return [
        SearchConfig(
            name_search(task, split, i, common["arm"], common.get("selection", "puct")), task, split, part,
            fields["budget"], seed=first + i, surrogate=surrogate, **common,
        )
        for i, part in enumerate(parts)
    ]  # fmt: skip


def name_search(task: str, split: str, number: int, arm: str, selection: str = "puct") -> str:
    """Return the name of a search, also that of its folder."""
    extra = ([] if arm == "gpu-only" else [arm]) + (["uniform"] if selection == "uniform" else [])
    return "-".join([task, split, str(number), *extra])


def divide_seeds(seeds: Sequence[str], searches: int) -> list[tuple[str, ...]]:
    """Return the seeds of each search: disjoint parts of nearly equal size, or all for each if there are too few."""
    if len(seeds) < searches:
        return [tuple(seeds)] * searches
    return [tuple(seeds[i::searches]) for i in range(searches)]


@dataclass(frozen=True)
class Outcome:
    """How one search of a campaign ended: `reason` as in its log, or the error that stopped it."""

    search_id: str
    reason: str
    state: SearchState | None = None
    error: BaseException | None = None

    @property
    def measured(self) -> int:
        """Candidate measurements that the search has spent."""
        return self.state.measured if self.state else 0


def run_campaign(
    configs: Sequence[SearchConfig],
    backend: Backend,
    out_dir: Path | str,
    seconds: float | None = None,
    searches: int | None = None,
    report: Callable[[str], None] = lambda line: None,
    *,
    setting: Callable[[SearchConfig], Setting] | None = None,
    forecaster: Forecaster | None = None,
) -> list[Outcome]:
    """Run or continue searches side by side in OUT/SEARCH_ID and return how each ended.

    After `seconds` no measurement is started any more; what runs is logged, and the same call continues later. An error
    ends its own search only and stands in its outcome. `searches` limits how many run at once. `setting` gives the
    backend, problem and mutator of a search where they are not those of this installation.
    """
    settings = setting or (lambda config: live_setting(config, backend))
    timed = backend.session.get("timing_method") != "none"
    progress = Progress({c.search_id: c.budget for c in configs}, timed)
    deadline = None if seconds is None else progress.started + seconds
    halt = threading.Event()

    def stop() -> bool:
        return halt.is_set() or (deadline is not None and time.monotonic() >= deadline)

    def one(config: SearchConfig) -> Outcome:
        if stop():
            return Outcome(config.search_id, "interrupted")
        try:
            place = settings(config)
            folder = Path(out_dir) / config.search_id
            state = run_search(
                config, place.backend, folder, progress.update, mutator=place.mutator, problem=place.problem,
                forecaster=forecaster if ARMS[config.arm].asks else None, stop=stop,
            )  # fmt: skip
        except Exception as error:  # the others go on; the caller reports it and fails
            return Outcome(config.search_id, "error", error=error)
        progress.update(state)
        return Outcome(config.search_id, state.completed or "interrupted", state)

    with ThreadPoolExecutor(max_workers=searches or len(configs) or 1) as pool:
        futures = [pool.submit(one, config) for config in configs]
        try:
            while not all(future.done() for future in futures):
                report(progress.line(seconds))
                _wait(futures, REPORT_SECONDS)
        except BaseException:
            halt.set()
            raise
    report(progress.line(seconds))
    return [future.result() for future in futures]


def _wait(futures: Sequence[Any], seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until and not all(future.done() for future in futures):
        time.sleep(0.05)
