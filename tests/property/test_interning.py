"""Strings get the same number exactly when they are the same, wherever they stand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.decode import ed00_reader as interning
from harness.decode.ed00_reader import Interner
from harness.decode.flatbuffer import FlatBuffer
from tests.support.examples import examples

LETTERS = st.binary(max_size=80)
ALIKE = st.builds(
    lambda length, at, letter: bytes(at % max(length, 1)) + letter + bytes(length),
    st.integers(0, 80),
    st.integers(0, 80),
    st.sampled_from([b"", b"a", b"\1", b"\xff"]),
)
"""Strings that differ in one byte, or in nothing but their length."""


def written(strings: list[bytes]) -> tuple[FlatBuffer, np.ndarray]:
    """A buffer with these strings one behind the other, and where each is."""
    data, places = bytearray(b"\0\0\0\0"), []
    for string in strings:
        places.append(len(data))
        data += len(string).to_bytes(4, "little") + string + b"\0"
    return FlatBuffer(bytes(data), 0, len(data)), np.array(places, np.int64)


@pytest.mark.parametrize("alike_keys", [False, True])
@given(st.lists(st.one_of(LETTERS, ALIKE), min_size=1, max_size=40), st.data())
@settings(max_examples=examples(150), deadline=None)
def test_numbers_are_those_of_a_dictionary(
    alike_keys: bool, strings: list[bytes], data: st.DataObject
) -> None:
    factors = interning._FACTORS
    if alike_keys:  # all words but the first are left to the comparison
        interning._FACTORS = np.where(np.arange(len(factors)) == 0, factors, np.uint64(0))
    try:
        buffer, places = written(strings)
        interner = Interner(buffer)
        asked = data.draw(st.lists(st.integers(0, len(strings) - 1), max_size=80))
        cut = data.draw(st.integers(0, len(asked)))
        codes: list[int] = []
        for part in (asked[:cut], asked[cut:]):
            interner.check(places[part], "string")
            codes += interner.codes(places[part]).tolist()
    finally:
        interning._FACTORS = factors
    found = [interner.texts[code].encode("utf-8", "surrogateescape") for code in codes]
    assert found == [strings[number] for number in asked]
    assert len(set(codes)) == len(interner.texts) == len({strings[number] for number in asked})
