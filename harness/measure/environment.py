"""What a session records of its machine: versions, clocks, temperature, and the time it began."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import benchmark

_QUERY = "driver_version,clocks.sm,clocks.mem,temperature.gpu"


def now() -> str:
    """Return the present moment in UTC, ISO 8601, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def gpu_state(gpu: int = 0) -> dict[str, Any]:
    """Return driver, clocks (MHz) and temperature (C) from nvidia-smi; empty where it is absent or does not answer."""
    command = shutil.which("nvidia-smi")
    if command is None:
        return {}
    line = [command, f"--id={gpu}", f"--query-gpu={_QUERY}", "--format=csv,noheader,nounits"]
    try:
        text = subprocess.run(line, capture_output=True, text=True, timeout=20, check=True).stdout
    except (subprocess.SubprocessError, OSError):
        return {}
    driver, sm, memory, temperature = (part.strip() for part in text.splitlines()[0].split(","))

    def number(value: str) -> int | None:
        return int(value) if value.isdigit() else None

    return {
        "driver": driver, "sm_clock_mhz": number(sm), "memory_clock_mhz": number(memory),
        "temperature_c": number(temperature),
    }  # fmt: skip


def session_record(session_id: str, described: Mapping[str, Any], isolation: str, sandbox: str) -> dict[str, Any]:
    """Return the `sessions` row of an engine, from what its judge says of the machine."""
    on_gpu = described["capability"] > 0
    state = gpu_state() if on_gpu else {}
    return {
        "session_id": session_id,
        "role": "primary",
        "isolation": isolation,
        "sandbox": sandbox,
        "timing_method": "graph" if on_gpu else "none",
        "gpu": described["gpu"],
        "driver": state.get("driver", "none"),
        "cuda": described["cuda"],
        "torch": described["torch"],
        "triton": described["triton"],
        "harness_version": benchmark.__version__,
        "sm_clock_mhz": state.get("sm_clock_mhz"),
        "memory_clock_mhz": state.get("memory_clock_mhz"),
        "temperature_c": state.get("temperature_c"),
        "started_at": now(),
    }
