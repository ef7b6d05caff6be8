"""Addresses that PyTorch is given while a kernel is timed; PyTorch's side of it needs a GPU."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace

import pytest

from harness.measure.arena import GRAIN, Arena

MIB = 1 << 20


@pytest.fixture
def arena():
    functions = []
    torch = SimpleNamespace(
        cuda=SimpleNamespace(MemPool=lambda allocator: object()),
        _C=SimpleNamespace(_cuda_customAllocator=lambda *addresses: functions.extend(addresses)),
    )
    made = Arena(torch)
    made.allocate = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)(functions[0])
    return made


def test_addresses_follow_each_other_in_whole_segments(arena):
    start = 1000 * GRAIN
    arena.open(start + 5, start + 8 * GRAIN)
    first = arena.allocate(10, 0, None)
    assert first == start + GRAIN
    assert arena.allocate(3 * MIB, 0, None) == first + GRAIN
    assert arena.allocate(1, 0, None) == first + 3 * GRAIN
    assert arena.missing == 0


def test_what_does_not_fit_is_refused_and_its_need_is_known(arena):
    start = 1000 * GRAIN
    arena.open(start, start + 4 * GRAIN)
    assert arena.allocate(3 * GRAIN, 0, None) == start
    assert arena.allocate(2 * GRAIN, 0, None) is None
    assert arena.missing == 5 * GRAIN
    assert arena.allocate(GRAIN, 0, None) == start + 3 * GRAIN
    arena.open(start, start + 5 * GRAIN)
    assert arena.missing == 0


def test_a_closed_arena_gives_nothing(arena):
    arena.open(1000 * GRAIN, 1100 * GRAIN)
    arena.close()
    assert arena.pool is None
    assert arena.allocate(1, 0, None) is None
