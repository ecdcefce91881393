"""Counts that delegates log as metadata of their events, as counters of the trace.

A delegate whose hardware has counters of its own, such as the performance monitor of an Ethos-U,
reads them when a job ends and logs them as the event's metadata: little-endian unsigned integers,
one behind the other. A layout names them: ``"npu_macs:u32, npu_bytes:u32"``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from harness.analyze.converters import DelegatePattern, parse_pattern
from harness.errors import UsageError
from harness.records.trace import NO_COUNT, HardwareCounter, Trace


def _ethos_u(events: int) -> str:
    fields = [f"ethosu_event{number}:u32" for number in range(events)]
    return ", ".join(["ethosu_cycles:u64", *fields])


LAYOUTS: Final = {"ethos-u": _ethos_u(4), "ethos-u85": _ethos_u(8)}
"""Layouts with a name: the cycle counter of Arm's driver, then its event counters."""

_FIELD: Final = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*)\s*:\s*u(8|16|32|64)\s*")
_MOST_BITS: Final = 63
"""Width of the largest count that a trace can hold."""


@dataclass(frozen=True)
class MetadataLayout(DelegatePattern):
    """What the metadata of some delegate events contains.

    Attributes:
        counters: Names and widths in bits of the integers, in their order.
    """

    counters: tuple[tuple[str, int], ...]

    @property
    def names(self) -> list[str]:
        """The names of the counters."""
        return [name for name, _ in self.counters]

    def counts(self, metadata: bytes) -> list[int]:
        """Return the counts in an event's metadata; NO_COUNT for those that it is too short for."""
        found, at = [], 0
        for _, bits in self.counters:
            part = metadata[at : at + bits // 8]
            value = int.from_bytes(part, "little")
            complete = len(part) == bits // 8 and value < 2**_MOST_BITS
            found.append(value if complete else NO_COUNT)
            at += bits // 8
        return found


def parse_layouts(texts: Mapping[str, str]) -> list[MetadataLayout]:
    """Return layouts from a mapping of patterns of delegate events to layouts as text.

    Raises:
        UsageError: A pattern or a layout is invalid; the message names it.
    """
    layouts = []
    for pattern, text in texts.items():
        try:
            counters = _parse_fields(LAYOUTS.get(text.strip(), text))
            layouts.append(MetadataLayout(parse_pattern(pattern), counters))
        except UsageError as error:
            raise UsageError(f"metadata of {pattern!r}: {error.message}", hint=error.hint) from None
    return layouts


def _parse_fields(text: str) -> tuple[tuple[str, int], ...]:
    matches = [_FIELD.fullmatch(part) for part in text.split(",")]
    found = [(match[1], int(match[2])) for match in matches if match is not None]
    names = [name for name, _ in found]
    if len(found) < len(matches) or len(set(names)) < len(names):
        raise UsageError(
            f"invalid layout {text!r}",
            hint="write for example 'npu_macs:u32, npu_bytes:u32', each name once, or a name: "
            + ", ".join(LAYOUTS),
        )
    return tuple(found)


def check_names(layouts: Sequence[MetadataLayout], counters: Sequence[str]) -> None:
    """Check that counters of delegates and of the core have different names.

    Raises:
        UsageError: One has the name of another.
    """
    for layout in layouts:
        for name in layout.names:
            if name in counters:
                raise UsageError(
                    f"metadata of {layout.text!r}: the core has a counter {name}, too",
                    hint="choose another name in the board file, such as npu_" + name,
                )


def with_metadata_counts(
    trace: Trace,
    layouts: Sequence[MetadataLayout],
    backends: Mapping[tuple[int, int], str] | None = None,
) -> Trace:
    """Return the trace with counters of delegates, as far as events have metadata of these layouts.

    Args:
        trace: The trace.
        layouts: For each event the first matching layout applies.
        backends: Names of backends by chain and instruction, if the program is known.

    Raises:
        UsageError: A counter has the name of one that the core has.
    """
    check_names(layouts, [counter.name for counter in trace.counters])
    left = trace.metadata[:, 1] > 0
    columns: dict[str, dict[int, int]] = {}
    widths: dict[str, int] = {}
    for layout in layouts:
        chosen = layout.events(trace, backends or {}) & left
        left &= ~chosen
        for name, bits in layout.counters if chosen.any() else ():
            columns.setdefault(name, {})
            widths[name] = max(widths.get(name, 0), min(bits, _MOST_BITS))
        for row in np.flatnonzero(chosen).tolist():
            counts = layout.counts(trace.metadata_of(row) or b"")
            for name, count in zip(layout.names, counts, strict=True):
                columns[name][row] = count
    if not columns:
        return trace
    added = np.full((len(trace), len(columns)), NO_COUNT, np.int64)
    for place, counts_of_row in enumerate(columns.values()):
        added[list(counts_of_row), place] = list(counts_of_row.values())
    return replace(
        trace,
        counters=(*trace.counters, *(HardwareCounter(name, widths[name]) for name in columns)),
        counts=np.hstack([trace.counts, added]),
    ).sealed()
