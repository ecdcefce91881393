"""Writes a budget suggested from the measurements of runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from harness.check.budget import load_budget
from harness.check.evaluate import evaluate
from harness.check.suggest import Wishes, suggest
from harness.errors import UsageError, write_error
from harness.records.verdict import Check
from harness.runs.evaluation import subject_of
from harness.runs.source import Source


def write_suggestion(
    file: Path, paths: Sequence[Path], load: Callable[[Path], Source], wishes: Wishes
) -> list[Check]:
    """Write a budget suggested from measurements, and check the same runs by it.

    Args:
        file: The budget file to write; an existing file is not replaced.
        paths: Run directories or traces.
        load: Reads the traces of a path.
        wishes: Options of the suggestion.

    Returns:
        The checks of its limits.

    Raises:
        UsageError: The file exists or cannot be written, or a path contains no execution.
        DamagedError: A file of a run is damaged.
    """
    if file.exists():
        raise UsageError(f"{file} already exists", hint="name another file with --suggest")
    sources = [load(path).require_sound() for path in paths]
    subjects = [subject_of(source.trace, source.result) for source in sources]
    for path, subject in zip(paths, subjects, strict=True):
        if not any(run.executes for run in subject.runs):
            raise UsageError(
                f"{path} contains no execution to suggest limits from",
                hint="`etharness decode` shows its events",
            )
    try:
        file.write_text(suggest(subjects, wishes), encoding="utf-8")
    except OSError as error:
        raise write_error(error, f"cannot write the budget {file}") from error
    checks: list[Check] = []
    for subject in subjects:
        budget = load_budget(file, subject.board, subject.model, subject.unit)
        checks += [item for item in evaluate(subject, budget).checks if item.source]
    return checks
