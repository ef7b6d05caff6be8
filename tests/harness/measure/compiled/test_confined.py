"""A builder that is confined by Landlock still has its compilers."""

from __future__ import annotations

import os

import pytest

from tests.harness.measure.test_landlock import needs_landlock, places

STUB = """
#include <Python.h>
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "stub", 0, -1, 0};
PyMODINIT_FUNC PyInit_stub(void) { return PyModule_Create(&definition); }
"""
__all__ = ["places"]  # a fixture, used by name


@needs_landlock
@pytest.mark.slow
def test_triton_and_gcc_work_in_a_confined_builder(places):
    from harness.measure.warmup_kernel import scale

    def work() -> list[bool]:
        import triton
        from triton.backends.compiler import GPUTarget
        from triton.compiler import ASTSource
        from triton.runtime.build import compile_module_from_src

        os.environ.update(TRITON_CACHE_DIR=str(places.private / "triton"), TMPDIR=str(places.private))
        import tempfile

        tempfile.tempdir = None
        source = ASTSource(scale, {"x": "*fp32", "y": "*fp32", "n": "i32", "BLOCK": "constexpr"}, {"BLOCK": 64})
        compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32))
        module = compile_module_from_src(STUB, "stub")
        return [len(compiled.asm["cubin"]) > 0, module.__name__ == "stub"]

    assert places.confined(work) == [True, True]
