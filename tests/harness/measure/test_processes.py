"""Deadlines and answers of a child, seen by the controller."""

from __future__ import annotations

import math
import socket
import threading
import time

import pytest

from harness.measure.limits import Failed
from harness.measure.processes import Child, number, printable
from harness.measure.protocol import Channel
from harness.measure.quiet import Children

NOBODY = 2**22 + 1  # beyond the largest process number of Linux


@pytest.fixture
def child():
    """A child whose other end the test holds, as `child.peer`."""
    ours, theirs = socket.socketpair()
    one = Child.__new__(Child)
    one.pid, one.children, one.channel = NOBODY, Children(), Channel(ours)
    one.children.foreign(one.pid)
    one.peer = Channel(theirs)
    yield one
    ours.close()
    theirs.close()


def test_being_stopped_for_another_one_does_not_count(child):
    def answer_late():
        with child.children.only(1):
            time.sleep(0.5)
        child.peer.send({"ok": 1})

    threading.Thread(target=answer_late).start()
    time.sleep(0.05)
    assert child.receive("check", 0.2) == {"ok": 1}


def test_running_too_long_counts_whatever_was_before(child):
    with child.children.only(1):
        time.sleep(0.3)
    started = time.monotonic()
    with pytest.raises(Failed, match=r"no answer within the check limit of 0\.2 s"):
        child.receive("check", 0.2)
    assert time.monotonic() - started < 1


def test_a_stop_that_ends_leaves_what_was_left(child):
    def stop():
        with child.children.only(1):
            time.sleep(0.3)

    threading.Thread(target=stop).start()
    started = time.monotonic()
    with pytest.raises(Failed):
        child.receive("check", 0.2)
    assert 0.3 < time.monotonic() - started < 2


@pytest.mark.parametrize("value", [math.nan, math.inf, -1, 1e300, True, "1", None, [1]])
def test_what_is_no_number_is_refused(value):
    with pytest.raises(Failed, match="without the number 'seconds'") as caught:
        number({"seconds": value}, "seconds", "check")
    assert caught.value.status == "rejected"


def test_a_number_is_a_number():
    assert number({"seconds": 2}, "seconds", "check") == 2.0
    with pytest.raises(Failed):
        number({}, "seconds", "check")


def test_text_of_a_child_can_be_written():
    assert printable("a\ud800b").encode() == b"a?b"
    assert len(printable("x" * 1_000_000)) < 10_000
