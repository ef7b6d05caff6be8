"""A CUDA device that is not there: torch and Triton run a kernel's host code for it, compile, and launch nothing.

Tensors are fake (shapes, strides and dtypes without memory), `torch.cuda` answers from a description of the device, and
Triton has a driver whose launches do nothing, so that its own code decides what is compiled, and under which key. Meant
for a process that runs one foreign kernel and ends; it must not be able to open a GPU.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

from harness.measure.compiling_driver import PRETENDED_MS, CompilingDriver, bench
from harness.measure.replaced import replaced

POINTER_SHIFT = 9  # pointers of CUDA allocations are multiples of 512


def describe_device() -> dict[str, Any]:
    """Return what `cuda_device` needs to know about the current GPU, as JSON values; touches CUDA."""
    import torch

    found = torch.cuda.get_device_properties(torch.cuda.current_device())
    facts = {name: getattr(found, name) for name in dir(found) if not name.startswith("_")}
    facts = {name: value for name, value in facts.items() if isinstance(value, (int, float, str))}
    return {"capability": 10 * found.major + found.minor, **facts}


def fake_mode() -> Any:
    """Return the mode under which tensors are fake; real ones that a kernel makes on the host may be mixed in."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    return FakeTensorMode(allow_non_fake_inputs=True)


@contextmanager
def cuda_device(device: Mapping[str, Any]) -> Iterator[CompilingDriver]:
    """Let torch and Triton believe in the device that `describe_device` described; tensors are fake meanwhile."""
    import torch
    import torch.cuda._utils as cuda_utils
    import triton.testing
    from torch._subclasses import fake_tensor
    from triton.runtime import driver

    pretended = CompilingDriver(device)
    with ExitStack() as stack:
        stack.enter_context(replaced(torch.cuda, **_torch_cuda(device)))
        stack.enter_context(replaced(cuda_utils, _cuda_load_module=_load_module))
        stack.enter_context(replaced(triton.testing, do_bench=bench, do_bench_cudagraph=bench))
        # Both would look for a GPU, and one that is found would get a context.
        stack.enter_context(replaced(fake_tensor, init_gpu_context=lambda device: None))
        stack.enter_context(replaced(fake_tensor.FakeTensorMode, avoid_device_init=True))
        stack.enter_context(
            replaced(fake_tensor.FakeTensor, data_ptr=_data_ptr, record_stream=lambda tensor, stream: None)
        )
        stack.enter_context(replaced(driver, _default=pretended, _active=None))
        stack.enter_context(fake_mode())
        yield pretended


def _data_ptr(tensor: Any) -> int:
    """Return an address as a CUDA allocator would give: storages are aligned, views are offset in them."""
    start = tensor.untyped_storage()._cdata << POINTER_SHIFT
    return int(start + tensor.storage_offset() * tensor.element_size())


class Stream:
    """Stands in for torch.cuda.Stream and, as `external`, for streams of other libraries."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.cuda_stream, self.stream_id, self.device_index, self.priority = 0, 0, 0, 0
        self._as_parameter_ = ctypes.c_void_p(0)

    def record_event(self, event: Any = None) -> Any:
        return event or Event()

    def _nothing(self, *_: Any) -> None:
        return None

    wait_event = wait_stream = synchronize = _nothing

    def query(self) -> bool:
        return True

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        return None


class Event:
    """Stands in for torch.cuda.Event."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.cuda_event = 0

    def _nothing(self, *_: Any) -> None:
        return None

    record = wait = synchronize = _nothing

    def query(self) -> bool:
        return True

    def elapsed_time(self, other: Any) -> float:
        return PRETENDED_MS


class Graph:
    """Stands in for torch.cuda.CUDAGraph."""

    def __init__(self, *_: Any, **__: Any) -> None:
        return None

    def _nothing(self, *_: Any, **__: Any) -> None:
        return None

    capture_begin = capture_end = instantiate = replay = reset = _nothing

    def pool(self) -> tuple[int, int]:
        return (0, 0)


def _torch_cuda(device: Mapping[str, Any]) -> dict[str, Any]:
    """Return the replacements for names of torch.cuda."""
    major, minor = divmod(int(device["capability"]), 10)
    properties = SimpleNamespace(**{"major": major, "minor": minor, **device})
    stream = Stream()

    def nothing(*_: Any, **__: Any) -> None:
        return None

    def scope(*_: Any, **__: Any) -> Any:
        return nullcontext()

    answers: dict[str, Any] = {
        "is_available": True, "is_initialized": True, "is_bf16_supported": True, "device_count": 1,
        "current_device": 0, "_exchange_device": 0, "_maybe_exchange_device": 0,
        "get_device_capability": (major, minor), "get_device_properties": properties,
        "get_device_name": properties.name, "current_stream": stream, "default_stream": stream,
        "is_current_stream_capturing": False, "memory_allocated": 0, "max_memory_allocated": 0, "memory_reserved": 0,
        "mem_get_info": (properties.total_memory, properties.total_memory), "graph_pool_handle": (0, 0),
    }  # fmt: skip
    silent = ("init", "_lazy_init", "set_device", "set_stream", "synchronize", "empty_cache", "reset_peak_memory_stats")
    return {
        **{name: _answer(value) for name, value in answers.items()},
        **dict.fromkeys(silent, nothing),
        "stream": scope, "graph": scope, "StreamContext": scope, "make_graphed_callables": lambda call, *_, **__: call,
        "Stream": Stream, "ExternalStream": Stream, "Event": Event, "CUDAGraph": Graph,
    }  # fmt: skip


def _answer(value: Any) -> Callable[..., Any]:
    return lambda *_, **__: value


class _Kernel:
    """Stands in for a CUDA C++ kernel that torch has loaded."""

    def __call__(self, *_: Any, **__: Any) -> None:
        return None

    def set_shared_memory_config(self, shared_mem_bytes: int) -> None:
        return None


class _Module:
    def __getattr__(self, name: str) -> _Kernel:
        return _Kernel()


def _load_module(binary: bytes | str, kernel_names: Sequence[str] | None = None) -> Any:
    return _Module() if kernel_names is None else {name: _Kernel() for name in kernel_names}
