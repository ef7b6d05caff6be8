"""The short libdevice makes the same machine code as the whole one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.harness.measure.forked import in_child

pytest.importorskip("triton")

from harness.measure import libdevice

KERNEL = """
import triton, triton.language as tl
from triton.language.extra import libdevice

@triton.jit
def kernel(x, y, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    a = tl.load(x + at)
    b = tl.load(x + at + BLOCK)
    tl.store(y + at, {expression})
"""
HASH_CHARACTERS = 64
CALLS = {
    "rsqrtf": "tl.math.rsqrt(a)", "sqrtf": "libdevice.sqrt(a)", "expf": "libdevice.exp(a)", "erff": "tl.math.erf(a)",
    "exp2f": "libdevice.exp2(a)", "logf": "libdevice.log(a)", "log2f": "libdevice.log2(a)", "fabsf": "libdevice.abs(a)",
    "tanhf": "libdevice.tanh(a)", "floorf": "libdevice.floor(a)", "ceilf": "libdevice.ceil(a)",
    "fmaf": "libdevice.fma(a, b, a)", "two": "tl.math.rsqrt(a) * tl.math.erf(b)", "powf": "libdevice.pow(a, b)",
    "one short, one not": "tl.math.rsqrt(a) * libdevice.sinpi(b)",
}  # fmt: skip


def test_every_function_is_compared():
    assert set(CALLS) >= {name.removeprefix(libdevice.PREFIX) for name in libdevice.FUNCTIONS}


@pytest.mark.parametrize("name", ["rsqrtf", pytest.param("all", marks=pytest.mark.slow)])
def test_the_machine_code_is_the_same(name, tmp_path):
    def compile_all(short: bool) -> list[str]:
        from triton._C.libtriton import llvm

        used: list[str] = []
        link = getattr(llvm.link_extern_libs, "__wrapped__", llvm.link_extern_libs)
        llvm.link_extern_libs = lambda module, paths: (used.extend(paths), link(module, paths))[1]
        if short:
            libdevice.shorten.cache_clear()
            libdevice.shorten()
            used.clear()
        os.environ["TRITON_CACHE_DIR"] = str(tmp_path / f"cache-{short}")
        names = CALLS if name == "all" else [name]
        found = [compiled(tmp_path / "kernel.py", CALLS[one]) for one in names]
        shown = [path for path in used if path.startswith("/proc/self/fd/")]
        # Two of them need a function that was not cut out.
        return [*found, f"{len(shown)} short" if short else f"{len(names) - 2 * (name == 'all')} short"]

    short, whole = in_child(lambda: compile_all(True)), in_child(lambda: compile_all(False))
    assert isinstance(whole, list) and short == whole


def compiled(path: Path, expression: str) -> str:
    """Return the hash of the machine code of the kernel with the expression."""
    import hashlib

    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    import tasks

    path.write_text(KERNEL.format(expression=expression) + "\ncustom_kernel = kernel.fn\n")
    os.utime(path, (0, 0))  # line information names the source's age
    kernel: Any = tasks.load_kernel(path).__globals__["kernel"]
    source = ASTSource(kernel, {"x": "*fp32", "y": "*fp32", "BLOCK": "constexpr"}, {"BLOCK": 64})
    made = triton.compile(source, target=GPUTarget("cuda", 90, 32))
    return hashlib.sha256(made.asm["cubin"]).hexdigest()


def test_a_closed_file_only_costs_time(tmp_path):
    def work() -> str:
        libdevice.shorten()
        for entry in os.listdir("/proc/self/fd"):
            link = Path("/proc/self/fd") / entry
            if link.is_symlink() and "memfd:libdevice" in os.readlink(link):
                os.close(int(entry))
        os.environ["TRITON_CACHE_DIR"] = str(tmp_path / "cache")
        return compiled(tmp_path / "kernel.py", CALLS["rsqrtf"])

    assert len(in_child(work)) == HASH_CHARACTERS
