"""Quarantine: failures that are known, who looks after them, and until when they do not count.

What is quarantined is run and shown like everything else. An entry ends by itself: on its day, or
when what it is about has passed often enough in a row.
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
"""Passes in a row after which an entry without a number of its own may be removed."""

_Text = Annotated[str, msgspec.Meta(min_length=1)]


class QuarantineEntry(Strict, frozen=True, kw_only=True):
    """A failure that is known.

    Attributes:
        owner: Who looks after it: a person or a team.
        reason: Why it does not count.
        expires: The last day on which it does not.
        issue: Where it is worked on.
        unit: Pattern of units.
        board: Pattern of board types.
        model: Pattern of models.
        failures: Owners of failures that do not count; empty for all.
        reprove: After so many passes in a row it counts again; None for only on its last day.
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
        """Whether it is about a step."""
        return (
            fnmatchcase(step.unit, self.unit)
            and fnmatchcase(step.board, self.board)
            and fnmatchcase(step.model, self.model)
        )

    def excuses(self, owner: Owner | None) -> bool:
        """Whether it is about failures of this owner."""
        return not self.failures or owner in self.failures

    @property
    def title(self) -> str:
        """What it is about, in a line."""
        about = [
            f"{name} {value}"
            for name in ("unit", "board", "model")
            if (value := getattr(self, name)) != "*"
        ]
        kinds = [str(owner) for owner in self.failures]
        return ", ".join([*about, *kinds])


class QuarantineFile(Strict, frozen=True):
    """What a file of known failures holds."""

    schema: Annotated[int, msgspec.Meta(ge=1, le=1)]
    quarantine: tuple[QuarantineEntry, ...] = ()


@dataclass(frozen=True, slots=True)
class Quarantine:
    """The entries of a file, and how often in a row what each is about has passed.

    Attributes:
        file: Their file, for people.
        entries: The entries, with the line of each.
        passes: Passes in a row before tonight, entry by entry.
        today: The day of the night.
    """

    file: str
    entries: tuple[tuple[QuarantineEntry, int], ...]
    passes: tuple[int, ...]
    today: date

    def __call__(self, outcome: StepOutcome) -> str:
        """The entry that keeps a failure from counting; "" for none."""
        for index, (entry, line) in enumerate(self.entries):
            about = entry.covers(outcome.step) and entry.excuses(outcome.owner)
            if about and self._applies(index):
                return self._known_as(entry, line)
        return ""

    def status(self, tonight: Sequence[StepOutcome]) -> tuple[QuarantineStatus, ...]:
        """How each entry stands after tonight."""
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
        place = f"{self.file}:{line}"
        return f"{entry.reason} ({entry.owner}, until {entry.expires}{issue}; {place})"

    def _applies(self, index: int) -> bool:
        entry = self.entries[index][0]
        proved = entry.reprove is not None and self.passes[index] >= entry.reprove
        return self.today <= entry.expires and not proved


def no_quarantine(today: date) -> Quarantine:
    """One without entries."""
    return Quarantine("", (), (), today)


def load_quarantine(file: Path) -> tuple[Document, tuple[tuple[QuarantineEntry, int], ...]]:
    """Read the entries of a file, each with its line.

    Raises:
        UsageError: The file is missing or wrong, or an entry is about everything.
    """
    document = read_document(file)
    entries = document.as_(QuarantineFile).quarantine
    found = []
    for index, entry in enumerate(entries):
        place = ("quarantine", index)
        if not entry.title:
            raise UsageError(
                f"{document.where(place)}: this entry is about every failure of every unit",
                hint="say which unit, board, model or failures it is about",
            )
        found.append((entry, document.line(place)))
    return document, tuple(found)


def with_passes(file: Path, earlier: Sequence[Sequence[StepOutcome]], today: date) -> Quarantine:
    """Read a file, and count the passes of earlier nights, oldest first.

    Raises:
        UsageError: As for ``load_quarantine``.
    """
    document, entries = load_quarantine(file)
    passes = tuple(passes_in_a_row(entry, earlier) for entry, _ in entries)
    return Quarantine(str(document.path), entries, passes, today)


def passes_in_a_row(
    entry: QuarantineEntry, nights: Iterable[Iterable[StepOutcome]], before: int = 0
) -> int:
    """How often what an entry is about has passed since it last failed that way.

    Args:
        entry: The entry.
        nights: What came of each step of each night, oldest first.
        before: How often it had before these.
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
    """What came of each step of each night, oldest first."""
    ordered = sorted(documents, key=lambda night: night.started_utc)
    return [night.outcomes for night in ordered]
