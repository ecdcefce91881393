"""Test doubles for code that talks to boards: a simulated board, and a line with faults.

    SimulatedBoard  answers the link's protocol in Python and virtual time; no compiler, no hardware
    FaultFilter     wraps any transport and damages what passes, reproducibly by its seed

For whole runs without hardware use the board ``native``, which is the real firmware as a process of
this host: ``harness.run(model, board="native")``.
"""

from harness.testing.behaviour import MODEL_MAGIC, Behaviour, output_of, trace_of
from harness.testing.fault_filter import FaultFilter, Faults
from harness.testing.simulated_board import SimulatedBoard
from harness.testing.virtual_clock import VirtualClock

__all__ = [
    "MODEL_MAGIC",
    "Behaviour",
    "FaultFilter",
    "Faults",
    "SimulatedBoard",
    "VirtualClock",
    "output_of",
    "trace_of",
]
