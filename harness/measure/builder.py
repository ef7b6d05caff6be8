"""Building kernels ahead of their runs, many at once, each in a child without a device."""

from __future__ import annotations

import json
import random
import secrets
import shutil
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tasks
from harness.measure.launchers import MAX_STUBS
from harness.measure.limits import Failed, InfrastructureError
from harness.measure.processes import START_S, Child, number
from harness.measure.users import hand_over

if TYPE_CHECKING:
    from harness.measure.engine import Engine

COMPILED_FOLDERS = ("triton", "nvrtc")  # where a child's compilers keep their results
COMPILED = ("triton", "nvrtc", "_compile_kernel")  # a source with one of these words is built ahead of its run


@dataclass(frozen=True)
class Built:
    """What a builder left: its folder, None if nothing was built, and the seconds it took."""

    folder: Path | None = None
    seconds: float = 0.0

    def discard(self) -> None:
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)


class Builder:
    """Builds at most `workers` kernels of an engine at a time."""

    def __init__(self, engine: Engine, workers: int) -> None:
        self.engine, self.folder = engine, engine.folder / "built"
        self.folder.mkdir(0o700)
        self._turns = threading.Semaphore(workers)
        self._shapes: dict[str, dict[str, dict[str, Any]]] = {}
        self._stubs: set[str] = set()

    def draw_cases(self, task: str) -> list[str]:
        """Return the ids of the checking cases for one kernel: as many as the limits say, in random order."""
        known, count = list(self._cases(task)["check"]), self.engine.limits.check_cases
        return random.SystemRandom().sample(known, min(count, len(known)) if count else len(known))

    def build(self, task: str, code: str, checked: Sequence[str]) -> Built | Failed:
        """Compile a kernel in a child without a device, as far as that can be foreseen.

        That is for the checking cases that were drawn for it, and for those that are timed.

        What cannot is compiled later, where the kernel runs; the kernel's status is decided there, unless building
        passes its limit.
        """
        if self.engine.device == "cpu" or not any(word in code for word in COMPILED):
            return Built()
        engine = self.engine
        with self._turns:
            child = engine.start_child("builder")
            try:
                if not engine.builders_have_no_device:
                    child.becomes_foreign()
                child.receive("start", engine.limits.start_s)
                request = {
                    "do": "ahead", "code": tasks.candidate_source(task, code), "calls": self._calls(task, checked),
                    "device": engine.described["device"],
                }  # fmt: skip
                answer = child.ask("build", engine.limits.build_s, request)
                self._compile_stubs(answer.get("signatures"))
                folder = self.folder / secrets.token_hex(8)
                folder.mkdir()
                for part in COMPILED_FOLDERS:
                    if (child.workdir / part).is_dir():
                        (child.workdir / part).rename(folder / part)
                return Built(folder, number(answer, "seconds", "build"))
            except Failed as failure:
                return failure if failure.status == "timeout" else Built()
            finally:
                child.kill()

    def _compile_stubs(self, signatures: Any) -> None:
        """Have the fork server compile what Triton's launchers need in every child, once for each signature."""
        for types in signatures if isinstance(signatures, list) else ():
            key = json.dumps(types)
            if key not in self._stubs and len(self._stubs) < MAX_STUBS:
                self._stubs.add(key)
                self.engine.forkserver.ask({"stub": types}, START_S)

    def _cases(self, task: str) -> dict[str, dict[str, Any]]:
        """Return the inputs of the `check` and `timing` cases of a task, by case."""
        if task not in self._shapes:
            try:
                self._ask_for_shapes(task)
            except InfrastructureError:  # if the judge has died, there is another one
                self.engine.revive()
                self._ask_for_shapes(task)
        return self._shapes[task]

    def _ask_for_shapes(self, task: str) -> None:
        with self.engine.gpu:
            self._shapes[task] = self.engine.judge.ask({"do": "shapes", "task": task}, START_S)

    def _calls(self, task: str, checked: Sequence[str]) -> list[Any]:
        cases = self._cases(task)
        timed = list(cases["timing"].values())[: self.engine.limits.timing_cases or None]
        return [*(cases["check"][case_id] for case_id in checked), *timed]

    def give(self, child: Child, built: Built, folder: str) -> str:
        """Put what a builder left in the child's own folder, and return the name there; "" if there is nothing."""
        if built.folder is None:
            return ""
        # Before it lies where the child can put links in its way.
        hand_over(built.folder, child.workdir.stat().st_uid)
        built.folder.rename(child.workdir / folder)
        return folder

    def forget_stubs(self) -> None:
        """Note that the fork server has been started anew."""
        self._stubs.clear()
