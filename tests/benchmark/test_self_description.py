from __future__ import annotations

import pytest

from benchmark.code_view import code_view
from benchmark.self_description import describes_itself, prose_characters


@pytest.mark.parametrize(
    "text",
    [
        "targeting ~0.354x", "about 1.4x faster", "20% slower than the parent", "a speedup of two", "SEVERE_SLOWDOWN",
        "deliberately inefficient", "target band <= 0.50x", "runs 3 times as fast", "intentional redundant loop",
    ],
)  # fmt: skip
def test_a_stated_speed_or_goal_is_found(text: str) -> None:
    for code in (f"x = 1  # {text}\n", f'"""{text}"""\nx = 1\n', f'S = """__global__ void f() {{ }} // {text}\n"""\n'):
        assert describes_itself(code), code
        assert not describes_itself(code_view(code)), code


@pytest.mark.parametrize(
    "code",
    [
        "BLOCK = 2 * x  # 16x16 tiles, 4x unrolled\n", "targets = data[1]  # class index of each row\n",
        "eps = 0.354\nx = y * 0.5\n", "# split the rows over 8 warps, 32 lanes each\n", 'S = "#define N 2.0\\n"\n',
    ],
)  # fmt: skip
def test_shapes_and_numbers_are_no_speed(code: str) -> None:
    assert not describes_itself(code)


def test_invalid_python_is_read_as_prose() -> None:
    assert describes_itself("def f(:\n  2.5x of the reference\n")


def test_prose_is_counted() -> None:
    assert prose_characters("x = 1  # four\n") == len("# four") and prose_characters("x = 1\n") == 0
