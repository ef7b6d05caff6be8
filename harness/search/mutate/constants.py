"""Edits of numbers: tile sizes, program counts, warps, stages and registers."""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Mapping, Sequence

from harness.search.mutate.registry import Edit, edit
from harness.search.mutate.source import Launch, is_autotuned, keyword, launches, set_keyword
from tasks.declared import top_constants

_SIZE = re.compile(r"(BLOCK|TILE|ROWS|CHUNK|GROUP|SPLIT|PACKS|PROGRAMS|THREADS|WIDTH|COLUMNS|PARTS|TEAM|VECTOR|FLOATS)")
WARPS = (1, 2, 4, 8, 16, 32)
STAGES = (1, 2, 3, 4, 5, 6)
REGISTERS = (32, 64, 96, 128, 255)


def _integer(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int


def _named_integers(module: ast.Module) -> list[tuple[str, ast.Constant]]:
    """Return the integer literals that a name stands for: assignments, keywords of launches, defaults, Config keys."""
    found: list[tuple[str, ast.Constant]] = []
    pairs: Sequence[tuple[object, ast.expr]]
    for node in ast.walk(module):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            pairs = [(node.targets[0].id, n) for n in _scaling_integers(node.value)]
        elif isinstance(node, ast.keyword) and node.arg:
            pairs = [(node.arg, node.value)]
        elif isinstance(node, ast.Dict):
            pairs = [(k.value, v) for k, v in zip(node.keys, node.values, strict=True) if isinstance(k, ast.Constant)]
        elif isinstance(node, ast.arguments):
            positional = node.args[len(node.args) - len(node.defaults) :] if node.defaults else []
            pairs = [(a.arg, d) for a, d in zip(positional, node.defaults, strict=True)]
        else:
            continue
        found += [(str(n), v) for n, v in pairs if isinstance(v, ast.Constant) and _integer(v)]
    return found


def _scaling_integers(value: ast.expr) -> list[ast.expr]:
    if _integer(value):
        return [value]
    # min(MAX, 4096 // n) and the like: the large literals are sizes.
    return [n for n in ast.walk(value) if isinstance(n, ast.Constant) and _integer(n) and int(str(n.value)) >= 16]


@edit("tile_size", "constants", "triton", "torch", "cuda", weight=3.0)
def tile_size(module: ast.Module, rng: random.Random, partner: ast.Module | None) -> bool:
    """Multiply or divide the size of a tile, a chunk or a grid by 2, 4 or 8."""
    sites = [c for name, c in _named_integers(module) if _SIZE.search(name.upper()) and int(str(c.value)) > 0]
    if not sites:
        return False
    site = rng.choice(sites)
    old = int(str(site.value))
    factor = rng.choice((2, 2, 4, 8))
    new = old * factor if rng.random() < 0.5 else old // factor
    site.value = min(max(new, 1), 1 << 20)
    return site.value != old


@edit("trade_tiles", "constants", "triton", weight=1.5)
def trade_tiles(module: ast.Module, rng: random.Random, partner: ast.Module | None) -> bool:
    """Make a tile larger in one dimension and smaller in another, at about the same use of registers."""
    sites = [c for name, c in _named_integers(module) if _SIZE.search(name.upper()) and int(str(c.value)) >= 2]
    pairs = [(a, b) for a in sites for b in sites if a is not b and int(str(b.value)) >= 32]
    if not pairs:
        return False
    larger, smaller = rng.choice(pairs)
    factor = rng.choice((2, 2, 4))
    larger.value, smaller.value = int(str(larger.value)) * factor, int(str(smaller.value)) // factor
    return True


@edit("warp_constant", "constants", "triton", "cuda", weight=2.0)
def warp_constant(module: ast.Module, rng: random.Random, partner: ast.Module | None) -> bool:
    """Change a named number of warps."""
    sites = [c for name, c in _named_integers(module) if "WARPS" in name.upper()]
    if not sites:
        return False
    site = rng.choice(sites)
    site.value = rng.choice([w for w in WARPS if w != site.value])
    return True


@edit("stage_constant", "constants", "triton")
def stage_constant(module: ast.Module, rng: random.Random, partner: ast.Module | None) -> bool:
    """Change a named number of pipeline stages."""
    sites = [c for name, c in _named_integers(module) if "STAGES" in name.upper()]
    if not sites:
        return False
    site = rng.choice(sites)
    site.value = rng.choice([s for s in STAGES if s != site.value])
    return True


def _launch(module: ast.Module, rng: random.Random, loops_only: bool = False) -> Launch | None:
    sites = [
        launch
        for launch in launches(module)
        if not is_autotuned(launch.kernel)
        and (not loops_only or any(isinstance(n, ast.For) for n in ast.walk(launch.kernel)))
    ]
    return rng.choice(sites) if sites else None


def _set_option(call: ast.Call, name: str, choices: tuple[int, ...], default: int, rng: random.Random) -> bool:
    found = keyword(call, name)
    current = found.value.value if found and isinstance(found.value, ast.Constant) else None if found else default
    set_keyword(call, name, ast.Constant(rng.choice([c for c in choices if c != current])))
    return True


def declared_constant(ranges: Mapping[str, Sequence[int]]) -> Edit:
    """Return the edit that gives a constant at the top of a kernel file another value of its declared range."""

    def change(module: ast.Module, rng: random.Random, partner: ast.Module | None) -> bool:
        sites = [
            (name, node) for name, node in top_constants(module).items() if set(ranges.get(name, ())) - {node.value}
        ]
        if not sites:
            return False
        name, node = rng.choice(sites)
        node.value = rng.choice([value for value in ranges[name] if value != node.value])
        return True

    return Edit("declared_constant", "constants", ("triton", "torch", "cuda"), change, weight=2.0)


@edit("num_warps", "constants", "triton", weight=2.0)
def num_warps(module: ast.Module, rng: random.Random, partner: ast.Module | None) -> bool:
    """Give one launch its own number of warps."""
    launch = _launch(module, rng)
    return launch is not None and _set_option(launch.call, "num_warps", WARPS, 4, rng)


@edit("num_stages", "constants", "triton")
def num_stages(module: ast.Module, rng: random.Random, partner: ast.Module | None) -> bool:
    """Give one launch of a kernel with loops its own number of stages."""
    launch = _launch(module, rng, loops_only=True)
    return launch is not None and _set_option(launch.call, "num_stages", STAGES, 3, rng)


@edit("register_limit", "constants", "triton", weight=0.5)
def register_limit(module: ast.Module, rng: random.Random, partner: ast.Module | None) -> bool:
    """Limit the registers of a thread, for more resident warps at the price of spills."""
    launch = _launch(module, rng)
    return launch is not None and _set_option(launch.call, "maxnreg", REGISTERS, 0, rng)
