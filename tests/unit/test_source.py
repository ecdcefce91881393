"""What stands behind a path: dumps, their debug buffers, and what is damaged."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

import harness
from harness import (
    HOST_NANOSECONDS,
    FormatError,
    FoundDumps,
    UsageError,
    read_dumps,
    read_ed00,
    write_ed00,
)
from harness.runs.directory import RunDirectory
from harness.runs.source import load_source
from tests.conftest import CommandResult
from tests.property.test_etdump_roundtrip import full_log, full_trace
from tests.support.captures import command, printed, recorded
from tests.support.logs import profile_trace
from tests.support.reported import FINISHED
from tests.support.traces import EventSpec, RunSpec, trace_of

DEBUG_BUFFER = "debug_buffer.bin"
ETDUMP = "trace.etdp"
LOG = "trace.etlog"

Etharness = Callable[..., CommandResult]

ONE = profile_trace([1, 3], [2, 4], HOST_NANOSECONDS, ["body", "body"])
OTHER = profile_trace([5], [9], HOST_NANOSECONDS, ["tail"])
BUDGET = 'schema = 1\n[[time]]\nevent = "body"\nlimit_us = 1000\n'


def damaged() -> bytes:
    """A dump of two events, one of which is damaged: the reference to its name goes too far."""
    data = bytearray(write_ed00(ONE))
    name = data.index((4).to_bytes(4, "little") + b"body")
    references = [
        place
        for place in range(0, name, 4)
        if place + int.from_bytes(data[place : place + 4], "little") == name
    ]
    assert len(references) == 2
    data[references[0] + 3] = 0x7F
    return bytes(data)


def test_bytes_and_files_are_read_alike(tmp_path: Path) -> None:
    data = write_ed00(ONE)
    path = tmp_path / "anything.txt"
    path.write_bytes(data)
    assert harness.load(path).trace == load_source(data).trace == ONE


def test_several_dumps_are_one_trace_and_each_for_itself() -> None:
    source = load_source(write_ed00(ONE) + write_ed00(OTHER))
    assert [dump.trace for dump in source.dumps] == [ONE, OTHER]
    assert [source.trace.text(name) for name in source.trace.name] == ["body", "body", "tail"]
    assert source.trace.record.tolist() == [0, 1, 2]
    assert [block.first for block in source.trace.blocks] == [0, 2]


@pytest.mark.parametrize("byte", [b"\0", b"\xff", b"\x1a"])
@pytest.mark.parametrize("count", [1, 7, 64, 5000])
def test_padding_behind_a_dump_says_nothing(byte: bytes, count: int) -> None:
    data = write_ed00(ONE) + write_ed00(OTHER)
    found = read_dumps(data + byte * count)
    assert [dump.trace for dump in found.dumps] == [ONE, OTHER]
    assert read_ed00(write_ed00(ONE) + byte * count) == ONE
    assert found.padding == count
    with pytest.raises(FormatError, match="after the announced size"):
        read_dumps(data + byte * count + b"x")


@pytest.mark.parametrize("byte", [b"\0", b"\xff", b"\x1a"])
@pytest.mark.parametrize("count", [1, 63, 64, 5000])
@pytest.mark.parametrize("salvage", [False, True])
def test_padding_behind_a_device_log_is_counted(
    byte: bytes, count: int, salvage: bool, tmp_path: Path, etharness: Etharness
) -> None:
    image = full_log().image()
    sound = read_dumps(image)
    found = read_dumps(image + byte * count, salvage=salvage)
    assert found == FoundDumps(sound.dumps, padding=count)
    with pytest.raises(FormatError, match="trailing bytes"):
        read_dumps(image + byte * count + b"x")
    file = tmp_path / "padded.etlog"
    file.write_bytes(image + byte * count)
    assert f"{count:,} padding bytes behind the trace" in etharness("decode", file).out
    assert json.loads(etharness("decode", file, "--json").out)["padding"] == count


def test_dumps_from_before_a_reset_are_no_runs_of_this_one(
    tmp_path: Path, etharness: Etharness
) -> None:
    """A static ETDumpGen leaves them behind the newest one."""
    directory = RunDirectory.create(tmp_path)
    newest = trace_of(RunSpec([EventSpec("Method::execute", 100, 120)]))
    older = trace_of(RunSpec([EventSpec("Method::execute", 0, 90)]))
    image = write_ed00(newest) + write_ed00(older)
    directory.write(ETDUMP, image)
    result = replace(FINISHED, runs_requested=1, runs_completed=1)
    directory.finish(result)
    assert harness.load(tmp_path).trace == newest
    assert etharness("check", tmp_path).code == 0
    assert len(load_source(image).dumps) == 2  # nobody knows of a file alone


def test_several_dumps_of_a_file_alone_are_told_and_can_be_chosen(
    tmp_path: Path, etharness: Etharness, caplog: pytest.LogCaptureFixture
) -> None:
    newest, older = (
        trace_of(RunSpec([EventSpec("Method::execute", 100, 100 + ticks)])) for ticks in (20, 90)
    )
    file = tmp_path / "buffer.etdp"
    file.write_bytes(write_ed00(newest) + write_ed00(older) + bytes(100))
    budget = tmp_path / "limit.toml"
    budget.write_text('schema = 1\n[[time]]\nevent = "Method::execute"\nlimit_us = 0.05\n')
    check = ("check", file, "--budget", budget)
    told = f"{file}: 2 dumps read as one trace; if a reset left the older ones, use --dump 1"
    assert etharness(*check).code == 1
    assert told in caplog.messages
    caplog.clear()
    by_dump = [etharness(*check, "--dump", str(number)) for number in (1, 2, 3)]
    assert [result.code for result in by_dump] == [0, 1, 2]
    assert not caplog.messages
    assert f"{file}: dump 3 not found: there are 2" in by_dump[2].err
    assert json.loads(etharness("decode", file, "--json").out)["dumps"] == 2
    decoded = json.loads(etharness("decode", file, "--dump", "2", "--json").out)
    assert (decoded["dumps"], decoded["events"], decoded["padding"]) == (1, 1, 100)
    assert harness.load(file, dump=1).trace == newest
    with pytest.raises(UsageError, match="dump is 0, not a whole number of at least 1"):
        harness.load(file, dump=0)
    bundle = tmp_path / "one.zip"
    assert etharness(*check, "--dump", "2", "--report", bundle).code == 1
    assert harness.load(bundle).trace == older
    capture = tmp_path / "console.log"
    capture.write_bytes(recorded(printed(file.read_bytes(), None)))
    assert etharness("decode", capture).code == 0
    assert "2 dumps read as one trace" in caplog.text
    assert harness.load(capture, dump=2).trace == older


def test_debug_buffers(tmp_path: Path) -> None:
    data = write_ed00(full_trace())
    assert load_source(data).debug_buffer is None
    given = tmp_path / "given"
    given.write_bytes(b"given")
    assert load_source(data, debug_buffer=given).debug_buffer == b"given"
    capture = recorded(printed(data, b"a debug buffer"))
    assert load_source(capture).debug_buffer == b"a debug buffer"
    assert load_source(capture, debug_buffer=given).debug_buffer == b"given"
    twice = load_source(capture + capture)
    with pytest.raises(UsageError, match="2 dumps, each with a debug buffer"):
        _ = twice.debug_buffer
    with pytest.raises(UsageError, match="cannot be the debug buffer of 2 dumps"):
        load_source(capture + capture, debug_buffer=given)
    with pytest.raises(UsageError, match="not found"):
        load_source(data, debug_buffer=tmp_path / "missing")


def test_a_debug_buffer_beside_a_trace_counts_only_in_a_run_directory(tmp_path: Path) -> None:
    (tmp_path / ETDUMP).write_bytes(write_ed00(ONE))
    (tmp_path / DEBUG_BUFFER).write_bytes(b"bytes")
    assert load_source(tmp_path / ETDUMP).debug_buffer is None


def test_a_device_log_is_recognised_by_its_content(tmp_path: Path) -> None:
    path = tmp_path / "trace.etdp"
    path.write_bytes(full_log().image())
    assert path.name != LOG
    assert len(harness.load(path).trace) == 7


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (recorded(printed(write_ed00(ONE)))[:200], "capture ends within base64"),
        (b'echo "QUJDQUJDQUJDQUJDQUJDQ!!D" | base64 -d >x', "other text within base64"),
        (b'echo "QUJDQUJDQUJDQUJDQUJDQQ" | base64 -d >x', "not a multiple of 4"),
        (b'echo "QUJDQUJDQUJDQUJDQUJD" | sed s/A/B/', "does not decode base64"),
        (b'echo "QUJDQUJDQUJDQUJDQ=JD" | base64 -d >x', "padding within base64"),
        (command(bytes(30), "etdump.bin"), "neither an ETDump nor followed"),
        (b"I am a text", "no ED00 identifier"),
    ],
)
def test_a_bad_capture_is_refused_with_its_place(text: bytes, why: str) -> None:
    with pytest.raises(FormatError, match=why) as caught:
        read_dumps(text)
    assert caught.value.offset is not None
    assert caught.value.field


def test_a_damaged_dump_in_a_capture_does_not_hide_the_others() -> None:
    lines = printed(write_ed00(ONE), b"buffer of the 1st")
    shifted = [line.replace(b'echo "', b'echo "A', 1) for line in printed(write_ed00(OTHER))]
    text = recorded([*lines, *shifted, *printed(write_ed00(OTHER))])
    with pytest.raises(FormatError):
        read_dumps(text)
    found = read_dumps(text, salvage=True)
    assert [dump.debug_buffer for dump in found.dumps] == [b"buffer of the 1st", None]
    assert [len(dump.trace) for dump in found.dumps] == [2, 1]
    assert found.damage


def test_decode_says_what_is_damaged(etharness: Etharness, tmp_path: Path) -> None:
    path = tmp_path / "trace.etdp"
    path.write_bytes(damaged())
    refused = etharness("decode", path)
    assert refused.code == 2
    assert "Profile.name at byte" in refused.err

    shown = etharness("decode", "--salvage", path)
    assert shown.code == 0
    assert "LOSSES: 1 events lost to damage of the file" in shown.out
    assert "points outside the buffer in Profile.name at byte" in shown.out
    printed_json = json.loads(etharness("decode", "--salvage", "--json", path).out)
    assert printed_json["events"] == printed_json["losses"]["damaged"] == 1
    [item] = printed_json["damage"]
    assert (item["field"], item["events"]) == ("Profile.name", 1)


def test_check_never_passes_what_was_salvaged_silently(
    etharness: Etharness, tmp_path: Path
) -> None:
    path, budget = tmp_path / "trace.etdp", tmp_path / "budget.toml"
    path.write_bytes(damaged())
    budget.write_text(BUDGET)
    assert etharness("check", path, "--budget", budget).code == 2
    failed = etharness("check", "--salvage", path, "--budget", budget)
    assert failed.code == 1
    assert "damaged events" in failed.out
    budget.write_text(BUDGET + "[losses]\ndamaged = 1\n")
    assert etharness("check", "--salvage", path, "--budget", budget).code == 0


def test_a_vector_that_goes_too_far_is_read_as_far_as_it_is_there() -> None:
    data = write_ed00(ONE)
    found = []
    for at in range(12, len(data) - 4, 4):
        if data[at : at + 4] == (2).to_bytes(4, "little"):
            longer = data[:at] + (99_999).to_bytes(4, "little") + data[at + 4 :]
            found += [load_source(longer, salvage=True)]
    [source] = [s for s in found if any("99999 announced" in d.reason for d in s.damage)]
    assert source.trace.start.tolist() == [1, 3]
    assert source.damage[0].field == "RunData.events"
    assert source.damage[0].events is None  # as many would not fit into the file


def test_an_older_dump_may_stand_behind_a_newer_one(etharness: Etharness, tmp_path: Path) -> None:
    path = tmp_path / "trace.etdp"
    path.write_bytes(write_ed00(OTHER) + write_ed00(ONE))
    assert load_source(path).later_dumps == (1,)
    assert etharness("check", path).code == 0
    alone = profile_trace([5, 1], [9, 2], HOST_NANOSECONDS, ["tail", "body"])
    path.write_bytes(write_ed00(alone))
    code, out, _ = etharness("check", path)
    assert code == 1
    assert "I04 clock" in out


def test_a_large_file_is_read_like_a_small_one(tmp_path: Path) -> None:
    events = [EventSpec("a", 1, 2), EventSpec(None, 2, 3, delegate="x", metadata=b"m")]
    data = write_ed00(trace_of(RunSpec(events)))
    path = tmp_path / "trace.etdp"
    path.write_bytes(data + bytes(1 << 24))  # padding: large files are mapped into memory
    source = load_source(path)
    assert source.trace == read_ed00(data)
    assert source.padding == 1 << 24
    path.write_bytes(b"overwritten")
    assert source.trace.metadata_of(1) == b"m"
    console = b'#[RUN THIS]\necho "' + base64.b64encode(data) + b'" | base64 -d >etdump.bin\n'
    path.write_bytes(console + b"." * (1 << 24))
    assert harness.load(path).trace == read_ed00(data)
    path.write_bytes(b"." * (1 << 24))
    with pytest.raises(FormatError, match="no ED00 identifier"):
        load_source(path)
