"""Which compiled kernels a foreign kernel launches, and what their compilers say of them."""

from __future__ import annotations

import hashlib
from typing import Any


class Launches:
    """The launches of one child; they count while `noted` is set, as it is while a timing case is prepared."""

    def __init__(self) -> None:
        self.noted = False
        self._triton: dict[int, Any] = {}
        self._nvrtc = False

    def watch(self) -> None:
        """Look at every launch of this process from now on."""
        import torch.cuda._utils as cuda_utils
        from triton.compiler import CompiledKernel

        run, call = CompiledKernel.run.fget, cuda_utils._CudaKernel.__call__

        def noted(compiled: Any) -> Any:
            if self.noted:
                self._triton[id(compiled)] = compiled
            return run(compiled)

        def called(kernel: Any, *arguments: Any, **options: Any) -> Any:
            self._nvrtc |= self.noted
            return call(kernel, *arguments, **options)

        CompiledKernel.run = property(noted)
        cuda_utils._CudaKernel.__call__ = called

    def forget(self) -> None:
        """Start anew, for another kernel."""
        self._triton, self._nvrtc = {}, False

    def facts(self) -> dict[str, Any]:
        """Return registers, spills and shared bytes (the largest over kernels), bytes of PTX, and a hash of the cubins.

        `custom_kernel` says whether a Triton or NVRTC kernel was launched at all; only a label, for a process says it
        that holds foreign code.
        """
        custom = {"custom_kernel": bool(self._triton) or self._nvrtc}
        if not self._triton:
            return custom
        kernels = list(self._triton.values())
        cubins = sorted({hashlib.sha256(k.asm["cubin"]).hexdigest() for k in kernels if "cubin" in k.asm})
        return {
            "registers": max(int(k.n_regs or 0) for k in kernels),
            "spills": max(int(k.n_spills or 0) for k in kernels),
            "shared_bytes": max(int(k.metadata.shared) for k in kernels),
            "n_compiled": len(cubins),
            "cubin_hash": hashlib.sha256("".join(cubins).encode()).hexdigest()[:16] if cubins else None,
            "ptx_bytes": sum(len(k.asm["ptx"]) for k in kernels if "ptx" in k.asm),
            **custom,
        }
