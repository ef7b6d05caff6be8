"""Event logs of the size of a full release: 31 tasks, some 15,000 kernels, test kernels measured a second time.

`python -m tests.benchmark.release_scale FOLDER [--kernels N]` writes them. Sources are the seeds of the tasks with
edited constants and statements, so that their lengths and their likeness are those of real kernels.
"""

from __future__ import annotations

import argparse
import re
from hashlib import sha256
from pathlib import Path

import numpy as np

from tests.factory import Recipe, SearchWriter

TASKS = Path(__file__).resolve().parents[2] / "tasks"
SPLITS = (("train", 0), ("train", 1), ("validation", 0), ("test", 0), ("test", 1), ("test", 2))
UNSEEN = 5  # tasks of test_unseen_task
SAMPLES_LIKE_REAL = 10  # of each process, case and side
OPERATORS = (
    ("scale_block", "constants"), ("cache_hint", "memory"), ("split_loop", "loop"), ("toggle_cast", "precision"),
    ("fuse", "fusion"), ("two_pass", "algorithm"), ("mix", "recombination"), ("output_fill", "host"),
)  # fmt: skip


class ScaleWriter(SearchWriter):
    """A search over one seed file, whose kernels have times that follow from a random walk along their lineage."""

    level: dict[str, float]

    def begin(self, seed_id: str, code: str, budget: int) -> str:
        """Write the head of the log and the seed, and return its node."""
        self.start([seed_id], budget)
        self.level = {}
        node = self.propose(Recipe("chunked"), None, 0, code=code)
        self.events[-1]["seed_id"] = seed_id
        self.level[node] = 0.0
        self.measure(node, status="ok")
        return node

    def expand(self, seed_code: str, children: int) -> None:
        """Propose and measure children of random parents, each beside its parent."""
        step = number = 0
        alive = list(self.level)
        while number < children:
            step += 1
            parent = alive[int(self.rng.integers(len(alive)))]
            self.add("step_started", step=step, parents=[parent])
            self.measure(parent, role="anchor", status="ok")
            for _ in range(min(8, children - number)):
                operator, klass = OPERATORS[int(self.rng.integers(len(OPERATORS)))]
                code = edited(self.recipes[parent][1], self.rng, f"{self.search_id}/{number}")
                node = self.propose(Recipe("chunked"), parent, step, operator, klass, code=code)
                self.level[node] = self.level[parent] + float(self.rng.normal(-0.1, 0.6))
                status = str(self.rng.choice(["ok", "compile", "incorrect"], p=[0.85, 0.07, 0.08]))
                self.measure(node, status=status)
                if status == "ok":
                    alive.append(node)
                number += 1
            self.add("step_completed", step=step)
        self.add("search_completed", reason="budget")
        self.alive = alive

    def measure(self, node: str, role: str = "candidate", status: str | None = None) -> None:
        """Measure a node; the cubin differs for every node."""
        self.now = self.level[node]
        super().measure(node, role, status)
        self.events[-1]["measurement"]["facts"] = {
            "registers": 32,
            "spills": 0,
            "cubin_hash": sha256(node.encode()).hexdigest()[:16],
        }

    def _cases(self, recipe: Recipe) -> list[dict[str, object]]:
        cases: list[dict[str, object]] = []
        for case_id, reference in (("small", 40e3), ("medium", 90e3), ("large", 160e3)):
            case: dict[str, object] = {"case_id": case_id, "method": "graph", "dropped": 0}
            for place, side in enumerate(("candidate", "reference")):
                level = reference / 2**self.now if side == "candidate" else reference
                noise = self.rng.normal(0, 0.004) + self.rng.normal(0, 0.01, SAMPLES_LIKE_REAL)
                ticks = np.round(level * np.exp(noise) / 32) * 32  # the clock of the device ticks every 32 ns
                case[f"{side}_ns"] = (np.float32(ticks / 1e6) * np.float64(1e6)).tolist()
                case[f"{side}_order"] = (2 * np.arange(SAMPLES_LIKE_REAL) + place).tolist()
            cases.append(case)
        return cases

    def again(self) -> None:
        """Measure every kernel that is alive at another machine start."""
        self.session_id, self.processes = f"{self.session_id}-again", 0
        self.add("session_started", session=self._session("second"))
        for node in self.alive:
            self.measure(node, status="ok")


def edited(code: str, rng: np.random.Generator, name: str) -> str:
    """Return a source with one constant changed, at times with one more statement, and with a name of its own."""
    numbers = list(re.finditer(r"(?<![\w.])\d+(?![\w.])", code))
    if numbers:
        at = numbers[int(rng.integers(len(numbers)))]
        code = f"{code[: at.start()]}{int(rng.integers(1, 4096))}{code[at.end() :]}"
    lines = code.split("\n")
    if rng.random() < 0.4:
        returns = [i for i, line in enumerate(lines) if line.startswith("    return ")]
        if returns:
            statement = rng.choice(["offset = 0", "size = len(data)", "data = tuple(data)", "assert data", "pass"])
            lines.insert(returns[-1], f"    {statement}")
    return "\n".join(lines) + f"\n_ID = {name!r}\n"


def write_logs(root: Path, kernels: int) -> Path:
    """Write the logs below `root` and return it."""
    names = sorted(path.parent.name for path in TASKS.glob("*/task.py"))[:31]
    searches = len(names) * len(SPLITS)
    for t, task in enumerate(names):
        seeds = sorted((TASKS / task / "seeds").glob("*.py"))
        for i, (split, number) in enumerate(SPLITS):
            unseen = t < UNSEEN
            writer = ScaleWriter(task, "test_unseen_task" if unseen else split, i if unseen else number, 0)
            seed = seeds[i % len(seeds)]
            shift = f"{seed.stem}-{'unseen' if unseen else split}"
            marker = f"\n_{'unseen' if unseen else split} = {SPLITS.index((split, number))}\n"
            code = seed.read_text(encoding="utf-8") + marker
            writer.begin(shift, code, kernels // searches)
            writer.expand(code, kernels // searches)
            if writer.split.startswith("test"):
                writer.again()
            writer.save(root)
    return root


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kernels", type=int, default=15_000)
    asked = parser.parse_args()
    write_logs(asked.folder, asked.kernels)
