"""A drop-in for ``executorch.devtools.Inspector``: ``from harness.inspector import Inspector``."""

from harness.inspector.comparators import (
    L1Comparator,
    MSEComparator,
    NumericalComparatorBase,
    SNRComparator,
)
from harness.inspector.event import Event, EventBlock
from harness.inspector.event_times import PerfData, TimeScale
from harness.inspector.inspector import Inspector
from harness.inspector.outputs import compare_results

__all__ = [
    "Event",
    "EventBlock",
    "Inspector",
    "L1Comparator",
    "MSEComparator",
    "NumericalComparatorBase",
    "PerfData",
    "SNRComparator",
    "TimeScale",
    "compare_results",
]
