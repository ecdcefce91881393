"""Stages about models: every packaged network against its reference, and an ordinary run."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from harness.analyze.workload import instruction_records
from harness.check.fit import fit
from harness.check.invariants.outputs import compare_output
from harness.check.subject import ModelOutput
from harness.config.board import RtlTarget, SerialTarget
from harness.decode.program import Method
from harness.decode.pte import read_program
from harness.errors import DeviceRefusedError, TargetError
from harness.files import data_directory
from harness.link.wire import Region, Status
from harness.qualify.bench import (
    SMALL,
    Bench,
    Reached,
    StageOutcome,
    failed,
    model_bytes,
    passed,
    reference_of,
)
from harness.records.qualification import StageFigure
from harness.runs.device_data import from_bytes, to_bytes
from harness.runs.request import RunRequest
from harness.runs.run import run_model

_METHOD: Final = "forward"
_ORDINARY: Final = "kws_int8"
"""The network of an ordinary run, where it fits."""

_RUNS: Final = 10
"""Executions of a network whose log fits every buffer that the network itself fits."""

_FLOAT_COST: Final = 40
"""Time of a multiply-accumulate in float32 over that in int8, on a core without an FPU."""

_TICKS_PER_MAC: Final = 10
"""Ticks of a multiply-accumulate in int8 on a slow core, until a network has shown them."""

_PER_EXECUTION_S: Final = 0.5
"""Time of a network besides upload and arithmetic."""

_ALMOST_S: Final = 2.0
"""Seconds left of a stage whose time is as good as over."""

_REFUSALS: Final = (
    Status.TOO_LARGE,
    Status.OUT_OF_MEMORY,
    Status.UNSUPPORTED_OPERATOR,
    Status.UNSUPPORTED_FEATURE,
)
"""What a board may answer for a network of which its board file does not say whether it fits."""


@dataclass(frozen=True, slots=True)
class _Network:
    """A packaged network.

    Attributes:
        name: Its file name without the suffix.
        data: The ``.pte`` file.
        method: Its method.
        macs: Multiply-accumulates of an execution.
        exact: Whether its outputs are those of the reference bit for bit: its kernels compute in
            integers.
    """

    name: str
    data: bytes
    method: Method
    macs: int
    exact: bool


def _packaged() -> list[_Network]:
    """Return the networks with a reference, the smallest first."""
    folder = data_directory("firmware_stub") / "models"
    found = []
    for file in folder.glob("*.pte"):
        data = file.read_bytes()
        method = read_program(data).method(_METHOD)
        assert method is not None  # packaged models have it
        records = [record for chain in instruction_records(method) or () for record in chain]
        found.append(
            _Network(
                name=file.stem,
                data=data,
                method=method,
                macs=sum(record.macs for record in records),
                exact=any(record.name.startswith("cortex_m::") for record in records),
            )
        )
    return sorted(found, key=lambda network: (len(network.data), network.name))


def networks(bench: Bench) -> StageOutcome:
    """Compare the outputs of every network that fits with its reference."""
    found = _Comparison(bench)
    with bench.opened() as reached:
        packaged = _packaged()
        for at, network in enumerate(packaged):
            if not found.add(reached, network):
                found.leave(packaged[at + 1 :])
                break
    figures = [*found.figures]
    figures += [StageFigure(name, "not run: it takes too long") for name in found.late]
    if found.wrong:
        return failed(
            "; ".join(found.wrong),
            "run it with --values intermediate and compare with ExecuTorch (docs/differences.md); "
            "check the compiler's options of the core",
            *figures,
        )
    if not found.matched:
        return failed("no packaged network fits", "see `etharness inspect` for what is missing")
    matched, late = len(found.matched), len(found.late)
    more = f"; time was over for the other {late}" if late else ""
    message = f"{matched} of {matched + late} networks that fit match{more}"
    if late and not (bench.quick or bench.board.emulated_time):
        return StageOutcome("not run", message, tuple(figures), "raise --limit, and --resume")
    return passed(message, *figures)


class _Comparison:
    """Networks compared so far: those that match, those that do not, and those too slow to run."""

    def __init__(self, bench: Bench) -> None:
        self._bench, self._pace = bench, _Pace(bench)
        self.matched: list[str] = []
        self.wrong: list[str] = []
        self.late: list[str] = []
        self.figures: list[StageFigure] = []

    def add(self, reached: Reached, network: _Network) -> bool:
        """Compare a network if it fits; return whether the board can be asked for another one."""
        bench = self._bench
        fits = fit(network.method, len(network.data), bench.board).fits
        if fits is False:
            return True
        if self._pace.predicted_s(network) > bench.left_s:
            self.late.append(network.name)
            return True
        began = time.monotonic()
        try:
            fault, error = _compare(bench, reached, network)
        except DeviceRefusedError as refused:
            if fits is None and refused.status in _REFUSALS:
                return True
            fault, error = refused.message, 0.0
        except TargetError:
            # A simulator that has not hung may still need hours.
            patient = bench.quick or bench.board.emulated_time
            if not patient or bench.left_s > _ALMOST_S:
                raise
            self.late.append(network.name)
            return False
        self._pace.learn(network, time.monotonic() - began)
        if fault:
            self.wrong.append(f"{network.name}: {fault}")
        else:
            self.matched.append(network.name)
            how = "bit for bit" if network.exact else f"largest error {error:.3g}"
            self.figures.append(StageFigure(network.name, how))
        return True

    def leave(self, others: Sequence[_Network]) -> None:
        """Count networks that nobody has asked the board for, as far as they fit."""
        board = self._bench.board
        fitting = (each for each in others if fit(each.method, len(each.data), board).fits)
        self.late += [network.name for network in fitting]


class _Pace:
    """How long networks take on this board, as far as earlier ones show."""

    def __init__(self, bench: Bench) -> None:
        self._up = bench.up_bytes_s
        # An emulator is quick enough for any first network, and its ticks are many cycles.
        simulated_core = isinstance(bench.board.target, RtlTarget)
        self._first = _TICKS_PER_MAC * (bench.tick_s or 0.0) if simulated_core else 0.0
        self._per_mac: dict[bool, float] = {}

    def predicted_s(self, network: _Network) -> float:
        """Return the expected time of a network, seconds."""
        upload = len(network.data) / self._up if self._up else 0.0
        per_mac = self._per_mac.get(network.exact)
        if per_mac is None:
            per_mac = self._per_mac.get(True, self._first)
            per_mac *= 1 if network.exact else _FLOAT_COST
        return upload + network.macs * per_mac + _PER_EXECUTION_S

    def learn(self, network: _Network, took_s: float) -> None:
        """Learn from a network that took ``took_s`` seconds; small ones show nothing."""
        if network.macs >= 100_000:
            upload = len(network.data) / self._up if self._up else 0.0
            self._per_mac[network.exact] = max(0.0, took_s - upload) / network.macs


def _compare(bench: Bench, reached: Reached, network: _Network) -> tuple[str, float]:
    """Return what is wrong with the outputs of a network, "" if nothing, and the largest error."""
    session = reached.session
    inputs, outputs, runs = reference_of(network.name)
    info = bench.load(reached, network.data)
    for index, (array, tensor) in enumerate(zip(inputs, info.inputs, strict=True)):
        sizes = array.shape if tensor.dynamic else ()
        session.set_input(index, to_bytes(array, tensor), sizes=sizes)
    session.run(runs, timeout_s=bench.execute_s, progress=bench.progress)
    worst = 0.0
    for index, expected in enumerate(outputs):
        declared = session.output_info(index, info.outputs[index])
        value = from_bytes(session.read(Region.OUTPUT, index), declared)
        tolerance = 0.0 if network.exact else None
        output = ModelOutput(f"output {index}", value, expected, tolerance, tolerance)
        differing, reason = compare_output(output)
        if differing != 0:
            return reason, 0.0
        worst = max(worst, output.largest_difference or 0.0)
    return "", worst


def ordinary_run(bench: Bench) -> StageOutcome:
    """Run a network as `etharness run` does, with all its checks, into a run directory."""
    model = SMALL if bench.quick or not _fits(bench, _ORDINARY) else _ORDINARY
    folder = bench.output / "run"
    inputs, outputs, _ = reference_of(model)
    files = [
        _saved(bench.output / "reference" / f"{kind}{index}.npy", array)
        for kind, arrays in (("input", inputs), ("output", outputs))
        for index, array in enumerate(arrays)
    ]
    request = RunRequest(
        board=bench.board_name,
        model=data_directory("firmware_stub") / "models" / f"{model}.pte",
        runs=_RUNS,
        output=folder,
        inputs=tuple(files[: len(inputs)]),
        references=tuple(files[len(inputs) :]),
        port=bench.port,
        leased=bench.leased,
    )
    result = run_model(request, lambda _, done, total: bench.progress(done, total)).result
    checks = result.verdict.checks if result.verdict else ()
    figures = [
        StageFigure("model", model),
        StageFigure("executions", result.runs_completed),
        StageFigure("checks", len(checks)),
        StageFigure("baud", result.baud),
    ]
    for quality in result.clock_quality:
        if quality.half_width_ns is not None:
            bound = round(quality.half_width_ns / 1000, 1)
            figures.append(StageFigure(f"{quality.clock}: events known to within", bound, "us"))
    wrong = [f"{check.code}: {check.rule}: {check.reason}" for check in checks if check.failed]
    if wrong:
        return failed("; ".join(wrong), f"see `etharness report {folder}`", *figures)
    real = "" if isinstance(bench.board.target, SerialTarget) else " (a simulated board)"
    return passed(f"{_RUNS} executions of {model} pass {len(checks)} checks{real}", *figures)


def _fits(bench: Bench, model: str) -> bool:
    """Whether a board runs a model that also takes it no longer than a person would wait."""
    # The source code of a core takes half a minute for an execution.
    if isinstance(bench.board.target, RtlTarget):
        return False
    data = model_bytes(model)
    method = read_program(data).method(_METHOD)
    return method is not None and fit(method, len(data), bench.board).fits is True


def _saved(file: Path, array: np.ndarray) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    np.save(file, array)
    return file
