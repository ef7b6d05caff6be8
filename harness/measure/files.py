"""The files that a child legitimately needs on a typical machine, as rules for `landlock.confine`."""

from __future__ import annotations

import glob
import os
import shutil
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]  # where our packages lie: a checkout, or site-packages
OURS = ("benchmark", "leaderboard", "tasks", "tests")  # what a child has no business to read
SYSTEM = (
    "/usr", "/bin", "/sbin", "/lib", "/lib64", "/opt/cuda", "/opt/nvidia",
    "/etc/alternatives", "/etc/group", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime",
    "/etc/nsswitch.conf", "/etc/os-release", "/etc/passwd",
    "/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/filesystems", "/proc/version", "/proc/sys/vm",
    "/proc/sys/kernel/osrelease", "/sys/devices/system/cpu",
)  # fmt: skip
# What starting CUDA reads beside its libraries and devices: the driver's parameters and capabilities, the topology of
# the PCI bus and of memory nodes, which modules and device numbers there are, and who is the persistence daemon.
CUDA = (
    "/proc/driver/nvidia", "/proc/driver/nvidia-caps", "/proc/driver/nvidia-uvm", "/proc/devices", "/proc/modules",
    "/proc/sys/kernel", "/sys", "/etc/nvidia", "/etc/OpenCL", "/run/nvidia-persistenced", "/run/nvidia-fabricmanager",
)  # fmt: skip
PLAIN_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
GPU_DEVICES = ("/dev/nvidia*", "/dev/nvidia-caps/*", "/dev/nvidia-caps-imex-channels/*", "/dev/dri/*")
OWN_THREADS = "/proc/self/task"  # starting CUDA fails where it cannot write the names of its threads there
COMPILERS = ("gcc", "g++", "clang", "nvcc", "ninja")
VARIABLES = ("CUDA_HOME", "CUDA_PATH", "LD_LIBRARY_PATH", "PATH", "TRITON_PTXAS_PATH", "TRITON_LIBDEVICE_PATH", "CC")


@dataclass(frozen=True)
class Files:
    """Arguments of `landlock.confine` beside the writable folder: what can be read, only listed, and used as device."""

    readable: tuple[str, ...]
    listable: tuple[str, ...]
    devices: tuple[str, ...]


def needed(gpu: bool, hidden: Iterable[str | Path] = ()) -> Files:
    """Return what a child that runs (`gpu`) or only builds kernels has to open, apart from its private folder.

    The tasks, our data and whatever is `hidden` stay unreadable wherever they lie, also inside a folder that is needed.
    Call it before the fork, once: it lists folders. Nothing in /tmp and /dev/shm is among it.
    """
    unseen = {*(ROOT / name for name in OURS), *(Path(path).resolve() for path in hidden)}
    wanted = {*SYSTEM, *(CUDA if gpu else ()), *_python(), *_compilers(), *_named_by_environment(), *_mapped()}
    readable: set[str] = set()
    listable: set[str] = set()
    for path in wanted:
        # /proc/self is another process's folder once it is resolved here and used there.
        place = Path(path) if path.startswith("/proc/") else Path(path).resolve()
        _spare(place, unseen, readable, listable)
    devices = [*PLAIN_DEVICES, *(path for pattern in GPU_DEVICES if gpu for path in sorted(glob.glob(pattern)))]
    devices += [OWN_THREADS] if gpu else []
    return Files(tuple(sorted(readable)), tuple(sorted(listable)), tuple(devices))


def _python() -> set[str]:
    """Return where the interpreter, its packages and our own code for children lie."""
    found = {sys.prefix, sys.base_prefix, sys.exec_prefix, str(ROOT / "harness")}
    packages = {os.path.abspath(path) for path in sys.path if path}
    if ROOT.name not in ("site-packages", "dist-packages"):
        packages.discard(str(ROOT))  # a checkout holds much beside packages
    return found | packages


def _compilers() -> set[str]:
    """Return where those compilers are installed that a kernel may call where it runs, with their own files."""
    found = {shutil.which(os.environ.get("CC") or "cc"), *map(shutil.which, COMPILERS)}
    folders = {Path(path).resolve().parent for path in found if path}
    return {str(folder.parent) for folder in folders if folder.name == "bin" and folder.parent != Path("/")}


def _named_by_environment() -> set[str]:
    values = (os.environ.get(name, "") for name in VARIABLES)
    return {path for value in values for path in value.split(os.pathsep) if os.path.isabs(path)}


def _mapped() -> set[str]:
    """Return the folders of the libraries in this process: where these lie, those that they load later lie too."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    paths = {line.split(maxsplit=5)[-1] for line in lines if ".so" in line and "/" in line}
    return {os.path.dirname(path) for path in paths if os.path.isfile(path)}


def _spare(place: Path, unseen: set[Path], readable: set[str], listable: set[str]) -> None:
    """Add `place`, or if something unseen lies below it, what else is in it."""
    if place == Path("/") or not unseen.isdisjoint((place, *place.parents)) or not place.exists():
        return
    if not any(place in path.parents for path in unseen):
        readable.add(str(place))
        return
    listable.add(str(place))
    for entry in os.scandir(place):
        if not entry.is_symlink():
            _spare(Path(entry.path), unseen, readable, listable)
