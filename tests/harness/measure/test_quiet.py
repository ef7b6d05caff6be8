from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from harness.measure.quiet import Children, Company, DeviceMemory, stopped


@pytest.fixture
def sleepers():
    processes = [
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
        for _ in range(3)
    ]
    yield [p.pid for p in processes]
    for process in processes:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


def wait_for(pid: int, wanted: set[str]) -> str:
    deadline = time.monotonic() + 5
    while state(pid) not in wanted and time.monotonic() < deadline:
        time.sleep(0.01)
    return state(pid)


def test_all_foreign_ones_but_the_timed_stop_and_go_on(sleepers):
    children, (mine, other, late) = Children(), sleepers
    for pid in sleepers:
        children.add(pid)
    children.foreign(mine)
    children.foreign(other)
    with children.only(mine):
        assert wait_for(other, {"T"}) == "T"
        assert state(late) != "T"  # it runs only our own code so far
        children.foreign(late)
        assert wait_for(late, {"T"}) == "T"
        assert state(mine) != "T"
    assert wait_for(other, {"S", "R"}) != "T"
    assert wait_for(late, {"S", "R"}) != "T"


def test_the_time_of_being_stopped_is_known(sleepers):
    children, (mine, other, late) = Children(), sleepers
    children.foreign(mine)
    children.foreign(other)
    with children.only(mine):
        time.sleep(0.1)
        children.foreign(late)
        time.sleep(0.1)
        assert children.paused(other)[0] >= 0.2 and children.paused(other)[1]
    (one, now), (two, _) = children.paused(other), children.paused(late)
    assert one >= 0.2 and 0.1 <= two <= one - 0.09 and not now
    assert children.paused(mine) == (0.0, False)
    assert children.paused(other) == (one, False)
    children.remove(other)
    assert children.paused(other) == (0.0, False)


def test_one_stops_for_a_while(sleepers):
    with stopped(sleepers[0]):
        assert wait_for(sleepers[0], {"T"}) == "T"
    assert wait_for(sleepers[0], {"S", "R"}) != "T"


def test_the_dead_are_no_obstacle():
    process = subprocess.Popen([sys.executable, "-c", ""], start_new_session=True)
    process.wait()
    children = Children()
    children.add(process.pid)
    children.foreign(process.pid)
    with children.only(1), stopped(process.pid):
        pass


def test_memory_is_waited_for_and_a_giant_runs_alone():
    memory, order = DeviceMemory(10), []

    def second():
        with memory.reserve(99):
            order.append("giant")

    with memory.reserve(4):
        thread = threading.Thread(target=second)
        thread.start()
        time.sleep(0.1)
        order.append("first")
    thread.join(5)
    assert order == ["first", "giant"]


def entered(how, inside, leave):
    """Start a thread that enters `how`, notes it in `inside`, and leaves when told."""

    def stay():
        with how():
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=stay)
    thread.start()
    return thread


def test_who_wants_to_be_alone_waits_for_the_others_and_they_for_him():
    company = Company()
    inside, leave = ([threading.Event() for _ in range(4)] for _ in range(2))
    threads = [entered(company.among_others, inside[i], leave[i]) for i in range(2)]
    assert inside[0].wait(5) and inside[1].wait(5)  # many beside each other
    threads.append(entered(company.alone, inside[2], leave[2]))
    leave[0].set()
    assert not inside[2].wait(0.1)  # one of two is still there
    threads.append(entered(company.among_others, inside[3], leave[3]))
    assert not inside[3].wait(0.1)  # who comes later does not overtake
    leave[1].set()
    assert inside[2].wait(5)
    assert not inside[3].wait(0.1)
    leave[2].set()
    assert inside[3].wait(5)
    leave[3].set()
    for thread in threads:
        thread.join(5)


def test_company_is_left_by_who_fails():
    company = Company()
    for how in (company.among_others, company.alone, company.alone, company.among_others):
        with pytest.raises(ValueError), how():
            raise ValueError
