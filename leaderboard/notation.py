"""How a figure is written: the one formatter of text, Markdown, LaTeX and the site."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DECIMALS = 3
MISSING = "-"


def number(value: float | None) -> str:
    """Return a figure with three decimals; a dash where it is undefined. Zero has no sign."""
    if value is None:
        return MISSING
    text = f"{value:.{DECIMALS}f}"
    return text.removeprefix("-") if not text.strip("-0.") else text


def interval(figure: Mapping[str, Any]) -> str:
    """Return the 95% interval of a figure in brackets; nothing where it has none."""
    if figure["value"] is None or figure["low"] is None:
        return ""
    return f"[{number(figure['low'])}, {number(figure['high'])}]"


def with_interval(figure: Mapping[str, Any]) -> str:
    """Return a figure with its interval, as far as there are any."""
    return f"{number(figure['value'])} {interval(figure)}".rstrip()


def with_reason(figure: Mapping[str, Any]) -> str:
    """Return a figure with its interval, or why there is none."""
    return f"undefined ({figure['reason']})" if figure["value"] is None else with_interval(figure)


def share(value: float) -> str:
    """Return a share as a percentage with one decimal; only what is whole is written as 100.0%."""
    text = f"{value:.1%}"
    return "99.9%" if text == "100.0%" and value < 1 else text


def rank(value: int | None) -> str:
    """Return a rank; a dash for a row without one."""
    return MISSING if value is None else str(value)
