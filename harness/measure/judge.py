"""The trusted process of one GPU: makes inputs, holds expected outputs, compares, and times the reference.

Started as `python -m harness.measure.judge FD DEVICE FOLDER`. It answers one request at a time and never runs foreign
code. A run is one kernel's course; what it was shown and the memory it shared are kept under its number until `end`.
"""

from __future__ import annotations

import ctypes
import itertools
import platform
import random
import secrets
import socket
import sys
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

import tasks
from harness.measure import pretend
from harness.measure.draws import Draws
from harness.measure.library import Entry, Known, Library
from harness.measure.protocol import Channel, PeerGone
from harness.measure.reference import SLOTS, Reference
from harness.measure.region import Driver, Form, Layout, Region, Slot
from harness.measure.regions import Regions
from tasks.spec import Case, Task

POOL_BYTES = 512 << 20  # fresh input sets of one batch, together; big inputs get fewer sets
POOL_SETS = (2, 8)
REFERENCES = 12
COPY_ROUNDS = 3
LIBRARY_SHARE = 0.15  # of the device's memory, for inputs with expected outputs
SPARE_SHARE = 0.1  # and for regions that wait for their next run
PR_SET_DUMPABLE = 4


@dataclass
class Stage:
    """A region that a child works in, and what was put there."""

    task: Task
    region: Region
    calls: list[tuple[Case, Known, list[Slot], list[Slot]]] = field(default_factory=list)
    slots: list[list[Slot]] = field(default_factory=list)
    pool: list[list[Slot]] = field(default_factory=list)
    out: list[list[Slot]] = field(default_factory=list)
    looked: tuple[int, Known] | None = None  # the set of the last batch whose outputs are looked at
    last: tuple[torch.Tensor, ...] = ()


@dataclass
class Run:
    """What one kernel was shown, and the regions that its process may still see.

    `holder` names a process that lives on after the run, and keeps regions mapped; "" is one that does not.
    """

    holder: str
    had: set[Entry] = field(default_factory=set)
    stages: dict[int, Stage] = field(default_factory=dict)
    regions: list[Region] = field(default_factory=list)


class Judge:
    """State of the trusted process: runs by number, expected outputs, captured references, spare regions."""

    def __init__(self, device: str, folder: Path) -> None:
        self.device = device
        self.runs: dict[int, Run] = {}
        self.tokens = itertools.count()
        self.references: OrderedDict[tuple[str, str], Reference] = OrderedDict()
        self.driver: Driver | None = None
        self.memory_bytes = 8 << 30
        if device == "cpu":
            torch.set_num_threads(1)
        else:
            torch.cuda.init()
            properties = torch.cuda.get_device_properties(0)
            self.flush = torch.empty(max(64 << 20, 2 * properties.L2_cache_size), dtype=torch.uint8, device="cuda")
            self.tiny = torch.zeros(1, device="cuda")
            self.driver = Driver()
            self.memory_bytes = properties.total_memory
        keep = int(SPARE_SHARE * self.memory_bytes) if device == "cuda" else 0
        self.regions = Regions(device, self.driver, folder, keep)
        self.draws = Draws(device, Library(int(LIBRARY_SHARE * self.memory_bytes)))

    def describe(self, _: Mapping[str, Any]) -> dict[str, Any]:
        """Return what this process knows of the machine: library versions, and the GPU's properties."""
        import triton

        facts: dict[str, Any] = {
            "torch": torch.__version__, "triton": triton.__version__, "python": platform.python_version(),
            "cuda": torch.version.cuda or "none", "gpu": platform.processor() or "cpu", "capability": 0,
            "memory_bytes": self.memory_bytes, "device": {},
        }  # fmt: skip
        if self.driver is not None:
            device = pretend.describe_device()
            facts.update(gpu=device["name"], capability=device["capability"])
            facts["device"] = {
                **device, "peak_bytes_per_s": self.driver.peak_bytes_per_s(), "sm_clock_hz": self.driver.sm_clock_hz()
            }  # fmt: skip
        return facts

    def shapes(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the forms of the inputs of every case of a task that this device can run: (shape, dtype) each."""
        task = tasks.get(request["task"])
        cases = [*self.draws.check_cases(task), *(task.timing_cases if self.device == "cuda" else ())]
        return {"calls": [[[list(f.shape), f.dtype] for f in self.draws.forms(task, case)[0]] for case in cases]}

    def _fill(self, stage: Stage, data: Sequence[torch.Tensor], slots: Sequence[Slot]) -> None:
        for place, (value, slot) in enumerate(zip(data, slots, strict=True)):
            if place in stage.task.writes:
                stage.region.poison(slot.offset, slot.offset + slot.nbytes)
            else:
                stage.region.tensor(slot).copy_(value)

    def _open(self, request: Mapping[str, Any], stage: Stage) -> dict[str, Any]:
        token = next(self.tokens)
        run = self.runs[request["run"]]
        run.stages[token] = stage
        run.regions.append(stage.region)
        return {
            "token": token, "handle": stage.region.handle, "nbytes": stage.region.nbytes,
            "writes": list(stage.task.writes),
        }  # fmt: skip

    def open_check(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Lay out checking cases, one call on fresh inputs and one on a near twin, and describe the region.

        `cases` is how many of them, drawn at random; 0 is all.
        """
        task, run = tasks.get(request["task"]), self._run(request)
        cases, layout, calls = self.draws.check_cases(task), Layout(), []
        if request["cases"]:
            cases = random.SystemRandom().sample(cases, min(request["cases"], len(cases)))
        for case in cases:
            for known in self.draws.draw(run.had, task, case, "check").sets:
                inputs = layout.place([Form.of(t) for t in known.inputs])
                calls.append((case, known, inputs, layout.place(known.outputs)))
        stage = Stage(task, self.regions.take(layout.nbytes, run.holder), calls)
        for _, known, inputs, _ in calls:
            self._fill(stage, known.inputs, inputs)
        self._synchronize()
        rows: dict[str, list[dict[str, Any]]] = {}
        for case, _, inputs, outputs in calls:
            rows.setdefault(case.case_id, []).append({"inputs": _json(inputs), "outputs": _json(outputs)})
        return {**self._open(request, stage), "cases": [{"case_id": k, "calls": v} for k, v in rows.items()]}

    def verify_check(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Compare every output of a checking stage; the answer names the first mismatch."""
        stage = self._stage(request)
        found = [self._suspicion(stage, known, inputs, outputs) for _, known, inputs, outputs in stage.calls]
        for (case, known, inputs, outputs), bad in zip(stage.calls, torch.stack(found).tolist(), strict=True):
            if bad:
                return {"mismatch": f"case {case.case_id}: {self._why(stage, known, inputs, outputs)}"}
        return {"mismatch": None}

    def _suspicion(self, stage: Stage, known: Known, inputs: Sequence[Slot], outputs: Sequence[Slot]) -> torch.Tensor:
        """Return a count that is zero if the outputs pass and the inputs are intact, without waiting for the device."""
        changed = [
            _differs(stage.region.tensor(slot), value)
            for place, (value, slot) in enumerate(zip(known.inputs, inputs, strict=True))
            if place not in stage.task.writes
        ]
        check = getattr(tasks.implementation(stage.task.name), "check", None)
        found = stage.region.tensors(outputs)
        if check is not None:
            bad = torch.tensor(int(check(known.inputs, found) is not None), device=self.device)
        else:
            bad = known.bad(found)
        return torch.stack([bad.to(torch.int64), *changed]).sum()

    def _why(self, stage: Stage, known: Known, inputs: Sequence[Slot], outputs: Sequence[Slot]) -> str:
        for place, (value, slot) in enumerate(zip(known.inputs, inputs, strict=True)):
            if place not in stage.task.writes and bool(_differs(stage.region.tensor(slot), value)):
                return f"input {place} was changed by the kernel"
        check = getattr(tasks.implementation(stage.task.name), "check", None)
        found = stage.region.tensors(outputs)
        why = check(known.inputs, found) if check is not None else known.why(found)
        return why or "the outputs changed after they were handed over"

    def open_timing(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Lay out a timing case: input slots that the kernel is bound to, a pool of fresh inputs, and output space."""
        task, run = tasks.get(request["task"]), self._run(request)
        case = _case(task, request["case_id"])
        layout = Layout()
        inputs, outputs = self.draws.forms(task, case)
        size = sum(form.nbytes for form in inputs)
        sets = min(max(POOL_BYTES // max(size, 1), POOL_SETS[0]), POOL_SETS[1])
        slots = [layout.place(inputs) for _ in range(SLOTS)]
        pool = [layout.place(inputs) for _ in range(sets)]
        out = [layout.place(outputs) for _ in range(sets)]
        stage = Stage(task, self.regions.take(layout.nbytes, run.holder), slots=slots, pool=pool, out=out)
        for slot in slots:
            self._fill(stage, self.draws.fresh(task, case), slot)
        self._reference(task, case)
        overhead_ns = self._copying_ns(stage)
        groups = {"slots": slots, "pool": pool, "out": out}
        rows = {name: [_json(g) for g in group] for name, group in groups.items()}
        return {**self._open(request, stage), **rows, "overhead_ns": overhead_ns}

    def _copying_ns(self, stage: Stage) -> float:
        """Return nanoseconds per call of what an audit adds to the calls: inputs copied in, outputs out, and a launch.

        The least of a few rounds. The output space is poisoned afterwards, before it is used.
        """
        copies = []
        for index, (pool, out) in enumerate(zip(stage.pool, stage.out, strict=True)):
            slots = stage.slots[index % len(stage.slots)]
            rows = [*zip(slots, pool, strict=True), *zip(stage.out[index - 1], out, strict=True)]
            copies.append([(stage.region.tensor(to), stage.region.tensor(source)) for to, source in rows])
        rounds = []
        for _ in range(COPY_ROUNDS):
            self._synchronize()
            started = time.monotonic()
            for call in copies:
                self.tiny.zero_()
                for target, source in call:
                    target.copy_(source)
            self._synchronize()
            rounds.append((time.monotonic() - started) * 1e9 / len(copies))
        return min(rounds)

    def _reference(self, task: Task, case: Case) -> Reference:
        key = task.name, case.case_id
        if key not in self.references:
            data = [self.draws.fresh(task, case) for _ in range(SLOTS)]
            self.references[key] = Reference(tasks.implementation(task.name).reference, data, self.flush)
            while len(self.references) > REFERENCES:
                self.references.popitem(last=False)
        self.references.move_to_end(key)
        return self.references[key]

    def fill(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Put values that the kernel has not seen into the pool, poison the output space, and time the reference.

        With `look`, one set, drawn at random, has expected outputs: `verify_timing` compares the kernel's with them.
        """
        stage, run = self._stage(request), self.runs[request["run"]]
        case = _case(stage.task, request["case_id"])
        stage.looked = None
        if request["look"]:
            known = self.draws.draw(run.had, stage.task, case, "timing").sets[0]
            stage.looked = secrets.randbelow(len(stage.pool)), known
        for index, slots in enumerate(stage.pool):
            if stage.looked and stage.looked[0] == index:
                stage.last = stage.looked[1].inputs
            else:
                stage.last = self.draws.fresh(stage.task, case)
            self._fill(stage, stage.last, slots)
        stage.region.poison(stage.out[0][0].offset, max(s.offset + s.nbytes for s in stage.out[-1]))
        self._synchronize()
        if not request["reference"]:
            return {}
        reference = self._reference(stage.task, case)
        values = [stage.region.tensors(slots) for slots in stage.pool]
        return {"ns": reference.times(values, request["method"])}

    def verify_timing(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Compare the outputs of the looked-at call of the last batch, and see whether the inputs are intact."""
        stage = self._stage(request)
        assert stage.looked is not None
        index, known = stage.looked
        bad = self._suspicion(stage, known, stage.pool[index], stage.out[index])
        slot = stage.slots[(request["first"] + len(stage.pool) - 1) % len(stage.slots)]
        kept = [p for p in range(len(slot)) if p not in stage.task.writes]
        changed = torch.stack([_differs(stage.region.tensor(slot[p]), stage.last[p]) for p in kept]).tolist()
        wrong = None
        if int(bad):
            wrong = self._why(stage, known, stage.pool[index], stage.out[index])
        elif any(changed):
            wrong = f"input {kept[changed.index(1)]} was changed by the kernel"
        return {"mismatch": wrong and f"case {request['case_id']}, timed call: {wrong}"}

    def _stage(self, request: Mapping[str, Any]) -> Stage:
        return self.runs[request["run"]].stages[request["token"]]

    def end(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Forget a run. `evict` are handles that its holder must unmap before it asks for `free`."""
        run = self.runs.pop(request["run"], Run(""))
        return {"evict": self.regions.give_back(run.regions, run.holder)}

    def free(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Free what a holder has unmapped; all that it held, if it is `gone`."""
        self.regions.free(request["holder"], bool(request.get("gone")))
        return {}

    def _run(self, request: Mapping[str, Any]) -> Run:
        return self.runs.setdefault(request["run"], Run(request["holder"]))

    def _synchronize(self) -> None:
        if self.device == "cuda":
            torch.cuda.synchronize()


def _case(task: Task, case_id: str) -> Case:
    return next(c for c in task.timing_cases if c.case_id == case_id)


def _json(slots: Sequence[Slot]) -> list[dict[str, Any]]:
    return [{"offset": s.offset, "shape": list(s.shape), "dtype": s.dtype, "nbytes": s.nbytes} for s in slots]


def _differs(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return whether any byte differs, as a 0-d int64 tensor on the device."""
    one, other = (t.contiguous().reshape(-1).view(torch.uint8) for t in (a, b))
    return (one != other).any().to(torch.int64)


def serve(channel: Channel, judge: Judge) -> None:
    """Answer requests until the engine closes; an error of a request is answered, not raised."""
    served = {
        "describe": judge.describe, "shapes": judge.shapes, "open_check": judge.open_check,
        "verify_check": judge.verify_check, "open_timing": judge.open_timing, "fill": judge.fill,
        "verify_timing": judge.verify_timing, "end": judge.end, "free": judge.free,
    }  # fmt: skip
    while True:
        try:
            request = channel.receive()
        except PeerGone:
            return
        started = time.monotonic()
        try:
            with torch.no_grad():
                answer = served[request["do"]](request)
        except Exception as error:
            if judge.device == "cuda":
                torch.cuda.empty_cache()
            answer = {"error": f"{type(error).__name__}: {error}"[:2000]}
        answer["judge_s"] = time.monotonic() - started
        channel.send(answer)


def main() -> None:
    # Not dumpable: another process of this user may not read its memory.
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    channel = Channel(socket.socket(fileno=int(sys.argv[1])))
    serve(channel, Judge(sys.argv[2], Path(sys.argv[3])))


if __name__ == "__main__":
    main()
