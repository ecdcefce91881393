"""A rack of simulated boards: firmware processes behind TCP ports, with faults from a seed.

    python -m tests.support.rack DIRECTORY --units 64 --seed 7

It is a process of its own, so that it outlives a night that is killed. ``DIRECTORY`` gets what a
lab has: ``units.toml``, a board file, the images; and ``injected.jsonl``, what was done to which
unit. A power switch is a small program (``control.py``) that asks the rack by its socket.
"""

from tests.support.rack.faults import Fault, Kind, draw
from tests.support.rack.rack import Injected, Rack, rack

__all__ = ["Fault", "Injected", "Kind", "Rack", "draw", "rack"]
