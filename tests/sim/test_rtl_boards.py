"""Boards of real RTL: their cycles and instructions hold the identities that every core holds.

For the small network; with ``ETHARNESS_EVERY_MODEL=1``, as `make measure` does, for every method of
every model that fits, except networks of more than 100 million instructions.
"""

from __future__ import annotations

import dataclasses
import os
import subprocess
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import harness
from harness import CallTree, RestartedError, RtlCore, Subject, TargetError, build_firmware
from tests.conftest import MODELS, CommandResult
from tests.support.examples import sampled
from tests.support.features import every_method, saved_inputs
from tests.support.nights import written_plan
from tests.support.rtl import CORES, QEMU, board_file

pytestmark = [
    pytest.mark.sim,
    pytest.mark.timeout(7200 if "ETHARNESS_EVERY_MODEL" in os.environ else 900),
]
Model = tuple[str, str]
Measure = Callable[..., harness.Run]
Executions = list[list[tuple[str, int]]]
SMALL = ("small_int8", "forward")
TOO_LONG = ("ic_f32", "kws_f32", "vww_f32")
EVERY = "ETHARNESS_EVERY_MODEL" in os.environ
OTHER_VERILATOR = os.environ.get("ETHARNESS_OTHER_VERILATOR")
UPLOADED_BYTES = 60_000
"""Larger models are placed in the image: an upload takes hundreds of cycles per byte."""
POLLED = ("npu_int", "npu_str")
"""The firmware reads the clock until the simulated NPU is done: another image, of which the same
reading comes some instructions later, may read it once more."""
RUNS = 3
LOAD_FROM_0 = b"\x03\x20\x00\x00"  # lw zero, 0(zero)
REFUSALS = ("bytes", "no backend")
TRIED = [model for model in every_method() if EVERY and model[0] not in TOO_LONG] or [SMALL]
on_every_core = pytest.mark.parametrize("core", sampled(CORES, "ibex"))
for_models = pytest.mark.parametrize("model", TRIED, ids="-".join)


@pytest.fixture(scope="module")
def measure(tmp_path_factory: pytest.TempPathFactory) -> Measure:
    """Run a model on the board of a core, once for all tests that ask for the same."""

    @cache
    def run(
        core: RtlCore,
        model: Model = SMALL,
        *,
        instructions: bool = False,
        wait_states: int = 0,
        qemu: bool = False,
    ) -> harness.Run:
        directory = tmp_path_factory.mktemp("rtl")
        name = f"rtl-{core}" + ("-instructions" if instructions else "")
        target = QEMU if qemu else None
        if wait_states:
            target = f'target = {{ kind = "rtl", core = "{core}", wait_states = {wait_states} }}'
        file, method = MODELS / f"{model[0]}.pte", model[1]
        try:
            return harness.run(
                file,
                board=board_file(directory, name, target),
                runs=RUNS if model == SMALL else 1 if wait_states else 2,
                method=method,
                inputs=saved_inputs(*model, directory),
                placed=file.stat().st_size > UPLOADED_BYTES,
                output=directory / "run",
            )
        except TargetError as error:
            if model == SMALL or not any(why in error.message for why in REFUSALS):
                raise
            pytest.skip(error.message)

    return run


def timed(run: harness.Run) -> CallTree:
    """The events of a run, of which some have a time."""
    tree = Subject(run.trace).tree
    assert np.count_nonzero(tree.total) > 2 * run.result.runs_completed
    return tree


def executions(run: harness.Run) -> Executions:
    """Name and ticks of the timed events of each execution, in log order."""
    names = [run.trace.names[name] if name >= 0 else "" for name in run.trace.name]
    rows = [row for row in zip(names, timed(run).total.tolist(), strict=True) if row[1]]
    ends = [at + 1 for at, (name, _) in enumerate(rows) if name == "Method::execute"]
    assert len(ends) == run.result.runs_completed > 0
    first = [name for name, _ in rows].index("Program::load_method") + 1
    return [rows[begin:end] for begin, end in pairwise([first, *ends])]


def instructions(run: harness.Run, core: RtlCore, model: Model) -> Executions:
    """The executions of a run; only their kernels if QEMU's image may wait longer."""
    found = executions(run)
    if core != "vexriscv" or model[0] not in POLLED:
        return found
    return kernels(found)


def kernels(found: Executions) -> Executions:
    """Executions without what may wait for a delegate."""
    return [[one for one in events if one[0].startswith("native_call_")] for events in found]


def on_qemu(measure: Measure, core: RtlCore, model: Model) -> harness.Run:
    """A run of the instructions that a core executes; QEMU has no memory where VexRiscv's is."""
    return measure("cv32e40p" if core == "vexriscv" else core, model, instructions=True, qemu=True)


def all_at_least(longer: Executions, shorter: Executions) -> bool:
    """Whether no event takes less than the same event elsewhere."""
    return all(
        name == same and ticks >= fewer
        for one, other in zip(longer, shorter, strict=True)
        for (name, ticks), (same, fewer) in zip(one, other, strict=True)
    )


def outputs(run: harness.Run) -> list[bytes]:
    assert run.directory is not None
    return [path.read_bytes() for path in sorted((run.directory / "outputs").iterdir())]


@for_models
@on_every_core
def test_instructions_and_outputs_are_those_of_qemu(
    measure: Measure, core: RtlCore, model: Model
) -> None:
    rtl = measure(core, model, instructions=True)
    qemu = on_qemu(measure, core, model)
    assert rtl.passed
    assert instructions(rtl, core, model) == instructions(qemu, core, model) != []
    assert outputs(rtl) == outputs(qemu) != []


@pytest.mark.parametrize("core", sampled(["cv32e40p", "ibex"], "ibex"))
@pytest.mark.long
def test_loading_takes_the_same_instructions_for_the_same_image(
    measure: Measure, core: RtlCore
) -> None:
    rtl = measure(core, instructions=True)
    qemu = measure(core, instructions=True, qemu=True)
    assert rtl.result.target.build_id == qemu.result.target.build_id
    assert timed(rtl).total.tolist() == timed(qemu).total.tolist()


@for_models
@on_every_core
def test_no_event_has_fewer_cycles_than_instructions(
    measure: Measure, core: RtlCore, model: Model
) -> None:
    cycles = executions(measure(core, model))
    retired = executions(on_qemu(measure, core, model))
    assert all_at_least(cycles, retired)
    assert cycles != retired


@for_models
@on_every_core
def test_the_cycles_of_an_event_are_its_own_and_its_childrens(
    measure: Measure, core: RtlCore, model: Model
) -> None:
    """Events of the simulated NPU are on a clock of their own."""
    run = measure(core, model)
    tree, clock = timed(run), run.trace.clock
    assert not tree.backward.any()
    parents = [row for row in range(len(tree.parent)) if tree.children(row).size]
    assert len(parents) >= 2
    for row in parents:
        children = tree.children(row)
        inside = int(tree.total[children[clock[children] == clock[row]]].sum())
        assert int(tree.own[row]) == int(tree.total[row]) - inside >= 0


@for_models
@pytest.mark.parametrize("core", ["cv32e40p", "ibex"])
def test_without_a_cache_the_same_instructions_take_the_same_cycles(
    measure: Measure, core: RtlCore, model: Model
) -> None:
    """A model with state, or of other sizes at each execution, takes other instructions."""
    first, *later = kernels(executions(measure(core, model)))
    retired, *retired_later = kernels(executions(on_qemu(measure, core, model)))
    compared = 0
    for cycles, instructions in zip(later, retired_later, strict=True):
        for event in range(len(retired)):
            if instructions[event] == retired[event]:
                assert cycles[event] == first[event]
                compared += 1
    assert compared >= 1


@for_models
def test_with_caches_the_first_execution_takes_more_cycles(measure: Measure, model: Model) -> None:
    cold, *warm = (dict(one)["Method::execute"] for one in executions(measure("vexriscv", model)))
    assert all(cold > one for one in warm)


@for_models
@on_every_core
@pytest.mark.long
def test_wait_states_never_lower_cycles(measure: Measure, core: RtlCore, model: Model) -> None:
    slow = executions(measure(core, model, wait_states=1))
    fast = executions(measure(core, model))[: len(slow)]
    assert all_at_least(slow, fast)
    assert slow != fast


@for_models
@pytest.mark.parametrize("core", CORES if EVERY else ["vexriscv"])
@pytest.mark.long
def test_wait_states_leave_instructions_unchanged(
    measure: Measure, core: RtlCore, model: Model
) -> None:
    waiting = instructions(measure(core, model, instructions=True, wait_states=1), core, model)
    qemu = instructions(on_qemu(measure, core, model), core, model)
    assert waiting == qemu[: len(waiting)]


PLAN = """
schema = 1
output = "out"
[[model]]
file = "small_int8.pte"
runs = 3
""" + "".join(f'[[board]]\nboard = "rtl-{core}"\n' for core in CORES)


@pytest.mark.long
def test_a_nightly_run_measures_the_same_cycles(
    measure: Measure, tmp_path: Path, etharness: Callable[..., CommandResult]
) -> None:
    """All boards at once, each in processes of its own."""
    night = etharness("nightly", written_plan(tmp_path, PLAN))
    assert night.code == 0, night.out + night.err
    found = [harness.load(path.parent) for path in tmp_path.glob("out/*/runs/**/result.json")]
    runs = {run.board: run for run in found}
    assert sorted(runs) == [f"rtl-{core}" for core in CORES]
    for core in CORES:
        assert executions(runs[f"rtl-{core}"]) == executions(measure(core))


@pytest.mark.skipif(OTHER_VERILATOR is None, reason="needs ETHARNESS_OTHER_VERILATOR, its path")
@on_every_core
def test_two_verilators_agree(
    measure: Measure, core: RtlCore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = measure(core)
    monkeypatch.setenv("ETHARNESS_BUILD_DIR", str(tmp_path / "build"))
    monkeypatch.setattr("harness.extensions.simulators.rtl.find_verilator", lambda: OTHER_VERILATOR)
    run = harness.run(MODELS / "small_int8.pte", board=f"rtl-{core}", runs=RUNS)
    assert timed(run).total.tolist() == timed(expected).total.tolist()
    assert outputs(run) == outputs(expected) != []


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
@pytest.mark.long
def test_a_crash_names_the_operator_after_the_reset(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    core: str,
    code: bytes,
    reason: str,
    console: bytes,
) -> None:
    firmware = build_firmware(harness.Board.load(f"rtl-{core}"))
    image = with_patch(firmware.image, "quantized_linear", code, tmp_path / "image")
    patched = dataclasses.replace(firmware, image=image)
    monkeypatch.setattr("harness.runs.run.build_firmware", lambda *_: patched)
    with pytest.raises(RestartedError) as caught:
        harness.run(MODELS / "small_int8.pte", board=f"rtl-{core}", output=tmp_path / "run")
    assert reason in caught.value.message
    assert "native_call_quantized_linear.out (instruction 1)" in caught.value.message
    assert console in (tmp_path / "run/console.log").read_bytes()
