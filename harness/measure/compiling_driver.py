"""A driver for Triton that compiles kernels for a device which is not there, and launches nothing."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from harness.measure import launchers

PRETENDED_MS = 1.0  # every interval, so that a tuner settles for its first choice
MAX_THREADS = 1024  # of a block
SIZED, REGISTER_COUNT = 4, 0x2F  # format and kind of an attribute in a cubin


def bench(call: Callable[[], Any], *_: Any, quantiles: Sequence[float] | None = None, **__: Any) -> Any:
    """Call once, so that the configuration is compiled, and report the same time for all."""
    call()
    return PRETENDED_MS if quantiles is None else [PRETENDED_MS] * len(quantiles)


class CompilingDriver:
    """A Triton driver for a device that is not there; kernels compile as they would for it, and launch nothing.

    `signatures` holds the argument types of host stubs that were compiled, where Triton has such stubs.
    """

    def __init__(self, device: Mapping[str, Any]) -> None:
        from triton.backends.compiler import GPUTarget

        self.target = GPUTarget("cuda", int(device["capability"]), 32)
        self.utils = _DriverUtilities(device)
        self.signatures: list[list[Any]] = []
        self.launcher_cls = launcher_class(self.signatures.append)

    def get_current_target(self) -> Any:
        return self.target

    def get_current_device(self) -> int:
        return 0

    def set_current_device(self, device: int) -> None:
        return None

    def get_current_stream(self, device: int | None = None) -> int:
        return 0

    def get_device_capability(self, device: int | None = None) -> tuple[int, int]:
        return divmod(self.target.arch, 10)

    def get_active_torch_device(self) -> Any:
        import torch

        return torch.device("cuda", 0)

    def get_device_interface(self) -> Any:
        import torch

        return torch.cuda

    def get_benchmarker(self) -> Callable[..., Any]:
        return bench

    def get_empty_cache_for_benchmark(self) -> Any:
        import torch

        return torch.empty(1, dtype=torch.int, device="cuda")

    def clear_cache(self, cache: Any) -> None:
        return None

    def map_python_to_cpp_type(self, ty: str) -> str:
        from triton.backends.nvidia.driver import ty_to_cpp

        return str(ty_to_cpp(ty))


class _DriverUtilities:
    def __init__(self, device: Mapping[str, Any]) -> None:
        self.device = device

    def get_device_properties(self, device: int) -> dict[str, int]:
        """Return what Triton asks a device for; a fact that the description lacks is absent."""
        names = {
            "max_shared_mem": "shared_memory_per_block_optin", "multiprocessor_count": "multi_processor_count",
            "max_num_regs": "regs_per_multiprocessor", "warpSize": "warp_size", "sm_clock_rate": "clock_rate",
            "mem_clock_rate": "memory_clock_rate", "mem_bus_width": "memory_bus_width",
        }  # fmt: skip
        return {name: self.device[ours] for name, ours in names.items() if ours in self.device}

    def load_binary(self, name: str, kernel: bytes, shared: int, device: int) -> tuple[Any, Any, int, int, int]:
        """Return (module, function, registers, spills, most threads); spills are not looked for."""
        return object(), object(), registers(kernel), 0, MAX_THREADS

    def fill_tma_descriptor_tiled(self, *_: Any) -> object:
        return object()


def launcher_class(built: Callable[[list[Any]], None]) -> type:
    """Return a launcher that does nothing.

    Where Triton compiles a host stub for every signature, its own launcher is made, so that the stub is compiled too,
    and `built` is told the types of the arguments of those that were not there yet.
    """
    from triton.backends.nvidia import driver as nvidia

    if not launchers.needed():
        return _Launcher

    class Built(nvidia.CudaLauncher):
        def __init__(self, src: Any, metadata: Any) -> None:
            before = launchers.missed()
            super().__init__(src, metadata)
            if launchers.missed() > before:
                built(list(src.signature.values()))

        __call__ = _Launcher.__call__

    return Built


class _Launcher:
    def __init__(self, src: Any, metadata: Any) -> None:
        return None

    def __call__(self, *_: Any, **__: Any) -> None:
        return None


def registers(cubin: bytes) -> int:
    """Return the registers per thread of a cubin's kernel, from the attributes that ptxas writes into `.nv.info`.

    An attribute is a format byte, a kind byte and two bytes of size, followed by that many bytes if the format is 4.
    """
    table, (entry, count, names_at) = struct.unpack_from("<Q", cubin, 0x28)[0], struct.unpack_from("<HHH", cubin, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", cubin, table + entry * index) for index in range(count)]
    names = headers[names_at][4]
    found = 0
    for name, _, _, _, offset, size in headers:
        if not cubin.startswith(b".nv.info\0", names + name):
            continue
        at = offset
        while at < offset + size:
            form, kind, nbytes = struct.unpack_from("<BBH", cubin, at)
            if kind == REGISTER_COUNT:
                found = max(found, struct.unpack_from("<II", cubin, at + 4)[1])
            at += 4 + (nbytes if form == SIZED else 0)
    return found
