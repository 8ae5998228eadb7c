"""The units in which numbers are shown."""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from knee.view.numbers import delay_unit, packet_unit, rate_unit

#: Units by what they are of, with their least number, in the base unit, and how large it is there.
UNITS = {
    "delay": (delay_unit, [("µs", 0.0, 1e-3), ("ms", 0.1, 1.0), ("s", 10_000.0, 1e3)]),
    "rate": (rate_unit, [("kbit/s", 0.0, 1e-3), ("Mbit/s", 1.0, 1.0), ("Gbit/s", 1000.0, 1e3)]),
    "packets": (packet_unit, [("packets", 0.0, 1.0), ("1000 packets", 10_000.0, 1e3)]),
}


@pytest.mark.parametrize("kind", UNITS)
@given(value=st.floats(1e-6, 1e9))
@example(value=0.1)
@example(value=math.nextafter(0.1, 0))
@example(value=1.0)
@example(value=math.nextafter(1.0, 0))
@example(value=1000.0)
@example(value=math.nextafter(1000.0, 0))
@example(value=10_000.0)
@example(value=math.nextafter(10_000.0, 0))
def test_a_number_has_the_largest_unit_whose_least_it_reaches(kind: str, value: float) -> None:
    unit_of, units = UNITS[kind]
    name, _, size = next(unit for unit in reversed(units) if value >= unit[1])
    unit = unit_of(value)
    assert unit.name == name
    # The number stays the same thing.
    assert value * unit.scale * size == pytest.approx(value)


def test_nothing_has_the_base_unit() -> None:
    assert [unit_of(0.0).scale for unit_of, _ in UNITS.values()] == [1.0, 1.0, 1.0]
