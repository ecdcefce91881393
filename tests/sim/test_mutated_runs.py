"""Sound runs of every kind pass; a mutation of any kind fails at least one check."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
from filelock import FileLock

import harness
from harness import FormatError, Subject, evaluate, read_dumps, read_program
from harness.analyze.workload import instruction_records
from harness.runs.source import load_source, subject_of
from tests.conftest import FIXTURES, MODELS
from tests.support.counter_mutations import COUNTER_KINDS, KINDS_OF_ANY_COUNTER
from tests.support.mutations import KINDS, Draft, NotApplicableError
from tests.support.run_mutations import AS_WRAPS, RUN_KINDS

pytestmark = [pytest.mark.sim, pytest.mark.uncounted]

RUNS: Final = 5
SEEDS: Final = 3 if "ETHARNESS_EVERY_SEED" in os.environ else 1
"""Mutations of each kind in each run."""

KINDS_OF_RUNS: Final[list[tuple[str, str, dict[str, Any]]]] = [
    ("native", "kws_int8", {}),
    ("native", "kws_int8", {"stream": True, "trace_limit": 2500}),
    ("native", "kws_f32", {"when_full": "drop-oldest", "trace_limit": 5000}),
    ("native", "small_int8", {"profile": "method"}),
    ("native", "functions", {"values": "intermediate"}),
    ("native", "arenas", {"values": "outputs"}),
    ("native", "npu_int", {"values": "intermediate"}),
    ("native", "npu_str", {"stream": True, "trace_limit": 1500}),
    ("native", "state", {}),
    ("native", "scalars", {}),
    ("native", "unplanned", {}),
    ("qemu-mps2-an385", "npu_int", {}),
    ("qemu-riscv32-virt", "npu_str", {"stream": True, "trace_limit": 1500}),
    ("qemu-microbit", "small_int8", {}),
    ("qemu-riscv32-virt", "small_int8", {"counters": ("cycles", "instret")}),
]


def executorchs() -> Subject:
    """The dump of ExecuTorch's own runtime: other events, no allocations, no result."""
    [dump] = read_dumps((FIXTURES / "kws_f32_executorch.etdp").read_bytes()).dumps
    method = read_program((MODELS / "kws_f32.pte").read_bytes()).method("forward")
    chains = instruction_records(method)
    return Subject(dump.trace, runs_requested=3, runs_completed=3, chains=chains)


@pytest.fixture(scope="module")
def sound_runs(shared: Path, worker_id: str) -> list[Path]:
    """One sound run of each kind; workers that need them at once begin with different ones."""
    numbers = [*range(len(KINDS_OF_RUNS))]
    Random(worker_id).shuffle(numbers)
    for number in numbers:
        board, model, options = KINDS_OF_RUNS[number]
        folder = shared / f"sound_run_{number}"
        with FileLock(folder.with_suffix(".lock")):
            if not folder.exists():
                harness.run(
                    MODELS / f"{model}.pte", board=board, runs=RUNS, output=folder, **options
                )
    return [shared / f"sound_run_{number}" for number in range(len(KINDS_OF_RUNS))]


@pytest.fixture(scope="module")
def subjects(sound_runs: list[Path]) -> dict[str, Subject]:
    """What is evaluated of these runs, and of a dump of ExecuTorch."""
    found = {"executorch": executorchs()}
    for folder, (board, model, options) in zip(sound_runs, KINDS_OF_RUNS, strict=True):
        source = load_source(folder)
        words = " ".join(f"{key} {value}" for key, value in options.items())
        subject = subject_of(source.trace, source.result, directory=folder)
        found[f"{board} {model} {words}"] = subject
    return found


def test_no_sound_run_is_flagged(subjects: dict[str, Subject]) -> None:
    # On a host, some operators do take less than it takes to log them.
    flagged = [
        (name, check.code, check.reason)
        for name, subject in subjects.items()
        for check in evaluate(subject).checks
        if not check.passed and check.code != "I05"
    ]
    assert flagged == []
    assert len(subjects) == len(KINDS_OF_RUNS) + 1


_AS_WRAPS = {"step_back"}
"""What reads as a gap of nearly a wrap. Only readings of the host rule that out, which say nothing
of emulated time (docs/clocks.md).
"""


def test_there_are_sixty_kinds() -> None:
    assert len(KINDS) >= 60


@pytest.mark.attack("Files", "about ninety changes of sound runs", "at least one check fails")
@pytest.mark.parametrize("kind", [*KINDS, *KINDS_OF_ANY_COUNTER])
def test_a_mutation_is_caught_wherever_it_applies(kind: str, subjects: dict[str, Subject]) -> None:
    applied, missed = 0, []
    for name, subject in subjects.items():
        for seed in range(SEEDS):
            draft = Draft(subject, Random(f"{kind} {name} {seed}"))
            try:
                (KINDS | COUNTER_KINDS)[kind](draft)
            except NotApplicableError:
                continue
            applied += 1
            try:
                if evaluate(draft.changed).passed and not (
                    kind in _AS_WRAPS and draft.changed.emulated_time
                ):
                    missed.append((name, seed))
            except FormatError:
                pass
    assert applied, "no run has what this kind changes"
    assert missed == []


def defects(subject: Subject) -> set[tuple[str, str, str]]:
    """Errors and warnings."""
    return {
        (check.code, check.subject, check.severity)
        for check in evaluate(subject).checks
        if not check.passed and check.severity != "note" and check.code != "I05"
    }


@pytest.mark.parametrize("kind", RUN_KINDS)
def test_a_contradiction_in_a_run_is_found(kind: str, subjects: dict[str, Subject]) -> None:
    applied, missed = 0, []
    for name, subject in subjects.items():
        draft = Draft(subject, Random(f"{kind} {name}"))
        try:
            RUN_KINDS[kind](draft)
        except NotApplicableError:
            continue
        applied += 1
        try:
            found = defects(draft.changed) - defects(subject)
        except FormatError:
            continue
        if not found and not (kind in AS_WRAPS and (subject.emulated_time or not subject.pings)):
            missed.append(name)
    assert applied, "no run has what this kind changes"
    assert missed == []
