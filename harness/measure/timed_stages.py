"""The judge's side of timing: fresh inputs and an arena for a kernel, the reference's times, a look at outputs."""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import tasks
from harness.measure.arena import GRAIN
from harness.measure.copies import Copies
from harness.measure.limits import LEAST_SETS
from harness.measure.reference import SLOTS, Reference
from harness.measure.region import Layout
from harness.measure.stages import Stage, as_json, case_of, differs
from tasks.spec import Case, Task

if TYPE_CHECKING:
    from harness.measure.judge import Judge

REFERENCES = 12
LEAST_SPARE_BYTES, MOST_SPARE_BYTES = 64 << 20, 1 << 30  # of an arena, beyond the outputs


class TimedStages:
    """Opens timing stages in a judge's runs, fills them, and compares; keeps captured references."""

    def __init__(self, judge: Judge) -> None:
        self.judge = judge
        self.copies = Copies(judge.device)
        self.references: OrderedDict[tuple[str, str], Reference] = OrderedDict()

    def open(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Lay out a timing case: sets of inputs that the kernel is bound to, and an arena for what it allocates.

        There are `most` sets, or as many as fit in `nbytes` with their outputs. The arena has `arena` bytes, or if that
        is 0, room for the outputs of all sets and some temporary memory.
        """
        task, run = tasks.get(request["task"]), self.judge.run(request)
        case = case_of(task.timing_cases, request["case_id"])
        inputs, outputs = self.judge.draws.forms(task, case)
        one = sum(form.nbytes for form in (*inputs, *outputs))
        sets = min(max(request["nbytes"] // max(one, 1), LEAST_SETS), request["most"])
        layout = Layout()
        pool = [layout.place(inputs) for _ in range(sets)]
        kept = sets * sum(-(-form.nbytes // GRAIN) * GRAIN for form in outputs)
        start, size = layout.nbytes, request["arena"] or kept + min(4 * one, MOST_SPARE_BYTES) + LEAST_SPARE_BYTES
        nbytes = start + GRAIN + size
        region = self.judge.take(run, task, nbytes, usual=not request["arena"])
        stage = Stage(task, region, pool=pool, arena=(start, nbytes), out=outputs)
        reference = self._reference(task, case)
        for slots in pool:
            self.judge.fill(stage, self.judge.draws.inputs(run.had, task, case), slots)
        self.judge.synchronize()
        return {
            **self.judge.open(request, stage), "pool": [as_json(slots) for slots in pool], "arena": list(stage.arena),
            "out": as_json(Layout().place(outputs)), "captured": bool(reference.graphs),
        }  # fmt: skip

    def fill(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Poison the arena, put values that the kernel has not seen into the first `count` sets, time the reference.

        One set, drawn at random, has expected outputs: `verify` compares the kernel's with them. `ready_at` is when the
        values can have been there, `disturbed` whether the copies or the reference took much longer than they do on a
        quiet device.
        """
        stage, run = self.judge.stage(request), self.judge.runs[request["run"]]
        case, pool = case_of(stage.task.timing_cases, request["case_id"]), stage.pool[: request["count"]]
        known = self.judge.draws.draw(run.had, stage.task, case, "timing").sets[0]
        stage.looked = secrets.randbelow(len(pool)), known
        stage.shown = [
            known.inputs if index == stage.looked[0] else self.judge.draws.inputs(run.had, stage.task, case)
            for index in range(len(pool))
        ]
        # The copies come last, and the earliest moment at which they can be complete counts: kernels may wait for them.
        stage.region.poison(*stage.arena)
        self.judge.synchronize()
        began, kind = time.monotonic(), (stage.task.name, case.case_id)
        with self.copies.watched(kind, len(pool)):
            for shown, slots in zip(stage.shown, pool, strict=True):
                self.judge.fill(stage, shown, slots)
        self.judge.synchronize()
        answer: dict[str, Any] = {"disturbed": self.copies.disturbed()}
        answer["ready_at"] = began + self.copies.took()
        if request["reference"] and not answer["disturbed"]:
            reference = self._reference(stage.task, case)
            answer["ns"] = reference.times([stage.region.tensors(slots) for slots in pool], request["method"])
            answer["disturbed"] = reference.slow(answer["ns"], request["method"])
        return answer

    def verify(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Compare the outputs of the looked-at call of the last batch, and see whether inputs are intact.

        `outputs` are the offsets of every set's outputs as the child says, `last` is the set of the last call.
        `seen_at` is when the outputs had been copied, by the clock that all processes share: what is compared was there
        then, whatever the child said about being done.
        """
        stage = self.judge.stage(request)
        assert stage.looked is not None
        index, known = stage.looked
        outputs = request["outputs"]
        said = outputs[index] if isinstance(outputs, list) and index < len(outputs) else None
        places = stage.found(said, index)
        if places is None:
            return {"mismatch": "the process does not say where its outputs are", "seen_at": time.monotonic()}
        found = tuple(tensor.clone() for tensor in places)
        self.judge.synchronize()
        seen_at = time.monotonic()
        bad = stage.suspicion(known, stage.pool[index], found)
        slots, shown = stage.pool[request["last"]], stage.shown[request["last"]]
        kept = [p for p in range(len(slots)) if p not in stage.task.writes]
        changed = [int(differs(stage.region.tensor(slots[p]), shown[p])) for p in kept]
        wrong = None
        if int(bad):
            wrong = stage.why(known, stage.pool[index], found)
        elif any(changed):
            wrong = f"input {kept[changed.index(1)]} was changed by the kernel"
        return {"mismatch": wrong and f"case {request['case_id']}, timed call: {wrong}", "seen_at": seen_at}

    def _reference(self, task: Task, case: Case) -> Reference:
        key = task.name, case.case_id
        if key not in self.references:
            data = [self.judge.draws.fresh(task, case) for _ in range(SLOTS)]
            self.references[key] = Reference(tasks.implementation(task.name).reference, data, self.judge.flush)
            while len(self.references) > REFERENCES:
                self.references.popitem(last=False)
        self.references.move_to_end(key)
        return self.references[key]
