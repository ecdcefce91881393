"""Bodies that do not have their shape, and what devices say about themselves."""

from __future__ import annotations

import struct

import pytest

from harness.link import messages
from harness.link.messages import MalformedBodyError
from harness.link.values import RunOptions
from harness.link.wire import DebugLevel, Info, ProfilingLevel, Region


def hello(*tags: tuple[int, bytes], mtu: int = 512) -> bytes:
    packed = b"".join(bytes((tag, len(value))) + value for tag, value in tags)
    return struct.pack("<BBH", 0, 1, mtu) + packed


def clock(bits: int = 32, numerator: int = 1000, denominator: int = 1) -> tuple[int, bytes]:
    value = struct.pack("<BBxxII", bits, 0, numerator, denominator) + b"t"
    return (Info.CLOCK, value)


def tensor(*dim_order: int) -> bytes:
    sizes = (2,) * len(dim_order)
    return (
        struct.pack("<BBxxI", 6, len(sizes), 4 * 2 ** len(sizes))
        + struct.pack(f"<{len(sizes)}i", *sizes)
        + bytes(dim_order)
    )


MODEL = struct.pack("<BBBxII", 0, 1, 0, 10, 20)


@pytest.mark.parametrize(
    ("parse", "body"),
    [
        (messages.parse_refusal, b"\x03\0\0"),
        (messages.parse_empty, b""),
        (messages.parse_empty, b"\0\0"),
        (messages.parse_hello, b"\0\x01"),
        (messages.parse_hello, hello(mtu=255)),
        (messages.parse_hello, hello()[:-1]),
        (messages.parse_hello, hello((Info.BOARD, b"name"))[:-1]),
        (messages.parse_hello, hello((Info.OPERATORS, b"\x01"))),
        (messages.parse_hello, hello((Info.PROBE_COST, bytes(9)))),
        (messages.parse_hello, hello(clock(bits=7))),
        (messages.parse_hello, hello(clock(denominator=0))),
        (messages.parse_ping, bytes(15)),
        (messages.parse_status, b"\0\x09" + bytes(30)),
        (messages.parse_status, bytes(20)),
        (messages.parse_write, bytes(9)),
        (messages.parse_model, MODEL),
        (messages.parse_model, MODEL + tensor(0, 1)[:-1]),
        (messages.parse_model, MODEL + tensor(0, 1) + b"more"),
        (messages.parse_model, MODEL + tensor(0, 0)),
        (messages.parse_model, MODEL + tensor(1, 2)),
        (messages.parse_stat, bytes(39)),
        (messages.parse_read, bytes(7)),
        (messages.parse_progress, bytes(9)),
        (messages.parse_done, bytes(15)),
    ],
)
def test_a_body_of_another_shape_is_malformed(parse: object, body: bytes) -> None:
    with pytest.raises(MalformedBodyError):
        parse(body)  # type: ignore[operator]


def test_a_clock_of_unknown_rate() -> None:
    (domain,) = messages.parse_hello(hello(clock(numerator=0))).clocks
    assert domain.hz is None


def test_what_a_device_says_cannot_steer_a_terminal() -> None:
    info = messages.parse_hello(hello((Info.BOARD, b"\x1b[2J\xff"), (99, b"?")))
    assert info.board == "\ufffd[2J\ufffd"


def test_a_model_without_inputs_and_a_scalar() -> None:
    body = struct.pack("<BBBxII", 0, 0, 1, 10, 20) + tensor()
    info = messages.parse_model(body)
    assert info.inputs == ()
    assert info.outputs[0].sizes == info.outputs[0].dim_order == ()
    assert info.outputs[0].nbytes == 4


def test_requests_by_hand() -> None:
    assert messages.hello_request(0x01020304) == b"\1\1\0\0\4\3\2\1"
    assert messages.open_request(Region.INPUT, 3, 0x100) == b"\2\3\0\0\0\1\0\0"
    assert messages.write_request(Region.MODEL, 0, 7, b"ab") == b"\1\0\0\0\7\0\0\0ab"
    assert messages.commit_request(Region.MODEL, 0, bytes(32)) == b"\1\0\0\0" + bytes(32)
    assert messages.run_request(1, 2) == b"\1\0\0\0\2\0\0\0\0\0\0\0\0\1\0\0"
    levels = DebugLevel.INTERMEDIATE_OUTPUTS, ProfilingLevel.METHOD_ONLY
    options = RunOptions(3, *levels, stream=True)
    assert messages.run_request(1, 2, options) == b"\1\0\0\0\2\0\0\0\3\0\0\0\2\0\0\1"
    bundled = messages.run_request(1, 2, RunOptions(bundled_input=5))
    assert bundled == messages.run_request(1, 2) + b"\5\0\0\0"
    assert messages.read_request(Region.TRACE, 0, 1, 2) == b"\4\0\0\0\1\0\0\0\2\0\0\0"
