"""However dumps are packed together, each is found; whatever is damaged is told."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from random import Random

import numpy.ma  # noqa: F401 - 10 MB of text that NumPy imports late, whatever the file is
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import Damage, FormatError, FoundDumps, Trace, read_dumps, read_ed00, write_ed00
from harness.strategies import damaged, device_logs, traces
from tests.property.test_etdump_roundtrip import attempt, full_log, full_trace
from tests.support.captures import printed, recorded
from tests.support.examples import examples
from tests.support.logs import CompactLog
from tests.unit.test_etdump_ed00 import RECORDED

buffers = st.one_of(st.none(), st.binary(min_size=12, max_size=200))
PREFIXES: list[Callable[[int], bytes]] = [
    lambda _number: b"",
    lambda number: b"[2026-11-21 18:%02d:%02d.%03d] " % (number // 60 % 60, number % 60, number),
    lambda number: b"%d: " % number,
    lambda _number: b"uart0 > ",
]
REAL = RECORDED.read_bytes()
WHOLE = read_ed00(REAL)


@given(st.lists(st.tuples(traces(), buffers), min_size=1, max_size=3), st.data())
@settings(max_examples=examples(40), deadline=None)
def test_dumps_in_a_console_capture_are_found(
    dumps: list[tuple[Trace, bytes | None]], data: st.DataObject
) -> None:
    lines = [line for trace, buffer in dumps for line in printed(write_ed00(trace), buffer)]
    capture = recorded(
        [b'boot "quoted" text', *lines, b'echo "hello" > there'],
        prefix=data.draw(st.sampled_from(PREFIXES)),
        newline=data.draw(st.sampled_from([b"\n", b"\r\n"])),
        width=data.draw(st.one_of(st.none(), st.integers(40, 200))),
    )
    found = read_dumps(capture)
    assert [dump.trace for dump in found.dumps] == [trace for trace, _ in dumps]
    assert [dump.debug_buffer for dump in found.dumps] == [buffer for _, buffer in dumps]
    assert read_dumps(capture, salvage=True) == found


@given(st.lists(traces(), min_size=1, max_size=4), st.integers(0, 64), st.booleans())
@settings(max_examples=examples(40), deadline=None)
def test_dumps_behind_one_another_are_found(
    dumps: list[Trace], zeros: int, last_without_prefix: bool
) -> None:
    files = [write_ed00(trace) for trace in dumps]
    if last_without_prefix:
        files[-1] = files[-1][4:]
    found = read_dumps(bytes(zeros).join(files))
    assert [dump.trace for dump in found.dumps] == dumps
    assert not found.damage


def events_of(trace: Trace) -> list[tuple[object, ...]]:
    """Events so that they compare across traces, with the name of their block."""
    columns = [trace.kind, trace.chain, trace.instruction, trace.delegate_int, trace.clock]
    columns += [trace.start, trace.end, trace.allocator, trace.size]
    blocks = [block.name for block in trace.blocks for _ in range(block.count)]
    values = [trace.debug_values[i] if i >= 0 else None for i in trace.debug.tolist()]
    return [
        (
            *(column[row].item() for column in columns),
            trace.text(int(trace.name[row])),
            trace.text(int(trace.delegate_str[row])),
            trace.metadata_of(row),
            repr(values[row]),
            blocks[row],
        )
        for row in range(len(trace))
    ]


def is_subsequence(part: list[tuple[object, ...]], whole: list[tuple[object, ...]]) -> bool:
    """Whether ``part`` is left of ``whole`` when some are left out; a lost block name is ''."""
    rest = iter(whole)
    return all(
        any(one[:-1] == other[:-1] and one[-1] in ("", other[-1]) for other in rest) for one in part
    )


def salvaged(data: bytes) -> FoundDumps | None:
    """What salvage finds; None when the file is not even recognised."""
    try:
        return read_dumps(data, salvage=True)
    except FormatError:
        return None


@given(traces(), st.data())
@settings(max_examples=examples(80), deadline=None)
def test_what_is_salvaged_of_a_truncated_dump_was_in_it(trace: Trace, data: st.DataObject) -> None:
    file = write_ed00(trace)
    cut = data.draw(st.integers(12, len(file) - 1))
    with pytest.raises(FormatError):
        read_dumps(file[:cut])
    found = salvaged(file[:cut])
    assert found is not None
    [dump] = found.dumps
    assert is_subsequence(events_of(dump.trace), events_of(trace))
    assert dump.trace.losses.damaged >= max(1, sum(d.events or 0 for d in found.damage))


@pytest.mark.attack("Files", "any damage of dumps, salvaged", "no crash; memory use stays low")
@pytest.mark.parametrize("name", ["real", "full", "log", "capture"])
@given(st.data())
@settings(max_examples=examples(50), deadline=None)
def test_no_damage_crashes_or_takes_much_memory(name: str, data: st.DataObject) -> None:
    whole = {
        "real": REAL,
        "full": write_ed00(full_trace()),
        "log": full_log().image(),
        "capture": recorded(printed(write_ed00(full_trace()), bytes(100))),
    }[name]
    left = data.draw(damaged(whole))
    for unknown in (b"?", b"\x0bETLG"):
        attempt(read_dumps, unknown)  # imports plugins
    tracemalloc.start()
    strict = attempt(read_dumps, left)
    found = salvaged(left)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 500_000 + 60 * len(left)
    if isinstance(strict, FoundDumps):
        assert found == strict  # what is not damaged is salvaged as it is
        return
    assert strict.field
    assert strict.offset is not None
    if found:
        assert found.damage
        assert any(dump.trace.losses.damaged for dump in found.dumps)


@given(st.binary(max_size=300))
@settings(max_examples=examples(100), deadline=None)
def test_arbitrary_bytes(tail: bytes) -> None:
    for start in (
        b"",
        b"\x10\0\0\0ED00",
        b"\x40\0\0\0\x08\0\0\0ED00",
        b'echo "AAAAAAAAAAAAAAAAAAAA',
    ):
        salvaged(start + tail)


def test_often_one_damaged_event_is_all_that_is_lost() -> None:
    """Of a dump that the real runtime made: all its runs and events are in one file."""
    lost = []
    for at in range(2000, len(REAL) - 200, 97):
        damaged = bytearray(REAL)
        damaged[at : at + 4] = b"\xff\xff\xff\x7f"
        if isinstance(attempt(read_dumps, bytes(damaged)), FormatError):
            [dump] = read_dumps(bytes(damaged), salvage=True).dumps
            lost.append(len(WHOLE) - len(dump.trace))
    assert len(lost) > 40
    assert lost.count(1) > len(lost) // 2


def test_damage_says_what_and_where() -> None:
    file = write_ed00(full_trace())
    found = read_dumps(file + b"rubbish", salvage=True)
    assert found.damage == (
        Damage(
            len(file),
            "size prefix",
            f"7 bytes after the announced size are not a dump in size prefix at byte {len(file)}",
            None,
        ),
    )
    assert found.dumps[0].trace.losses.damaged == 1


@given(device_logs(counters=True), st.data())
@settings(max_examples=examples(80), deadline=None)
def test_what_is_salvaged_of_a_truncated_device_log_was_in_it(
    log: CompactLog, data: st.DataObject
) -> None:
    image = log.image()
    cut = data.draw(st.integers(4, len(image) - 1))
    with pytest.raises(FormatError):
        read_dumps(image[:cut])
    found = salvaged(image[:cut])
    if found is None:
        return
    [dump] = found.dumps
    assert is_subsequence(events_of(dump.trace), events_of(read_dumps(image).dumps[0].trace))
    assert dump.trace.losses.damaged


def accidents() -> Iterator[tuple[str, bytes]]:
    """Truncations, flipped bits and lost bytes of a dump that the real runtime made."""
    random = Random(0)
    for number in range(60):
        yield "truncated", REAL[: number * len(REAL) // 60]
    for _ in range(300):
        flipped = bytearray(REAL)
        flipped[random.randrange(len(REAL))] ^= 1 << random.randrange(8)
        yield "flipped", bytes(flipped)
    for _ in range(100):
        at = random.randrange(len(REAL))
        yield "lost", REAL[:at] + REAL[at + 1 :]


def test_accidents_with_a_real_dump() -> None:
    """ExecuTorch's reader crashes at half of these, and takes others for what they are not."""
    refused: Counter[str] = Counter()
    for accident, data in accidents():
        if isinstance(attempt(read_dumps, data), FormatError):
            refused[accident] += 1
            found = salvaged(data)
            assert found is None or any(dump.trace.losses.damaged for dump in found.dumps)
    # A byte less, and the size prefix announces more than there is.
    assert refused["truncated"] == 60
    assert refused["lost"] >= 99
    assert refused["flipped"] > 80  # what is flipped in a number does not show
