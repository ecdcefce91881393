"""Exports name the run they are of, and hold data that other programs read back unharmed."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import RunIdentity, Trace, export_trace, format_names, read_ed00, read_log
from harness.runs.directory import RunDirectory
from harness.strategies import EventSpec, RunSpec, trace_of
from tests.conftest import CommandResult
from tests.support.exports import CPU, NPU, delegated_trace
from tests.support.logs import CompactLog
from tests.support.results import log_with, made

LOG = "trace.etlog"

Etharness = Callable[..., CommandResult]

IDENTITY = RunIdentity(
    "native", "kws.pte", "build-1", "C kernels", "abc123", "7d1f", emulated_time=True
)
KERNELS = b"bundled C kernels"
DIGITS = [b"", b"\x00", b"\x12\x34", b"\x00\x12", b"\x12\xe5", b"\x01\xe9\x99", b"\xff" * 9]
"""Metadata whose hexadecimal digits look like numbers: 1234, 0012, 12e5, 01e999."""


@pytest.mark.parametrize("name", [n for n in format_names() if n != "netron"])  # needs the model
def test_every_export_names_board_model_firmware_kernels_commit_and_run(
    name: str, etharness: Etharness, tmp_path: Path
) -> None:
    if name in ("parquet", "perfetto", "chakra"):
        pytest.importorskip("pyarrow" if name == "parquet" else "google.protobuf")
    item = made("0123abcd", board="qemu-x", model="models/kws.pte", build_id="build 77")
    result = msgspec.structs.replace(item.result, commit="c0ffee", emulated_time=True)
    directory = RunDirectory.create(tmp_path / "run")
    directory.write_result(result)
    directory.write(LOG, log_with({"a": [5, 6]}).image())
    file = tmp_path / f"export.{name}"
    assert etharness("export", tmp_path / "run", "-f", name, "-o", file).code == 0
    data = file.read_bytes()
    for text in (b"qemu-x", b"kws.pte", b"build 77", b"c0ffee", b"0123abcd", b"emulated", KERNELS):
        assert text in data, text


@pytest.mark.parametrize("flavour", ["exact", "inspector"])
def test_an_ed00_file_with_a_name_reads_as_one_without(flavour: str) -> None:
    trace = read_log(log_with({"a": [5, 6], "b": [7]}).image(), [CPU])
    named = export_trace(trace, "ed00", flavour, identity=IDENTITY).data
    plain = export_trace(trace, "ed00", flavour).data
    assert read_ed00(named, CPU) == read_ed00(plain, CPU)
    assert (
        b"board=native; model=kws.pte; firmware=build-1; kernels=C kernels; commit=abc123; run=7d1f"
        in named
    )


def test_emulated_time_is_called_that_in_drawn_formats() -> None:
    document = json.loads(export_trace(delegated_trace(), "kineto", identity=IDENTITY).data)
    assert document["otherData"]["time"] == "emulated"
    [labels] = [e for e in document["traceEvents"] if e["name"] == "process_labels"]
    assert "time: emulated" in labels["args"]["labels"]
    [process] = [e for e in document["traceEvents"] if e["name"] == "process_name"]
    assert process["args"]["name"] == "kws.pte on native"


def with_metadata() -> Trace:
    log = CompactLog().block("Execute")
    for number, metadata in enumerate(DIGITS):
        log.delegate(None, number, metadata).profile(None, number, number + 1, clock=1)
    return read_log(log.delegate(None, 99).profile(None, 9, 10, clock=1).image(), [CPU, NPU])


@pytest.mark.parametrize("name", ["csv", "tsv", "parquet"])
def test_metadata_survives_pandas(name: str, tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    if name == "parquet":
        pytest.importorskip("pyarrow")
    file = tmp_path / f"events.{name}"
    file.write_bytes(export_trace(with_metadata(), name, identity=IDENTITY).data)
    if name == "parquet":
        frame = pandas.read_parquet(file)
        assert frame.attrs["board"] == "native"
    else:
        frame = pandas.read_csv(file, sep="," if name == "csv" else "\t")
        assert set(frame["board"]) == {"native"}
    *read, absent = frame["metadata"].tolist()
    assert [bytes.fromhex(text.removeprefix("hex:")) for text in read] == DIGITS
    assert pandas.isna(absent)


@pytest.mark.attack(
    "Texts", "spreadsheet formulas in names, for CSV", "no cell begins as a formula"
)
@pytest.mark.parametrize(
    ("name", "cell"),
    [
        *((name, f"'{name}") for name in ("=1+1", "+1", "-1", "@SUM(A1)", "\uff1d1", "'=1")),
        # Tab and carriage return, which spreadsheets skip, are escaped.
        *(("\t=1", r"\x09=1"), ("\r=1", r"\x0d=1"), ("a\r=1", r"a\x0d=1")),
    ],
)
@pytest.mark.parametrize("form", ["csv", "tsv"])
def test_no_cell_is_a_formula(name: str, cell: str, form: str) -> None:
    trace = read_log(CompactLog().block(name).profile(name, 1, 2).image(), [CPU])
    text = export_trace(trace, form, identity=RunIdentity(board=name)).data.decode()
    [row] = csv.DictReader(io.StringIO(text), delimiter="," if form == "csv" else "\t")
    assert {row[column] for column in ("block_name", "name", "board")} == {cell}
    assert row["delegate_int"] == "-1", "a number is no formula"


@given(st.lists(st.text(min_size=1, max_size=20), min_size=1, max_size=3, unique=True))
def test_names_are_safe_cells_and_stay_different(names: list[str]) -> None:
    events = [EventSpec(name, number, number + 1) for number, name in enumerate(names)]
    text = export_trace(trace_of(RunSpec(events)), "csv").data.decode()
    cells = [row["name"] for row in csv.DictReader(io.StringIO(text, newline=""))]
    assert not any(cell.startswith(("=", "+", "-", "@", "\t", "\r")) for cell in cells)
    assert len(set(cells)) == len(names)
