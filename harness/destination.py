"""Whether a file or a folder can be written where it is asked for, found out before the work that fills it."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryFile


def check_destination(path: Path, folder: bool = False, option: str = "--out") -> None:
    """Raise ValueError, naming the option, unless a file or else a folder can be made at the path; leaves nothing."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError:
        raise ValueError(f"'{path}' cannot be reached; give another {option}") from None
    if path.is_dir() and not folder:
        raise ValueError(f"'{path}' is a folder, expected a file to write; give another {option}")
    if path.exists() and not (path.is_file() or path.is_dir()):  # a device or a pipe would be replaced by the file
        raise ValueError(f"'{path}' is not a regular file, expected a place for one; give another {option}")
    place = path if folder else path.parent
    nearest = next(p for p in (place, *place.parents) if os.path.lexists(p))
    if not nearest.is_dir():
        raise ValueError(f"'{path}' cannot be written, because '{nearest}' is not a folder; give another {option}")
    try:
        # Permission bits do not tell: root passes them all, and /proc or a read-only disk still refuses.
        with TemporaryFile(dir=nearest):
            pass
    except OSError:
        problem = f"'{path}' cannot be written, because no file can be made in '{nearest}'; give another {option}"
        raise ValueError(problem) from None
