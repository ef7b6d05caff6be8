"""Where a search takes place: the backend that measures, the problem, and the mutator that fits them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from harness.measure import Backend
from harness.search.config import Problem, SearchConfig, registered_problem
from harness.search.mutate import Mutator, RecordedMutator, SourceMutator
from harness.search.recording import Recording, load_recording
from harness.search.replay import ReplayBackend, recorded_problem


@dataclass(frozen=True)
class Setting:
    """What one search runs on."""

    backend: Backend
    problem: Problem
    mutator: Mutator


def live_setting(
    config: SearchConfig, backend: Backend, mutator_of: Callable[[Problem], Mutator] | None = None
) -> Setting:
    """Return the setting of a search that measures: the registered task and, unless another is given, `source`."""
    problem = registered_problem(config.task)
    return Setting(
        backend, problem, SourceMutator(constants=problem.constants) if mutator_of is None else mutator_of(problem)
    )


class ReplaySettings:
    """The settings of replays of one dataset: each search has a clock of its own, recordings are read once."""

    def __init__(self, dataset: str) -> None:
        self.dataset = dataset
        self._load = lru_cache(maxsize=8)(self._loaded)

    def _loaded(self, task: str, split: str) -> Recording:
        return load_recording(self.dataset, task, split)

    def seed_names(self, task: str, split: str) -> tuple[str, ...]:
        """Return the recorded seeds of a task in a split. Raises DataError, naming what there is."""
        return tuple(self._load(task, split).seeds)

    def __call__(self, config: SearchConfig) -> Setting:
        recording = self._load(config.task, config.split)
        return Setting(ReplayBackend(recording), recorded_problem(recording), RecordedMutator(recording))
