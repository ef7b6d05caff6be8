"""The trusted process of one GPU: makes inputs, holds expected outputs, compares, and times the reference.

Started as `python -m harness.measure.judge FD DEVICE`. It answers one request at a time and never runs foreign code.
Inputs are drawn from seeds that are made here and never leave; they are drawn again when a comparison needs them.
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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

import tasks
from harness.measure.protocol import Channel, PeerGone
from harness.measure.region import Driver, Layout, Region, Slot
from tasks.compare import mismatch
from tasks.spec import Case, Task

POOL_BYTES = 512 << 20  # fresh input sets of one batch, together; big inputs get fewer sets
POOL_SETS = (2, 8)
INPUT_SLOTS = 2
PR_SET_DUMPABLE = 4
# The second call of a checking case sees the first one's inputs but for a few elements, so that a kernel that answers
# from a fingerprint of its inputs is wrong.
TWIN_SHARE = 0.02


@dataclass(frozen=True)
class Draw:
    """Inputs by the seeds they come from: `twin` replaces a few floating-point elements by those of another draw."""

    seed: int
    twin: int | None = None

    @classmethod
    def fresh(cls) -> Draw:
        return cls(secrets.randbits(62))


@dataclass
class Stage:
    """A region that a child works in, and the seeds of what was put there."""

    task: Task
    region: Region
    calls: list[tuple[Case, Draw, list[Slot], list[Slot]]] = field(default_factory=list)
    slots: list[list[Slot]] = field(default_factory=list)
    pool: list[list[Slot]] = field(default_factory=list)
    out: list[list[Slot]] = field(default_factory=list)
    draws: list[Draw] = field(default_factory=list)


def _as_tuple(outputs: Any) -> tuple[torch.Tensor, ...]:
    return outputs if isinstance(outputs, tuple) else (outputs,)


class Reference:
    """The task's reference on one timing case, captured once and timed as the candidate is."""

    def __init__(self, judge: Judge, task: Task, case: Case) -> None:
        self.judge = judge
        self.run = tasks.implementation(task.name).reference
        self.data = [judge.inputs(task, case, Draw.fresh()) for _ in range(INPUT_SLOTS)]
        self.graphs: list[tuple[torch.cuda.CUDAGraph, torch.cuda.Event, torch.cuda.Event]] = []
        for data in self.data:
            for _ in range(3):
                self.run(data)
        torch.cuda.synchronize()
        pool = torch.cuda.graph_pool_handle()  # replays never overlap, so the graphs may share their memory
        for data in self.data:
            graph = torch.cuda.CUDAGraph()
            start, end = (torch.cuda.Event(enable_timing=True, external=True) for _ in range(2))
            with torch.cuda.graph(graph, pool=pool):
                start.record()
                self.run(data)
                end.record()
            self.graphs.append((graph, start, end))

    def time(self, values: Sequence[torch.Tensor], turn: int, method: str) -> float:
        """Return nanoseconds of one cold call on fresh values."""
        slot = turn % INPUT_SLOTS
        for target, source in zip(self.data[slot], values, strict=True):
            target.copy_(source)
        self.judge.flush.zero_()
        if method == "graph":
            graph, start, end = self.graphs[slot]
            graph.replay()
        else:
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            self.run(self.data[slot])
            end.record()
        torch.cuda.synchronize()
        return float(start.elapsed_time(end)) * 1e6


class Judge:
    """State of the trusted process: open stages by token, and captured references by task and case."""

    def __init__(self, device: str) -> None:
        self.device = device
        self.stages: dict[int, Stage] = {}
        self.tokens = itertools.count()
        self.references: dict[tuple[str, str], Reference] = {}
        self.driver: Driver | None = None
        self.memory_bytes = 8 << 30
        if device == "cuda":
            torch.cuda.init()
            properties = torch.cuda.get_device_properties(0)
            self.flush = torch.empty(max(64 << 20, 2 * properties.L2_cache_size), dtype=torch.uint8, device="cuda")
            self.driver = Driver()
            self.memory_bytes = properties.total_memory

    def describe(self, _: Mapping[str, Any]) -> dict[str, Any]:
        """Return what this process knows of the machine: GPU name, capability and library versions."""
        import triton

        facts: dict[str, Any] = {
            "torch": torch.__version__, "triton": triton.__version__, "python": platform.python_version(),
            "cuda": torch.version.cuda or "none", "gpu": platform.processor() or "cpu", "capability": 0,
            "memory_bytes": self.memory_bytes,
        }  # fmt: skip
        if self.device == "cuda":
            major, minor = torch.cuda.get_device_capability()
            facts.update(gpu=torch.cuda.get_device_name(), capability=10 * major + minor)
        return facts

    def inputs(self, task: Task, case: Case, draw: Draw) -> tuple[torch.Tensor, ...]:
        if draw.twin is not None and not task.twins:
            draw = Draw(draw.twin)  # inputs that cannot be mixed are drawn afresh instead
        generator = torch.Generator(device=self.device)
        generator.manual_seed(draw.seed)
        make = tasks.implementation(task.name).make_inputs
        data = tuple(make(generator, self.device, **case.params))
        if draw.twin is None:
            return data
        generator.manual_seed(draw.twin)
        other = make(generator, self.device, **case.params)
        mixed = []
        for value, replacement in zip(data, other, strict=True):
            if value.is_floating_point():
                chance = torch.rand(value.shape, generator=generator, device=self.device)
                value = torch.where(chance < TWIN_SHARE, replacement, value)
            mixed.append(value)
        return tuple(mixed)

    def _fill(self, stage: Stage, case: Case, draw: Draw, slots: Sequence[Slot]) -> None:
        for place, (value, slot) in enumerate(zip(self.inputs(stage.task, case, draw), slots, strict=True)):
            target = stage.region.tensor(slot)
            if place in stage.task.writes:
                target.reshape(-1).view(torch.uint8).fill_(0xFF)
            else:
                target.copy_(value)

    def _open(self, stage: Stage) -> dict[str, Any]:
        token = next(self.tokens)
        self.stages[token] = stage
        return {
            "token": token, "handle": stage.region.handle, "nbytes": stage.region.nbytes,
            "writes": list(stage.task.writes),
        }  # fmt: skip

    def open_check(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Lay out the checking cases, one call on fresh inputs and one on a near twin, and describe the region.

        `cases` is how many of them, drawn at random, or null for all.
        """
        task = tasks.get(request["task"])
        reference = tasks.implementation(task.name).reference
        layout, calls = Layout(), []
        cases = self._check_cases(task)
        if request["cases"] is not None:
            cases = random.SystemRandom().sample(cases, min(request["cases"], len(cases)))
        for case in cases:
            first = Draw.fresh()
            data = self.inputs(task, case, first)
            results = _as_tuple(reference(data))
            for draw in (first, Draw(first.seed, twin=secrets.randbits(62))):
                calls.append((case, draw, layout.place(data), layout.place(results)))
        stage = Stage(task, Region.create(self.device, layout.nbytes, self.driver), calls)
        for case, draw, inputs, _ in calls:
            self._fill(stage, case, draw, inputs)
        self._synchronize()
        rows: dict[str, list[dict[str, Any]]] = {}
        for case, _, inputs, outputs in calls:
            rows.setdefault(case.case_id, []).append({"inputs": _json(inputs), "outputs": _json(outputs)})
        return {**self._open(stage), "cases": [{"case_id": k, "calls": v} for k, v in rows.items()]}

    def _check_cases(self, task: Task) -> list[Case]:
        cases = [c for c in task.check_cases if c.cpu or self.device == "cuda"]
        if not cases:
            raise ValueError(f"task {task.name} has no checking case that device {self.device} can run")
        return cases

    def verify_check(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Compare every output of a checking stage; the answer names the first mismatch."""
        stage = self.stages[request["token"]]
        for case, draw, inputs, outputs in stage.calls:
            wrong = self._compare(stage, case, draw, inputs, outputs)
            if wrong:
                return {"mismatch": f"case {case.case_id}: {wrong}"}
        return {"mismatch": None}

    def _compare(
        self, stage: Stage, case: Case, draw: Draw, inputs: Sequence[Slot], outputs: Sequence[Slot]
    ) -> str | None:
        task, functions = stage.task, tasks.implementation(stage.task.name)
        data = self.inputs(task, case, draw)
        for place, (value, slot) in enumerate(zip(data, inputs, strict=True)):
            if place not in task.writes and not _same_bytes(stage.region.tensor(slot), value):
                return f"input {place} was changed by the kernel"
        found = stage.region.tensors(outputs)
        if hasattr(functions, "check"):
            return functions.check(data, found)
        return mismatch(found, functions.oracle(data), task.tolerances(case.params), found)

    def open_timing(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Lay out a timing case: input slots that the kernel is bound to, a pool of fresh inputs, and output space."""
        task = tasks.get(request["task"])
        case = _case(task, request["case_id"])
        layout = Layout()
        data = self.inputs(task, case, Draw.fresh())
        results = _as_tuple(tasks.implementation(task.name).reference(data))
        size = sum(t.numel() * t.element_size() for t in data)
        sets = min(max(POOL_BYTES // max(size, 1), POOL_SETS[0]), POOL_SETS[1])
        slots = [layout.place(data) for _ in range(INPUT_SLOTS)]
        pool = [layout.place(data) for _ in range(sets)]
        out = [layout.place(results) for _ in range(sets)]
        del data, results
        region = Region.create(self.device, layout.nbytes, self.driver)
        stage = Stage(task, region, slots=slots, pool=pool, out=out, draws=[Draw.fresh() for _ in pool])
        for slot in slots:
            self._fill(stage, case, Draw.fresh(), slot)
        if (task.name, case.case_id) not in self.references:
            self.references[task.name, case.case_id] = Reference(self, task, case)
        self._synchronize()
        groups = {"slots": slots, "pool": pool, "out": out}
        return {**self._open(stage), **{name: [_json(g) for g in group] for name, group in groups.items()}}

    def fill(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Put values never seen before into the pool, poison the output space, and time the reference on them."""
        stage = self.stages[request["token"]]
        case = _case(stage.task, request["case_id"])
        for index, slots in enumerate(stage.pool):
            stage.draws[index] = Draw.fresh()
            self._fill(stage, case, stage.draws[index], slots)
        for slots in stage.out:
            for slot in slots:
                stage.region.tensor(slot).reshape(-1).view(torch.uint8).fill_(0xFF)
        reference = self.references[stage.task.name, case.case_id]
        values = [stage.region.tensors(slots) for slots in stage.pool]
        return {"ns": [reference.time(data, turn, request["method"]) for turn, data in enumerate(values)]}

    def verify_timing(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Compare the output of one timed call, drawn here at random, and look whether its inputs are intact."""
        stage = self.stages[request["token"]]
        case = _case(stage.task, request["case_id"])
        index = secrets.randbelow(len(stage.pool))
        wrong = self._compare(stage, case, stage.draws[index], stage.pool[index], stage.out[index])
        if wrong is None:
            last = len(stage.pool) - 1
            slot = stage.slots[(request["first"] + last) % len(stage.slots)]
            for place, (kept, used) in enumerate(zip(stage.pool[last], slot, strict=True)):
                if place not in stage.task.writes:
                    same = _same_bytes(stage.region.tensor(kept), stage.region.tensor(used))
                    wrong = wrong or (None if same else f"input {place} was changed by the kernel")
        return {"mismatch": wrong and f"case {case.case_id}, timed call: {wrong}"}

    def release(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Free a stage's region."""
        self.stages.pop(request["token"]).region.release()
        if self.device == "cuda" and torch.cuda.memory_reserved() > self.memory_bytes // 4:
            torch.cuda.empty_cache()
        return {}

    def _synchronize(self) -> None:
        if self.device == "cuda":
            torch.cuda.synchronize()


def _json(slots: Sequence[Slot]) -> list[dict[str, Any]]:
    return [{"offset": s.offset, "shape": list(s.shape), "dtype": s.dtype, "nbytes": s.nbytes} for s in slots]


def _case(task: Task, case_id: str) -> Case:
    return next(c for c in task.timing_cases if c.case_id == case_id)


def _same_bytes(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.equal(a.contiguous().reshape(-1).view(torch.uint8), b.contiguous().reshape(-1).view(torch.uint8))


def serve(channel: Channel, judge: Judge) -> None:
    """Answer requests until the engine closes; an error of a request is answered, not raised."""
    served = {
        "describe": judge.describe, "open_check": judge.open_check, "verify_check": judge.verify_check,
        "open_timing": judge.open_timing, "fill": judge.fill, "verify_timing": judge.verify_timing,
        "release": judge.release,
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
    serve(channel, Judge(sys.argv[2]))


if __name__ == "__main__":
    main()
