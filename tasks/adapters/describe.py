"""Load a problem and run it once: `python -m tasks.adapters.describe NAME` prints its description as a line of JSON."""

from __future__ import annotations

import json
import sys
from typing import Any

from tasks.adapters import split


def describe(name: str) -> dict[str, Any]:
    """Return the description of a problem, or an object with `error`."""
    adapter, path = split(name)
    try:
        found: dict[str, Any] = adapter.describe(path)
    except ValueError as error:
        return {"error": " ".join(str(error).split())}
    except Exception as error:
        return {"error": f"{path}: {type(error).__name__}: {' '.join(str(error).split())[:300]}"}
    return found


if __name__ == "__main__":
    # What the problem itself prints may lack the end of a line.
    print("\n" + json.dumps(describe(sys.argv[1])))
