"""Measure instructions per operator on emulated boards, and fit what `etharness inspect` estimates.

    python -m benchmarks.instructions                     # export the zoo, measure and fit all CPUs
    python -m benchmarks.instructions --models DIR        # with the networks of a folder instead
    python -m benchmarks.instructions qemu-mps2-an386     # one board
    python -m benchmarks.instructions --operators cortex_m::pad.out "aten::convolution.out grouped"

The last form replaces the coefficients of these operators and loops by a fit of their calls alone,
after a change of their kernels; what is recorded of the networks that are held back stays as it is
until `--held-back` counts them again.

The zoo needs torch and executorch, here or in `.venv-oracle`. Networks run with the inputs of their
export, `NAME.0.npy` and so on beside `NAME.pte`, otherwise with random ones.

QEMU counts a nanosecond per instruction with `-icount shift=0`, so times of operators are numbers
of instructions, rounded to ticks of the board's clock. They are of the bundled C kernels, with the
runtime's work around each call. Coefficients go to `boards/instructions/`, by CPU. They are fitted
on calls of every operator (`benchmarks.calibration`) and on half of the networks. The other half
tells how far off the estimates are: a hash of its name decides, so that the split stays when
networks are added, and all exports of a network are in the same half. Its calls are recorded with
their instructions (`RECORDED`), so that a test can estimate them again without boards.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import combinations
from pathlib import Path
from zlib import crc32

import numpy as np
from msgspec.structs import replace

from benchmarks.calibration import calibrations
from harness import Board, HarnessError, Trace, durations, packaged_models, read_program
from harness.analyze.ticks import nanoseconds_per_tick
from harness.analyze.workload import FEATURES, Coefficients, InstructionModel, Step, method_steps
from harness.config.board import load_board
from harness.files import data_directory, decode_json
from harness.records.measurement import BUNDLED_KERNELS
from harness.records.result import encode
from harness.runs.request import RunRequest
from harness.runs.run import run_model
from tests.support.operators import CALLS

BOARDS = (
    "qemu-mps2-an385",
    "qemu-mps2-an386",
    "qemu-mps2-an500",
    "qemu-mps3-an547",
    "qemu-riscv32-virt",
    "qemu-microbit",
)
"""An emulated board for each CPU. The last one has room for the smallest networks only."""

LARGEST_UPLOAD = 20_000
"""Bytes of a model that is uploaded; a larger one is placed, as QEMU's line is slow."""


ROOT = Path(__file__).parents[1]
ORACLE = ROOT / ".venv-oracle/bin/python"
ZOO = ROOT / "out/zoo"
RECORDED = ROOT / "tests/fixtures/instructions.json"
"""The calls of the networks that are held back: kind, type, features, and instructions by CPU."""

PAGE = ROOT / "docs/inspect.md"
BEGIN, END = "<!-- errors -->", "<!-- end of errors -->"

CALIBRATION = "calibration"
"""What calls that are of no network are called."""

_MAC = FEATURES.index("mac")
_FEWEST_SIZES = 2
"""Calls of different sizes that a fit needs."""

_MOST_TERMS = 3
_FEW_SIZES = 8
"""With fewer calls of different sizes, only the usual features are tried."""
_COST_OF_A_TERM = 0.01
"""A coefficient is fitted only if it lowers the root mean square of relative errors by this."""


@dataclass(frozen=True, slots=True)
class MeasuredCall:
    """The measured instructions of one call."""

    step: Step
    instructions: float


@dataclass(frozen=True)
class Network:
    """A measured network: its calls, with their instructions."""

    name: str
    samples: list[MeasuredCall]

    @property
    def held_out(self) -> bool:
        """Whether it tests the coefficients instead of being fitted."""
        return self.name != CALIBRATION and is_held_out(self.name)


def is_held_out(name: str) -> bool:
    """Return whether a network is not fitted, by a hash of its name without its export's flow."""
    return crc32(re.sub(r"(_f32|_int8|_m0|_m4|_m55)+$", "", name).encode()) % 2 == 1


def main(names: Sequence[str], folder: Path | None) -> None:
    models = {**packaged_models(), **{path.stem: path for path in _exported(folder)}}
    for name in names or BOARDS:
        board, _ = load_board(name)
        networks = [calibrate(board), *measure(board, models)]
        model = fit(board, networks)
        data = data_directory("boards") / "instructions"
        data.mkdir(exist_ok=True)
        (data / f"{board.cpu}.json").write_bytes(written(model))
        record(board.cpu, networks)
        median, worst = model.median_error, model.worst_error
        print(
            f"{name}: {len(model.operators)} operators from {len(model.fitted)} networks; "
            f"error of {len(model.held_out)} others: median {median:.1%}, worst {worst:.1%}"
            if median is not None and worst is not None
            else f"{name}: {len(model.operators)} operators, no network to test them with",
            flush=True,
        )
    write_errors()


def write_errors() -> None:
    """Write the errors of all cores to the page."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text(f"{before}{error_table()}{rest.partition(END)[2]}")


def measure_again(boards: Sequence[str], kinds: Sequence[str]) -> None:
    """Replace the coefficients of some operators, or of one of their loops."""
    names = {kind.partition(" ")[0] for kind in kinds}
    for name in boards or BOARDS:
        board, _ = load_board(name)
        path = data_directory("boards") / f"instructions/{board.cpu}.json"
        model = decode_json(path.read_bytes(), type_=InstructionModel)
        for kind, calls in grouped([calibrate(board, names)]).items():
            found = fit_operator(calls) if kind in kinds else None
            if found is not None:
                model.operators[kind] = found
        path.write_bytes(written(model))
        state_errors(path)
    write_errors()


def count_again(boards: Sequence[str], models: Mapping[str, Path]) -> None:
    """Count the networks that are held back again, and state the errors of the coefficients."""
    others = {name: path for name, path in models.items() if is_held_out(name)}
    for name in boards or BOARDS:
        board, _ = load_board(name)
        record(board.cpu, [*measure(board, others)])
        state_errors(data_directory("boards") / f"instructions/{board.cpu}.json")
        print(f"{name}: counted", flush=True)
    write_errors()


def state_errors(path: Path) -> None:
    """Write the errors for the recorded calls into a file of coefficients."""
    model = decode_json(path.read_bytes(), type_=InstructionModel)
    errors = {name: round(error, 4) for name, error in recorded_errors(path).items()}
    path.write_bytes(written(replace(model, held_out=errors)))


def _exported(folder: Path | None) -> list[Path]:
    """Return the networks of a folder; without one, export the zoo."""
    if folder is None:
        python = sys.executable if find_spec("executorch") else ORACLE
        ZOO.mkdir(parents=True, exist_ok=True)
        script = ROOT / "firmware_stub/models/export_zoo.py"
        subprocess.run([python, script, "--models", ZOO], check=True)
    return sorted((folder or ZOO).glob("*.pte"))


Recording = dict[str, list[tuple[str, str, list[float], dict[str, int]]]]


def record(cpu: str, networks: Iterable[Network]) -> None:
    """Replace what is recorded of the networks that are held back, for one CPU."""
    found: Recording = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    for calls in found.values():
        for *_, counted in calls:
            counted.pop(cpu, None)
    for network in networks:
        if not network.held_out:
            continue
        calls = [
            (call.step.kind, call.step.type, [*map(_short, call.step.features)], {})
            for call in network.samples
        ]
        known = found.get(network.name, [])
        if [call[:3] for call in known] == [list(call[:3]) for call in calls]:
            calls = known
        for call, sample in zip(calls, network.samples, strict=True):
            call[3][cpu] = round(sample.instructions)
        found[network.name] = calls
    lines = [
        f"  {json.dumps(name)}: [\n    "
        + ",\n    ".join(json.dumps(call, separators=(",", ":")) for call in calls)
        + "\n  ]"
        for name, calls in sorted(found.items())
        if any(call[3] for call in calls)
    ]
    RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def recorded_errors(file: Path) -> dict[str, float]:
    """Return the errors of coefficients for the calls of the networks that are held back."""
    model = decode_json(file.read_bytes(), type_=InstructionModel)
    recording: Recording = json.loads(RECORDED.read_text())
    found = {}
    for name, calls in recording.items():
        pairs = [
            (model.estimate(_step(kind, of_type, features)), counted[model.cpu])
            for kind, of_type, features, counted in calls
            if model.cpu in counted
        ]
        known = [(estimate, counted) for estimate, counted in pairs if estimate is not None]
        if known:
            estimates, measured = (sum(column) for column in zip(*known, strict=True))
            found[name] = estimates / measured - 1
    return found


def _step(kind: str, of_type: str, features: Sequence[float]) -> Step:
    operator, _, variant = kind.partition(" ")
    return Step(
        *(operator, False, 1, 0, 0, 0, 0),
        chain=0,
        instruction=0,
        variant=variant,
        type=of_type,
        features=tuple(features),
    )


def _short(number: float) -> float:
    return int(number) if number == int(number) else round(number, 2)


def error_table() -> str:
    """Return the part of the page that states the errors, from the files of coefficients."""
    lines = [
        "| core | operators | networks fitted | held back | median error | 9 of 10 within "
        "| worst |",
        "|---|---|---|---|---|---|---|",
    ]
    for path in sorted((data_directory("boards") / "instructions").glob("*.json")):
        model = decode_json(path.read_bytes(), type_=InstructionModel)
        errors = sorted((abs(error), name) for name, error in model.held_out.items())
        stated = "- | - | -"  # of a partial fit without networks that are held back
        if errors:
            most, (worst, name) = (errors[int(q * (len(errors) - 1))] for q in (0.9, 1))
            stated = f"{model.median_error:.1%} | {most[0]:.1%} | {worst:.1%} (`{name}`)"
        operators = len({kind.partition(" ")[0] for kind in model.operators})
        fitted = f"| {path.stem} | {operators} | {len(model.fitted)} | {len(errors)} |"
        lines.append(f"{fitted} {stated} |".replace("%", " %"))
    return "\n".join([BEGIN, *lines, END])


def written(model: InstructionModel) -> bytes:
    """Return the file of coefficients, an operator a line."""
    document = json.loads(encode(model))
    operators = document.pop("operators")
    lines = [f"    {json.dumps(name)}: {json.dumps(found)}" for name, found in operators.items()]
    head = json.dumps(document, indent=2).removesuffix("\n}")
    body = ",\n".join(lines)
    return f'{head},\n  "operators": {{\n{body}\n  }}\n}}\n'.encode()


def calibrate(board: Board, names: Container[str] = CALLS) -> Network:
    """Run the calls of all operators, or of some."""
    measured: list[MeasuredCall] = []
    for calibration in calibrations(board.capacity, names):
        with tempfile.TemporaryDirectory() as scratch:
            path = Path(scratch) / "calls.pte"
            path.write_bytes(calibration.program)
            try:
                trace = run_model(RunRequest(board.name, path, 1, Path(scratch) / "run")).trace
            except HarnessError as error:
                print(f"{board.name}: {error.message.splitlines()[0]}")
                continue
        steps = method_steps(read_program(calibration.program).method("forward"))
        chosen = [step for step in steps if step.instruction in calibration.instructions]
        measured += samples(trace, chosen)
    return Network(CALIBRATION, measured)


def measure(board: Board, models: Mapping[str, Path]) -> Iterator[Network]:
    """Run every network that the board takes once."""
    for name, path in models.items():
        try:
            method = read_program(path.read_bytes()).method("forward")
            steps = method_steps(method)
        except HarnessError:
            continue
        with tempfile.TemporaryDirectory() as scratch:
            placed = path.stat().st_size > min(LARGEST_UPLOAD, board.capacity.model)
            inputs = tuple(sorted(path.parent.glob(f"{path.stem}.*.npy")))
            request = RunRequest(
                board.name, path, 1, Path(scratch) / "run", placed=placed, inputs=inputs
            )
            try:
                trace = run_model(request).trace
            except HarnessError as error:
                print(f"{board.name}: {name}: {error.message.splitlines()[0]}", flush=True)
                continue
        yield Network(name, list(samples(trace, steps)))


def samples(trace: Trace, steps: Iterable[Step]) -> Iterator[MeasuredCall]:
    """Yield every call of a kernel that ran once, with its instructions."""
    by_place = {(step.chain, step.instruction): step for step in steps if not step.delegated}
    calls = np.flatnonzero(trace.name == trace.names.index("OPERATOR_CALL"))
    ticks = durations(trace)
    times: dict[tuple[int, int], list[float]] = defaultdict(list)
    for row in calls:
        place = (int(trace.chain[row]), int(trace.instruction[row]))
        times[place].append(float(int(ticks[row]) * nanoseconds_per_tick(trace.clocks[0])))
    for place, found in times.items():
        if place in by_place and len(found) == 1:
            yield MeasuredCall(by_place[place], found[0])


def fit_coefficients(calls: Sequence[MeasuredCall]) -> dict[str, float] | None:
    """Return coefficients that are not negative, as few as explain the calls.

    None with too few calls: one size says nothing about others, except of numbers.
    """
    rows = np.array([call.step.features for call in calls])
    sizes = len({tuple(row) for row in rows.tolist()})
    if sizes < _FEWEST_SIZES and rows[:, 1:].max() > 1:
        return None
    measured = np.array([max(call.instructions, 1.0) for call in calls])
    scaled = rows / measured[:, np.newaxis]
    best, lowest = dict[str, float](), np.inf
    for chosen in _choices(with_macs=bool(rows[:, _MAC].any()), few=sizes < _FEW_SIZES):
        columns = scaled[:, chosen]
        if not columns.any(axis=0).all():
            continue
        found, *_ = np.linalg.lstsq(columns, np.ones(len(calls)), rcond=None)
        error = np.sqrt(np.mean((columns @ found - 1) ** 2)) + _COST_OF_A_TERM * len(chosen)
        if (found > 0).all() and error < lowest:
            lowest = error
            best = {
                FEATURES[i]: float(f"{factor:.4g}") for i, factor in zip(chosen, found, strict=True)
            }
    return best


def _choices(*, with_macs: bool, few: bool) -> Iterator[list[int]]:
    """Yield the features to fit: those of other operators say nothing of products."""
    others, products = {"other", "row_read"}, {"mac", "left_of_4", "left_of_16", "area"}
    unused = others if with_macs else products
    if few:
        unused = {*FEATURES} - {"call", "element", "mac" if with_macs else "first"}
    usable = [i for i, name in enumerate(FEATURES) if name not in unused]
    for count in range(1, _MOST_TERMS + with_macs + 1):
        yield from (list(chosen) for chosen in combinations(usable, count))


def fit_operator(calls: Sequence[MeasuredCall]) -> Coefficients | None:
    """Fit the calls of an operator, by type."""
    of_type: dict[str, list[MeasuredCall]] = defaultdict(list)
    for call in calls:
        of_type[call.step.type].append(call)
    found = {name: fit_coefficients(some) for name, some in of_type.items()}
    types = {name: terms for name, terms in found.items() if terms}
    return Coefficients(types, len(calls), typical(calls)) if types else None


def typical(calls: Sequence[MeasuredCall]) -> float | None:
    """Return the median instructions per multiply-accumulate or element of large calls."""
    work = [call.step.macs or call.step.elements for call in calls]
    fewest = 5000 if any(call.step.macs for call in calls) else 200
    rates = [c.instructions / w for c, w in zip(calls, work, strict=True) if w >= fewest]
    return float(f"{np.median(rates):.4g}") if rates else None


def fit(board: Board, networks: Sequence[Network]) -> InstructionModel:
    """Fit all operators, and compare the estimates with the networks that were held out."""
    fitted = grouped(network for network in networks if not network.held_out)
    tested = grouped(network for network in networks if network.held_out)
    found = {name: fit_operator(calls) for name, calls in sorted(fitted.items())}
    operators = {name: known for name, known in found.items() if known is not None}
    for name, calls in tested.items():
        if name in operators:
            known = operators[name]
            errors = [abs(known.estimate(s.step) / max(s.instructions, 1) - 1) for s in calls]
            error, worst = (round(float(f(errors)), 4) for f in (np.median, np.max))
            operators[name] = replace(known, error=error, worst_error=worst)
    names = [n.name for n in networks if not n.held_out and n.name != CALIBRATION]
    model = InstructionModel(board.cpu, BUNDLED_KERNELS, board.name, names, {}, operators)
    held_out = {}
    for network in networks:
        pairs = [(model.estimate(s.step), s.instructions) for s in network.samples]
        known_pairs = [(estimate, measured) for estimate, measured in pairs if estimate is not None]
        if network.held_out and known_pairs:
            estimates, measured = (sum(column) for column in zip(*known_pairs, strict=True))
            held_out[network.name] = round(estimates / max(measured, 1) - 1, 4)
    return replace(model, held_out=held_out)


def grouped(networks: Iterable[Network]) -> dict[str, list[MeasuredCall]]:
    """Return the samples of networks by operator."""
    found: dict[str, list[MeasuredCall]] = defaultdict(list)
    for network in networks:
        for sample in network.samples:
            found[sample.step.kind].append(sample)
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("boards", nargs="*", metavar="BOARD")
    parser.add_argument("--models", type=Path, help="folder with networks (.pte) beside packaged")
    parser.add_argument("--operators", nargs="+", metavar="OPERATOR", help="measure these alone")
    parser.add_argument("--held-back", action="store_true", help="count these networks alone")
    arguments = parser.parse_args()
    if arguments.operators:
        measure_again(arguments.boards, arguments.operators)
    elif arguments.held_back:
        networks = {path.stem: path for path in _exported(arguments.models)}
        count_again(arguments.boards, {**packaged_models(), **networks})
    else:
        main(arguments.boards, arguments.models)
