"""Energy of a run in QEMU, measured by a PPK2 that plays a current locked to the run.

The board's clock is emulated: it counts instructions of our C kernels, 40 to a tick of 25 MHz. The
meter's clock is another one, with drift, wander and jitter, so times and joules are of the model of
a current, not of a chip.
"""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest

import harness
from harness import Kind, MeterRequest, Trace
from harness.extensions.energy.event_energy import align_recording, event_energy
from harness.extensions.energy.meters import open_meter
from harness.extensions.energy.recording import read_recording
from harness.extensions.energy.run import MeterRecorder
from tests.conftest import FIXTURES, MODELS, ROOT, CommandResult
from tests.sim.test_cancel import Command
from tests.support.bundled import FIXTURE
from tests.support.currents import VOLTS, TrueRun, decoded, true_run, with_losses, words_of
from tests.support.fake_ppk2 import FakePpk2, MarkerPin, Unplugged
from tests.support.nights import PLAN, written_plan

pytestmark = pytest.mark.sim

TRIALS = int(os.environ.get("ETHARNESS_ENERGY_TRIALS", "20"))
RUNS = 10
LONG_S = 1e-3
LARGEST_SHARE = 0.05


@contextmanager
def board_with_pin(folder: Path, source: str) -> Iterator[tuple[Path, MarkerPin]]:
    """A board file of an emulated MPS2 whose marker pin a test hears."""
    pin = MarkerPin(folder / "pin")
    text = source.replace('"shift=0"]', f'"shift=0", "-serial", "unix:{pin.path}"]')
    path = folder / "qemu-mps2-an386.toml"
    path.write_text(text.replace('budget = "budgets/default.toml"\n', ""))
    try:
        yield path, pin
    finally:
        pin.close()


def following(pin: MarkerPin, words: np.ndarray) -> Iterator[bytes]:
    """Yield samples, each edge only once the board's pin had it, and nothing while waiting."""
    level = (words >> 24) & 1
    edges = np.flatnonzero(np.diff(level)) + 1
    for number, part in enumerate(np.split(words, edges)):
        while len(pin.edges) < number:
            yield b""
        yield part.astype("<u4").tobytes()


def chunks_of(words: np.ndarray, random: np.random.Generator) -> Iterator[bytes]:
    """Yield the bytes of samples as a USB port delivers them, in pieces of any length."""
    data = words.astype("<u4").tobytes()
    at = 0
    while at < len(data):
        size = int(random.integers(1, 8192))
        yield data[at : at + size]
        at += size


@dataclass
class Qemu:
    """A run that was not measured, whose repetition logs the same ticks."""

    board: str
    trace: Trace


@pytest.fixture(scope="module")
def qemu(tmp_path_factory: pytest.TempPathFactory) -> Qemu:
    board = (ROOT / "boards/qemu-mps2-an386.toml").read_text()
    output = tmp_path_factory.mktemp("energy") / "run"
    finished = harness.run(
        MODELS / "kws_int8.pte", board="qemu-mps2-an386", runs=RUNS, output=output
    )
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


@pytest.mark.long
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


def assert_exported(
    run: Path, true: TrueRun, folder: Path, etharness: Callable[..., CommandResult]
) -> None:
    """Assert that exports have the true joules and the true current, within bounds."""
    for name in ("json", "csv", "parquet", "kineto", "perfetto"):
        assert etharness("export", run, "-f", name, "-o", folder / name).code == 0
    joules = true.joules()
    events = [event["energy"] for event in json.loads((folder / "json").read_text())["events"]]
    known = [number for number, energy in enumerate(events) if energy]
    assert 0 < len(known) < len(events)
    for number in known:
        assert abs(events[number]["joules"] - joules[number]) <= events[number]["joules_bound"]
    with (folder / "csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    table = pyarrow.parquet.read_table(folder / "parquet").to_pylist()
    for name in ("joules", "joules_bound", "average_amperes", "peak_amperes"):
        values = [energy.get(name) for energy in events]
        assert [float(row[name]) if row[name] else None for row in rows] == values
        assert [row[name] for row in table] == values
    drawn = json.loads((folder / "kineto").read_text())["traceEvents"]
    slices = {each["args"]["Ev Idx"]: each for each in drawn if "Ev Idx" in each["args"]}
    assert [n for n in sorted(slices) if "energy_nJ" in slices[n]["args"]] == known
    for number in known:
        found = slices[number]["args"]
        assert abs(found["energy_nJ"] - 1e9 * joules[number]) <= found["energy_bound_nJ"]
    current = [(each["ts"], each["args"]["uA"]) for each in drawn if "uA" in each["args"]]
    whole = next(slices[n] for n in known if slices[n]["name"] == "Method::execute")
    inside = [amperes for ts, amperes in current if 0 <= ts - whole["ts"] < whole["dur"]]
    assert np.mean(inside) == pytest.approx(whole["args"]["average_current_uA"], rel=0.01)
    assert b"current [uA]" in (folder / "perfetto").read_bytes()
    assert b"energy_bound_nJ" in (folder / "perfetto").read_bytes()


@pytest.mark.long
def test_a_file_of_another_program_measures_a_run(
    qemu: Qemu, tmp_path: Path, etharness: Callable[..., CommandResult]
) -> None:
    random = np.random.default_rng(2)
    true = true_run(qemu.trace, random)
    samples = decoded(words_of(true, random))
    rows = zip(samples.amperes.tolist(), samples.marker.tolist(), strict=True)
    lines = [
        f"{number / 100:.2f},{1e6 * amperes:.3f},{int(high)}0000000"
        for number, (amperes, high) in enumerate(rows)
        if not 3000 <= number < 3100
    ]
    file, run = tmp_path / "power.csv", tmp_path / "run"
    with board_with_pin(tmp_path, qemu.board) as (board, pin):

        def export() -> None:
            while len(pin.edges) < 2 * RUNS:
                time.sleep(0.01)
            file.write_text("\n".join(["Timestamp(ms),Current(uA),D0-D7", *lines]))

        exporting = threading.Thread(target=export, daemon=True)
        exporting.start()
        done = etharness(
            *("run", "--board", board, "--model", "kws_int8", "--runs", str(RUNS), "-o", run),
            *("--energy", f"csv:{file}", "--volts", str(VOLTS)),
        )
        exporting.join()
    assert done.code == 0, done.err
    assert_inside(qemu.trace, true, run / "power.samples")
    assert_exported(run, true, tmp_path, etharness)
    assert "100 samples lost in 1 gap" in done.out
    assert etharness("check", run).code == 0
    assert "Energy of an event" in etharness("compare", run, run).out
    document = json.loads((run / "result.json").read_text())
    (whole,) = (op for op in document["energy"]["operators"] if op["name"] == "Method::execute")
    assert (whole["events"], whole["measured"]) == (RUNS, RUNS - 1)


def test_a_board_whose_pin_is_not_wired_says_so(
    ppk2: Callable[..., FakePpk2],
    tmp_path: Path,
    etharness: Callable[..., CommandResult],
) -> None:
    device: FakePpk2 = ppk2(lambda: device.idle())
    budget = tmp_path / "budget.toml"
    budget.write_text("schema = 1\n[[energy]]\nevent = 'Method::execute'\nlimit_uj = 1e6\n")
    done = etharness(
        *("run", "--board", "qemu-mps2-an386", "--model", "kws_int8", "-o", tmp_path / "run"),
        *("--energy", f"ppk2:{device.port}", "--volts", str(VOLTS), "--marker-pin", "5"),
        *("--budget", budget),
    )
    assert done.code == 1
    assert "energy: unknown: the recording shows no edge of the marker pin" in done.out
    assert "B14" in done.out


def test_a_meter_that_is_unplugged_costs_no_trace(
    qemu: Qemu,
    ppk2: Callable[..., FakePpk2],
    tmp_path: Path,
    etharness: Callable[..., CommandResult],
) -> None:
    random = np.random.default_rng(4)
    true = true_run(qemu.trace, random)
    words = words_of(true, random)
    edges = np.flatnonzero(np.diff((words >> 24) & 1))
    with board_with_pin(tmp_path, qemu.board) as (board, pin):

        def play() -> Iterator[bytes]:
            yield from following(pin, words[: edges[7] + 50])  # four executions
            while len(pin.edges) < 9:
                yield b""
            raise Unplugged

        device = ppk2(play)
        run = tmp_path / "run"
        done = etharness(
            *("run", "--board", board, "--model", "kws_int8", "--runs", str(RUNS), "-o", run),
            *("--energy", f"ppk2:{device.port}", "--volts", str(VOLTS)),
        )
    assert done.code == 75
    assert f"the PPK2 on {device.port} is gone" in done.err
    document = json.loads((run / "result.json").read_text())
    assert document["failure"]["kind"] == "MeterError"
    assert document["runs_completed"] == RUNS
    assert document["verdict"]["passed"]
    assert len(document["model"]["outputs"]) == 1
    (whole,) = (op for op in document["energy"]["operators"] if op["name"] == "Method::execute")
    assert (whole["events"], whole["measured"]) == (RUNS, 4)
    assert_inside(qemu.trace, true, run / "power.samples")
    etharness("report", run, "-o", tmp_path / "run.md")
    page = (tmp_path / "run.md").read_text()
    assert "the recording is incomplete: the PPK2 on" in page
    assert "4 of 10" in page


@pytest.mark.parametrize(
    ("content", "said"),
    [(None, "No such file"), ("Time(ms),Current(uA)\n0,1\n", "no column for the marker pin")],
)
def test_a_file_that_cannot_be_used_costs_no_trace(
    content: str | None,
    said: str,
    tmp_path: Path,
    etharness: Callable[..., CommandResult],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("harness.extensions.energy.meters._WAIT_S", 0.5)
    file, run = tmp_path / "power.csv", tmp_path / "run"
    if content is not None:
        file.write_text(content)
        later = time.time() + 3600
        os.utime(file, (later, later))
    done = etharness(
        *("run", "--board", "native", "--model", "small_int8", "-o", run),
        *("--energy", f"csv:{file}", "--volts", str(VOLTS)),
    )
    assert done.code == 75
    assert said in done.err
    document = json.loads((run / "result.json").read_text())
    assert len(document["model"]["outputs"]) == 1
    assert said in document["energy"]["unknown"]
    assert not document["energy"]["operators"]
    etharness("report", run, "-o", tmp_path / "run.md")
    assert "energy: unknown" in (tmp_path / "run.md").read_text()
    assert "Method::execute" in etharness("decode", run).out


@pytest.mark.parametrize("place", ["", "missing/power.csv"])
def test_a_wrong_place_of_a_file_starts_nothing(
    place: str, tmp_path: Path, etharness: Callable[..., CommandResult]
) -> None:
    run = tmp_path / "run"
    done = etharness(
        *("run", "--board", "native", "--model", "small_int8", "-o", run),
        *("--energy", f"csv:{tmp_path / place}", "--volts", str(VOLTS)),
    )
    assert done.code == 2
    assert "a folder" in done.err or "folder does not exist" in done.err
    assert not run.exists()


@pytest.mark.long
def test_a_streamed_run_is_measured(
    qemu: Qemu,
    ppk2: Callable[..., FakePpk2],
    tmp_path: Path,
    etharness: Callable[..., CommandResult],
) -> None:
    model = MODELS / "kws_int8.pte"
    streamed = harness.run(
        model, board="qemu-mps2-an386", runs=3, output=tmp_path / "ref", stream=True
    )
    assert streamed.trace is not None
    random = np.random.default_rng(5)
    true = true_run(streamed.trace, random)
    words, run = words_of(true, random), tmp_path / "run"
    with board_with_pin(tmp_path, qemu.board) as (board, pin):
        device = ppk2(lambda: following(pin, words))
        done = etharness(
            *("run", "--board", board, "--model", "kws_int8", "--runs", "3", "-o", run),
            *("--energy", f"ppk2:{device.port}", "--volts", str(VOLTS), "--stream"),
        )
    assert done.code == 0, done.err
    known = assert_inside(streamed.trace, true, run / "power.samples")
    assert known[streamed.trace.chain >= 0].all()


def test_the_steps_of_a_sequence_are_measured(
    qemu: Qemu, tmp_path: Path, etharness: Callable[..., CommandResult]
) -> None:
    """One recording has all of them; the host reads outputs and log between two steps."""
    steps, run, file = tmp_path / "steps", tmp_path / "run", tmp_path / "power.csv"
    for number, array in enumerate(np.load(FIXTURES / "kws_int8.npz")["inputs"][:3]):
        (steps / f"{number}/inputs").mkdir(parents=True)
        np.save(steps / f"{number}/inputs/0.npy", array.reshape(1, 1, 49, 10))
    made: list[TrueRun] = []

    def export(pin: MarkerPin) -> None:
        while len(pin.edges) < 6 or not (run / "trace.etdp").exists():
            time.sleep(0.01)
        trace = harness.load(run / "trace.etlog").trace
        assert trace is not None
        trace = replace(trace, clocks=qemu.trace.clocks)  # the log itself has no rate
        made.append(true_run(trace, np.random.default_rng(3)))
        samples = decoded(words_of(made[0], np.random.default_rng(4)))
        rows = zip(samples.amperes.tolist(), samples.marker.tolist(), strict=True)
        lines = [
            f"{n / 100:.2f},{1e6 * amperes:.3f},{int(high)}0000000"
            for n, (amperes, high) in enumerate(rows)
        ]
        file.write_text("\n".join(["Timestamp(ms),Current(uA),D0-D7", *lines]))

    with board_with_pin(tmp_path, qemu.board) as (board, pin):
        exporting = threading.Thread(target=export, args=(pin,), daemon=True)
        exporting.start()
        done = etharness(
            *("run", "--board", board, "--model", "kws_int8", "--steps", steps, "-o", run),
            *("--energy", f"csv:{file}", "--volts", str(VOLTS)),
        )
        exporting.join()
        assert pin.edges == "10" * 3
    assert done.code == 0, done.err
    trace = harness.load(run).trace
    assert trace is not None
    assert_inside(trace, made[0], run / "power.samples")
    document = json.loads((run / "result.json").read_text())
    (whole,) = (op for op in document["energy"]["operators"] if op["name"] == "Method::execute")
    assert (whole["events"], whole["measured"]) == (3, 3)


def test_each_test_set_of_a_program_is_recorded(
    ppk2: Callable[..., FakePpk2], tmp_path: Path, etharness: Callable[..., CommandResult]
) -> None:
    recordings = 0

    def play() -> Iterator[bytes]:
        nonlocal recordings
        recordings += 1
        if recordings == 3:
            yield from islice(device.idle(), 2)
            raise Unplugged
        yield from device.idle()

    device, run = ppk2(play), tmp_path / "run"
    done = etharness(
        *("run", "--board", "native", "--model", FIXTURE, "-o", run),
        *("--energy", f"ppk2:{device.port}", "--volts", str(VOLTS)),
    )
    assert done.code == 75
    sets = sorted((run / "test_sets").iterdir())
    documents = [json.loads((each / "result.json").read_text()) for each in sets]
    assert [document["exit_code"] for document in documents] == [0] * 5
    assert [(each / "power.samples").exists() for each in sets] == [True] * 3 + [False] * 2
    unknown = [document["energy"]["unknown"] for document in documents]
    assert ["no edge of the marker pin" in each for each in unknown[:3]] == [True] * 3
    assert ["is gone" in each for each in unknown] == [False] * 3 + [True] * 2
    assert "is gone" in documents[2]["energy"]["missing"]


@pytest.mark.long
def test_an_interrupted_run_keeps_the_joules_of_its_executions(
    qemu: Qemu, ppk2: Callable[..., FakePpk2], tmp_path: Path
) -> None:
    random = np.random.default_rng(6)
    words = words_of(true_run(qemu.trace, random), random)
    with board_with_pin(tmp_path, qemu.board) as (board, pin):
        device = ppk2(lambda: following(pin, words))
        command = Command(
            tmp_path,
            *("run", "--board", str(board), "--model", "kws_int8", "--runs", "1000000"),
            *("-o", "run", "--energy", f"ppk2:{device.port}", "--volts", str(VOLTS)),
        )
        while not pin.edges:
            assert not command.is_over, command.end().err
            time.sleep(0.002)
        command.signal(signal.SIGINT)
        done = command.end()
    assert done.code == 130
    assert "its trace is saved" in done.err
    assert device.commands[-1] == b"\x07"
    document = json.loads((tmp_path / "run/result.json").read_text())
    (whole,) = (op for op in document["energy"]["operators"] if op["name"] == "Method::execute")
    assert whole["measured"] == whole["events"] == document["runs_completed"]
    assert document["energy"]["samples"] == len(read_recording(tmp_path / "run/power.samples"))
    assert document["energy"]["missing"] == ""


def test_the_meter_of_a_unit_records_its_runs_and_nights(
    ppk2: Callable[..., FakePpk2], tmp_path: Path, etharness: Callable[..., CommandResult]
) -> None:
    device: FakePpk2 = ppk2(lambda: device.idle())
    units = tmp_path / "units.toml"
    units.write_text(
        'schema = 1\n[[unit]]\nid = "a"\nboard = "native"\n'
        f'energy = {{ meter = "ppk2:{device.port}", volts = {VOLTS}, marker_pin = 5 }}\n'
        '[[unit]]\nid = "b"\nboard = "native"\n'
        f'energy = {{ meter = "ppk2:/dev/no-such-port", volts = {VOLTS} }}\n'
    )
    simulated = PLAN.replace('board = "native"', 'board = "native"\ncount = 1')
    plan = written_plan(tmp_path, simulated + '[[board]]\nboard = "native"\nunits = ["a"]\n')
    done = etharness("nightly", plan, "--units", units)
    assert done.code == 0, done.out + done.err
    recorded = {
        document["unit"]: document["energy"]
        for file in (tmp_path / "out").glob("*/runs/**/result.json")
        for document in [json.loads(file.read_text())]
    }
    assert recorded["a"]["meter"] == "PPK2"
    assert "no edge of the marker pin" in recorded["a"]["unknown"]
    assert recorded["native-1"] is None
    command = ("run", "--unit", "b", "--units", units, "--model", "small_int8", "-o")
    absent = etharness(*command, tmp_path / "absent")
    assert absent.code == 75
    assert "/dev/no-such-port" in absent.err
    assert etharness(*command, tmp_path / "none", "--energy", "none").code == 0
    assert json.loads((tmp_path / "none/result.json").read_text())["energy"] is None


def test_a_run_without_a_meter_loads_nothing_of_it(tmp_path: Path) -> None:
    """Not even with a history, whose tables have columns of energy."""
    command = ["run", "--board", "native", "--model", "small_int8", "-o", "run"]
    script = (
        "import sys; from harness.cli import main\n"
        f"try: main({[*command, '--history', 'runs.sqlite']})\n"
        "except SystemExit as end: print(end.code)\n"
        "rooms = 'harness.extensions.energy'\n"
        "print([name for name in sys.modules if name.startswith(rooms)])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stdout.splitlines()[-2:] == ["0", "[]"]
