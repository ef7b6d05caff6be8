"""Nested data as a flat tuple of contiguous tensors and a form, from which the nesting is built again."""

from __future__ import annotations

import ast
import inspect
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

Form = tuple[str, Any]


def pack(data: Any, where: str, into: list[Any]) -> Form:
    """Append the tensors of nested data to `into`, contiguous, and return the form.

    Tuples, lists and dicts nest; plain values are part of the form. A tensor whose dimensions are permuted in memory
    is stored as it lies, and its form has the permutation. Raises ValueError that names the place for anything else.
    """
    import torch

    if isinstance(data, torch.Tensor):
        value = data.detach()
        order = sorted(range(value.dim()), key=lambda d: (-value.stride(d), d))
        laid = value.permute(order)
        if value.is_contiguous() or not laid.is_contiguous():
            into.append(value.contiguous())
            return ("tensor", None)
        into.append(laid)
        return ("tensor", [order.index(d) for d in range(value.dim())])
    if isinstance(data, dict):
        return ("dict", [(key, pack(item, f"{where}[{key!r}]", into)) for key, item in data.items()])
    if type(data) in (tuple, list):
        items = [pack(item, f"{where}[{place}]", into) for place, item in enumerate(data)]
        return (type(data).__name__, items)
    if not literal(data):
        raise ValueError(f"{where} is a {type(data).__name__}; expected tensors and plain values in tuples or dicts")
    return ("value", data)


def unpack(form: Form, tensors: Iterator[Any]) -> Any:
    """Build nested data of the form from its tensors, without copying."""
    kind, value = form
    if kind == "tensor":
        tensor = next(tensors)
        return tensor if value is None else tensor.permute(value)
    if kind == "value":
        return value
    if kind == "dict":
        return {key: unpack(item, tensors) for key, item in value}
    items = [unpack(item, tensors) for item in value]
    return tuple(items) if kind == "tuple" else items


def signature(tensors: Sequence[Any]) -> str:
    """Return the shapes and dtypes of tensors as text, by which a case is told from another."""
    return ";".join(f"{tensor.dtype}{list(tensor.shape)}" for tensor in tensors)


def plain_source(function: Callable[..., Any]) -> str:
    """Return the source of a function without annotations, so that it stands alone in another file."""
    tree = ast.parse(inspect.getsource(function))
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            node.annotation = None
        elif isinstance(node, ast.FunctionDef):
            node.returns = None
    return ast.unparse(tree)


def literal(value: Any) -> bool:
    """Whether a value can stand in source text as itself."""
    try:
        return bool(ast.literal_eval(repr(value)) == value)
    except (ValueError, SyntaxError):
        return False


@contextmanager
def seeded(seed: int, device: str) -> Iterator[None]:
    """Draw the global random numbers of torch, NumPy and Python from a seed, and put their states back."""
    import numpy
    import torch

    states = random.getstate(), numpy.random.get_state()
    with torch.random.fork_rng(devices=[torch.cuda.current_device()] if device == "cuda" else []):
        torch.manual_seed(seed)
        numpy.random.seed(seed % (1 << 32))
        random.seed(seed)
        try:
            yield
        finally:
            random.setstate(states[0])
            numpy.random.set_state(states[1])


def draw_seed(generator: Any) -> int:
    """Return a seed of 31 bits, which every library takes, from a generator of torch."""
    import torch

    return int(torch.randint(0, (1 << 31) - 1, (1,), generator=generator, device=generator.device))


def nbytes(tensors: Sequence[Any]) -> int:
    """Return the bytes of tensors."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def outputs_of(result: Any, where: str) -> tuple[Any, ...]:
    """Return a result as a tuple of tensors. Raises ValueError if it is none."""
    import torch

    found = (result,) if isinstance(result, torch.Tensor) else result
    if type(found) not in (tuple, list) or not found or not all(isinstance(part, torch.Tensor) for part in found):
        raise ValueError(f"{where} returns a {type(result).__name__}; expected a tensor or a tuple of tensors")
    return tuple(found)
