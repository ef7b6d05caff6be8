"""Regions that wait for their next run, by holder: the process that has them mapped, "" for none that still lives."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from harness.measure.region import Driver, Region

LOOSE = 2  # a spare region serves a wish of at least its size over this


class Regions:
    """Hands regions out and takes them back; no two processes that live at the same time see the same one."""

    def __init__(self, device: str, driver: Driver | None, folder: Path, keep_bytes: int, keep_held_bytes: int) -> None:
        self.device, self.driver, self.folder = device, driver, folder
        self.keep_bytes, self.keep_held_bytes = keep_bytes, keep_held_bytes  # of no holder, and of each one
        self._spare: dict[str, list[Region]] = {}
        self._doomed: dict[str, list[Region]] = {}

    def take(self, nbytes: int, holder: str) -> Region:
        """Return a region of at least so many bytes, all 0xFF: a spare one of the holder if one fits."""
        spare = self._spare.get(holder, [])
        fit = [region for region in spare if nbytes <= region.nbytes <= LOOSE * nbytes]
        if fit:
            region = min(fit, key=lambda r: r.nbytes)
            spare.remove(region)
            region.poison()
            return region
        return Region.create(self.device, nbytes, self.driver, self.folder)

    def give_back(self, regions: Sequence[Region], holder: str) -> list[str]:
        """Keep regions for the holder's next run; returns the handles of those that it must unmap, for room."""
        spare = self._spare.setdefault(holder, [])
        spare += regions
        doomed = self._doomed.setdefault(holder, [])
        while sum(region.nbytes for region in spare) > (self.keep_held_bytes if holder else self.keep_bytes):
            doomed.append(spare.pop(0))
        evict = [region.handle for region in doomed]
        if not holder:  # nobody has them mapped any more
            self.free(holder)
        return evict

    def free(self, holder: str, gone: bool = False) -> None:
        """Free what the holder has unmapped; if it is gone, all that it held."""
        for region in self._doomed.pop(holder, []) + (self._spare.pop(holder, []) if gone else []):
            region.release()
