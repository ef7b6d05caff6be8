"""GPU MODE problems: a folder with `task.yml` and `reference.py`; a submission defines `custom_kernel(data)`.

`tests` are the checking cases and `benchmarks` the timing cases; `generate_input` gets the judge's private seed in
place of the written one. The tensors in what it returns are the task's data, and a wrapper builds the nesting again for
the submission. What `ref_kernel` writes to is a pre-allocated output. If the problem has a `check_implementation`, that
decides, in the judge. Otherwise expected values are `ref_kernel` on float64 inputs where that gives float64, else its
own output, and the tolerance is `rtol` and `atol` of task.yml, else the one for the dtype.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from tasks.adapters import TOLERANCES, packing

LISTS = {"tests": "check", "benchmarks": "timing"}
NOT_LOADED = ("submission", "eval")
NOTES = "Read from a GPU MODE problem. {rule} Inputs are drawn anew for every call."

_WRAPPER = """

{unpack}

{signature}

if not callable(globals().get("custom_kernel")):
    raise NameError("a GPU MODE submission defines a function custom_kernel(data); this file does not")
_kernelcast_forms = {forms!r}
_kernelcast_submission = custom_kernel


def custom_kernel(data):
    result = _kernelcast_submission(unpack(_kernelcast_forms[signature(data)], iter(data)))
    if type(result) in (tuple, list):
        return tuple(part.contiguous() for part in result)
    return result.contiguous()
"""


def look(path: Path) -> None:
    """Raise ValueError if the folder does not hold what a problem holds."""
    if not path.is_dir():
        raise ValueError(f"{path}: no such folder; a GPU MODE problem is a folder with task.yml and reference.py")
    for name in ("task.yml", "reference.py"):
        if not (path / name).is_file():
            raise ValueError(f"{path}: a GPU MODE problem has {name}, which is missing")
    settings(path)


def source(path: Path) -> str:
    """Return the text of the reference."""
    return (path / "reference.py").read_text(encoding="utf-8")


def settings(path: Path) -> dict[str, Any]:
    """Return task.yml. Raises ValueError with its path for what is wrong in it, or if PyYAML is not installed."""
    try:
        import yaml
    except ModuleNotFoundError:
        raise ValueError(f"{path / 'task.yml'}: reading it needs the package pyyaml; pip install pyyaml") from None
    place = path / "task.yml"
    try:
        found = yaml.safe_load(place.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise ValueError(f"{place}: not YAML: {' '.join(str(error).split())}") from None
    for name in LISTS:
        cases = found.get(name) if isinstance(found, dict) else None
        if not isinstance(cases, list) or not cases or not all(isinstance(case, dict) for case in cases):
            raise ValueError(f"{place}: expected a list of cases under '{name}'")
    return dict(found)


def describe(path: Path) -> dict[str, Any]:
    """Return the description of the problem; runs every case once, on the GPU where there is one."""
    import torch

    written, problem = settings(path), _load(path)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    cases: list[dict[str, Any]] = []
    forms: dict[str, Any] = {}
    ways: list[dict[str, Any]] = []
    for name, use in LISTS.items():
        for params in written[name]:
            found = _run(path, problem, params, device)
            if forms.setdefault(found["signature"], found["form"]) != found["form"]:
                raise ValueError(f"{path}: two cases have inputs of equal shapes but different plain values: {params}")
            case_id = ",".join(f"{key}={value}" for key, value in params.items() if key != "seed") or "case"
            taken = sum(case["use"] == use and case["case_id"].partition("#")[0] == case_id for case in cases)
            cases.append({
                "case_id": f"{case_id}#{taken + 1}" if taken else case_id, "use": use, "params": params,
                "bytes": found["bytes"], "flops": found["flops"],
            })  # fmt: skip
            ways.append({key: found[key] for key in ("writes", "dtypes", "several", "double")})
    for key in ("writes", "dtypes", "several"):
        if any(way[key] != ways[0][key] for way in ways):
            raise ValueError(f"{path}: the cases differ in which tensors the reference writes or returns")
    own = hasattr(problem, "check_implementation")
    limits = [TOLERANCES.get(dtype, 0.0) for dtype in ways[0]["dtypes"]]
    bounds = [{key: float(written.get(key, limit)) for key in ("rtol", "atol")} for limit in limits]
    double = all(way["double"] for way in ways)
    rule = "The problem's check_implementation decides."
    if not own:
        oracle = "the reference in float64" if double else "the reference"
        rule = f"Expected values come from {oracle}; the error may be rtol |expected| + atol RMS(expected): {bounds}."
    return {
        "source": "gpu_mode", "family": "block", "statement": str(written.get("description") or path.name).strip(),
        "cases": cases, "forms": forms, "tolerances": [] if own else bounds, "notes": NOTES.format(rule=rule),
        "writes": ways[0]["writes"], "several": ways[0]["several"], "double": double, "check": own,
    }  # fmt: skip


def wrapper(path: Path, facts: Mapping[str, Any]) -> str:
    """Return the source that hands a submission its nested data."""
    return _WRAPPER.format(
        unpack=packing.plain_source(packing.unpack),
        signature=packing.plain_source(packing.signature),
        forms=facts["forms"],
    )  # fmt: skip


def functions(path: Path, facts: Mapping[str, Any]) -> dict[str, Callable[..., Any]]:
    """Return the functions of the task's implementation."""
    problem, forms = _load(path), facts["forms"]

    def make_inputs(generator: Any, device: Any, **params: Any) -> tuple[Any, ...]:
        return _generate(path, problem, params, packing.draw_seed(generator), str(device))[1]

    def nested(data: Sequence[Any]) -> Any:
        return packing.unpack(forms[packing.signature(data)], iter(data))

    def reference(data: Sequence[Any]) -> tuple[Any, ...]:
        return packing.outputs_of(problem.ref_kernel(nested(data)), f"{path}: ref_kernel")

    def oracle(data: Sequence[Any]) -> tuple[Any, ...]:
        copies = [v.double() if facts["double"] and v.is_floating_point() else v.clone() for v in data]
        form = forms[packing.signature(data)]
        result = problem.ref_kernel(packing.unpack(form, iter(copies)))
        return tuple(output.double() for output in packing.outputs_of(result, "ref_kernel"))

    def check(data: Sequence[Any], outputs: Sequence[Any]) -> str | None:
        copies = nested([value.clone() for value in data])
        return _verdict(problem.check_implementation(copies, tuple(outputs) if facts["several"] else outputs[0]))

    found: dict[str, Callable[..., Any]] = {"make_inputs": make_inputs, "reference": reference, "oracle": oracle}
    return {**found, "check": check} if facts["check"] else found


def _verdict(answer: Any) -> str | None:
    """What check_implementation found: it answers (good, message), a message or list that is empty if all is well,
    or a bool."""
    if isinstance(answer, tuple) and len(answer) == 2:
        return None if answer[0] else str(answer[1]) or "check_implementation refuses it"
    if isinstance(answer, bool):
        return None if answer else "check_implementation refuses it"
    return " ".join(map(str, answer)) if isinstance(answer, list) and answer else str(answer or "") or None


def _run(path: Path, problem: ModuleType, params: Mapping[str, Any], device: str) -> dict[str, Any]:
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    form, data = _generate(path, problem, params, 0, device)
    used = [value.clone() for value in data]
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        result = problem.ref_kernel(packing.unpack(form, iter(used)))
    outputs = packing.outputs_of(result, f"{path}: ref_kernel")
    given = {value.untyped_storage().data_ptr(): place for place, value in enumerate(used)}
    writes = {given[o.untyped_storage().data_ptr()] for o in outputs if o.untyped_storage().data_ptr() in given}
    writes |= {place for place, (a, b) in enumerate(zip(data, used, strict=True)) if not _same(a, b)}
    # An input that is updated in place is no output: what was in it matters.
    poisoned = [torch.zeros_like(v) if place in writes else v.clone() for place, v in enumerate(data)]
    with torch.no_grad():
        again = packing.outputs_of(problem.ref_kernel(packing.unpack(form, iter(poisoned))), "ref_kernel")
    if not all(map(_same, outputs, again)):
        raise ValueError(f"{path}: ref_kernel gives another result the second time, or updates an input in place")
    read = [value for place, value in enumerate(data) if place not in writes]
    return {
        "form": form, "signature": packing.signature(data), "bytes": packing.nbytes([*read, *outputs]),
        "flops": max(counter.get_total_flops(), sum(output.numel() for output in outputs)), "writes": sorted(writes),
        "dtypes": [str(output.dtype).removeprefix("torch.") for output in outputs],
        "several": not isinstance(result, torch.Tensor), "double": _runs_wide(problem, form, data, outputs),
    }  # fmt: skip


def _runs_wide(problem: ModuleType, form: Any, data: Sequence[Any], outputs: Sequence[Any]) -> bool:
    import torch

    wide = [value.double() if value.is_floating_point() else value.clone() for value in data]
    try:
        with torch.no_grad():
            found = packing.outputs_of(problem.ref_kernel(packing.unpack(form, iter(wide))), "ref_kernel")
    except RuntimeError:  # a dtype that the reference fixes does not go with float64
        return False
    return all(a.dtype == torch.float64 for a, b in zip(found, outputs, strict=True) if b.is_floating_point())


def _same(a: Any, b: Any) -> bool:
    import torch

    return torch.equal(a.contiguous().reshape(-1).view(torch.uint8), b.contiguous().reshape(-1).view(torch.uint8))


def _generate(path: Path, problem: ModuleType, params: Mapping[str, Any], seed: int, device: str) -> tuple[Any, Any]:
    """Return the form and the tensors of the inputs that the problem generates for a seed."""
    given = {**params, "seed": seed} if "seed" in inspect.signature(problem.generate_input).parameters else params
    tensors: list[Any] = []
    try:
        with packing.seeded(seed, device):
            raw = problem.generate_input(**given)
    except (RuntimeError, AssertionError) as error:
        if device == "cpu" and re.search("cuda", str(error), re.IGNORECASE):
            raise ValueError(f"{path}: generate_input needs a CUDA device, which is not used here") from None
        raise
    form = packing.pack(raw, f"{path}: generate_input()", tensors)
    return form, tuple(tensor.to(device) for tensor in tensors)


def _load(path: Path) -> ModuleType:
    """Import reference.py with the problem's other files importable under the names that task.yml gives them."""
    with _importable(path):
        spec = spec_from_file_location("kernelcast_gpu_mode_reference", path / "reference.py")
        assert spec is not None and spec.loader is not None
        problem = module_from_spec(spec)
        try:
            spec.loader.exec_module(problem)
        except Exception as error:
            raise ValueError(f"{path / 'reference.py'}: {type(error).__name__}: {error}") from None
    missing = [name for name in ("generate_input", "ref_kernel") if not hasattr(problem, name)]
    if missing:
        raise ValueError(
            f"{path / 'reference.py'}: expected generate_input and ref_kernel; missing: {', '.join(missing)}"
        )
    return problem


@contextmanager
def _importable(path: Path) -> Iterator[None]:
    files = {"task": path / "task.py", "utils": path / "utils.py"}
    for entry in settings(path).get("files", ()):
        name = Path(str(entry["name"]))
        if name.suffix == ".py" and not str(entry["source"]).startswith("@"):
            files[name.stem] = path / str(entry["source"])
    files = {name: file for name, file in files.items() if name not in (*NOT_LOADED, "reference") and file.is_file()}
    before = {name: sys.modules.pop(name, None) for name in files}
    finder = _Finder(files)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name, module in before.items():
            sys.modules.pop(name, None)
            if module is not None:
                sys.modules[name] = module


class _Finder:
    """Finds the files of one problem by their names there."""

    def __init__(self, files: Mapping[str, Path]) -> None:
        self.files = files

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Return the spec of a problem's file, None for any other module."""
        return spec_from_file_location(name, self.files[name]) if name in self.files else None
