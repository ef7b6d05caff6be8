"""Making a prompt fit a model's window, by one rule, so that every row can say what was left out.

The rule: what the prompt says itself is never cut. Of the tokens that are left for code, the anchor's may take at most
half, the candidate's all that the anchor's leaves. A code that is longer keeps its beginning and its end, in equal
parts, around a line that says how many tokens were left out. So the anchor's part does not depend on the candidate.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from benchmark.query import Query

MARKER = "\n# ... {n} tokens left out ...\n"
_MARKER_TOKENS = 24  # more than the marker needs in any tokeniser that knows its words letter by letter, nearly
_SEAMS = 16  # tokens may merge or split where parts meet


def fit(query: Query, tokenizer: Any, fixed_tokens: int, window: int) -> tuple[Query, dict[str, int]]:
    """Return the query with its codes shortened to the window, and the number of tokens left out of each.

    `fixed_tokens` is the length of the prompt with both codes empty. Raises ValueError if no room is left for code.
    """
    room = window - fixed_tokens - _SEAMS
    if room < 4 * _MARKER_TOKENS:
        raise ValueError(f"the prompt alone takes {fixed_tokens} of the model's {window} tokens; no code fits")
    anchor, anchor_kept, anchor_out = _cut(query.anchor_code, tokenizer, room // 2)
    candidate, _, candidate_out = _cut(query.candidate_code, tokenizer, room - anchor_kept)
    left_out = {"anchor": anchor_out, "candidate": candidate_out}
    return replace(query, anchor_code=anchor, candidate_code=candidate), left_out


def _cut(code: str, tokenizer: Any, most: int) -> tuple[str, int, int]:
    """Return the code in at most `most` tokens, how many it takes, and how many were left out."""
    ids = tokenizer.encode(code, add_special_tokens=False)
    if len(ids) <= most:
        return code, len(ids), 0
    half = (most - _MARKER_TOKENS) // 2
    left_out = len(ids) - 2 * half
    head, tail = (tokenizer.decode(part, clean_up_tokenization_spaces=False) for part in (ids[:half], ids[-half:]))
    return head + MARKER.format(n=left_out) + tail, most, left_out
