"""CUDA C++ source as tokens: find it in strings, strip its comments, normalise its white space."""

from __future__ import annotations

import re
from collections.abc import Iterator

_MARKERS = re.compile(
    r"__global__|__device__|__launch_bounds__|\bthreadIdx\b|\bblockIdx\b|^[ \t]*#[ \t]*(?:include|define|pragma)\b"
    r'|\bextern\s+"C"|\btorch::|\bat::Tensor\b|PYBIND11_MODULE|TORCH_LIBRARY',
    re.MULTILINE,
)
_TOKEN = re.compile(
    r"""
      (?P<comment>//[^\n]*|/\*.*?(?:\*/|\Z))
    | (?P<raw>R"(?P<delimiter>[^()\\\s]{0,16})\(.*?\)(?P=delimiter)")
    | (?P<string>"(?:\\.|[^"\\\n])*")
    | (?P<char>'(?:\\.|[^'\\\n])+')
    | (?P<number>\.?[0-9](?:[eEpP][+-]|'(?=\w)|[\w.])*)
    | (?P<name>[A-Za-z_]\w*)
    | (?P<space>\s+)
    | (?P<operator><<<|>>>|<<=|>>=|::|->|\+\+|--|&&|\|\||[-+*/%&|^<>=!]=|<<|>>|.)
    """,
    re.VERBOSE | re.DOTALL,
)


def is_cuda(text: str) -> bool:
    """Return whether a string constant holds CUDA C++ (or its host binding)."""
    return _MARKERS.search(text) is not None


def scan(source: str) -> Iterator[tuple[str, str]]:
    """Yield (kind, text) of every token; kinds are comment, raw, string, char, number, name, space and operator."""
    for match in _TOKEN.finditer(source.replace("\\\n", "")):
        yield match.lastgroup if match.lastgroup != "delimiter" else "raw", match.group()  # type: ignore[misc]


def _stripped(source: str) -> list[tuple[str, str]]:
    tokens: list[tuple[str, str]] = []
    for kind, text in scan(source):
        kind, text = ("space", " ") if kind == "comment" else (kind, text)
        if kind == "space" and tokens and tokens[-1][0] == "space":
            tokens[-1] = ("space", tokens[-1][1] + text)
        else:
            tokens.append((kind, text))
    return tokens


def normalise(source: str) -> str:
    """Return the source without comments, with one space for each run of blanks, one line for each preprocessor
    directive, and a line break and indentation after `;`, `{` and `}` that had white space behind them.

    White space is never put where there was none, so that the pieces of a `%` or `str.format` template stay intact.
    """
    tokens = _stripped(source)
    first = 1 if tokens and tokens[0][0] == "space" else 0
    lines: list[str] = []
    line, directive, parens, depth, pending = "", False, 0, 0, False

    def flush() -> None:
        nonlocal line, pending
        if line:
            level = 0 if line.startswith("#") else max(0, depth_at_start - (len(line) - len(line.lstrip("}"))))
            lines.append("  " * level + line)
        line, pending = "", False

    depth_at_start = 0
    for position, (kind, text) in enumerate(tokens):
        if kind == "space":
            breaks = "\n" in text
            if directive:
                if breaks:
                    flush()
                    directive = False
                pending = bool(line)
            elif line and line[-1] in ";{}" and parens == 0:
                flush()
            else:
                pending = bool(line)
            continue
        starts_line = position == 0 or (tokens[position - 1][0] == "space" and "\n" in tokens[position - 1][1])
        if text == "#" and kind == "operator" and (starts_line or position == first):
            flush()
            directive = True
        if not line:
            depth_at_start = depth
        line += (" " if pending else "") + text
        pending = False
        if not directive and kind == "operator":
            parens = max(0, parens + (text in "([") - (text in ")]"))
            depth = max(0, depth + (text == "{") - (text == "}"))
    flush()
    ends = tokens[-1][1] if tokens[-1:] and tokens[-1][0] == "space" else ""
    begins = tokens[0][1] if tokens[:1] and tokens[0][0] == "space" else ""
    return _edge(begins) + "\n".join(lines) + (_edge(ends) if lines else "")


def _edge(blank: str) -> str:
    """White space at the ends stays: the string may be a piece of a source that is put together at run time."""
    return "\n" if "\n" in blank else " " if blank else ""
