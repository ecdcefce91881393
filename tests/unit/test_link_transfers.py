"""Uploads and downloads: the line stays full, and what is lost comes again."""

from __future__ import annotations

import struct

import pytest

from harness import LinkError, Region, Session
from harness.link.transfers import MissingRanges
from harness.testing import RESPONSE, CorruptReason, Frame, Op, Status, encode_frame
from harness.testing.simulated_board import (
    MODEL_MAGIC,
    Behaviour,
    SimulatedBoard,
    VirtualClock,
    output_of,
    trace_of,
)
from tests.unit.test_link_run import Bench, first

MODEL = MODEL_MAGIC + bytes(range(256)) * 64


def slow_line(**more: object) -> tuple[VirtualClock, SimulatedBoard, Session]:
    """921 600 baud with the 16 ms round trip of a common USB adapter."""
    clock = VirtualClock()
    behaviour = {"mtu": 1024, "latency_s": 0.008, "bytes_per_s": 92_160.0, "trace_size": 200_000}
    device = SimulatedBoard(clock, Behaviour(**(behaviour | more)))  # type: ignore[arg-type]
    session = Session(device, clock_ns=clock, seed=1)
    session.hello(5)
    return clock, device, session


def test_a_download_keeps_the_line_full() -> None:
    clock, _, session = slow_line()
    session.load_model(MODEL)
    session.run(1, timeout_s=5)
    began = clock.now
    trace = session.read(Region.TRACE)
    ideal = len(trace) / 92_160
    assert clock.now - began < 1.06 * ideal


def test_an_upload_keeps_the_line_full() -> None:
    clock, _, session = slow_line()
    data = MODEL_MAGIC + bytes(200_000)
    began = clock.now
    session.load_model(data)
    assert clock.now - began < 1.2 * len(data) / 92_160


def test_a_window_of_one_frame_works_too() -> None:
    _, _, session = slow_line(trace_size=5000)
    session.load_model(MODEL)
    session.run(1, timeout_s=5)
    assert session.read(Region.TRACE, window=1) == trace_of(MODEL, 1, 5000)


def test_a_device_that_cannot_hear_while_it_sends_is_asked_when_silent() -> None:
    clock, _, session = slow_line(deaf_while_sending=True)
    session.load_model(MODEL)
    session.run(1, timeout_s=5)
    began = clock.now
    assert session.read(Region.TRACE) == trace_of(MODEL, 1, 200_000)
    assert clock.now - began < 200_000 / 92_160 + 3, "one stall to learn it, not one per window"


def test_a_frame_that_damage_divides_in_two_is_no_sign_of_deafness() -> None:
    clock, device, session = slow_line()
    session.load_model(MODEL)
    session.run(1, timeout_s=5)
    reads, whole = 0, device.write

    def write(data: bytes, timeout: float) -> None:
        nonlocal reads
        reads += data[3] == Op.READ
        divided = data[3] == Op.READ and reads == 4
        whole(data[:8] + b"\0\1" + data[10:] if divided else data, timeout)

    device.write = write  # type: ignore[method-assign]
    began = clock.now
    trace = session.read(Region.TRACE)
    assert session.statistics.damage_notes == 2
    assert clock.now - began < 1.08 * len(trace) / 92_160, "it is still asked ahead of time"


def test_an_empty_region() -> None:
    _, _, session = slow_line(trace_size=0)
    session.load_model(MODEL)
    session.run(1, timeout_s=5)
    assert session.read(Region.TRACE) == b""
    assert session.statistics.stale_answers == 0


def every(nth: int, type_: int) -> object:
    """Lose each ``nth`` frame of a type."""
    count = 0

    def lose(frame: Frame) -> bool:
        nonlocal count
        count += frame.type == type_
        return frame.type == type_ and count % nth == 0

    return lose


def test_holes_in_a_download_are_asked_for_again() -> None:
    bench = Bench(trace_size=20_000)
    bench.session.run(1, timeout_s=5)
    bench.line.lose_from = every(4, Op.READ | RESPONSE)  # type: ignore[assignment]
    steps: list[int] = []
    trace = bench.session.read(Region.TRACE, progress=lambda done, _: steps.append(done))
    assert trace == trace_of(MODEL_MAGIC + b"model", 1, 20_000)
    assert bench.session.statistics.holes >= 10
    assert steps == sorted(steps)
    assert steps[-1] == 20_000


def test_lost_reads_are_sent_again() -> None:
    bench = Bench(trace_size=50_000)
    bench.session.run(1, timeout_s=5)
    bench.line.lose_to = every(2, Op.READ)  # type: ignore[assignment]
    assert bench.session.read(Region.TRACE) == trace_of(MODEL_MAGIC + b"model", 1, 50_000)


def test_a_download_that_stops_is_given_up_with_figures() -> None:
    bench = Bench(trace_size=20_000)
    bench.session.run(1, timeout_s=5)
    bench.line.lose_from = lambda frame: frame.type == Op.READ | RESPONSE
    with pytest.raises(
        LinkError, match="download of TRACE 0 stopped with 20000 of 20000 bytes missing, tried 5"
    ):
        bench.session.read(Region.TRACE)


@pytest.mark.attack(
    "Link and servers", "data with a correct CRC and a wrong digest", "read again; never accepted"
)
def test_a_wrong_digest_is_never_accepted() -> None:
    bench = Bench()
    bench.session.run(1, timeout_s=5)
    honest = bench.device._readable
    lies = [0]

    def lie(region: int, index: int) -> bytes:
        data = honest(region, index)
        lies[0] += 1
        return data[:-1] + bytes((data[-1] ^ lies[0] & 0xFF,))

    bench.device._readable = lie  # type: ignore[method-assign]
    with pytest.raises(LinkError, match="TRACE 0 had a wrong digest in all 3 attempts"):
        bench.session.read(Region.TRACE)
    assert bench.session.statistics.digest_mismatches == 3


def test_parts_of_another_region_are_not_taken() -> None:
    bench = Bench(trace_size=600)
    bench.session.set_input(0, bytes(1960))
    bench.session.run(1, timeout_s=5)
    # As a line that echoes old frames might: the right type, but nobody's sequence number.
    bench.device.say(
        encode_frame(Op.READ | RESPONSE, 0, bytes((0, Region.OUTPUT, 0, 0, 0, 0, 0, 0)) + b"x")
    )
    assert bench.session.read(Region.OUTPUT) == output_of(bytes(1960))
    assert bench.session.statistics.stale_answers == 1


@pytest.mark.parametrize(
    "header",
    [
        struct.pack("<BBBxI", 0, Region.OUTPUT, 0, 0),
        struct.pack("<BBBxI", 0, Region.TRACE, 1, 0),
        struct.pack("<BBBxI", 0, Region.TRACE, 0, 599),
        b"",
    ],
)
def test_parts_that_do_not_fit_are_counted_and_dropped(header: bytes) -> None:
    bench = Bench(trace_size=600)
    bench.session.run(1, timeout_s=5)
    send_part, lies = bench.device._send_part, [header + b"xx"]

    def lie_first() -> None:
        if lies:
            sequence = bench.device._streams[0][4]
            bench.device.say(encode_frame(Op.READ | RESPONSE, sequence, lies.pop()))
        send_part()

    bench.device._send_part = lie_first  # type: ignore[method-assign]
    assert bench.session.read(Region.TRACE) == trace_of(MODEL_MAGIC + b"model", 1, 600)
    assert bench.session.statistics.corrupt[CorruptReason.BODY] == 1


@pytest.mark.parametrize("body", [b"\0\0\0\0\xff\xff\0\0", b"\0\0"])
def test_answers_to_writes_that_make_no_sense_are_counted(body: bytes) -> None:
    bench = Bench()
    write = bench.device._write

    def lie_first(frame: Frame) -> None:
        bench.device.say(encode_frame(Op.WRITE | RESPONSE, frame.sequence, body))
        write(frame)

    bench.device._write = lie_first  # type: ignore[method-assign]
    bench.session.load_model(MODEL)
    assert bench.device.model == MODEL
    assert bench.session.statistics.corrupt[CorruptReason.BODY] > 1


def test_lost_writes_are_sent_again_from_the_gap() -> None:
    bench = Bench()
    bench.line.lose_to = every(5, Op.WRITE)  # type: ignore[assignment]
    bench.session.load_model(MODEL)
    assert bench.device.model == MODEL
    assert bench.session.statistics.resent
    assert bench.clock.now < 1, "a GAP says at once what is missing"


def test_lost_answers_to_writes_do_not_matter() -> None:
    bench = Bench()
    bench.line.lose_from = every(2, Op.WRITE | RESPONSE)  # type: ignore[assignment]
    bench.session.load_model(MODEL)
    assert bench.device.model == MODEL


def test_an_upload_damaged_past_the_crc_is_sent_again() -> None:
    bench = Bench()
    commit = bench.device._commit
    refused = [3]  # the first is about the model that the device holds

    def refuse(frame: Frame) -> None:
        if refused[0]:
            refused[0] -= 1
            bench.device._refuse(frame, Status.DIGEST_MISMATCH)
        else:
            commit(frame)

    bench.device._commit = refuse  # type: ignore[method-assign]
    bench.session.load_model(MODEL)
    assert bench.device.model == MODEL
    assert bench.session.statistics.digest_mismatches == 2
    refused[0] = 99
    with pytest.raises(LinkError, match="MODEL 0 arrived damaged in all 5 attempts"):
        bench.session.load_model(MODEL)


def test_an_upload_that_gets_nowhere_is_given_up_with_figures() -> None:
    bench = Bench()
    bench.line.lose_to = lambda frame: frame.type == Op.WRITE and bench.device._next() > 3000
    with pytest.raises(
        LinkError, match=r"upload of MODEL 0 stopped at byte 4\d+ of 16388, tried 5"
    ):
        bench.session.load_model(MODEL)


def test_a_slow_commit_is_not_asked_for_again_and_again() -> None:
    bench = Bench()
    bench.line.lose_from = first(2, Op.COMMIT | RESPONSE)
    bench.session.load_model(MODEL)
    assert bench.clock.now == pytest.approx(2 + 4, abs=0.1)


def test_missing_ranges() -> None:
    missing = MissingRanges(100)
    assert missing.remove(20, 40) == 20
    assert missing.remove(30, 50) == 10
    assert missing.first() == (0, 20)
    assert missing.remove(0, 20) == 20
    assert missing.first() == (50, 100)
    assert missing.count == 50
    assert missing.remove(0, 100) == 50
    assert not missing.count
    assert not MissingRanges(0).count
