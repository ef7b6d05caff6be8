"""Measuring the children of a batch: one search log per task and split, continued like any other."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import benchmark
from benchmark.code_view import language_of
from benchmark.identity import kernel_id
from harness.measure import Backend, Measurement
from harness.search.backends import open_live_backend, session_rows
from harness.search.batch import BatchParent, keep_answers, read_answers, read_parents
from harness.search.events import FILE_NAME, SCHEMA_VERSION, EventLog, require_same_config
from harness.search.launch import Options
from harness.search.measuring import Job, Measuring
from harness.search.mutate.proposal import Proposal, Rejected
from harness.search.node import Node
from harness.search.state import SearchState, apply, fold

Batch = Sequence[tuple[tuple[str, ...], BatchParent]]


def import_batch(folder: Path, answers: Path, options: Options) -> list[SearchState]:
    """Measure the children in a batch's answers, under FOLDER/TASK-SPLIT-llm, and return the state of each search.

    Every parent is measured, then its children, with the parent again in their middle. Prompts and raw answers stay in
    the folder. Raises BatchError for what is not an answer to the batch; a repeated call continues.
    """
    options.check()
    parents = read_parents(folder)
    kept = keep_answers(answers, folder)
    found = read_answers(kept, parents)
    groups: dict[str, list[tuple[tuple[str, ...], BatchParent]]] = {}
    for names, parent in parents:
        groups.setdefault(f"{parent.task['name']}-{parent.split}-llm", []).append((names, parent))
    started = time.monotonic()

    def stop() -> bool:
        return options.time_limit is not None and time.monotonic() - started >= options.time_limit

    with open_live_backend(options.backend, options.workers, options.isolation, options.gpus, options.ray) as backend:
        return [
            measure_group(name, batch, found, backend, folder / name, stop, options.say)
            for name, batch in groups.items()
        ]


def measure_group(
    search_id: str,
    batch: Batch,
    answers: Mapping[str, Proposal | Rejected],
    backend: Backend,
    out: Path,
    stop: Callable[[], bool],
    say: Callable[[str], None] = lambda line: None,
) -> SearchState:
    """Measure the parents of one task and split and their children; return the state of the log."""
    with EventLog(out / FILE_NAME) as log:
        return _Group(search_id, batch, answers, backend, log, stop, say).run()


class _Group:
    def __init__(
        self, search_id: str, batch: Batch, answers: Mapping[str, Proposal | Rejected], backend: Backend, log: EventLog,
        stop: Callable[[], bool], say: Callable[[str], None],
    ) -> None:  # fmt: skip
        self.search_id, self.batch, self.answers = search_id, batch, answers
        self.backend, self.log, self.stop, self.say = backend, log, stop, say
        self.state = fold(log.events)
        self.task = str(batch[0][1].task["name"])
        self.measuring = Measuring(backend, self.task, stop, self._log_measured)

    def emit(self, kind: str, **payload: Any) -> None:
        apply(self.state, self.log.append(kind, payload))

    def _log_measured(self, node: Node, role: str, measurement: Measurement) -> None:
        keys = {"node_id": node.node_id, "kernel_id": node.kernel_id, "role": role}
        self.emit("measured", **keys, measurement=measurement.to_json())
        self.say(f"{self.search_id}: {self.state.measured} measured")

    def run(self) -> SearchState:
        self._begin()
        if self.state.finished:
            return self.state
        for session in session_rows(self.backend):
            self.emit("session_started", session=session)
        parents = [self._path(parent) for _, parent in self.batch]
        for number, (parent_id, (names, _)) in enumerate(zip(parents, self.batch, strict=True), 1):
            if number <= self.state.steps_completed:
                continue
            if self.stop() or not self._step(number, parent_id, names):
                self.emit("search_completed", reason="interrupted")
                return self.state
            self.emit("step_completed", step=number)
        self.emit("search_completed", reason="budget")
        return self.state

    def _begin(self) -> None:
        first = self.batch[0][1]
        seeds = sorted({parent.seed_id for _, parent in self.batch})
        config = {
            "task": self.task, "split": first.split, "seeds": seeds, "arm": "batch", "mutator": "llm batch",
            "isolation": self.backend.session["isolation"], "requests": [list(names) for names, _ in self.batch],
        }  # fmt: skip
        if self.state.started:
            require_same_config(self.log.path, self.state.config, config)
            return
        self.emit(
            "search_started",
            search_id=self.search_id,
            schema=SCHEMA_VERSION,
            created_at=datetime.now(UTC).isoformat(timespec="seconds"),
            config=config,
            versions={"harness": benchmark.__version__},
            task=dict(first.task),
        )

    def _path(self, parent: BatchParent) -> str:
        """Log the nodes that lead from the seed to a parent where they are new, and return the parent's id."""
        above: str | None = None
        for step in parent.path:
            key = kernel_id(self.task, step.code)
            known = [n for n in self.state.of_step(0) if n.kernel_id == key and n.parent_node_id == above]
            if not known:
                node_id = f"{self.search_id}/{len(self.state.nodes)}"
                row = {"node_id": node_id, "kernel_id": key, "language": step.language, "code": step.code, "step": 0}
                if above is None:
                    self.emit("seed_added", seed_id=parent.seed_id, **row)
                else:
                    self.emit(
                        "proposed", parent_node_id=above, origin=step.origin, operator=step.operator,
                        operator_class=step.operator_class, **row,
                    )  # fmt: skip
                above = node_id
            else:
                above = known[0].node_id
        assert above is not None
        return above

    def _step(self, number: int, parent_id: str, names: Sequence[str]) -> bool:
        if self.state.step < number:
            self.emit("step_started", step=number, parents=[parent_id], verify=[parent_id])
        parent = self.state.nodes[parent_id]
        if parent.status is None and not self.measuring.run([(parent, "candidate")]):
            return False
        self._propose(number, parent_id, names)
        children = self.state.children(parent_id, number)
        jobs: list[Job] = [(node, "candidate") for node in children if node.status is None]
        measured = self.state.nodes[parent_id].value is not None
        if measured and children and (number, parent_id) not in self.state.anchors:
            jobs.insert(len(jobs) // 2, (parent, "anchor"))
        return self.measuring.run(jobs)

    def _propose(self, number: int, parent_id: str, names: Sequence[str]) -> None:
        """Log the answers about a parent: children that no earlier step has, and what was rejected."""
        logged = {node.kernel_id for node in self.state.of_step(number)}
        rejected, already = 0, self.state.rejections.get((number, parent_id), 0)
        for name in names:
            answer = self.answers.get(name)
            if answer is None:
                continue
            cost = {"input_tokens": answer.input_tokens, "output_tokens": answer.output_tokens, "custom_id": name}
            if isinstance(answer, Proposal):
                key = kernel_id(self.task, answer.code)
                if key in logged:
                    continue
                if self.state.first_step.get(key, number) == number:
                    logged.add(key)
                    self.emit(
                        "proposed", step=number, node_id=f"{self.search_id}/{len(self.state.nodes)}",
                        parent_node_id=parent_id, kernel_id=key, language=language_of(answer.code), origin="llm",
                        operator=answer.operator, operator_class=answer.operator_class, code=answer.code, **cost,
                    )  # fmt: skip
                    continue
            rejected += 1
            if rejected > already:
                reason = answer.reason if isinstance(answer, Rejected) else "a kernel that is known already"
                self.emit("proposal_rejected", step=number, parent_node_id=parent_id, reason=reason, **cost)
