"""Ethos-U without an NPU: ``inspect`` reads in real exports of ExecuTorch and in damaged ones."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import DelegateCall, FormatError, Model, write_report
from harness.decode.program import CompiledDelegate
from harness.extensions.npu.delegate import read_delegate
from tests.conftest import FIXTURES
from tests.support.reported import FINISHED, reported

Etharness = Callable[..., Any]


def works(etharness: Etharness, model: Path) -> list[dict[str, Any]]:
    """What ``inspect`` says of the calls of delegates in a model's only method."""
    code, out, err = etharness("inspect", model, "--json")
    assert (code, err) == (0, "")
    (method,) = json.loads(out)["methods"]
    calls: list[dict[str, Any]] = method["delegates"]
    return calls


@pytest.mark.parametrize(
    ("name", "target", "scratch", "memories"),
    [
        ("ethos_u55", "Ethos-U55, 128 MACs per cycle", 8768, {"SRAM", "flash"}),
        ("ethos_u65", "Ethos-U65, 256 MACs per cycle", 3072, {"SRAM", "DRAM"}),
        ("ethos_u85", "Ethos-U85, 256 MACs per cycle", 8192, {"SRAM"}),
    ],
)
def test_one_network_has_the_same_work_on_each_npu(
    name: str, target: str, scratch: int, memories: set[str], etharness: Etharness
) -> None:
    """The first three layers by hand, and the sum that Vela states for this network."""
    (call,) = works(etharness, FIXTURES / f"{name}.pte")
    work = call["work"]
    assert (call["chain"], call["instruction"], call["backend"]) == (0, 1, "EthosUBackend")
    assert (work["target"], work["scratch_bytes"]) == (target, scratch)
    assert not work["notes"]
    operators = work["operators"]
    assert [(each["name"], each["operands"], each["macs"]) for each in operators[:3]] == [
        ("conv 3x3 stride 2x2", "int8[32, 32, 3] -> int8[16, 16, 8]", 16 * 16 * 8 * 27),
        ("depthwise conv 3x3", "int8[16, 16, 8] -> int8[16, 16, 8]", 16 * 16 * 8 * 9),
        ("conv 1x1", "int8[16, 16, 8] -> int8[16, 16, 16]", 16 * 16 * 16 * 8),
    ]
    assert sum(each.get("macs", 0) for each in operators) == 110_772
    assert {memory for each in operators for memory in each["read"]} == memories


def test_each_call_has_its_own_delegate(etharness: Etharness) -> None:
    calls = works(etharness, FIXTURES / "ethos_u55_split.pte")
    assert [call["instruction"] for call in calls] == [1, 5]
    names = [[each["name"] for each in call["work"]["operators"]] for call in calls]
    assert names[0] == ["conv 3x3"]
    assert "conv 1x1" in names[1]


def test_the_terminal_has_a_table_of_each_call(etharness: Etharness) -> None:
    code, out, _ = etharness("inspect", FIXTURES / "ethos_u55_split.pte")
    assert code == 0
    assert "EthosUBackend, instruction 5: Ethos-U55, 128 MACs per cycle, 624 bytes" in out
    row = next(line.split() for line in out.splitlines() if line.startswith("copy "))
    assert row[1] == "21", "the operations of one name are one row"
    _, detailed, _ = etharness("inspect", "-v", FIXTURES / "ethos_u55_split.pte")
    assert len([line for line in detailed.splitlines() if line.startswith("copy ")]) == 21


def damaged(change: Callable[[bytearray, int], None], folder: Path) -> Path:
    """A model with a change in its blob, which begins at the second argument."""
    data = bytearray((FIXTURES / "ethos_u55.pte").read_bytes())
    change(data, data.index(b"vela_bin_stream"))
    model = folder / "damaged.pte"
    model.write_bytes(data)
    return model


def put(data: bytearray, at: int, *words: int) -> None:
    struct.pack_into(f"<{len(words)}I", data, at, *words)


@pytest.mark.parametrize("suffix", ["html", "md", "json"])
def test_reports_of_a_run_have_the_operations_of_each_call(
    suffix: str, etharness: Etharness, tmp_path: Path
) -> None:
    """A result as a run of this model records it: no board of this project has an Ethos-U."""
    calls = msgspec.convert(
        works(etharness, FIXTURES / "ethos_u55_split.pte"), tuple[DelegateCall, ...]
    )
    model = Model("net.pte", "ab", 10, 20, 30, (), (), delegates=calls)
    run = reported(result=msgspec.structs.replace(FINISHED, model=model))
    write_report(file := tmp_path / f"report.{suffix}", [run])
    page = file.read_text()
    assert "conv 3x3" in page
    assert "704" in page, "its scratch memory"
    assert ("EthosUBackend, instruction 5" in page) == (suffix != "json")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda data, at: put(data, at, 0),
            "block '' is out of order in vela_bin_stream",
        ),
        (
            lambda data, at: put(data, at + 48, 1 << 30),
            "bytes of the block 'cmd_data' are missing",
        ),
        (
            lambda data, at: put(data, at + 64, 0),
            "no header of the Ethos-U driver (COP1)",
        ),
        (lambda data, at: put(data, at + 72, 7 << 28), "the NPU's product 7 is unknown"),
        (lambda data, at: put(data, at + 80, 9), "unknown action 9 of the driver"),
        (lambda data, at: put(data, at + 96, 0xC000), "invalid command 0x0000c000"),
        (lambda data, at: put(data, at + 96, 0x1FF), "1 unknown command skipped (0x"),
    ],
)
def test_a_damaged_blob_is_named_with_its_place(
    change: Callable[[bytearray, int], None], said: str, etharness: Etharness, tmp_path: Path
) -> None:
    (call,) = works(etharness, damaged(change, tmp_path))
    (note,) = call["work"]["notes"]
    assert said in note
    assert "export the model again" in note or call["work"]["operators"]


def test_commands_outside_the_program_leave_the_target(
    etharness: Etharness, tmp_path: Path
) -> None:
    """The option of the compiler names it; what it computes is not known."""
    model = damaged(lambda data, at: put(data, at + 52, 1), tmp_path)
    (call,) = works(etharness, model)
    assert call["work"]["target"] == "Ethos-U55, 128 MACs per cycle"
    assert call["work"]["operators"] == []
    assert "its data cmd_data is outside the program" in call["work"]["notes"][0]
    out = etharness("inspect", model, "--board", "native").out
    assert "multiply-accumulates  0, without those of EthosUBackend\n" in out


@given(data=st.data())
def test_no_damage_ends_in_a_crash(data: st.DataObject) -> None:
    """Bytes and words of real blobs are changed, cut out and put in."""
    name = data.draw(st.sampled_from(["ethos_u55", "ethos_u65", "ethos_u85"]))
    model = (FIXTURES / f"{name}.pte").read_bytes()
    start = model.index(b"vela_bin_stream")
    blob = bytearray(model[start : model.index(b"vela_end_stream", start) + 32])
    places = st.integers(0, len(blob) - 1)
    for place, byte in data.draw(st.lists(st.tuples(places, st.integers(0, 255)), max_size=30)):
        blob[place] = byte
    if data.draw(st.booleans()):
        word = data.draw(st.integers(16, 400)) * 4
        blob[word : word + data.draw(st.sampled_from([0, 4, 64]))] = data.draw(
            st.binary(max_size=9)
        )
    try:
        work = read_delegate(CompiledDelegate("EthosUBackend", bytes(blob), {}))
    except FormatError as error:
        sound = bool(error.field and error.hint) and error.offset is not None
    else:
        told = work.target.startswith("Ethos-U") or "outside the program" in work.notes[0]
        sound = told and all(each.macs >= 0 for each in work.operators)
    assert sound
