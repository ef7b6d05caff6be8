"""What an audit costs beside the calls that it watches: copies of inputs and outputs, as this process makes them."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Sequence

import torch

from harness.measure.stages import Stage

ROUNDS = 3
ENOUGH = 8  # kernels for which the copies of a case are measured
# No copy on a quiet device is slower than this share of the memory's peak rate, and a while for its launch.
SLOWEST, LAUNCH_NS = 0.6, 25_000.0


class CopyCosts:
    """Measures copies, and believes the least that it saw of a case: a child that is alive can slow them."""

    def __init__(self, device: str, synchronize: Callable[[], None], peak_bytes_per_s: float) -> None:
        self.synchronize, self.peak = synchronize, peak_bytes_per_s
        self.tiny = torch.zeros(1, device=device)
        self.least: dict[tuple[str, ...], float] = {}
        self.measured: Counter[tuple[str, str]] = Counter()

    def of_calls(self, stage: Stage) -> float:
        """Return nanoseconds per call of what an audit adds to it: inputs copied in, outputs out, and a launch.

        The inputs of the stage are overwritten, and the output space stays as it is.
        """
        copies = []
        for index, (pool, out) in enumerate(zip(stage.pool, stage.out, strict=True)):
            slots = stage.slots[index % len(stage.slots)]
            rows = [*zip(slots, pool, strict=True), *zip(stage.out[index - 1], out, strict=True)]
            copies.append([(stage.region.tensor(to), stage.region.tensor(source)) for to, source in rows])
        rounds = []
        for _ in range(ROUNDS):
            self.synchronize()
            started = time.monotonic()
            for call in copies:
                self.tiny.zero_()
                for target, source in call:
                    target.copy_(source)
            self.synchronize()
            rounds.append((time.monotonic() - started) * 1e9 / len(copies))
        return min(rounds)

    def of_a_look(self, stage: Stage) -> float:
        """Return nanoseconds of copying the outputs of one call."""
        rounds = []
        for _ in range(ROUNDS):
            started = time.monotonic()
            self.look(stage.region.tensors(stage.out[0]))
            rounds.append((time.monotonic() - started) * 1e9)
        return min(rounds)

    def look(self, tensors: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        """Return copies, once they are complete."""
        found = tuple(tensor.clone() for tensor in tensors)
        self.synchronize()
        return found

    def believed(self, stage: Stage, case_id: str) -> dict[str, float]:
        """Return `overhead_ns` (of_calls) and `look_ns` (of_a_look) of a case that is open."""
        inputs, outputs, case = stage.pool[0], stage.out[0], (stage.task.name, case_id)
        if self.measured[case] < ENOUGH:
            self.measured[case] += 1
            nbytes = sum(s.nbytes for s in (*inputs, *outputs))
            self._believe(("calls", *case), self.of_calls(stage), nbytes, len(inputs) + len(outputs) + 1)
            nbytes = sum(s.nbytes for s in outputs)
            self._believe(("look", *case), self.of_a_look(stage), nbytes, len(outputs) + 1)
        return {"overhead_ns": self.least["calls", *case], "look_ns": self.least["look", *case]}

    def _believe(self, key: tuple[str, ...], measured: float, nbytes: int, launches: int) -> float:
        most = 2e9 * nbytes / (SLOWEST * self.peak) + LAUNCH_NS * launches
        self.least[key] = min(self.least.get(key, math.inf), measured, most)
        return self.least[key]
