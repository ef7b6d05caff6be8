"""Holding the times that a child claims against the engine's own watch."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from harness.measure.limits import PAUSE_S, Contradicted
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


class Audit:
    """The audits of one course."""

    def __init__(self, course: Course) -> None:
        self.course = course

    def idle(self, child: Child) -> None:
        """Learn what an audit takes without its calls, from a process that has no foreign code yet.

        That is the request and its answer, the question to the judge, and the GPU's way from the judge's context to the
        child's and back: most of a millisecond.
        """
        with self.course.turn(), self.course.engine.children.only(child.pid):
            child.ask("start", self.course.limits.start_s, {"do": "calibrate"})
            for _ in range(IDLE_TIMES):
                with stopped(child.pid):
                    ready_at = self.course.judge({"do": "glance"})["at"]
                child.ask("start", self.course.limits.start_s, {"do": "idle"})
                self.course.engine.messages.append((self.course.judge({"do": "glance"})["at"] - ready_at) * 1e9)

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
        peak = engine.described["device"]["peak_bytes_per_s"]
        message = engine.message_ns + 2e9 * sum(row["nbytes"] for row in opened["out"]) / (LOOK_RATE * peak)
        bound = max(FACTOR * claimed_ns + SLACK_NS, HOST_NS) + message / calls
        per_call = math.inf
        for attempt in range(TRIES):
            # The driver setting up or tearing down another child's context holds up launches for a while. That only
            # ever makes an audit longer, so one good one is enough.
            time.sleep(PAUSE_S if attempt else 0)
            order = random.SystemRandom().sample(range(calls), calls)
            filled = self.course.filled(child, {**request, "count": calls, "reference": False})
            said = child.ask("timing", self.course.limits.timing_s, {"do": "audit", "order": order})
            seen_at = self.course.verify(request, said.get("outputs"), order[-1])
            per_call = min(per_call, (seen_at - filled["ready_at"]) * 1e9 / calls)
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
