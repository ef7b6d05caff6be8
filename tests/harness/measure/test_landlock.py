"""A confined child opens what it needs and nothing else; so do the processes that it starts."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.measure import files, landlock, sandbox
from tests.harness.measure.forked import in_child

needs_landlock = pytest.mark.skipif(
    landlock.version() < landlock.COMPLETE_VERSION,
    reason=f"this kernel's Landlock is version {landlock.version()}, tests need {landlock.COMPLETE_VERSION}",
)


@pytest.mark.slow
def test_this_kernel_has_landlock():
    """The others here are skipped on a kernel without it; the full run must not pass without having tried them."""
    assert landlock.version() >= landlock.COMPLETE_VERSION


class Places:
    """A private folder, a neighbour's folder with a secret in it, and the rules of a builder."""

    def __init__(self, folder: Path) -> None:
        self.private, self.neighbour = folder / "private", folder / "neighbour"
        for place in (self.private, self.neighbour):
            place.mkdir()
        self.secret = self.neighbour / "secret"
        self.secret.write_text("42")
        self.needed = files.needed(gpu=False, hidden=[self.neighbour])

    def confined(self, work: Callable[[], Any]) -> Any:
        """Run `work` in a confined child; its answer, or the name of its exception."""

        def confine_and_work() -> Any:
            needed = self.needed
            reason = landlock.confine(needed.readable, [self.private], needed.devices, needed.listable)
            return reason or work()

        return in_child(confine_and_work)


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(tmp_path)


@needs_landlock
def test_the_private_folder_can_be_used(places):
    def work() -> str:
        (places.private / "a").mkdir()
        (places.private / "a" / "part").write_text("hello")
        os.replace(places.private / "a" / "part", places.private / "whole")
        (places.private / "a").rmdir()
        with open(places.private / "whole", "r+") as file:
            file.truncate(4)
        return (places.private / "whole").read_text()

    assert places.confined(work) == "hell"


@needs_landlock
def test_temporary_files_go_to_the_private_folder_whatever_the_parent_chose(places):
    def work() -> str:
        tempfile.gettempdir()  # from now on Python remembers the folder
        sandbox.enter(places.private, places.needed)
        with tempfile.NamedTemporaryFile() as file:
            return str(Path(file.name).parent)

    assert in_child(work) == str(places.private / "tmp")


@needs_landlock
@pytest.mark.parametrize("folder", ["neighbour", "/tmp", "/dev/shm", "/var/tmp", str(Path.home())])
def test_nothing_is_written_elsewhere(places, folder):
    target = (places.neighbour if folder == "neighbour" else Path(folder)) / f"kernelcast-test-{os.getpid()}"
    assert places.confined(lambda: target.write_text("x")) == "PermissionError"
    assert places.confined(lambda: target.mkdir()) == "PermissionError"
    assert not target.exists()


@needs_landlock
def test_what_lies_elsewhere_stays_as_it_is(places):
    assert places.confined(lambda: os.truncate(places.secret, 0)) == "PermissionError"
    assert places.confined(places.secret.unlink) == "PermissionError"
    assert places.confined(lambda: os.rename(places.secret, places.private / "mine")) == "PermissionError"
    assert places.confined(lambda: os.link(places.secret, places.private / "mine")) == "OSError"  # "another device"
    assert places.secret.read_text() == "42"


@needs_landlock
def test_what_lies_elsewhere_is_not_read(places):
    assert places.confined(places.secret.read_text) == "PermissionError"
    assert places.confined(lambda: os.listdir(places.neighbour)) == "PermissionError"
    assert places.confined(Path("/etc/shadow").read_text) == "PermissionError"

    def through_a_link() -> str:
        (places.private / "link").symlink_to(places.secret)
        return (places.private / "link").read_text()

    assert places.confined(through_a_link) == "PermissionError"


@needs_landlock
def test_the_tasks_are_not_read(places, root):
    assert places.confined((root / "tasks" / "rms_norm" / "reference.py").read_text) == "PermissionError"
    assert "import" in places.confined((root / "harness" / "measure" / "landlock.py").read_text)


@needs_landlock
def test_what_a_child_starts_is_confined_too(places):
    def work() -> list[str]:
        code = f"import sys; sys.stdout.write(open({str(places.secret)!r}).read())"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        return [done.stdout, done.stderr.splitlines()[-1].split(":")[0]]

    assert places.confined(work) == ["", "PermissionError"]


@needs_landlock
@pytest.mark.parametrize("name", ["mem", "environ", "maps", "fd", "root", "cwd", "cmdline"])
def test_the_parent_is_not_looked_into(places, name):
    path = f"/proc/{os.getpid()}/{name}"
    look = os.listdir if name in ("fd", "root", "cwd") else lambda path: Path(path).read_bytes()
    assert places.confined(lambda: str(look(path))) == "PermissionError"


@needs_landlock
@pytest.mark.skipif(landlock.version() < landlock.SCOPE_VERSION, reason="signals are confined from version 6 on")
def test_the_parent_gets_no_signal_and_no_connection(places):
    assert places.confined(lambda: os.kill(os.getppid(), 0)) == "PermissionError"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"\0kernelcast-test-{os.getpid()}")
        listener.listen()
        name = listener.getsockname()
        assert places.confined(lambda: socket.socket(socket.AF_UNIX).connect(name)) == "PermissionError"


@needs_landlock
@pytest.mark.skipif(landlock.version() < landlock.TCP_VERSION, reason="TCP is confined from version 4 on")
def test_there_is_no_tcp(places):
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
        assert places.confined(lambda: socket.create_connection(address, 5) and "") == "PermissionError"
    assert places.confined(lambda: socket.create_server(("127.0.0.1", 0)) and "") == "PermissionError"


@needs_landlock
def test_plain_devices_work(places):
    def work() -> int:
        Path("/dev/null").write_text("x")
        return len(Path("/dev/urandom").open("rb").read(4))

    assert places.confined(work) == 4


@needs_landlock
def test_the_parent_still_ends_the_child(places):
    ready, started = os.pipe()
    pid = os.fork()
    if pid == 0:
        needed = places.needed
        landlock.confine(needed.readable, [places.private], needed.devices, needed.listable)
        os.write(started, b"!")
        time.sleep(60)
        os._exit(0)
    os.read(ready, 1)
    os.kill(pid, signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL


@needs_landlock
def test_a_second_confinement_can_only_narrow(places):
    def work() -> Any:
        reason = landlock.confine(["/"], ["/"], [])
        return reason or places.secret.read_text()

    assert places.confined(work) == "PermissionError"


@needs_landlock
def test_other_threads_are_a_reason():
    def work() -> str:
        import threading

        threading.Thread(target=time.sleep, args=(30,), daemon=True).start()
        return landlock.confine(["/usr"], [], [])

    assert in_child(work) == "1 other threads of this process would stay as they are"


def test_a_kernel_without_it_is_a_reason(monkeypatch):
    monkeypatch.setattr(landlock, "CREATE_RULESET", 4444)  # no such system call
    assert landlock.version() == 0
    assert landlock.confine(["/usr"], [], []) == "the kernel has no Landlock"


def test_only_a_run_child_gets_gpu_devices():
    builder, run = files.needed(gpu=False), files.needed(gpu=True)
    assert not any("nvidia" in path for path in builder.devices)
    assert set(builder.devices) <= set(run.devices)
    assert "/sys" in run.readable and "/sys" not in builder.readable
    writable_by_all = {"/tmp", "/dev/shm", "/var/tmp"}
    for rules in (builder, run):
        assert writable_by_all.isdisjoint(rules.readable + rules.listable + rules.devices)


def test_what_is_hidden_is_spared_inside_of_what_is_needed(tmp_path):
    for name in ("packages/torch", "packages/tasks/rms_norm"):
        (tmp_path / name).mkdir(parents=True)
    packages = tmp_path / "packages"
    readable: set[str] = set()
    listable: set[str] = set()
    files._spare(packages, {packages / "tasks"}, readable, listable)
    assert (readable, listable) == ({str(packages / "torch")}, {str(packages)})
