"""A drop-in for ``executorch.devtools.Inspector``: ``from harness.inspector import Inspector``."""

from harness.inspector.blocks import EventBlock
from harness.inspector.comparators import (
    DebugHandle,
    IntermediateOutputMapping,
    L1Comparator,
    MSEComparator,
    NumericalComparatorBase,
    SNRComparator,
    compare_results,
)
from harness.inspector.event import Event, PerfData, TimeScale
from harness.inspector.inspector import (
    Inspector,
    parse_vgf_neural_statistics_delegate_metadata,
    parse_vgf_neural_statistics_metadata,
)

__all__ = [
    "DebugHandle",
    "Event",
    "EventBlock",
    "Inspector",
    "IntermediateOutputMapping",
    "L1Comparator",
    "MSEComparator",
    "NumericalComparatorBase",
    "PerfData",
    "SNRComparator",
    "TimeScale",
    "compare_results",
    "parse_vgf_neural_statistics_delegate_metadata",
    "parse_vgf_neural_statistics_metadata",
]
