"""The benchmark of the engine itself: throughput, repeatability, agreement of levels and methods, and the exploits.

`python -m harness.measure.bench --out FILE` is `kernelcast bench measure` on a machine with only PyTorch. Every
measurement goes to a log first; a run that was cut off continues from it, and the figures come from the whole log.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tasks
from benchmark.identity import kernel_id
from harness.destination import check_destination
from harness.measure import Measurement, bench_analysis, environment, open_backend
from harness.search.events import EventLog

TASKS = Path(__file__).parent / "bench_tasks"
CASES = Path(__file__).resolve().parents[2] / "tests" / "harness" / "measure" / "cases"
SECTIONS = ("throughput", "twice", "shared", "repeat", "methods", "exploits")
# One checking case is two checks, on inputs and a near twin, before the timing and two after it; each of the three
# timing cases adds two or more, of calls that were timed: ten checks or more of every kernel.
FAST = {"check_cases": 1, "precision": 0.01}
METHOD_KERNELS = (
    ("plain_copy", "triton_copy"), ("rms_norm", "triton_row"), ("rms_norm", "torch_eager"),
    ("softmax", "triton_row"), ("cross_entropy", "triton_online"), ("layer_norm_backward", "triton_strip"),
)  # fmt: skip
COMMAND = "kernelcast bench measure"
BACKENDS = ("cuda", "cpu")
PAIRS = 2000
MAX_AUDITS = 2000


@dataclass(frozen=True)
class Phase:
    """Kernels that one backend measures: (name, task, code); `repeats` of each; `options` are those of the backend."""

    name: str
    kernels: tuple[tuple[str, str, str], ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    repeats: int = 1


def kernels(count: int, task: str, seed: int) -> list[str]:
    """Return distinct sources that the mutator makes from the task's seed kernels, the same for the same seed."""
    from harness.search.mutate import SourceMutator

    rng, mutator = random.Random(seed), SourceMutator()
    splits = tasks.get(task).seeds.values()
    pool = [tasks.seed_code(task, name) for names in splits for name in names if name.startswith("triton")]
    found = {kernel_id(task, code): code for code in pool}
    while len(found) < count:
        for proposal in mutator.propose(rng.choice(pool), rng, 4):
            found.setdefault(kernel_id(task, proposal.code), proposal.code)
    return list(found.values())[:count]


def plan(count: int, sections: Sequence[str], seed: int = 0) -> list[Phase]:
    """Return the phases of the sections that were asked for."""
    many = tuple((f"k{i}", "rms_norm", code) for i, code in enumerate(kernels(count, "rms_norm", seed)))
    one = (("rms_norm/triton_row", "rms_norm", tasks.seed_code("rms_norm", "triton_row")),)
    compared = tuple((f"{task}/{name}", task, tasks.seed_code(task, name)) for task, name in METHOD_KERNELS)
    phases = {
        "throughput": [Phase("strict-1", many, FAST)],
        "shared": [Phase("shared-1", many, {**FAST, "isolation": "shared"})],
        "twice": [Phase("strict-2", many, FAST)],
        "repeat": [Phase("repeat", one, repeats=20)],
        "methods": [Phase(f"method-{m}", compared, {"method": m}) for m in ("graph", "event", "cupti")],
        "exploits": [Phase("exploits", tuple(_cases()))],
    }
    return [phase for section in sections for phase in phases[section]]


def _cases() -> Iterator[tuple[str, str, str]]:
    for path in sorted(CASES.glob("*/*.py")):
        yield f"{path.parent.name}/{path.stem}", "rms_norm", path.read_text()


def run(phase: Phase, log: EventLog, events: list[Any], backend: str, workers: int, deadline: float) -> bool:
    """Measure what the log does not hold yet; returns whether the phase is complete."""
    done = [e["name"] for e in events if e["kind"] == "measured" and e["phase"] == phase.name]
    todo = [k for k in phase.kernels for _ in range(phase.repeats - done.count(k[0]))]
    if not todo or time.monotonic() > deadline:
        return not todo
    with open_backend(backend, workers=workers, **phase.options) as engine:
        for row in engine.session_rows():
            events.append(log.append("session_started", {"session": row}))
        started, count = time.monotonic(), 0
        waiting = {engine.submit(task, code): name for name, task, code in todo}
        while waiting and time.monotonic() < deadline:
            ready, _ = wait(waiting, timeout=1.0, return_when=FIRST_COMPLETED)
            for future in ready:
                count += 1
                row = {"phase": phase.name, "name": waiting.pop(future), "measurement": future.result().to_json()}
                events.append(log.append("measured", row))
            _show(phase.name, count, len(todo), time.monotonic() - started)
        spent = {
            "phase": phase.name, "seconds": time.monotonic() - started, "kernels": count, "judge_s": engine.judge_s,
            "child_s": engine.children.asked_s,
            "device": engine.described["device"], "audits": engine.audits[:MAX_AUDITS], "lanes": engine.lane_counts,
            "anomalies": engine.lane_anomalies,
        }  # fmt: skip
        events.append(log.append("stretch", spent))
        if waiting:
            engine.abort()
    return not waiting


def _show(phase: str, done: int, todo: int, seconds: float) -> None:
    rate = done / seconds if seconds else 0.0
    left = f"{(todo - done) / rate:.0f} s left" if rate else "starting"
    end = "\r" if sys.stderr.isatty() and done < todo else "\n"
    if sys.stderr.isatty() or done == todo or int(seconds) % 10 == 0:
        print(f"{phase}: {done}/{todo} kernels, {rate:.2f}/s, {left}   ", file=sys.stderr, end=end)


def figures(events: Sequence[Mapping[str, Any]], seed: int = 0) -> dict[str, Any]:
    """Return the figures of every phase that the log holds."""
    found: dict[str, list[tuple[str, Measurement]]] = {}
    for event in events:
        if event["kind"] == "measured":
            row = event["name"], Measurement.from_json(event["measurement"])
            found.setdefault(event["phase"], []).append(row)
    stretches = [event for event in events if event["kind"] == "stretch"]
    by_name = {phase: dict(rows) for phase, rows in found.items()}
    result: dict[str, Any] = {}
    for phase in ("strict-1", "strict-2", "shared-1"):
        mine = [s for s in stretches if s["phase"] == phase]
        if mine:
            rows = [m for _, m in found.get(phase, [])]
            spent = {who: Counter[str]() for who in ("judge_s", "child_s")}
            for stretch in mine:
                for who, counter in spent.items():
                    counter.update(stretch[who])
            result[phase] = bench_analysis.throughput(rows, sum(s["seconds"] for s in mine), spent)
            result[phase]["isolation_of_rows"] = {
                level: sum(m.isolation == level for m in rows) for level in ("strict", "shared")
            }
    if {"strict-1", "shared-1"} <= by_name.keys():
        shared = {k: m for k, m in by_name["shared-1"].items() if m.isolation == "shared"}
        result["agreement"] = bench_analysis.agreement(by_name["strict-1"], shared)
    if {"strict-1", "strict-2"} <= by_name.keys():
        result["twice"] = bench_analysis.twice(by_name["strict-1"], by_name["strict-2"], PAIRS, seed)
    if "repeat" in found:
        result["repeatability"] = bench_analysis.repeatability([m for _, m in found["repeat"]])
    by_method = {p.removeprefix("method-"): rows for p, rows in by_name.items() if p.startswith("method-")}
    if by_method:
        # The first case of the copy has one element: what is left of its time is what the method adds.
        empty = {
            method: bench_analysis.first_median_ns(rows["plain_copy/triton_copy"])
            for method, rows in by_method.items()
            if "plain_copy/triton_copy" in rows and rows["plain_copy/triton_copy"].cases
        }
        result["empty_kernel_us"] = {method: ns / 1e3 for method, ns in empty.items()}
        result["methods"] = bench_analysis.methods(by_method, empty)
        devices = [s["device"] for s in stretches if s["device"]]
        copies = by_method.get("graph", {}).get("plain_copy/triton_copy")
        if devices and copies is not None and copies.cases:
            result["cold_reads"] = bench_analysis.cold_reads(copies, devices[0]["peak_bytes_per_s"])
    if "exploits" in found:
        result["exploits"] = [
            {"case": name, "status": m.status, "error": m.error.splitlines()[0][:120] if m.error else "",
             "speedup": math.exp(bench_analysis.log_speedup(m)) if m.cases else None}
            for name, m in sorted(found["exploits"])
        ]  # fmt: skip
    return result


def _require_own(out: Path) -> None:
    """Raise ValueError if the result cannot be written there, or would replace what is no result of a bench."""
    check_destination(out)
    if not out.exists():
        return
    try:
        found = json.loads(out.read_text(encoding="utf-8"))
    except ValueError:
        found = None
    if not isinstance(found, dict) or not str(found.get("command")).startswith(COMMAND):
        raise ValueError(f"'{out}' exists and is no result of {COMMAND}; give another --out")


@contextmanager
def _bench_tasks() -> Iterator[None]:
    """Make the tasks of this benchmark known, here and in the processes that are started meanwhile."""
    before = os.environ.get(tasks.FOLDERS_VARIABLE)
    os.environ[tasks.FOLDERS_VARIABLE] = os.pathsep.join(filter(None, [before, str(TASKS)]))
    tasks.__path__.append(str(TASKS))
    try:
        yield
    finally:
        tasks.__path__.remove(str(TASKS))
        del os.environ[tasks.FOLDERS_VARIABLE]
        if before is not None:
            os.environ[tasks.FOLDERS_VARIABLE] = before


def measure(
    out: Path,
    count: int = 500,
    sections: Sequence[str] = SECTIONS,
    backend: str = "cuda",
    workers: int | None = None,
    time_limit: float = 3600.0,
) -> dict[str, Any]:
    """Measure, write the result to `out` and the log beside it, and return the result; `complete` says if all is done.

    Raises ValueError for unknown sections or backends, numbers that make no sense, and an `out` that holds something
    else or was made in another way.
    """
    if unknown := [s for s in sections if s not in SECTIONS]:
        raise ValueError(f"unknown section '{unknown[0]}'; expected some of {', '.join(SECTIONS)}")
    if count < 1 or time_limit <= 0:
        raise ValueError(f"{count} kernels in {time_limit:g} s: both must be positive")
    if not sections:
        raise ValueError(f"no section; expected some of {', '.join(SECTIONS)}")
    if backend not in BACKENDS:
        raise ValueError(f"unknown backend '{backend}'; expected one of {', '.join(BACKENDS)}")
    if workers is not None and workers < 1:
        raise ValueError(f"workers is {workers}, expected at least 1")
    _require_own(out)
    deadline, complete = time.monotonic() + time_limit, True
    workers = workers or max(1, (os.cpu_count() or 2) - 2)
    with _bench_tasks(), EventLog(out.with_suffix(".log.jsonl")) as log:
        events = list(log.events)
        made = {"backend": backend, "kernels": count}
        if not events:
            events.append(log.append("bench_started", made))
        elif events[0]["kind"] != "bench_started" or any(events[0][name] != value for name, value in made.items()):
            raise ValueError(f"{log.path} is not of {count} kernels on backend {backend}; give another --out")
        for phase in plan(count, sections):
            complete &= run(phase, log, events, backend, workers, deadline)
    session = next((e["session"] for e in events if e["kind"] == "session_started"), {})
    command = f"{COMMAND} --out {out.name} --kernels {count} --sections {','.join(sections)}"
    result = {
        "command": command, "date": environment.now(), "complete": complete, "session": session, **figures(events)
    }  # fmt: skip
    out.write_text(json.dumps(result, indent=1, allow_nan=False) + "\n")
    return result


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m harness.measure.bench", description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="the result, JSON; the log lies beside it")
    parser.add_argument("--kernels", type=int, default=500)
    parser.add_argument("--sections", default=",".join(SECTIONS), help=f"of {', '.join(SECTIONS)}")
    parser.add_argument("--backend", default="cuda")
    parser.add_argument("--workers", type=int)
    parser.add_argument("--time-limit", type=float, default=3600.0, help="seconds; run again to continue")
    o = parser.parse_args()
    try:
        result = measure(o.out, o.kernels, o.sections.split(","), o.backend, o.workers, o.time_limit)
    except (OSError, ValueError) as error:
        print(f"kernelcast: {error}", file=sys.stderr)
        return 2
    print(json.dumps(result, indent=1, allow_nan=False))
    return 0 if result["complete"] else 1


if __name__ == "__main__":
    sys.exit(main())
