"""Boards of real RTL: their cycles and instructions hold the identities that every core holds."""

from __future__ import annotations

import dataclasses
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import harness
from harness.analyze.call_tree import CallTree, call_tree
from harness.config.board import load_board
from harness.errors import RestartedError
from harness.files import data_directory
from harness.target.build import build_firmware
from tests.conftest import MODELS

pytestmark = [pytest.mark.sim, pytest.mark.timeout(300)]
CYCLES, INSTRUCTIONS = "rtl-cv32e40p", "rtl-cv32e40p-instructions"
MODEL = MODELS / "small_int8.pte"
RUNS = 2
TARGET = 'target = { kind = "rtl", core = "cv32e40p" }'
QEMU = (
    'target = { kind = "qemu", machine = "virt", system = "qemu-system-riscv32", '
    'arguments = ["-icount", "shift=0", "-bios", "none"] }'
)
"""This machine has the same devices and memory, so it runs the same images."""
WAITING = TARGET.replace(" }", ", wait_states = 1 }")
Measure = Callable[..., harness.Run]


def board_file(directory: Path, name: str, target: str) -> Path:
    text = (data_directory("boards") / f"{name}.toml").read_text()
    assert TARGET in text
    directory.mkdir()
    path = directory / f"{name}.toml"
    path.write_text(text.replace(TARGET, target).replace('budget = "budgets/default.toml"\n', ""))
    return path


@pytest.fixture(scope="module")
def measure(tmp_path_factory: pytest.TempPathFactory) -> Measure:
    """Run the model once on a board with this target; ``number`` asks for another process."""

    @cache
    def run(board: str, target: str = TARGET, number: int = 0) -> harness.Run:
        directory = tmp_path_factory.mktemp("rtl")
        path = board_file(directory / "board", board, target)
        return harness.run(MODEL, board=path, runs=RUNS, output=directory / "run")

    return run


def timed(run: harness.Run) -> CallTree:
    """The events of a run, of which some have a time."""
    tree = call_tree(run.trace)
    assert np.count_nonzero(tree.total) > 10 * RUNS
    return tree


def outputs(run: harness.Run) -> list[bytes]:
    assert run.directory is not None
    return [path.read_bytes() for path in sorted((run.directory / "outputs").iterdir())]


def test_instructions_and_outputs_are_those_of_qemu(measure: Measure) -> None:
    rtl, qemu = measure(INSTRUCTIONS), measure(INSTRUCTIONS, QEMU)
    assert rtl.passed
    assert rtl.result.target.build_id == qemu.result.target.build_id
    assert timed(rtl).total.tolist() == timed(qemu).total.tolist()
    assert outputs(rtl) == outputs(qemu) != []


def test_no_event_has_fewer_cycles_than_instructions(measure: Measure) -> None:
    cycles, instructions = timed(measure(CYCLES)), timed(measure(INSTRUCTIONS))
    assert (cycles.total >= instructions.total).all()
    assert cycles.total.sum() > instructions.total.sum()


def test_the_cycles_of_an_event_are_its_own_and_its_childrens(measure: Measure) -> None:
    tree = timed(measure(CYCLES))
    assert not tree.backward.any()
    parents = [row for row in range(len(tree.parent)) if tree.children(row).size]
    assert len(parents) > RUNS
    for row in parents:
        children = int(tree.total[tree.children(row)].sum())
        assert int(tree.own[row]) == int(tree.total[row]) - children >= 0


def test_cycles_are_the_same_in_every_process(measure: Measure) -> None:
    first, second = measure(CYCLES), measure(CYCLES, number=1)
    assert timed(first).total.tolist() == timed(second).total.tolist()


def test_executions_take_the_same_cycles_without_a_cache(measure: Measure) -> None:
    trace = measure(CYCLES).trace
    execute = trace.name == trace.names.index("Method::execute")
    assert execute.sum() == RUNS
    assert len(set(timed(measure(CYCLES)).total[execute].tolist())) == 1


def test_wait_states_cost_cycles_and_no_instructions(measure: Measure) -> None:
    fast, slow = timed(measure(CYCLES)), timed(measure(CYCLES, WAITING))
    assert (slow.total >= fast.total).all()
    assert slow.total.sum() > 1.5 * fast.total.sum()  # two cycles for each word of instructions
    waiting = timed(measure(INSTRUCTIONS, WAITING))
    assert waiting.total.tolist() == timed(measure(INSTRUCTIONS)).total.tolist()


def with_patch(image: Path, symbol: str, code: bytes, copy: Path) -> Path:
    """A copy of an image that has ``code`` at the start of a function."""
    nm = subprocess.run(
        ["riscv64-unknown-elf-nm", image], check=True, capture_output=True, text=True
    )
    [address] = [
        int(line.split()[0], 16) for line in nm.stdout.splitlines() if line.split()[-1] == symbol
    ]
    dump = subprocess.run(
        ["riscv64-unknown-elf-readelf", "-lW", image], check=True, capture_output=True, text=True
    )
    offset, start = next(
        (int(words[1], 16), int(words[2], 16))
        for words in map(str.split, dump.stdout.splitlines())
        if words[:1] == ["LOAD"]
    )
    data = bytearray(image.read_bytes())
    at = offset + address - start
    data[at : at + len(code)] = code
    copy.write_bytes(data)
    return copy


@pytest.mark.parametrize(
    ("code", "reason", "console"),
    [
        (b"\0\0", "trap 2 (illegal instruction)", b"fault at pc=0x8"),
        (b"\x03\x20\x00\x00", "reset", b"bus error: read of 0x00000000"),
    ],
    ids=["illegal instruction", "bus error"],
)
def test_a_crash_names_the_operator_after_the_reset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: bytes, reason: str, console: bytes
) -> None:
    firmware = build_firmware(load_board(CYCLES)[0])
    image = with_patch(firmware.image, "quantized_linear", code, tmp_path / "image")
    patched = dataclasses.replace(firmware, image=image)
    monkeypatch.setattr("harness.runs.run.build_firmware", lambda *_: patched)
    with pytest.raises(RestartedError) as caught:
        harness.run(MODEL, board=CYCLES, output=tmp_path / "run")
    assert reason in caught.value.message
    assert "native_call_quantized_linear.out (instruction 1)" in caught.value.message
    assert console in (tmp_path / "run/console.log").read_bytes()
