"""CoreRecord: what a CPU core can do at most in a cycle; the roof of a roofline."""

from __future__ import annotations

from typing import Annotated

import msgspec


class CoreRecord(msgspec.Struct, frozen=True):
    """What a core can do at most, from the board file.

    Attributes:
        issue_width: Instructions that it can retire in a cycle.
        macs_per_cycle: Multiply-accumulates of integers.
        bytes_per_cycle: Bytes that it can load or store.
    """

    issue_width: Annotated[int, msgspec.Meta(ge=1)]
    macs_per_cycle: Annotated[float, msgspec.Meta(gt=0)]
    bytes_per_cycle: Annotated[float, msgspec.Meta(gt=0)]
