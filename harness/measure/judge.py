"""The trusted process of one GPU: makes inputs, holds expected outputs, compares, and times the reference.

Started as `python -m harness.measure.judge FD DEVICE FOLDER`. It answers one request at a time and never runs foreign
code. A run is one kernel's course; what it was shown and the memory it shared are kept under its number until `end`.
"""

from __future__ import annotations

import ctypes
import itertools
import platform
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

import tasks
from harness.measure import pretend
from harness.measure.draws import Draws
from harness.measure.empty_kernel import empty_kernel_ns
from harness.measure.library import Library
from harness.measure.protocol import Channel, PeerGone
from harness.measure.region import Driver, Form, Layout, Region, Slot
from harness.measure.regions import Regions
from harness.measure.stages import Run, Stage, as_json, case_of
from harness.measure.timed_stages import TimedStages
from tasks.spec import Task

# Shares of the memory that is free when the judge starts.
LIBRARY_SHARE, PLAIN_SHARE = 0.07, 0.07  # for inputs with expected outputs and without
SPARE_SHARE, HELD_SHARE = 0.06, 0.03  # for regions that wait for their next run: of no holder, and of each holder
TORCH_SHARE = 0.25  # and for all that PyTorch allocates here, so that its cache does not take what kernels need
PR_SET_DUMPABLE = 4


class Judge:
    """State of the trusted process: runs by number, expected outputs, captured references, spare regions."""

    def __init__(self, device: str, folder: Path) -> None:
        self.device = device
        self.runs: dict[int, Run] = {}
        self.tokens = itertools.count()
        self.driver: Driver | None = None
        self.memory_bytes = 8 << 30
        if device == "cpu":
            torch.set_num_threads(1)
        else:
            torch.cuda.init()
            properties = torch.cuda.get_device_properties(0)
            self.flush = torch.empty(max(64 << 20, 2 * properties.L2_cache_size), dtype=torch.uint8, device="cuda")
            self.driver = Driver()
            self.memory_bytes = torch.cuda.mem_get_info()[0]
            torch.cuda.set_per_process_memory_fraction(TORCH_SHARE * self.memory_bytes / properties.total_memory)
        self.timed = TimedStages(self)
        self.tiny = torch.zeros(1, device=device)
        on_gpu = self.memory_bytes if device == "cuda" else 0
        keep = int(SPARE_SHARE * on_gpu), int(HELD_SHARE * on_gpu)
        self.regions = Regions(device, self.driver, folder, *keep)
        shares = (LIBRARY_SHARE, PLAIN_SHARE)
        self.draws = Draws(device, *(Library(int(share * self.memory_bytes)) for share in shares))
        self.largest: dict[str, int] = {}  # bytes of the largest timing stage of a task so far

    def describe(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return what this process knows of the machine: library versions, and the GPU's properties.

        And what an empty kernel takes by `method`, and by events, to which a kernel may fall back.
        """
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
            methods = sorted({"event", request["method"]})
            facts["empty_kernel_ns"] = {method: empty_kernel_ns(method, self.flush) for method in methods}
        return facts

    def shapes(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return (shape, dtype) of every input, by case, for the cases of a task that this device can run."""
        task = tasks.get(request["task"])
        groups = {"check": self.draws.check_cases(task), "timing": task.timing_cases if self.device == "cuda" else ()}
        return {
            name: {c.case_id: [[list(f.shape), f.dtype] for f in self.draws.forms(task, c)[0]] for c in cases}
            for name, cases in groups.items()
        }

    def fill(self, stage: Stage, data: Sequence[torch.Tensor], slots: Sequence[Slot]) -> None:
        for place, (value, slot) in enumerate(zip(data, slots, strict=True)):
            if place in stage.task.writes:
                stage.region.poison(slot.offset, slot.offset + slot.nbytes)
            else:
                stage.region.tensor(slot).copy_(value)

    def open(self, request: Mapping[str, Any], stage: Stage) -> dict[str, Any]:
        token = next(self.tokens)
        self.runs[request["run"]].stages = {token: stage}
        return {
            "token": token, "handle": stage.region.handle, "nbytes": stage.region.nbytes,
            "writes": list(stage.task.writes),
        }  # fmt: skip

    def take(self, run: Run, task: Task, nbytes: int, usual: bool = True) -> Region:
        """Return a region for the next stage of a run: one of its earlier stages if it is large enough.

        A new one is as large as any `usual` stage of the task was: making and mapping one takes longer than most
        stages.
        """
        fit = [region for region in run.regions if nbytes <= region.nbytes]
        if fit:
            return min(fit, key=lambda r: r.nbytes)
        if usual:
            nbytes = self.largest[task.name] = max(nbytes, self.largest.get(task.name, 0))
        try:
            region = self.regions.take(nbytes, run.holder)
        except RuntimeError:  # the memory may lie in caches of this process
            if self.device != "cuda":
                raise
            self.make_room()
            region = self.regions.take(nbytes, run.holder)
        run.regions.append(region)
        return region

    def open_check(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Lay out checking cases, one call on fresh inputs and one on a near twin, and describe the region.

        `cases` are their ids.
        """
        task, run = tasks.get(request["task"]), self.run(request)
        layout, calls = Layout(), []
        for case in (case_of(task.check_cases, case_id) for case_id in request["cases"]):
            for known in self.draws.draw(run.had, task, case, "check").sets:
                inputs = layout.place([Form.of(t) for t in known.inputs])
                calls.append((case, known, inputs, layout.place(known.outputs)))
        stage = Stage(task, self.take(run, task, layout.nbytes), calls)
        stage.region.poison(0, layout.nbytes)
        for _, known, inputs, _ in calls:
            self.fill(stage, known.inputs, inputs)
        self.synchronize()
        rows: dict[str, list[dict[str, Any]]] = {}
        for case, _, inputs, outputs in calls:
            rows.setdefault(case.case_id, []).append({"inputs": as_json(inputs), "outputs": as_json(outputs)})
        return {**self.open(request, stage), "cases": [{"case_id": k, "calls": v} for k, v in rows.items()]}

    def verify_check(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Compare every output of a checking stage; the answer names the first mismatch."""
        stage = self.stage(request)
        counts = [
            stage.suspicion(known, inputs, stage.region.tensors(outputs)) for _, known, inputs, outputs in stage.calls
        ]
        for (case, known, inputs, outputs), bad in zip(stage.calls, torch.stack(counts).tolist(), strict=True):
            if bad:
                why = stage.why(known, inputs, stage.region.tensors(outputs))
                return {"mismatch": f"case {case.case_id}: {why}"}
        return {"mismatch": None}

    def glance(self, _: Mapping[str, Any]) -> dict[str, Any]:
        """Do next to nothing on the device, and say when that was done."""
        self.tiny.add_(1)
        self.synchronize()
        return {"at": time.monotonic()}

    def stage(self, request: Mapping[str, Any]) -> Stage:
        return self.runs[request["run"]].stages[request["token"]]

    def end(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Forget a run. `evict` are handles that its holder must unmap before it asks for `free`."""
        run = self.runs.pop(request["run"], Run(""))
        return {"evict": self.regions.give_back(run.regions, run.holder)}

    def free(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Free what a holder has unmapped; all that it held, runs that have not ended too, if it is `gone`."""
        holder, gone = request["holder"], bool(request.get("gone"))
        for number in [n for n, run in self.runs.items() if gone and run.holder == holder]:
            self.regions.give_back(self.runs.pop(number).regions, holder)
        self.regions.free(holder, gone)
        return {}

    def make_room(self) -> None:
        """Give back all memory that is only kept to save time."""
        self.timed.references.clear()
        self.draws.library.clear()
        self.draws.plain.clear()
        self.regions.free("", gone=True)
        torch.cuda.synchronize()
        torch.cuda.empty_cache()

    def run(self, request: Mapping[str, Any]) -> Run:
        return self.runs.setdefault(request["run"], Run(request["holder"]))

    def synchronize(self) -> None:
        if self.device == "cuda":
            torch.cuda.synchronize()


def serve(channel: Channel, judge: Judge) -> None:
    """Answer requests until the engine closes; an error of a request is answered, not raised."""
    served = {
        "describe": judge.describe, "shapes": judge.shapes, "open_check": judge.open_check,
        "verify_check": judge.verify_check, "open_timing": judge.timed.open, "fill": judge.timed.fill,
        "verify_timing": judge.timed.verify, "glance": judge.glance, "end": judge.end, "free": judge.free,
    }  # fmt: skip
    while True:
        try:
            request = channel.receive()
        except PeerGone:
            return
        started = time.monotonic()
        try:
            with torch.no_grad():
                try:
                    answer = served[request["do"]](request)
                except torch.OutOfMemoryError:
                    judge.make_room()
                    answer = served[request["do"]](request)
        except Exception as error:
            if judge.device == "cuda":  # raises, and so ends this process, if the device no longer works for it
                torch.cuda.synchronize()
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
