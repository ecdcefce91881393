"""Quarantine: known failures that do not count, with an owner and an expiry date.

Quarantined steps run and are shown like all others. An entry ends by itself: on its expiry date, or
after enough passes in a row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Final

import msgspec

from harness.config.board import Positive, Strict
from harness.config.toml_file import Document, read_document
from harness.errors import Owner, UsageError
from harness.records.nightly import NightDocument, NightlyStep, QuarantineStatus, StepOutcome

READY: Final = 10
"""Passes in a row after which an entry without ``reprove`` may be removed."""

_Text = Annotated[str, msgspec.Meta(min_length=1)]


class QuarantineEntry(Strict, frozen=True, kw_only=True):
    """A known failure.

    Attributes:
        owner: Person or team responsible for it.
        reason: Why it does not count.
        expires: The last day on which it does not count.
        issue: Link to the issue.
        unit: Pattern of units.
        board: Pattern of board types.
        model: Pattern of models.
        failures: Owners of the failures that do not count; empty for all.
        reprove: Passes in a row after which it counts again; None for only after its last day.
    """

    owner: _Text
    reason: _Text
    expires: date
    issue: str = ""
    unit: str = "*"
    board: str = "*"
    model: str = "*"
    failures: tuple[Owner, ...] = ()
    reprove: Positive | None = None

    def covers(self, step: NightlyStep) -> bool:
        """Whether the entry applies to a step."""
        return (
            fnmatchcase(step.unit, self.unit)
            and fnmatchcase(step.board, self.board)
            and fnmatchcase(step.model, self.model)
        )

    def excuses(self, owner: Owner | None) -> bool:
        """Whether the entry applies to failures of this owner."""
        return not self.failures or owner in self.failures

    @property
    def title(self) -> str:
        """The patterns and owners of the entry in one line; "" if it restricts nothing."""
        about = [
            f"{name} {value}"
            for name in ("unit", "board", "model")
            if (value := getattr(self, name)) != "*"
        ]
        kinds = [str(owner) for owner in self.failures]
        return ", ".join([*about, *kinds])


class QuarantineFile(Strict, frozen=True):
    """A quarantine file."""

    schema: Annotated[int, msgspec.Meta(ge=1, le=1)]
    quarantine: tuple[QuarantineEntry, ...] = ()


@dataclass(frozen=True, slots=True)
class Quarantine:
    """The entries of a quarantine file, with their passes so far.

    Attributes:
        file: The file, for messages.
        entries: The entries with their line numbers.
        passes: Passes in a row before this nightly run, by entry.
        today: The date of this nightly run.
    """

    file: str
    entries: tuple[tuple[QuarantineEntry, int], ...]
    passes: tuple[int, ...]
    today: date

    def __call__(self, outcome: StepOutcome) -> str:
        """Return a description of the entry that applies to a failure; "" without one."""
        for index, (entry, line) in enumerate(self.entries):
            about = entry.covers(outcome.step) and entry.excuses(outcome.owner)
            if about and self._applies(index):
                return self._known_as(entry, line)
        return ""

    def status(self, tonight: Sequence[StepOutcome]) -> tuple[QuarantineStatus, ...]:
        """Return the status of each entry after this nightly run."""
        found = []
        for index, (entry, line) in enumerate(self.entries):
            passes = passes_in_a_row(entry, [tonight], self.passes[index])
            wanted = entry.reprove or READY
            state = "applies"
            if entry.expires < self.today:
                state = "expired"
            elif not self._applies(index):
                state = "proved"
            elif passes >= wanted:
                state = "ready"
            found.append(
                QuarantineStatus(
                    line=line,
                    about=entry.title or "everything",
                    owner=entry.owner,
                    reason=entry.reason,
                    issue=entry.issue,
                    expires=entry.expires.isoformat(),
                    state=state,  # type: ignore[arg-type]
                    passes=passes,
                    wanted=wanted,
                    excused=sum(o.quarantine == self._known_as(entry, line) for o in tonight),
                )
            )
        return tuple(found)

    def _known_as(self, entry: QuarantineEntry, line: int) -> str:
        issue = f", {entry.issue}" if entry.issue else ""
        return f"{entry.reason} ({entry.owner}, until {entry.expires}{issue}; {self.file}:{line})"

    def _applies(self, index: int) -> bool:
        entry = self.entries[index][0]
        proved = entry.reprove is not None and self.passes[index] >= entry.reprove
        return self.today <= entry.expires and not proved


def no_quarantine(today: date) -> Quarantine:
    """Return a quarantine without entries."""
    return Quarantine("", (), (), today)


def load_quarantine(file: Path) -> tuple[Document, tuple[tuple[QuarantineEntry, int], ...]]:
    """Read the entries of a file, each with its line number.

    Raises:
        UsageError: The file is missing or invalid, or an entry applies to every failure.
    """
    document = read_document(file)
    entries = document.as_(QuarantineFile).quarantine
    found = []
    for index, entry in enumerate(entries):
        key = ("quarantine", index)
        if not entry.title:
            raise UsageError(
                f"{document.where(key)}: this entry applies to every failure of every unit",
                hint="restrict it by unit, board, model or failures",
            )
        found.append((entry, document.line(key)))
    return document, tuple(found)


def with_passes(file: Path, earlier: Sequence[Sequence[StepOutcome]], today: date) -> Quarantine:
    """Read a file, and count the passes in earlier nightly runs, oldest first.

    Raises:
        UsageError: As for ``load_quarantine``.
    """
    document, entries = load_quarantine(file)
    passes = tuple(passes_in_a_row(entry, earlier) for entry, _ in entries)
    return Quarantine(str(document.path), entries, passes, today)


def passes_in_a_row(
    entry: QuarantineEntry, nights: Iterable[Iterable[StepOutcome]], before: int = 0
) -> int:
    """Return the number of passes of an entry's steps since the last failure that it covers.

    Args:
        entry: The entry.
        nights: The outcomes of each nightly run, oldest first.
        before: Passes in a row before these.
    """
    for night in nights:
        about = [outcome for outcome in night if entry.covers(outcome.step)]
        for outcome in sorted(about, key=_when):
            if any(entry.excuses(attempt.owner) for attempt in outcome.failures):
                before = 0
            elif outcome.outcome == "pass":
                before += 1
    return before


def _when(outcome: StepOutcome) -> str:
    return outcome.attempts[-1].started_utc if outcome.attempts else ""


def outcomes_of_nights(documents: Iterable[NightDocument]) -> list[Sequence[StepOutcome]]:
    """Return the outcomes of each nightly run, oldest first."""
    ordered = sorted(documents, key=lambda night: night.started_utc)
    return [night.outcomes for night in ordered]
