"""A first budget for runs, as a file that they keep to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from harness.check.budget import load_budget
from harness.check.checks import Check
from harness.check.evaluate import evaluate
from harness.check.suggest import Wishes, suggest
from harness.errors import UsageError
from harness.lab.judge import subject_of
from harness.lab.source import Source


def write_suggestion(
    file: Path, paths: Sequence[Path], load: Callable[[Path], Source], wishes: Wishes
) -> list[Check]:
    """Write a budget from what was measured, and hold the same runs against it.

    Args:
        file: The budget file to write; one that is there is left alone.
        paths: Run directories or traces.
        load: Reads the traces behind a path.
        wishes: What it is to be like.

    Returns:
        The checks of its limits.

    Raises:
        UsageError: There is such a file, it cannot be written, or a path holds no execution.
        DamagedError: A file of a run is not as its result records it.
    """
    if file.exists():
        raise UsageError(f"{file} is there already", hint="name another file with --suggest")
    sources = [load(path).require_sound() for path in paths]
    subjects = [subject_of(source.trace, source.result) for source in sources]
    for path, subject in zip(paths, subjects, strict=True):
        if not any(run.executes for run in subject.runs):
            raise UsageError(
                f"{path} holds no execution, so there is nothing to suggest limits from",
                hint="`etharness decode` shows what it holds",
            )
    try:
        file.write_text(suggest(subjects, wishes), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write the budget {file}: {error.strerror}") from error
    checks: list[Check] = []
    for subject in subjects:
        budget = load_budget(file, subject.board, subject.model, subject.unit)
        checks += [item for item in evaluate(subject, budget).checks if item.source]
    return checks
