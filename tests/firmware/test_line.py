"""Host and device on a line in virtual time: how full they keep it, and what damage costs."""

from __future__ import annotations

import ctypes as ct
import functools
import random
from dataclasses import dataclass

import pytest

from harness.link.frames import OVERHEAD, encode
from harness.link.messages import WRITE_OVERHEAD
from harness.link.session import Session
from harness.link.wire import RESPONSE, Op, Region
from tests.support.line import Line, Wire, WiredServer
from tests.support.tiny_model import relu_model

MTU = 1024
SIZE = 1 << 20
BAUDS = (115_200, 921_600, 3_000_000)
TINY = relu_model([4])
MODEL = TINY + random.Random(1).randbytes(SIZE - len(TINY))
"""A program says where it ends, so bytes behind it make a longer upload."""
EXECUTIONS = 16_000


def allowed_s(data: bytes, type_: int, wire: Wire) -> float:
    """Seconds per byte that framing allows: the data in frames of the MTU, back to back."""
    room = MTU - OVERHEAD - WRITE_OVERHEAD
    pieces = (data[at : at + room] for at in range(0, len(data), room))
    framed = sum(len(encode(type_, 1, bytes(WRITE_OVERHEAD) + piece)) for piece in pieces)
    return framed * wire.byte_s / len(data)


@dataclass
class Transfers:
    """Virtual seconds per byte up and down, and what framing allows."""

    up: float
    down: float
    allowed_up: float
    allowed_down: float
    session: Session
    device: WiredServer


@functools.cache
def transfer(library: ct.CDLL, wire: Wire) -> Transfers:
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
    return Transfers(
        up / len(MODEL),
        down / len(trace),
        allowed_s(MODEL, Op.WRITE, wire),
        allowed_s(trace, Op.READ | RESPONSE, wire),
        session,
        device,
    )


@pytest.mark.parametrize("latency_s", [0.001, 0.016])
@pytest.mark.parametrize("baud", BAUDS)
def test_both_directions_keep_the_line_full(etstub: ct.CDLL, baud: int, latency_s: float) -> None:
    done = transfer(etstub, Wire(baud, latency_s))
    assert 0.97 * done.up <= done.allowed_up <= done.up
    assert 0.97 * done.down <= done.allowed_down <= done.down
    assert done.device.overrun == 0
    assert done.session.statistics.loss == 0


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("baud", BAUDS)
def test_damage_to_one_frame_in_a_hundred_costs_at_most_five_percent(
    etstub: ct.CDLL, baud: int, seed: int
) -> None:
    clean = transfer(etstub, Wire(baud, 0.016))
    done = transfer(etstub, Wire(baud, 0.016, damaged=0.01, seed=seed))
    assert done.device.damaged > 10
    assert done.up <= 1.05 * clean.up
    assert done.down <= 1.05 * clean.down


@pytest.mark.parametrize("ring", [32, 64])
def test_a_ring_for_one_request_is_enough(etstub: ct.CDLL, ring: int) -> None:
    """Its answer takes the time of 19 bytes, and a part of a download that of a thousand."""
    done = transfer(etstub, Wire(921_600, 0.001, ring=ring))
    assert done.up <= 2 * done.allowed_up
    assert done.down <= 2 * done.allowed_down
    assert done.device.overrun == 0
