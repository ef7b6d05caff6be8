"""The course of one kernel through load, check and timing in one child, judged by the trusted process."""

from __future__ import annotations

import itertools
import math
import random
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

import tasks
from benchmark.speedup import Z95, log2_median
from harness.measure.audit import Audit
from harness.measure.limits import BATCH_SETS, MOST_SETS, PAUSE_S, Disturbed, Failed
from harness.measure.processes import Child, number
from harness.measure.quiet import stopped
from harness.measure.result import CaseTimes
from harness.measure.roofline import floor_ns
from tasks.spec import Case

if TYPE_CHECKING:
    from harness.measure.engine import Engine

CASES_CHECKED_AGAIN = 4
POOL_SHARE, ARENA_SHARE = 0.04, 0.15  # of the device's memory, for sets of inputs with outputs, and for all allocations
MOST_BYTES = 1e13
MOST_DROPPED, MOST_DROPPED_SHARE = 2, 0.1  # samples that are no times
JUDGE_S = 300.0
QUIET_TRIES = 25
MOST_ARENAS = 4  # that are tried, each larger than the one before
# What a child may say of its compiled kernels.
FACTS: dict[str, type] = {
    "registers": int, "spills": int, "shared_bytes": int, "n_compiled": int, "ptx_bytes": int, "cubin_hash": str,
    "custom_kernel": bool,
}  # fmt: skip


class Course:
    """One kernel on its way; `cases`, `facts` and `seconds` fill as it goes. `through` raises Failed."""

    def __init__(
        self, engine: Engine, task: str, code: str, checked: Sequence[str], number: int, holder: str = ""
    ) -> None:
        self.engine, self.task, self.code, self.number, self.holder = engine, task, code, number, holder
        self.checked = list(checked)
        self.audit = Audit(self)
        self.limits = engine.limits
        self.cases: list[CaseTimes] = []
        self.facts: dict[str, Any] = {}
        self.seconds = {"compile_s": 0.0, "check_s": 0.0, "timing_s": 0.0, "wait_s": 0.0}

    def judge(self, request: dict[str, Any]) -> dict[str, Any]:
        """Ask the judge about this run; the time it takes is added up by kind of request."""
        answer = self.engine.judge.ask({**request, "run": self.number, "holder": self.holder}, JUDGE_S)
        spent = self.engine.judge_s
        spent[request["do"]] = spent.get(request["do"], 0.0) + float(answer["judge_s"])
        return answer

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Hold the GPU: nothing of ours is timed or compared there meanwhile."""
        started = time.monotonic()
        with self.engine.gpu:
            self.seconds["wait_s"] += time.monotonic() - started
            yield

    def through(self, child: Child, cache: str) -> None:
        """Load, check, time, check again; `cache` is the folder in the child's that holds what was built ahead."""
        limits, task = self.limits, tasks.get(self.task)
        self.seconds["context_s"] = child.context_s
        if self.engine.device == "cuda" and not self.holder:
            self.audit.idle(child)
        started = time.monotonic()
        code = tasks.candidate_source(self.task, self.code)
        child.ask("build", limits.build_s, {"do": "load", "code": code, "cache": cache})
        self.seconds["compile_s"] += time.monotonic() - started
        timed = task.timing_cases[: limits.timing_cases or None] if self.engine.device == "cuda" else ()
        with self.engine.memory.reserve(self._stage_bytes(max((case.bytes for case in timed), default=0))):
            first = self.check(child, limits.build_s + limits.check_s, self.checked)
            if self.engine.device == "cpu":
                self.seconds["check_s"] += first
                return
            for case in timed:
                self.cases.append(self.time(child, case))
            # Once more after the timing: a kernel that changes its ways after some calls is caught here.
            self.seconds["check_s"] += self.check(child, limits.check_s, self.checked[:CASES_CHECKED_AGAIN])
            self.seconds["compile_s"] += first
            self.facts = _facts(child.ask("check", limits.check_s, {"do": "facts"}).get("facts"))

    def _lent(self, child: Child, opened: dict[str, Any]) -> dict[str, Any]:
        return {**opened, "region": opened["handle"], "handle": self.engine.lend(opened["handle"], child)}

    @staticmethod
    def _shown(opened: dict[str, Any], *names: str) -> dict[str, Any]:
        """Return what a child has to know of a stage; how it will be watched is not among it."""
        return {name: opened[name] for name in ("region", "handle", "nbytes", "writes", *names)}

    def check(self, child: Child, seconds: float, cases: Sequence[str]) -> float:
        """Have the kernel called on fresh inputs of some cases and its outputs compared; returns seconds."""
        with self.turn():
            opened = self._lent(child, self.judge({"do": "open_check", "task": self.task, "cases": list(cases)}))
        spent = number(child.ask("check", seconds, {**self._shown(opened, "cases"), "do": "check"}), "seconds", "check")
        with self.turn():
            wrong = self.judge({"do": "verify_check", "token": opened["token"]})["mismatch"]
        child.ask("check", seconds, {"do": "detach"})
        if wrong:
            raise Failed("incorrect", "check", wrong)
        return spent

    def time(self, child: Child, case: Case) -> CaseTimes:
        """Time one case against the reference, interleaved, while no other kernel can use the GPU."""
        opened, prepared = self.prepare(child, case)
        method, audited = prepared.get("method"), prepared.get("audited")
        if method not in (opened["method"], "event") or audited not in ("graph", "event"):
            raise Failed("rejected", "timing", f"unknown timing method {str(method)[:40]!r}")
        with self.turn(), self.engine.children.only(child.pid):
            started = time.monotonic()
            request = {"token": opened["token"], "case_id": case.case_id, "method": method}
            times = self._sample(child, request, len(opened["pool"]))
            claimed = float(np.median(times.candidate_ns))
            if claimed < floor_ns(case, self.engine.described["device"]):
                text = f"case {case.case_id}: {claimed / 1e3:.2f} us is less than the memory's peak rate allows"
                raise Failed("rejected", "timing", text)
            factor = self.audit.factor(child, request, opened, claimed, audited)
            self.seconds["timing_s"] += time.monotonic() - started
        child.ask("timing", self.limits.timing_s, {"do": "detach"})
        return replace(times, candidate_ns=tuple(round(factor * ns) for ns in times.candidate_ns))

    def prepare(self, child: Child, case: Case) -> tuple[dict[str, Any], dict[str, Any]]:
        """Open the timing stage and have the child get ready; returns what the judge opened and what the child said."""
        limits, arena = self.limits, 0
        most, nbytes = self._sets
        request = {"do": "open_timing", "task": self.task, "case_id": case.case_id, "most": most, "nbytes": nbytes}
        for _ in range(MOST_ARENAS):
            with self.turn():
                opened = self._lent(child, self.judge({**request, "arena": arena}))
            # Both sides are timed by one method, so a reference that cannot be captured decides for its kernels too.
            opened["method"] = limits.method if opened["captured"] or limits.method != "graph" else "event"
            shown = self._shown(opened, "pool", "out", "arena", "method")
            prepared = child.ask("build", limits.build_s, {**shown, "do": "prepare"})
            self.seconds["compile_s"] += number(prepared, "seconds", "build")
            missing = number(prepared, "missing", "build", most=MOST_BYTES)
            if not missing:
                return opened, prepared
            child.ask("build", limits.build_s, {"do": "detach"})
            arena = int(2 * missing)
            if arena > self.engine.described["memory_bytes"] * ARENA_SHARE:
                break
        raise Failed("oom", "timing", f"case {case.case_id}: the kernel allocates more than is kept for it")

    @property
    def _sets(self) -> tuple[int, int]:
        most, nbytes = MOST_SETS["shared" if self.holder else "strict"]
        return most, min(nbytes, int(self.engine.described["memory_bytes"] * POOL_SHARE))

    def _stage_bytes(self, case_bytes: int) -> int:
        """Return the bytes of a region with sets of inputs and outputs, and of what the kernel allocates besides."""
        most, nbytes = self._sets
        return min(most * case_bytes, nbytes) + 6 * case_bytes

    def filled(self, child: Child, request: Mapping[str, Any]) -> dict[str, Any]:
        """Have the judge fill sets while the child is stopped and nothing else uses the GPU. Raises Disturbed."""
        for attempt in range(QUIET_TRIES):
            time.sleep(PAUSE_S if attempt else 0)
            with stopped(child.pid):
                filled = self.judge({"do": "fill", **request})
                if not filled["disturbed"]:
                    return filled
        raise Disturbed(f"case {request['case_id']}: something else uses the GPU")

    def _sample(self, child: Child, request: Mapping[str, Any], sets: int) -> CaseTimes:
        limits, sets = self.limits, min(sets, BATCH_SETS)
        candidate: list[float] = []
        reference: list[float] = []
        candidate_order: list[int] = []
        reference_order: list[int] = []
        order, dropped = itertools.count(), 0
        deadline = time.monotonic() + limits.max_case_s
        # Outputs are looked at in the first batch or in the second, and always in the last.
        look = random.SystemRandom().randrange(2)
        for batch in itertools.count():
            # The reference is not timed again once it is known well enough.
            timed = not (len(reference) >= limits.min_samples and self._precise(reference))
            filled = self.filled(child, {**request, "count": sets, "reference": timed})
            said = child.ask("timing", limits.timing_s, {"do": "batch", "count": sets, "method": request["method"]})
            answer = said.get("ns")
            if not isinstance(answer, list) or len(answer) != sets:
                raise Failed("rejected", "timing", f"the process did not answer with {sets} times")
            for values, times, places in (
                (filled.get("ns", []), reference, reference_order), (answer, candidate, candidate_order)
            ):  # fmt: skip
                for value in values:
                    place = next(order)
                    if isinstance(value, float) and math.isfinite(value) and value >= 1:
                        times.append(round(value))
                        places.append(place)
                    else:
                        dropped += 1
            enough = self._enough(candidate, reference) or time.monotonic() > deadline
            if batch == look or enough:
                wrong = self.look(request, said.get("outputs"), sets - 1)["mismatch"]
                if wrong:
                    raise Failed("incorrect", "timing", wrong)
            if dropped > max(MOST_DROPPED, MOST_DROPPED_SHARE * (len(candidate) + len(reference))):
                raise Failed("rejected", "timing", f"{dropped} samples were zero, negative or not finite")
            if enough:
                break
        if not candidate or not reference:
            raise Failed("rejected", "timing", "no valid time sample")
        return CaseTimes(
            request["case_id"], tuple(candidate), tuple(candidate_order), tuple(reference), tuple(reference_order),
            request["method"], dropped,
        )  # fmt: skip

    def look(self, request: Mapping[str, Any], outputs: Any, last: int) -> dict[str, Any]:
        """Have the judge compare the outputs of the last calls; returns `mismatch`, and `seen_at`: when it had them."""
        return self.judge({"do": "verify_timing", "outputs": outputs, "last": last, **request})

    def _enough(self, candidate: list[float], reference: list[float]) -> bool:
        if len(candidate) >= self.limits.max_samples:
            return True
        if min(len(candidate), len(reference)) < self.limits.min_samples:
            return False
        return self._precise(candidate) and self._precise(reference)

    def _precise(self, samples: list[float]) -> bool:
        return bool(Z95 * log2_median(samples)[1] * math.log(2) <= self.limits.precision)


def _facts(said: Any) -> dict[str, Any]:
    """Return what a child says of its compiled kernels, as far as it has the form of such facts."""
    found: dict[str, Any] = {}
    for name, value in said.items() if isinstance(said, dict) else ():
        if (
            name in FACTS
            and isinstance(value, FACTS[name])
            and not (isinstance(value, int) and not 0 <= value < 1 << 40)
        ):
            found[name] = value
    if not re.fullmatch("[0-9a-f]{16}", str(found.get("cubin_hash"))):
        found.pop("cubin_hash", None)
    return found
