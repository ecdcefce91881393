"""Bodies that do not have their shape, and what devices say about themselves."""

from __future__ import annotations

import struct

import pytest

from harness import DebugLevel, ProfilingLevel, Region, RunOptions
from harness.testing import State, messages, wire


def hello(*tags: tuple[int, bytes], mtu: int = 512) -> bytes:
    packed = b"".join(bytes((tag, len(value))) + value for tag, value in tags)
    return struct.pack("<BBH", 0, 1, mtu) + packed


def clock(bits: int = 32, numerator: int = 1000, denominator: int = 1) -> tuple[int, bytes]:
    value = struct.pack("<BBxxII", bits, 0, numerator, denominator) + b"t"
    return (wire.Info.CLOCK, value)


def tensor(*dim_order: int) -> bytes:
    sizes = (2,) * len(dim_order)
    return (
        struct.pack("<BBxxI", 6, len(sizes), 4 * 2 ** len(sizes))
        + struct.pack(f"<{len(sizes)}i", *sizes)
        + bytes(dim_order)
    )


MODEL = struct.pack("<BBBxII", 0, 1, 0, 10, 20)
NEGATIVE = struct.pack("<BBxxIiiBB", 6, 2, 4, -1, -1, 0, 1)


@pytest.mark.parametrize(
    ("parse", "body"),
    [
        (messages.DeviceOutcome.parse, b"\x03\0\0"),
        (messages.Answer.parse, b""),
        (messages.Answer.parse, b"\0\0"),
        (messages.TargetInfo.parse, b"\0\x01"),
        (messages.TargetInfo.parse, hello(mtu=255)),
        (messages.TargetInfo.parse, hello()[:-1]),
        (messages.TargetInfo.parse, hello((wire.Info.BOARD, b"name"))[:-1]),
        (messages.TargetInfo.parse, hello((wire.Info.OPERATORS, b"\x01"))),
        (messages.TargetInfo.parse, hello((wire.Info.PROBE_COST, bytes(9)))),
        (messages.TargetInfo.parse, hello(clock(bits=7))),
        (messages.TargetInfo.parse, hello(clock(denominator=0))),
        (messages.DeviceClock.parse, bytes(15)),
        (messages.DeviceStatus.parse, b"\0\x09" + bytes(30)),
        (messages.DeviceStatus.parse, bytes(20)),
        (messages.WriteAnswer.parse, bytes(9)),
        (messages.ModelInfo.parse, MODEL),
        (messages.ModelInfo.parse, MODEL + tensor(0, 1)[:-1]),
        (messages.ModelInfo.parse, MODEL + tensor(0, 1) + b"more"),
        (messages.ModelInfo.parse, MODEL + tensor(0, 0)),
        (messages.ModelInfo.parse, MODEL + tensor(1, 2)),
        (messages.ModelInfo.parse, MODEL + NEGATIVE),
        (messages.RegionInfo.parse, bytes(39)),
        (messages.RegionPart.parse, bytes(7)),
        (messages.RunNote.parse, bytes(9)),
        (messages.RunEnd.parse, bytes(15)),
    ],
)
def test_a_body_of_another_shape_is_malformed(parse: object, body: bytes) -> None:
    with pytest.raises(messages.MalformedBodyError):
        parse(body)  # type: ignore[operator]


def test_a_clock_of_unknown_rate() -> None:
    (domain,) = messages.TargetInfo.parse(hello(clock(numerator=0))).clocks
    assert domain.hz is None


def test_what_a_device_says_cannot_steer_a_terminal() -> None:
    info = messages.TargetInfo.parse(hello((wire.Info.BOARD, b"\x1b[2J\xff"), (99, b"?")))
    assert info.board == "\ufffd[2J\ufffd"


def test_a_model_without_inputs_and_a_scalar() -> None:
    body = struct.pack("<BBBxII", 0, 0, 1, 10, 20) + tensor()
    info = messages.ModelInfo.parse(body)
    assert info.inputs == ()
    assert info.outputs[0].sizes == info.outputs[0].dim_order == ()
    assert info.outputs[0].nbytes == 4


TENSOR = messages.TensorInfo(scalar_type=6, nbytes=24, sizes=(2, 3), dim_order=(1, 0))
ENDED = messages.DeviceOutcome(status=12, detail=40, message="größer")


@pytest.mark.parametrize(
    "body",
    [
        messages.OpenBody(Region.INPUT, 3, 24, (2, 3)),
        messages.CommitBody(Region.MODEL, 0, bytes(range(32)), "forward"),
        messages.RunBody(7, 2, RunOptions(counters=(3, 0), bundled_input=5)),
        messages.BatchBody.of([(1, b"one"), (2, b"")]),
        messages.LogAck(7, 1, 2, 3),
        messages.DeviceClock(1, 1 << 40),
        messages.RunInProgress(7, 1, 3, 1500),
        messages.DeviceStatus(State.RUNNING, *range(6), outcome=ENDED),
        messages.ModelInfo(10, 20, (TENSOR, TENSOR), (TENSOR,)),
        messages.RegionInfo(24, bytes(32), (2, -1)),
        messages.RegionPart(Region.TRACE, 1, 4, b"data"),
        messages.RunEnd(7, 3, ENDED),
        messages.LogPart(7, 0, 10, 4, b"parted"),
        messages.CounterList(
            2,
            1,
            (messages.OfferedCounter(32, True, "cycles"), messages.OfferedCounter(8, False, "lsu")),
        ),
    ],
    ids=lambda body: type(body).__name__,
)
def test_a_body_reads_what_it_writes(body: messages.Body) -> None:
    assert type(body).parse(body.encode()) == body


def test_requests_by_hand() -> None:
    assert messages.HelloBody(0x01020304).encode() == b"\1\1\0\0\4\3\2\1"
    assert messages.OpenBody(Region.INPUT, 3, 0x100).encode() == b"\2\3\0\0\0\1\0\0"
    assert messages.WriteBody(Region.MODEL, 0, 7, b"ab").encode() == b"\1\0\0\0\7\0\0\0ab"
    assert messages.CommitBody(Region.MODEL, 0, bytes(32)).encode() == b"\1\0\0\0" + bytes(32)
    assert messages.RunBody(1, 2).encode() == b"\1\0\0\0\2\0\0\0\0\0\0\0\0\1\0\0"
    levels = DebugLevel.INTERMEDIATE_OUTPUTS, ProfilingLevel.METHOD_ONLY
    options = RunOptions(3, *levels, stream=True)
    assert messages.RunBody(1, 2, options).encode() == b"\1\0\0\0\2\0\0\0\3\0\0\0\2\0\0\1"
    bundled = messages.RunBody(1, 2, RunOptions(bundled_input=5)).encode()
    assert bundled == messages.RunBody(1, 2).encode() + b"\5\0\0\0"
    assert messages.ReadBody(Region.TRACE, 0, 1, 2).encode() == b"\4\0\0\0\1\0\0\0\2\0\0\0"
