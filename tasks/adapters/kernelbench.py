"""KernelBench problems: a file with `Model`, `get_inputs` and `get_init_inputs`; a candidate defines `ModelNew`.

The data of the task are the tensors of `get_inputs()` and the model's parameters and buffers, all drawn by the judge
from its private seed: `Model` is constructed anew for every draw, and a parameter that comes out constant (a zero bias,
a unit scale) is moved by noise, so that a candidate cannot leave it out. Statistics that normalisation layers keep are
no data, as training mode overwrites and does not read them. `ModelNew` is constructed once with the same init inputs,
and on every call the weights are assigned to it without a copy: by name, or in order where the names differ and the
shapes agree. So what `ModelNew` derives from its weights in `__init__` is stale and fails.

As in KernelBench, models stay in training mode. Expected values are `Model.double()` on double inputs where it runs,
else the model's own output. TF32 is off on both sides.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tasks.adapters import TOLERANCES, packing

PARTS = ("Model", "get_inputs", "get_init_inputs")
CASE = "inputs"
NOISE = 0.1
STATEMENT = (
    "Model of a KernelBench problem file, in training mode without gradients. A candidate defines ModelNew, which is "
    "constructed with the same arguments and given the same weights; timed is its forward on what get_inputs() draws."
)
NOTES = (
    "Read from a KernelBench problem file. An element passes if its error is at most {tolerance} of the expected value "
    "plus {tolerance} of the RMS of all: KernelBench's absolute tolerance, scaled to the output. Expected values come "
    "from the model in float64 where it runs, else from the model itself. Inputs and weights are drawn anew for every "
    "call; TF32 is off."
)

_WRAPPER = """
import torch as _kernelcast_torch

_kernelcast_torch.backends.cudnn.allow_tf32 = False
_kernelcast_torch.backends.cuda.matmul.allow_tf32 = False


{unpack}

{assign}

if "ModelNew" not in globals():
    raise NameError("a KernelBench candidate defines a class ModelNew; this file does not")
_kernelcast_model = []


def custom_kernel(data):
    count = len(data) - len({names!r})
    with _kernelcast_torch.no_grad():
        if not _kernelcast_model:
            _kernelcast_torch.manual_seed(0)
            _kernelcast_model.append(ModelNew(*{init!r}).to(data[0].device))
        assign(_kernelcast_model[0], {names!r}, data[count:])
        result = _kernelcast_model[0](*unpack({form!r}, iter(data[:count])))
    if isinstance(result, _kernelcast_torch.Tensor):
        return result.contiguous()
    return tuple(part.contiguous() for part in result)
"""


def look(path: Path) -> None:
    """Raise ValueError if the file is not there or does not define what a problem defines."""
    if not path.is_file():
        raise ValueError(f"{path}: no such file; a KernelBench problem is a Python file")
    try:
        tree = ast.parse(source(path))
    except SyntaxError as error:
        raise ValueError(f"{path}:{error.lineno}: {error.msg}") from None
    defined = {getattr(node, "name", None) for node in tree.body}
    missing = [part for part in PARTS if part not in defined]
    if missing:
        raise ValueError(f"{path}: a KernelBench problem defines {', '.join(PARTS)}; missing: {', '.join(missing)}")


def source(path: Path) -> str:
    """Return the problem's text."""
    return path.read_text(encoding="utf-8")


def assign(model: Any, names: Sequence[str], weights: Sequence[Any]) -> None:
    """Make the model use these weights, without a copy; by name, else in order if all shapes agree."""
    own = model.state_dict()
    if not set(names) <= set(own):
        kept = ("running_mean", "running_var", "num_batches_tracked")
        places = [name for name in own if name.rpartition(".")[2] not in kept]
        if [own[place].shape for place in places] != [weight.shape for weight in weights]:
            raise ValueError(f"ModelNew has the weights {places}, the problem's Model has {list(names)}")
        names = places
    model.load_state_dict(dict(zip(names, weights, strict=True)), strict=False, assign=True)


def describe(path: Path) -> dict[str, Any]:
    """Return the description of the problem; runs it on the meta device, or on the CPU where that is not possible."""
    problem = _Problem(path)
    try:
        found = problem.run("meta")
    except Exception:  # operations that need values have no meta version
        found = problem.run("cpu")
    data, outputs = found["data"], found["outputs"]
    dtypes = [str(output.dtype).removeprefix("torch.") for output in outputs]
    size, flops = packing.nbytes([*data, *outputs]), max(found["flops"], sum(output.numel() for output in outputs))
    limits = [TOLERANCES.get(dtype, 0.0) for dtype in dtypes]
    case = {"case_id": CASE, "params": {}, "bytes": size, "flops": flops}
    return {
        "source": "network", "family": "block",
        "statement": f"{STATEMENT} {problem.space['Model'].__doc__ or ''}".strip(),
        "cases": [{**case, "use": use} for use in ("check", "timing")],
        "tolerances": [{"rtol": limit, "atol": limit} for limit in limits],
        "notes": NOTES.format(tolerance=" / ".join(f"{limit:g}" for limit in limits)),
        "writes": [], "names": found["names"], "form": found["form"], "init": repr(problem.init),
    }  # fmt: skip


def wrapper(path: Path, facts: Mapping[str, Any]) -> str:
    """Return the source that makes `custom_kernel` of a candidate's `ModelNew`."""
    return _WRAPPER.format(
        unpack=packing.plain_source(packing.unpack), assign=packing.plain_source(assign),
        names=facts["names"], init=ast.literal_eval(facts["init"]), form=facts["form"],
    )  # fmt: skip


def functions(path: Path, facts: Mapping[str, Any]) -> dict[str, Callable[..., Any]]:
    """Return the functions of the task's implementation."""
    problem = _Problem(path)
    names, form = facts["names"], facts["form"]
    models: dict[str, Any] = {}

    def make_inputs(generator: Any, device: Any) -> tuple[Any, ...]:
        return problem.draw(packing.draw_seed(generator), str(device), generator)[1]

    def run(data: Sequence[Any], model: Any) -> tuple[Any, ...]:
        import torch

        count = len(data) - len(names)
        assign(model, names, data[count:])
        with torch.no_grad(), _full_precision():
            return packing.outputs_of(model(*packing.unpack(form, iter(data[:count]))), f"{path}: Model")

    def reference(data: Sequence[Any]) -> tuple[Any, ...]:
        device = data[0].device.type
        if device not in models:
            models[device] = problem.model(device)
        return run(data, models[device])

    def oracle(data: Sequence[Any]) -> tuple[Any, ...]:
        import torch

        wide = [value.double() if value.is_floating_point() else value.clone() for value in data]
        try:
            found = run(wide, problem.model(data[0].device.type).double())
        except torch.OutOfMemoryError:
            raise
        except RuntimeError:  # a dtype that the model fixes does not go with float64
            found = reference(data)
        return tuple(output.double() for output in found)

    return {"make_inputs": make_inputs, "reference": reference, "oracle": oracle}


class _Problem:
    """A loaded problem file."""

    def __init__(self, path: Path) -> None:
        look(path)
        self.path, space = path, {"__name__": "kernelbench_problem", "__file__": str(path)}
        try:
            exec(compile(source(path), str(path), "exec"), space)
        except Exception as error:
            raise ValueError(f"{path}: {type(error).__name__}: {error}") from None
        self.space: dict[str, Any] = space
        self.init = list(space["get_init_inputs"]())  # type: ignore[operator]
        if not packing.literal(self.init):
            raise ValueError(f"{path}: get_init_inputs returns more than plain values, which is not supported")

    def model(self, device: str) -> Any:
        """Return a model whose weights are to be assigned; what it holds besides follows seed 0, as in a candidate."""
        with packing.seeded(0, device):
            return self.space["Model"](*self.init).to(device)

    def draw(self, seed: int, device: str, generator: Any = None) -> tuple[dict[str, Any], tuple[Any, ...]]:
        """Return names and form, and the data: the tensors of the inputs and of the weights."""
        import torch

        try:
            inputs, model = self._make(seed, device, device)
        except RuntimeError:  # a generator of the CPU's, for one, cannot draw on another device
            inputs, model = self._make(seed, device, "cpu")
        self._refuse_chance(model)
        tensors: list[Any] = []
        form = packing.pack(inputs, f"{self.path}: get_inputs()", tensors)
        tensors = [tensor.to(device) for tensor in tensors]
        weights = {name: value.detach() for name, value in model.state_dict().items() if name not in _statistics(model)}
        learned = {name for name, _ in model.named_parameters(remove_duplicate=False)}
        for name, value in weights.items():
            if generator is not None and name in learned and value.is_floating_point() and _constant(value):
                noise = torch.randn(value.shape, generator=generator, device=generator.device).mul_(NOISE)
                weights[name] = value + noise.to(value)
        data = (*tensors, *(value.contiguous() for value in weights.values()))
        if not data:
            raise ValueError(f"{self.path}: neither get_inputs nor Model has a tensor")
        return {"names": list(weights), "form": form}, data

    def _make(self, seed: int, device: str, where: str) -> tuple[list[Any], Any]:
        import torch

        with packing.seeded(seed, device), torch.device(where):
            return list(self.space["get_inputs"]()), self.space["Model"](*self.init).to(device)

    def _refuse_chance(self, model: Any) -> None:
        for name, module in model.named_modules():
            if "Dropout" in type(module).__name__ and module.training and getattr(module, "p", 0) > 0:
                raise ValueError(f"{self.path}: Model.{name} is a dropout with p > 0, so that no output is expected")

    def run(self, device: str) -> dict[str, Any]:
        """Run the model once and return its data, outputs and number of operations."""
        import torch
        from torch.utils.flop_counter import FlopCounterMode

        with torch.no_grad():
            facts, data = self.draw(0, device)
            count = len(data) - len(facts["names"])
            with torch.device(device):
                model = self.space["Model"](*self.init).to(device)
            with FlopCounterMode(display=False) as counter:
                result = model(*packing.unpack(facts["form"], iter(data[:count])))
            outputs = packing.outputs_of(result, f"{self.path}: Model")
        return {**facts, "data": data, "outputs": outputs, "flops": counter.get_total_flops()}


def _statistics(model: Any) -> set[str]:
    from torch.nn.modules.batchnorm import _NormBase

    return {
        f"{place}.{name}" if place else name
        for place, module in model.named_modules()
        if isinstance(module, _NormBase) and module.training
        for name, _ in module.named_buffers(recurse=False)
    }


def _constant(value: Any) -> bool:
    return bool(value.numel()) and bool((value == value.reshape(-1)[0]).all())


@contextmanager
def _full_precision() -> Iterator[None]:
    import torch

    before = torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    try:
        yield
    finally:
        torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32 = before
