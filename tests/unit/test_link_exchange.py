"""The exchange: what it counts, repeats and waits for, on a transport that follows a script."""

from __future__ import annotations

import logging
import struct
from collections import deque
from collections.abc import Callable

import pytest

from harness import InfrastructureError, LinkError, RunInProgressError
from harness.link.exchange import Exchange, FrameDamage
from harness.testing import (
    MIN_MTU,
    RESPONSE,
    Frame,
    FrameDecoder,
    Op,
    Status,
    encode_frame,
    messages,
)

OK = bytes((Status.OK,))
DAMAGED = encode_frame(Op.PING | RESPONSE, 1, OK)[:-3] + b"\x07\x07\x00"


class Port:
    """Answers each write with the next pieces of a script, on a clock that only reading moves."""

    baud = 115200

    def __init__(self, *script: list[bytes]) -> None:
        self.script = deque(script)
        self.coming: deque[bytes] = deque()
        self.written: list[tuple[bytes, float]] = []
        self.rates: list[int] = []
        self.time_ns = 0

    def set_baud(self, baud: int) -> None:
        self.baud = baud
        self.rates.append(baud)

    def write(self, data: bytes, timeout: float) -> None:
        self.written.append((data, timeout))
        self.coming.extend(self.script.popleft() if self.script else [])

    def read(self, timeout: float) -> bytes:
        if self.coming:
            return self.coming.popleft()
        self.time_ns += round(timeout * 1e9)
        return b""

    def close(self) -> None: ...


def exchange_on(
    port: Port,
    *,
    retries: int = 3,
    first_sequence: int = 1,
    console: Callable[[bytes], None] | None = None,
) -> Exchange:
    return Exchange(
        port,
        deadline_s=2,
        retries=retries,
        console=console,
        board="b1",
        first_sequence=first_sequence,
        clock_ns=lambda: port.time_ns,
    )


def answer(sequence: int, body: bytes = OK, op: Op = Op.PING) -> bytes:
    return encode_frame(op | RESPONSE, sequence, body)


def answers(count: int) -> bytes:
    """Of a batch of PINGs, the first request of its exchange."""
    part = struct.pack("<BxHB", Op.PING | RESPONSE, 1, Status.OK)
    return answer(2, OK + bytes(3) + part * count, Op.BATCH)


def test_sequence_numbers_go_round_and_leave_out_0() -> None:
    exchange = exchange_on(Port(), first_sequence=0xFFFD)
    assert [exchange.next_sequence() for _ in range(4)] == [0xFFFE, 0xFFFF, 1, 2]
    assert exchange_on(Port(), first_sequence=0x10000).next_sequence() == 1
    assert Exchange(Port(), deadline_s=1, retries=0).next_sequence() == 2


def test_what_is_sent_is_counted_and_may_take_as_long_as_the_request() -> None:
    port = Port([answer(2)], [answer(3)])
    exchange = exchange_on(port)
    for _ in range(2):
        exchange.request(Op.PING, b"abc", len)
    sizes = [len(data) for data, _ in port.written]
    assert exchange.statistics.frames_sent == 2
    assert exchange.statistics.bytes_sent == sum(sizes)
    assert [timeout for _, timeout in port.written] == [2 * (3 + 1)] * 2
    assert exchange.statistics.retries == 0


def test_a_damaged_frame_is_answered_by_sending_again_at_once() -> None:
    port = Port([DAMAGED], [DAMAGED], [DAMAGED, answer(2)])
    exchange = exchange_on(port)
    assert exchange.request(Op.PING, b"", len) == 1
    assert exchange.statistics.retries == exchange.statistics.corrupt.total() == 3
    assert len({data for data, _ in port.written}) == 1, "each time the same frame"
    assert port.time_ns == 0, "without waiting"


def test_as_often_as_there_are_retries() -> None:
    port = Port(*[[DAMAGED] for _ in range(10)])
    exchange = exchange_on(port, retries=2)
    assert exchange.attempt(Op.PING, 7, b"", len, 1.0, 2) is None
    assert len(port.written) == 3
    assert exchange.attempt(Op.PING, 8, b"", len, 2.0) is None, "by itself never"
    assert len(port.written) == 4


def test_an_answer_to_another_request_is_passed_over() -> None:
    port = Port([answer(9), answer(2, op=Op.READ), answer(2)])
    exchange = exchange_on(port)
    assert exchange.request(Op.PING, b"", len) == 1
    assert exchange.statistics.stale_answers == 2


def test_without_an_answer_the_rate_goes_back_to_the_first(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    port = Port([], [], [answer(2)])
    exchange = exchange_on(port)
    assert exchange.first_baud == exchange.baud == 115200
    exchange.set_baud(921600)
    assert exchange.request(Op.PING, b"", len) == 1
    assert port.rates == [921600, 115200]
    assert port.time_ns == 4_000_000_000, "two deadlines of 2 s"
    assert exchange.statistics.retries == 2
    assert exchange.statistics.rate_fallbacks == 1
    assert caplog.messages == ["b1: no answer to PING, retrying"] * 2
    exchange.set_baud(921600)
    exchange.fall_back()
    exchange.fall_back()
    assert exchange.statistics.rate_fallbacks == 2


def test_a_first_retry_keeps_the_rate() -> None:
    port = Port([], [answer(2)])
    exchange = exchange_on(port)
    exchange.set_baud(921600)
    exchange.request(Op.PING, b"", len)
    assert exchange.baud == 921600


def test_a_batch_waits_twice_as_long_each_time() -> None:
    parts = [(Op.PING, b"", len), (Op.PING, b"xy", None)]
    port = Port([], [], [answers(2)])
    exchange = exchange_on(port)
    assert exchange.request_batch(parts) == [1, None]
    assert port.time_ns == (2 + 4) * 10**9
    [sent] = {data for data, _ in port.written}
    [frame] = FrameDecoder(MIN_MTU).feed(sent)
    assert isinstance(frame, Frame)
    assert frame.body == messages.BatchBody.of([(op, body) for op, body, _ in parts]).encode()


def test_a_batch_with_too_few_answers_is_asked_for_again() -> None:
    parts = [(Op.PING, b"", len), (Op.PING, b"", len)]
    port = Port([answers(1)], [answers(2)])
    exchange = exchange_on(port)
    assert exchange.request_batch(parts) == [1, 1]
    assert exchange.statistics.corrupt.total() == 1
    assert exchange.statistics.retries == 1


def test_a_board_that_runs_a_model_says_so() -> None:
    body = struct.pack("<BxxxIIII", Status.BUSY, 3, 1, 10, 2500)
    with pytest.raises(RunInProgressError, match=r"^b1: "):
        exchange_on(Port([answer(2, body)])).request(Op.PING, b"", len)


def test_a_connection_without_a_rate_has_none_to_change() -> None:
    class Plain:
        def write(self, data: bytes, timeout: float) -> None: ...

        def read(self, timeout: float) -> bytes:
            return b""

        def close(self) -> None: ...

    exchange = Exchange(Plain(), deadline_s=1, retries=0)
    assert (exchange.first_baud, exchange.baud) == (0, 0)
    assert not exchange.greeted
    with pytest.raises(InfrastructureError, match="target: the connection has no baud rate"):
        exchange.set_baud(9600)


def test_statistics_name_every_kind_of_corruption_once() -> None:
    exchange = exchange_on(Port([DAMAGED, answer(2)]))
    exchange.request(Op.PING, b"", len)
    found = exchange.statistics.as_dict()
    assert "corrupt" not in found
    assert sum(number for name, number in found.items() if name.startswith("corrupt")) == 1


def test_a_stream_is_counted_to_the_byte() -> None:
    port = Port()
    console = bytearray()
    exchange = exchange_on(port, console=console.extend)
    noise = b"\x01" + b"\x02" * 300
    long_text = b"\x01" + b"a" * 300
    port.coming.extend(
        [
            b"boot\n" + answer(1),
            noise[:280],
            noise[280:],
            b"\0" + long_text + b"\0\x01h\0" + encode_frame(Op.NOTE_DAMAGED, 0, b""),
            b"\x01" + answer(2),
        ]
    )
    received = sum(map(len, port.coming))
    heard = [exchange.listen(1.0) for _ in range(6)]
    assert heard == [
        Frame(Op.PING | RESPONSE, 1, OK),
        FrameDamage.INCOMING,  # the noise
        FrameDamage.OUTGOING,
        FrameDamage.INCOMING,  # the lone first byte
        Frame(Op.PING | RESPONSE, 2, OK),
        None,
    ]
    assert bytes(console) == b"boot\n" + long_text + b"\x01h" + b"\x01"
    counts = {name: count for name, count in exchange.statistics.as_dict().items() if count}
    assert counts == {
        "frames_received": 3,
        "bytes_received": received,
        "text_bytes": 5 + 301 + 2 + 1,
        "skipped_bytes": 301 - 258,
        "damage_notes": 1,
        "corrupt_too_long": 1,
        "corrupt_too_short": 1,
    }


@pytest.mark.parametrize(
    ("received", "summary"),
    [
        (b"", "; nothing was received"),
        (b"hello", "; 5 bytes were received, but no frames"),
        (DAMAGED + answer(9), "; 1 corrupt and 1 good frames were received"),
        (answer(9), ""),
    ],
)
def test_a_failure_says_what_was_received(received: bytes, summary: str) -> None:
    with pytest.raises(LinkError) as caught:
        exchange_on(Port([received]), retries=0).request(Op.PING, b"", len)
    assert caught.value.message == f"b1: no answer to PING in 2 s, sent 1 time{summary}"


def test_frames_of_the_previous_size_are_accepted_after_it_was_lowered() -> None:
    port = Port()
    exchange = exchange_on(port)
    assert exchange.mtu == MIN_MTU == 256
    long_frame = answer(1, OK + bytes(500))
    for mtu, heard in ((256, FrameDamage), (1024, Frame), (256, Frame)):
        exchange.set_mtu(mtu)
        port.coming.append(long_frame)
        assert isinstance(exchange.listen(1.0), heard)
        assert exchange.mtu == mtu
