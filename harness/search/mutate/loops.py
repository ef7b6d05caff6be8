"""Edits of loops: pipelining, direction, peeling, hoisting and where a reduction happens."""

from __future__ import annotations

import ast
import copy
import random

from harness.search.mutate.memory import read, written
from harness.search.mutate.programs import invariant_prefix
from harness.search.mutate.registry import edit
from harness.search.mutate.source import (
    blocks,
    called,
    calls,
    expression,
    fresh,
    kernels,
    keyword,
    replace_node,
    set_keyword,
    statement,
)


def _loops(module: ast.Module) -> list[tuple[ast.FunctionDef, list[ast.stmt], int, ast.For]]:
    return [
        (kernel, block, i, s)
        for kernel in kernels(module)
        for block in blocks(kernel)
        for i, s in enumerate(block)
        if isinstance(s, ast.For) and called(s.iter) in ("range", "tl.range") and isinstance(s.target, ast.Name)
    ]


@edit("loop_options", "loop", "triton", weight=1.5)
def loop_options(module: ast.Module, rng: random.Random, partner: ast.Module | None) -> bool:
    """Pipeline, unroll or flatten one loop."""
    sites = _loops(module)
    if not sites:
        return False
    loop = rng.choice(sites)[3]
    call = loop.iter
    assert isinstance(call, ast.Call)
    call.func = expression("tl.range")
    option = rng.choice(("num_stages", "num_stages", "loop_unroll_factor", "flatten"))
    if option == "flatten":
        nested = any(isinstance(n, ast.For) for s in loop.body for n in ast.walk(s))
        option = "flatten" if nested else "loop_unroll_factor"
    choices: tuple[int | bool, ...] = {
        "num_stages": (1, 2, 3, 4, 5),
        "loop_unroll_factor": (2, 4, 8),
        "flatten": (True,),
    }[option]
    found = keyword(call, option)
    current = found.value.value if found and isinstance(found.value, ast.Constant) else None
    others = [c for c in choices if c != current]
    if not others:
        return False
    set_keyword(call, option, ast.Constant(rng.choice(others)))
    return True


def _bounds(loop: ast.For) -> tuple[str, str, str]:
    """Return start, end and step of a range as source."""
    assert isinstance(loop.iter, ast.Call)
    parts = [ast.unparse(a) for a in loop.iter.args]
    start, end = ("0", parts[0]) if len(parts) == 1 else (parts[0], parts[1])
    return start, end, parts[2] if len(parts) == 3 else "1"


@edit("reverse_loop", "loop", "triton")
def reverse_loop(module: ast.Module, rng: random.Random, partner: ast.Module | None) -> bool:
    """Run a loop backwards: a second pass then starts where the first one left the cache."""
    sites = _loops(module)
    if not sites:
        return False
    loop = rng.choice(sites)[3]
    assert isinstance(loop.target, ast.Name)
    name, forward = loop.target.id, fresh(module, f"{loop.target.id}_forward")
    start, end, step = _bounds(loop)
    last = f"{start} + ({end} - {start} - 1) // {step} * {step}" if step != "1" else f"{end} - 1"
    code = f"{name} = {last} - ({forward} - {start})" if start != "0" else f"{name} = {last} - {forward}"
    if start == "0" and step != "1":
        code = f"{name} = ({end} - 1) // {step} * {step} - {forward}"
    loop.target.id = forward
    loop.body.insert(0, statement(code))
    return True


@edit("pair_iterations", "loop", "triton", weight=1.5)
def pair_iterations(module: ast.Module, rng: random.Random, partner: ast.Module | None) -> bool:
    """Do two iterations of a loop in one round, the second under a guard: half the branches, more work in flight."""
    sites = []
    for _, _, _, loop in _loops(module):
        assert isinstance(loop.target, ast.Name)
        nested = any(isinstance(n, (ast.For, ast.While, ast.If)) for s in loop.body for n in ast.walk(s))
        stays = loop.target.id not in set().union(*(written(s) for s in loop.body))
        # What the guarded half would define anew inside the branch has to exist before it: the first half defines it.
        if not nested and stays and len(loop.body) >= 2:
            sites.append(loop)
    if not sites:
        return False
    loop = rng.choice(sites)
    assert isinstance(loop.target, ast.Name) and isinstance(loop.iter, ast.Call)
    name, (start, end, step) = loop.target.id, _bounds(loop)
    following = fresh(module, f"{name}_next")
    second = [_with_name(s, name, following) for s in loop.body]
    guard = statement(f"if {following} < {end}:\n    pass")
    assert isinstance(guard, ast.If)
    guard.body = second
    loop.iter.args = [expression(b) for b in (start, end, f"2 * ({step})")]
    loop.body += [statement(f"{following} = {name} + {step}"), guard]
    return True


def _with_name(s: ast.stmt, old: str, new: str) -> ast.stmt:
    copied = copy.deepcopy(s)
    for node in ast.walk(copied):
        if isinstance(node, ast.Name) and node.id == old:
            node.id = new
    return copied


@edit("peel_tail", "loop", "triton", weight=1.5)
def peel_tail(module: ast.Module, rng: random.Random, partner: ast.Module | None) -> bool:
    """Run the full tiles of a loop without masks, and the remainder in a loop of its own."""
    sites = [site for site in _loops(module) if _tail_masks(site[3])]
    if not sites:
        return False
    _, block, i, loop = rng.choice(sites)
    start, end, step = _bounds(loop)
    full = copy.deepcopy(loop)
    for call in _tail_masks(full):
        call.keywords = [k for k in call.keywords if k.arg not in ("mask", "other")]
    for part, bounds in ((full, (start, f"{end} // {step} * {step}")), (loop, (f"{end} // {step} * {step}", end))):
        assert isinstance(part.iter, ast.Call)
        part.iter.args = [expression(b) for b in (*bounds, step)]
    block.insert(i, full)
    return True


def _tail_masks(loop: ast.For) -> list[ast.Call]:
    """Return the masked accesses of a loop from 0 whose mask only guards the last tile."""
    start, end, step = _bounds(loop)
    assert isinstance(loop.target, ast.Name)
    if start != "0" or step == "1":
        return []
    table = {
        s.targets[0].id: ast.unparse(s.value)
        for s in loop.body
        if isinstance(s, ast.Assign) and isinstance(s.targets[0], ast.Name)
    }
    lanes = [name for name, code in table.items() if code == f"{loop.target.id} + tl.arange(0, {step})"]
    guards = {f"{name} < {end}" for name in lanes}
    guards |= {name for name, code in table.items() if code in guards}
    found = []
    for call in calls(ast.Module(loop.body, []), "tl.load", "tl.store"):
        mask = keyword(call, "mask")
        if mask and ast.unparse(mask.value) in guards:
            found.append(call)
    return found


@edit("hoist", "loop", "triton")
def hoist(module: ast.Module, rng: random.Random, partner: ast.Module | None) -> bool:
    """Compute what a loop computes alike in every iteration once, before it."""
    sites = _loops(module)
    rng.shuffle(sites)
    for _, block, i, loop in sites:
        assert isinstance(loop.target, ast.Name)
        before, rest = invariant_prefix(loop.body, {loop.target.id})
        if before and rest:
            loop.body = rest
            block[i:i] = before
            return True
    return False


@edit("sink", "loop", "triton", weight=0.6)
def sink(module: ast.Module, rng: random.Random, partner: ast.Module | None) -> bool:
    """Move a load that precedes a loop into it, to free its registers between iterations."""
    sites = []
    for _, block, i, loop in _loops(module):
        for j in range(i):
            s = block[j]
            if not isinstance(s, ast.Assign) or not calls(s, "tl.load"):
                continue
            between = [*block[j + 1 : i], *block[i + 1 :]]
            if not any(written(s) & read(o) for o in between) and not any(
                (read(s) | written(s)) & written(o) for o in block[j + 1 : i + 1]
            ):
                sites.append((block, j, loop))
    if not sites:
        return False
    block, j, loop = rng.choice(sites)
    loop.body.insert(0, block.pop(j))
    return True


@edit("defer_reduction", "loop", "triton", weight=1.5)
def defer_reduction(module: ast.Module, rng: random.Random, partner: ast.Module | None) -> bool:
    """Keep a running total per lane through a loop and reduce across lanes once, after it."""
    sites = []
    for kernel, block, i, loop in _loops(module):
        for s in loop.body:
            if (
                isinstance(s, ast.AugAssign)
                and isinstance(s.op, ast.Add)
                and isinstance(s.target, ast.Name)
                and called(s.value) == "tl.sum"
                and sum(s.target.id in (read(o) | written(o)) for o in loop.body) == 1
            ):
                extents = {ast.unparse(c.args[1]) for c in calls(loop, "tl.arange") if len(c.args) == 2}
                axis = keyword(s.value, "axis") if isinstance(s.value, ast.Call) else None
                flat = (
                    axis is not None
                    and ast.unparse(axis.value) == "0"
                    and "[None" not in ast.unparse(loop)
                    and "None]" not in ast.unparse(loop)
                )
                if len(extents) == 1 and flat:
                    sites.append((kernel, block, i, s, extents.pop()))
    if not sites:
        return False
    _, block, i, s, extent = rng.choice(sites)
    assert isinstance(s.target, ast.Name) and isinstance(s.value, ast.Call)
    total, lanes = s.target.id, fresh(module, f"{s.target.id}_lanes")
    s.value, s.target = s.value.args[0], ast.Name(lanes, ast.Store())
    block.insert(i + 1, statement(f"{total} += tl.sum({lanes}, axis=0)"))
    block.insert(i, statement(f"{lanes} = tl.zeros([{extent}], dtype=tl.float32)"))
    return True


@edit("reduce_each_round", "loop", "triton")
def reduce_each_round(module: ast.Module, rng: random.Random, partner: ast.Module | None) -> bool:
    """Reduce across lanes in every iteration in place of once, after the loop: fewer registers, more shuffles."""
    sites = []
    for kernel, block, i, loop in _loops(module):
        for s in loop.body:
            if isinstance(s, ast.AugAssign) and isinstance(s.op, ast.Add) and isinstance(s.target, ast.Name):
                lanes = s.target.id
                init = [o for o in block[:i] if written(o) == {lanes}]
                uses = [c for c in calls(kernel, "tl.sum") if c.args and ast.unparse(c.args[0]) == lanes]
                reads = sum(isinstance(n, ast.Name) and n.id == lanes for n in ast.walk(kernel))
                if (
                    len(init) == 1
                    and called(getattr(init[0], "value", init[0])) == "tl.zeros"
                    and len(uses) == 1
                    and reads == 3
                ):
                    sites.append((kernel, init[0], s, uses[0]))
    if not sites:
        return False
    kernel, zeros, s, use = rng.choice(sites)
    assert isinstance(s.target, ast.Name)
    zeros.value = ast.Constant(0.0)  # type: ignore[attr-defined]
    s.value = expression(f"tl.sum({ast.unparse(s.value)}, axis=0)")
    replace_node(kernel, use, ast.Name(s.target.id, ast.Load()))
    return True
