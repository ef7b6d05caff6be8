"""Memory that the judge owns and a child maps: one allocation per stage, so that nothing else lies in its pages.

On a GPU it is a cuMemAlloc block passed by CUDA IPC; PyTorch's allocator would share its segment with other tensors,
expected outputs among them. On the CPU it is a file.
"""

from __future__ import annotations

import ctypes
import math
import mmap
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import torch

ALIGNMENT = 512
HOLD_S = {"graph": 100e-6, "event": 400e-6}  # by how a call is timed
SM_CLOCK_RATE, MEMORY_CLOCK_RATE, MEMORY_BUS_WIDTH = 13, 36, 37  # of CUdevice_attribute
DTYPES = (
    "float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool", "float8_e4m3fn",
    "float8_e5m2",
)  # fmt: skip


class Form(NamedTuple):
    """Shape, dtype name and bytes of a contiguous tensor."""

    shape: tuple[int, ...]
    dtype: str
    nbytes: int

    @classmethod
    def of(cls, tensor: torch.Tensor) -> Form:
        """Raises TypeError for a dtype that cannot be shared."""
        dtype = str(tensor.dtype).removeprefix("torch.")
        if dtype not in DTYPES:
            raise TypeError(f"a tensor of dtype {dtype} cannot be shared; known dtypes: {', '.join(DTYPES)}")
        return cls(tuple(tensor.shape), dtype, tensor.numel() * tensor.element_size())

    @property
    def itemsize(self) -> int:
        return self.nbytes // math.prod(self.shape) if self.nbytes else 1


@dataclass(frozen=True)
class Slot:
    """Where one tensor lies in a region: byte offset, shape and dtype name; always contiguous."""

    offset: int
    shape: tuple[int, ...]
    dtype: str
    nbytes: int

    @classmethod
    def from_json(cls, row: dict[str, Any]) -> Slot:
        return cls(row["offset"], tuple(row["shape"]), row["dtype"], row["nbytes"])


class Layout:
    """Places tensors one after the other in a region that is yet to be allocated."""

    def __init__(self) -> None:
        self.nbytes = 0

    def place(self, forms: Sequence[Form]) -> list[Slot]:
        """Return a slot for each tensor of these forms."""
        slots = []
        for form in forms:
            slots.append(Slot(self.nbytes, *form))
            self.nbytes += -(-max(form.nbytes, 1) // ALIGNMENT) * ALIGNMENT
        return slots


class _CudaArray:
    def __init__(self, pointer: int, nbytes: int) -> None:
        self.__cuda_array_interface__ = {
            "data": (pointer, False), "shape": (nbytes,), "typestr": "|u1", "strides": None, "version": 3,
        }  # fmt: skip


class _IpcHandle(ctypes.Structure):
    _fields_ = [("reserved", ctypes.c_char * 64)]


class Driver:
    """The few calls of the CUDA driver API that sharing needs. The calling thread must have a current context."""

    def __init__(self) -> None:
        self.lib = ctypes.CDLL("libcuda.so.1")

    def check(self, code: int, what: str) -> None:
        if code:
            text = ctypes.c_char_p()
            self.lib.cuGetErrorString(code, ctypes.byref(text))
            raise RuntimeError(f"{what}: {(text.value or b'unknown CUDA error').decode()} ({code})")

    def allocate(self, nbytes: int) -> int:
        pointer = ctypes.c_uint64()
        self.check(self.lib.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(nbytes)), "cuMemAlloc")
        return pointer.value

    def free(self, pointer: int) -> None:
        self.check(self.lib.cuMemFree_v2(ctypes.c_uint64(pointer)), "cuMemFree")

    def attribute(self, number: int) -> int:
        """Return one attribute of device 0, by its number in CUdevice_attribute."""
        value = ctypes.c_int()
        self.check(self.lib.cuDeviceGetAttribute(ctypes.byref(value), number, 0), "cuDeviceGetAttribute")
        return value.value

    def peak_bytes_per_s(self) -> float:
        """Return the peak rate of device memory: clock (kHz), two transfers a cycle, bus width (bits)."""
        return 2e3 * self.attribute(MEMORY_CLOCK_RATE) * self.attribute(MEMORY_BUS_WIDTH) / 8

    def sm_clock_hz(self) -> float:
        """Return the highest clock of the multiprocessors."""
        return 1e3 * self.attribute(SM_CLOCK_RATE)

    def export(self, pointer: int) -> str:
        handle = _IpcHandle()
        self.check(self.lib.cuIpcGetMemHandle(ctypes.byref(handle), ctypes.c_uint64(pointer)), "cuIpcGetMemHandle")
        return bytes(handle).hex()

    def open(self, handle: str) -> int:
        pointer = ctypes.c_uint64()
        raw = _IpcHandle.from_buffer_copy(bytes.fromhex(handle))
        self.check(self.lib.cuIpcOpenMemHandle_v2(ctypes.byref(pointer), raw, 1), "cuIpcOpenMemHandle")
        return pointer.value

    def close(self, pointer: int) -> None:
        self.check(self.lib.cuIpcCloseMemHandle(ctypes.c_uint64(pointer)), "cuIpcCloseMemHandle")


def hold_cycles(driver: Driver, method: str) -> int:
    """Return for how many cycles the GPU is kept busy before a call is timed by `method`.

    Meanwhile the host gets ahead, so that the time of the call holds no gap in which the GPU waited for a launch. A
    call whose launches take longer than that is bound by them, and so is its time.
    """
    return int(HOLD_S[method] * driver.sm_clock_hz())


class Region:
    """Shared memory of one stage; `create` in the judge, `attach` in the child."""

    def __init__(self, device: str, nbytes: int, pointer: int, handle: str, owner: bool, mapping: Any) -> None:
        self.device, self.nbytes, self.pointer, self.handle = device, nbytes, pointer, handle
        self._owner, self._mapping = owner, mapping

    @classmethod
    def create(cls, device: str, nbytes: int, driver: Driver | None, folder: Path | None = None) -> Region:
        """Allocate; the bytes are 0xFF, so that what is read too early is NaN. `folder` holds CPU regions."""
        if device == "cuda":
            assert driver is not None
            pointer = driver.allocate(nbytes)
            region = cls(device, nbytes, pointer, driver.export(pointer), True, driver)
            region.poison()
            return region
        fd, path = tempfile.mkstemp(prefix="region-", dir=folder)
        os.ftruncate(fd, nbytes)
        os.fchmod(fd, 0o666)  # for the user of the child that gets a link to it; nobody else reaches the folder
        mapping = mmap.mmap(fd, nbytes)
        os.close(fd)
        region = cls(device, nbytes, _address(mapping), path, True, mapping)
        region.poison()
        return region

    @classmethod
    def attach(cls, device: str, nbytes: int, handle: str, driver: Driver | None) -> Region:
        """Map a region that another process created."""
        if device == "cuda":
            assert driver is not None
            return cls(device, nbytes, driver.open(handle), handle, False, driver)
        fd = os.open(handle, os.O_RDWR)
        mapping = mmap.mmap(fd, nbytes)
        os.close(fd)
        return cls(device, nbytes, _address(mapping), handle, False, mapping)

    def poison(self, start: int = 0, end: int | None = None) -> None:
        """Fill the bytes from `start` to `end` with 0xFF, a NaN in every floating-point dtype."""
        count = (self.nbytes if end is None else end) - start
        if count <= 0:
            return
        if self.device == "cuda":
            code = self._mapping.lib.cuMemsetD8_v2(
                ctypes.c_uint64(self.pointer + start), ctypes.c_ubyte(0xFF), ctypes.c_size_t(count)
            )
            self._mapping.check(code, "cuMemsetD8")
        else:
            ctypes.memset(self.pointer + start, 0xFF, count)

    def tensor(self, slot: Slot) -> torch.Tensor:
        """Return the tensor of a slot, without copying."""
        import torch

        if slot.nbytes == 0:
            return torch.empty(slot.shape, dtype=getattr(torch, slot.dtype), device=self.device)
        if self.device == "cuda":
            raw = torch.as_tensor(_CudaArray(self.pointer + slot.offset, slot.nbytes), device="cuda")
        else:
            raw = torch.frombuffer(self._mapping, dtype=torch.uint8, count=slot.nbytes, offset=slot.offset)
        return raw.view(getattr(torch, slot.dtype)).view(slot.shape)

    def tensors(self, slots: Sequence[Slot]) -> tuple[torch.Tensor, ...]:
        return tuple(self.tensor(slot) for slot in slots)

    def release(self) -> None:
        """Free it (owner) or unmap it; tensors of it must not be used afterwards."""
        if self.device == "cuda":
            if self._owner:
                self._mapping.free(self.pointer)
            else:
                self._mapping.close(self.pointer)
        elif self._owner:
            os.unlink(self.handle)


def _address(mapping: mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(mapping))
