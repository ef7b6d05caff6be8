"""Numbers that describe one kernel source: what it contains, not what it is called."""

from __future__ import annotations

import ast
import math
import operator
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache

Features = dict[str, float]
Nodes = list[tuple[ast.AST, int]]
LOOPS = (ast.For, ast.While)  # a tuple, which isinstance takes much faster than a union
UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError)  # what the parser raises for odd source

_TRITON = (
    "load store dot sum max min exp exp2 log log2 sqrt rsqrt sigmoid tanh where cumsum associative_scan atomic_add "
    "arange program_id num_programs range static_range make_block_ptr advance make_tensor_descriptor trans reshape "
    "expand_dims broadcast_to cdiv next_power_of_2 multiple_of max_contiguous fma full zeros cast abs maximum "
    "minimum"
)
_CALLS = frozenset(_TRITON.split())
_TORCH = {
    "allocate": "empty empty_like new_empty empty_strided",
    "fill": "zeros zeros_like ones ones_like full full_like new_zeros zero fill",
    "copy": "contiguous clone copy float half bfloat16 type transpose permute",
    "matmul": "matmul mm bmm addmm einsum linear baddbmm scaled_dot_product_attention conv1d conv2d",
    "reduce": "sum mean var amax amin norm softmax log_softmax logsumexp layer_norm rms_norm group_norm cross_entropy",
    "pointwise": "mul add sub div exp sqrt rsqrt sigmoid silu gelu relu tanh pow square where clamp",
    "compile": "compile script",
}
_TORCH_KIND = {name: kind for kind, names in _TORCH.items() for name in names.split()}
_DTYPES = ("float32", "bfloat16", "float16", "float64", "int32", "int64", "int8", "float8")
_CUDA = {
    "kernels": r"__global__", "shared": r"__shared__", "sync": r"__syncthreads|__syncwarp", "shuffle": r"__shfl\w*",
    "loop": r"\bfor\s*\(", "unroll": r"#pragma unroll", "exp": r"\b(__expf|expf|exp2f|exp)\s*\(",
    "rsqrt": r"rsqrtf?\s*\(", "divide": r"/\s*[a-z_(]", "ldg": r"__ldg|__ldcs|__ldcg", "asm": r"\basm\b",
    "atomic": r"atomic\w+", "bounds": r"__launch_bounds__", "vec2": r"\b(float2|half2|__half2|__nv_bfloat162|uint2)\b",
    "vec4": r"\b(float4|uint4|int4)\b", "cast": r"reinterpret_cast|__bfloat162float|__float2bfloat16|__half2float",
    "restrict": r"__restrict__", "branch": r"\bif\s*\(", "double": r"\bdouble\b",
}  # fmt: skip
_CUDA_PATTERNS = {name: re.compile(pattern) for name, pattern in _CUDA.items()}
_CUDA_CONSTANT = re.compile(r"(?:#define\s+|constexpr\s+\w+\s+|const\s+int\s+)(\w+)\s*=?\s*\(?(\d+)\b")
_ARITHMETIC: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv, ast.Add: operator.add, ast.Sub: operator.sub,
}  # fmt: skip
_ROLES = {
    "warps": re.compile(r"warps", re.I),
    "stages": re.compile(r"stages", re.I),
    "threads": re.compile(r"thread|^tpb$|block_?dim", re.I),
    "vector": re.compile(r"vec|unroll|elems|per_thread|items", re.I),
    "rows": re.compile(r"row|program|persist|split|waves", re.I),
    "group": re.compile(r"group", re.I),
    "block": re.compile(r"block|tile|chunk|^b[mnkdcv]$|size", re.I),
}


def source_features(code: str) -> Mapping[str, float]:
    """Return the features of one source file; source that Python cannot parse is described by its text alone."""
    return _analysed(code)[0]


def constants(code: str) -> Mapping[str, int]:
    """Return the integers that a source gives a name: assignments, keyword arguments, defaults and C++ constants.

    A name given several values keeps the largest.
    """
    return _analysed(code)[1]


@lru_cache(maxsize=16384)
def _analysed(code: str) -> tuple[Features, dict[str, int]]:
    features: Features = {"chars": math.log2(1 + len(code)), "lines": float(code.count("\n") + 1)}
    try:
        nodes = _with_loop_depth(ast.parse(code))
        features.update(_node_features(nodes))
    except UNREADABLE:
        _add_cuda(features, code)
        return {**features, "unparsed": 1.0}, _cuda_constants(code)
    found: dict[str, int] = {}
    for node, _ in nodes:
        for name, value in _named_values(node):
            number = _integer(value, found)
            if number is not None:
                found[name] = max(number, found.get(name, number))
    cuda = "\n".join(_cuda_strings(nodes))
    found.update(_cuda_constants(cuda))
    _add_cuda(features, cuda)
    _add_constants(features, found)
    return features, found


def _named_values(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        yield from _target_values(node.targets[0], node.value)
    elif isinstance(node, ast.AnnAssign) and node.value is not None and isinstance(node.target, ast.Name):
        yield node.target.id, node.value
    elif isinstance(node, ast.keyword) and node.arg and node.arg not in ("axis", "dim"):
        yield node.arg, node.value
    elif isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                yield key.value, value


def _target_values(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        for t, v in zip(target.elts, value.elts, strict=True):
            yield from _target_values(t, v)


def _integer(node: ast.expr, known: Mapping[str, int]) -> int | None:
    """Return the value of an expression over integer literals and constants seen so far, or None."""
    if isinstance(node, ast.Constant):
        return node.value if type(node.value) is int and abs(node.value) < 2**40 else None
    if isinstance(node, ast.Name):
        return known.get(node.id)
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        left, right = _integer(node.left, known), _integer(node.right, known)
        if left is not None and right is not None and not (isinstance(node.op, ast.FloorDiv) and right == 0):
            return _ARITHMETIC[type(node.op)](left, right)
    return None


def role(name: str) -> str:
    """Return what a constant of this name controls: warps, stages, threads, vector, rows, group, block or other."""
    return next((role for role, pattern in _ROLES.items() if pattern.search(name)), "other")


def _node_features(nodes: Nodes) -> Features:
    count: Counter[str] = Counter()
    for node, depth in nodes:
        count["nodes"] += 1
        count["depth"] = max(count["depth"], depth)
        if isinstance(node, ast.Call):
            _count_call(count, node, depth)
        elif isinstance(node, ast.FunctionDef):
            jitted = any("jit" in ast.unparse(d) for d in node.decorator_list)
            count["jit" if jitted else "functions"] += 1
            count["autotune"] += any("autotune" in ast.unparse(d) for d in node.decorator_list)
            count["arguments"] += len(node.args.args) if jitted else 0
        elif isinstance(node, LOOPS):
            count["loops"] += 1
            count["nested_loops"] += depth > 0
        elif isinstance(node, ast.Attribute) and node.attr.startswith(_DTYPES):
            count[f"dtype.{node.attr.partition('_')[0]}"] += 1
        elif isinstance(node, (ast.BinOp, ast.AugAssign, ast.UnaryOp, ast.BoolOp)):
            count[f"op.{type(node.op).__name__}"] += 1
            count["op.loop"] += depth > 0
        elif isinstance(node, ast.Compare):
            count["op.compare"] += len(node.ops)
        elif isinstance(node, ast.Subscript):
            count["subscripts"] += 1
        elif isinstance(node, ast.Constant) and type(node.value) is int and node.value > 1:
            count["integers"] += 1
            count["largest_integer"] = max(count["largest_integer"], min(node.value, 2**40))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("-"):
            # A compiler's option; what it sets is worth more than how many there are.
            count["options"] += 1
            count["fast_math"] += "fast_math" in node.value or "fmad=true" in node.value
            count["register_limit"] += sum(int(n) for n in re.findall(r"maxrregcount=(\d{1,3})", node.value))
        elif isinstance(node, (ast.If, ast.IfExp)):
            count["branches"] += 1
    features = {name: float(n) for name, n in count.items()}
    features["nodes"] = math.log2(1 + features["nodes"])
    features["largest_integer"] = math.log2(1 + features.get("largest_integer", 0.0))
    return features


def _with_loop_depth(tree: ast.AST) -> Nodes:
    """Return all nodes in the order of the source, each with the number of loops around it."""
    nodes, open_ = [], [(tree, 0)]
    while open_:
        node, depth = open_.pop()
        nodes.append((node, depth))
        inner = depth + isinstance(node, LOOPS)
        children = [(child, inner) for child in ast.iter_child_nodes(node)]
        open_.extend(reversed(children))
    return nodes


def _count_call(count: Counter[str], node: ast.Call, depth: int) -> None:
    if isinstance(node.func, ast.Subscript) or any(k.arg == "grid" for k in node.keywords):
        count["launches"] += 1
        count["launches_in_loop"] += depth > 0
        return
    if not isinstance(node.func, ast.Attribute):
        return
    name = node.func.attr
    owner = node.func.value.id if isinstance(node.func.value, ast.Name) else ""
    if owner in ("tl", "triton", "libdevice", "math") or owner == "language":
        if name in _CALLS:
            count[f"tl.{name}"] += 1
            if depth and name in ("load", "store", "dot", "exp", "sum", "max"):
                count[f"tl.{name}.loop"] += 1
        for keyword in node.keywords:
            if keyword.arg in ("mask", "other", "eviction_policy", "cache_modifier", "num_stages", "input_precision"):
                count[f"tl.{keyword.arg}"] += 1
        if name == "Config":
            count["configs"] += 1
    elif (kind := _TORCH_KIND.get(name.rstrip("_"))) is not None:
        count[f"torch.{kind}"] += 1
        count["torch.in_place"] += name.endswith("_") or any(k.arg == "out" for k in node.keywords)
        count["torch.calls"] += owner in ("torch", "F")
    if name == "to":
        count["casts"] += 1


def _cuda_strings(nodes: Nodes) -> list[str]:
    strings = (n.value for n, _ in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str))
    return [text for text in strings if "__global__" in text or "#include" in text or "__device__" in text]


def _cuda_constants(text: str) -> dict[str, int]:
    return {name: int(value) for name, value in _CUDA_CONSTANT.findall(text) if len(value) < 12}


def _add_cuda(out: Features, text: str) -> None:
    if not text:
        return
    out["cuda.chars"] = math.log2(1 + len(text))
    for name, pattern in _CUDA_PATTERNS.items():
        out[f"cuda.{name}"] = float(len(pattern.findall(text)))


def _add_constants(out: Features, values: Mapping[str, int]) -> None:
    by_role: dict[str, list[float]] = {}
    for name, value in values.items():
        if value > 0:
            by_role.setdefault(role(name), []).append(math.log2(value))
    for name, logs in by_role.items():
        out[f"const.{name}.max"] = max(logs)
        out[f"const.{name}.min"] = min(logs)
        out[f"const.{name}.sum"] = sum(logs)
        out[f"const.{name}.n"] = float(len(logs))
