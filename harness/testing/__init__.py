"""Test doubles for code that talks to boards: a simulated board, and a line with faults.

    SimulatedBoard  answers the link's protocol in Python and virtual time; no compiler, no hardware
    FaultFilter     wraps any transport and damages what passes, reproducibly by its seed
    Transport       the bytes of a link, for transports and boards of your own
    frames, wire    frames, and the numbers in them
    messages        the bodies of requests and responses; each parses and encodes itself
    device_log_format, postmortem_format  the layouts of what a device records

For whole runs without hardware use the board ``native``, which is the real firmware as a process of
this host: ``harness.run(model, board="native")``.
"""

import importlib
from types import ModuleType

from harness.decode import device_log_format
from harness.link import frames, messages, wire
from harness.link.frames import (
    CorruptFrame,
    CorruptReason,
    Frame,
    FrameDecoder,
    Skipped,
    Text,
    encode_frame,
)
from harness.link.transports import RatedTransport, ReopeningTransport, Transport
from harness.link.wire import MIN_MTU, RESPONSE, Op, Reset, State, Status
from harness.testing.fault_filter import FaultFilter, Faults
from harness.testing.simulated_board import (
    MODEL_MAGIC,
    Behaviour,
    SimulatedBoard,
    VirtualClock,
    output_of,
    trace_of,
)

__all__ = [
    "MIN_MTU",
    "MODEL_MAGIC",
    "RESPONSE",
    "Behaviour",
    "CorruptFrame",
    "CorruptReason",
    "FaultFilter",
    "Faults",
    "Frame",
    "FrameDecoder",
    "Op",
    "RatedTransport",
    "ReopeningTransport",
    "Reset",
    "SimulatedBoard",
    "Skipped",
    "State",
    "Status",
    "Text",
    "Transport",
    "VirtualClock",
    "device_log_format",
    "encode_frame",
    "frames",
    "messages",
    "output_of",
    "postmortem_format",
    "trace_of",
    "wire",
]


def __getattr__(name: str) -> ModuleType:
    """Import the format of postmortems, which is of an extension."""
    if name == "postmortem_format":
        return importlib.import_module("harness.extensions.postmortem.record_format")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
