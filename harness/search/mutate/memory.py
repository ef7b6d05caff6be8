"""Edits of memory access: hints, masks, order of loads, addresses and what is read again."""

from __future__ import annotations

import ast
import copy
import random

from harness.search.mutate.registry import edit
from harness.search.mutate.source import (
    blocks,
    called,
    calls,
    expression,
    fresh,
    kernels,
    keyword,
    names,
    replace_node,
    same,
    set_keyword,
    statement,
)

LOAD_CACHE = ("", ".ca", ".cg", ".cv")
STORE_CACHE = ("", ".wb", ".cg", ".cs", ".wt")
EVICTION = ("", "evict_first", "evict_last")


def _accesses(module: ast.Module, *which: str) -> list[ast.Call]:
    return [call for kernel in kernels(module) for call in calls(kernel, *which)]


def _set_text(call: ast.Call, name: str, choices: tuple[str, ...], rng: random.Random) -> None:
    found = keyword(call, name)
    current = found.value.value if found and isinstance(found.value, ast.Constant) else ""
    new = rng.choice([c for c in choices if c != current])
    if new:
        set_keyword(call, name, ast.Constant(new))
    else:
        call.keywords = [k for k in call.keywords if k.arg != name]


@edit("load_eviction", "memory", "triton")
def load_eviction(module: ast.Module, rng: random.Random, partner: ast.Module | None) -> bool:
    """Change the eviction policy of one load or of all of them."""
    loads = _accesses(module, "tl.load")
    for call in loads if rng.random() < 0.3 else loads and [rng.choice(loads)]:
        _set_text(call, "eviction_policy", EVICTION, rng)
    return bool(loads)


@edit("store_eviction", "memory", "triton", weight=0.7)
def store_eviction(module: ast.Module, rng: random.Random, partner: ast.Module | None) -> bool:
    """Change the eviction policy of one store."""
    stores = _accesses(module, "tl.store")
    if stores:
        _set_text(rng.choice(stores), "eviction_policy", EVICTION, rng)
    return bool(stores)


@edit("load_cache", "memory", "triton", weight=0.7)
def load_cache(module: ast.Module, rng: random.Random, partner: ast.Module | None) -> bool:
    """Change the cache level that a load goes through."""
    loads = _accesses(module, "tl.load")
    if loads:
        _set_text(rng.choice(loads), "cache_modifier", LOAD_CACHE, rng)
    return bool(loads)


@edit("store_cache", "memory", "triton", weight=0.7)
def store_cache(module: ast.Module, rng: random.Random, partner: ast.Module | None) -> bool:
    """Change the cache policy of a store: write back, streaming or write through."""
    stores = _accesses(module, "tl.store")
    if stores:
        _set_text(rng.choice(stores), "cache_modifier", STORE_CACHE, rng)
    return bool(stores)


@edit("drop_mask", "memory", "triton", weight=0.3)
def drop_mask(module: ast.Module, rng: random.Random, partner: ast.Module | None) -> bool:
    """Load without a mask; right only where the tile divides the extent."""
    loads = [call for call in _accesses(module, "tl.load") if keyword(call, "mask")]
    if not loads:
        return False
    call = rng.choice(loads)
    call.keywords = [k for k in call.keywords if k.arg not in ("mask", "other")]
    return True


@edit("permute_lanes", "memory", "triton", weight=0.6)
def permute_lanes(module: ast.Module, rng: random.Random, partner: ast.Module | None) -> bool:
    """Let the lanes of one tile visit its elements in another order, which changes how accesses coalesce."""
    sites = [c for c in _accesses(module, "tl.arange") if len(c.args) == 2 and isinstance(c.args[1], ast.Name)]
    if not sites:
        return False
    site = rng.choice(sites)
    if not isinstance(site.args[1], ast.Name):
        return False
    extent, lanes = site.args[1].id, ast.unparse(site)
    form = rng.choice(("reverse", "rotate", "interleave", "interleave"))
    code = {
        "reverse": f"{extent} - 1 - {lanes}",
        "rotate": f"({lanes} + {extent} // 2) % {extent}",
        "interleave": f"({lanes}) * {rng.choice((3, 5, 17, 33))} % {extent}",  # odd factor: a permutation of 2^k lanes
    }[form]
    replace_node(module, site, expression(f"({code})"))
    return True


def _load_assigns(block: list[ast.stmt]) -> list[int]:
    return [
        i
        for i, s in enumerate(block)
        if isinstance(s, ast.Assign)
        and len(s.targets) == 1
        and isinstance(s.targets[0], ast.Name)
        and any(called(n) == "tl.load" for n in ast.walk(s.value))
    ]


def written(node: ast.AST) -> set[str]:
    """Return the names that a statement binds, those inside its body included."""
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def read(node: ast.AST) -> set[str]:
    """Return the names that a statement reads; an augmented assignment reads its target."""
    found = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    for inner in ast.walk(node):
        if isinstance(inner, ast.AugAssign):
            found |= names(inner.target)
    return found


def _stores(node: ast.AST) -> bool:
    return any(called(n).startswith(("tl.store", "tl.atomic")) for n in ast.walk(node))


def _independent(first: ast.stmt, second: ast.stmt) -> bool:
    return not (
        written(first) & (read(second) | written(second))
        or written(second) & read(first)
        or (_stores(first) or _stores(second))
    )


@edit("move_load", "memory", "triton", weight=1.2)
def move_load(module: ast.Module, rng: random.Random, partner: ast.Module | None) -> bool:
    """Issue a load as early as its address allows, or as late as its first use."""
    sites = [(block, i) for kernel in kernels(module) for block in blocks(kernel) for i in _load_assigns(block)]
    rng.shuffle(sites)
    for block, start in sites:
        direction = rng.choice((-1, 1))
        for way in (direction, -direction):
            position = start
            while 0 <= position + way < len(block) and _independent(block[start], block[position + way]):
                position += way
            if position != start:
                block.insert(position, block.pop(start))
                return True
    return False


@edit("load_again", "memory", "triton", weight=1.2)
def load_again(module: ast.Module, rng: random.Random, partner: ast.Module | None) -> bool:
    """Read a tile a second time, right before a later use, in place of keeping it in registers."""
    sites = []
    for kernel in kernels(module):
        for block in blocks(kernel):
            for i in _load_assigns(block):
                target = block[i].targets[0]  # type: ignore[attr-defined]
                needed = read(block[i])
                for j in range(i + 1, len(block)):
                    if needed & written(block[j]) or target.id in written(block[j]):
                        break
                    if j > i + 1 and target.id in read(block[j]) and isinstance(block[j], (ast.Assign, ast.Expr)):
                        sites.append((block, i, j, target.id))
    if not sites:
        return False
    block, i, j, name = rng.choice(sites)
    again = fresh(module, f"{name}_again")
    copied = copy.deepcopy(block[i])
    copied.targets = [ast.Name(again, ast.Store())]  # type: ignore[attr-defined]
    for call in calls(block[i], "tl.load"):
        set_keyword(call, "eviction_policy", ast.Constant("evict_last"))
    for call in calls(copied, "tl.load"):
        set_keyword(call, "eviction_policy", ast.Constant("evict_first"))
    for later in block[j:]:
        if name in written(later) or _address_changes(copied, later):
            break
        for node in ast.walk(later):
            if isinstance(node, ast.Name) and node.id == name:
                node.id = again
    block.insert(j, copied)
    return True


def _address_changes(load: ast.stmt, later: ast.stmt) -> bool:
    """Return whether a statement changes what the address of a load depends on."""
    return bool(read(load) & written(later))


@edit("share_load", "memory", "triton")
def share_load(module: ast.Module, rng: random.Random, partner: ast.Module | None) -> bool:
    """Keep a tile in registers where the kernel reads the same addresses again in one block."""
    sites = []
    for kernel in kernels(module):
        for block in blocks(kernel):
            found = _load_assigns(block)
            for a in found:
                for b in found:
                    if a < b and _same_load(block, a, b):
                        sites.append((block, a, b))
    if not sites:
        return False
    block, a, b = rng.choice(sites)
    block[b].value = ast.Name(block[a].targets[0].id, ast.Load())  # type: ignore[attr-defined]
    return True


def _same_load(block: list[ast.stmt], a: int, b: int) -> bool:
    first, second = copy.deepcopy(block[a]), copy.deepcopy(block[b])
    for node in (first, second):
        for call in calls(node, "tl.load"):
            call.keywords = [k for k in call.keywords if k.arg not in ("eviction_policy", "cache_modifier")]
    assert isinstance(first, ast.Assign) and isinstance(second, ast.Assign)
    between = block[a + 1 : b]
    changed = set().union(*(written(s) for s in between)) if between else set()
    return same(first.value, second.value) and not changed & (read(first) | written(first))


@edit("alignment_hint", "memory", "triton", weight=0.5)
def alignment_hint(module: ast.Module, rng: random.Random, partner: ast.Module | None) -> bool:
    """Promise that an offset is a multiple of 4 to 16, which lets accesses become wider; wrong where it is not."""
    sites = []
    for kernel in kernels(module):
        tiles = _tiles(kernel)
        for block in blocks(kernel):
            for i, s in enumerate(block):
                if isinstance(s, ast.Assign) and isinstance(s.targets[0], ast.Name) and _row_offset(s.value, tiles):
                    sites.append((block, i, s.targets[0].id))
    if not sites:
        return False
    block, i, name = rng.choice(sites)
    block.insert(i + 1, statement(f"{name} = tl.multiple_of({name}, {rng.choice((4, 8, 16))})"))
    return True


def _tiles(kernel: ast.FunctionDef) -> set[str]:
    """Return the names that hold tiles rather than scalars."""
    tiles: set[str] = set()
    for s in ast.walk(kernel):
        if isinstance(s, (ast.Assign, ast.AugAssign)) and ("tl.arange" in ast.unparse(s) or read(s) & tiles):
            tiles |= written(s)
    return tiles


def _row_offset(value: ast.expr, tiles: set[str]) -> bool:
    """Return whether an expression is a product with a run-time extent, such as row * n."""
    text = ast.unparse(value)
    product = any(isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mult) for n in ast.walk(value))
    return product and not names(value) & tiles and not any(mark in text for mark in ("tl.arange", "tl.load", "."))


@edit("index_width", "memory", "triton", weight=0.6)
def index_width(module: ast.Module, rng: random.Random, partner: ast.Module | None) -> bool:
    """Compute offsets in 32 or in 64 bits."""
    wide = [
        (kernel, call)
        for kernel in kernels(module)
        for call in ast.walk(kernel)
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr == "to"
        and call.args
        and ast.unparse(call.args[0]) == "tl.int64"
    ]
    if wide:
        kernel, call = rng.choice(wide)
        assert isinstance(call.func, ast.Attribute)
        replace_node(kernel, call, call.func.value)
        return True
    narrow = _accesses(module, "tl.program_id")
    if not narrow:
        return False
    site = rng.choice(narrow)
    replace_node(module, site, expression(f"{ast.unparse(site)}.to(tl.int64)"))
    return True
