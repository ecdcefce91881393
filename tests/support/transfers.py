"""A model up and a trace down, about 1 MiB each, on a line in virtual time."""

from __future__ import annotations

import ctypes as ct
import functools
import random
from dataclasses import dataclass

from harness import Region, Session
from harness.link.frames import OVERHEAD
from harness.link.messages import WRITE_OVERHEAD
from harness.testing import RESPONSE, Op, encode_frame
from tests.support.line import Line, Wire, WiredServer
from tests.support.tiny_model import relu_model

MTU = 1024
SIZE = 1 << 20
BAUDS = (115_200, 921_600, 3_000_000)
EXECUTIONS = 16_000
"""As many as fill the trace."""
_TINY = relu_model([4])
MODEL = _TINY + random.Random(1).randbytes(SIZE - len(_TINY))
"""A program says where it ends, so bytes behind it make a longer upload and change nothing else."""


def framed_size(data: bytes, type_: int) -> int:
    """Bytes on the wire of the data in frames of the MTU."""
    room = MTU - OVERHEAD - WRITE_OVERHEAD
    pieces = (data[at : at + room] for at in range(0, len(data), room))
    return sum(len(encode_frame(type_, 1, bytes(WRITE_OVERHEAD) + piece)) for piece in pieces)


@dataclass(frozen=True)
class Transfers:
    """What MODEL and a trace took, virtual seconds; what framing allows: frames back to back."""

    trace: bytes
    up: float
    down: float
    allowed_up: float
    allowed_down: float
    session: Session
    device: WiredServer


@functools.cache
def transfer(library: ct.CDLL, wire: Wire) -> Transfers:
    """Upload MODEL, run it until the trace is full, read the trace."""
    device = WiredServer(library, wire, model=SIZE, trace=SIZE, mtu=MTU)
    line = Line(device)
    session = Session(line, clock_ns=line.clock, seed=wire.seed)
    session.hello(10)
    began = line.clock.now
    session.load_model(MODEL)
    up = line.clock.now - began
    session.set_input(0, bytes(16))
    session.run(EXECUTIONS, timeout_s=60)
    began = line.clock.now
    trace = session.read(Region.TRACE)
    down = line.clock.now - began
    assert len(trace) > 0.95 * SIZE
    allowed_up = framed_size(MODEL, Op.WRITE) * wire.byte_s
    allowed_down = framed_size(trace, Op.READ | RESPONSE) * wire.byte_s
    return Transfers(trace, up, down, allowed_up, allowed_down, session, device)
