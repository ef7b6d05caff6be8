"""Edits of CUDA C++ text: hints, pragmas, bounds, intrinsics, strides and persistent blocks."""

from __future__ import annotations

import ast
import random
import re

from harness.search.mutate.programs import add_constant
from harness.search.mutate.registry import cuda_texts, edit, text_edit
from harness.search.mutate.source import calls, expression, fresh, functions, keyword

BUILT_IN = r"(?:float|float2|float4|uint4|u16|u32|unsigned short|unsigned int|unsigned char|int|long long|double)"
LOADS = ("__ldg", "__ldcs", "__ldcg", "__ldca", "__ldlu", "__ldcv")
STORES = ("__stcs", "__stcg", "__stwt", "__stwb")
_FOR = re.compile(r"^([ \t]*)for \(", re.MULTILINE)
_STRIDED = re.compile(r"for \(int (\w+) = (threadIdx\.x|lane); \1 < (\w+); \1 \+= (THREADS|blockDim\.x|32|TEAM)\)")
_SHUFFLE_LOOP = re.compile(r"for \(int d = (16|WIDTH / 2|TEAM / 2); d > 0; d >>= 1\)")


def _substitute(text: str, match: re.Match[str], new: str) -> str:
    return text[: match.start()] + new + text[match.end() :]


@text_edit("unroll_pragma", "loop", weight=2.0)
def unroll_pragma(text: str, rng: random.Random) -> str | None:
    """Add, change or remove an unroll pragma."""
    existing = list(re.finditer(r"^[ \t]*#pragma unroll[^\n]*\n", text, re.MULTILINE))
    if existing and rng.random() < 0.4:
        new = rng.choice(("", "#pragma unroll 1\n", "#pragma unroll 2\n", "#pragma unroll\n", "#pragma unroll 4\n"))
        return _substitute(text, rng.choice(existing), new)
    bare = [
        m for m in _FOR.finditer(text) if "#pragma unroll" not in text[: m.start()].rstrip("\n").rsplit("\n", 1)[-1]
    ]
    if not bare:
        return None
    site = rng.choice(bare)
    return text[: site.start()] + f"#pragma unroll {rng.choice((1, 2, 4, 8, 16))}\n" + text[site.start() :]


def _pointers(text: str, const: bool) -> list[str]:
    pattern = rf"(const )?{BUILT_IN}\s*\*\s*(?:__restrict__ )?(\w+)"
    return sorted({m.group(2) for m in re.finditer(pattern, text) if bool(m.group(1)) == const})


@text_edit("load_hint", "memory", weight=2.0)
def load_hint(text: str, rng: random.Random) -> str | None:
    """Read global memory through another cache operator."""
    hinted = list(re.finditer(r"__ld(?:g|cs|cg|ca|lu|cv)\b", text))
    plain = [
        m
        for name in _pointers(text, const=True)
        for m in re.finditer(rf"(?<![\w&.>]){name}\[([^\[\]]+)\](?!\s*=[^=])", text)
    ]
    if hinted and (not plain or rng.random() < 0.4):
        site = rng.choice(hinted)
        return _substitute(text, site, rng.choice([name for name in LOADS if name != site.group(0)]))
    if not plain:
        return None
    site = rng.choice(plain)
    return _substitute(text, site, f"{rng.choice(LOADS)}(&{site.group(0)})")


@text_edit("store_hint", "memory", weight=1.5)
def store_hint(text: str, rng: random.Random) -> str | None:
    """Write global memory through another cache operator."""
    hinted = list(re.finditer(r"__st(?:cs|cg|wt|wb)\b", text))
    plain = [
        m
        for name in _pointers(text, const=False)
        for m in re.finditer(rf"(?<![\w&.>*]){name}\[([^\[\]]+)\] = ([^;]+);", text)
    ]
    if hinted and (not plain or rng.random() < 0.4):
        site = rng.choice(hinted)
        return _substitute(text, site, rng.choice([name for name in STORES if name != site.group(0)]))
    if not plain:
        return None
    site = rng.choice(plain)
    target, value = site.group(0).split(" = ", 1)
    return _substitute(text, site, f"{rng.choice(STORES)}(&{target}, {value[:-1]});")


@text_edit("launch_bounds", "constants", weight=1.5)
def launch_bounds(text: str, rng: random.Random) -> str | None:
    """Ask the compiler for more resident blocks, or leave it free."""
    site = re.search(r"__launch_bounds__\((\w+(?: \* \w+)?)(?:, (\d+))?\)", text)
    if site is None:
        return None
    choices = [f"__launch_bounds__({site.group(1)}, {n})" for n in (1, 2, 3, 4, 6, 8) if str(n) != site.group(2)]
    return _substitute(text, site, rng.choice([*choices, ""]))


@text_edit("fast_math", "algorithm", weight=1.5)
def fast_math(text: str, rng: random.Random) -> str | None:
    """Exchange accurate functions and intrinsics."""
    table = {
        r"(?<![_\w])expf\(": "__expf(",
        r"__expf\(": "expf(",
        r"(?<![_\w])logf\(": "__logf(",
        r"(?<![_\w])rsqrtf\(": "1.0f / sqrtf(",
        r"1\.0f / sqrtf\(": "rsqrtf(",
        r"1\.0f / (\w+);": r"__frcp_rn(\1);",
        r"(?<![\w.)])([a-z]\w*\.[xyzw]) / ([a-z]\w*)": r"__fdividef(\1, \2)",
        r"= ([a-z]\w*) / (total|scale|peak);": r"= __fdividef(\1, \2);",
        r"__fdividef\(([\w.]+), (\w+)\)": r"(\1 / \2)",
    }
    sites = [(pattern, new) for pattern, new in table.items() if re.search(pattern, text)]
    if not sites:
        return None
    pattern, new = rng.choice(sites)
    return re.sub(pattern, new, text)


@text_edit("exp2_cuda", "algorithm")
def exp2_cuda(text: str, rng: random.Random) -> str | None:
    """Compute an exponential in base 2."""
    sites = list(re.finditer(r"(?<![_\w])(?:__)?expf\(", text))
    if not sites:
        return None
    for site in rng.sample(sites, len(sites)):
        end = _closing(text, site.end() - 1)
        if end is not None:
            return f"{text[: site.start()]}exp2f(({text[site.end() : end]}) * 1.44269504f){text[end + 1 :]}"
    return None


def _closing(text: str, opening: int) -> int | None:
    """Return the position of the bracket that closes the one at `opening`."""
    depth = 0
    pairs = {"(": ")", "{": "}"}
    for i in range(opening, len(text)):
        depth += (text[i] == text[opening]) - (text[i] == pairs[text[opening]])
        if depth == 0:
            return i
    return None


@text_edit("restrict", "memory", weight=1.2)
def restrict(text: str, rng: random.Random) -> str | None:
    """Promise that the kernel's pointers do not alias, or take the promise back."""
    body = _kernel(text)
    if body is None:
        return None
    signature, _, _ = body
    old = text[signature[0] : signature[1]]
    if "__restrict__" in old:
        new = old.replace("__restrict__ ", "")
    else:
        new = re.sub(r"\*\s*(\w+)", r"* __restrict__ \1", old)
    return text[: signature[0]] + new + text[signature[1] :]


def _kernel(text: str) -> tuple[tuple[int, int], int, int] | None:
    """Return the span of the parameters of the first kernel, and where its body opens and closes."""
    start = text.find("__global__")
    site = (
        re.compile(r"\w+\s*\((?!\w+(?: \* \w+)?(?:, \d+)?\)\s*\n)").search(text, text.find("\n", start))
        if start >= 0
        else None
    )
    if site is None:
        return None
    end = _closing(text, site.end() - 1)
    opening = text.find("{", end or 0)
    closing = _closing(text, opening) if end is not None and opening >= 0 else None
    return None if end is None or closing is None else ((site.end(), end), opening, closing)


@text_edit("thread_stride", "loop", weight=1.2)
def thread_stride(text: str, rng: random.Random) -> str | None:
    """Let each thread walk a stretch of its own, or walk the elements backwards."""
    sites = list(_STRIDED.finditer(text))
    if not sites:
        return None
    site = rng.choice(sites)
    i, first, end, step = site.groups()
    if rng.random() < 0.6:
        last = f"{first} + ({end} - 1 - {first} + {step}) / {step} * {step} - {step}"
        new = f"for (int {i} = {last}; {i} >= 0; {i} -= {step})"
    else:
        per = f"(({end} + {step} - 1) / {step})"
        new = f"for (int {i} = {first} * {per}; {i} < {end} && {i} < ({first} + 1) * {per}; ++{i})"
    return _substitute(text, site, new)


@text_edit("shuffle_form", "algorithm")
def shuffle_form(text: str, rng: random.Random) -> str | None:
    """Reduce a warp in another order; a down shuffle leaves the total in the first lane only."""
    sites = list(_SHUFFLE_LOOP.finditer(text))
    if sites and rng.random() < 0.75:
        site = rng.choice(sites)
        return _substitute(text, site, f"for (int d = 1; d <= {site.group(1)}; d <<= 1)")
    shuffles = list(re.finditer(r"__shfl_(xor|down)_sync", text))
    if not shuffles:
        return None
    site = rng.choice(shuffles)
    return _substitute(text, site, "__shfl_down_sync" if site.group(1) == "xor" else "__shfl_xor_sync")


@text_edit("double_accumulator", "precision")
def double_accumulator(text: str, rng: random.Random) -> str | None:
    """Accumulate in double precision, or back in single precision."""
    sites = list(re.finditer(r"\bfloat (total|s|sum|acc|t) = 0(?:\.0?)?f?;", text))
    back = list(re.finditer(r"\bdouble (total|s|sum|acc|t) = 0\.0;", text))
    if back and (not sites or rng.random() < 0.5):
        site = rng.choice(back)
        return _substitute(text, site, f"float {site.group(1)} = 0.0f;")
    if not sites:
        return None
    site = rng.choice(sites)
    return _substitute(text, site, f"double {site.group(1)} = 0.0;")


@text_edit("index_bits", "memory", weight=0.6)
def index_bits(text: str, rng: random.Random) -> str | None:
    """Compute a row offset in 32 bits."""
    sites = list(re.finditer(r"static_cast<long long>\(([\w.]+)\)", text))
    if not sites:
        return None
    site = rng.choice(sites)
    return _substitute(text, site, f"static_cast<int>({site.group(1)})")


@edit("persistent_blocks", "loop", "cuda", weight=2.0)
def persistent_blocks(module: ast.Module, rng: random.Random, partner: ast.Module | None) -> bool:
    """Launch a fixed number of blocks, each of which strides over what were the blocks."""
    texts = [t for t in cuda_texts(module) if str(t.value).count("__global__") == 1]
    sites = [
        n
        for f in functions(module).values()
        for n in ast.walk(f)
        if isinstance(n, ast.Call) and keyword(n, "grid") and keyword(n, "args") and keyword(n, "block")
    ]
    if len(texts) != 1 or len(sites) != 1:
        return False
    text, call = str(texts[0].value), sites[0]
    found = _kernel(text)
    grid, arguments = keyword(call, "grid"), keyword(call, "args")
    if found is None or grid is None or arguments is None or not isinstance(arguments.value, ast.List):
        return False
    (_, end), opening, closing = found
    body = text[opening + 1 : closing]
    shared, leaves = "__shared__" in body, "return;" in body
    if "gridDim" in body or "blockIdx.x" not in body or (shared and leaves):
        return False
    extent = _extent(module, grid.value)
    if extent is None:
        return False
    body = body.replace("blockIdx.x", "block").replace("return;", "continue;")
    barrier = "  __syncthreads();\n" if shared else ""
    loop = f"\n  for (int block = blockIdx.x; block < blocks_total; block += gridDim.x) {{{body}{barrier}  }}\n"
    texts[0].value = f"{text[:end]}, int blocks_total{text[end : opening + 1]}{loop}{text[closing:]}"
    limit = add_constant(module, fresh(module, "PROGRAMS"), rng.choice((132, 264, 528, 1056, 2112)))
    arguments.value.elts.append(extent)
    grid.value = expression(f"(min({ast.unparse(extent)}, {limit}), 1, 1)")
    return True


def _extent(module: ast.Module, grid: ast.expr) -> ast.expr | None:
    if isinstance(grid, ast.Tuple) and [ast.unparse(e) for e in grid.elts[1:]] == ["1", "1"]:
        return grid.elts[0]
    return expression(f"{grid.id}[0]") if isinstance(grid, ast.Name) else None


@edit("compiler_options", "host", "cuda", weight=1.5)
def compiler_options(module: ast.Module, rng: random.Random, partner: ast.Module | None) -> bool:
    """Compile with fast arithmetic, without contraction, or with a limit on registers."""
    sites = calls(module, "torch.cuda._compile_kernel")
    if not sites:
        return False
    call = rng.choice(sites)
    options = (
        "--use_fast_math",
        "--fmad=false",
        "--maxrregcount=32",
        "--maxrregcount=64",
        "--extra-device-vectorization",
    )
    found = keyword(call, "nvcc_options")
    if found:
        call.keywords.remove(found)
    call.keywords.append(ast.keyword("nvcc_options", ast.List([ast.Constant(rng.choice(options))])))
    return True
