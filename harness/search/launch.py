"""Running searches for a command: check what was asked, open what it needs, and say how it goes."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tasks
from harness.destination import check_destination
from harness.measure import Backend
from harness.search.arms import ARMS
from harness.search.backends import check_backend, open_live_backend
from harness.search.campaign import Outcome, load_campaign, name_search, run_campaign
from harness.search.config import SearchConfig
from harness.search.confirmation import confirmation_rows
from harness.search.forecasting import Forecaster, open_forecaster
from harness.search.mutate.open import open_mutator
from harness.search.setting import ReplaySettings, live_setting
from harness.search.state import SearchState


@dataclass(frozen=True)
class Options:
    """What a command says about how to run, beside the searches themselves."""

    out: Path
    backend: str = "cuda"
    workers: int = 8
    isolation: str = "strict"
    gpus: str | None = None
    ray: str = "auto"
    time_limit: float | None = None
    dataset: str | None = None
    mutator: str = "source"
    at_once: int | None = None
    quiet: bool = False

    def check(self) -> None:
        """Raise ValueError, before anything starts, for options with which no search could run or be kept."""
        check_backend(self.backend)
        for name in ("workers", "at_once"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} is {value}, expected at least 1")
        if self.time_limit is not None and not (math.isfinite(self.time_limit) and self.time_limit > 0):
            raise ValueError(f"the time limit is {self.time_limit}, expected a finite number of seconds above 0")
        if self.backend == "replay" and self.mutator != "source":
            raise ValueError(f"backend replay knows recorded children only; leave out --mutator {self.mutator}")
        if self.mutator.startswith("llm") and self.isolation != "strict":
            raise ValueError("kernels that a model wrote need --isolation strict")
        check_destination(self.out, folder=True)

    def say(self, line: str) -> None:
        """Print a line on standard error unless quiet."""
        if not self.quiet:
            print(line, file=sys.stderr, flush=True)


def run_single(options: Options, **fields: Any) -> list[Outcome]:
    """Run or continue one search, named TASK-SPLIT-SEED[-ARM], from all seeds of its split."""
    options.check()
    replays = _replays(options)
    names = tasks.seed_names if replays is None else replays.seed_names
    name = name_search(fields["task"], fields["split"], fields["seed"], fields["arm"], fields.get("selection", "puct"))
    fields["seeds"] = tuple(names(fields["task"], fields["split"]))
    return _run([SearchConfig(name, **fields)], options, replays)


def run_file(options: Options, file: Path) -> list[Outcome]:
    """Run or continue the searches of a campaign file."""
    options.check()
    replays = _replays(options)
    names = tasks.seed_names if replays is None else replays.seed_names
    return _run(load_campaign(file, names), options, replays)


def _dataset(options: Options) -> str:
    from benchmark.data_access import DEFAULT_DATASET

    return options.dataset or DEFAULT_DATASET


def _replays(options: Options) -> ReplaySettings | None:
    return ReplaySettings(_dataset(options)) if options.backend == "replay" else None


def _run(configs: Sequence[SearchConfig], options: Options, replays: ReplaySettings | None) -> list[Outcome]:
    forecaster, configs = _forecaster(configs, options)
    shared: dict[str, Any] = {"report": options.say, "forecaster": forecaster, "searches": options.at_once}
    if replays is not None:
        # Replays take no device, only this process: side by side they would wait for each other.
        first = replays(configs[0]).backend
        shared["searches"] = options.at_once or 1
        return run_campaign(configs, first, options.out, options.time_limit, setting=replays, **shared)
    with open_mutator(options.mutator, options.out) as mutator_of, _live(options) as backend:
        return run_campaign(
            configs, backend, options.out, options.time_limit,
            setting=lambda config: live_setting(config, backend, mutator_of), **shared,
        )  # fmt: skip


@contextmanager
def _live(options: Options) -> Iterator[Backend]:
    with open_live_backend(options.backend, options.workers, options.isolation, options.gpus, options.ray) as backend:
        yield backend


def _forecaster(configs: Sequence[SearchConfig], options: Options) -> tuple[Forecaster | None, Sequence[SearchConfig]]:
    """Open the surrogate that the searches follow; its full name, with its seed, goes into their configuration."""
    wanted = {config.surrogate for config in configs if ARMS[config.arm].asks}
    if not wanted:
        return None, configs
    (expression,) = wanted
    assert expression is not None
    options.say(f"preparing the surrogate {expression}")
    forecaster = open_forecaster(expression, _fitting_dataset(options), None, options.say)
    named = [replace(c, surrogate=forecaster.name) if c.surrogate else c for c in configs]
    return forecaster, named


def _fitting_dataset(options: Options) -> str | None:
    """Return the dataset to fit and calibrate on; None where none was asked for and none can be read."""
    from importlib.util import find_spec

    if options.dataset is None and find_spec("pyarrow") is None:
        return None
    return _dataset(options)


def describe(outcome: Outcome) -> str:
    """Return one line about how a search ended."""
    if outcome.error is not None or outcome.state is None:
        return f"{outcome.search_id}: {outcome.reason}" + (f": {outcome.error}" if outcome.error else "")
    state = outcome.state
    costs = state.costs
    parts = [f"{state.measured} measured", f"{costs.proposals} proposed"]
    if costs.forecasts:
        parts.append(f"{costs.forecasts} forecasts in {costs.forecast_seconds:.1f} s")
    if tokens := costs.proposal_tokens + costs.forecast_tokens:
        parts.append(f"{tokens} tokens")
    if replayed(state):
        parts += [f"{leaf_share(state):.0%} leaf hits", f"{costs.measuring_seconds:.0f} s of GPU time replayed"]
    best = state.best()
    if best is not None and best.cases:
        parts.append(f"best {2 ** (best.reported or 0.0):.2f}x")
    if again := confirmation_rows(state):
        parts.append(f"{len(again)} measured again in strict")
        parts += [f"{row['kernel_id']} {row['verdict']}" for row in again if row["verdict"] != "confirmed"]
    return f"{outcome.search_id}: {outcome.reason}, {', '.join(parts)}"


def replayed(state: SearchState) -> bool:
    """Return whether a search took its results from a recording."""
    return any(session.get("timing_method") == "replay" for session in state.sessions.values())


def leaf_share(state: SearchState) -> float:
    """Return the share of selected parents for which the recording held no further children."""
    selected = sum(len(step.parents) for step in state.steps)
    return len(state.exhausted) / selected if selected else 0.0


def row(outcome: Outcome) -> dict[str, Any]:
    """Return how a search ended as JSON values."""
    state = outcome.state
    found: dict[str, Any] = {
        "search_id": outcome.search_id,
        "reason": outcome.reason,
        "measured": outcome.measured,
        "error": str(outcome.error) if outcome.error else None,
    }
    if state is not None:
        best = state.best()
        found["best_speedup"] = 2 ** (best.reported or 0.0) if best is not None and best.cases else None
        found["best_isolation"] = best.reported_isolation if best is not None else None
        found["confirmations"] = confirmation_rows(state)
        found["costs"] = state.costs.to_json()
        found["leaf_share"] = leaf_share(state) if replayed(state) else None
    return found
