"""A constant of a module is changed before anything derives from it."""

from __future__ import annotations

import pytest

from studies.constants import changed, with_change

MODULE = '''FIRST, SECOND = 8, 0.25
"""What they are."""
THIRD = 2 * FIRST
'''


@pytest.mark.parametrize(
    ("name", "expected"), [("FIRST", (24, 0.25, 48)), ("THIRD", (8, 0.25, 48))]
)
def test_what_derives_from_a_constant_changes_with_it(name, expected):
    found: dict = {}
    exec(compile(with_change(MODULE, name, 3.0), "module", "exec"), found)
    assert (found["FIRST"], found["SECOND"], found["THIRD"]) == expected


def test_numbers_stay_of_their_kind():
    assert changed(2, 1 / 3) == 1
    assert changed((4, 0.1), 3.0) == (12, pytest.approx(0.3))
    assert changed(0.9, 3.0) == pytest.approx(0.81)
    assert changed({1: 2.0, 2: print}, 3.0) == {1: 6.0, 2: print}
