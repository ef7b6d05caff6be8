from __future__ import annotations

import torch

from harness.measure.library import Entry, Known, Library
from tasks.spec import Tolerance


def known(value: float, elements: int = 4) -> Known:
    data = torch.full((elements,), value, dtype=torch.float64)
    return Known((data,), (), (data * 2,), (Tolerance(rtol=0.0, atol=0.1),))


def entry(value: float = 1.0) -> Entry:
    return Entry((known(value),))


def test_bad_elements_are_counted_and_explained():
    one = known(3.0)  # expected 6, tolerance 0.1 * RMS = 0.6
    right, wrong = torch.full((4,), 6.5), torch.tensor([6.0, 6.7, float("nan"), 6.0])
    assert (int(one.bad([right])), int(one.bad([wrong]))) == (0, 2)
    assert one.why([right]) is None
    assert "2 of 4 elements differ" in one.why([wrong])


def test_a_run_never_draws_the_same_entry_twice():
    library, had = Library(max_bytes=1 << 20, depth=2), set()
    drawn = [library.draw(("t",), entry, had) for _ in range(5)]
    assert len(set(drawn)) == 5


def test_entries_serve_several_runs_until_they_are_used_up():
    library = Library(max_bytes=1 << 20, max_uses=4, depth=2)
    uses = [library.draw(("t",), entry, set()) for _ in range(40)]
    assert max(uses.count(one) for one in uses) == 4
    assert 10 <= library.made <= 12


def test_the_least_recently_used_key_makes_room():
    library = Library(max_bytes=5 * entry().nbytes, depth=2)
    for key in ("a", "b", "a", "b", "a"):
        library.draw((key,), entry, set())
    library.draw(("c",), entry, set())
    library.draw(("c",), entry, set())
    made = library.made
    library.draw(("a",), entry, set())
    assert library.made == made  # a was used after b, so b went
    library.draw(("b",), entry, set())
    assert library.made == made + 1
