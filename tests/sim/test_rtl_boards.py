"""Boards of real RTL: their cycles and instructions hold the identities that every core holds."""

from __future__ import annotations

import dataclasses
import subprocess
from collections.abc import Callable
from functools import cache
from itertools import pairwise
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
CORES = ("cv32e40p", "ibex", "vexriscv")
MODEL = MODELS / "small_int8.pte"
RUNS = 3
QEMU = (
    'target = { kind = "qemu", machine = "virt", system = "qemu-system-riscv32", '
    'arguments = ["-icount", "shift=0", "-bios", "none"] }'
)
"""This machine has the same devices and memory as the testbenches of CV32E40P and Ibex: it runs
their images."""
LOAD_FROM_0 = b"\x03\x20\x00\x00"  # lw zero, 0(zero)
Measure = Callable[..., harness.Run]


def board_file(directory: Path, name: str, target: str | None) -> Path:
    """A copy of a board file, with another target if given."""
    lines = (data_directory("boards") / f"{name}.toml").read_text().splitlines()
    replaced = ("budget =", "target =") if target else "budget ="
    path = directory / f"{name}.toml"
    path.write_text("\n".join(line for line in lines if not line.startswith(replaced)))
    with path.open("a") as file:
        file.write(f"\n{target or ''}\n")
    return path


@pytest.fixture(scope="module")
def measure(tmp_path_factory: pytest.TempPathFactory) -> Measure:
    """Run the model once on a board with this target; ``number`` asks for another process."""

    @cache
    def run(
        core: str, *, instructions: bool = False, target: str | None = None, number: int = 0
    ) -> harness.Run:
        directory = tmp_path_factory.mktemp("rtl")
        name = f"rtl-{core}" + ("-instructions" if instructions else "")
        path = board_file(directory, name, target)
        return harness.run(MODEL, board=path, runs=RUNS, output=directory / "run")

    return run


def timed(run: harness.Run) -> CallTree:
    """The events of a run, of which some have a time."""
    tree = call_tree(run.trace)
    assert np.count_nonzero(tree.total) > 10 * RUNS
    return tree


def executions(run: harness.Run) -> list[list[tuple[str, int]]]:
    """Name and ticks of the timed events of each execution, in log order."""
    names = [run.trace.names[name] if name >= 0 else "" for name in run.trace.name]
    rows = [row for row in zip(names, timed(run).total.tolist(), strict=True) if row[1]]
    ends = [at + 1 for at, (name, _) in enumerate(rows) if name == "Method::execute"]
    assert len(ends) == RUNS
    first = [name for name, _ in rows].index("Program::load_method") + 1
    return [rows[begin:end] for begin, end in pairwise([first, *ends])]


def outputs(run: harness.Run) -> list[bytes]:
    assert run.directory is not None
    return [path.read_bytes() for path in sorted((run.directory / "outputs").iterdir())]


@pytest.mark.parametrize("core", CORES)
def test_instructions_and_outputs_are_those_of_qemu(measure: Measure, core: str) -> None:
    rtl = measure(core, instructions=True)
    qemu = measure("cv32e40p", instructions=True, target=QEMU)
    assert rtl.passed
    assert executions(rtl) == executions(qemu)
    assert outputs(rtl) == outputs(qemu) != []


@pytest.mark.parametrize("core", ["cv32e40p", "ibex"])
def test_loading_takes_the_same_instructions_for_the_same_image(
    measure: Measure, core: str
) -> None:
    rtl = measure(core, instructions=True)
    qemu = measure(core, instructions=True, target=QEMU)
    assert rtl.result.target.build_id == qemu.result.target.build_id
    assert timed(rtl).total.tolist() == timed(qemu).total.tolist()


@pytest.mark.parametrize("core", CORES)
def test_no_event_has_fewer_cycles_than_instructions(measure: Measure, core: str) -> None:
    cycles, instructions = timed(measure(core)), timed(measure(core, instructions=True))
    assert (cycles.total >= instructions.total).all()
    assert cycles.total.sum() > instructions.total.sum()


@pytest.mark.parametrize("core", CORES)
def test_the_cycles_of_an_event_are_its_own_and_its_childrens(measure: Measure, core: str) -> None:
    tree = timed(measure(core))
    assert not tree.backward.any()
    parents = [row for row in range(len(tree.parent)) if tree.children(row).size]
    assert len(parents) > RUNS
    for row in parents:
        children = int(tree.total[tree.children(row)].sum())
        assert int(tree.own[row]) == int(tree.total[row]) - children >= 0


@pytest.mark.parametrize("core", CORES)
def test_cycles_are_the_same_in_every_process(measure: Measure, core: str) -> None:
    first, second = measure(core), measure(core, number=1)
    assert executions(first) == executions(second)


@pytest.mark.parametrize("core", ["cv32e40p", "ibex"])
def test_without_a_cache_every_execution_takes_the_same_cycles(measure: Measure, core: str) -> None:
    first, *later = executions(measure(core))
    assert later == [first] * (RUNS - 1)


def test_with_caches_the_first_execution_takes_more_cycles(measure: Measure) -> None:
    cold, *warm = (dict(one) for one in executions(measure("vexriscv")))
    for one in warm:
        assert all(cold[name] >= ticks for name, ticks in one.items())
        assert cold["Method::execute"] > one["Method::execute"]


@pytest.mark.parametrize("core", CORES)
def test_wait_states_cost_cycles_and_no_instructions(measure: Measure, core: str) -> None:
    waiting = f'target = {{ kind = "rtl", core = "{core}", wait_states = 1 }}'
    fast, slow = timed(measure(core)), timed(measure(core, target=waiting))
    assert (slow.total >= fast.total).all()
    assert slow.total.sum() > fast.total.sum()
    instructions = measure(core, instructions=True, target=waiting)
    assert executions(instructions) == executions(measure(core, instructions=True))


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
    ("core", "code", "reason", "console"),
    [
        ("cv32e40p", b"\xff\xff\xff\xff", "trap 2 (illegal instruction)", b"fault at pc=0x"),
        ("ibex", LOAD_FROM_0, "trap 5 (load from a forbidden address)", b"fault at pc=0x"),
        ("vexriscv", LOAD_FROM_0, "reset", b"bus error: read of 0x00000000"),
    ],
    ids=["illegal instruction", "bus error that traps", "bus error that resets"],
)
def test_a_crash_names_the_operator_after_the_reset(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    core: str,
    code: bytes,
    reason: str,
    console: bytes,
) -> None:
    firmware = build_firmware(load_board(f"rtl-{core}")[0])
    image = with_patch(firmware.image, "quantized_linear", code, tmp_path / "image")
    patched = dataclasses.replace(firmware, image=image)
    monkeypatch.setattr("harness.runs.run.build_firmware", lambda *_: patched)
    with pytest.raises(RestartedError) as caught:
        harness.run(MODEL, board=f"rtl-{core}", output=tmp_path / "run")
    assert reason in caught.value.message
    assert "native_call_quantized_linear.out (instruction 1)" in caught.value.message
    assert console in (tmp_path / "run/console.log").read_bytes()
