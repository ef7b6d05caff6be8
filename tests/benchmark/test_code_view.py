from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmark.code_view import code_view, language_of
from benchmark.cuda_source import normalise, scan
from benchmark.telling_names import is_telling, neutral

TRITON = '''"""Targeting 2.4x over the baseline."""
import triton
import triton.language as tl

# the fastest version so far
@triton.jit
def fast_rows(x_ptr, n, BEST_BLOCK: tl.constexpr):
    """Optimised."""
    best_value = tl.load(x_ptr + tl.arange(0, BEST_BLOCK))  # quick
    tl.store(x_ptr, tl.math.fast_expf(best_value))


def custom_kernel(data):
    "speedup 3x"
    fast_rows[(1,)](data[0], 4, BEST_BLOCK=128, num_warps=4)
    return data[0]
'''
CUDA = r'''
import torch

SOURCE = r"""
#include <cuda_fp16.h>  // fast halves
#define SLOW_WIDTH 4 \
    + 4
/* targeting 0.35x
   of the baseline */
extern "C" __global__ void fast_copy(const float* x, float*   out, int n) {
  // loop
  for (int i = 0; i < n; ++i) { out[i] = x[i] * SLOW_WIDTH; }
  printf("// kept %d\n", n);
}
"""


def custom_kernel(data):
    module = torch.cuda._compile_kernel(SOURCE, "fast_copy")
    module.fast_copy(data)
    return data
'''


def test_comments_docstrings_and_telling_names_are_gone() -> None:
    view = code_view(TRITON)
    assert "2.4x" not in view and "3x" not in view and "#" not in view and '"""' not in view
    for word in ("baseline", "fastest", "Optimised", "quick", "fast_rows", "BEST_BLOCK", "best_value"):
        assert word not in view


def test_what_belongs_to_a_library_keeps_its_name() -> None:
    view = code_view(TRITON)
    assert "tl.math.fast_expf(" in view  # an attribute of an import
    assert "def custom_kernel(data):" in view
    assert "num_warps=4" in view
    assert view.count("VARIANT_BLOCK") == 3  # parameter, use, keyword of the launch
    assert code_view("import naive\nfrom lib import fast\n\ndef f(x):\n    return fast(naive.best(x, slow=1))\n") == (
        "import naive\nfrom lib import fast\n\ndef f(x):\n    return fast(naive.best(x, slow=1))\n"
    )


def test_a_keyword_of_a_library_stays_while_a_parameter_of_that_name_is_renamed() -> None:
    view = code_view("import lib\n\ndef f(fast):\n    return lib.g(fast=fast)\n\ndef h(x):\n    return f(fast=x)\n")
    assert "lib.g(fast=variant)" in view and "f(variant=x)" in view


def test_strings_that_name_a_parameter_follow_it() -> None:
    code = (
        "import triton\n\n@triton.autotune(configs=[triton.Config({'FAST_N': 4})], key=['slow_m'])\n@triton.jit\n"
        "def k(x, slow_m, FAST_N):\n    pass\n\nmode = 'fast'\n"
    )
    view = code_view(code)
    assert "{'VARIANT_N': 4}" in view and "key=['variant_m']" in view and "mode = 'fast'" in view


def test_a_view_runs_and_computes_the_same() -> None:
    code = (
        "class FastSum:\n    'a docstring'\n    slow_start = 1\n    def best_total(self, *, fast_n=2):\n"
        "        self.speedup = [i for i in range(fast_n)]\n        return sum(self.speedup) + self.slow_start\n\n"
        "def fast_max(naive, baseline=3):\n    return max(naive, baseline)\n\n"
        "def custom_kernel(data):\n    'doc'\n    if True:\n        'only this'\n"
        "    best = FastSum().best_total(fast_n=data)\n"
        "    return f\"{fast_max(best, baseline=4)!r:>{data}} {'a' + chr(10)} {{}} \\u00e9\"\n"
    )
    results = []
    for source in (code, code_view(code)):
        space: dict[str, object] = {}
        exec(compile(source, "kernel", "exec"), space)
        results.append(space["custom_kernel"](5))  # type: ignore[operator]
    assert results[0] == results[1]
    assert not any(is_telling(name) for name in ("Sum",)) and "Fast" not in code_view(code)


def test_embedded_cuda_is_cleaned_and_stays_valid() -> None:
    view = code_view(CUDA)
    source: dict[str, str] = {}
    exec(view.split("def custom_kernel")[0].replace("import torch", ""), source)
    lines = source["SOURCE"].strip().split("\n")
    assert lines[0] == "#include <cuda_fp16.h>"
    assert lines[1] == "#define VARIANT_WIDTH 4 + 4"
    assert lines[2] == 'extern "C" __global__ void variant_copy(const float* x, float* out, int n) {'
    assert '  printf("// kept %d\\n", n);' in lines
    assert "targeting" not in view and "loop" not in view
    assert "'variant_copy'" in view and "module.variant_copy(data)" in view


def test_cuda_inside_an_f_string_keeps_its_fields() -> None:
    code = (
        "def source(block, name):\n    return f'''__global__ void k() {{ // {block} threads\n"
        "      int a[{block}];   float{block} b; }}\n'''\n"
    )
    results = []
    for text in (code, code_view(code)):
        space: dict[str, object] = {}
        exec(text, space)
        results.append(space["source"](4, "n"))  # type: ignore[operator]
    assert "//" not in results[1]
    assert [t for k, t in scan(results[0]) if k not in ("space", "comment")] == [
        t for k, t in scan(results[1]) if k != "space"
    ]


@pytest.mark.parametrize("template", ["{{ {BODY} }}", "%(body)d %d", "x;{A}{B}"])
def test_white_space_is_never_added_where_a_template_has_none(template: str) -> None:
    assert template in " ".join(normalise(f"#define A 1\n__global__ {template}").split())


def test_a_piece_of_a_source_keeps_its_line_ends() -> None:
    assert normalise("#define N 4\n") + normalise("\n__global__ void k();") == "#define N 4\n\n__global__ void k();"


def test_invalid_python_loses_its_comments_only() -> None:
    view = code_view("def f(:  # targeting 2x\n    return '# kept'  # fast\n")
    assert view == "def f(:\n    return '# kept'"


@pytest.mark.parametrize("code", [TRITON, CUDA, "x = 1\r\ny = f'{x}'\r\n", "", "'only a docstring'", "\0"])
def test_the_view_of_a_view_is_itself(code: str) -> None:
    assert code_view(code_view(code)) == code_view(code)


def test_formatting_and_line_ends_do_not_matter() -> None:
    assert code_view(TRITON.replace("\n", "\r\n")) == code_view(TRITON)
    assert code_view("x=( 1+2 )\n\n\n\ny   =3") == code_view("x = 1 + 2\ny = 3\n")


def test_f_strings_are_written_alike_by_every_version() -> None:
    # The form that ast.unparse of 3.12 gives to the first one is no valid Python on 3.11.
    assert code_view("""x = f"{', '.join(a)} b" """) == """x = f"{', '.join(a)} b"\n"""
    assert code_view("""x = f"{a['k']}{b!r:>{w}}{c + 'é'}" """) == (
        "x = ''.join([format(a['k']), format(repr(b), f'>{w}'), format(c + '\\xe9')])\n"
    )


@pytest.mark.slow
@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13"])
def test_views_are_equal_on_every_supported_version(version: str, root: Path) -> None:
    found = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    if not found:
        pytest.skip(f"no CPython {version}")
    program = (
        "import sys, hashlib, pathlib\nsys.path.insert(0, sys.argv[1])\n"
        "from benchmark.code_view import code_view\nfrom benchmark.structure import structure_hash\n"
        "digest = hashlib.sha256()\n"
        "for path in sorted(pathlib.Path(sys.argv[1], 'benchmark').glob('*.py')):\n"
        "    code = path.read_text()\n    digest.update((code_view(code) + structure_hash(code)).encode())\n"
        "print(digest.hexdigest())\n"
    )
    outputs = [
        subprocess.run([python, "-c", program, str(root)], capture_output=True, text=True, check=True).stdout
        for python in (sys.executable, str(found[0]))
    ]
    assert outputs[0] == outputs[1]


@pytest.mark.parametrize(
    ("name", "renamed"),
    [
        ("fast_softmax", "variant_softmax"),
        ("FastSoftmax", "VariantSoftmax"),
        ("BEST_N", "VARIANT_N"),
        ("speedup_2x_kernel", "variant_kernel"),
        ("_naive", "_variant"),
        ("optimized2", "variant"),
    ],
)
def test_telling_parts_become_neutral(name: str, renamed: str) -> None:
    assert is_telling(name) and neutral(name) == renamed and not is_telling(renamed)


@pytest.mark.parametrize("name", ["breakfast", "slower_bound_index"[1:], "bestow", "contrast", "naivety", "fasten"])
def test_words_that_only_contain_a_telling_one_stay(name: str) -> None:
    assert not is_telling(name)


@pytest.mark.parametrize(
    ("code", "language"),
    [
        (TRITON, "triton"),
        (CUDA, "cuda"),
        ("import torch\n# triton.jit\ndef custom_kernel(d):\n    '__global__ in a docstring'\n    return d\n", "torch"),
        ("from triton import jit as compiled\n\n@compiled\ndef k():\n    pass\n", "triton"),
        ("import triton as t\n\n@t.jit\ndef k():\n    pass\n", "triton"),
        ("import torch\n\n@torch.jit.script\ndef f(x):\n    return x\n", "torch"),
        ("from torch.utils.cpp_extension import load_inline\nm = load_inline('a', cpp_sources=S)\n", "cuda"),
        ("import triton\n@triton.jit\ndef f(:\n", "triton"),
        ("def f(:\n  '__global__ void k();'\n", "cuda"),
        ("", "torch"),
    ],
)
def test_language(code: str, language: str) -> None:
    assert language_of(code) == language
