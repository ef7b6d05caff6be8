"""One search: measure the seeds, then expand, measure and back up, until the budget of measurements is spent."""

from __future__ import annotations

import platform
import random
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import benchmark
import tasks
from benchmark.code_view import language_of
from benchmark.identity import kernel_id
from harness.measure import Backend, Measurement
from harness.search.events import FILE_NAME, SCHEMA_VERSION, EventLog, LogError, require_same_config
from harness.search.mutate import Proposal, SourceMutator
from harness.search.state import Node, SearchState, TreeIndex, apply, fold
from tasks.spec import Task

PARTNERS = 6
POLL_SECONDS = 0.25


class Mutator(Protocol):
    """Where children come from; the name tells versions apart that propose differently."""

    name: str

    def propose(
        self,
        parent_code: str,
        rng: random.Random,
        n: int,
        partners: Sequence[str] = (),
        known: Callable[[str], bool] = ...,
    ) -> list[Proposal]:
        """Return up to n distinct children that are not known yet."""
        ...


@dataclass(frozen=True)
class SearchConfig:
    """What decides the course of a search; the log keeps it and refuses to go on under another one.

    `budget` is the number of candidate measurements, those of the seeds included and those of parents measured again
    beside their children left out.
    """

    search_id: str
    task: str
    split: str
    seeds: tuple[str, ...]
    budget: int
    seed: int = 0
    parents_per_step: int = 2
    children_per_parent: int = 8
    c_puct: float = 1.0
    arm: str = "gpu-only"

    def __post_init__(self) -> None:
        if not self.seeds:
            raise ValueError(
                f"{self.search_id}: split '{self.split}' of task '{self.task}' has no seeds; choose another"
            )
        for name in ("budget", "parents_per_step", "children_per_parent"):
            if getattr(self, name) < 1:
                raise ValueError(f"{self.search_id}: {name} is {getattr(self, name)}, expected at least 1")


def _never() -> bool:
    return False


def run_search(
    config: SearchConfig,
    backend: Backend,
    out_dir: Path | str,
    progress: Callable[[SearchState], None] | None = None,
    *,
    mutator: Mutator | None = None,
    stop: Callable[[], bool] = _never,
) -> SearchState:
    """Run or continue a search in its folder and return its last state.

    `stop` is asked between measurements: once it is true nothing new starts, what runs is awaited and logged, and the
    log can be continued later. Raises LogError if the folder holds a log of another configuration.
    """
    with EventLog(Path(out_dir) / FILE_NAME) as log:
        search = _Search(config, backend, log, progress, mutator or SourceMutator(), stop)
        try:
            return search.run()
        except KeyboardInterrupt:
            search.close_interrupted()
            raise


def describe_task(task: Task) -> dict[str, Any]:
    """Return what the log keeps of a task: statement, reference and cases."""
    cases = [(case, False) for case in task.check_cases] + [(case, True) for case in task.timing_cases]
    return {
        "name": task.name,
        "source": task.source,
        "family": task.family,
        "statement": task.statement,
        "reference_code": tasks.reference_code(task.name),
        "cases": [
            {"case_id": c.case_id, "params": dict(c.params), "bytes": c.bytes, "flops": c.flops, "timing": timing}
            for c, timing in cases
        ],
    }


class _Search:
    def __init__(
        self,
        config: SearchConfig,
        backend: Backend,
        log: EventLog,
        progress: Callable[[SearchState], None] | None,
        mutator: Mutator,
        stop: Callable[[], bool],
    ) -> None:
        self.config, self.backend, self.log, self.mutator = config, backend, log, mutator
        self.progress, self.stop = progress, stop
        self.state = fold(log.events)
        self.tree = TreeIndex()
        self.pending: dict[Future[Measurement], tuple[Node, str]] = {}

    def emit(self, kind: str, **payload: Any) -> None:
        apply(self.state, self.log.append(kind, payload))
        if self.progress:
            self.progress(self.state)

    def run(self) -> SearchState:
        self._begin()
        if self.state.finished:
            return self.state
        self.emit("session_started", session=self.backend.session)
        self._measure_seeds()
        while not self.stop():
            if self.state.step == self.state.steps_completed:
                reason = self._begin_step()
                if reason:
                    self.emit("search_completed", reason=reason)
                    return self.state
            if self._finish_step():
                self.emit("step_completed", step=self.state.step)
        self.emit("search_completed", reason="interrupted")
        return self.state

    def close_interrupted(self) -> None:
        for future in self.pending:
            future.cancel()
        self.log.append("search_completed", {"reason": "interrupted"})

    def _begin(self) -> None:
        session = self.backend.session
        config = {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self.config).items() if k != "search_id"}
        config |= {"mutator": self.mutator.name, "isolation": session["isolation"]}
        if self.state.started:
            if self.state.search_id != self.config.search_id:
                found, wanted = self.state.search_id, self.config.search_id
                raise LogError(
                    f"{self.log.path}: the log of search '{found}', not of '{wanted}'; choose another folder"
                )
            require_same_config(self.log.path, self.state.config, config)
            return
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
            task=describe_task(tasks.get(self.config.task)),
        )

    def _next_id(self) -> str:
        return f"{self.config.search_id}/{len(self.state.nodes)}"

    def _measure_seeds(self) -> None:
        added = {node.seed_id for node in self.state.of_step(0)}
        if self.state.step == 0:
            for name in self.config.seeds[: self.config.budget]:
                if name not in added:
                    code = tasks.seed_code(self.config.task, name)
                    self.emit(
                        "seed_added",
                        node_id=self._next_id(),
                        kernel_id=kernel_id(self.config.task, code),
                        seed_id=name,
                        language=language_of(code),
                        code=code,
                        step=0,
                    )
        self._measure([(node, "candidate") for node in self.state.of_step(0) if node.status is None])

    def _begin_step(self) -> str | None:
        if len(self.state.nodes) >= self.config.budget:
            return "budget"
        self.tree.advance(self.state)
        parents = self.tree.select(self.state, self.config.parents_per_step, self.config.c_puct)
        if not parents:
            return "exhausted"
        self.emit("step_started", step=self.state.step + 1, parents=parents)
        return None

    def _finish_step(self) -> bool:
        """Propose and measure what the current step still lacks; False if it was stopped on the way."""
        if self.state.step == self.state.steps_completed:
            return False
        self._propose()
        jobs: list[tuple[Node, str]] = []
        step = self.state.step
        for parent_id in self.state.steps[-1]:
            children = [n for n in self.state.of_step(step) if n.parent_node_id == parent_id]
            open_jobs = [(n, "candidate") for n in children if n.status is None]
            if children and (step, parent_id) not in self.state.anchors:
                # In the middle of its children, so that a drift of the machine does not favour either side.
                open_jobs.insert(len(open_jobs) // 2, (self.state.nodes[parent_id], "anchor"))
            jobs += open_jobs
        return self._measure(jobs)

    def _propose(self) -> None:
        """Log the children of the current step.

        They depend only on what was there when the step began, so a resumed step proposes the same ones again and
        skips those that are in the log already.
        """
        step = self.state.step
        before, logged = self.state.before(step), {n.kernel_id for n in self.state.of_step(step)}
        known = {node.kernel_id for node in before}
        left = self.config.budget - len(before)
        for parent_id in self.state.steps[-1]:
            parent = self.state.nodes[parent_id]
            room = min(self.config.children_per_parent, left)
            if not room:
                break
            rng = random.Random(f"{self.config.seed}/{step}/{parent_id}")
            found = self.mutator.propose(
                parent.code,
                rng,
                room,
                _partners(before, parent),
                lambda code: kernel_id(self.config.task, code) in known,
            )
            if not found and parent_id not in self.state.exhausted:
                self.emit("proposal_failed", step=step, parent_node_id=parent_id, reason="no new proposal")
            left -= len(found)
            for proposal in found:
                child_id = kernel_id(self.config.task, proposal.code)
                known.add(child_id)
                if child_id in logged:
                    continue
                self.emit(
                    "proposed",
                    step=step,
                    node_id=self._next_id(),
                    parent_node_id=parent_id,
                    kernel_id=child_id,
                    language=language_of(proposal.code),
                    origin="mutation",
                    operator=proposal.operator,
                    operator_class=proposal.operator_class,
                    code=proposal.code,
                )

    def _measure(self, jobs: Sequence[tuple[Node, str]]) -> bool:
        """Measure and log; False if the search was stopped before all were done.

        An error of the backend itself is raised once everything else that was under way has been logged.
        """
        failure: BaseException | None = None
        for node, role in jobs:
            if self.stop():
                break
            self.pending[self.backend.submit(self.config.task, node.code, node.language)] = (node, role)
        cancelled = len(self.pending) < len(jobs)
        while self.pending:
            done, _ = wait(self.pending, timeout=POLL_SECONDS, return_when=FIRST_COMPLETED)
            for future in done:
                node, role = self.pending.pop(future)
                if error := future.exception():
                    failure = failure or error
                    continue
                measurement = future.result().to_json()
                self.emit(
                    "measured", node_id=node.node_id, kernel_id=node.kernel_id, role=role, measurement=measurement
                )
            if failure or self.stop():
                for future in [f for f in self.pending if f.cancel()]:
                    del self.pending[future]
                    cancelled = True
        if failure:
            raise failure
        return not cancelled


def _partners(nodes: Sequence[Node], parent: Node) -> list[str]:
    """Return codes to recombine with: the fastest other kernels, at most two that descend from one seed."""
    ranked = sorted((n for n in nodes if n.value is not None and n is not parent), key=lambda n: -(n.value or 0.0))
    taken: dict[str, int] = {}
    codes = []
    for node in ranked:
        if taken.get(node.seed_id, 0) < 2 and node.code != parent.code:
            taken[node.seed_id] = taken.get(node.seed_id, 0) + 1
            codes.append(node.code)
    return codes[:PARTNERS]
