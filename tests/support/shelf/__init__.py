"""A shelf of simulated boards: firmware processes behind TCP ports, with faults from a seed.

    python -m tests.support.shelf DIRECTORY --units 64 --seed 7

It is a process of its own, so that it outlives a night that is killed. ``DIRECTORY`` gets what a
lab has: ``units.toml``, a board file, the images; and ``injected.jsonl``, what was done to which
unit. A power switch is a small program (``control.py``) that asks the shelf by its socket.
"""

from tests.support.shelf.faults import Fault, Kind, draw
from tests.support.shelf.shelf import Injected, Shelf, shelf

__all__ = ["Fault", "Injected", "Kind", "Shelf", "draw", "shelf"]
