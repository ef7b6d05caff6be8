from __future__ import annotations

import os

from harness.measure.region import Form, Layout, Region
from harness.measure.regions import Regions


def test_a_region_serves_its_holder_again_and_nobody_else(tmp_path):
    regions = Regions("cpu", None, tmp_path, keep_bytes=1 << 20, keep_held_bytes=1 << 20)
    first = regions.take(4096, "lane-0")
    first.poison(0, 10)
    assert regions.give_back([first], "lane-0") == []
    assert regions.take(4096, "lane-1") is not first
    assert regions.take(3000, "lane-0") is first
    assert regions.take(3000, "lane-0") is not first


def test_what_is_too_much_is_freed_only_once_it_is_unmapped(tmp_path):
    regions = Regions("cpu", None, tmp_path, keep_bytes=5000, keep_held_bytes=5000)
    old, new = regions.take(4096, "lane-0"), regions.take(4096, "lane-0")
    evicted = regions.give_back([old, new], "lane-0")
    assert evicted == [old.handle]
    assert os.path.exists(old.handle)
    regions.free("lane-0")
    assert not os.path.exists(old.handle)
    assert os.path.exists(new.handle)
    regions.free("lane-0", gone=True)
    assert not os.path.exists(new.handle)


def test_a_holder_that_has_ended_needs_no_unmapping(tmp_path):
    regions = Regions("cpu", None, tmp_path, keep_bytes=0, keep_held_bytes=0)
    region = regions.take(100, "")
    regions.give_back([region], "")
    assert not os.path.exists(region.handle)


def test_a_region_used_again_holds_nothing_of_its_last_run(tmp_path):
    regions = Regions("cpu", None, tmp_path, keep_bytes=1 << 20, keep_held_bytes=1 << 20)
    layout = Layout()
    (slot,) = layout.place([Form((4,), "float32", 16)])
    region = regions.take(layout.nbytes, "")
    region.tensor(slot).fill_(1.0)
    regions.give_back([region], "")
    again = regions.take(layout.nbytes, "")
    assert again is region
    assert bool(again.tensor(slot).isnan().all())
    mapped = Region.attach("cpu", again.nbytes, again.handle, None)
    again.tensor(slot).fill_(2.0)
    assert mapped.tensor(slot).tolist() == [2.0] * 4
