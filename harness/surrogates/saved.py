"""Fitted surrogates on disk: `surrogate.json` and `arrays.npz` in a folder, read back as `trained=DIR`.

Nothing is ever unpickled: a folder from somebody else can hold numbers, and no code.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from benchmark.query import Surrogate
from harness.surrogates.foreign import SurrogateError

FORMAT = 1
DESCRIPTION, ARRAYS = "surrogate.json", "arrays.npz"


@runtime_checkable
class Restorable(Protocol):
    """A surrogate whose fitted state is JSON values and arrays."""

    fitted: bool

    def fitted_state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]: ...

    def restore_fitted(self, values: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None: ...


def save(surrogate: Surrogate, expression: str, dataset: str, folder: Path) -> None:
    """Write a fitted surrogate into a new folder; `expression` is what created it.

    Raises SurrogateError for one that has no fitted state, and FileExistsError.
    """
    if not isinstance(surrogate, Restorable) or not surrogate.fitted:
        raise SurrogateError(f"'{expression}' has no fitted state to save; it is as good without --save")
    values, arrays = surrogate.fitted_state()
    folder.mkdir(parents=True)
    np.savez_compressed(folder / ARRAYS, allow_pickle=False, **arrays)
    description = {"format": FORMAT, "surrogate": expression, "trained_on": dataset, "state": values}
    text = json.dumps(description, indent=1, sort_keys=True, allow_nan=False)
    (folder / DESCRIPTION).write_text(text + "\n", encoding="utf-8")


def load(source: str) -> Surrogate:
    """Return the surrogate that a folder holds, ready to forecast.

    Raises SurrogateError, naming the file, for a folder that `save` did not write.
    """
    from harness.surrogates.spec import create, parse

    folder = Path(source)
    try:
        text = (folder / DESCRIPTION).read_bytes()
        data = (folder / ARRAYS).read_bytes()
    except OSError:
        advice = "`kernelcast forecast SURROGATE --save DIR` writes one"
        raise SurrogateError(f"'{folder}' holds no saved surrogate ({DESCRIPTION} and {ARRAYS}); {advice}") from None
    try:
        description = json.loads(text)
        if description["format"] != FORMAT:
            raise SurrogateError(
                f"{folder / DESCRIPTION}: format {description['format']}, expected {FORMAT}; fit and save it again"
            )
        surrogate: Any = create(parse(description["surrogate"]))
        with np.load(folder / ARRAYS, allow_pickle=False) as arrays:
            surrogate.restore_fitted(description["state"], {name: arrays[name] for name in arrays.files})
    except SurrogateError:
        raise
    except Exception as error:  # a damaged file can fail in any way that JSON, zip and numpy know
        problem = f"{type(error).__name__}: {error}"
        raise SurrogateError(f"'{folder}' holds no sound surrogate ({problem}); fit and save it again") from None
    surrogate.fingerprint = hashlib.sha256(text + data).hexdigest()
    surrogate.training_data = f"{description['trained_on']}, train and validation"
    return surrogate  # type: ignore[no-any-return]
