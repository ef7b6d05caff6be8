from __future__ import annotations

from concurrent.futures import Future

import pytest

from harness.measure.fleet import Fleet
from harness.measure.limits import InfrastructureError
from harness.measure.result import Measurement


class Member:
    """A member that holds what it is given until it is told to answer."""

    def __init__(self, name: str) -> None:
        self.session = {"session_id": name, "isolation": "strict"}
        self.held: list[tuple[str, Future[Measurement]]] = []

    def submit(self, task, code, language=None, isolation=None):
        future: Future[Measurement] = Future()
        self.held.append((code, future))
        return future

    def session_rows(self):
        return [self.session]

    def answer(self, error: Exception | None = None) -> None:
        code, future = self.held.pop(0)
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(Measurement(code, "t", "ok", session_id=self.session["session_id"]))

    def abort(self):
        pass

    def close(self):
        pass


def test_a_kernel_goes_to_the_member_with_the_least_to_do():
    one, two = Member("one"), Member("two")
    fleet = Fleet([one, two])
    for number in range(4):
        fleet.submit("t", str(number))
    assert (len(one.held), len(two.held)) == (2, 2)
    one.answer()
    one.answer()
    fleet.submit("t", "4")
    assert len(one.held) == 1


def test_what_a_member_lost_is_measured_by_another_once():
    one, two = Member("one"), Member("two")
    fleet = Fleet([one, two])
    future = fleet.submit("t", "k")
    one.answer(InfrastructureError("gone"))
    assert not future.done()
    two.answer()
    assert future.result(1).session_id == "two"
    again = fleet.submit("t", "k2")  # the one that failed is passed over
    assert two.held
    two.answer(InfrastructureError("gone too"))
    one.answer(InfrastructureError("still gone"))
    with pytest.raises(InfrastructureError, match="still gone"):
        again.result(1)


def test_the_sessions_of_all_members_are_known():
    fleet = Fleet([Member("one"), Member("two")])
    assert [row["session_id"] for row in fleet.session_rows()] == ["one", "two"]
    with pytest.raises(ValueError, match="at least one member"):
        Fleet([])
