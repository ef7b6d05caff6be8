"""Host stubs are compiled once by a trusted process, from names of types alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.harness.measure.forked import in_child

pytest.importorskip("triton")

from harness.measure import launchers
from harness.measure.sealed import sealed_file


@pytest.mark.parametrize(
    "types",
    [['*fp32); system("x'], ["i32", 7], [["i32", "i32"]], ["tensordesc<fp32[16]>"], ["i32"] * 1000, ["*fp32\n"]],
)
def test_anything_but_names_of_types_is_refused(types, monkeypatch):
    monkeypatch.setattr(launchers, "needed", lambda: pytest.fail("they were not looked at"))
    assert launchers.compile_stub(types) is False


@pytest.mark.skipif(not launchers.needed(), reason="this Triton has no stubs, or there is no CUDA driver to link to")
def test_a_stub_is_compiled_once_and_found_by_children(tmp_path):
    from triton.backends.nvidia import driver as nvidia
    from triton.runtime.build import compile_module_from_src

    types = ["*bf16", "*bf16", "i64", "constexpr"]

    def child(folder: Path) -> int:
        os.environ["TRITON_CACHE_DIR"] = str(folder)
        compile_module_from_src(
            nvidia.make_launcher({}, dict(enumerate(types)), None), launchers.NAME, nvidia.library_dirs(),
            nvidia.include_dirs, nvidia.libraries,
        )  # fmt: skip
        return launchers.missed()

    launchers.lend()
    assert in_child(lambda: child(tmp_path / "before")) == 1
    assert launchers.compile_stub(types) is True
    assert launchers.compile_stub(types) is False
    assert in_child(lambda: child(tmp_path / "after")) == 0


@pytest.mark.skipif(not launchers._driver_library(), reason="there is no CUDA driver to link to")
def test_tritons_calls_of_the_driver_are_compiled_once_and_not_by_children(tmp_path, monkeypatch):
    from triton.backends.nvidia import driver as nvidia

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "lender"))
    launchers.lend()

    def child() -> str:
        os.environ["TRITON_CACHE_DIR"] = str(tmp_path / "borrower")
        os.environ["CC"] = "/nonexistent"
        return str(callable(nvidia.CudaUtils().load_binary))

    assert in_child(child) == "True"


def test_a_sealed_file_is_inherited_and_cannot_be_changed():
    path = sealed_file("test", b"hello")

    def child() -> str:
        assert Path(path).read_bytes() == b"hello"
        os.truncate(path, 0)
        return "changed"

    assert in_child(child) == "PermissionError"
    assert in_child(lambda: Path(path).write_bytes(b"J")) == "PermissionError"
    assert in_child(lambda: Path(path).read_text()) == "hello"
