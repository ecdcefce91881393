"""Results of a history in groups: those of a model and method on a unit, measured alike."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from harness.check.history.samples import Decision, History, occasion_of, repeat_key
from harness.check.history.stored import StoredResult
from harness.history.entries import Selection
from harness.history.store import Store
from harness.records.check_codes import CODES
from harness.records.measurement import settings_key
from harness.report.summaries import RunState, state_of
from harness.report.text import LONGEST_SENTENCE, brief
from harness.site.documents import SiteResult, slug_of

BASELINE: Final = 20
"""Newest sound results before the newest one that it is compared with, as by ``last:20``."""


@dataclass(frozen=True)
class ResultGroup:
    """Results of a model and method on a unit with the same measurement settings.

    Attributes:
        board: Board type.
        unit: Unit, one physical board.
        model: File name of the model.
        method: Method that ran.
        settings: Key of the measurement settings.
        entries: The newest results, oldest first.
        left_out: Number of older results.
        decisions: Decisions about its series.
    """

    board: str
    unit: str
    model: str
    method: str
    settings: str
    entries: tuple[StoredResult, ...]
    left_out: int
    decisions: tuple[Decision, ...]

    @property
    def slug(self) -> str:
        """Part of the names of its files."""
        model = self.model.removesuffix(".pte")
        return slug_of(model, self.board, self.unit, self.method, self.settings)

    def digest(self, edition: str) -> str:
        """Return a digest of all that its pages depend on: their edition, too."""
        content = repr([edition, self.left_out, self.entries, self.decisions])
        # Names may hold bytes that are not UTF-8, which JSON cannot encode.
        return hashlib.sha256(content.encode(errors="surrogatepass")).hexdigest()

    def history(self, store: Store) -> History:
        """Read the numbers of its results; the baseline is that of the newest occasion."""
        window = sum(entry.complete for entry in self.entries)
        if not window:
            return History()
        found = store.history(
            *(self.board, self.model, self.method),
            unit=self.unit,
            settings=self.settings,
            baseline=None,
            window=window,
        )
        if not found.results:
            return found  # removed since
        newest, unsound = repeat_key(found.results[-1]), set(found.failed)
        baseline = [
            place
            for place, result in enumerate(found.results)
            if place not in unsound and repeat_key(result) != newest
        ]
        return msgspec.structs.replace(
            found,
            baseline=tuple(baseline[-BASELINE:]),
            description=f"the last {BASELINE}",
            rolling=True,
            notes=(),
        )


def groups_of(store: Store, newest: int) -> list[ResultGroup]:
    """Return all results of a history in groups, sorted by model and board.

    A result without numbers, such as of a board that did not answer, may not know how it would
    have been measured. It joins the group of its model and unit with the newest numbers.

    Args:
        store: The history.
        newest: Only so many of the newest results of each group.
    """
    found: dict[tuple[str, str, str, str, str], list[StoredResult]] = {}
    latest: dict[tuple[str, str, str, str], str] = {}
    results = store.results()
    for entry in results:
        if entry.complete:
            key = _tested(entry)
            latest[key] = settings_key(entry.provenance.settings)
            found.setdefault((*key, latest[key]), [])
    for entry in results:
        key = _tested(entry)
        settings = settings_key(entry.provenance.settings)
        if (*key, settings) not in found:
            settings = latest.get(key, "")
        found.setdefault((*key, settings), []).append(entry)
    decided = bool(store.decisions())
    return [
        ResultGroup(
            *(board, unit, model, method, settings),
            entries=tuple(entries[-newest:]),
            left_out=max(len(entries) - newest, 0),
            decisions=tuple(
                store.decisions(Selection(board, unit, model, method, settings=settings))
                if decided
                else ()
            ),
        )
        for (model, board, unit, method, settings), entries in sorted(found.items())
    ]


def site_results(entries: Sequence[StoredResult], shared: Counter[str]) -> tuple[SiteResult, ...]:
    """Return results as the site shows them.

    Args:
        entries: Stored results.
        shared: How many results of the history were recorded on each occasion.
    """
    return tuple(
        SiteResult(
            id=brief(entry.provenance.id),
            started=entry.provenance.started_utc,
            commit=brief(entry.provenance.commit),
            night=night if shared[night := occasion_of(entry.provenance)] > 1 else "",
            state=(state := state_of_entry(entry)),
            why="" if state == "pass" else why_of(entry),
            built=(
                brief(entry.provenance.build_id),
                entry.provenance.model_sha256[:12],
                brief(entry.provenance.tool_version),
            ),
        )
        for entry in entries
    )


def state_of_entry(entry: StoredResult) -> RunState:
    """Return how a stored result ended; a verdict that was given later counts."""
    if entry.failure:
        return state_of(entry.exit_code)
    if entry.passed is not None:
        return "pass" if entry.passed else state_of(entry.exit_code or 1)
    return "pass" if not entry.exit_code else state_of(entry.exit_code)


def why_of(entry: StoredResult) -> str:
    """Return why a result did not pass, in a sentence."""
    if entry.failure:
        message = brief(entry.failure_message, LONGEST_SENTENCE)
        return message or brief(entry.failure)
    parts = [
        f"{brief(code)}{f' ({count} times)' if count > 1 else ''}: not met: {CODES[code].title}"
        if code in CODES
        else brief(code)
        for code, count in entry.failed.items()
    ]
    return "; ".join(parts) or f"exit code {entry.exit_code}"


def _tested(entry: StoredResult) -> tuple[str, str, str, str]:
    origin = entry.provenance
    return origin.model, origin.board, origin.unit, origin.method
