"""Made-up hardware counters for the C tracer: each reading advances each by a step of its own."""

from __future__ import annotations

import ctypes as ct
from collections.abc import Sequence
from typing import Any, NamedTuple

from tests.support.mirrors import mirrors, room_for


class MadeUp(NamedTuple):
    """A counter: what it counts from one reading to the next."""

    name: bytes
    bits: int = 32
    step: int = 1
    selectable: bool = False


@mirrors("etd_counters.h", "etd_counter")
class ListedCounter(ct.Structure):
    _fields_ = [("name", ct.c_char_p), ("bits", ct.c_uint8), ("selectable", ct.c_bool)]


_SELECT = ct.CFUNCTYPE(None, ct.c_void_p, ct.POINTER(ct.c_uint8), ct.c_uint32)
_READ = ct.CFUNCTYPE(None, ct.c_void_p, ct.POINTER(ct.c_uint32))


@mirrors("etd_counters.h", "etd_counter_source")
class CounterSource(ct.Structure):
    _fields_ = [
        ("context", ct.c_void_p),
        ("counters", ct.POINTER(ListedCounter)),
        ("counter_count", ct.c_uint8),
        ("selectable_count", ct.c_uint8),
        ("select", _SELECT),
        ("read", _READ),
        ("start", ct.c_void_p),
        ("counting", ct.c_void_p),
    ]


_Counting = room_for("etd_counters.h", "etd_counting", 512)


def start_counting(
    library: ct.CDLL, tracer: ct.Structure, source: CounterSource, indexes: Sequence[int]
) -> bool:
    """Let a tracer count; False if these counters cannot count at once."""
    function = library.etd_start_counting
    function.restype = ct.c_bool
    numbers = (ct.c_uint8 * len(indexes))(*indexes)
    state = ct.c_void_p(source.counting)
    return bool(function(ct.byref(tracer), state, ct.byref(source), numbers, len(indexes)))


class Counters:
    """A source of made-up counters for one tracer.

    Attributes:
        selected: Indexes of the counters that count.
        readings: How often they were read.
    """

    def __init__(self, library: ct.CDLL, counters: Sequence[MadeUp], *, at_once: int = 0) -> None:
        self.counters = list(counters)
        self.selected: list[int] = []
        self.readings = 0
        self._library = library
        self._counting = _Counting()
        listed = (ListedCounter * len(counters))(
            *(ListedCounter(each.name, each.bits, each.selectable) for each in counters)
        )
        self._source = CounterSource(
            *(None, listed, len(counters), at_once, _SELECT(self._select), _READ(self._read)),
            ct.cast(library.etd_start_counting, ct.c_void_p),
            ct.addressof(self._counting),
        )

    @property
    def address(self) -> int:
        return ct.addressof(self._source)

    def value(self, index: int) -> int:
        """The present reading of a counter, of which only its low bits count."""
        return self.readings * self.counters[index].step % 2**32

    def start(self, tracer: ct.Structure, indexes: Sequence[int]) -> bool:
        """Let a tracer count."""
        return start_counting(self._library, tracer, self._source, indexes)

    def _select(self, _context: int | None, indexes: Any, count: int) -> None:
        self.selected = list(indexes[:count])

    def _read(self, _context: int | None, values: Any) -> None:
        self.readings += 1
        for place, index in enumerate(self.selected):
            values[place] = self.value(index)
