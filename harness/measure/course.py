"""The course of one kernel through load, check and timing in one child, judged by the trusted process."""

from __future__ import annotations

import itertools
import math
import random
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

import tasks
from benchmark.speedup import Z95, log2_median
from harness.measure.limits import POOL_BYTES, Contradicted, Disturbed, Failed
from harness.measure.processes import Child, number
from harness.measure.quiet import stopped
from harness.measure.result import CaseTimes
from harness.measure.roofline import floor_ns, write_back_ns
from tasks.spec import Case

if TYPE_CHECKING:
    from harness.measure.engine import Engine

CASES_CHECKED_AGAIN = 4
JUDGE_S = 300.0

# A claimed time is believed if the engine's own watch, over calls whose outputs were wanted, does not contradict it.
AUDIT_TRIES = 25
AUDIT_PAUSE_S = 0.02
AUDIT_FACTOR, AUDIT_COPY_FACTOR = 1.15, 1.1
# Per audit, whatever its length: the request and its answer, the question to the judge, and the GPU's way from the
# judge's context to the child's and back. On an H200 it is 0.75 to 1.05 ms, so an audit has to be long to bound claims.
AUDIT_MESSAGE_NS = 1_200_000.0
# Per call: what a call takes on the host at most if that is longer than on the device; and what else may come to it.
AUDIT_HOST_NS = 60_000.0
AUDIT_SLACK_NS = {"graph": 10_000.0, "event": 100_000.0, "cupti": 300_000.0}
AUDIT_CLAIMED_NS = 3_000_000.0  # calls that claim so much together, and at most so many, are one audit in `strict`
AUDIT_CALLS = 64
DISTURBED = 1.5  # copies that take so many times what they took are a sign that others use the GPU
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
    def _turn(self) -> Iterator[None]:
        """Hold the GPU: nothing of ours is timed or compared there meanwhile."""
        started = time.monotonic()
        with self.engine.gpu:
            self.seconds["wait_s"] += time.monotonic() - started
            yield

    def through(self, child: Child, cache: str) -> None:
        """Load, check, time, check again; `cache` is the folder in the child's that holds what was built ahead."""
        limits, task = self.limits, tasks.get(self.task)
        self.seconds["context_s"] = child.context_s
        started = time.monotonic()
        code = tasks.candidate_source(self.task, self.code)
        child.ask("build", limits.build_s, {"do": "load", "code": code, "cache": cache})
        self.seconds["compile_s"] += time.monotonic() - started
        timed = task.timing_cases[: limits.timing_cases or None] if self.engine.device == "cuda" else ()
        with self.engine.memory.reserve(_stage_bytes(max((case.bytes for case in timed), default=0))):
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
        with self._turn():
            opened = self._lent(child, self.judge({"do": "open_check", "task": self.task, "cases": list(cases)}))
        spent = number(child.ask("check", seconds, {**self._shown(opened, "cases"), "do": "check"}), "seconds", "check")
        with self._turn():
            wrong = self.judge({"do": "verify_check", "token": opened["token"]})["mismatch"]
        child.ask("check", seconds, {"do": "detach"})
        if wrong:
            raise Failed("incorrect", "check", wrong)
        return spent

    def time(self, child: Child, case: Case) -> CaseTimes:
        """Time one case against the reference, interleaved, while no other kernel can use the GPU."""
        limits = self.limits
        with self._turn():
            request = {"do": "open_timing", "task": self.task, "case_id": case.case_id}
            opened = self._lent(child, self.judge(request))
        # Both sides are timed by one method, so a reference that cannot be captured decides for its kernels too.
        wanted = limits.method if opened["captured"] or limits.method != "graph" else "event"
        shown = self._shown(opened, "slots", "pool", "out")
        prepared = child.ask("build", limits.build_s, {**shown, "do": "prepare", "method": wanted})
        self.seconds["compile_s"] += number(prepared, "seconds", "build")
        method = prepared.get("method")
        if method not in (wanted, "event"):
            raise Failed("rejected", "timing", f"unknown timing method {str(method)[:40]!r}")
        with self._turn(), self.engine.children.only(child.pid):
            started = time.monotonic()
            times = self._sample(child, case.case_id, opened, method)
            claimed = float(np.median(times.candidate_ns))
            if claimed < floor_ns(case, self.engine.described["device"]):
                text = f"case {case.case_id}: {claimed / 1e3:.2f} us is less than the memory's peak rate allows"
                raise Failed("rejected", "timing", text)
            self._audit(child, {**opened, "case_id": case.case_id}, claimed, method)
            self.seconds["timing_s"] += time.monotonic() - started
        child.ask("timing", limits.timing_s, {"do": "detach"})
        return times

    def _sample(self, child: Child, case_id: str, opened: dict[str, Any], method: str) -> CaseTimes:
        limits, slots, sets = self.limits, len(opened["slots"]), len(opened["pool"])
        candidate: list[float] = []
        reference: list[float] = []
        candidate_order: list[int] = []
        reference_order: list[int] = []
        order, dropped = itertools.count(), 0
        deadline = time.monotonic() + limits.max_case_s
        request = {"token": opened["token"], "case_id": case_id, "method": method}
        # Outputs are looked at in the first batch or in the second, and always in the last.
        look = random.SystemRandom().randrange(2)
        for batch in itertools.count():
            # The reference is not timed again once it is known well enough.
            timed = not (len(reference) >= limits.min_samples and self._precise(reference))
            with stopped(child.pid):
                filled = self.judge({"do": "fill", "look": True, "reference": timed, **request}).get("ns", [])
            request_batch = {"do": "batch", "first": batch, "method": method}
            answer = child.ask("timing", limits.timing_s, request_batch).get("ns")
            if not isinstance(answer, list) or len(answer) != sets:
                raise Failed("rejected", "timing", f"the process did not answer with {sets} times")
            for values, times, places in (
                (filled, reference, reference_order), (answer, candidate, candidate_order)
            ):  # fmt: skip
                for value in values:
                    place = next(order)
                    if isinstance(value, float) and math.isfinite(value) and value > 0:
                        times.append(value)
                        places.append(place)
                    else:
                        dropped += 1
            enough = self._enough(candidate, reference) or time.monotonic() > deadline
            if batch == look or enough:
                last = [(batch + sets - 1) % slots, sets - 1]
                wrong = self.judge({"do": "verify_timing", "last": last, **request})["mismatch"]
                if wrong:
                    raise Failed("incorrect", "timing", wrong)
            if enough:
                break
            if dropped > limits.max_samples:
                raise Failed("rejected", "timing", f"{dropped} samples were zero, negative or not finite")
        if not candidate or not reference:
            raise Failed("rejected", "timing", "no valid time sample")
        return CaseTimes(
            case_id, tuple(candidate), tuple(candidate_order), tuple(reference), tuple(reference_order), method, dropped
        )

    def _enough(self, candidate: list[float], reference: list[float]) -> bool:
        if len(candidate) >= self.limits.max_samples:
            return True
        if min(len(candidate), len(reference)) < self.limits.min_samples:
            return False
        return self._precise(candidate) and self._precise(reference)

    def _precise(self, samples: list[float]) -> bool:
        return bool(Z95 * log2_median(samples)[1] * math.log(2) <= self.limits.precision)

    def _audit(self, child: Child, opened: dict[str, Any], claimed_ns: float, method: str) -> None:
        """Hold the claim against the engine's own watch: calls cannot take much longer than they claim.

        The child gets inputs that it has not seen and has to hand over the outputs of every call, so that it can
        neither skip calls nor begin before the watch runs. The watch stops when the judge has the outputs that it looks
        at, a set drawn at random, and not when the child says that it is done. `overhead_ns` is what the judge needs
        for the same copies, `look_ns` what it needs to look. Raises Contradicted, or Disturbed if that is no longer so.
        """
        request = {"token": opened["token"], "case_id": opened["case_id"], "method": method}
        order = self._audit_order(len(opened["pool"]), len(opened["slots"]), claimed_ns)
        calls = len(order)
        bound = AUDIT_FACTOR * claimed_ns + AUDIT_COPY_FACTOR * opened["overhead_ns"] + AUDIT_SLACK_NS[method]
        bound += write_back_ns(self.engine.described["device"])
        bound = max(bound, AUDIT_HOST_NS) + (AUDIT_MESSAGE_NS + opened["look_ns"]) / calls
        per_call = math.inf
        for attempt in range(AUDIT_TRIES):
            # The driver setting up or tearing down another child's context holds up launches for a while. That only
            # ever makes a batch longer, so one good batch is enough.
            time.sleep(AUDIT_PAUSE_S if attempt else 0)
            with stopped(child.pid):
                self.judge({"do": "fill", "look": True, "reference": False, **request})
                started = time.monotonic()
            child.ask("timing", self.limits.timing_s, {"do": "audit", "method": method, "order": order})
            verdict = self.judge({"do": "verify_timing", "last": order[-1], **request})
            if verdict["mismatch"]:
                raise Failed("incorrect", "timing", verdict["mismatch"])
            per_call = min(per_call, (verdict["seen_at"] - started) * 1e9 / calls)
            if per_call <= bound:
                self.engine.audits.append((claimed_ns, opened["overhead_ns"], per_call, bound, attempt, calls))
                return
        text = f"claimed {claimed_ns / 1e3:.2f} us a call, but {calls} calls took {per_call / 1e3:.2f} us each"
        text = f"case {opened['case_id']}: {text}, more than {bound / 1e3:.2f}"
        child.kill()  # what it left on the device must not speak for it
        for _ in range(AUDIT_TRIES):
            if self.judge({"do": "overhead", **request})["overhead_ns"] <= DISTURBED * opened["overhead_ns"]:
                raise Contradicted(text)
            time.sleep(AUDIT_PAUSE_S)
        raise Disturbed(text)

    def _audit_order(self, sets: int, slots: int, claimed_ns: float) -> list[tuple[int, int]]:
        """Return the calls of an audit, as slot and set of inputs: every set once, and more in `strict` (no holder).

        Calls on the same inputs again, in other slots and another order, make the audit long enough to tell.
        """
        wanted = sets if self.holder else min(math.ceil(AUDIT_CLAIMED_NS / claimed_ns), AUDIT_CALLS)
        sampler = random.SystemRandom()
        rounds = [sampler.sample(range(sets), sets) for _ in range(max(1, math.ceil(wanted / sets)))]
        return [(call % slots, place) for call, place in enumerate(itertools.chain(*rounds))]


def _stage_bytes(case_bytes: int) -> int:
    """Return the bytes of a region with inputs and outputs, several times over, and of what the kernel allocates."""
    return min(18 * case_bytes, POOL_BYTES + 4 * case_bytes) + 2 * case_bytes


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
