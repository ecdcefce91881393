"""A narrow counter that is read at least once per wrap is widened to 32 bits, tick for tick."""

from __future__ import annotations

import ctypes as ct
import subprocess
from itertools import accumulate
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import ROOT
from tests.support.examples import examples

SOURCE = """
#include "etd_wide_counter.h"
void wide_start(etd_wide_counter *wide, uint32_t bits, uint32_t reading);
uint32_t wide_ticks(etd_wide_counter *wide, uint32_t reading);
void wide_start(etd_wide_counter *wide, uint32_t bits, uint32_t reading) {
    etd_wide_start(wide, bits, reading);
}
uint32_t wide_ticks(etd_wide_counter *wide, uint32_t reading) {
    return etd_wide_ticks(wide, reading);
}
"""


class WideCounter(ct.Structure):
    """``etd_wide_counter``."""

    _fields_ = (("mask", ct.c_uint32), ("last", ct.c_uint32), ("ticks", ct.c_uint32))


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ct.CDLL:
    folder = tmp_path_factory.mktemp("wide")
    (folder / "wide.c").write_text(SOURCE)
    flags = ["-std=c11", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-shared", "-fPIC"]
    include = f"-I{ROOT / 'firmware_stub' / 'include'}"
    built: Path = folder / "wide.so"
    subprocess.run(["cc", *flags, include, folder / "wide.c", "-o", built], check=True)
    found = ct.CDLL(str(built))
    found.wide_ticks.restype = ct.c_uint32
    return found


@st.composite
def counters(draw: st.DrawFn) -> tuple[int, int, list[int]]:
    """A width, the first reading, and the ticks between two readings, each less than a wrap."""
    bits = draw(st.integers(1, 32))
    step = st.one_of(st.integers(0, 2**bits - 1), st.just(2**bits - 1))
    return bits, draw(st.integers(0, 2**32 - 1)), draw(st.lists(step, max_size=200))


@given(counters())
@settings(max_examples=examples(200), deadline=None)
def test_every_tick_is_counted(library: ct.CDLL, case: tuple[int, int, list[int]]) -> None:
    bits, first, steps = case
    wide = WideCounter()
    library.wide_start(ct.byref(wide), bits, ct.c_uint32(first))
    # Bits above the counter's width are not a part of it.
    high = 0xFFFFFFFF & ~(2**bits - 1)
    found = [
        library.wide_ticks(ct.byref(wide), ct.c_uint32(((first + passed) % 2**bits) | high))
        for passed in accumulate(steps)
    ]
    assert found == [passed % 2**32 for passed in accumulate(steps)]


@given(counters())
@settings(max_examples=examples(50), deadline=None)
def test_the_complement_widens_a_counter_that_counts_down(
    library: ct.CDLL, case: tuple[int, int, list[int]]
) -> None:
    bits, first, steps = case
    wide = WideCounter()
    library.wide_start(ct.byref(wide), bits, ct.c_uint32(~first & 0xFFFFFFFF))
    found = [
        library.wide_ticks(ct.byref(wide), ct.c_uint32(~((first - passed) % 2**bits) & 0xFFFFFFFF))
        for passed in accumulate(steps)
    ]
    assert found == [passed % 2**32 for passed in accumulate(steps)]


def test_a_period_without_a_reading_is_lost(library: ct.CDLL) -> None:
    wide = WideCounter()
    library.wide_start(ct.byref(wide), 24, 0)
    assert library.wide_ticks(ct.byref(wide), 5) == 5
    assert library.wide_ticks(ct.byref(wide), 4) == 2**24 + 4
    assert library.wide_ticks(ct.byref(wide), (2 * 2**24 + 9) % 2**24) == 2**24 + 9
