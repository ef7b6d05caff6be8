"""Text in a kernel's source that tells how fast it is, or how fast it was meant to be."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from functools import lru_cache

from benchmark.cuda_source import is_cuda, scan
from benchmark.identity import normalise_newlines

# A stated factor ("0.35x", "1.4 times faster"), a stated share ("20% slower"), a band of the release's bins, or a goal.
_TELLS = re.compile(
    r"""
      (?<![\w.])\d+\.\d+\s?[x\u00d7](?!\w)
    | \b\d+(?:\.\d+)?\s?(?:[x\u00d7]|times)\s+(?:as\s+)?(?:fast|slow|speed|quick)\w*
    | \b\d+(?:\.\d+)?\s?%\s+(?:fast|slow|quick)\w*
    | \bspeed-?\s?ups?\b | \bslow-?\s?downs?\b
    | \btarget(?:s|ed|ing)?\s+(?:an?\s+|the\s+)?
      (?:speed|slow|bin\b|band\b|factor\b|ratio\b|~?\s?\d+(?:\.\d+)?\s?[x\u00d7])
    | \b(?:intentional|deliberate)(?:ly)?\s+(?:slow|ineffici|redundan|wast)\w*
    | \b(?:SEVERE|SIGNIFICANT|MODERATE|MINOR|HIGH|EXTREME)_(?:SPEEDUP|SLOWDOWN)\b
    """,
    re.VERBOSE | re.IGNORECASE,
)


def telling_text(text: str) -> str | None:
    """Return the first words of a text that state a speed or a target, None if there are none."""
    found = _TELLS.search(text)
    return found.group() if found else None


@lru_cache(maxsize=4096)
def describes_itself(code: str) -> bool:
    """Return whether a comment or a string of a source states a speed or a target; CUDA in strings counts too."""
    return any(telling_text(text) for text in _prose(normalise_newlines(code)))


def prose_characters(code: str) -> int:
    """Return how many characters of a source stand in comments and plain strings: what a probe of comments sees."""
    return sum(len(text) for text in _prose(normalise_newlines(code)))


def _prose(code: str) -> Iterator[str]:
    """Yield the comments, and the strings that are not CUDA source; of CUDA source its comments."""
    try:
        for token in tokenize.generate_tokens(io.StringIO(code).readline):
            if token.type == tokenize.COMMENT:
                yield token.string
            elif token.type == tokenize.STRING or tokenize.tok_name[token.type] == "FSTRING_MIDDLE":
                if is_cuda(token.string):
                    yield from (text for kind, text in scan(token.string) if kind == "comment")
                else:
                    yield token.string
    except (tokenize.TokenError, SyntaxError):
        yield code  # not Python: all of it may be prose
