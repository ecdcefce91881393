"""Counters of a link: frames, bytes, losses and retries."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, fields

from harness.link.frames import CorruptReason


@dataclass(slots=True)
class LinkStatistics:
    """Counters of one session. Every loss is counted.

    Attributes:
        frames_sent: Frames sent, including repetitions.
        frames_received: Frames that passed every check.
        bytes_sent: Bytes sent.
        bytes_received: Bytes received, including text and damaged frames.
        text_bytes: Bytes of console text received.
        skipped_bytes: Bytes skipped after over-long frames.
        retries: Requests sent again because no response came.
        stale_answers: Good frames that no request was waiting for.
        damage_notes: Frames sent that the device reported as corrupt.
        resent: Pieces of uploads that were presumably lost and sent again.
        holes: Pieces of downloads that were missing and requested again.
        rate_fallbacks: Times the line fell back to its first baud rate.
        digest_mismatches: Whole transfers repeated because of a wrong digest.
        reopened: Times the port disappeared and came back.
        overruns: UART overruns since the device started, as it last reported.
        read_bytes: Bytes of regions read completely.
        read_us: Time for ``read_bytes``, microseconds.
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
        """Known share of lost or damaged frames, in both directions together."""
        lost = self.retries + self.resent + self.holes + self.corrupt.total()
        return lost / max(1, lost + self.frames_received)

    def since(self, earlier: LinkStatistics) -> LinkStatistics:
        """Return the difference to an earlier copy."""
        names = [f.name for f in fields(self)]
        return LinkStatistics(**{n: getattr(self, n) - getattr(earlier, n) for n in names})

    def as_dict(self) -> dict[str, int]:
        """Return all counters by name; corrupt frames as ``corrupt_<reason>``."""
        plain = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "corrupt"}
        return plain | {f"corrupt_{reason}": self.corrupt[reason] for reason in CorruptReason}
