"""A user of its own for every child: who it is, what it can reach, and when there is none."""

from __future__ import annotations

import os
import stat

import pytest

from harness.measure import users
from harness.measure.users import Users, hand_over
from tests.harness.measure.forked import in_child

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


@pytest.fixture
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("open")
    for parent in (place, *place.parents):
        if parent.stat().st_mode & stat.S_IXOTH:
            break
        parent.chmod(0o711)
    return place


@as_root
def test_every_folder_gets_a_user_of_its_own(folder, monkeypatch):
    monkeypatch.setattr(users, "why_not", lambda device, folder: "")  # this Python may lie where others cannot read it
    given = Users("cpu", folder)
    owners = set()
    for name in ("a", "b"):
        (folder / name).mkdir(0o700)
        (folder / name / "inside").write_text("mine")
        given.give(folder / name)
        owners |= {(folder / name).stat().st_uid, (folder / name / "inside").stat().st_uid}
    assert len(owners) == 2 and min(owners) >= users.FIRST


@as_root
def test_who_has_become_another_user_cannot_open_what_others_left(folder):
    mine, other = folder / "mine", folder / "other"
    for place, user in ((mine, users.FIRST), (other, users.FIRST + 1)):
        place.mkdir(0o700)
        (place / "file").write_text(place.name)
        hand_over(place, user)

    def child() -> str:
        assert users.become(users.FIRST) == ""
        assert (mine / "file").read_text() == "mine"
        return (other / "file").read_text()

    assert in_child(child) == "PermissionError"


@as_root
def test_a_link_is_handed_over_and_not_what_it_leads_to(folder):
    treasure, place = folder / "treasure", folder / "place"
    treasure.write_text("root's")
    place.mkdir()
    (place / "link").symlink_to(treasure)
    hand_over(place, users.FIRST)
    assert (place / "link").lstat().st_uid == users.FIRST
    assert treasure.stat().st_uid == 0


@as_root
def test_a_folder_that_others_cannot_reach_is_named(tmp_path):
    closed = tmp_path / "closed"
    (closed / "folder").mkdir(parents=True)
    closed.chmod(0o700)
    given = Users("cpu", closed / "folder")
    assert "is closed to other users" in given.why_not
    given.give(closed / "folder")
    assert (closed / "folder").stat().st_uid == 0


@pytest.mark.parametrize(
    "text, mapped",
    [("0 0 4294967295\n", True), ("0 100000 65536\n", False), ("0 1000 1\n1 100000 2000000000\n", True), ("", False)],
)
def test_a_container_may_not_have_these_users(text, mapped):
    assert users._mapped(text) is mapped
