"""Runs whose records contradict each other fail, whatever board they are of; sound runs do not."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Final

import pytest

import harness
from harness import FormatError, Subject, evaluate
from tests.contract.golden import unpack
from tests.support.mutations import Draft, NotApplicableError
from tests.support.run_mutations import AS_WRAPS, RUN_KINDS

BOARDS: Final = ("native", "qemu-microbit", "qemu-mps2-an385", "rtl-ibex")
"""A host's clock, the narrowest memory, a board with a delegate's clock, and a simulator of RTL."""

LONGER_RUNS: Final = {
    "leave_out_a_second_pool",
    "rename_temporary_allocator",
    "rename_unplanned_allocator",
    "allocate_temporary_memory_from_an_unknown_allocator",
    "take_more_temporary_memory_than_reserved",
    "take_temporary_memory_outside_of_delegates",
    "repeat_the_durations_of_an_execution",
    "give_every_operator_the_same_time",
    "drop_old_blocks_unasked",
    "stream_unasked",
    "leave_out_a_counter",
    "stop_a_counter",
    "stop_a_counter_in_an_execution",
}
"""Kinds that need other runs than those here, which ``tests/sim/test_mutated_runs.py`` has."""


@pytest.fixture(scope="module")
def subjects(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Subject]:
    """Runs that an earlier version wrote, and their traces alone."""
    folder = unpack(tmp_path_factory.mktemp("golden"))
    runs = {board: subject_of(folder / "runs" / board) for board in BOARDS}
    return runs | {f"{board} alone": Subject(run.trace) for board, run in runs.items()}


def subject_of(path: Path) -> Subject:
    subject = harness.load(path).subject
    assert subject is not None
    return subject


def failures(subject: Subject) -> set[tuple[str, str, str]]:
    """Errors and warnings; operators of small models are shorter than what it takes to log them."""
    return {
        (check.code, check.subject, check.severity)
        for check in evaluate(subject).checks
        if not check.passed and check.severity != "note" and check.code != "I05"
    }


def test_sound_runs_of_an_earlier_version_are_clean(tmp_path: Path) -> None:
    folder = unpack(tmp_path)
    runs = {path.name: failures(subject_of(path)) for path in (folder / "runs").iterdir()}
    assert len(runs) > len(BOARDS)
    # It has no memory for the values of tensors.
    assert runs.pop("qemu-microbit") == {("B05", "log", "error")}
    assert {board: found for board, found in runs.items() if found} == {}


def test_there_are_ninety_kinds() -> None:
    assert len(RUN_KINDS) >= 90


@pytest.mark.attack("Files", "about ninety-five contradictions in runs", "at least one check tells")
@pytest.mark.parametrize("kind", RUN_KINDS)
def test_a_contradiction_is_found_on_every_board(kind: str, subjects: dict[str, Subject]) -> None:
    applied, missed = 0, []
    for name, subject in subjects.items():
        draft = Draft(subject, Random(f"{kind} {name}"))
        try:
            RUN_KINDS[kind](draft)
        except NotApplicableError:
            continue
        applied += 1
        try:
            found = failures(draft.changed) - failures(subject)
        except FormatError:
            continue
        if not found and not (kind in AS_WRAPS and (subject.emulated_time or not subject.pings)):
            missed.append(name)
    assert missed == []
    assert applied or kind in LONGER_RUNS
