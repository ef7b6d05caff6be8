"""Attributes replaced for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_GONE = object()


@contextmanager
def replaced(owner: Any, **values: Any) -> Iterator[None]:
    """Set attributes of a module or class, and put them back afterwards."""
    before = {name: owner.__dict__.get(name, _GONE) for name in values}
    for name, value in values.items():
        setattr(owner, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is _GONE:
                delattr(owner, name)
            else:
                setattr(owner, name, value)
