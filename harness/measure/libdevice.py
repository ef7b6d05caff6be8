"""A short libdevice for Triton to link: reading the whole of it is most of what compiling a small kernel takes.

NVIDIA's library of mathematics has some 350 functions; a kernel that needs one has Triton parse them all, in 40 ms,
twice the time of all its other work on LLVM. The functions that kernels use most are cut out once, into memory that
forked processes inherit and cannot change. A kernel that needs another one gets the whole library. The machine code is
the same to the byte, which a test checks, and so is the key in Triton's cache, which names the library as a whole.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from harness.measure.sealed import sealed_file

SIGNATURES = {
    "(f32) -> f32": (
        "rsqrtf", "sqrtf", "expf", "exp2f", "logf", "log2f", "tanhf", "erff", "floorf", "ceilf", "fabsf",
    ),
    "(f32, f32, f32) -> f32": ("fmaf",),
}  # fmt: skip
PREFIX = "__nv_"
ANY_GPU = "sm_80"  # the library leaves to the kernel which GPU it is for
FUNCTIONS = frozenset(PREFIX + name for names in SIGNATURES.values() for name in names)


@cache
def shorten() -> None:
    """Have Triton link the short library, in this process and in all that it forks.

    A Triton that links in another way is left as it is.
    """
    from triton._C.libtriton import llvm

    whole = _library()
    if not hasattr(llvm, "link_extern_libs"):
        return
    link = llvm.link_extern_libs
    short = sealed_file("libdevice", cut_out().encode())

    def link_what_is_needed(module: Any, paths: Sequence[str]) -> None:
        if [os.path.realpath(path) for path in paths] == [whole] and _missing(module) <= FUNCTIONS:
            try:
                return link(module, [short])
            except (RuntimeError, ValueError):  # the kernel has closed the file
                pass
        return link(module, paths)

    link_what_is_needed.__wrapped__ = link  # type: ignore[attr-defined]
    llvm.link_extern_libs = link_what_is_needed


def cut_out() -> str:
    """Return the functions as LLVM assembly: what linking the library into a module that only declares them gives."""
    from triton._C.libtriton import ir, llvm, nvidia

    context = ir.context()
    ir.load_dialects(context)
    nvidia.load_dialects(context)
    declarations = [f"llvm.func @{PREFIX}{name}{form}" for form, names in SIGNATURES.items() for name in names]
    with tempfile.NamedTemporaryFile("w", suffix=".mlir") as file:
        file.write("module {\n" + "\n".join(declarations) + "\n}\n")
        file.flush()
        declared = ir.parse_mlir_module(file.name, context)
    llvm.init_targets()
    llvm_context = llvm.context()
    module = llvm.to_module(declared, llvm_context)
    llvm.attach_datalayout(module, "nvptx64-nvidia-cuda", ANY_GPU, "")
    llvm.link_extern_libs(module, [_library()])
    # Linking has made them internal, and an internal function is not offered to another module.
    return re.sub(rf"^define internal (?=.*@{PREFIX})", "define ", str(module), flags=re.MULTILINE)


def _library() -> str:
    from triton import knobs
    from triton.backends.nvidia import compiler

    return os.path.realpath(knobs.nvidia.libdevice_path or Path(compiler.__file__).parent / "lib" / "libdevice.10.bc")


def _missing(module: Any) -> set[str]:
    return {f.name for f in module.get_functions() if f.is_declaration() and f.name.startswith(PREFIX)}
