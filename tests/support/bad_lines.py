"""Lines that damage what they carry, as Hypothesis draws them."""

from __future__ import annotations

from hypothesis import strategies as st

from harness.testing.fault_filter import Faults

LATEST_CUT = 60_000
"""Bytes that a line may carry before it is cut."""


def bad_lines(*rates: float, cut: bool = True) -> st.SearchStrategy[Faults]:
    """Faults of each kind at one of these rates per byte; ``cut`` allows the line to end."""
    rate = st.sampled_from([0.0, *rates])
    return st.builds(
        Faults,
        seed=st.integers(0, 2**32),
        flip=rate,
        drop=rate,
        duplicate=rate,
        insert=rate,
        delay=rate,
        cut_after=st.none() | st.integers(0, LATEST_CUT) if cut else st.none(),
    )
