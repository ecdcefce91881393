"""``etharness export``: formats, flavours, files that are whole or not there."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from harness import (
    ClockDomain,
    FormatError,
    Losses,
    Stack,
    Trace,
    UsageError,
    export_trace,
    format_names,
    left_out,
    read_ed00,
    read_json,
    write_ed00,
)
from harness.export.formats import find_format
from tests.conftest import FIXTURES, CommandResult
from tests.property.test_etdump_roundtrip import full_trace
from tests.support.documents import document
from tests.support.exports import delegated_trace
from tests.support.logs import profile_trace

Etharness = Callable[..., CommandResult]
DUMP = FIXTURES / "kws_f32_executorch.etdp"


def test_help_names_every_format_with_its_line(etharness: Etharness) -> None:
    out = " ".join(etharness("export", "--help").out.split())
    for name, format_ in ((name, find_format(name)) for name in format_names()):
        assert f" {name} {format_.description}" in out


def test_a_file_is_written_and_reported(etharness: Etharness, tmp_path: Path) -> None:
    file = tmp_path / "events.json"
    code, out, _ = etharness("export", DUMP, "-f", "json", "-o", file, "--json")
    assert code == 0
    assert document("export", out) == {
        "file": str(file),
        "format": "json",
        "bytes": file.stat().st_size,
        "notes": [],
    }
    assert read_json(file.read_bytes()) == read_ed00(DUMP.read_bytes())
    assert [path.name for path in tmp_path.iterdir()] == ["events.json"]


def test_nothing_is_replaced_without_force(etharness: Etharness, tmp_path: Path) -> None:
    file = tmp_path / "events.csv"
    file.write_text("precious")
    refused = etharness("export", DUMP, "-f", "csv", "-o", file)
    assert refused.code == 2
    assert "--force" in refused.err
    assert file.read_text() == "precious"
    assert etharness("export", DUMP, "-f", "csv", "-o", file, "--force").code == 0
    assert file.read_text().startswith("block,")


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (("-f", "json", "-o", "."), "is not a regular file"),
        (("-f", "json", "-o", "no/such/place"), "is not a directory"),
        (("-f", "json", "-o", "x", "--flavour", "vanilla"), "unknown flavour 'vanilla'"),
        (("-f", "gif", "-o", "x"), "unknown format 'gif'"),
    ],
)
def test_what_cannot_be_written_is_refused(
    arguments: tuple[str, ...],
    what: str,
    etharness: Etharness,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, err = etharness("export", DUMP, *arguments)
    assert code == 2
    assert what in err
    assert not list(tmp_path.iterdir())


def test_an_unknown_format_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match="unknown format 'gif'"):
        export_trace(full_trace(), "gif")


def test_what_a_table_does_not_say_is_counted(etharness: Etharness, tmp_path: Path) -> None:
    trace = replace(
        full_trace(), losses=Losses(events=3), filtered_events=2, stacks=(Stack(0, 1, 2),)
    )
    assert export_trace(trace, "csv").notes == (
        "1 block without events",
        "what the target lost: 3 events",
        "2 events that the target left out",
        "the stack use of 1 tracer",
    )
    assert export_trace(trace, "json").notes == ()
    dump = tmp_path / "x.etdp"
    dump.write_bytes(write_ed00(full_trace()))
    shown = etharness("export", dump, "-f", "tsv", "-o", tmp_path / "x.tsv")
    assert "note: 1 block without events" in shown.err
    quiet = etharness("export", dump, "-f", "tsv", "-o", tmp_path / "y.tsv", "-q")
    assert quiet.out == quiet.err == ""


def test_ed00_comes_back_and_the_inspector_gets_no_allocations() -> None:
    trace = full_trace()
    assert read_ed00(export_trace(trace, "ed00").data) == trace
    for_inspector = export_trace(trace, "ed00", "inspector")
    again = read_ed00(for_inspector.data)
    assert len(again) == len(trace) - 2
    assert for_inspector.notes == ("2 allocations",)
    assert left_out(again, allocation_events=False).allocations == 0


def test_a_missing_package_is_named_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UsageError, match="pyarrow") as caught:
        export_trace(full_trace(), "parquet")
    assert caught.value.hint == "pip install 'etdump-harness[export]'"


def test_numbers_that_json_has_not_are_kept_bit_by_bit() -> None:
    exported = json.loads(export_trace(full_trace(), "json").data)
    numbers = [event["value"].get("number") for event in exported["events"] if event["value"]]
    assert "fff0000000000000" in numbers
    with pytest.raises(FormatError, match="16 hexadecimal digits"):
        contradictory(value={"type": 5, "number": "inf"}, kind="debug")


def contradictory(**change: object) -> Trace:
    exported = json.loads(export_trace(full_trace(), "json").data)
    exported["events"][0] |= change
    return read_json(json.dumps(exported).encode())


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"clock": 7}, "unknown clock of an event"),
        ({"block": 2}, "block 1: the rows do not match"),
        ({"kind": "party"}, "PARTY"),
        ({"metadata": "xyz"}, "not hexadecimal"),
        ({"tracer": -1}, "invalid cell"),
        ({"start": 2**64}, "more than 64 bits"),
    ],
)
def test_a_table_that_contradicts_itself_is_refused(change: dict[str, object], what: str) -> None:
    with pytest.raises(FormatError, match=what):
        contradictory(**change)


def test_events_in_no_block_are_refused() -> None:
    exported = json.loads(export_trace(full_trace(), "json").data)
    del exported["header"]["blocks"][1:]
    exported["header"]["blocks"][0]["count"] = 3
    exported["events"] = [event | {"block": 0} for event in exported["events"]]
    with pytest.raises(FormatError, match="events from 3 on are outside all blocks"):
        read_json(json.dumps(exported).encode())


def test_one_of_several_dumps_can_be_chosen(etharness: Etharness, tmp_path: Path) -> None:
    both = tmp_path / "both.etdp"
    both.write_bytes(write_ed00(full_trace()) + DUMP.read_bytes())
    out = tmp_path / "x.json"
    joined = etharness("export", both, "-f", "json", "-o", out)
    assert "2 dumps, assumed to share one clock" in joined.err
    assert len(read_json(out.read_bytes())) == len(full_trace()) + len(read_ed00(DUMP.read_bytes()))
    chosen = etharness("export", both, "-f", "json", "-o", out, "--force", "--dump", "2")
    assert chosen.err == ""
    assert read_json(out.read_bytes()) == read_ed00(DUMP.read_bytes())
    missing = etharness("export", both, "-f", "json", "-o", out, "--force", "--dump", "3")
    assert missing.code == 2
    assert "dump 3 not found: there are 2" in missing.err


def test_what_salvage_left_out_is_said(etharness: Etharness, tmp_path: Path) -> None:
    cut = tmp_path / "cut.etdp"
    cut.write_bytes(DUMP.read_bytes()[:-40])
    refused = etharness("export", cut, "-f", "csv", "-o", tmp_path / "x.csv")
    assert refused.code == 2
    assert not (tmp_path / "x.csv").exists()
    code, _, err = etharness("export", cut, "-f", "csv", "-o", tmp_path / "x.csv", "--salvage")
    assert code == 0
    assert "note: damaged: " in err


def test_delegates_of_an_etdump_are_drawn_on_their_own_scale(
    etharness: Etharness, tmp_path: Path
) -> None:
    dump, out = tmp_path / "x.etdp", tmp_path / "x.json"
    dump.write_bytes(write_ed00(delegated_trace(), allocation_events=False))
    arguments = ("-f", "kineto", "-o", out, "--clock-hz", "8e7", "--clock-bits", "32")
    scales = ("--time-scale", "matmul=375 MHz", "--time-scale", "0=375 MHz")
    code, _, err = etharness("export", dump, *arguments, *scales)
    assert code == 0, err
    slices = [event for event in json.loads(out.read_text())["traceEvents"] if event["ph"] == "X"]
    jobs = [event for event in slices if event["name"] in ("delegate: [0]", "matmul")]
    assert [event["dur"] for event in jobs] == [pytest.approx(2.4, abs=0.001)] * 6
    for job in jobs:
        assert job["args"]["placed_within_ns"] > 0


@pytest.mark.extension("exports")
@pytest.mark.parametrize(
    "name", sorted({*format_names()} - {"ed00", "model-explorer", "netron", "parquet"})
)
def test_a_name_turns_no_text_around(name: str) -> None:
    """What a reader of the file would show in another order than it has is escaped."""
    turning = "conv\u202egnp\u2028\x85end"
    trace = profile_trace([0, 5], [5, 9], ClockDomain("c", Fraction(10**9)), [turning, "relu"])
    data = export_trace(trace, name).data
    assert b"conv" in data
    assert not any(char.encode() in data for char in "\u202e\u2028\x85")
