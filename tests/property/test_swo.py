"""Logs in a recording of the SWO pin: packets as the Armv7-M manual has them (appendix D4)."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness import FormatError, Losses, Trace
from harness.decode.dumps import read_dumps
from tests.conftest import CommandResult
from tests.support.examples import examples
from tests.support.logs import CompactLog

Etharness = Callable[..., CommandResult]


def software(port: int, content: bytes) -> bytes:
    """A packet of a stimulus port: 1, 2 or 4 bytes."""
    return bytes([port << 3 | len(content).bit_length()]) + content


def continued(first: int, content: list[int]) -> bytes:
    """A header whose following bytes say, but for the last, that there is one more."""
    *others, last = content
    return bytes([first, *(byte | 0x80 for byte in others), last & 0x7F])


def sent(image: bytes, port: int) -> list[bytes]:
    """The packets of a log, as firmware writes it."""
    padded = image + bytes(-len(image) % 4) + zlib.crc32(image).to_bytes(4, "little")
    return [software(port, padded[at : at + 4]) for at in range(0, len(padded), 4)]


def bytes_of(size: int) -> st.SearchStrategy[bytes]:
    return st.binary(min_size=size, max_size=size)


def contents(most: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(0, 127), min_size=1, max_size=most)


SIZED = st.sampled_from([1, 2, 4]).flatmap(bytes_of)
OTHERS = st.one_of(
    st.builds(software, st.integers(8, 31), SIZED),
    st.builds(
        lambda source, content: bytes([software(source, content)[0] | 4]) + content,
        st.integers(0, 31),
        SIZED,
    ),
    st.integers(5, 9).map(lambda zeros: bytes(zeros) + b"\x80"),
    st.just(b"\x70"),
    st.integers(1, 6).map(lambda ticks: bytes([ticks << 4])),
    st.builds(continued, st.sampled_from([0xC0, 0xD0, 0xE0, 0xF0]), contents(4)),
    st.builds(continued, st.just(0x94), contents(4)),
    st.builds(continued, st.just(0xB4), contents(6)),
    st.integers(0, 7).map(lambda page: bytes([page << 4 | 8])),
    st.builds(continued, st.sampled_from([0x88, 0xFC]), contents(4)),
)
"""Packets of other ports, of the DWT and of the protocol."""


def logs(chunks: int, names: list[str]) -> list[bytes]:
    """The images of one log in chunks, of a block and two events each."""
    images = []
    for chunk in range(chunks):
        log = CompactLog().block("Execute")
        log.chunk, log.first_record = chunk, 3 * chunk
        for event in range(2):
            log.profile(names[event], 100 * chunk + event, 100 * chunk + event + 1)
        images.append(log.image())
    return images


@dataclass
class Recording:
    """Bytes of the pin, and where each log is in them."""

    data: bytearray = field(default_factory=bytearray)
    ends: list[int] = field(default_factory=list)


@st.composite
def recordings(draw: st.DrawFn) -> tuple[list[bytes], Recording]:
    names = [draw(st.text("abc", min_size=1, max_size=9)), "later"]
    images = logs(draw(st.integers(1, 4)), names)
    port, recording = draw(st.integers(0, 7)), Recording()
    packets = [sent(image, port) for image in images]
    others: dict[int, bytes] = {}
    places = st.integers(0, sum(map(len, packets)))
    for place, other in draw(st.lists(st.tuples(places, OTHERS), max_size=12)):
        others[place] = others.get(place, b"") + other
    place = 0
    for each in packets:
        for packet in each:
            recording.data += others.get(place, b"") + packet
            place += 1
        recording.ends.append(len(recording.data))
    recording.data += others.get(place, b"")
    return images, recording


def trace_of(data: bytes, *, salvage: bool = False) -> Trace:
    [dump] = read_dumps(data, salvage=salvage).dumps
    return dump.trace


@given(recordings())
@settings(max_examples=examples(100), suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_the_log_is_found_among_other_packets(case: tuple[list[bytes], Recording]) -> None:
    images, recording = case
    trace = trace_of(bytes(recording.data))
    assert trace == trace_of(b"".join(images))
    assert trace.losses == Losses()


@given(recordings(), st.data())
@settings(max_examples=examples(100), suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_what_is_lost_is_a_number_and_nothing_is_made_up(
    case: tuple[list[bytes], Recording], data: st.DataObject
) -> None:
    """Bytes that the probe did not record: the other logs are read, and count what is missing."""
    images, recording = case
    begin = data.draw(st.integers(0, len(recording.data) - 1))
    end = data.draw(st.integers(begin + 1, min(begin + 40, len(recording.data))))
    left = bytes(recording.data[:begin] + recording.data[end:])
    hurt = [
        number
        for number, (first, last) in enumerate(
            zip([0, *recording.ends], recording.ends, strict=False)
        )
        if begin < last and end > first
    ]
    whole = trace_of(b"".join(images))
    try:
        trace = trace_of(left, salvage=True)
    except FormatError:  # nothing is left
        assert len(hurt) == len(images)
        return
    assert set(trace.start.tolist()) <= set(whole.start.tolist())
    missing = len(whole) - len(trace)
    kept = [number for number in range(len(images)) if number not in hurt]
    assert missing <= 2 * len(hurt)
    assert all(100 * number in trace.start.tolist() for number in kept)
    losses = trace.losses
    if missing and kept and max(kept) > min(hurt):  # a later log says where it goes on
        assert losses.records >= missing or losses.chunks or losses.damaged


@given(recordings(), st.data())
@settings(max_examples=examples(200), suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_a_log_that_is_hurt_is_an_error(
    case: tuple[list[bytes], Recording], data: st.DataObject
) -> None:
    """Bytes that are lost or have a wrong bit: all is read, or nothing."""
    images, recording = case
    whole = trace_of(b"".join(images))
    hurt = bytearray(recording.data)
    begin = data.draw(st.integers(0, len(hurt) - 1))
    if data.draw(st.booleans()):
        hurt[begin] ^= 1 << data.draw(st.integers(0, 7))
    else:
        del hurt[begin : begin + data.draw(st.integers(1, 40))]
    try:
        trace = trace_of(bytes(hurt))
    except FormatError:
        return
    assert trace == whole


@given(st.data())
@settings(max_examples=examples(50), suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_logs_of_several_ports_may_be_interleaved(data: st.DataObject) -> None:
    images = tracers(data.draw(st.integers(2, 4)))
    waiting = [sent(image, 3 + 7 * port) for port, image in enumerate(images)]
    mixed = bytearray()
    while any(waiting):
        port = data.draw(st.sampled_from([port for port, left in enumerate(waiting) if left]))
        mixed += waiting[port].pop(0)
    trace, expected = trace_of(bytes(mixed)), trace_of(b"".join(images))
    assert sorted(trace.start.tolist()) == sorted(expected.start.tolist())
    assert trace.losses == Losses()


def tracers(count: int) -> list[bytes]:
    """The logs of several tracers."""
    images = []
    for tracer in range(count):
        log = CompactLog().block("Execute")
        log.tracer = tracer
        log.profile("work", 1000 * tracer, 1000 * tracer + 10)
        images.append(log.image())
    return images


FIRST_LOST = {
    "lost": lambda packet: b"\x70",
    "wrong bit": lambda packet: packet[:2] + bytes([packet[2] ^ 4]) + packet[3:],
    "other port": lambda packet: bytes([packet[0] ^ 0x20]) + packet[1:],
    "other size": lambda packet: bytes([packet[0] ^ 2]) + packet[1:],
    "hardware": lambda packet: bytes([packet[0] ^ 4]) + packet[1:],
}


@pytest.mark.parametrize("what", FIRST_LOST)
@pytest.mark.parametrize("port", [1, 2])
@pytest.mark.parametrize("place", ["first", "last"])
def test_a_log_without_its_first_packet_does_not_pass(
    what: str, port: int, place: str, tmp_path: Path, etharness: Etharness
) -> None:
    """On the port of the other log, and on one of its own."""
    whole, hurt = (sent(image, to) for image, to in zip(tracers(2), (1, port), strict=True))
    hurt[0] = FIRST_LOST[what](hurt[0])
    order = [hurt, whole] if place == "first" else [whole, hurt]
    path = tmp_path / "capture.swo"
    path.write_bytes(b"".join(packet for each in order for packet in each))
    for command in ("decode", "check"):
        refused = etharness(command, str(path))
        assert refused.code == 2
        assert "SWO" in refused.err
        assert "--salvage" in refused.err
    salvaged = etharness("check", str(path), "--salvage")
    assert salvaged.code == 1
    [dump] = read_dumps(path.read_bytes(), salvage=True).dumps
    assert dump.trace.losses.damaged >= 1


@pytest.mark.parametrize("lost", [2, 3, 8, 15])
def test_the_rest_of_the_only_log_of_a_port_is_known(lost: int) -> None:
    """Whose header is lost, too: by its records and names. Words of other software are not."""
    whole, hurt = tracers(2)
    data = b"".join(sent(whole, 1) + sent(hurt, 2)[lost:])
    with pytest.raises(FormatError, match="bytes of port 2 belong to no log: the packets that"):
        trace_of(data)
    assert trace_of(data, salvage=True).losses == Losses(damaged=1)
    pairs = b"".join(
        software(2, word.to_bytes(4, "little"))
        for sample in range(200)
        for word in (1000 * sample, sample % 8)
    )
    assert trace_of(b"".join(sent(whole, 1)) + pairs).losses == Losses()


def test_a_recording_that_begins_or_ends_in_a_log_does_not_pass() -> None:
    first, last = (b"".join(sent(image, 1)) for image in tracers(2))
    for cut in (1, 5, 33, len(first) - 9):
        with pytest.raises(FormatError, match=r"without its first packet|of port 1 belong to no"):
            trace_of(first[cut:] + last)
    for left in (1, 3, 5, 40, len(last) - 1):
        with pytest.raises(FormatError, match=r"is cut off|belong to no log"):
            trace_of(first + last[:left])


def test_what_is_no_log_is_said(caplog: pytest.LogCaptureFixture) -> None:
    [image] = tracers(1)
    text = b"".join(software(0, bytes([letter])) for letter in b"boot\n")
    words = b"".join(software(31, bytes([number] * 4)) for number in range(9))
    trace = trace_of(text + b"".join(sent(image, 1)) + b"\x70" + words)
    assert trace.losses == Losses()
    assert "overflows of the ITM: 1" in caplog.text
    assert "belong to no log: port 0: 5 bytes, port 31: 36 bytes" in caplog.text


def formatted(stream: bytes) -> bytes:
    """Frames of the TPIU, each with the number of the ITM first."""
    frames = bytearray()
    for at in range(0, len(stream), 14):
        piece = stream[at : at + 14].ljust(14, b"\0")
        frame, low = bytearray([1 << 1 | 1]), 0
        for place, byte in enumerate(piece, 1):
            if place % 2 == 0:
                low |= (byte & 1) << place // 2
                byte &= 0xFE
            frame.append(byte)
        frames += frame + bytes([low])
    return bytes(frames)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (formatted(b"".join(sent(tracers(1)[0], 1))), "with the formatter of the TPIU on"),
        (b"\xff\xff\xff\x7f" + formatted(b"".join(sent(tracers(1)[0], 1))), "-formatter off"),
        (software(0, b"h") * 60, "60 packets of software, but without a log"),
        (b"".join(sent(tracers(1)[0], 1)[9:]), "enable the stimulus port of the log"),
    ],
)
def test_a_recording_without_a_log_says_so(
    content: bytes, said: str, tmp_path: Path, etharness: Etharness
) -> None:
    path = tmp_path / "capture.swo"
    path.write_bytes(content)
    refused = etharness("decode", str(path))
    assert refused.code == 2
    assert "recording of the SWO pin" in refused.err
    assert "formatter" in refused.err
    assert said in refused.err


@pytest.mark.parametrize("content", [b"", b"no trace at all\n" * 90, bytes(900), b"\xff" * 900])
def test_another_file_is_not_taken_for_a_recording(content: bytes) -> None:
    with pytest.raises(FormatError, match="no ED00 identifier"):
        trace_of(content)


def test_a_recording_is_decoded_and_checked(tmp_path: Path, etharness: Etharness) -> None:
    images = logs(3, ["conv", "relu"])
    packets = [sent(image, 1) for image in images]
    path = tmp_path / "capture.swo"
    path.write_bytes(b"\x17junk\x70" + b"".join(packet for each in packets for packet in each))
    assert etharness("check", str(path), "--clock-hz", "1e6").code == 0
    packets[1][9] = b""
    path.write_bytes(b"".join(packet for each in packets for packet in each))
    refused = etharness("decode", str(path))
    assert refused.code == 2
    assert "capture.swo: a log has a wrong CRC-32 in SWO at byte 170" in refused.err
    assert "--salvage" in refused.err
    salvaged = etharness("decode", str(path), "--salvage")
    assert salvaged.code == 0
    assert "lost" in salvaged.out


@pytest.mark.parametrize(
    ("cut", "reason"),
    [
        (lambda data: data[:-3], "is cut off"),
        (lambda data: data[:50] + b"\x04" + data[50:], "is damaged at byte 50"),
        (lambda data: data[:50] + b"\x09X" + data[50:], "has another text of its port in it"),
        (lambda data: data[:16] + b"\xff" * 4 + data[20:], "has a damaged header"),
        (lambda data: data[:55] + b"\x70" + data[60:], r"is cut off \(overflows of the ITM: 1\)"),
    ],
)
def test_the_error_says_what_happened_to_a_log(cut: Callable[[bytes], bytes], reason: str) -> None:
    [image] = logs(1, ["conv", "relu"])
    data = b"".join(sent(image, 1))
    with pytest.raises(FormatError, match=reason):
        trace_of(cut(data))
