"""The history that a run is judged by: fetched from a store, and kept in the run directory."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from harness.check.budget import Budget
from harness.check.evaluate import NO_LIMITS
from harness.check.history.baseline import DEFAULT_BASELINE, BaselineRef, parse_baseline
from harness.check.history.compare import hold_against
from harness.check.history.comparison import HistoryComparison
from harness.check.history.extract import durations_of, numbers_of
from harness.check.history.samples import History, Measured, Provenance, occasion_of, origin_of
from harness.check.history.settings import HistoryLimits
from harness.check.subject import Subject
from harness.errors import NotComparableError
from harness.history import open_store
from harness.history.entries import provenance_of
from harness.history.history_json import read_copy, write_copy
from harness.history.location import default_history
from harness.records.result import Result
from harness.records.trace import OPERATOR_CALL
from harness.runs.directory import HISTORY, RunDirectory

if TYPE_CHECKING:
    from harness.history.store import Store


@dataclass(frozen=True, slots=True)
class HistoryRef:
    """Where history is, and which of it is the baseline.

    Attributes:
        url: As ``open_store`` takes it.
        baseline: Which results are compared with.
    """

    url: str
    baseline: BaselineRef = DEFAULT_BASELINE

    def fetch(
        self, judged: Provenance, limits: HistoryLimits, also: Collection[str] = ()
    ) -> History:
        """Read what ``judged`` is held against: its board's results of the model, on any unit.

        What was made on the same occasion of the same commit is no part of a baseline of the last
        results, of which there may be none yet.

        Args:
            judged: What is judged.
            limits: Which statistics are compared.
            also: Ids of results that are judged with it.

        Raises:
            NotComparableError: The baseline that was asked for means no result.
            UsageError: There is no such store, or the baseline may mean several commits.
            InfrastructureError: The store does not answer.
        """
        baseline = self.baseline
        try:
            with self._open() as store:
                found = store.history(
                    *(judged.board, judged.model, judged.method),
                    statistics=limits.statistics,
                    baseline=baseline,
                    without=(judged.id, *also),
                )
        except NotComparableError:
            if baseline.how != "last":
                raise
            return History(description=baseline.description)
        # Scopes repeat the times of what they hold.
        series = tuple(one for one in found.series if one.metric.name != OPERATOR_CALL)
        history = msgspec.structs.replace(found, series=series)
        return _without_own(history, judged) if baseline.how == "last" else history

    def check(self) -> None:
        """Open the store and close it again, to see whether it can be asked later.

        Raises:
            UsageError: There is no such store.
            InfrastructureError: It does not answer.
        """
        self._open().close()

    def _open(self) -> Store:
        # The first night has nothing to be held against, and may begin the history.
        return open_store(self.url, create=self.baseline.how == "last")


def history_of(url: str | None, baseline: str | None) -> HistoryRef | None:
    """The history at ``url``, or the default history if only a baseline is given; None if neither.

    Raises:
        UsageError: ``baseline`` is invalid.
    """
    if url is None and baseline is None:
        return None
    chosen = parse_baseline(baseline) if baseline else DEFAULT_BASELINE
    return HistoryRef(url or default_history(), chosen)


def _without_own(history: History, judged: Provenance) -> History:
    def own(place: int) -> bool:
        result = history.results[place]
        return (result.unit, origin_of(result), occasion_of(result)) == (
            *(judged.unit, origin_of(judged), occasion_of(judged)),
        )

    baseline = tuple(place for place in history.baseline if not own(place))
    return msgspec.structs.replace(history, baseline=baseline)


def keep_history(directory: Path, history: History) -> None:
    """Keep the history that a run was judged by, so that it can be judged so again."""
    RunDirectory(directory).write_late(HISTORY, write_copy(history))


def kept_history(directory: Path) -> History | None:
    """Return the history that a run was judged by, if it was.

    Raises:
        FormatError: The file holds something else.
    """
    file = directory / HISTORY
    if not file.is_file():
        return None
    return read_copy(file.read_bytes(), str(file))


def compare_with(
    history: History, subject: Subject, result: Result, budget: Budget | None
) -> HistoryComparison:
    """Hold a run against its history.

    Raises:
        UsageError: SciPy or ruptures is not installed.
    """
    limits = (budget or NO_LIMITS).history
    measured = Measured(provenance_of(result), numbers_of(subject, limits))
    return hold_against(history, [measured], limits, durations_of(subject))
