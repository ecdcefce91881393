"""A structure in Python that is not what the header says is noticed before C writes through it."""

from __future__ import annotations

import ctypes as ct

import pytest

from tests.support.mirrors import Mirror, MirrorError, check

RIGHT = (("write", ct.c_void_p), ("context", ct.c_void_p))


def mirror(*fields: tuple[str, type], opaque: bool = False) -> Mirror:
    structure = type("Sink", (ct.Structure,), {"_fields_": list(fields)})
    return Mirror(structure, "etd_etdump.h", "etd_etdump_sink", opaque)


@pytest.mark.parametrize("opaque", [False, True])
def test_what_the_header_says_passes(opaque: bool) -> None:
    check([mirror(*RIGHT, opaque=opaque)])


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (RIGHT[:1], "etd_etdump_sink is not of 8 bytes"),
        ((*RIGHT, ("more", ct.c_uint32)), "no member named .more"),
        (RIGHT[::-1], "etd_etdump_sink.context is not 8 bytes at 0"),
        ((("write", ct.c_uint32), RIGHT[1]), "etd_etdump_sink.write is not 4 bytes at 0"),
    ],
)
def test_what_differs_is_named(fields: tuple[tuple[str, type], ...], said: str) -> None:
    with pytest.raises(MirrorError, match=said):
        check([mirror(*RIGHT), mirror(*fields)])


def test_too_little_room_is_named() -> None:
    with pytest.raises(MirrorError, match="Sink: etd_etdump_sink is larger than 8 bytes"):
        check([mirror(RIGHT[0], opaque=True)])
