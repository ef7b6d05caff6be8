"""One search: measure the seeds, then choose parents, propose, forecast, measure and score, until the budget is spent.

A step goes through phases. What a phase decides is logged before the next one begins, and each phase does only what the
log does not have yet, so that a search continues from any prefix of its log.
"""

from __future__ import annotations

import platform
import random
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import benchmark
from benchmark.code_view import language_of
from benchmark.identity import kernel_id
from harness.measure import Backend, Measurement
from harness.search.backends import session_rows
from harness.search.config import Problem, SearchConfig, registered_problem
from harness.search.confirmation import confirmations_of, to_confirm
from harness.search.events import FILE_NAME, SCHEMA_VERSION, EventLog, LogError, require_same_config
from harness.search.forecasting import Forecaster
from harness.search.measuring import CONFIRMATION, Job, Measuring
from harness.search.mutate import Mutator, SourceMutator
from harness.search.node import Node
from harness.search.phases import Phases
from harness.search.state import SearchState, apply, fold
from harness.search.tree import TreeIndex

MOST_BARREN_STEPS = 400  # in a row: a mutator that always answers, but never with a child, must not run for ever
Watch = Callable[[SearchState], None]


def _never() -> bool:
    return False


def run_search(
    config: SearchConfig,
    backend: Backend,
    out_dir: Path | str,
    progress: Watch | None = None,
    *,
    mutator: Mutator | None = None,
    problem: Problem | None = None,
    forecaster: Forecaster | None = None,
    stop: Callable[[], bool] = _never,
) -> SearchState:
    """Run or continue a search in its folder and return its last state.

    `stop` is asked between measurements: once it is true nothing new starts, what runs is awaited and logged, and the
    log can be continued later. Raises LogError if the folder holds a log of another configuration, LogUnwritable if an
    event does not get onto the disk.
    """
    problem = problem or registered_problem(config.task)
    durable = backend.session.get("timing_method") != "replay"
    with EventLog(Path(out_dir) / FILE_NAME, durable) as log:
        mutator = mutator or SourceMutator(constants=problem.constants)
        search = _Search(config, problem, backend, log, progress, mutator, forecaster, stop)
        try:
            return search.run()
        except KeyboardInterrupt:
            search.close_interrupted()
            raise


class _Search:
    def __init__(
        self,
        config: SearchConfig,
        problem: Problem,
        backend: Backend,
        log: EventLog,
        progress: Watch | None,
        mutator: Mutator,
        forecaster: Forecaster | None,
        stop: Callable[[], bool],
    ) -> None:
        self.config, self.problem, self.backend, self.log = config, problem, backend, log
        self.mutator, self.forecaster = mutator, forecaster
        self.progress, self.stop = progress, stop
        self.confirmations = confirmations_of(config, backend.session)
        self.state = fold(log.events)
        self.tree = TreeIndex()
        self.measuring = Measuring(backend, config.task, stop, self._log_measured)
        self.phases = Phases(config, self.state, mutator, forecaster, backend, self.emit)

    def emit(self, kind: str, **payload: Any) -> None:
        """Log one event and bring the state forward by it."""
        apply(self.state, self.log.append(kind, payload))
        if self.progress:
            self.progress(self.state)

    def _log_measured(self, node: Node, role: str, measurement: Measurement) -> None:
        keys = {"node_id": node.node_id, "kernel_id": node.kernel_id}
        if role == CONFIRMATION:
            self.emit("confirmed", **keys, measurement=measurement.to_json())
        else:
            self.emit("measured", **keys, role=role, measurement=measurement.to_json())

    def run(self) -> SearchState:
        self._begin()
        if self.state.finished:
            return self.state
        for session in session_rows(self.backend):
            self.emit("session_started", session=session)
        self._measure_seeds()
        while not self.stop():
            if self.state.step == self.state.steps_completed:
                reason = self._begin_step()
                if reason:
                    if not self._confirm():
                        break
                    self.emit("search_completed", reason=reason)
                    return self.state
            if self._finish_step():
                self.emit("step_completed", step=self.state.step)
        self.emit("search_completed", reason="interrupted")
        return self.state

    def close_interrupted(self) -> None:
        self.measuring.cancel()
        self.log.append("search_completed", {"reason": "interrupted"})

    def _begin(self) -> None:
        session = self.backend.session
        config = self.config.logged() | {"mutator": self.mutator.name, "isolation": session["isolation"]}
        if not self.confirmations:
            del config["confirmations"]  # what a search does without must not keep its log from going on
        if self.state.started:
            if self.state.search_id != self.config.search_id:
                found, wanted = self.state.search_id, self.config.search_id
                raise LogError(
                    f"{self.log.path}: the log of search '{found}', not of '{wanted}'; choose another folder"
                )
            require_same_config(self.log.path, self.state.config, config)
        else:
            self.emit(
                "search_started",
                search_id=self.config.search_id,
                schema=SCHEMA_VERSION,
                created_at=datetime.now(UTC).isoformat(timespec="seconds"),
                config=config,
                versions={
                    "harness": benchmark.__version__,
                    "python": platform.python_version(),
                    "torch": session.get("torch"),
                    "triton": session.get("triton"),
                },
                hardware={name: session.get(name) for name in ("gpu", "driver", "cuda")},
                task=dict(self.problem.description),
            )
        if self.forecaster is not None and self.state.calibration is None:
            self.emit("calibrated", calibration=self.forecaster.calibration.to_json())

    def _measure_seeds(self) -> None:
        added = {node.seed_id for node in self.state.of_step(0)}
        if self.state.step == 0:
            for name in self.config.seeds[: self.config.budget]:
                if name not in added:
                    code = self.problem.seed_code(name)
                    self.emit(
                        "seed_added",
                        node_id=f"{self.config.search_id}/{len(self.state.nodes)}",
                        kernel_id=kernel_id(self.config.task, code),
                        seed_id=name,
                        language=language_of(code),
                        code=code,
                        step=0,
                    )
        self.measuring.run([(node, "candidate") for node in self.state.of_step(0) if node.status is None])

    def _confirm(self) -> bool:
        """Measure the fastest kernels in `strict`; False if the search was stopped before all were done."""
        return self.measuring.run([(node, CONFIRMATION) for node in to_confirm(self.state, self.confirmations)])

    def _begin_step(self) -> str | None:
        """Log the parents of the next step; the reason if there is none."""
        if self.state.measured >= self.config.budget:
            return "budget"
        if self.state.barren_steps >= MOST_BARREN_STEPS:
            return "exhausted"
        self.tree.advance(self.state)
        step, count = self.state.step + 1, self.config.parents_per_step
        if self.config.selection == "uniform":
            parents = self.tree.draw(self.state, count, random.Random(f"{self.config.seed}/{step}/parents"))
        else:
            parents = self.tree.select(self.state, count, self.config.c_puct)
        if not parents:
            return "exhausted"
        parents, verify = self.phases.affordable(parents)
        partners = self.tree.partners(self.state)
        self.emit("step_started", step=step, parents=parents, verify=verify, partners=partners)
        return None

    def _finish_step(self) -> bool:
        """Do what the current step still lacks; False if it was stopped on the way."""
        if self.state.step == self.state.steps_completed:
            return False
        verify = [self.state.nodes[node_id] for node_id in self.state.steps[-1].verify]
        if not self.measuring.run([(node, "candidate") for node in verify if node.status is None]):
            return False
        self.phases.rescore()
        self.phases.propose()
        self.phases.forecast()
        self.phases.choose()
        return self.measuring.run(self._jobs())

    def _jobs(self) -> list[Job]:
        """Return the measurements that the step lacks, each parent again in the middle of its children.

        So a drift of the machine favours neither side. A parent with a speculative score has no time to repeat.
        """
        step, chosen = self.state.step, set(self.state.chosen[self.state.step])
        jobs: list[Job] = []
        for parent_id in self.state.steps[-1].parents:
            parent = self.state.nodes[parent_id]
            children = [n for n in self.state.children(parent_id, step) if n.node_id in chosen]
            open_jobs: list[Job] = [(n, "candidate") for n in children if n.status is None]
            again = self.config.measure_parents_again and parent.value is not None
            if again and children and (step, parent_id) not in self.state.anchors:
                open_jobs.insert(len(open_jobs) // 2, (parent, "anchor"))
            jobs += open_jobs
        return jobs
