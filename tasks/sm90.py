"""Compile the kernels that a seed launches for the H200's architecture, with no such device: nothing is run."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase
from triton.runtime import driver
from triton.runtime.jit import JITFunction

from tasks import nvrtc

CAPABILITY, WARP = 90, 32
SHARED_BYTES = 227 << 10  # the most that one block can have
RESERVED_BYTES = 1 << 10  # of every block, counted by cuobjdump but not in that limit
CONFIGURED_BYTES = 48 << 10  # beyond this, a CUDA C++ kernel has to ask for dynamic shared memory
BLOCK_REGISTERS = 1 << 16
REGISTER_UNIT = 8  # registers are given to threads in units of this
GRID_LIMITS = ((1 << 31) - 1, (1 << 16) - 1, (1 << 16) - 1)
INDEX_LIMIT = 1 << 31  # elements that a 32-bit offset can reach
_USAGE = re.compile(r"Function (?P<name>\S+):\s+REG:(?P<registers>\d+) STACK:(?P<stack>\d+) SHARED:(?P<shared>\d+)")


@dataclass(frozen=True)
class Launch:
    """One kernel and what a launch of it asks for: registers and stack bytes of a thread, shared bytes of a block.

    `stack_bytes` are what a thread keeps in local memory: registers that did not fit, and arrays that are indexed at
    run time. `problems` are the reasons why an H200 could not run the launch.
    """

    kernel: str
    threads: int
    registers: int
    stack_bytes: int
    shared_bytes: int
    problems: tuple[str, ...]


class _Device(DriverBase):
    """A Triton driver that knows the target and can run nothing."""

    @classmethod
    def is_active(cls) -> bool:
        return True

    def map_python_to_cpp_type(self, ty: str) -> str:
        raise NotImplementedError("nothing is launched")

    def get_benchmarker(self) -> Any:
        raise NotImplementedError("nothing is timed")

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cuda", 0)

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", CAPABILITY, WARP)

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int) -> int:
        return 0


@dataclass(frozen=True)
class _Pointer:
    """What Triton looks at in a tensor: its dtype, and whether its address is a multiple of 16."""

    dtype: torch.dtype
    address: int

    def data_ptr(self) -> int:
        return self.address


@contextmanager
def compiled_only(use: Callable[[Launch], None]) -> Iterator[None]:
    """Inside, Triton kernels and those of torch.cuda._compile_kernel are compiled at a launch and given to `use`.

    A kernel that does not compile raises there. CUDA C++ needs NVRTC: see `tasks.nvrtc`.
    """
    launch, compile_cuda = JITFunction.run, torch.cuda._compile_kernel

    def run(self: Any, *args: Any, grid: Any, warmup: bool, **options: Any) -> Any:
        arguments = [_pointer(value) for value in args]
        named = {name: _pointer(value) for name, value in options.items()}
        kernel = launch(self, *arguments, grid=grid, warmup=True, **named)
        threads = kernel.metadata.num_warps * WARP
        problems = [*_grid_problems(grid, self, args, options), *_index_problems([*args, *options.values()])]
        use(_launch(kernel.asm["cubin"], kernel.metadata.name, threads, kernel.metadata.shared, problems))
        return kernel

    def compiled(source: str, name: str, *options: Any, **more: Any) -> _CudaKernel:
        return _CudaKernel(name, *nvrtc.compile_cuda(source, name, CAPABILITY), use)

    active = driver._active
    driver.set_active(_Device())
    JITFunction.run, torch.cuda._compile_kernel = run, compiled
    try:
        yield
    finally:
        JITFunction.run, torch.cuda._compile_kernel, driver._active = launch, compile_cuda, active


class _CudaKernel:
    """Stands for the kernel that torch.cuda._compile_kernel returns."""

    def __init__(self, name: str, cubin: bytes, lowered: str, use: Callable[[Launch], None]) -> None:
        self.name, self.cubin, self.lowered, self.use = name, cubin, lowered, use
        self.configured = 0

    def set_shared_memory_config(self, shared_mem_bytes: int) -> None:
        self.configured = shared_mem_bytes

    def __call__(
        self,
        grid: tuple[int, ...] = (1, 1, 1),
        block: tuple[int, ...] = (1, 1, 1),
        args: list[Any] | None = None,
        shared_mem: int = 0,
        stream: Any = None,
    ) -> None:
        problems = [*_size_problems(grid), *_index_problems(args or [])]
        if shared_mem >= CONFIGURED_BYTES and shared_mem > self.configured:
            problems.append(f"{shared_mem} bytes of shared memory without set_shared_memory_config")
        threads = block[0] * block[1] * block[2]
        if threads > 1024:
            problems.append(f"a block of {threads} threads")
        self.use(_launch(self.cubin, self.lowered, threads, shared_mem, problems, self.name))


def _launch(cubin: bytes, name: str, threads: int, dynamic: int, problems: list[str], shown: str = "") -> Launch:
    registers, stack, static = _usage(cubin)[name]
    # Triton's figure is all that it uses; CUDA C++ has the arrays in its code besides.
    shared = dynamic if not shown else dynamic + max(0, static - RESERVED_BYTES)
    if shared > SHARED_BYTES:
        problems = [*problems, f"{shared} bytes of shared memory, at most {SHARED_BYTES} fit"]
    wanted = threads * -(-registers // REGISTER_UNIT) * REGISTER_UNIT
    if wanted > BLOCK_REGISTERS:
        problems = [*problems, f"{wanted} registers in a block, at most {BLOCK_REGISTERS} fit"]
    return Launch(shown or name, threads, registers, stack, shared, tuple(problems))


@cache
def _usage(cubin: bytes) -> Mapping[str, tuple[int, int, int]]:
    """Registers and stack bytes of a thread, static shared bytes of a block, of each kernel in a binary."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        command = [triton.knobs.nvidia.cuobjdump.path, "-res-usage", str(path)]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = {m["name"]: (int(m["registers"]), int(m["stack"]), int(m["shared"])) for m in _USAGE.finditer(said)}
    if not found:
        raise ValueError(f"cuobjdump names no kernel: {said.strip()[:200]!r}")
    return found


def _pointer(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    return _Pointer(value.dtype, value.storage_offset() * value.element_size())


def _grid_problems(grid: Any, kernel: Any, args: tuple[Any, ...], options: Mapping[str, Any]) -> list[str]:
    if callable(grid):
        grid = grid(dict(zip(kernel.arg_names, args, strict=False)) | dict(options))
    return _size_problems(grid if isinstance(grid, tuple | list) else (grid,))


def _size_problems(grid: tuple[int, ...] | list[int]) -> list[str]:
    sizes = zip(grid, GRID_LIMITS, strict=False)
    return [f"a grid of {tuple(grid)}"] if any(not 0 < size <= limit for size, limit in sizes) else []


def _index_problems(values: list[Any]) -> list[str]:
    sizes = [value.numel() for value in values if isinstance(value, torch.Tensor)]
    return [f"a tensor of {size} elements, beyond 32-bit offsets" for size in sizes if size >= INDEX_LIMIT]
