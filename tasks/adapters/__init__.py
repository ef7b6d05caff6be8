"""Problems in the formats of other benchmarks, read from disk as tasks: `kernelbench:FILE.py` and `gpu_mode:FOLDER`.

The problem is the user's own file and is trusted: it runs in a helper process that describes it, and in the judge. A
candidate is not: it runs where every kernel runs. Its source gets a wrapper that turns the flat tuple of tensors, which
the harness hands over, into what the format's candidates expect.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from tasks.spec import Case, Task, Tolerance

FORMATS = {"kernelbench": "tasks.adapters.kernelbench", "gpu_mode": "tasks.adapters.gpu_mode"}
DESCRIBE_S = 300.0
# A case runs in the interpreter, or on the CPU at all, if it is at most this big.
CPU_BYTES = 64 << 20
CPU_FLOPS = 1 << 31
# |error| <= rtol |expected| + atol RMS(expected), by the dtype of the output; anything else has to be equal.
TOLERANCES = {"float64": 1e-7, "float32": 1e-4, "bfloat16": 1e-2, "float16": 1e-2}


def is_outside(name: str) -> bool:
    """Whether a task name says `format:path`."""
    return ":" in name


def canonical(name: str) -> str:
    """Return the name with an absolute path, which means the same everywhere. Raises ValueError: no such format."""
    kind, _, path = name.partition(":")
    if kind not in FORMATS:
        raise ValueError(f"unknown problem format '{kind}' in task '{name}'; known formats: {', '.join(FORMATS)}")
    return f"{kind}:{Path(path).resolve()}"


def split(name: str) -> tuple[ModuleType, Path]:
    """Return the adapter's module and the path of a problem."""
    kind, _, path = canonical(name).partition(":")
    return import_module(FORMATS[kind]), Path(path)


def task(name: str) -> Task:
    """Return the problem as a Task. Raises ValueError with one line that says what the problem lacks."""
    return _task(canonical(name))


@cache
def _task(name: str) -> Task:
    facts = description(name)
    return Task(
        name=name,
        source=facts["source"],
        family=facts["family"],
        statement=facts["statement"],
        check_cases=tuple(_case(row) for row in facts["cases"] if row["use"] == "check"),
        timing_cases=tuple(_case(row) for row in facts["cases"] if row["use"] == "timing"),
        tolerances=lambda params: tuple(Tolerance(**row) for row in facts["tolerances"]),
        seeds={},
        writes=tuple(facts["writes"]),
        notes=facts["notes"],
        twins=False,
    )


def _case(row: Mapping[str, Any]) -> Case:
    small = row["bytes"] <= CPU_BYTES and row["flops"] <= CPU_FLOPS
    return Case(row["case_id"], row["params"], row["bytes"], row["flops"], cpu=small)


@cache
def description(name: str) -> dict[str, Any]:
    """Return what a helper process finds when it loads and runs the problem: cases, forms, tolerances, writes."""
    adapter, path = split(name)
    adapter.look(path)
    found = _ask(name, path)
    if "error" in found:
        raise ValueError(found["error"])
    return found


def _ask(name: str, path: Path) -> dict[str, Any]:
    folders = [str(Path(__file__).resolve().parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])]
    line = [sys.executable, "-m", "tasks.adapters.describe", name]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}
    try:
        done = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=DESCRIBE_S, check=False)
    except subprocess.TimeoutExpired:
        raise ValueError(f"{path}: running the problem once took more than {DESCRIBE_S:g} s") from None
    if done.returncode:
        raise ValueError(f"{path}: the process that runs it ended: {' '.join(done.stderr.split())[-300:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@cache
def implementation(name: str) -> ModuleType:
    """Return a module with `make_inputs`, `reference`, `oracle` and, where the problem has its own, `check`."""
    adapter, path = split(name)
    module = ModuleType(name)
    module.__dict__.update(adapter.functions(path, description(canonical(name))))
    return module


def reference_code(name: str) -> str:
    """Return the source of the problem's reference."""
    adapter, path = split(name)
    return str(adapter.source(path))


def candidate_source(name: str, code: str) -> str:
    """Return a candidate's source with the wrapper that defines `custom_kernel(data)` on the harness's data."""
    adapter, path = split(name)
    return f"{code}\n\n{adapter.wrapper(path, description(canonical(name)))}"
