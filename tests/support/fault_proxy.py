"""A transport that damages what passes, by a seed."""

from __future__ import annotations

import random
from dataclasses import dataclass

from harness.errors import TransportClosedError
from harness.link.transports import Transport


@dataclass(frozen=True)
class Faults:
    """Rates are per byte, in both directions.

    Attributes:
        seed: Of the generator that decides; the same seed damages the same stream alike.
        flip: A bit is inverted.
        drop: The byte is lost.
        duplicate: The byte comes twice.
        insert: A random byte comes in front.
        delay: The rest of the chunk is held back until the next chunk of its direction.
        cut_after: The stream ends when so many bytes have passed both ways; None for never.
    """

    seed: int
    flip: float = 0.0
    drop: float = 0.0
    duplicate: float = 0.0
    insert: float = 0.0
    delay: float = 0.0
    cut_after: int | None = None


class FaultProxy:
    """Wraps a transport.

    Attributes:
        faults: What it does.
        done: How many faults it has made.
    """

    def __init__(self, inner: Transport, faults: Faults) -> None:
        self.faults = faults
        self.done = 0
        self._inner = inner
        self._random = random.Random(faults.seed)
        self._passed = 0
        self._held = {"read": b"", "write": b""}

    def read(self, timeout: float) -> bytes:
        data = self._inner.read(timeout)
        if not data:
            # Held bytes come late, not never.
            data, self._held["read"] = self._held["read"], b""
            return data
        return self._pass("read", data)

    def write(self, data: bytes, timeout: float) -> None:
        damaged = self._pass("write", data)
        if damaged:
            self._inner.write(damaged, timeout)

    def close(self) -> None:
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
        for place, byte in enumerate(data):
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
                self._held[direction] = data[place:]
                break
        return bytes(out)
