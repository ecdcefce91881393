"""The device's log: what it means, and how each inconsistency is named."""

from __future__ import annotations

import struct
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from harness import (
    NO_NAME,
    Block,
    ClockDomain,
    Damage,
    FormatError,
    Kind,
    Losses,
    left_out,
    read_log,
)
from harness.testing import device_log_format as fmt
from tests.support.logs import CompactLog

CLOCK = ClockDomain("systick", Fraction(25_000_000), 24, down=True)
HEADER, RECORD = fmt.HEADER_SIZE, fmt.RECORD_SIZE


def test_an_empty_log_is_an_empty_trace() -> None:
    trace = read_log(CompactLog().image())
    assert len(trace) == 0
    assert trace.blocks == ()
    assert not trace.losses.any


def test_every_field_of_every_record() -> None:
    log = CompactLog().allocator("method").block("Default", 7)
    log.allocation(1, 4096, tick=99, offset=16)
    log.profile("Method::init", 10, 20, chain=-1, instruction=3)
    log.profile(None, 0xFFFFFFFF, 0, chain=-40_000, instruction=0xFFFFFFFE)
    log.allocation(1, -5, failed=True)
    log.dropped_events, log.dropped_blocks, log.filtered_events = 2, 1, 3
    trace = read_log(log.image(), [CLOCK])

    assert trace.blocks == (Block("Default", 0, 4, 7, ("method",)),)
    assert trace.losses == Losses(events=2, blocks=1)
    assert trace.filtered_events == left_out(trace).filtered_on_target == 3
    assert trace.clocks == (CLOCK,)
    assert trace.kind.tolist() == [Kind.ALLOCATION, Kind.PROFILE, Kind.PROFILE, Kind.ALLOCATION]
    assert [trace.text(index) for index in trace.name] == [None, "Method::init", None, None]
    assert trace.start.tolist() == [99, 10, 0xFFFFFFFF, 0]
    assert trace.end.tolist() == [99, 20, 0, 0]
    assert trace.chain.tolist() == [-1, -1, -40_000, -1]
    # ExecuTorch puts the unsigned handle into an int32.
    assert trace.instruction.tolist() == [-1, 3, -2, -1]
    assert trace.allocator.tolist() == [1, -1, -1, 1]
    assert trace.size.tolist() == [4096, 0, 0, -5]
    assert trace.offset.tolist() == [16, -1, -1, -1]
    assert trace.failed.tolist() == [False, False, False, True]
    assert trace.clock.tolist() == [0, 0, 0, 0]
    with pytest.raises(ValueError, match="read-only"):
        trace.start[0] = 1


def test_names_may_be_any_bytes() -> None:
    trace = read_log(CompactLog().block(b"\xff").profile(b"a\xfe", 0, 1).image())
    assert trace.blocks[0].name == "\udcff"
    assert trace.text(int(trace.name[0])) == "a\udcfe"


def test_events_before_the_first_block_get_an_implicit_one() -> None:
    log = CompactLog().profile("a", 0, 1).block("Execute").profile("b", 1, 2)
    assert read_log(log.image()).blocks == (Block("", 0, 1), Block("Execute", 1, 1))


def test_empty_blocks_are_kept() -> None:
    blocks = read_log(CompactLog().block("a").block("b").block("a").image()).blocks
    assert blocks == (Block("a", 0, 0), Block("b", 0, 0), Block("a", 0, 0))


def test_an_allocator_stays_resolvable_in_later_blocks() -> None:
    log = CompactLog().block("Default").allocator("method").allocation(1, 10)
    log.block("Execute").allocator("temp").allocation(1, 20).allocation(2, 30)
    trace = read_log(log.image())
    assert [block.allocators for block in trace.blocks] == [("method",), ("method", "temp")]
    assert trace.blocks[1].allocators[trace.allocator[2] - 1] == "temp"


def test_allocators_declared_outside_any_block_are_not_lost() -> None:
    assert read_log(CompactLog().allocator("a").image()).blocks == (
        Block("", 0, 0, allocators=("a",)),
    )
    trace = read_log(CompactLog().allocator("a").block("Execute").image())
    assert trace.blocks == (Block("Execute", 0, 0, allocators=("a",)),)


def test_wider_clocks_have_32_bits_in_the_log() -> None:
    wide = ClockDomain("ns", Fraction(10**9), 64)
    trace = read_log(CompactLog().profile("a", 0, 1).image(), [CLOCK, wide])
    assert [clock.bits for clock in trace.clocks] == [24, 32]


def test_clocks_nobody_described_have_no_rate() -> None:
    trace = read_log(CompactLog().profile("a", 0, 1, clock=2).image())
    assert [clock.hz for clock in trace.clocks] == [None] * 3
    assert trace.clock.tolist() == [2]


def test_repeats_of_one_event_are_all_kept() -> None:
    log = CompactLog().block("Execute")
    for start in (0, 100, 200):
        log.profile("body", start, start + 10, instruction=5)
    trace = read_log(log.image())
    assert trace.start.tolist() == [0, 100, 200]
    assert len(set(trace.name.tolist())) == 1 != NO_NAME


def patch(offset: int, layout: str, *values: int) -> Callable[[bytearray], None]:
    return lambda image: struct.pack_into(layout, image, offset, *values)


def record(number: int, within: int) -> int:
    return HEADER + RECORD * number + within


# A log of records 0 BLOCK, 1 ALLOCATOR, 2 ALLOCATION, 3 WIDE, 4 PROFILE, and names.
DAMAGES = {
    "magic": (patch(0, "<I", 0), 0, "magic"),
    "version": (patch(4, "<B", 1), 4, "version"),
    "record size": (patch(5, "<B", 12), 5, "record size"),
    "header size": (patch(6, "<H", 36), 6, "header size"),
    "flags": (patch(8, "<I", 2), 8, "flags"),
    "copies": (patch(record(0, 1), "<B", 1), record(0, 1), "flags"),
    "first record": (patch(48, "<I", 1), 48, "first record"),
    "fewer names": (patch(16, "<H", 1), record(5, 3), "names"),
    "more names": (patch(16, "<H", 6), None, "name 2"),
    "record kind": (patch(record(2, 0), "<B", 13), record(2, 0), "kind"),
    "block name": (patch(record(0, 2), "<H", 5), record(0, 2), "BLOCK name"),
    "block reserved": (patch(record(0, 12), "<I", 1), record(0, 12), "BLOCK reserved"),
    "allocator id": (patch(record(1, 4), "<I", 2), record(1, 4), "ALLOCATOR id"),
    "undeclared": (patch(record(2, 2), "<H", 2), record(2, 2), "ALLOCATION allocator"),
    "allocator 0": (patch(record(2, 2), "<H", 0), record(2, 2), "ALLOCATION allocator"),
    "allocation flags": (patch(record(2, 1), "<B", 2), record(2, 1), "ALLOCATION flags"),
    "wide alone": (patch(record(4, 0), "<BB6xII", 2, 0, 0, 0), record(3, 0), "WIDE"),
    "clock": (patch(record(4, 1), "<B", 1), record(4, 1), "PROFILE clock"),
    "name": (patch(record(4, 2), "<H", 0xFFFE), record(4, 2), "PROFILE name"),
    "too many records": (patch(12, "<I", 0xFFFFFFFF), None, "records or names"),
}


def small_log() -> CompactLog:
    log = CompactLog().block("aa").allocator("bb").allocation(1, 1)
    return log.profile("cc", 0, 1, chain=-1, instruction=2**16)


@pytest.mark.parametrize("damage", DAMAGES)
def test_an_inconsistency_is_named(damage: str) -> None:
    change, offset, field = DAMAGES[damage]
    image = bytearray(small_log().image())
    change(image)
    with pytest.raises(FormatError) as caught:
        read_log(bytes(image), [CLOCK])
    assert caught.value.field == field
    assert offset is None or caught.value.offset == offset
    assert str(caught.value.offset) in str(caught.value)


def test_a_wide_record_at_the_end_is_named() -> None:
    log = small_log()
    log.records.pop()
    with pytest.raises(FormatError, match="no event follows"):
        read_log(log.image())


# A log of records 0 WIDE, 1 DELEGATE, 2 and 3 its metadata, 4 PROFILE.
DELEGATE_DAMAGES = {
    "flags": (patch(record(1, 1), "<B", 3), record(1, 1), "DELEGATE flags"),
    "no metadata": (patch(record(1, 1), "<B", 0), record(1, 8), "DELEGATE length"),
    "name": (patch(record(1, 2), "<H", 1), record(1, 2), "DELEGATE name"),
    "reserved": (patch(record(1, 12), "<I", 1), record(1, 12), "DELEGATE reserved"),
    "longer": (patch(record(1, 8), "<I", 33), record(1, 0), "DELEGATE"),
    "endless": (patch(record(1, 8), "<I", 0xFFFFFFFF), record(1, 8), "DELEGATE length"),
    "shorter": (patch(record(1, 8), "<I", 16), record(3, 0), "kind"),
    "wide alone": (
        patch(record(1, 0), "<B", fmt.Record.PROFILE),
        record(1, 12),
        None,
    ),
}


@pytest.mark.parametrize("damage", DELEGATE_DAMAGES)
def test_an_inconsistent_delegate_is_named(damage: str) -> None:
    change, offset, field = DELEGATE_DAMAGES[damage]
    log = CompactLog().delegate("npu", 1, b"\xfe" * 20)
    image = bytearray(log.profile(None, 0, 1, chain=70_000).image())
    change(image)
    with pytest.raises(FormatError) as caught:
        read_log(bytes(image), [CLOCK])
    if field is not None:
        assert (caught.value.field, caught.value.offset) == (field, offset)


def test_delegates_and_their_clocks() -> None:
    npu = ClockDomain("npu", Fraction(1_000_000), 24)
    log = CompactLog().block("Execute")
    log.delegate("conv", metadata=b"").profile(None, 1, 2, clock=1)
    log.delegate(None, 7, b"\x06\x01" * 9).profile(None, 3, 4, chain=70_000)
    log.delegate(None, -2).profile("a", 5, 6)
    trace = read_log(log.profile("b", 7, 8).image(), [CLOCK, npu])
    assert trace.delegate_int.tolist() == [-1, 7, -2, -1]
    assert [trace.text(i) for i in trace.delegate_str] == ["conv", None, None, None]
    assert [trace.text(i) for i in trace.name] == [None, None, "a", "b"]
    assert [trace.metadata_of(row) for row in range(4)] == [b"", b"\x06\x01" * 9, None, None]
    assert trace.clock.tolist() == [1, 0, 0, 0]
    assert trace.chain.tolist() == [0, 70_000, 0, 0]
    assert trace.start.tolist() == [1, 3, 5, 7]


def test_metadata_may_look_like_any_record() -> None:
    inner = CompactLog().delegate(None, 1, bytes(100)).profile("x", 1, 2).records
    metadata = b"".join(inner)
    log = CompactLog().delegate(None, 5, metadata).profile(None, 3, 4)
    trace = read_log(log.image())
    assert (trace.delegate_int.tolist(), trace.metadata_of(0)) == ([5], metadata)


def test_trailing_bytes_are_named() -> None:
    image = small_log().image()
    with pytest.raises(FormatError, match="3 trailing bytes") as caught:
        read_log(image + b"abc")
    assert caught.value.offset == len(image)


def test_a_large_log_is_decoded_without_a_loop() -> None:
    log = CompactLog().profile("a", 1, 2)
    log.records *= 300_000
    trace = read_log(log.image())
    assert len(trace) == 300_000
    assert np.all(trace.end == 2)


def chunked() -> list[bytes]:
    """Three chunks of one tracer, of two events each."""
    images = []
    for number in range(3):
        log = CompactLog()
        log.names = [b"Execute", b"first", b"second"]
        log.chunk, log.first_record = number, 3 * number
        log.block("Execute")
        log.profile("first", 2 * number, 2 * number + 1).profile("second", 9, 10)
        images.append(log.image())
    return images


def test_the_chunks_around_a_damaged_one_are_salvaged() -> None:
    first, second, third = chunked()
    whole = read_log(first + second + third)
    assert whole.start.tolist() == [0, 9, 2, 9, 4, 9]
    damage: list[Damage] = []
    broken = bytearray(second)
    broken[HEADER + 2 * RECORD] = 0x77  # no kind of record
    trace = read_log(first + bytes(broken) + third, (), damage)
    assert trace.start.tolist() == [0, 9, 2, 4, 9]
    assert trace.losses.records == 1
    assert any("left out" in item.reason for item in damage)
    assert all(item.offset is not None and item.offset >= len(first) for item in damage)


def test_a_chunk_that_was_cut_off_has_the_names_of_earlier_ones() -> None:
    first, second, third = chunked()
    damage: list[Damage] = []
    names = third.index(b"\x06second")
    trace = read_log(first + second + third[:names], (), damage)
    assert [trace.text(name) for name in trace.name] == ["first", "second"] * 3
    assert "truncated" in damage[0].reason


def test_a_log_that_was_cut_off_keeps_events_whose_names_are_there() -> None:
    [image, *_] = chunked()
    damage: list[Damage] = []
    cut = image.index(b"\x05first")  # the newest name, "second", stands before it
    trace = read_log(image[:cut], (), damage)
    assert [trace.text(name) for name in trace.name] == ["second"]
    assert [(block.name, block.count) for block in trace.blocks] == [("", 1)]
    assert damage[-1].events == 1


@pytest.mark.parametrize(
    ("order", "why"), [((0, 0), "is duplicated"), ((0, 2, 1), ""), ((1, 2), "")]
)
def test_chunks_that_contradict_others_are_left_out(order: tuple[int, ...], why: str) -> None:
    images = chunked()
    damage: list[Damage] = []
    trace = read_log(b"".join(images[number] for number in order), (), damage)
    assert len(trace) == 2 * len(set(order))
    assert [why in item.reason for item in damage] == ([True] if why else [])


def test_rubbish_between_chunks_is_left_out() -> None:
    first, second, third = chunked()
    damage: list[Damage] = []
    trace = read_log(
        first + b"rubbish" + second + fmt.MAGIC.to_bytes(4, "little") + third, (), damage
    )
    assert len(trace) == 6
    assert [item.offset for item in damage] == [len(first), len(first + second) + 7 + 4]


def test_a_log_of_which_nothing_is_intact_is_refused() -> None:
    [image, *_] = chunked()
    broken = bytearray(image)
    broken[4] = 99
    with pytest.raises(FormatError, match="nothing could be salvaged: 0x63, expected"):
        read_log(bytes(broken), (), [])


def test_names_that_do_not_fill_their_part_are_all_lost() -> None:
    [image, *_] = chunked()
    broken = bytearray(image)
    broken[image.index(b"\x06second")] = 5
    damage: list[Damage] = []
    trace = read_log(bytes(broken), (), damage)
    assert len(trace) == 0
    assert [block.name for block in trace.blocks] == [""]
    assert [item.field for item in damage] == ["names", "names"]
    assert damage[-1].events == 2


def test_more_lost_names_than_bytes_are_not_made_up() -> None:
    [image, *_] = chunked()
    broken = bytearray(image)
    broken[16:18] = b"\xff\xff"
    with pytest.raises(FormatError, match="nothing could be salvaged"):
        read_log(bytes(broken), (), [])
