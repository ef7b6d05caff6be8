"""Holding the times that a child claims against the engine's own watch."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

import tasks
from harness.measure.limits import PAUSE_S, Contradicted, Failed
from harness.measure.processes import Child
from harness.measure.quiet import stopped

if TYPE_CHECKING:
    from harness.measure.course import Course

# A claimed time is believed if the engine's own watch over calls on fresh inputs does not contradict it. No call is
# followed by another on the same inputs, and nothing but calls is between the request and the answer.
TRIES = 8
FACTOR = 1.05
SLACK_NS = 4_000.0  # per call
HOST_NS = 12_000.0  # that a replay takes on the host, if that is longer than on the device
LOOK_RATE = 0.6  # of the memory's peak, at which the judge copies the outputs that it looks at
IDLE_TIMES = 2  # by which each process shows, before it has foreign code, what an audit takes without its calls
MOST_FACTOR = 1.5  # a claim that the watch contradicts by more is no mistake
# A kernel of ours whose claim is known to be true; what it computes does not matter.
OWN_TASK, OWN_CODE = "rms_norm", "def custom_kernel(data):\n    return data[0] * data[1]\n"
OWN_AUDITS = 12


class Audit:
    """The audits of one course."""

    def __init__(self, course: Course) -> None:
        self.course = course

    def idle(self, child: Child) -> None:
        """Note what messages take now, from a process that has no foreign code yet.

        That is a request and its answer, a question to the judge, and the GPU's way from the judge's context to the
        child's and back: most of a millisecond, and more where the processors are busy.
        """
        with self.course.turn(), self.course.engine.children.only(child.pid):
            child.ask("start", self.course.limits.start_s, {"do": "calibrate"})
            for _ in range(IDLE_TIMES):
                with stopped(child.pid):
                    ready_at = self.course.judge({"do": "glance"})["at"]
                child.ask("start", self.course.limits.start_s, {"do": "idle"})
                self.course.engine.messages.append((self.course.judge({"do": "glance"})["at"] - ready_at) * 1e9)

    def learn(self, child: Child) -> float:
        """Return the nanoseconds of an audit that are not in its calls, from a kernel of ours. Raises Failed."""
        course, case = self.course, tasks.get(OWN_TASK).timing_cases[0]
        self.idle(child)
        child.ask("build", course.limits.build_s, {"do": "load", "code": OWN_CODE, "cache": ""})
        opened, _ = course.prepare(child, case)
        request = {"token": opened["token"], "case_id": case.case_id, "method": "graph"}
        calls = len(opened["pool"])
        with course.turn(), course.engine.children.only(child.pid):
            spent = []
            for _ in range(OWN_AUDITS):
                course.filled(child, {**request, "count": calls, "reference": False})
                said = child.ask("timing", course.limits.timing_s, {"do": "batch", "count": calls, "method": "graph"})
                spent.append(self._once(child, request, calls)[0] - sum(said["ns"]))
        return float(np.median(spent)) - self._looking_ns(opened)

    def _once(self, child: Child, request: Mapping[str, Any], calls: int) -> tuple[float, str | None]:
        """Return the nanoseconds from fresh inputs to outputs that the judge has, and what is wrong with those."""
        filled = self.course.filled(child, {**request, "count": calls, "reference": False})
        said = child.ask("timing", self.course.limits.timing_s, {"do": "audit", "count": calls})
        verdict = self.course.look(request, said.get("outputs"), calls - 1)
        return (float(verdict["seen_at"]) - filled["ready_at"]) * 1e9, verdict["mismatch"]

    def _looking_ns(self, opened: Mapping[str, Any]) -> float:
        """Return what the judge needs to copy the outputs that it looks at."""
        peak = self.course.engine.described["device"]["peak_bytes_per_s"]
        return float(2e9 * sum(row["nbytes"] for row in opened["out"]) / (LOOK_RATE * peak))

    def factor(
        self, child: Child, request: Mapping[str, Any], opened: Mapping[str, Any], claimed_ns: float, audited: str
    ) -> float:
        """Hold the claim against the engine's own watch; returns the factor by which the claimed times have to grow.

        The child gets inputs that it has not seen, and the watch stops when the judge has the outputs that it looks at,
        of a set drawn at random, and not when the child says that it is done. Nothing is allowed for but the calls and
        the messages. If it says more than the claim, it is believed: eager calls may take longer on the host than on
        the device. Of graphs, it may not say much more. Raises Contradicted, or Disturbed if something else uses the
        GPU.
        """
        engine, calls, case_id = self.course.engine, len(opened["pool"]), request["case_id"]
        message = engine.message_ns + self._looking_ns(opened)
        bound = max(FACTOR * claimed_ns + SLACK_NS, HOST_NS) + message / calls
        per_call = math.inf
        for attempt in range(TRIES):
            # The driver setting up or tearing down another child's context holds up launches for a while. That only
            # ever makes an audit longer, so one good one is enough.
            time.sleep(PAUSE_S if attempt else 0)
            spent, wrong = self._once(child, request, calls)
            if wrong:
                raise Failed("incorrect", "timing", wrong)
            per_call = min(per_call, spent / calls)
            if per_call <= bound:
                engine.audits.append((claimed_ns, per_call, bound, attempt, calls))
                return 1.0
        engine.audits.append((claimed_ns, per_call, bound, TRIES, calls))
        factor = max(1.0, (per_call - message / calls) / claimed_ns)
        if audited == "event" or factor <= MOST_FACTOR:
            return factor
        child.kill()  # what it left on the device must not speak for it
        text = f"claimed {claimed_ns / 1e3:.2f} us a call, but {calls} calls took {per_call / 1e3:.2f} us each"
        self.course.filled(child, {**request, "count": calls, "reference": False})
        raise Contradicted(f"case {case_id}: {text}, more than {bound / 1e3:.2f}")
