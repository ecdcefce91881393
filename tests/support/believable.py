"""Believable results: runs that an emulated board executed, as boards on a rack would measure them.

A model is executed once on ``qemu-mps2-an385``. From that run come those of other boards and other
nights: its log keeps all events, and each operator takes the times that the board's speed, the
noise of the night and a commit's change make of it. The rest is what such a board would report.
Nothing else is made up: checks, verdicts and pages are the product's.
"""

from __future__ import annotations

import dataclasses
import hashlib
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

import harness
from harness import (
    Board,
    ClockDomain,
    EvaluatedRun,
    Failure,
    FirmwareSize,
    Ping,
    Result,
    Subject,
    TargetRecord,
    Trace,
    VerdictRecord,
    evaluate_path,
    read_log,
)
from harness.analyze.placement import quality_of_run
from harness.runs.directory import LOG, RunDirectory
from harness.runs.source import subject_of
from harness.testing import device_log_format as fmt

EXECUTED_ON = "qemu-mps2-an385"
EXECUTIONS = 10
FIRST_NIGHT = datetime(2026, 9, 28, 1, 30, tzinfo=UTC)

Floats = npt.NDArray[np.float64]
Warp = Callable[[Any], npt.NDArray[np.int64]]
"""Maps ticks of the executed run to those of another."""

_COUNT_AT = 12
_RECORD = np.dtype(
    [
        *(("kind", "u1"), ("clock", "u1"), ("name", "<u2"), ("instruction", "<u2")),
        *(("chain", "<i2"), ("start", "<u4"), ("end", "<u4")),
    ]
)
_LEAF = "native_call_"
_SECOND = 10**9
_KINDS = {fmt.Record.PROFILE, fmt.Record.BLOCK, fmt.Record.ALLOCATOR, fmt.Record.ALLOCATION}


@dataclass(frozen=True)
class Commit:
    """A commit of the made-up project."""

    subject: str
    author: str

    @property
    def sha(self) -> str:
        return hashlib.sha1(f"{self.author}: {self.subject}".encode()).hexdigest()


COMMITS = (
    Commit("kws: retrain with the noise set of September", "Mei Tanaka"),
    Commit("firmware: place weights in the second flash bank", "Jonas Weber"),
    Commit("ci: cache the toolchain", "Priya Nair"),
    Commit("kernels: unroll the inner loop of conv2d by four", "Jonas Weber"),
    Commit("docs: wiring of the rack", "Ana Costa"),
    Commit("ic: export with per-channel scales", "Mei Tanaka"),
    Commit("kernels: saturate the requantized sum instead of wrapping it", "Jonas Weber"),
    Commit("tools: flash only what has changed", "Priya Nair"),
    Commit("app: move the microphone driver to DMA", "Ana Costa"),
    Commit("kernels: compute depthwise offsets once per row", "Jonas Weber"),
    Commit("ci: run the rack at half past one", "Priya Nair"),
    Commit("kernels: check bounds of conv2d padding at run time", "Luis Ortega"),
)
"""Commits in their order; a step of a history names the one that made it."""


@dataclass(frozen=True)
class Bench:
    """A board on the rack.

    Attributes:
        unit: Its name in the lab.
        board: Its type, a board file of this project.
        slowness: Time of an operator as a multiple of what the executed run took.
        noise: Relative standard deviation of an operator's median from night to night; 0 for an
            emulated board, whose times are those of the executed run.
        port: Its serial port.
    """

    unit: str
    board: str
    slowness: float = 1.0
    noise: float = 0.006
    port: str | None = None


RACK = (
    Bench("rack-1", "nucleo-f446re", 7.7, 0.006, "/dev/ttyACM0"),
    Bench("rack-2", "nucleo-h743zi", 2.1, 0.009, "/dev/ttyACM1"),
    Bench("rack-3", "nrf52840dk", 19.5, 0.004, "/dev/ttyACM2"),
    Bench(f"{EXECUTED_ON}-1", EXECUTED_ON, noise=0.0),
)

MODELS: Mapping[str, tuple[str, ...]] = {
    "kws_int8": tuple(bench.unit for bench in RACK),
    "ad_int8": ("rack-2", f"{EXECUTED_ON}-1"),
    "ic_int8": ("rack-2", f"{EXECUTED_ON}-1"),
}
"""The units that have room for each model."""


@dataclass(frozen=True)
class Change:
    """What a commit did to an operator: its time is multiplied from a night on."""

    night: int
    model: str
    units: tuple[str, ...]
    instruction: int
    factor: float


@dataclass(frozen=True)
class Recipe:
    """How the runs of a history differ.

    Attributes:
        seed: Of all noise.
        changes: What became slower or quicker.
        commits: The commit of each night from 0; the last one stays.
    """

    seed: int = 7
    changes: tuple[Change, ...] = ()
    commits: tuple[Commit, ...] = field(
        default_factory=lambda: tuple(COMMITS[night // 2] for night in range(2 * len(COMMITS)))
    )

    def commit(self, night: int) -> Commit:
        return self.commits[min(night, len(self.commits) - 1)]

    def started(self, night: int, minute: float = 0.0) -> str:
        return (FIRST_NIGHT + timedelta(days=night, minutes=minute)).isoformat()


def executed(model: str, folder: Path, runs: int = EXECUTIONS) -> Path:
    """Execute a model once for all that is made of it; return the run directory."""
    directory = folder / f"executed-{model}-{runs}"
    if directory.exists():
        return directory
    run = harness.run(model, board=EXECUTED_ON, runs=runs, output=directory)
    assert run.result is not None
    assert run.result.exit_code in (0, 1), run.result.failure
    return directory


@dataclass(frozen=True)
class Made:
    """A result with the log of its run."""

    result: Result
    log: bytes
    clocks: tuple[ClockDomain, ...]

    @property
    def subject(self) -> Subject:
        """What is evaluated of it."""
        return subject_of(read_log(self.log, self.clocks), self.result)


def made_result(
    base: Path,
    bench: Bench,
    recipe: Recipe,
    night: int,
    *,
    repeat: int = 1,
    session: str = "",
    model: str = "",
) -> Made:
    """Return what a model takes on a board in a night, with the verdict of the executed run.

    Args:
        base: The executed run.
        bench: The board.
        recipe: What differs.
        night: Number of the night, which sets date, commit and changes.
        repeat: Number of the run in the night.
        session: Label of what was recorded together; by default of the night.
        model: Name of the model; by default that of the executed one.
    """
    source = RunDirectory(base)
    result = source.read_result()
    assert result.model is not None
    assert result.trace is not None
    model = model or Path(result.model.file).stem
    chance = np.random.default_rng([recipe.seed, night, repeat, *f"{model}{bench.unit}".encode()])
    factors = _factors(recipe, bench, model, night, chance)
    board = Board.load(bench.board)
    log, warp = _varied(source.path.joinpath(LOG).read_bytes(), bench, board, factors, chance)
    clocks = (ClockDomain(board.timer.source, Fraction(board.timer.hz), board.timer.bits),)
    own_id = f"{recipe.seed} {night} {repeat} {model} {bench} {session}"
    made = replace(
        result,
        id=hashlib.sha256(own_id.encode()).hexdigest()[:32],
        started_utc=recipe.started(night, 3.0 * repeat + 7.0 * [*MODELS, model].index(model)),
        commit=recipe.commit(night).sha,
        session=session or f"night-{night}",
        model=replace(result.model, file=f"models/{model}.pte"),
        trace=replace(result.trace, sha256=hashlib.sha256(log).hexdigest(), log_bytes=len(log)),
        files=None,
        digest="",
        **_facts(result, board, bench, read_log(log, clocks), warp, chance),
    )
    return Made(made, log, clocks)


def made_run(directory: Path, base: Path, made: Made, budget: Path | None = None) -> EvaluatedRun:
    """Write the run directory of a result, and judge it by a budget, as the run itself does."""
    run = RunDirectory.create(directory)
    run.write(LOG, made.log)
    run.write("console.log", b"")
    assert made.result.model is not None
    for tensor in (*made.result.model.inputs, *made.result.model.outputs):
        run.write(tensor.file, (base / tensor.file).read_bytes())
    result = run.finish(replace(made.result, verdict=None))
    found = evaluate_path(run.path, budget)
    passed = found.verdict.passed
    record = VerdictRecord(passed, str(budget or ""), tuple(found.verdict.checks))
    whole = run.finish(replace(result, verdict=record, exit_code=0 if passed else 1))
    return dataclasses.replace(found, result=whole)


def failed_run(
    directory: Path,
    base: Path,
    bench: Bench,
    recipe: Recipe,
    night: int,
    failure: Failure,
    *,
    session: str = "",
    exit_code: int = 75,
    model: str = "",
) -> Path:
    """Write the run directory of a run that ended before it had a trace.

    ``model`` is the name of what was to run; by default that of the executed model.
    """
    result = RunDirectory(base).read_result()
    assert result.model is not None
    run = RunDirectory.create(directory)
    run.write("console.log", b"")
    run.finish(
        Result(
            id=hashlib.sha256(f"{recipe.seed} {night} {bench} failed".encode()).hexdigest()[:32],
            tool_version=result.tool_version,
            started_utc=recipe.started(night),
            duration_s=21.4,
            board=bench.board,
            port=bench.port,
            unit=bench.unit,
            commit=recipe.commit(night).sha,
            session=session or f"night-{night}",
            runs_requested=EXECUTIONS,
            runs_completed=0,
            seed=0,
            exit_code=exit_code,
            settings=result.settings,
            model=replace(
                result.model, file=f"models/{model or Path(result.model.file).stem}.pte", outputs=()
            ),
            failure=failure,
        )
    )
    return directory


def _factors(
    recipe: Recipe, bench: Bench, model: str, night: int, chance: np.random.Generator
) -> Floats:
    """Return the factor of each instruction's time in a night, but for noise within the run."""
    own = np.random.default_rng([*f"{bench.board}{model}".encode()])
    board = np.exp(0.12 * own.standard_normal(256)) if bench.noise else np.ones(256)
    tonight = np.exp(bench.noise * chance.standard_normal(256))
    tonight *= np.exp(bench.noise / 2 * chance.standard_normal())
    changed = np.ones(256)
    for change in recipe.changes:
        if change.model == model and bench.unit in change.units and night >= change.night:
            changed[change.instruction] *= change.factor
    return np.asarray(board * tonight * changed)


def _varied(
    log: bytes,
    bench: Bench,
    board: Board,
    factors: Floats,
    chance: np.random.Generator,
) -> tuple[bytes, Warp]:
    """Return a log whose operators take other times, and the map of its ticks that did it.

    Time outside of operators passes at the board's speed.
    """
    scale = bench.slowness * board.timer.hz / Board.load(EXECUTED_ON).timer.hz
    count = struct.unpack_from("<I", log, _COUNT_AT)[0]
    varied = bytearray(log)
    records = np.frombuffer(varied, _RECORD, count, fmt.HEADER_SIZE)
    assert {*records["kind"].tolist()} <= _KINDS, "a record with a payload, or with other ticks"
    events = records[records["kind"] == fmt.Record.PROFILE]
    of_leaves = [n for n, name in enumerate(_names(log, count)) if name.startswith(_LEAF)]
    leaves = np.sort(events[np.isin(events["name"], of_leaves)], order="start")
    slopes = factors[leaves["instruction"]] * scale
    slopes *= np.exp(bench.noise / 3 * chance.standard_normal(len(leaves)))
    knots = np.stack([leaves["start"], leaves["end"]], axis=1).ravel().astype(float)
    knots = np.concatenate([[0.0], knots, [2.0**32]])
    steps = np.diff(knots) * scale
    steps[1::2] *= slopes / scale
    mapped = np.concatenate([[0.0], np.cumsum(steps)])

    def warp(ticks: Any) -> npt.NDArray[np.int64]:
        found: npt.NDArray[np.int64] = np.rint(np.interp(ticks, knots, mapped)).astype(np.int64)
        return found

    is_event = records["kind"] == fmt.Record.PROFILE
    for key, chosen in (("start", is_event), ("end", is_event)):
        records[key][chosen] = warp(records[key][chosen])
    allocated = records["kind"] == fmt.Record.ALLOCATION
    ticks = np.frombuffer(varied, "<u4", 4 * count, fmt.HEADER_SIZE).reshape(-1, 4)[:, 1]
    ticks[allocated] = warp(ticks[allocated])
    return bytes(varied), warp


def _names(log: bytes, records: int) -> list[str]:
    """Return the interned names of a log, by their numbers."""
    at = fmt.HEADER_SIZE + fmt.RECORD_SIZE * records
    names = []
    while at < len(log):
        end = at + 1 + log[at]
        names.append(log[at + 1 : end].decode())
        at = end
    return names[::-1]


def _facts(
    result: Result,
    board: Board,
    bench: Bench,
    trace: Trace,
    warp: Warp,
    chance: np.random.Generator,
) -> dict[str, Any]:
    """Return what a board of this type reports of itself and of its clock."""
    if not bench.noise:
        return {"unit": bench.unit}
    assert result.target is not None
    assert board.capacity is not None
    hz = board.timer.hz
    ppm = float(chance.normal(12, 3))

    readings = [0]
    for ticks in warp([item.ticks for item in result.pings]).tolist():
        readings.append(max(ticks, readings[-1] + hz // 1000))
    restart, *pings = (_reading(ticks, hz * (1 - ppm * 1e-6), chance) for ticks in readings)
    clock = replace(
        result.target.clocks[0],
        name=board.timer.source,
        hz_numerator=hz,
        tolerance_ppm=board.timer.tolerance_ppm,
    )
    target = TargetRecord(
        board=board.name,
        cpu=board.cpu,
        build_id=result.target.build_id,
        link_version=result.target.link_version,
        mtu=result.target.mtu,
        clocks=(clock,),
        model_capacity=board.capacity.model,
        arena_capacity=board.capacity.arena,
        input_capacity=board.capacity.inputs,
        trace_capacity=board.capacity.trace,
        debug_capacity=board.capacity.values,
        probe_ticks=max(1, round(0.6e-6 * hz)) * result.target.probe_pairs,
        probe_pairs=result.target.probe_pairs,
        operators=result.target.operators,
        runtime=result.target.runtime,
        kernels=result.target.kernels,
    )
    return {
        "board": bench.board,
        "unit": bench.unit,
        "port": bench.port,
        "baud": 921_600,
        "target": target,
        "pings": tuple(pings),
        "restart": restart,
        "clock_quality": quality_of_run(trace, pings, restart),
        "emulated_time": False,
        "settings": replace(result.settings, build=bench.board) if result.settings else None,
        "image": FirmwareSize("image", 191_608, 1_344, 118_208),
        "link": {**result.link, "bytes_sent": result.link["bytes_sent"], "text_bytes": 0},
        "duration_s": round(float(chance.normal(9.2, 0.4)), 3),
    }


def _reading(ticks: int, hz: float, chance: np.random.Generator) -> Ping:
    """Return what a host read when the board's clock had counted so far."""
    host = round(71_000 * _SECOND + ticks * _SECOND / hz)
    before, after = chance.integers(100_000, 400_000, 2).tolist()
    return Ping(host - before, host + after, 1, ticks)
