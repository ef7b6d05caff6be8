"""The operator class of an edit, read from the difference between the trees of parent and child.

Checked in this order: only numbers and launch options differ (constants); a definition of the child comes from the
second parent (recombination); only host code differs (host); the number of kernels, or of tensor operations in
PyTorch code, changed (fusion); loops or the cut of the iteration space changed (loop). What is left is decided by
what most of the added and removed parts do: arithmetic (algorithm), addresses and traffic (memory), types (precision).
"""

from __future__ import annotations

import ast
import copy
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

from harness.search.mutate.source import called, is_kernel

LAUNCH_OPTIONS = frozenset({"num_warps", "num_stages", "maxnreg", "num_ctas"})


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_LOOP = _words("""
    For While comprehension range static_range arange reversed program_id num_programs num_stages loop_unroll_factor
    flatten cdiv Continue Break while do unroll unroll_count blockIdx gridDim chunk split
""")
_PRECISION = _words("""
    to cast float half double bfloat16 float16 float32 float64 dtype input_precision allow_tf32 out_dtype element_ty
    bitcast tf32 tf32x3 ieee fp_downcast_rounding type
""")
_MEMORY = _words("""
    load store mask other cache_modifier eviction_policy volatile multiple_of max_contiguous max_constancy reshape
    make_block_ptr advance contiguous empty empty_like zeros zeros_like out copy clone view int64 int32 debug_barrier
    swizzle2d trans __ldg __ldcs __ldca __ldcg __ldlu __ldcv __stcs __stcg __stwt __stwb __shared__ __restrict__ const
    reinterpret_cast float2 float4 uint4 __syncthreads __syncwarp long int unsigned [ ] & * _
""")
_REDUCTIONS = frozenset({"sum", "max", "min"})
_OPERATORS = {"Mult": "mul", "Add": "add", "Sub": "sub", "Div": "div"}
_FREE_CALLS = _words("""
    to float half bfloat16 double contiguous view reshape squeeze unsqueeze flatten unflatten expand numel size stride
    element_size next_power_of_2 cdiv empty empty_like zeros zeros_like full full_like range reversed slice len chunk
    clone arange
""")
_TOKEN = re.compile(r"[A-Za-z_]\w*|\.?\d[\w.]*|<<=|>>=|[-+*/%&|^<>=!]=|<<|>>|&&|\|\||\+\+|--|\S")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_SIMPLE = (ast.Assign, ast.AugAssign, ast.Expr, ast.Return)
_NAMES = re.compile(r"(?<=id=')\w+")
_BOUNDS = re.compile(r"__launch_bounds__\s*\((?:[^()]|\([^()]*\))*\)")


class _Normalise(ast.NodeTransformer):
    """Blank numbers and C++ sources, drop docstrings and launch options, collect the C++ tokens."""

    def __init__(self) -> None:
        self.tokens: list[str] = []

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        if isinstance(node.value, (int, float)) and not isinstance(node.value, bool):
            return ast.Constant(0)
        if isinstance(node.value, str) and ("__global__" in node.value or "#define" in node.value):
            self.tokens += cuda_tokens(node.value)
            return ast.Constant("source")
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        return node.operand if isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant) else node

    def visit_Call(self, node: ast.Call) -> ast.Call:
        self.generic_visit(node)
        if isinstance(node.func, ast.Subscript) or called(node) in ("triton.Config", "Config"):
            node.keywords = [k for k in node.keywords if k.arg not in LAUNCH_OPTIONS]
        return node

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            return None
        return self.generic_visit(node)


def cuda_tokens(text: str) -> list[str]:
    """Return the tokens of C++ text without comments and launch bounds, numbers blanked."""
    bare = _BOUNDS.sub("", _COMMENT.sub("", text))
    bare = re.sub(
        r"#pragma unroll[ \t]*\(?\w*\)?", lambda m: "unroll unroll_count" if m[0][-1] != "l" else "unroll", bare
    )
    tokens = ["0" if re.match(r"\.?\d", token) else token for token in _TOKEN.findall(bare)]
    return list(_headers_marked(tokens))


def _headers_marked(tokens: list[str]) -> Iterator[str]:
    """Tell the tokens in the head of a loop from the same ones elsewhere."""
    depth = 0
    for i, token in enumerate(tokens):
        if depth or (token == "(" and i and tokens[i - 1] == "for"):
            depth += (token == "(") - (token == ")")
            yield f"for:{token}"
        else:
            yield token


class _Code:
    def __init__(self, code: str) -> None:
        normalise = _Normalise()
        self.module: ast.Module = normalise.visit(ast.parse(code))
        self.tokens = normalise.tokens
        self.kernels = [n for n in self.module.body if isinstance(n, ast.FunctionDef) and is_kernel(n)]
        self.host = [n for n in self.module.body if n not in self.kernels]

    @cached_property
    def bodies(self) -> set[str]:
        functions = [n for n in self.module.body if isinstance(n, ast.FunctionDef) and len(n.body) > 1]
        found = {_NAMES.sub("", "".join(ast.dump(s) for s in f.body)) for f in functions}
        return found | ({" ".join(self.tokens)} if self.tokens else set())

    @cached_property
    def parts(self) -> list[_Part]:
        return _parts(self)

    @property
    def device(self) -> tuple[list[str], list[str]]:
        return [ast.dump(kernel) for kernel in self.kernels], self.tokens

    @property
    def launched(self) -> int:
        return len(self.kernels) + self.tokens.count("__global__")

    @property
    def computing(self) -> list[ast.stmt]:
        """The code that does the work: the kernels, or everything where PyTorch does it."""
        return list(self.kernels) if self.launched else list(self.host)


@lru_cache(maxsize=256)
def _analysed(code: str) -> _Code:
    """Return the analysis of a parent, which many children share."""
    return _Code(code)


def operator_class(parent_code: str, child_code: str, partner_code: str | None = None) -> str:
    """Return the class of an edit, one of `benchmark.records.OPERATOR_CLASSES`.

    `partner_code` is the second parent of a recombination. Raises SyntaxError if a code does not parse.
    """
    parent, child = _analysed(parent_code), _Code(child_code)
    if ast.dump(parent.module) == ast.dump(child.module) and parent.tokens == child.tokens:
        return "constants"
    if partner_code is not None and _taken(child, _analysed(partner_code)) - _taken(child, parent):
        return "recombination"
    if parent.launched and parent.device == child.device:
        return "host"
    if parent.launched != child.launched:
        return "fusion"
    if not parent.launched and _operations(parent) != _operations(child) and _loops(parent) == _loops(child):
        return "fusion"
    return _by_parts(parent, child)


def _taken(child: _Code, source: _Code) -> set[str]:
    """Return the definitions of the child that stand in a source, whatever the names in them."""
    return child.bodies & source.bodies


def _operations(code: _Code) -> int:
    """Return how many tensor operations PyTorch code spells out; views, casts and allocations are free."""
    count = 0
    for tree in code.computing:
        for node in ast.walk(tree):
            if isinstance(node, ast.BinOp):
                count += 1
            elif isinstance(node, ast.Call):
                name = called(node).split(".")[-1] or (node.func.attr if isinstance(node.func, ast.Attribute) else "")
                count += name not in _FREE_CALLS
    return count


def _loops(code: _Code) -> int:
    return sum(isinstance(n, (ast.For, ast.While, ast.comprehension)) for t in code.computing for n in ast.walk(t))


@dataclass(frozen=True)
class _Part:
    """A syntactic part, what it does, and how many loops it stands in."""

    label: str
    kind: str
    depth: int = 0


def _parts(code: _Code) -> list[_Part]:
    """Return the parts of the computing code in their order; operators inside addresses do memory access."""
    found = []
    for tree in code.computing:
        for node, addressing, depth in _walk(tree, False, 0, _address_names(tree)):
            found += [_Part(label, _kind(label, addressing), depth) for label in _labels(node)]
    return found + [_Part(token, _kind(token, False)) for token in code.tokens if token not in "(){};,"]


def _labels(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.operator):
        yield _OPERATORS.get(type(node).__name__, type(node).__name__)
    elif isinstance(node, (ast.For, ast.While, ast.comprehension, ast.Continue, ast.Break, ast.cmpop)):
        yield type(node).__name__
    elif isinstance(node, ast.Attribute):
        yield node.attr.rstrip("_")
        if node.attr.endswith("_"):
            yield "_"  # in place
    elif isinstance(node, ast.Name) and node.id in ("range", "reversed", "float"):
        yield node.id
    elif isinstance(node, ast.keyword) and node.arg:
        yield node.arg


def _kind(label: str, addressing: bool) -> str:
    if label in _LOOP or label.startswith("for:"):
        return "loop"
    if label in _PRECISION and not addressing:
        return "precision"
    return "memory" if addressing or label in _MEMORY else "algorithm"


def _walk(node: ast.AST, addressing: bool, depth: int, addresses: set[str]) -> Iterator[tuple[ast.AST, bool, int]]:
    yield node, addressing, depth
    if called(node) in ("tl.zeros", "tl.full"):
        return  # the format of an accumulator goes with the accumulator
    depth += isinstance(node, (ast.For, ast.While))
    for child in ast.iter_child_nodes(node):
        inside = addressing
        if isinstance(node, ast.Call) and called(node) in ("tl.load", "tl.store") and child is not node.func:
            stored = called(node) == "tl.store" and len(node.args) > 1 and child is node.args[1]
            inside = not stored
        elif isinstance(node, ast.Assign) and all(isinstance(t, ast.Name) and t.id in addresses for t in node.targets):
            inside = True
        yield from _walk(child, inside, depth, addresses)


def _address_names(tree: ast.AST) -> set[str]:
    """Return the names that serve only to say where to read or write, found backwards from loads and stores."""
    addresses: set[str] = set()
    for node in ast.walk(tree):
        if called(node) in ("tl.load", "tl.store") and isinstance(node, ast.Call):
            for part in [*node.args[:1], *(k.value for k in node.keywords if k.arg == "mask")]:
                addresses |= {n.id for n in ast.walk(part) if isinstance(n, ast.Name)}
    assigns = [n for n in ast.walk(tree) if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name)]
    for _ in assigns:
        more = {
            n.id
            for a in assigns
            if isinstance(a.targets[0], ast.Name) and a.targets[0].id in addresses and not _loads(a.value)
            for n in ast.walk(a.value)
            if isinstance(n, ast.Name)
        }
        if more <= addresses:
            break
        addresses |= more
    return {a.targets[0].id for a in assigns if isinstance(a.targets[0], ast.Name)} & addresses - {
        a.targets[0].id for a in assigns if isinstance(a.targets[0], ast.Name) and _loads(a.value)
    }


def _loads(tree: ast.AST) -> bool:
    return any(called(node) == "tl.load" for node in ast.walk(tree))


def _by_parts(parent: _Code, child: _Code) -> str:
    parts = [code.parts for code in (parent, child)]
    bare = [Counter((p.label, p.kind) for p in found) for found in parts]
    weight: Counter[str] = Counter()
    for (_, kind), count in ((bare[1] - bare[0]) + (bare[0] - bare[1])).items():
        weight[kind] += count
    if weight["loop"] or _moved_reductions(*parts) or (not weight and Counter(parts[0]) != Counter(parts[1])):
        return "loop"
    if not weight:
        return _by_order(parent, child)
    return max(("algorithm", "memory", "precision"), key=lambda kind: weight[kind])


def _moved_reductions(parent: list[_Part], child: list[_Part]) -> bool:
    """Return whether a reduction of both stands in another number of loops."""
    depths = [
        {label: {p.depth for p in parts if p.label == label} for label in _REDUCTIONS} for parts in (parent, child)
    ]
    return any(depths[0][label] != depths[1][label] for label in _REDUCTIONS if depths[0][label] and depths[1][label])


class _StripCasts(ast.NodeTransformer):
    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if node.attr in ("float16", "bfloat16", "float32", "float64"):
            node.attr = "format"
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        cast = isinstance(node.func, ast.Attribute) and node.func.attr in ("to", "float", "double", "half", "bfloat16")
        return node.func.value if cast and isinstance(node.func, ast.Attribute) else node


def _by_order(parent: _Code, child: _Code) -> str:
    """Decide where the same parts stand elsewhere: conversions, whole statements with a load, or terms."""
    trees = [code.computing for code in (parent, child)]
    stripped = [[ast.dump(_StripCasts().visit(copy.deepcopy(tree))) for tree in code] for code in trees]
    if stripped[0] == stripped[1]:
        return "precision"
    statements = [
        Counter(ast.dump(s) for tree in code for s in ast.walk(tree) if isinstance(s, _SIMPLE)) for code in trees
    ]
    return "memory" if statements[0] == statements[1] else "algorithm"
