"""A user of its own for every child, where the engine is root: what the child leaves is nobody else's, nor open to it.

The child becomes the owner of its folder, so nothing else has to tell it who it is.
"""

from __future__ import annotations

import glob
import itertools
import os
import stat
import sys
from collections.abc import Iterable
from pathlib import Path

from harness.measure.files import GPU_DEVICES, ROOT

FIRST, COUNT = 1_879_048_192, 65_536  # far from those that systems give to people and services


class Users:
    """Hands out users, one after the other; `why_not` says why there are none, or is ""."""

    def __init__(self, device: str, folder: Path) -> None:
        self.why_not = why_not(device, folder)
        self._numbers = itertools.cycle(range(FIRST, FIRST + COUNT))

    def give(self, folder: Path) -> None:
        """Make the folder, with all that lies in it, that of a new user."""
        if not self.why_not:
            hand_over(folder, next(self._numbers))


def hand_over(folder: Path, user: int) -> None:
    """Make the folder that of a user, with all that lies in it; links are not followed."""
    os.chown(folder, user, user, follow_symlinks=False)
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            os.chown(os.path.join(place, name), user, user, follow_symlinks=False)


def why_not(device: str, folder: Path) -> str:
    """Return why children, whose folders lie in `folder`, cannot have users of their own, or ""."""
    if os.geteuid() != 0:
        return "only root can give children users of their own"
    if not _mapped(Path("/proc/self/uid_map").read_text()):
        return f"users from {FIRST} on are not mapped in this container"
    needed = [Path(sys.executable).resolve(), Path(sys.prefix) / "lib", ROOT / "harness" / "measure"]
    devices = [path for pattern in GPU_DEVICES[:1] for path in glob.glob(pattern)] if device == "cuda" else []
    closed = (
        _closed([folder], stat.S_IXOTH)
        or _closed(needed, stat.S_IROTH)
        or _closed([path for path in devices if not os.path.isdir(path)], stat.S_IWOTH)
    )
    return f"{closed} is closed to other users" if closed else ""


def _mapped(text: str) -> bool:
    rows = [[int(number) for number in line.split()] for line in text.splitlines()]
    return any(first <= FIRST and first + count >= FIRST + COUNT for first, _, count in rows)


def _closed(paths: Iterable[str | Path], wanted: int) -> str:
    """Return the first path that other users cannot reach, or not use as wanted; "" if there is none."""
    for path in map(Path, paths):
        for place in (path, *path.parents) if path.exists() else ():
            mode = place.stat().st_mode
            right = wanted if place == path else stat.S_IXOTH
            if not mode & right:
                return str(place)
    return ""


def become(user: int) -> str:
    """Become a user for good, if it is another one; returns why not, or ""."""
    if user == os.geteuid():
        return ""
    try:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    except OSError as error:
        return str(error)
    return ""
