"""Console text among frames: all of it reaches the console in order, and costs no frame."""

from __future__ import annotations

import itertools
import struct
from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from harness.link.exchange import Exchange, FrameDamage
from harness.testing import MIN_MTU, RESPONSE, Frame, Op, encode_frame, messages
from harness.testing import frames as link_frames

NOTES = (Op.NOTE_PROGRESS, Op.NOTE_DONE, Op.NOTE_STARTED, Op.NOTE_DAMAGED, Op.NOTE_LOG)
REQUESTS = tuple(op for op in Op if op not in NOTES)

small = st.integers(0, 1 << 24).map(lambda number: struct.pack("<I", number))
bodies = st.one_of(
    st.binary(max_size=100).map(lambda rest: b"\0" + rest),
    st.builds(lambda status, rest: bytes((status, 0, 0, 0)) + rest, st.integers(1, 15), small),
)
answers = st.builds(
    lambda op, sequence, body: (op | RESPONSE, sequence, body),
    st.sampled_from(REQUESTS),
    st.integers(1, 0xFFFF),
    bodies,
)
notes = st.builds(
    lambda op, numbers, rest: (op, 0, numbers + rest),
    st.sampled_from((Op.NOTE_PROGRESS, Op.NOTE_DONE, Op.NOTE_LOG)),
    st.tuples(small, small).map(b"".join),
    st.binary(max_size=100),
)
frames = st.one_of(answers, notes)

characters = st.one_of(
    st.characters(exclude_categories=["Cc", "Cs"]), st.sampled_from("\n\r\t\x1b\1")
)
text = st.text(characters, max_size=40).map(str.encode)
long_text = st.builds(lambda start, piece: start + piece * 100, text, text)
"""Longer than a frame: from a start byte on it is over-long."""
cuts = st.lists(st.integers(0, 4000), max_size=12)


def lone(words: bytes) -> bool:
    """Whether a frame's first byte ends a text and begins what looks like a frame in it."""
    return words.find(b"\1") == len(words) - 1 >= 0


class Scripted:
    """A transport that brings given bytes, in pieces cut at given places."""

    def __init__(self, stream: bytes, places: list[int]) -> None:
        ends = sorted({0, len(stream), *(place % (len(stream) + 1) for place in places)})
        self.pieces = deque(stream[start:end] for start, end in itertools.pairwise(ends))

    def read(self, timeout: float) -> bytes:
        return self.pieces.popleft() if self.pieces else b""

    def write(self, data: bytes, timeout: float) -> None: ...

    def close(self) -> None: ...


def heard(stream: bytes, places: list[int]) -> tuple[Exchange, list[Frame | FrameDamage], bytes]:
    """What a host makes of a stream: frames and damage, and the console's bytes."""
    console = bytearray()
    transport = Scripted(stream, places)
    exchange = Exchange(transport, deadline_s=1, retries=0, console=console.extend)
    items = []
    while transport.pieces:
        # A deadline that is over: what has come is all that there is.
        while (item := exchange.listen(exchange.now() + 0.001)) is not None:
            items.append(item)
    return exchange, items, bytes(console)


@given(st.lists(st.tuples(st.one_of(text, long_text), frames), max_size=12), cuts)
def test_any_text_between_frames_is_kept_in_order_and_costs_no_frame(
    pieces: list[tuple[bytes, tuple[int, int, bytes]]], places: list[int]
) -> None:
    stream = b"".join(words + encode_frame(*frame) for words, frame in pieces)
    exchange, items, console = heard(stream, places)
    assert [item for item in items if item is not FrameDamage.INCOMING] == [
        Frame(*f) for _, f in pieces
    ]
    assert console == b"".join(words for words, _ in pieces)
    seen = exchange.statistics
    assert (seen.skipped_bytes, seen.text_bytes) == (0, len(console))
    # A first byte directly before a frame may be what is left of one: it is shown, and counted.
    assert seen.corrupt.total() == sum(lone(words) for words, _ in pieces)


@given(st.binary(min_size=1, max_size=2000), st.integers(20, MIN_MTU - 30), st.lists(text), cuts)
def test_text_inside_a_chunk_that_is_streamed(
    image: bytes, step: int, words: list[bytes], places: list[int]
) -> None:
    parts = [
        encode_frame(
            Op.NOTE_LOG, 0, struct.pack("<IIII", 1, 0, len(image), at) + image[at : at + step]
        )
        for at in range(0, len(image), step)
    ]
    between = [*words, *[b""] * len(parts)]
    stream = b"".join(part + between[number] for number, part in enumerate(parts))
    # What begins like a frame is known to be none when the next one begins.
    _, items, console = heard(stream + encode_frame(Op.NOTE_DONE, 0, bytes(16)), places)
    logs = [messages.LogPart.parse(item.body) for item in items[:-1] if isinstance(item, Frame)]
    assert b"".join(part.data for part in logs) == image
    assert console == b"".join(words[: len(parts)])


@given(st.lists(st.tuples(text, frames, st.booleans(), st.integers(8, 10**6)), max_size=12), cuts)
def test_damaged_frames_among_text_are_counted(
    pieces: list[tuple[bytes, tuple[int, int, bytes], bool, int]], places: list[int]
) -> None:
    stream, damaged = b"", 0
    for words, frame, hit, bit in pieces:
        sent = bytearray(encode_frame(*frame))
        # Its first byte is what makes it a frame; behind it, any bit.
        place = 2 * 8 + bit % (8 * (len(sent) - 3))
        if hit:
            sent[place // 8] ^= 1 << place % 8
            damaged += 1
        stream += words + bytes(sent)
    exchange, items, _ = heard(stream, places)
    good = [Frame(*frame) for _, frame, hit, _ in pieces if not hit]
    assert [item for item in items if isinstance(item, Frame)] == good
    assert exchange.statistics.corrupt.total() >= damaged
    assert items.count(FrameDamage.INCOMING) == exchange.statistics.corrupt.total()


@given(frames, st.integers(0, 10**6), st.sampled_from(["flip", "lose", "cut"]))
def test_no_damaged_frame_is_taken_for_text(
    frame: tuple[int, int, bytes], place: int, how: str
) -> None:
    encoded = bytearray(encode_frame(*frame)[1:-1])
    at = 1 + place % (len(encoded) - 2)
    if how == "flip":
        encoded[at] ^= 1 << place % 8
    elif how == "lose":
        del encoded[at]
    else:
        del encoded[at + 1 :]
    # An inverted bit can end the frame early: what comes behind then is told by its own bytes.
    left = bytes(encoded).split(b"\0")[0]
    assert left == b"\1" or not link_frames.is_text(left)
    exchange, _, _ = heard(b"\0" + encoded + b"\0", [])
    assert exchange.statistics.corrupt.total() > 0
