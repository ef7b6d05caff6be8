"""The tool that a language model calls to give its forecast, in the form that OpenAI-compatible endpoints take."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from benchmark.bins import BINS, EDGES

TOOL_NAME = "submit_speedup_forecast"
FIELDS = tuple(f"p{b}" for b in BINS)


def tool_definition() -> dict[str, Any]:
    """Return the tool: eight flat number fields, without references, which some endpoints refuse."""
    properties = {
        field: {"type": "number", "minimum": 0, "maximum": 1, "description": f"probability that {text}"}
        for field, text in zip(FIELDS, bin_ranges(), strict=True)
    }
    return {
        "type": "function",
        "function": {
            "name": TOOL_NAME,
            "description": "Submit the probability of each speedup bin; the eight sum to 1.",
            "parameters": {
                "type": "object",
                "properties": properties,
                "required": list(FIELDS),
                "additionalProperties": False,
            },
        },
    }


def bin_ranges() -> list[str]:
    """Return the range of each bin as text, from the edges that scoring uses."""
    edges = [f"{edge:.6g}" for edge in EDGES]
    inner = [f"{low} < S <= {high}" for low, high in pairwise(edges)]
    return [f"S <= {edges[0]}", *inner, f"S > {edges[-1]}"]
