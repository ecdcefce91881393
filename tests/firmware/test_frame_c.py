"""The C frame codec and digests against independent implementations."""

from __future__ import annotations

import ctypes as ct
import hashlib
import zlib
from enum import IntEnum

import pytest
from cobs import cobs
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.mirrors import mirrors

MTU = 300
SOH = 1


class Result(IntEnum):
    """etd_frame_result."""

    NOTHING = 0
    TEXT = 1
    GOOD = 2
    TOO_LONG = 3
    BAD_COBS = 4
    TOO_SHORT = 5
    BAD_MARKER = 6
    BAD_CRC = 7


@mirrors("etd_frame.h", "etd_frame_decoder")
class Decoder(ct.Structure):
    _fields_ = [
        ("payload", ct.c_void_p),
        ("capacity", ct.c_uint32),
        ("size", ct.c_uint32),
        ("state", ct.c_uint8),
    ]


@mirrors("etd_sha256.h", "etd_sha256")
class Sha256(ct.Structure):
    _fields_ = [
        ("state", ct.c_uint32 * 8),
        ("length", ct.c_uint64),
        ("block", ct.c_uint8 * 64),
    ]


def longest_encoded(mtu: int) -> int:
    return mtu + mtu // 254 + 1


def encode(library: ct.CDLL, payload: bytes) -> bytes:
    """Frame a payload, whose last four bytes the codec fills."""
    size = len(payload) + 4
    buffer = (ct.c_uint8 * size)(*payload)
    out = (ct.c_uint8 * (size + size // 254 + 3))()
    library.etd_frame_encode.restype = ct.c_uint32
    length = library.etd_frame_encode(buffer, size, out)
    assert length <= len(out)
    return bytes(out[:length])


def decode(library: ct.CDLL, stream: bytes, mtu: int = MTU) -> list[tuple[Result, bytes]]:
    """What the C decoder makes of a stream: text bytes, payloads and rejections."""
    capacity = longest_encoded(mtu)
    buffer = (ct.c_uint8 * capacity)()
    decoder = Decoder()
    library.etd_frame_decoder_init(ct.byref(decoder), buffer, capacity)
    found = []
    for byte in stream:
        result = Result(library.etd_frame_decode(ct.byref(decoder), byte))
        if result == Result.TEXT:
            found.append((result, bytes((byte,))))
        elif result == Result.GOOD:
            found.append((result, bytes(buffer[: decoder.size])))
        elif result != Result.NOTHING:
            found.append((result, b""))
    return found


def judge(encoded: bytes) -> tuple[Result, bytes]:
    """What docs/protocol.md says of a frame that is not too long."""
    try:
        payload = cobs.decode(encoded)
    except cobs.DecodeError:
        return Result.BAD_COBS, b""
    if len(payload) < 8:
        return Result.TOO_SHORT, b""
    if payload[0] != 0:
        return Result.BAD_MARKER, b""
    if zlib.crc32(payload[:-4]) != int.from_bytes(payload[-4:], "little"):
        return Result.BAD_CRC, b""
    return Result.GOOD, payload


def expect(stream: bytes, mtu: int = MTU) -> list[tuple[Result, bytes]]:
    """The same as `decode`, by another way: piece by piece between zeros."""
    found = []
    *pieces, rest = stream.split(b"\0")
    for number, piece in enumerate([*pieces, rest]):
        text, start, frame = piece.partition(bytes((SOH,)))
        found += [(Result.TEXT, bytes((byte,))) for byte in text]
        encoded = start + frame
        if len(encoded) > longest_encoded(mtu):
            found.append((Result.TOO_LONG, b""))
        elif encoded and number < len(pieces):
            found.append(judge(encoded))
    return found


PIECE = st.one_of(
    st.binary(max_size=40),
    st.lists(st.sampled_from(b"\0\1\2\3a\xff"), max_size=40).map(bytes),
    st.binary(max_size=60).map(lambda body: b"\0" + framed(b"\0" + body) + b"\0"),
    st.integers(250, 2 * MTU).map(lambda size: b"\1" + b"\xff" * size),
    st.integers(1, MTU - 4).map(lambda size: b"\0" + framed(bytes(size)) + b"\0"),
    st.integers(1, MTU).map(lambda size: b"\0" + framed(b"\0" + b"x" * size) + b"\0"),
)


def framed(payload: bytes) -> bytes:
    return cobs.encode(payload + zlib.crc32(payload).to_bytes(4, "little"))


@given(st.lists(PIECE, max_size=8).map(b"".join))
@settings(max_examples=examples(300), deadline=None)
def test_any_stream_is_read_as_the_protocol_says(etstub: ct.CDLL, stream: bytes) -> None:
    assert decode(etstub, stream) == expect(stream)


@pytest.mark.parametrize("bit", range(32))
def test_every_bit_of_the_crc_counts(etstub: ct.CDLL, bit: int) -> None:
    payload = b"\0\x02\x34\x12" + b"body"
    crc = (zlib.crc32(payload) ^ 1 << bit).to_bytes(4, "little")
    stream = b"\0" + cobs.encode(payload + crc) + b"\0"
    assert decode(etstub, stream) == [(Result.BAD_CRC, b"")]


@given(st.binary(max_size=1100) | st.integers(0, 1100).map(lambda size: b"x" * size))
@settings(max_examples=examples(200), deadline=None)
def test_encoding_is_standard_cobs_over_zlibs_crc(etstub: ct.CDLL, body: bytes) -> None:
    payload = b"\0" + body
    encoded = encode(etstub, payload)
    assert encoded == b"\0" + framed(payload) + b"\0"
    if len(body) >= 3:
        (only,) = decode(etstub, encoded, mtu=len(payload) + 4)
        assert only == (Result.GOOD, payload + zlib.crc32(payload).to_bytes(4, "little"))


def test_frames_at_the_edges_of_full_blocks_come_back(etstub: ct.CDLL) -> None:
    for size in range(240, 260):
        for filler in (b"x", b"\0"):
            payload = b"\0" + filler * size
            encoded = encode(etstub, payload)
            assert encoded == b"\0" + framed(payload) + b"\0"
            ((result, found),) = decode(etstub, encoded, mtu=size + 5)
            assert (result, found[:-4]) == (Result.GOOD, payload)


@given(st.lists(st.binary(max_size=200), max_size=5))
@settings(deadline=None)
def test_crc_and_sha_continue_over_pieces(etstub: ct.CDLL, pieces: list[bytes]) -> None:
    etstub.etd_crc32.restype = ct.c_uint32
    crc, sha, digest = 0, Sha256(), (ct.c_uint8 * 32)()
    etstub.etd_sha256_init(ct.byref(sha))
    for piece in pieces:
        crc = etstub.etd_crc32(ct.c_uint32(crc), piece, len(piece))
        etstub.etd_sha256_update(ct.byref(sha), piece, len(piece))
    etstub.etd_sha256_final(ct.byref(sha), digest)
    assert crc == zlib.crc32(b"".join(pieces))
    assert bytes(digest) == hashlib.sha256(b"".join(pieces)).digest()
