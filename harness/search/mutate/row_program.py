"""What a straight-line Triton kernel over one range of lanes computes, statement by statement."""

from __future__ import annotations

import ast
import copy
from dataclasses import dataclass, field

from harness.search.mutate.memory import read, written
from harness.search.mutate.source import (
    called,
    calls,
    keyword,
    replace_node,
)

REDUCTIONS = {"tl.sum": ("0.0", "{0} += {1}"), "tl.max": ('-float("inf")', "{0} = tl.maximum({0}, {1})")}


@dataclass
class RowProgram:
    """A straight-line kernel over one tile of lanes, each reduction in a statement of its own."""

    lanes: str
    extent: str
    body: list[ast.stmt]
    vector: set[str] = field(default_factory=set)

    def reduction(self, s: ast.stmt) -> ast.Call | None:
        value = getattr(s, "value", None)
        return (
            value
            if isinstance(value, ast.Call) and called(value) in REDUCTIONS and read(value.args[0]) & self.vector
            else None
        )

    def is_vector(self, s: ast.stmt) -> bool:
        return self.reduction(s) is None and bool((read(s) | written(s)) & self.vector)

    def slice(self, wanted: set[str], before: int) -> list[ast.stmt]:
        """Return copies of the vector statements that the wanted names need, in order."""
        chosen: list[ast.stmt] = []
        for s in reversed(self.body[:before]):
            if isinstance(s, ast.Assign) and self.is_vector(s) and written(s) & wanted:
                chosen.append(copy.deepcopy(s))
                wanted = wanted | read(s)
        return chosen[::-1]


def row_program(kernel: ast.FunctionDef) -> RowProgram | None:
    """Analyse a kernel; None unless it is straight-line code over one range of lanes with plain reductions."""
    body = copy.deepcopy(kernel.body)
    simple = all(
        (isinstance(s, ast.Assign) and len(s.targets) == 1 and isinstance(s.targets[0], ast.Name))
        or (isinstance(s, ast.Expr) and called(s.value) == "tl.store")
        for s in body
    )
    ranges = calls(kernel, "tl.arange")
    targets = [n for s in body for n in written(s)]
    if not simple or len(ranges) != 1 or len(set(targets)) < len(targets) or "[" in ast.unparse(ast.Module(body, [])):
        return None
    extent = ranges[0].args[1] if len(ranges[0].args) == 2 else None
    holder = [s for s in body if calls(s, "tl.arange")]
    if not isinstance(extent, ast.Name) or not isinstance(holder[0], ast.Assign):
        return None
    program = RowProgram(next(iter(written(holder[0]))), extent.id, _reductions_apart(body))
    program.vector.add(program.lanes)
    for s in program.body:
        if isinstance(s, ast.Assign) and program.reduction(s) is None and read(s) & program.vector:
            program.vector |= written(s)
    leftover = [
        c
        for s in program.body
        for c in ast.walk(s)
        if called(c).startswith("tl.")
        and called(c).split(".")[-1] in ("sum", "max", "min", "cumsum", "sort", "argmax", "argmin")
    ]
    plain = [c for s in program.body if (c := program.reduction(s)) is not None]
    if len(leftover) != len(plain) or any(_axis(c) != "0" for c in plain):
        return None
    return program


def _axis(call: ast.Call) -> str:
    found = keyword(call, "axis")
    return ast.unparse(found.value) if found and len(call.args) == 1 and len(call.keywords) == 1 else ""


def _reductions_apart(body: list[ast.stmt]) -> list[ast.stmt]:
    """Give every reduction an assignment of its own, inner ones first."""
    taken = {n for s in body for n in read(s) | written(s)}
    result: list[ast.stmt] = []
    for s in body:
        while True:
            # ast.walk goes outside in, so the last one found has no other inside.
            found = [c for c in ast.walk(s) if called(c) in REDUCTIONS and isinstance(c, ast.Call)]
            if not found or (isinstance(s, ast.Assign) and found == [s.value]):
                break
            name = next(n for i in range(len(taken) + 1) if (n := f"reduced{i or ''}") not in taken)
            taken.add(name)
            if isinstance(s, ast.Assign) and found[-1] is s.value:
                break
            result.append(ast.Assign([ast.Name(name, ast.Store())], found[-1], lineno=0))
            replace_node(s, found[-1], ast.Name(name, ast.Load()))
        result.append(s)
    return result
