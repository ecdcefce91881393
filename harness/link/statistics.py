"""What a link has carried and lost, as numbers."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, fields

from harness.link.frames import CorruptReason


@dataclass(slots=True)
class LinkStatistics:
    """Counts of one session; every loss is one of them.

    Attributes:
        frames_sent: Frames sent, repetitions included.
        frames_received: Frames that passed every check.
        bytes_sent: Bytes sent.
        bytes_received: Bytes received, text and damage included.
        text_bytes: Bytes received that were console text.
        skipped_bytes: Bytes passed over behind over-long frames.
        retries: Requests sent again because no answer came.
        stale_answers: Good frames that nobody was waiting for.
        damage_notes: Frames sent that the device reported corrupt.
        resent: Pieces of uploads that were lost, as far as is known, and sent again.
        holes: Pieces of downloads that were missing and asked for again.
        rate_fallbacks: Times the line went back to the rate it began with.
        digest_mismatches: Whole transfers repeated because the digest was wrong.
        reopened: Times the port had vanished and came back.
        overruns: Times the device's UART lost bytes, since it started and as it last told.
        read_bytes: Bytes of regions that were read whole, and
        read_us: how long that took, microseconds.
        corrupt: Frames rejected, by reason.
    """

    frames_sent: int = 0
    frames_received: int = 0
    bytes_sent: int = 0
    bytes_received: int = 0
    text_bytes: int = 0
    skipped_bytes: int = 0
    retries: int = 0
    stale_answers: int = 0
    damage_notes: int = 0
    resent: int = 0
    holes: int = 0
    rate_fallbacks: int = 0
    digest_mismatches: int = 0
    reopened: int = 0
    overruns: int = 0
    read_bytes: int = 0
    read_us: int = 0
    corrupt: Counter[CorruptReason] = field(default_factory=Counter)

    @property
    def loss(self) -> float:
        """Share of the frames of both directions that were lost or damaged, as far as is known."""
        lost = self.retries + self.resent + self.holes + self.corrupt.total()
        return lost / max(1, lost + self.frames_received)

    def since(self, earlier: LinkStatistics) -> LinkStatistics:
        """Return what has come on top of an earlier copy of these."""
        names = [f.name for f in fields(self)]
        return LinkStatistics(**{n: getattr(self, n) - getattr(earlier, n) for n in names})

    def as_dict(self) -> dict[str, int]:
        """Return all counts by name; corrupt frames as ``corrupt_<reason>``."""
        plain = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "corrupt"}
        return plain | {f"corrupt_{reason}": self.corrupt[reason] for reason in CorruptReason}
