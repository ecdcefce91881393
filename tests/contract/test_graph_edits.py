"""An edit of the graph does not hide what it makes slower: exported files with an operator less."""

from __future__ import annotations

import json
import os
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import harness

HERE = Path(__file__).parent
BOARD = HERE.parents[1] / "boards" / "native.toml"
MODEL = HERE.parents[1] / "firmware_stub/models/kws_int8.pte"
Command = Callable[..., Any]

pytestmark = [pytest.mark.extension("history"), pytest.mark.sim]


def _field(data: bytes, table: int, slot: int) -> int:
    """The position of a field of a FlatBuffers table."""
    entries = table - struct.unpack_from("<i", data, table)[0]
    return int(table + struct.unpack_from("<H", data, entries + 4 + 2 * slot)[0])


def _followed(data: bytes, place: int) -> int:
    return int(place + struct.unpack_from("<I", data, place)[0])


def without_instruction(data: bytes, removed: int) -> bytes:
    """A program whose first method lacks an instruction of its first chain, as if fused away."""
    plans = _followed(data, _field(data, _followed(data, 0), 1))
    chains = _followed(data, _field(data, _followed(data, plans + 4), 5))
    steps = _followed(data, _field(data, _followed(data, chains + 4), 2))
    [count] = struct.unpack_from("<I", data, steps)
    edited = bytearray(data)
    struct.pack_into("<I", edited, steps, count - 1)
    for index in range(removed, count - 1):
        [offset] = struct.unpack_from("<I", data, steps + 4 * (index + 2))
        struct.pack_into("<I", edited, steps + 4 * (index + 1), offset + 4)
    return bytes(edited)


class Desk:
    """A board whose runs take chosen times, and twelve quiet nights of a model on it."""

    def __init__(self, folder: Path, etharness: Command) -> None:
        self.folder, self._etharness = folder, etharness
        self.factors = folder / "factors"
        self.board = folder / "native.toml"
        text = BOARD.read_text().replace("tolerance_ppm = 0", "tolerance_ppm = 999_999")
        self.board.write_text(text.replace('budget = "budgets/default.toml"\n', ""))
        self.model = folder / "kws.pte"
        self.model.write_bytes(MODEL.read_bytes())

    def run(self, name: str, factor: float = 1.0) -> Any:
        """Run the model with one operator this many times as long as usual."""
        started = self.folder / "factors.started"
        seen = started.stat().st_size if started.exists() else 0
        self.factors.write_text("\n".join([*["1"] * seen, *[str(factor)] * 9]))
        return self._etharness(
            *("run", "--board", self.board, "--model", self.model, "--commit", name * 8),
            *("--history", self.folder / "h.sqlite", "--baseline", "last:20"),
            *("-o", self.folder / name),
        )

    def failed(self, name: str) -> list[dict[str, Any]]:
        verdict = json.loads((self.folder / name / "result.json").read_text())["verdict"]
        return [check for check in verdict["checks"] if not check["passed"]]

    def longest(self, name: str) -> str:
        """The operator with the longest time, as checks name it."""
        operators = [
            found
            for found in harness.load(self.folder / name).operators()
            if found.operator.chain == 0 and found.name != "OPERATOR_CALL"
        ]
        slowest = max(operators, key=lambda one: float(one.p50))
        return f"{slowest.name}, instruction {slowest.instruction}"


@pytest.fixture
def desk(tmp_path: Path, etharness: Command, monkeypatch: pytest.MonkeyPatch, shared: Path) -> Desk:
    library = shared / f"graph_edits.{os.getpid()}.so"
    compiler = ["cc", "-shared", "-fPIC", "-O2", "-Wall", "-Werror"]
    subprocess.run([*compiler, HERE / "chosen_times.c", "-o", library, "-ldl"], check=True)
    monkeypatch.setenv("LD_PRELOAD", str(library))
    monkeypatch.setenv("CHOSEN_TIMES", str(tmp_path / "factors"))
    desk = Desk(tmp_path, etharness)
    for night in "abcdefghijkl":
        assert desk.run(night).code == 0
    return desk


def test_what_a_fusion_makes_slower_fails_by_its_own_history(desk: Desk) -> None:
    desk.model.write_bytes(without_instruction(MODEL.read_bytes(), 5))
    ended = desk.run("n", factor=6.0)
    assert ended.code == 1, ended.out
    slower = [check["subject"] for check in desk.failed("n") if check["code"] == "H01"]
    assert desk.longest("n") in slower, ended.out
    assert {*slower} <= {desk.longest("n"), "Method::execute, total time of the method"}
    assert "15 of 15 operators compared with the same operators" in ended.out
    assert "1 of 16 earlier operators gone: quantized_conv2d #5" in ended.out


def test_an_edit_without_a_slower_operator_passes_and_continues(
    desk: Desk, etharness: Command
) -> None:
    desk.model.write_bytes(without_instruction(MODEL.read_bytes(), 5))
    ended = desk.run("m")
    assert ended.code == 0, ended.out
    assert "the model was changed" in ended.out
    again = desk.run("n")
    assert again.code == 0, again.out
    assert "the model was changed" not in again.out
    # The series of an operator behind the edit goes on, in the history and in a report.
    store = ("--history", desk.folder / "h.sqlite")
    shown = json.loads(etharness("history", "show", "quantized_conv2d #8", *store, "--json").out)
    [series] = shown["series"]
    assert series["results"] == [*range(14)]
    decided = etharness("history", "accept", "quantized_conv2d #8", "--reason", "r", *store)
    assert decided.code == 0, decided.err
    page = desk.folder / "n.html"
    assert etharness("report", desk.folder / "n", "-o", page).code == 0
    assert "13 earlier results" in page.read_text()


def test_two_runs_are_compared_operator_by_operator(desk: Desk, etharness: Command) -> None:
    desk.model.write_bytes(without_instruction(MODEL.read_bytes(), 5))
    desk.run("m", factor=6.0)
    before, after = desk.folder / "l", desk.folder / "m"
    compared = json.loads(etharness("compare", before, after, "--json").out)["comparison"]
    assert len(compared["operators"]) == 2 * 15 + 3
    assert {one["instruction"] for one in compared["vanished"]} == {5}
    assert not compared["appeared"]
    [slow] = [
        one
        for one in compared["operators"]
        if one["name"].startswith("native_call") and one["time"]["ratio"] > 2
    ]
    assert f"{slow['name']}, instruction {slow['instruction']}" == desk.longest("m")
    changes = harness.load(after).compare(before)
    assert [one.instruction for one in changes.vanished] == [5, 5]
