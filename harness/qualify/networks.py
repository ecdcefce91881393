"""Stages about models: every packaged network against its reference, and an ordinary run."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from harness.analyze.workload import instruction_records
from harness.check.fit import fit
from harness.check.invariants.outputs import compare_output
from harness.check.subject import ModelOutput
from harness.config.board import SerialTarget
from harness.decode.program import Method
from harness.decode.pte import read_program
from harness.errors import DeviceRefusedError
from harness.files import data_directory
from harness.link.wire import Region, Status
from harness.qualify.bench import (
    SMALL,
    Bench,
    Reached,
    StageOutcome,
    failed,
    passed,
    reference_of,
)
from harness.records.qualification import StageFigure
from harness.runs.device_data import from_bytes, to_bytes
from harness.runs.request import RunRequest
from harness.runs.run import run_model

_METHOD: Final = "forward"
_RUNS: Final = 10
"""Executions of a network whose log fits every buffer that the network itself fits."""

_FLOAT_COST: Final = 40
"""Time of a multiply-accumulate in float32 over that in int8, on a core without an FPU."""

_PER_EXECUTION_S: Final = 0.5
"""Time of a network besides upload and arithmetic."""

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
    matched: list[str] = []
    figures: list[StageFigure] = []
    wrong: list[str] = []
    late: list[str] = []
    pace = _Pace(bench.up_bytes_s)
    with bench.opened() as reached:
        for network in _packaged():
            fits = fit(network.method, len(network.data), bench.board).fits
            if fits is False:
                continue
            if pace.predicted_s(network) > bench.left_s:
                late.append(network.name)
                continue
            began = time.monotonic()
            try:
                fault, error = _compare(bench, reached, network)
            except DeviceRefusedError as refused:
                if fits is None and refused.status in _REFUSALS:
                    continue
                fault, error = refused.message, 0.0
            pace.learn(network, time.monotonic() - began)
            if fault:
                wrong.append(f"{network.name}: {fault}")
                continue
            matched.append(network.name)
            how = "bit for bit" if network.exact else f"largest error {error:.3g}"
            figures.append(StageFigure(network.name, how))
    bench.networks = tuple(matched)
    figures += [StageFigure(name, "not run: it takes too long") for name in late]
    if wrong:
        return failed(
            "; ".join(wrong),
            "run it with --values intermediate and compare with ExecuTorch (docs/differences.md); "
            "check the compiler's options of the core",
            *figures,
        )
    if not matched:
        return failed("no packaged network fits", "see `etharness inspect` for what is missing")
    more = f"; {len(late)} more fit, but take longer than --limit allows" if late else ""
    return passed(f"{len(matched)} of {len(matched) + len(late)} networks match{more}", *figures)


class _Pace:
    """How long networks take on this board, as far as earlier ones show."""

    def __init__(self, up_bytes_s: float | None) -> None:
        self._up = up_bytes_s
        self._per_mac: dict[bool, float] = {}

    def predicted_s(self, network: _Network) -> float:
        """Return the expected time of a network, seconds."""
        upload = len(network.data) / self._up if self._up else 0.0
        per_mac = self._per_mac.get(network.exact)
        if per_mac is None:
            per_mac = self._per_mac.get(True, 0.0) * _FLOAT_COST
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
    model = "kws_int8" if "kws_int8" in bench.networks else SMALL
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


def _saved(file: Path, array: np.ndarray) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    np.save(file, array)
    return file
