"""Memory that the judge owns and a child maps: one allocation per stage, so that nothing else lies in its pages.

On a GPU it is a cuMemAlloc block passed by CUDA IPC; PyTorch's allocator would share its segment with other tensors,
expected outputs among them. On the CPU it is a file in shared memory.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

ALIGNMENT = 512
DTYPES = (
    "float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool", "float8_e4m3fn",
    "float8_e5m2",
)  # fmt: skip


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

    def place(self, tensors: Sequence[torch.Tensor]) -> list[Slot]:
        """Return a slot for each tensor, with its shape and dtype."""
        slots = []
        for tensor in tensors:
            size = tensor.numel() * tensor.element_size()
            dtype = str(tensor.dtype).removeprefix("torch.")
            if dtype not in DTYPES:
                raise TypeError(f"a tensor of dtype {dtype} cannot be shared; known dtypes: {', '.join(DTYPES)}")
            slots.append(Slot(self.nbytes, tuple(tensor.shape), dtype, size))
            self.nbytes += -(-max(size, 1) // ALIGNMENT) * ALIGNMENT
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


class Region:
    """Shared memory of one stage; `create` in the judge, `attach` in the child."""

    def __init__(self, device: str, nbytes: int, pointer: int, handle: str, owner: bool, mapping: Any) -> None:
        self.device, self.nbytes, self.pointer, self.handle = device, nbytes, pointer, handle
        self._owner, self._mapping = owner, mapping

    @classmethod
    def create(cls, device: str, nbytes: int, driver: Driver | None) -> Region:
        """Allocate; the bytes are 0xFF, so that what is read before it is written is NaN."""
        if device == "cuda":
            assert driver is not None
            pointer = driver.allocate(nbytes)
            driver.lib.cuMemsetD8_v2(ctypes.c_uint64(pointer), ctypes.c_ubyte(0xFF), ctypes.c_size_t(nbytes))
            return cls(device, nbytes, pointer, driver.export(pointer), True, driver)
        fd, path = tempfile.mkstemp(prefix="kernelcast-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
        os.ftruncate(fd, nbytes)
        mapping = mmap.mmap(fd, nbytes)
        os.close(fd)
        mapping[:] = b"\xff" * nbytes
        return cls(device, nbytes, _address(mapping), path, True, mapping)

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
