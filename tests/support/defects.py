"""Boards with a defect each, for qualifications that must find it."""

from __future__ import annotations

import ctypes as ct
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from harness.config.board import Board
from harness.link.frames import Frame, FrameDecoder, encode
from harness.link.transports import Transport
from harness.link.wire import RESPONSE, Op
from harness.target.build import Firmware
from harness.target.start import Target, start_target
from harness.testing import FaultFilter, Faults
from tests.support.line import Line, Wire, WiredServer

_MTU = 4096
_PING = struct.Struct("<B3xIQ")
"""The answer to PING: status, epoch, ticks."""

OpenTarget = Callable[..., Target]


class DefectiveTarget:
    """A target with another transport in front of its own."""

    def __init__(self, target: Target, transport: Transport) -> None:
        self._target, self.transport = target, transport
        self.description = target.description
        self.check_alive = target.check_alive
        self.close = target.close

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class OtherTicks:
    """A transport on which every reading of the device's clock is another one."""

    def __init__(self, inner: Transport, ticks: Callable[[int], int]) -> None:
        self._inner, self._ticks = inner, ticks
        self._decoder = FrameDecoder(_MTU)
        self.write, self.close = inner.write, inner.close

    def read(self, timeout: float) -> bytes:
        items = self._decoder.feed(self._inner.read(timeout))
        return b"".join(map(self._pass, items))

    def _pass(self, item: Any) -> bytes:
        if not isinstance(item, Frame):
            return b""
        body = item.body
        if item.type == Op.PING | RESPONSE:
            status, epoch, ticks = _PING.unpack(body)
            body = _PING.pack(status, epoch, self._ticks(ticks) & 0xFFFFFFFF)
        return encode(item.type, item.sequence, body)


def opening(transport_of: Callable[[Transport], Transport]) -> OpenTarget:
    """Open boards with ``transport_of`` in front."""

    def open_target(board: Board, firmware: Firmware | None, *, port: Any = None) -> Any:
        target = start_target(board, firmware, port=port)
        return DefectiveTarget(target, transport_of(target.transport))

    return open_target


def with_clock(ticks: Callable[[int], int]) -> OpenTarget:
    """Open boards whose clock reads ``ticks`` of what it should."""
    return opening(lambda inner: OtherTicks(inner, ticks))


def with_rate(share: float) -> OpenTarget:
    """Open boards whose clock runs at a share of its declared rate, across its wraps."""
    read = passed = 0

    def slow(ticks: int) -> int:
        nonlocal read, passed
        passed += (ticks - read) % 2**32
        read = ticks
        return int(passed * share)

    return with_clock(slow)


def with_line(**faults: Any) -> OpenTarget:
    """Open boards on a line with faults."""
    return opening(lambda inner: FaultFilter(inner, Faults(seed=1, **faults)))


WIRED = """\
schema = 1
name = "test board"
description = "the device's server in this process"
cpu = "host"
timer = { source = "test clock", bits = 32, hz = 1000 }
target = { kind = "serial" }
tested = "no"
"""


@dataclass
class WiredTarget:
    """The device's own server as a target."""

    transport: Line
    description: str = "the device's server"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def check_alive(self) -> None:
        """It cannot die without this process."""

    def close(self) -> None:
        self.transport.close()


def wired(library: ct.CDLL, directory: Path, **memory: Any) -> tuple[str, OpenTarget]:
    """Return the file of a board that is the device's server on a line, and what opens it."""
    file = directory / "test board.toml"
    file.write_text(WIRED)

    def open_target(*_: Any, **__: Any) -> Any:
        return WiredTarget(Line(WiredServer(library, Wire(), **memory)))

    return str(file), open_target
