"""What became of switching a unit's power, for people's eyes and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.lab.power import Switched
from harness.report.terminal import show_line

if TYPE_CHECKING:
    from rich.console import Console


def show_switched(console: Console, switched: Switched, *, verbosity: int = 0) -> None:
    """Print what was done, unless ``verbosity`` is negative, and how it is now."""
    if verbosity >= 0:
        for step in switched.steps:
            show_line(console, step)
        if switched.went is False:
            show_line(console, "its port did not go away: it may have power from elsewhere")
    state = "off" if switched.action == "off" else "on"
    back = "" if switched.back_s is None else f"; its port was back after {switched.back_s:.1f} s"
    show_line(console, f"the power of {switched.unit} is {state}{back}")
