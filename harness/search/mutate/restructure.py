"""Larger rewrites of straight-line Triton kernels: chunked rows, tiles of rows, two kernels in place of one."""

from __future__ import annotations

import ast
import copy
import random

from harness.search.mutate.memory import read, written
from harness.search.mutate.programs import add_constant, add_parameter, one_dimensional_grid
from harness.search.mutate.registry import edit
from harness.search.mutate.row_program import REDUCTIONS, RowProgram, row_program
from harness.search.mutate.source import (
    Launch,
    called,
    calls,
    expression,
    fresh,
    keyword,
    launches,
    replace_node,
    statement,
)

CHUNKS = (512, 1024, 2048, 4096, 8192)


def _sites(module: ast.Module) -> list[tuple[Launch, RowProgram, ast.expr | None]]:
    found = []
    for launch in launches(module):
        program = row_program(launch.kernel)
        if program is not None and sum(o.kernel is launch.kernel for o in launches(module)) == 1:
            found.append((launch, program, one_dimensional_grid(module, launch)))
    return found


@edit("chunk_row", "restructure", "triton", weight=2.0)
def chunk_row(module: ast.Module, rng: random.Random, partner: ast.Module | None) -> bool:
    """Go over a row in chunks, once per reduction and once for the result, in place of holding it in registers."""
    sites = [s for s in _sites(module) if s[1].vector]
    if not sites:
        return False
    launch, program, _ = rng.choice(sites)
    chunk, start = fresh(module, "CHUNK"), fresh(module, "chunk_start")
    bound = next(
        (
            ast.unparse(n.comparators[0])
            for s in program.body
            for n in ast.walk(s)
            if isinstance(n, ast.Compare) and ast.unparse(n.left) == program.lanes and isinstance(n.ops[0], ast.Lt)
        ),
        program.extent,
    )
    holder = next(s for s in program.body if calls(s, "tl.arange"))
    if ast.unparse(holder.value) != f"tl.arange(0, {program.extent})":  # type: ignore[attr-defined]
        bound = program.extent
    replace_node(holder, calls(holder, "tl.arange")[0], expression(f"({start} + tl.arange(0, {chunk}))"))
    result: list[ast.stmt] = []
    for i, s in enumerate(program.body):
        reduction = program.reduction(s)
        if reduction is not None:
            result += _accumulated(program, i, s, reduction, f"for {start} in range(0, {bound}, {chunk}):", chunk)
        elif isinstance(s, ast.Expr) and program.is_vector(s):
            loop = statement(f"for {start} in range(0, {bound}, {chunk}):\n    pass")
            assert isinstance(loop, ast.For)
            loop.body = [*program.slice(read(s), i), s]
            result.append(loop)
        elif not program.is_vector(s):
            result.append(s)
    launch.kernel.body = result
    constant = add_constant(module, chunk, rng.choice(CHUNKS))
    add_parameter(launch, chunk, ast.Name(constant, ast.Load()), constexpr=True)
    return True


def _accumulated(
    program: RowProgram, i: int, s: ast.stmt, reduction: ast.Call, header: str, chunk: str
) -> list[ast.stmt]:
    initial, combine = REDUCTIONS[called(reduction)]
    total = next(iter(written(s)))
    lanes, value = f"{total}_lanes", ast.unparse(reduction.args[0])
    loop = statement(f"{header}\n    {combine.format(lanes, f'({value})')}")
    assert isinstance(loop, ast.For)
    loop.body[:0] = program.slice(read(reduction.args[0]), i)
    return [
        statement(f"{lanes} = tl.full([{chunk}], {initial}, dtype=tl.float32)"),
        loop,
        statement(f"{total} = {called(reduction)}({lanes}, axis=0)"),
    ]


@edit("tile_rows", "restructure", "triton", weight=2.0)
def tile_rows(module: ast.Module, rng: random.Random, partner: ast.Module | None) -> bool:
    """Give each program a two-dimensional tile of several rows."""
    sites = [(la, p, e) for la, p, e in _sites(module) if e is not None and not _more_programs(la.kernel)]
    if not sites:
        return False
    launch, program, extent = rng.choice(sites)
    assert extent is not None
    rows, total, kernel = fresh(module, "ROW_TILE"), fresh(module, "rows_total"), launch.kernel
    pid = calls(ast.Module(program.body, []), "tl.program_id")[0]
    index = next(i for i, s in enumerate(program.body) if any(n is pid for n in ast.walk(s)))
    row = fresh(module, "row_index")
    wide = ".to(tl.int64)" if "int64" in ast.unparse(program.body[index]) else ""
    replace_node(program.body[index], pid, ast.Name(row, ast.Load()))
    code = f"{row} = (tl.program_id(0){wide} * {rows} + tl.arange(0, {rows}))[:, None]"
    per_row = {row}
    body = [*program.body[:index], statement(code), *program.body[index:]]
    for s in body:
        if read(s) & per_row:
            per_row |= written(s)
    holder = next(s for s in program.body if calls(s, "tl.arange"))
    lanes = calls(holder, "tl.arange")[0]
    replace_node(holder, lanes, expression(f"{ast.unparse(lanes)}[None, :]"))
    for s in body:
        for call in calls(s, *REDUCTIONS):
            call.keywords = [ast.keyword("axis", ast.Constant(1)), ast.keyword("keep_dims", ast.Constant(True))]
        for call in calls(s, "tl.load", "tl.store"):
            if read(call.args[0]) & per_row:
                _guard(call, f"{row} < {total}")
    kernel.body = body
    constant = add_constant(module, rows, rng.choice((2, 4, 8, 16)))
    add_parameter(launch, total, extent)
    add_parameter(launch, rows, ast.Name(constant, ast.Load()), constexpr=True)
    launch.grid.slice = expression(f"(triton.cdiv({ast.unparse(extent)}, {constant}),)")
    return True


def _more_programs(kernel: ast.FunctionDef) -> bool:
    return len(calls(kernel, "tl.program_id")) != 1 or bool(calls(kernel, "tl.num_programs"))


def _guard(call: ast.Call, condition: str) -> None:
    mask = keyword(call, "mask")
    if mask:
        mask.value = expression(f"({ast.unparse(mask.value)}) & ({condition})")
    else:
        call.keywords.append(ast.keyword("mask", expression(condition)))
        if called(call) == "tl.load":
            call.keywords.append(ast.keyword("other", ast.Constant(0)))


@edit("split_kernel", "fusion", "triton", weight=2.0)
def split_kernel(module: ast.Module, rng: random.Random, partner: ast.Module | None) -> bool:
    """Compute the reductions of each row in one kernel and apply them in a second one."""
    sites = []
    for launch, program, extent in _sites(module):
        last = max((i for i, s in enumerate(program.body) if program.reduction(s) is not None), default=None)
        tensors = [a for a in launch.call.args if isinstance(a, ast.Name)]
        stored = [s for s in program.body[(last or 0) :] if isinstance(s, ast.Expr) and program.is_vector(s)]
        early = [s for s in program.body[: (last or 0)] if isinstance(s, ast.Expr) and program.is_vector(s)]
        if (
            last is not None
            and extent is not None
            and tensors
            and stored
            and not early
            and not _more_programs(launch.kernel)
        ):
            sites.append((launch, program, extent, tensors[0].id))
    if not sites:
        return False
    launch, program, extent, tensor = rng.choice(sites)
    vector_stores = [s for s in program.body if isinstance(s, ast.Expr) and program.is_vector(s)]
    first = [s for s in program.body if not any(s is v for v in vector_stores)]
    needed: list[ast.stmt] = []
    wanted = set().union(*(read(s) for s in vector_stores))
    reduced = _depends_on_reductions(program)
    for s in reversed(program.body):
        if (isinstance(s, ast.Assign) and written(s) & wanted and not written(s) & reduced) or (
            isinstance(s, ast.Assign) and written(s) & wanted and program.is_vector(s)
        ):
            needed.insert(0, copy.deepcopy(s))
            wanted |= read(s)
    carried = sorted(
        n for s in program.body if isinstance(s, ast.Assign) for n in written(s) & wanted & reduced - program.vector
    )
    if not carried:
        return False
    _emit_two(module, launch, first, [*needed, *vector_stores], carried, extent, tensor)
    return True


def _depends_on_reductions(program: RowProgram) -> set[str]:
    found: set[str] = set()
    for s in program.body:
        if program.reduction(s) is not None or read(s) & found:
            found |= written(s)
    return found


def _emit_two(
    module: ast.Module,
    launch: Launch,
    first: list[ast.stmt],
    second: list[ast.stmt],
    carried: list[str],
    extent: ast.expr,
    tensor: str,
) -> None:
    kernel = launch.kernel
    slots = {name: fresh(module, f"{name}_rows_ptr") for name in carried}
    apply = copy.deepcopy(kernel)
    apply.name = fresh(module, f"{kernel.name}_apply")
    loads = [statement(f"{name} = tl.load({slot} + tl.program_id(0))") for name, slot in slots.items()]
    apply.body = [*loads, *second]
    kernel.body = [*first, *(statement(f"tl.store({slot} + tl.program_id(0), {name})") for name, slot in slots.items())]
    module.body.insert(module.body.index(kernel) + 1, apply)
    again = copy.deepcopy(launch.call)
    assert isinstance(again.func, ast.Subscript)
    again.func.value = ast.Name(apply.name, ast.Load())
    for function in (kernel, apply):
        function.args.args += [ast.arg(slot) for slot in slots.values()]
    block, i = next(
        (b, i)
        for b in (n.body for n in ast.walk(launch.host) if hasattr(n, "body") and isinstance(n.body, list))
        for i, s in enumerate(b)
        if isinstance(s, ast.Expr) and s.value is launch.call
    )
    block.insert(i + 1, ast.Expr(again))
    for name, slot in reversed(slots.items()):
        buffer = fresh(module, f"{name}_rows")
        for call in (launch.call, again):
            call.keywords.append(ast.keyword(slot, ast.Name(buffer, ast.Load())))
        code = f"{buffer} = torch.empty({ast.unparse(extent)}, device={tensor}.device, dtype=torch.float32)"
        block.insert(i, statement(code))
    if not any(isinstance(s, ast.Import) and any(a.name == "torch" for a in s.names) for s in module.body):
        module.body.insert(0, statement("import torch"))
