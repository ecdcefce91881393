"""What a delegate's ticks mean, told on the command line, in a board file, in a run directory."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import harness
from tests.conftest import MODELS, ROOT, CommandResult
from tests.support.documents import document

pytestmark = pytest.mark.sim
MODEL = MODELS / "npu_int.pte"
NPU = "simulated NPU"
Etharness = Callable[..., CommandResult]


def delegated(found: Any) -> dict[tuple[int, int], float]:
    """Total nanoseconds of each of the delegate's events, by instruction and debug id."""
    return {
        (op["instruction"], op["delegate_int"]): op["ns"]["total"]
        for op in found["operators"]
        if op["delegate_int"] != -1
    }


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("npu") / "run"
    harness.run(MODEL, board="qemu-mps2-an385", runs=3, output=path)
    return path


def decoded(etharness: Etharness, *arguments: object) -> Any:
    code, out, err = etharness("decode", *arguments, "--json")
    assert (code, err) == (0, "")
    return document("decode", out)


def test_an_ed00_file_with_a_time_scale_says_what_the_declared_clock_said(
    directory: Path, etharness: Etharness, tmp_path: Path
) -> None:
    """The NPU's ticks are 3/8 of the CPU's rate, which the device log knows and ED00 cannot say."""
    declared = delegated(decoded(etharness, directory))
    assert len(declared) == 5
    alone = tmp_path / "alone.etdp"
    alone.write_bytes((directory / "trace.etdp").read_bytes())
    cpu = ["--clock-hz", "25e6"]
    wrong = delegated(decoded(etharness, alone, *cpu))
    assert all(wrong[key] == pytest.approx(declared[key] * 3 / 8) for key in declared)
    for scale in ("*=3/8, 24 bits", "re:[0-9]=9.375 MHz, 24 bits", "*=0.375, 24 bits"):
        assert delegated(decoded(etharness, alone, *cpu, "--time-scale", scale)) == declared


def test_a_declared_clock_may_be_overridden_for_a_part_of_the_events(
    directory: Path, etharness: Etharness
) -> None:
    declared = delegated(decoded(etharness, directory))
    faster = delegated(decoded(etharness, directory, "--time-scale", "1=2"))
    for (instruction, number), total in faster.items():
        assert total == declared[instruction, number] / (2 if number == 1 else 1)
    named = delegated(decoded(etharness, directory, "--time-scale", "SimulatedNpu=18.75 MHz"))
    assert named == {key: total / 2 for key, total in declared.items()}


def test_a_budget_is_held_against_what_the_ticks_mean(
    directory: Path, etharness: Etharness, tmp_path: Path
) -> None:
    found = decoded(etharness, directory)
    longest = max(op["ns"]["max"] for op in found["operators"] if op["delegate_int"] != -1) / 1000
    budget = tmp_path / "budget.toml"
    budget.write_text(
        f'schema = 1\n[[time]]\nevent = ""\nstatistic = "max"\nlimit_us = {1.01 * longest}\n'
    )
    arguments = ["check", directory, "--budget", budget]
    assert etharness(*arguments)[0] == 0
    assert etharness(*arguments, "--time-scale", "*=1/2")[0] == 1


def test_a_run_records_the_scales_of_its_board_and_of_its_command_line(
    etharness: Etharness, tmp_path: Path
) -> None:
    board = tmp_path / "native.toml"
    text = (ROOT / "boards/native.toml").read_text()
    text = "\n".join(line for line in text.splitlines() if not line.startswith("budget"))
    board.write_text(text + '\n[time_scales]\n"0" = "2"\n"*" = "5"\n')
    run = ["run", "--board", board, "--model", MODEL, "-o", tmp_path / "out", "--json"]
    code, out, err = etharness(*run, "--time-scale", "*=4")
    assert (code, err) == (0, "")
    result = document("result", out)
    assert result["time_scales"] == {"*": "4", "0": "2"}
    calls = result["model"]["delegates"]
    assert [(each["instruction"], each["backend"]) for each in calls] == [
        (number, "SimulatedNpu") for number in (0, 2)
    ]
    assert all("no decoder of its blob" in each["work"]["notes"][0] for each in calls)
    quality = {quality["clock"]: quality for quality in result["clock_quality"]}
    assert set(quality) == {"CLOCK_MONOTONIC", f"{NPU} [*]"}
    assert quality[f"{NPU} [*]"]["events"] == 5

    found = decoded(etharness, tmp_path / "out")
    clocks = {clock["name"]: clock["hz"] for clock in found["clocks"]}
    assert clocks[f"{NPU} [*]"] == 4 * clocks[NPU]
    # Another scale for some, and for the rest what the run recorded.
    again = delegated(decoded(etharness, tmp_path / "out", "--time-scale", "0=8"))
    before = delegated(found)
    assert again == {key: total / (2 if key[1] == 0 else 1) for key, total in before.items()}


@pytest.mark.parametrize(
    ("scale", "complaint"),
    [
        ("npu", "invalid time scale 'npu'"),
        ("*=fast", "invalid rate 'fast'"),
        ("*=@x", "entry point 'x' not found"),
    ],
)
def test_a_wrong_scale_is_refused_before_anything_is_started(
    scale: str, complaint: str, etharness: Etharness, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    code, _, err = etharness(
        "run", "--board", "native", "--model", MODEL, "-o", out, "--time-scale", scale
    )
    assert code == 2
    assert complaint in err
    assert not (out / "result.json").exists()


def with_layout(directory: Path, board: str, layout: str) -> Path:
    """Write a copy of a board file, without a budget, with a layout of the NPU's metadata."""
    lines = (ROOT / f"boards/{board}.toml").read_text().splitlines()
    lines = [line for line in lines if not line.startswith("budget")]
    file = directory / f"{board}.toml"
    file.write_text("\n".join([*lines, "[metadata]", f'SimulatedNpu = "{layout}"', ""]))
    return file


@pytest.mark.parametrize("board", ["native", "qemu-riscv32-virt"])
def test_counts_in_metadata_are_counters_of_the_run(
    board: str, etharness: Etharness, tmp_path: Path
) -> None:
    """The simulated NPU logs MACs and bytes; on RISC-V the core counts instructions beside them."""
    file = with_layout(tmp_path, board, "npu_macs:u32, npu_bytes:u32")
    arguments = ["run", "--board", file, "--model", MODEL, "-o", tmp_path / "run"]
    cores = ["instret"] if board != "native" else []
    code, out, err = etharness(*arguments, *(f"--counters={name}" for name in cores))
    assert (code, err) == (0, "")
    assert "npu_macs" in out
    assert "without a count" not in out
    trace = harness.load(tmp_path / "run").trace
    assert [counter.name for counter in trace.counters] == [*cores, "npu_macs", "npu_bytes"]
    npu = np.flatnonzero(trace.metadata[:, 1] > 0)
    assert len(npu) == 5
    logged = [struct.unpack("<2I", trace.metadata_of(row) or b"") for row in npu.tolist()]
    assert trace.counts[npu, -2:].tolist() == [list(pair) for pair in logged]
    others = np.setdiff1d(np.arange(len(trace)), npu)
    assert (trace.counts[others, -2:] == -1).all()
    for operator in decoded(etharness, tmp_path / "run")["operators"]:
        assert ("npu_macs" in operator.get("counters", {})) == (operator["delegate_int"] != -1)
    # A log alone knows no backends, but its events have ids.
    alone = tmp_path / "alone.etlog"
    alone.write_bytes((tmp_path / "run" / "trace.etlog").read_bytes())
    layout = ("--metadata", "re:[0-9]+=npu_macs:u32, npu_bytes:u32")
    [found, recorded] = [
        [operator.get("counters") for operator in decoded(etharness, *given)["operators"]]
        for given in ((alone, *layout), (tmp_path / "run",))
    ]
    assert found == recorded
    code, _, err = etharness("decode", alone, "--metadata", "npu_macs:u32")
    assert (code, "no PATTERN=LAYOUT" in err) == (2, True)


def test_a_counter_of_a_delegate_has_a_name_of_its_own(
    etharness: Etharness, tmp_path: Path
) -> None:
    file = with_layout(tmp_path, "native", "cycles:u32")
    arguments = ["run", "--board", file, "--model", MODEL, "--counters", "cycles"]
    code, _, err = etharness(*arguments, "-o", tmp_path / "run")
    assert code == 2
    assert "metadata of 'SimulatedNpu': the core has a counter cycles, too" in err
    assert not (tmp_path / "run").exists()
