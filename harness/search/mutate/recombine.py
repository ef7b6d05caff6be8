"""Edits that take something from a second parent."""

from __future__ import annotations

import ast
import copy
import random

from harness.search.mutate.registry import edit
from harness.search.mutate.source import functions, is_kernel, kernels, launches, names, statement
from tasks.declared import top_constants

ENTRY = "custom_kernel"
LANGUAGES = ("triton", "cuda", "torch")
LIMITS = (
    ("data[0].numel()", (1 << 18, 1 << 20, 1 << 22, 1 << 24, 1 << 26)),
    ("data[0].shape[-1]", (1024, 4096, 16384, 65536)),
)


@edit("borrow_function", "recombination", *LANGUAGES, weight=1.5, partner=True)
def borrow_function(module: ast.Module, rng: random.Random, partner: ast.Module | None) -> bool:
    """Take the body of a function with the same parameters from the second parent."""
    assert partner is not None
    mine, theirs = functions(module), functions(partner)
    known = set(mine) | {n for s in module.body if isinstance(s, ast.Assign) for n in names(s)} | _imports(module)
    sites = []
    for f in mine.values():
        for g in theirs.values():
            fits = is_kernel(f) == is_kernel(g) and _parameters(f) == _parameters(g) and f.name != ENTRY
            if fits and _bodies_differ(f, g) and _free(g) & _defined(partner) <= known:
                sites.append((f, g))
    if not sites:
        return False
    mine_f, theirs_f = rng.choice(sites)
    mine_f.body = copy.deepcopy(theirs_f.body)
    return True


@edit("borrow_constants", "recombination", *LANGUAGES, weight=1.0, partner=True)
def borrow_constants(module: ast.Module, rng: random.Random, partner: ast.Module | None) -> bool:
    """Take the values of all constants that both parents have."""
    assert partner is not None
    theirs = top_constants(partner)
    changed = False
    for name, node in top_constants(module).items():
        if name in theirs and theirs[name].value != node.value and rng.random() < 0.8:
            node.value = theirs[name].value
            changed = True
    return changed


@edit("dispatch", "recombination", *LANGUAGES, weight=1.5, partner=True)
def dispatch(module: ast.Module, rng: random.Random, partner: ast.Module | None) -> bool:
    """Use one parent for small inputs and the other for large ones."""
    assert partner is not None
    if len(functions(module)) + len(functions(partner)) > 10 or ENTRY not in functions(partner):
        return False
    theirs = _renamed(module, partner)
    entry = functions(module).get(ENTRY)
    if entry is None:
        return False
    own, other = f"{ENTRY}_small", f"{ENTRY}_large"
    taken = set(functions(module)) | set(functions(theirs))
    if own in taken or other in taken:
        return False
    entry.name = own
    functions(theirs)[ENTRY].name = other
    imports = {ast.unparse(s) for s in module.body if isinstance(s, (ast.Import, ast.ImportFrom))}
    for s in theirs.body:
        if isinstance(s, (ast.Import, ast.ImportFrom)):
            if ast.unparse(s) not in imports:
                module.body.insert(0, s)
        else:
            module.body.append(s)
    measure, limits = rng.choice(LIMITS)
    first, second = (own, other) if rng.random() < 0.5 else (other, own)
    test = f"if {measure} <= {rng.choice(limits)}:\n        return {first}(data)"
    module.body.append(statement(f"def {ENTRY}(data):\n    {test}\n    return {second}(data)"))
    return True


@edit("borrow_launch", "recombination", "triton", weight=0.6, partner=True)
def borrow_launch(module: ast.Module, rng: random.Random, partner: ast.Module | None) -> bool:
    """Launch a kernel of the second parent that takes the same arguments by name, in place of one's own."""
    assert partner is not None
    sites = [
        (launch, k)
        for launch in launches(module)
        for k in kernels(partner)
        if set(_parameters(k)) == set(_parameters(launch.kernel)) and _bodies_differ(launch.kernel, k)
    ]
    if not sites:
        return False
    launch, kernel = rng.choice(sites)
    launch.kernel.body = copy.deepcopy(kernel.body)
    return True


def _parameters(function: ast.FunctionDef) -> list[str]:
    return [a.arg for a in function.args.args]


def _bodies_differ(a: ast.FunctionDef, b: ast.FunctionDef) -> bool:
    return [ast.dump(s) for s in a.body] != [ast.dump(s) for s in b.body]


def _imports(module: ast.Module) -> set[str]:
    return {
        a.asname or a.name.split(".")[0]
        for s in module.body
        if isinstance(s, (ast.Import, ast.ImportFrom))
        for a in s.names
    }


def _defined(module: ast.Module) -> set[str]:
    bound = {
        n.id
        for s in module.body
        if isinstance(s, ast.Assign)
        for t in s.targets
        for n in ast.walk(t)
        if isinstance(n, ast.Name)
    }
    return bound | set(functions(module))


def _free(function: ast.FunctionDef) -> set[str]:
    return names(function) - set(_parameters(function))


class _Rename(ast.NodeTransformer):
    def __init__(self, table: dict[str, str]) -> None:
        self.table = table

    def visit_Name(self, node: ast.Name) -> ast.Name:
        node.id = self.table.get(node.id, node.id)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        # A parameter or local hides the module's name of the same spelling inside the function.
        local = set(_parameters(node)) | {
            n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        }
        declared = {n for g in ast.walk(node) if isinstance(g, ast.Global) for n in g.names}
        inner = _Rename({k: v for k, v in self.table.items() if k not in local or k in declared})
        for g in ast.walk(node):
            if isinstance(g, ast.Global):
                g.names = [self.table.get(n, n) for n in g.names]
        node.body = [inner.visit(s) for s in node.body]
        node.decorator_list = [inner.visit(d) for d in node.decorator_list]
        node.args.defaults = [self.visit(d) for d in node.args.defaults]
        node.name = self.table.get(node.name, node.name)
        return node


def _renamed(module: ast.Module, partner: ast.Module) -> ast.Module:
    """Return the second parent with new names for what both parents define."""
    taken = _defined(module) | _imports(module)
    clashes = (_defined(partner) & taken) - {ENTRY}
    every = taken | _defined(partner)
    table = {}
    for name in sorted(clashes):
        suffix = "_OTHER" if name.isupper() else "_other"
        new, number = f"{name}{suffix}", 2
        while new in every:
            new, number = f"{name}{suffix}{number}", number + 1
        table[name] = new
        every.add(new)
    renamed = _Rename(table).visit(copy.deepcopy(partner))
    assert isinstance(renamed, ast.Module)
    return renamed
