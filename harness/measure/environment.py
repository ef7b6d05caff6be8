"""What a session records of its machine: versions, clocks, temperature, and the time it began."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import benchmark

_QUERY = "driver_version,clocks.sm,clocks.mem,temperature.gpu"


def now() -> str:
    """Return the present moment in UTC, ISO 8601, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def gpu_state(gpu: str = "0") -> dict[str, Any]:
    """Return driver, clocks (MHz) and temperature (C) from nvidia-smi; empty where it is absent or does not answer."""
    rows = _ask_smi(f"--query-gpu={_QUERY}", f"--id={gpu}")
    if not rows:
        return {}
    driver, sm, memory, temperature = (part.strip() for part in rows[0].split(","))

    def number(value: str) -> int | None:
        return int(value) if value.isdigit() else None

    return {
        "driver": driver, "sm_clock_mhz": number(sm), "memory_clock_mhz": number(memory),
        "temperature_c": number(temperature),
    }  # fmt: skip


def gpu_numbers() -> list[str]:
    """Return the numbers of the GPUs that this process may see; CUDA_VISIBLE_DEVICES chooses among those there are."""
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None:
        return [part.strip() for part in chosen.split(",") if part.strip()]
    return [line.split(",")[0].strip() for line in _ask_smi("--query-gpu=index")]


def processes_on(gpu: str) -> list[str]:
    """Return the processes that compute on a GPU, `PID NAME` each; those of measuring engines are left out."""
    rows = _ask_smi("--query-compute-apps=pid,process_name", f"--id={gpu}")
    found = [[part.strip() for part in row.split(",", 1)] for row in rows]
    return [" ".join(parts) for parts in found if not _measures(parts[0])]


def _measures(pid: str) -> bool:
    try:
        return b"harness.measure" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def _ask_smi(*options: str) -> list[str]:
    """Return the lines of an nvidia-smi query; none where it is absent or does not answer."""
    command = shutil.which("nvidia-smi")
    if command is None:
        return []
    line = [command, *options, "--format=csv,noheader,nounits"]
    try:
        text = subprocess.run(line, capture_output=True, text=True, timeout=20, check=True).stdout
    except (subprocess.SubprocessError, OSError):
        return []
    return [row for row in text.splitlines() if row.strip()]


def session_record(
    session_id: str, described: Mapping[str, Any], isolation: str, sandbox: str, method: str, gpu: str | None = None
) -> dict[str, Any]:
    """Return the `sessions` row of an engine, from what its judge says of the machine."""
    on_gpu = described["capability"] > 0
    state = gpu_state(gpu or "0") if on_gpu else {}
    return {
        "session_id": session_id,
        "role": "primary",
        "isolation": isolation,
        "sandbox": sandbox,
        "timing_method": method if on_gpu else "none",
        "gpu": described["gpu"],
        "driver": state.get("driver", "none"),
        "cuda": described["cuda"],
        "torch": described["torch"],
        "triton": described["triton"],
        "harness_version": benchmark.__version__,
        "sm_clock_mhz": state.get("sm_clock_mhz"),
        "memory_clock_mhz": state.get("memory_clock_mhz"),
        "temperature_c": state.get("temperature_c"),
        # By method; it stays in the logs, for the table of sessions has no column of that name.
        "empty_kernel_ns": dict(described.get("empty_kernel_ns", {})),
        "started_at": now(),
    }
