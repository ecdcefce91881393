"""FaultFilter: a transport that damages the bytes that pass, reproducibly by its seed."""

from __future__ import annotations

import logging
import random
from dataclasses import dataclass, replace

from harness.errors import TransportClosedError
from harness.link.transports import Transport

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Faults:
    """What a fault filter does; rates are per byte, in both directions.

    Attributes:
        seed: Seed of the random generator; the same seed damages the same stream alike. None
            draws one, which the filter logs.
        flip: A bit is inverted.
        drop: The byte is lost.
        duplicate: The byte comes twice.
        insert: A random byte comes in front.
        delay: The rest of the chunk is held back until the next chunk of its direction.
        cut_after: The stream ends when so many bytes have passed both ways; None for never.
    """

    seed: int | None = None
    flip: float = 0.0
    drop: float = 0.0
    duplicate: float = 0.0
    insert: float = 0.0
    delay: float = 0.0
    cut_after: int | None = None


class FaultFilter:
    """Wraps a transport and damages what passes.

    Its ``repr`` and the error of a cut line carry the seed, so that a failure can be repeated.

    Attributes:
        faults: What it does; may be changed at any time. Its seed is never None.
        done: Number of faults so far.

    Examples:
        >>> from harness.link.session import Session
        >>> from harness.testing import Faults, FaultFilter, SimulatedBoard, VirtualClock
        >>> clock = VirtualClock()
        >>> line = FaultFilter(SimulatedBoard(clock), Faults(seed=7, flip=0.001, drop=0.001))
        >>> session = Session(line, clock_ns=clock)
        >>> session.hello(5).board
        'fake'
        >>> line.faults.seed
        7
    """

    def __init__(self, inner: Transport, faults: Faults) -> None:
        """Wrap a transport."""
        if faults.seed is None:
            faults = replace(faults, seed=random.SystemRandom().randrange(2**32))
            _log.warning("faults on the line: seed %d repeats them", faults.seed)
        self.faults = faults
        self.done = 0
        self._inner = inner
        self._random = random.Random(faults.seed)
        self._passed = 0
        self._held = {"read": b"", "write": b""}

    def __repr__(self) -> str:
        return f"<FaultFilter: {self.done} faults, {self.faults}>"

    def read(self, timeout: float) -> bytes:
        """Return what has arrived, damaged, or ``b""`` after ``timeout`` seconds."""
        data = self._inner.read(timeout)
        if not data:
            # Held bytes come late, not never.
            data, self._held["read"] = self._held["read"], b""
            return data
        return self._pass("read", data)

    def write(self, data: bytes, timeout: float) -> None:
        """Send ``data``, damaged."""
        damaged = self._pass("write", data)
        if damaged:
            self._inner.write(damaged, timeout)

    def close(self) -> None:
        """Close the transport within."""
        self._inner.close()

    def _pass(self, direction: str, data: bytes) -> bytes:
        limit = self.faults.cut_after
        if limit is not None and self._passed + len(data) > limit:
            self._passed = limit
            raise TransportClosedError(f"the line was cut after {limit} bytes ({self.faults})")
        self._passed += len(data)
        return self._damage(direction, data)

    def _damage(self, direction: str, data: bytes) -> bytes:
        faults, chance = self.faults, self._random.random
        out = bytearray(self._held[direction])
        self._held[direction] = b""
        rates = (faults.flip, faults.drop, faults.duplicate, faults.insert, faults.delay)
        total = sum(rates)
        for index, byte in enumerate(data):
            if chance() >= total:
                out.append(byte)
                continue
            self.done += 1
            (kind,) = self._random.choices(range(5), rates)
            if kind == 0:
                out.append(byte ^ 1 << self._random.randrange(8))
            elif kind == 2:
                out += bytes((byte, byte))
            elif kind == 3:
                out += bytes((self._random.randrange(256), byte))
            elif kind == 4:
                self._held[direction] = data[index:]
                break
        return bytes(out)
