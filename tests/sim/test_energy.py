"""Energy of a run in QEMU, measured by a PPK2 that plays a current locked to the run.

The board's clock is emulated: it counts instructions of our C kernels, 40 to a tick of 25 MHz. The
meter's clock is another one, with drift, wander and jitter, so times and joules are of the model of
a current, not of a chip.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from harness.analyze.energy import align_recording, event_energy
from harness.files import data_directory
from harness.meter.recorder import MeterRecorder
from harness.meter.recording import read_recording
from harness.meter.source import MeterRequest, open_meter
from harness.records.trace import Kind, Trace
from harness.runs.request import RunRequest
from harness.runs.run import run_model
from tests.conftest import MODELS, CommandResult
from tests.support.currents import VOLTS, TrueRun, chunks_of, true_run, with_losses, words_of
from tests.support.fake_ppk2 import FakePpk2, board_with_pin, following

pytestmark = pytest.mark.sim

TRIALS = int(os.environ.get("ETHARNESS_ENERGY_TRIALS", "20"))
RUNS = 10
LONG_S = 1e-3
LARGEST_SHARE = 0.05


@dataclass
class Qemu:
    """A run that was not measured, whose repetition logs the same ticks."""

    board: str
    trace: Trace


@pytest.fixture(scope="module")
def qemu(tmp_path_factory: pytest.TempPathFactory) -> Qemu:
    board = (data_directory("boards") / "qemu-mps2-an386.toml").read_text()
    output = tmp_path_factory.mktemp("energy") / "run"
    finished = run_model(RunRequest("qemu-mps2-an386", MODELS / "kws_int8.pte", RUNS, output))
    assert finished.trace is not None
    return Qemu(board, finished.trace)


@pytest.fixture
def ppk2() -> Iterator[Callable[..., FakePpk2]]:
    made: list[FakePpk2] = []

    def make(*given: object) -> FakePpk2:
        made.append(FakePpk2(*given))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for each in made:
        each.close()


def assert_inside(trace: Trace, true: TrueRun, recording: Path) -> np.ndarray:
    """Assert that the bounds hold the truth of every event; return which were measured."""
    energy = event_energy(align_recording(trace, read_recording(recording)))
    joules, known = true.joules(), energy.known & (trace.clock == 0)
    assert (joules[known] >= energy.low[known]).all()
    assert (joules[known] <= energy.high[known]).all()
    long = known & (true.end - true.start >= LONG_S)
    share = (energy.high - energy.low)[long] / (energy.high + energy.low)[long]
    assert share.max() <= LARGEST_SHARE
    return known


def try_once(seed: int, trace: Trace, folder: Path) -> None:
    """Play a run through the protocol of a PPK2, measure it, and compare it with the truth."""
    random = np.random.default_rng(seed)
    true = true_run(trace, random)
    words = with_losses(words_of(true, random), random, gaps=int(random.integers(4)))
    device = FakePpk2(lambda: chunks_of(words, random))
    samples = folder / str(seed)
    try:
        meter = open_meter(MeterRequest("ppk2", device.port, VOLTS))
        try:
            with MeterRecorder(meter, samples) as recorder:
                assert recorder.finish() == len(words)
        finally:
            meter.close()
    finally:
        device.close()
    known = assert_inside(trace, true, samples)
    operators = np.flatnonzero((trace.kind == Kind.PROFILE) & (trace.chain >= 0))
    for instruction in np.unique(trace.instruction[operators]):
        rows = operators[trace.instruction[operators] == instruction]
        assert known[rows].any(), f"seed {seed}: instruction {instruction} was never measured"


def test_the_joules_of_every_operator_are_inside_the_bound(qemu: Qemu, tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:  # they wait for the protocol's pauses
        trials = {seed: pool.submit(try_once, seed, qemu.trace, tmp_path) for seed in range(TRIALS)}
    for seed, trial in trials.items():
        error = trial.exception()
        assert error is None, f"seed {seed}: {error}"


def test_a_run_is_measured_beside_it(
    qemu: Qemu,
    ppk2: Callable[..., FakePpk2],
    tmp_path: Path,
    etharness: Callable[..., CommandResult],
) -> None:
    random = np.random.default_rng(1)
    true = true_run(qemu.trace, random)
    words = np.delete(words_of(true, random), slice(2000, 2070))
    with board_with_pin(tmp_path, qemu.board) as (board, pin):
        device = ppk2(lambda: following(pin, words))
        run = tmp_path / "run"
        done = etharness(
            *("run", "--board", board, "--model", "kws_int8", "--runs", str(RUNS), "-o", run),
            *("--energy", f"ppk2:{device.port}", "--volts", str(VOLTS)),
        )
        assert done.code == 0, done.err
        assert pin.edges == "10" * RUNS
    assert device.commands[-1] == b"\x07"
    assert b"\x11\x01" in device.commands  # an ampere meter; the board has a supply of its own
    assert b"\x0d\x0c\xe4" in device.commands
    known = assert_inside(qemu.trace, true, run / "power.samples")
    assert 0 < np.count_nonzero(~known[qemu.trace.chain >= 0]) < np.count_nonzero(known)
    assert "70 samples lost in 1 gap" in done.out
