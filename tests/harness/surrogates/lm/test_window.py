"""What is cut when a prompt is longer than the model's window: by the rule, and by a tokeniser of one token a byte."""

from __future__ import annotations

import pytest

from harness.surrogates.lm.window import fit

from .conftest import make_query


class Bytes:
    """A tokeniser with one token for each byte."""

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        return list(text.encode())

    def decode(self, ids: list[int], clean_up_tokenization_spaces: bool = True) -> str:
        return bytes(ids).decode()


def test_what_fits_is_left_alone() -> None:
    query = make_query(anchor_code="a" * 400, candidate_code="b" * 400)
    assert fit(query, Bytes(), 100, 1000) == (query, {"anchor": 0, "candidate": 0})


def test_a_long_candidate_gets_what_the_anchor_leaves() -> None:
    query = make_query(anchor_code="a" * 100, candidate_code="b" * 500 + "c" * 1500)
    cut, left_out = fit(query, Bytes(), 100, 1000)
    assert cut.anchor_code == query.anchor_code and left_out["anchor"] == 0
    head, _, tail = cut.candidate_code.partition(f"\n# ... {left_out['candidate']} tokens left out ...\n")
    assert len(head) == len(tail) and set(head) == {"b"} and set(tail) == {"c"}
    assert len(head) + len(tail) + left_out["candidate"] == 2000
    assert 700 < len(cut.candidate_code) <= 1000 - 100 - 100


def test_a_long_anchor_takes_half_whatever_the_candidate_is() -> None:
    anchor = "a" * 5000
    cuts = [fit(make_query(anchor_code=anchor, candidate_code="b" * n), Bytes(), 100, 1000)[0] for n in (10, 400, 9000)]
    assert len({cut.anchor_code for cut in cuts}) == 1
    assert len(cuts[0].anchor_code) <= 450
    assert all(100 + len(cut.anchor_code) + len(cut.candidate_code) <= 1000 for cut in cuts)


def test_a_window_without_room_for_code_is_refused() -> None:
    with pytest.raises(ValueError, match="the prompt alone takes 950 of the model's 1000 tokens"):
        fit(make_query(), Bytes(), 950, 1000)
