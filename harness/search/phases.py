"""The phases of a step that decide something: verify, propose, forecast, choose and score."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from benchmark.code_view import language_of
from benchmark.identity import kernel_id
from harness.measure import Backend
from harness.search.arms import ARMS, chance, doubt, promise
from harness.search.config import SearchConfig
from harness.search.forecasting import Forecaster, forecast_json
from harness.search.mutate import Feedback, Mutator, Proposal
from harness.search.node import Node, log2_speedup
from harness.search.speculation import (
    Calibration,
    measured_pairs,
    rescored,
    score_child,
    scores_json,
    to_verify,
)
from harness.search.state import SearchState
from harness.search.tree import PARTNERS

FAILURES_TOLD = 4


class Emit(Protocol):
    def __call__(self, kind: str, **payload: Any) -> None: ...


class Phases:
    """Each phase of the current step does what the log does not have yet, from what stood there when it began."""

    def __init__(
        self,
        config: SearchConfig,
        state: SearchState,
        mutator: Mutator,
        forecaster: Forecaster | None,
        backend: Backend,
        emit: Emit,
    ) -> None:
        self.config, self.state, self.mutator, self.emit = config, state, mutator, emit
        self.forecaster, self.backend = forecaster, backend
        self.arm = ARMS[config.arm]
        if self.arm.asks and forecaster is None:
            raise ValueError(f"{config.search_id}: arm '{config.arm}' follows a surrogate and got none")
        if self.arm.order == "truth" and not hasattr(backend, "peek"):
            raise ValueError(f"{config.search_id}: arm '{config.arm}' knows the results beforehand; use backend replay")

    def affordable(self, parents: Sequence[str]) -> tuple[list[str], list[str]]:
        """Return the parents of a step and what is measured first, without parents that the budget does not reach."""
        needed = to_verify(self.state, parents)
        paid = list(dict.fromkeys(needed.values()))[: self.config.budget - self.state.measured]
        return [p for p in parents if p not in needed or needed[p] in paid], paid

    def rescore(self) -> None:
        """Log the new scores of what descends from the nodes that were measured first in this step."""
        step = self.state.step
        verified = self.state.steps[-1].verify
        if verified and step not in self.state.rescored:
            self.emit(
                "rescored", step=step, verified=list(verified), scores=rescored(self.state, verified, *self._fit())
            )

    def _fit(self) -> tuple[float, float]:
        assert self.state.calibration is not None
        return Calibration(**self.state.calibration).updated(measured_pairs(self.state))

    def propose(self) -> None:
        """Log the children of the current step.

        They depend only on what was there when the step began, so a resumed step proposes the same ones again and
        skips those that are in the log already.
        """
        step = self.state.step
        if step in self.state.chosen:
            return
        logged = {node.kernel_id for node in self.state.of_step(step)}
        found_here: set[str] = set()

        def known(code: str) -> bool:
            key = kernel_id(self.config.task, code)
            return self.state.first_step.get(key, step) < step or key in found_here

        left = self.config.budget - self.state.measured
        for parent_id in self.state.steps[-1].parents:
            parent = self.state.nodes[parent_id]
            room = (
                min(self.config.children_per_parent, left)
                if self.arm.order == "all"
                else self.config.children_per_parent
            )
            if parent.standing is None or not room:
                continue  # what was measured first in this step failed, or there is nothing left to pay with
            rng = random.Random(f"{self.config.seed}/{step}/{parent_id}")
            answers = self.mutator.propose(
                parent.code, rng, room, self._partners(parent), known, self._feedback(parent), parent.seed_id
            )
            if not answers and not self.mutator.may_succeed_later and parent_id not in self.state.exhausted:
                self.emit("proposal_failed", step=step, parent_node_id=parent_id, reason="no new proposal")
            rejected = 0
            for answer in answers:
                if not isinstance(answer, Proposal):
                    rejected += 1
                    if rejected > self.state.rejections.get((step, parent_id), 0):
                        self.emit("proposal_rejected", step=step, parent_node_id=parent_id, **vars(answer))
                    continue
                key = kernel_id(self.config.task, answer.code)
                found_here.add(key)
                left -= 1
                if key not in logged:
                    self._log_proposal(step, parent_id, key, answer)

    def _log_proposal(self, step: int, parent_id: str, key: str, proposal: Proposal) -> None:
        cost = {n: v for n in ("seconds", "input_tokens", "output_tokens") if (v := getattr(proposal, n)) is not None}
        self.emit(
            "proposed",
            step=step,
            node_id=f"{self.config.search_id}/{len(self.state.nodes)}",
            parent_node_id=parent_id,
            kernel_id=key,
            language=proposal.language or language_of(proposal.code),
            origin=proposal.origin,
            operator=proposal.operator,
            operator_class=proposal.operator_class,
            **cost,
            code=proposal.code,
        )

    def _partners(self, parent: Node) -> list[str]:
        nodes = (self.state.nodes[node_id] for node_id in self.state.steps[-1].partners)
        return [node.code for node in nodes if node.code != parent.code][:PARTNERS]

    def _feedback(self, parent: Node) -> Feedback:
        """Return the parent's times and its latest children that failed in earlier steps."""
        failures: list[tuple[str, str]] = []
        for earlier in range(self.state.step - 1, parent.step, -1):
            if parent.node_id in self.state.steps[earlier - 1].parents:
                failed = [n for n in self.state.children(parent.node_id, earlier) if n.status not in (None, "ok")]
                failures += [(str(n.status), n.error) for n in failed]
            if len(failures) >= FAILURES_TOLD:
                break
        return Feedback(parent.cases, tuple(failures[:FAILURES_TOLD]))

    def forecast(self) -> None:
        """Ask about the children of the current step that have no forecast yet, in one batch, and log the answers."""
        step = self.state.step
        if not self.arm.asks or step in self.state.chosen:
            return
        open_ = [node for node in self.state.of_step(step) if node.forecast is None]
        if not open_:
            return
        assert self.forecaster is not None
        session = self.backend.session
        track = "replay" if session.get("timing_method") == "replay" else "end-to-end"
        pairs = [(self.state.nodes[node.parent_node_id or ""], node) for node in open_]
        answers = self.forecaster.forecast(
            self.state.task, track, str(session.get("gpu")), self.config.search_id, pairs
        )
        for node, answer in zip(open_, answers, strict=True):
            self.emit("forecast", step=step, node_id=node.node_id, forecast=forecast_json(answer))

    def choose(self) -> None:
        """Log which children of the step are measured, and the scores of the others where the arm keeps them."""
        step = self.state.step
        if step in self.state.chosen:
            return
        left = self.config.budget - self.state.measured
        measure: list[str] = []
        for parent_id in self.state.steps[-1].parents:
            children = self.state.children(parent_id, step)
            count = len(children) if self.arm.order == "all" else self.config.measured_per_parent
            ranked = sorted(children, key=self._key(step), reverse=True)
            measure += [node.node_id for node in ranked[: min(count, left - len(measure))]]
        rest = [node for node in self.state.of_step(step) if node.node_id not in set(measure)]
        scores, fit = {}, {}
        if self.arm.keeps and rest:
            beta, variance = self._fit()
            scores = {
                node.node_id: score_child(self.state.nodes[node.parent_node_id or ""], node, beta, variance)
                for node in rest
            }
            fit = {"beta": beta, "residual_variance": variance}
        scores = {node_id: score for node_id, score in scores.items() if score is not None}
        self.emit("chosen", step=step, measure=measure, scores=scores_json(scores), **fit)

    def _key(self, step: int) -> Callable[[Node], float]:
        """Return the key that puts the children to measure first; equal ones keep the order of their proposal."""
        order = self.arm.order
        if order == "forecast":
            return lambda node: promise(node.forecast)
        if order == "doubt":
            return lambda node: doubt(node.forecast)
        if order == "chance":
            return lambda node: chance(self.config.seed, step, node.node_id)
        if order == "truth":
            return self._truth
        return lambda node: 0.0

    def _truth(self, node: Node) -> float:
        value = log2_speedup(self.backend.peek(self.config.task, node.code))  # type: ignore[attr-defined]
        return -math.inf if value is None else value
