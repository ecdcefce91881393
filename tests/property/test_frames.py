"""The device's frame codec and the host's agree on every input."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.testing import (
    CorruptFrame,
    CorruptReason,
    Frame,
    FrameDecoder,
    Skipped,
    Text,
    encode_frame,
)
from harness.testing import frames as link_frames
from tests.firmware.test_frame_c import Decoder

_NOTHING, _TEXT, _GOOD = 0, 1, 2
_REASONS = [r.value for r in CorruptReason if r is not CorruptReason.BODY]
"""In the order of etd_frame_result, behind ETD_FRAME_GOOD."""

Event = tuple[object, ...]


def device_encode(library: ctypes.CDLL, type_: int, sequence: int, body: bytes) -> bytes:
    size = link_frames.OVERHEAD + len(body)
    header = bytes((0, type_)) + sequence.to_bytes(2, "little")
    payload = ctypes.create_string_buffer(header + body, size)
    out = ctypes.create_string_buffer(size + size // 254 + 3)
    length = library.etd_frame_encode(payload, size, out)
    return out.raw[:length]


def device_events(library: ctypes.CDLL, stream: bytes, mtu: int) -> list[Event]:
    capacity = link_frames.longest_encoded(mtu)
    buffer = ctypes.create_string_buffer(capacity)
    decoder = Decoder()
    library.etd_frame_decoder_init(ctypes.byref(decoder), buffer, capacity)
    decode, reference = library.etd_frame_decode, ctypes.byref(decoder)
    events: list[Event] = []
    for byte in stream:
        result = decode(reference, byte)
        if result == _TEXT:
            events.append(("text", bytes((byte,))))
        elif result == _GOOD:
            payload = buffer.raw[: decoder.size]
            sequence = int.from_bytes(payload[2:4], "little")
            events.append(("frame", payload[1], sequence, payload[4:-4]))
        elif result != _NOTHING:
            events.append(("corrupt", _REASONS[result - _GOOD - 1]))
    return merge_text(events)


def host_events(stream: bytes, mtu: int, cuts: Iterable[int]) -> list[Event]:
    decoder = FrameDecoder(mtu)
    places = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts)})
    events: list[Event] = []
    for start, end in itertools.pairwise(places):
        items = decoder.feed(stream[start:end])
        for one, other in itertools.pairwise(items):
            assert not (isinstance(one, Text) and isinstance(other, Text)), "text in two pieces"
        events += [_event(item) for item in items if not isinstance(item, Skipped)]
    return merge_text(events)


def _event(item: Frame | CorruptFrame | Text) -> Event:
    match item:
        case Text(data):
            return ("text", data)
        case Frame(type_, sequence, body):
            return ("frame", type_, sequence, body)
        case CorruptFrame(reason):
            return ("corrupt", reason.value)


def merge_text(events: Iterable[Event]) -> list[Event]:
    merged: list[Event] = []
    for event in events:
        if merged and event[0] == merged[-1][0] == "text":
            merged[-1] = ("text", merged[-1][1] + event[1])  # type: ignore[operator]
        else:
            merged.append(event)
    return merged


@pytest.fixture(scope="module")
def library(etstub: ctypes.CDLL) -> ctypes.CDLL:
    etstub.etd_frame_encode.restype = ctypes.c_uint32
    return etstub


# Runs around the length of a COBS block are where encoders differ.
runs = st.sampled_from([0, 1, 2, 252, 253, 254, 255, 507, 508, 509, 762])
run_bodies = st.lists(
    st.builds(lambda count, byte: bytes((byte,)) * count, runs, st.integers(1, 255)), max_size=4
).map(b"\0".join)
bodies = st.one_of(st.binary(max_size=80), st.binary(min_size=200, max_size=600), run_bodies)
frames = st.builds(encode_frame, st.integers(0, 255), st.integers(0, 0xFFFF), bodies)


@st.composite
def frames_and_mutants(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """A frame, and what a bad line made of it."""
    original = draw(frames)
    frame = bytearray(original)
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, max(0, len(frame) - 1)))
        match draw(st.sampled_from(["flip", "drop", "insert", "truncate"])):
            case "flip" if frame:
                frame[place] ^= 1 << draw(st.integers(0, 7))
            case "drop":
                del frame[place : place + draw(st.integers(1, 4))]
            case "insert":
                frame[place:place] = draw(st.binary(min_size=1, max_size=4))
            case "truncate":
                del frame[place:]
    return original, bytes(frame)


mutants = frames_and_mutants().map(lambda pair: pair[1])
text = st.text(alphabet=st.characters(codec="ascii"), max_size=40).map(str.encode)
crafted = st.binary(max_size=20).map(lambda inner: b"\0\1" + inner + b"\0")
streams = st.lists(st.one_of(frames, mutants, text, crafted, st.binary(max_size=30))).map(b"".join)
mtus = st.one_of(st.integers(8, 300), st.just(1024))
cuts = st.lists(st.integers(0, 5000), max_size=12)


@given(st.integers(0, 255), st.integers(0, 0xFFFF), bodies)
def test_both_encode_alike(library: ctypes.CDLL, type_: int, sequence: int, body: bytes) -> None:
    encoded = encode_frame(type_, sequence, body)
    assert encoded == device_encode(library, type_, sequence, body)
    assert encoded[0] == encoded[-1] == 0
    assert 0 not in encoded[1:-1]
    assert len(encoded) - 2 <= link_frames.longest_encoded(link_frames.OVERHEAD + len(body))


@given(streams, mtus, cuts)
def test_both_decode_alike(library: ctypes.CDLL, stream: bytes, mtu: int, cuts: list[int]) -> None:
    assert host_events(stream, mtu, cuts) == device_events(library, stream, mtu)


@given(st.binary(max_size=2000), mtus, cuts)
def test_both_decode_noise_alike(
    library: ctypes.CDLL, stream: bytes, mtu: int, cuts: list[int]
) -> None:
    assert host_events(stream, mtu, cuts) == device_events(library, stream, mtu)


@given(st.lists(frames_and_mutants(), max_size=6), cuts)
def test_nothing_is_accepted_that_was_not_sent(
    pairs: list[tuple[bytes, bytes]], cuts: list[int]
) -> None:
    sent = host_events(b"".join(original for original, _ in pairs), 4096, ())
    for event in host_events(b"".join(mutant for _, mutant in pairs), 4096, cuts):
        assert event[0] != "frame" or event in sent


@given(
    st.lists(st.tuples(text.map(lambda t: t.replace(b"\1", b"").replace(b"\0", b"")), frames)), cuts
)
def test_text_between_frames_reaches_the_console_whole(
    pieces: list[tuple[bytes, bytes]], cuts: list[int]
) -> None:
    events = host_events(b"".join(t + f for t, f in pieces), 4096, cuts)
    assert b"".join(e[1] for e in events if e[0] == "text") == b"".join(t for t, _ in pieces)  # type: ignore[misc]
    assert sum(e[0] == "frame" for e in events) == len(pieces)
