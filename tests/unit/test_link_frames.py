"""The frame codec on cases worked out by hand."""

from __future__ import annotations

import sys
import zlib
from typing import Any

import pytest
from cobs import cobs

from harness.testing import (
    CorruptFrame,
    CorruptReason,
    Frame,
    FrameDecoder,
    Skipped,
    Text,
    encode_frame,
    frames,
)

FULL = bytes(range(1, 255))


@pytest.mark.parametrize(
    ("data", "encoded"),
    [
        (b"", b"\x01"),
        (b"\0", b"\x01\x01"),
        (b"\0\0", b"\x01\x01\x01"),
        (b"a\0", b"\x02a\x01"),
        (b"\0ab", b"\x01\x03ab"),
        (FULL, b"\xff" + FULL),
        (FULL + b"\0", b"\xff" + FULL + b"\x01\x01"),
        (FULL + b"a", b"\xff" + FULL + b"\x02a"),
        (FULL + FULL, b"\xff" + FULL + b"\xff" + FULL),
    ],
)
def test_cobs_by_hand(data: bytes, encoded: bytes) -> None:
    assert frames.cobs_encode(data) == encoded == cobs.encode(data)
    assert frames.cobs_decode(encoded) == data


@pytest.mark.parametrize("encoded", [b"\x02", b"\x03a", b"\xff" + FULL[:-1], b"\x01\x05abc", b"\0"])
def test_a_code_that_reaches_past_the_end_is_an_error(encoded: bytes) -> None:
    assert frames.cobs_decode(encoded) is None


def test_a_frame_by_hand() -> None:
    payload = b"\0\x02\x34\x12" + b"body"
    crc = zlib.crc32(payload).to_bytes(4, "little")
    wire = encode_frame(0x02, 0x1234, b"body")
    assert wire == b"\0" + cobs.encode(payload + crc) + b"\0"
    assert wire[1] == 1
    assert FrameDecoder(256).feed(wire) == [Frame(0x02, 0x1234, b"body")]


def wrapped(payload: bytes) -> bytes:
    return b"\0" + cobs.encode(payload) + b"\0"


def with_crc(payload: bytes) -> bytes:
    return payload + zlib.crc32(payload).to_bytes(4, "little")


@pytest.mark.parametrize(
    ("stream", "reason"),
    [
        (b"\0\x01\x05ab\0", CorruptReason.COBS),
        (b"\0\x01\0", CorruptReason.TOO_SHORT),
        (wrapped(with_crc(b"\0\x01\0")), CorruptReason.TOO_SHORT),
        (wrapped(b"\0\x01\0\0abcd"), CorruptReason.CRC),
    ],
)
def test_corrupt_frames_are_values_with_a_reason_and_their_bytes(
    stream: bytes, reason: CorruptReason
) -> None:
    assert FrameDecoder(256).feed(stream) == [CorruptFrame(reason, stream[1:-1])]


@pytest.mark.parametrize("bit", range(32))
def test_every_bit_of_the_crc_counts(bit: int) -> None:
    payload = b"\0\x02\x34\x12" + b"body"
    crc = zlib.crc32(payload) ^ 1 << bit
    stream = wrapped(payload + crc.to_bytes(4, "little"))
    assert FrameDecoder(256).feed(stream) == [CorruptFrame(CorruptReason.CRC, stream[1:-1])]


def test_the_longest_frame_by_hand() -> None:
    """One code byte, and another for every 254 bytes."""
    assert [frames.longest_encoded(mtu) for mtu in (8, 253, 254, 256, 1024)] == [
        9,
        254,
        256,
        258,
        1029,
    ]


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\x01", True),
        (b"\x01ready\a\b\t\v\f\r\n\x1b[0m", True),
        ("\x01größer".encode(), True),
        ("\x01größer".encode()[:4], True),  # ends within a character
        (b"\x01a\x02", False),
        (b"\x01a\x7f", False),
        (b"\x01a\x82", False),
    ],
)
def test_text_that_begins_like_a_frame(data: bytes, text: bool) -> None:
    assert frames.is_text(data) is text


def test_an_overlong_frame_is_reported_once_and_skipped_to_its_end() -> None:
    decoder = FrameDecoder(256)
    good = encode_frame(1, 2, b"x")
    limit = frames.longest_encoded(256)
    items = decoder.feed(b"\0\x01" + b"y" * (limit - 1 + 50) + good + b"after")
    # Its end is the zero that was to begin the good frame; the frame still stands alone.
    assert [type(item) for item in items] == [CorruptFrame, Skipped, Frame, Text]
    assert isinstance(items[0], CorruptFrame)
    assert len(items[0].encoded) == limit
    assert sum(len(i.data) for i in items if isinstance(i, Skipped)) == 50


def test_an_overlong_frame_in_single_bytes_ends_at_the_same_byte() -> None:
    decoder = FrameDecoder(256)
    frame = b"\x01" + b"y" * 259
    items = [item for byte in frame for item in decoder.feed(bytes((byte,)))]
    too_long = CorruptFrame(CorruptReason.TOO_LONG, frame[:258])
    assert items == [too_long, Skipped(b"y"), Skipped(b"y")]
    assert decoder.feed(encode_frame(1, 2, b"x")) == [Frame(1, 2, b"x")], "nothing is left to skip"


def test_text_is_available_at_once_and_stray_delimiters_do_not_split_it() -> None:
    decoder = FrameDecoder(256)
    assert decoder.feed(b"boot\0\0ing") == [Text(b"booting")]
    assert decoder.feed(b".") == [Text(b".")]
    assert decoder.feed(encode_frame(1, 1, b"")[:-1]) == []
    assert decoder.feed(b"\0done") == [Frame(1, 1, b""), Text(b"done")]


def test_a_lost_delimiter_between_frames_costs_nothing() -> None:
    one, two = encode_frame(1, 1, b"a"), encode_frame(1, 2, b"b")
    assert FrameDecoder(256).feed(one[:-1] + two) == [Frame(1, 1, b"a"), Frame(1, 2, b"b")]


def test_decoding_is_fast_enough_for_any_serial_line() -> None:
    body = bytes(range(256)) * 4
    stream = encode_frame(0xB1, 7, body) * 1000
    decoder, executed = FrameDecoder(4096), 0

    def count(frame: object, event: str, argument: object) -> Any:
        nonlocal executed
        executed += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        items = decoder.feed(stream)
    finally:
        sys.settrace(before)
    assert len(items) == 1000
    # A loop over single bytes executes two lines for each, and is 30 times as slow.
    assert 1000 < executed < len(stream) / 4
