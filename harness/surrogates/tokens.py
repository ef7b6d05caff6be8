"""Source code as a sequence of tokens that mean the same in every kernel: names are split, numbers are sizes."""

from __future__ import annotations

import difflib
import math
import re
import zlib
from functools import lru_cache

_TOKEN = re.compile(
    r"\d+\.\d*(?:[eE][+-]?\d+)?|\.\d+|\d+[eE][+-]?\d+|0[xX][0-9a-fA-F]+|\d+|[A-Za-z]+|\n *|[^\sA-Za-z0-9_]"
)
_CONTEXT_LINES = 2
GAP = "<gap>"


@lru_cache(maxsize=16384)
def tokenise(code: str) -> tuple[str, ...]:
    """Return the tokens of a source: parts of names in lower case, operators, line starts with their depth, numbers.

    A name is split at underscores. A positive number becomes its size in half octaves, so that 128 and 130 are the
    same token and 64 is another.
    """
    return tuple(_token(match.group()) for match in _TOKEN.finditer(code))


def _token(text: str) -> str:
    if text[0] == "\n":
        return f"<line {min((len(text) - 1) // 4, 6)}>"
    if text[0].isdigit() or (text[0] == "." and len(text) > 1):
        value = float(int(text, 16)) if text[:2].lower() == "0x" else float(text)
        return f"<{round(2 * math.log2(value)) / 2:g}>" if 0 < value < math.inf else "<0>"
    return text.lower()


@lru_cache(maxsize=16384)
def changed_lines(before: str, after: str) -> tuple[str, str]:
    """Return the lines of each source that the other does not have, with two lines around them; GAP stands between."""
    old, new = before.splitlines(), after.splitlines()
    groups = difflib.SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(_CONTEXT_LINES)
    left, right = [], []
    for group in groups:
        left.append("\n".join(old[group[0][1] : group[-1][2]]))
        right.append("\n".join(new[group[0][3] : group[-1][4]]))
    return f"\n{GAP}\n".join(left), f"\n{GAP}\n".join(right)


@lru_cache(maxsize=65536)
def hashed(token: str, size: int) -> int:
    """Return the row of a token in a table of `size`, from 1; 0 stands for no token. The same on every machine."""
    return 1 + zlib.crc32(token.encode()) % (size - 1)
