"""A build without a GPU fills the caches with exactly what a later launch asks for."""

from __future__ import annotations

import ctypes
import ctypes.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tasks
from tests.harness.measure.forked import in_child

pytest.importorskip("triton")

from harness.measure import ahead, nvrtc, pretend
from harness.measure.compiling_driver import CompilingDriver, registers

DEVICE = {
    "capability": 90, "name": "NVIDIA H200", "multi_processor_count": 132, "shared_memory_per_block_optin": 232448,
    "total_memory": 150_754_820_096, "warp_size": 32, "max_threads_per_multi_processor": 2048,
    "regs_per_multiprocessor": 65536, "L2_cache_size": 62_914_560,
}  # fmt: skip
HEAD = "import torch, triton, triton.language as tl\n"
COPY = """
@triton.jit
def copy(x, y, n, offset, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at + offset, mask=at < n), mask=at < n)
"""
# torch built without CUDA has no device guard for it; this is the one that torch itself puts there on a machine
# without a device.
GUARD = """
#include <c10/core/impl/DeviceGuardImplInterface.h>
C10_REGISTER_GUARD_IMPL(CUDA, c10::impl::NoOpDeviceGuardImpl<c10::DeviceType::CUDA>)
"""


@pytest.fixture(scope="module", autouse=True)
def preloaded() -> None:
    """Warm what every child would warm for itself: imports, and the hash of the compiler."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import make_backend
    from triton.runtime.cache import triton_key

    ahead.preload()
    triton_key()
    make_backend(GPUTarget("cuda", 90, 32)).hash()


@pytest.fixture(scope="module")
def guard(tmp_path_factory: pytest.TempPathFactory) -> Path | None:
    import torch

    if torch.backends.cuda.is_built():
        return None
    folder, home = tmp_path_factory.mktemp("guard"), Path(torch.__file__).parent
    (folder / "guard.cpp").write_text(GUARD)
    built = folder / "guard.so"
    flags = ["-std=c++20", "-shared", "-fPIC", f"-I{home / 'include'}", f"-L{home / 'lib'}", "-lc10"]
    subprocess.run(["g++", str(folder / "guard.cpp"), *flags, "-o", str(built)], check=True)
    return built


def build(folder: Path, source: str | Path, calls: Any, name: str = "kernel", guard: Path | None = None) -> Any:
    """Build in a child whose caches are in `folder`; `source` is code, or a kernel file."""

    def work() -> Any:
        if guard is not None:
            ctypes.CDLL(str(guard))
        return ahead.build(lambda: load(folder, source, name), calls, DEVICE)

    folder.mkdir(exist_ok=True)
    return in_child(lambda: (os.environ.update(TRITON_CACHE_DIR=str(folder / "triton")), work())[1])


def load(folder: Path, source: str | Path, name: str) -> Any:
    path = folder / f"{name}.py"
    path.write_text(source if isinstance(source, str) else source.read_text())
    return tasks.load_kernel(path)


def launch(folder: Path, source: str | Path, calls: Any, name: str = "kernel") -> Any:
    """Launch on real tensors through Triton's own path, with a driver that does nothing; what it compiles and loads."""
    import torch
    from triton.runtime import driver

    def work() -> Any:
        os.environ["TRITON_CACHE_DIR"] = str(folder / "triton")
        driver.set_active(CompilingDriver(DEVICE))
        kernel = load(folder, source, name)
        with ahead._counted() as tally:
            for call in calls:
                kernel(tuple(torch.zeros(shape, dtype=getattr(torch, dtype)) for shape, dtype in call))
        return tally["compiled"], tally["loaded"]

    return in_child(work)


def seed(task: str, name: str) -> Path:
    return tasks.folder(task) / "seeds" / f"{name}.py"


ROWS = [[((33, 257), "float32"), ((257,), "float32")], [((2, 3, 1536), "float16"), ((1536,), "float16")]]


def test_a_later_launch_on_real_tensors_compiles_nothing(tmp_path):
    source = seed("rms_norm", "triton_row")
    built = build(tmp_path, source, ROWS)
    assert (built["problems"], built["calls"], built["compiled"], built["loaded"]) == ([], 2, 2, 0)
    assert launch(tmp_path, source, ROWS) == [0, 2]


def test_a_cache_can_be_moved_and_the_module_renamed(tmp_path):
    source = seed("rms_norm", "triton_row")
    assert build(tmp_path / "builder", source, ROWS)["compiled"] == 2
    (tmp_path / "builder").rename(tmp_path / "runner")
    assert launch(tmp_path / "runner", source, ROWS, "kernel_source_7") == [0, 2]
    again = build(tmp_path / "runner", source, ROWS)
    assert (again["compiled"], again["loaded"]) == (0, 2)


def test_a_damaged_entry_is_built_again(tmp_path):
    source = seed("rms_norm", "triton_row")
    build(tmp_path, source, ROWS[:1])
    (facts,) = (path for path in (tmp_path / "triton").rglob("*.json") if not path.name.startswith("__grp__"))
    facts.write_text(facts.read_text()[:20])
    again = build(tmp_path, source, ROWS[:1])
    assert (again["compiled"], again["problems"]) == (1, [])


def test_equal_shapes_are_built_once(tmp_path):
    built = build(tmp_path, seed("rms_norm", "triton_row"), [ROWS[0]] * 5)
    assert (built["distinct"], built["calls"], built["compiled"]) == (1, 1, 1)


SPECIAL = f"""{HEAD}{COPY}
def custom_kernel(data):
    (x,) = data
    y = torch.empty_like(x)
    for view, offset in ((x, 1), (x[1:], 16), (x[4:], 17), (x[8:], 2**40)):
        copy[(1,)](view, y, view.numel(), offset, BLOCK=16, num_warps=1)
    return y
"""


@pytest.mark.slow
def test_alignment_and_values_of_arguments_make_the_same_kernels(tmp_path, guard):
    calls = [[((64,), "float32")], [((68,), "float16")]]
    built = build(tmp_path, SPECIAL, calls, guard=guard)
    assert (built["problems"], built["calls"]) == ([], 2)
    assert launch(tmp_path, SPECIAL, calls) == [0, built["compiled"]]
    assert built["compiled"] > 4


def test_every_configuration_of_a_tuner_is_built(tmp_path):
    tuned = f"""{HEAD}
@triton.autotune([triton.Config({{"BLOCK": b}}, num_warps=w) for b in (32, 64) for w in (1, 2)], key=["n"])
{COPY.strip()}
def custom_kernel(data):
    (x,) = data
    y = torch.empty_like(x)
    copy[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, x.numel(), 0)
    return y
"""
    built = build(tmp_path, tuned, [[((64,), "float32")]])
    assert (built["problems"], built["compiled"]) == ([], 4)


def test_what_cannot_be_followed_stops_one_call(tmp_path):
    source = f"""{HEAD}{COPY.replace("tl.arange(0, BLOCK)", "tl.arange(0, BLOCK) + missing", 1)}
{COPY.replace("copy", "good")}
def custom_kernel(data):
    (x,) = data
    y = torch.empty_like(x)
    if len(x) == 1:
        return y * x.sum().item()
    if len(x) == 2:
        raise SystemExit(3)
    (copy if len(x) == 3 else good)[(1,)](x, y, len(x), 0, BLOCK=16)
    return y
"""
    built = build(tmp_path, source, [[((n,), "float32")] for n in (1, 2, 3, 4)])
    kinds = [(row["call"], row["kind"]) for row in built["problems"]]
    assert kinds == [(0, "data"), (1, "stopped"), (2, "compile")]
    assert (built["calls"], built["compiled"]) == (1, 1)
    assert "missing" in built["problems"][2]["error"] and "\n" not in built["problems"][2]["error"]


def test_a_file_that_does_not_load_is_a_problem(tmp_path):
    built = build(tmp_path, "def custom_kernel(data:\n", ROWS)
    assert [(row["call"], row["kind"]) for row in built["problems"]] == [(-1, "stopped")]
    assert (built["calls"], built["compiled"]) == (0, 0)


def test_host_code_finds_the_device_it_asks_for(tmp_path):
    source = f"""{HEAD}{COPY}
SMS = torch.cuda.get_device_properties(torch.cuda.current_device()).multi_processor_count
side, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()

def custom_kernel(data):
    (x,) = data
    assert x.is_cuda and x.device.index == 0 and torch.cuda.is_available()
    assert torch.cuda.get_device_capability(x.device) == (9, 0) and x.data_ptr() % 512 == 0
    shared = triton.runtime.driver.active.utils.get_device_properties(0)["max_shared_mem"]
    assert (SMS, shared) == (132, 232448)
    y = torch.empty_like(x)
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side), torch.cuda.graph(graph):
        compiled = copy[(SMS,)](x, y, len(x), 0, BLOCK=16)
    assert 8 <= compiled.n_regs <= 64
    torch.cuda.synchronize()
    return y
"""
    built = build(tmp_path, source, [[((16,), "float32")]])
    assert (built["problems"], built["calls"], built["compiled"]) == ([], 1, 1)


@pytest.mark.slow
def test_preloading_asks_for_no_gpu_and_starts_no_thread():
    code = """
import os, torch, triton
def refuse(*_): raise SystemExit("asked for a GPU")
torch.cuda.is_available = torch.cuda.device_count = torch.cuda.init = torch.cuda._lazy_init = refuse
before = len(os.listdir("/proc/self/task"))
from harness.measure import ahead
ahead.preload()
assert "torch.utils.cpp_extension" in __import__("sys").modules and not torch.cuda.is_initialized()
assert len(os.listdir("/proc/self/task")) == before
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.gpu
def test_cuda_starts_in_a_child_forked_after_preloading():
    code = """
import os, torch
from harness.measure import ahead
ahead.preload()
pid = os.fork()
if pid == 0:
    torch.cuda.init()
    os._exit(0 if torch.ones(2, device="cuda").sum().item() == 2 else 1)
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_cuda_source_is_compiled_once_per_source_and_options(tmp_path):
    def compile_kernel(kernel_source: str, kernel_name: str, compute_capability: Any = None, nvcc_options: Any = None):
        return f"{kernel_source} {compute_capability} {nvcc_options}\n\0".encode(), kernel_name.upper()

    compiled: list[str] = []
    look_up = nvrtc._caching(compile_kernel, tmp_path, compiled)
    for options in (None, ["-O1"]):
        first = look_up("a\nb", "f", "90", nvcc_options=options)
        assert first == (f"a\nb 90 {options}\n\0".encode(), "F")
        assert first == look_up("a\nb", "f", compute_capability="90", nvcc_options=options)
    assert compiled == ["f", "f"]
    look_up("a\nb", "g", "90")
    look_up("a\nb", "f", "80")
    assert compiled == ["f", "f", "g", "f"]
    for path in tmp_path.iterdir():
        path.write_bytes(path.read_bytes()[:-1])
    look_up("a\nb", "f", "90")
    assert len(compiled) == 5


@pytest.mark.slow
def test_cuda_seeds_are_built_and_found_again(tmp_path):
    import torch

    if torch.version.cuda is None or ctypes.util.find_library("nvrtc") is None:
        pytest.skip("torch is built without CUDA, or there is no NVRTC")
    source = seed("rms_norm", "cuda_block_row")
    built = build(tmp_path, source, ROWS)
    assert (built["problems"], built["compiled"]) == ([], 2)
    assert build(tmp_path, source, ROWS)["compiled"] == 0


@pytest.mark.slow
def test_registers_are_those_that_the_tools_show(tmp_path):
    from triton import knobs

    build(tmp_path, seed("rms_norm", "triton_row"), ROWS)
    for cubin in (tmp_path / "triton").rglob("*.cubin"):
        tool = Path(knobs.nvidia.ptxas.path).with_name("cuobjdump")
        shown = subprocess.run([tool, "-res-usage", cubin], capture_output=True, text=True, check=True)
        said = shown.stdout + shown.stderr
        assert f"REG:{registers(cubin.read_bytes())} " in said, said


@pytest.mark.slow
@pytest.mark.parametrize("task", tasks.names())
def test_seeds_are_built_without_a_gpu(task, tmp_path, guard):
    """For every Triton seed: the smallest check case and a timing case are built, and the former then loads."""
    cases = [tasks.get(task).check_cases[0], tasks.get(task).timing_cases[0]]
    calls = in_child(lambda: [shapes_of(task, case) for case in cases])
    for name in tasks.seed_names(task):
        if name.startswith("triton_"):
            built = build(tmp_path / name, seed(task, name), calls, guard=guard)
            assert (built["problems"], built["calls"]) == ([], built["distinct"]), name
            # Some seeds take another type of constant where the interpreter runs them, so they ask for other kernels.
            if ".device.type" not in seed(task, name).read_text():
                assert launch(tmp_path / name, seed(task, name), calls[:1])[0] == 0, name


def shapes_of(task: str, case: Any) -> list[tuple[tuple[int, ...], str]]:
    """Return the shapes and dtypes of a case's inputs without making them."""
    import torch

    with pretend.fake_mode():
        inputs = tasks.implementation(task).make_inputs(torch.Generator().manual_seed(0), "cpu", **case.params)
    return [(tuple(x.shape), str(x.dtype).removeprefix("torch.")) for x in inputs]
