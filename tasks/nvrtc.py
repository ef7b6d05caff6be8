"""Compile CUDA C++ to machine code by NVRTC of the package `nvidia-cuda-nvrtc`, without a GPU."""

from __future__ import annotations

import ctypes
from functools import cache
from importlib.util import find_spec
from pathlib import Path

PACKAGE = "nvidia-cuda-nvrtc"
MODULE = "nvidia.cu13"
LIBRARY = "lib/libnvrtc.so.13"
CALL = "torch.cuda._compile_kernel"  # what a kernel with CUDA C++ calls


class NotCompiledError(ValueError):
    """CUDA C++ that NVRTC refuses, with its log."""


def available() -> bool:
    """Whether NVRTC is installed."""
    return _path() is not None


@cache
def compile_cuda(source: str, name: str, capability: int) -> tuple[bytes, str]:
    """Return the machine code for sm_`capability` and the kernel's name in it.

    Raises NotCompiledError with NVRTC's log, OSError if NVRTC is not installed.
    """
    library = _library()
    program = ctypes.c_void_p()
    _check(library, library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernel.cu", 0, None, None))
    try:
        _check(library, library.nvrtcAddNameExpression(program, name.encode()))
        options = (ctypes.c_char_p * 1)(f"--gpu-architecture=sm_{capability}".encode())
        if library.nvrtcCompileProgram(program, len(options), options):
            raise NotCompiledError(_read(library, program, "ProgramLog").decode(errors="replace").strip())
        lowered = ctypes.c_char_p()
        _check(library, library.nvrtcGetLoweredName(program, name.encode(), ctypes.byref(lowered)))
        # The name lives as long as the program.
        kernel = (lowered.value or b"").decode()
        return _read(library, program, "CUBIN"), kernel
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def _read(library: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    _check(library, getattr(library, f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
    buffer = ctypes.create_string_buffer(size.value)
    _check(library, getattr(library, f"nvrtcGet{what}")(program, buffer))
    return buffer.raw[: size.value].rstrip(b"\0") if what == "ProgramLog" else buffer.raw[: size.value]


def _check(library: ctypes.CDLL, result: int) -> None:
    if result:
        library.nvrtcGetErrorString.restype = ctypes.c_char_p
        raise OSError(f"NVRTC: {library.nvrtcGetErrorString(result).decode()}")


@cache
def _library() -> ctypes.CDLL:
    path = _path()
    if path is None:
        raise OSError(f"NVRTC is not installed; CUDA C++ is compiled where '{PACKAGE}' is")
    # NVRTC opens its second library by name alone, which finds it only if it is loaded already.
    for part in path.parent.glob("libnvrtc-builtins.so.*"):
        ctypes.CDLL(str(part))
    return ctypes.CDLL(str(path))


def _path() -> Path | None:
    try:
        found = find_spec(MODULE)
    except ModuleNotFoundError:
        return None
    places = [Path(folder) / LIBRARY for folder in (found.submodule_search_locations or ())] if found else []
    return next((path for path in places if path.is_file()), None)
