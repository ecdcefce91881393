"""A recording of ExecuTorch's on a 32-bit counter that wrapped, and the same on other counters."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from harness import HOST_NANOSECONDS, Trace, read_ed00, write_ed00
from harness.analyze.call_tree import call_tree
from tests.conftest import FIXTURES

RECORDED = FIXTURES / "xnnpack_clock32.etdp"
"""Made by ``record_wrapping_clock.py``; wraps during an operator of XNNPACK."""

HZ = HOST_NANOSECONDS.hz


def on_a_wide_counter() -> Trace:
    """The recording as a 64-bit counter would have stamped it: nothing wraps."""
    trace = read_ed00(RECORDED.read_bytes())

    def unwrapped(readings: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        # All before the wrap is in the last 20 ms of the range, all behind it in the first 1 ms.
        behind = readings < np.uint64(2**31)
        return np.asarray(readings + np.where(behind, np.uint64(2**32), np.uint64(0)))

    return replace(trace, start=unwrapped(trace.start), end=unwrapped(trace.end)).sealed()


def narrowed(wide: Trace, bits: int, offset: int, *, adding: bool) -> bytes:
    """An ED00 file of the same events on a counter of ``bits``, read ``offset`` ticks later.

    Args:
        wide: On a counter that does not wrap.
        bits: Width of the counter.
        offset: Ticks.
        adding: Let delegates' events go on beyond the counter's range from the first one of each
            call, as those of XNNPACK do; else they wrap, too.
    """
    mask = np.uint64(2**bits - 1)
    start, end = ((readings + np.uint64(offset)) for readings in (wide.start, wide.end))
    low, high = start & mask, end & mask
    if adding:
        call = call_tree(wide).parent
        for row in np.flatnonzero(wide.delegated).tolist():
            first = int(np.flatnonzero(wide.delegated & (call == call[row]))[0])
            for readings, shifted in ((low, start), (high, end)):
                readings[row] = low[first] + (shifted[row] - start[first])
    return write_ed00(replace(wide, start=low, end=high).sealed())
