"""The history that a run is compared with: fetched from a store, saved in the run directory."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from harness.check.budget import Budget
from harness.check.evaluate import DEFAULT_BUDGET
from harness.check.history.baseline import DEFAULT_BASELINE, BaselineRef, parse_baseline
from harness.check.history.compare import compare_with_history
from harness.check.history.comparison import HistoryComparison
from harness.check.history.measure import durations_of, numbers_of, ticks_of
from harness.check.history.samples import History, Measured, Provenance, occasion_of, origin_of
from harness.check.history.settings import HistoryLimits
from harness.check.subject import Subject
from harness.errors import NotComparableError
from harness.history import default_history, open_store
from harness.history.entries import Selection, provenance_of
from harness.history.history_json import decode_history, encode_history
from harness.records.result import Result
from harness.records.timestamps import moment
from harness.records.trace import OPERATOR_CALL
from harness.runs.directory import HISTORY, RunDirectory

if TYPE_CHECKING:
    from harness.history.store import Store


@dataclass(frozen=True, slots=True)
class HistoryRef:
    """A history and a baseline in it.

    Attributes:
        url: URL or path of the history, as for ``open_store``.
        baseline: The results to compare with.
        required: The baseline was asked for, and is no default.
    """

    url: str
    baseline: BaselineRef = DEFAULT_BASELINE
    required: bool = False

    def fetch(
        self, judged: Provenance, limits: HistoryLimits, also: Collection[str] = ()
    ) -> History:
        """Read the results to compare ``judged`` with: the same board and model, on any unit.

        Results that began after ``judged`` are left out, unless the baseline names them, so a
        result that is judged again later gets the same verdict. A ``last:N`` baseline leaves out
        results of the same unit, commit and session, and may be empty.

        Args:
            judged: Provenance of the result to evaluate.
            limits: Limits that select the statistics to compare.
            also: Ids of further results to leave out.

        Raises:
            NotComparableError: The baseline matches no result.
            UsageError: There is no such store, or the baseline matches several commits.
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
                    failed=True,
                    known_at=_known_at(store, judged),
                )
        except NotComparableError:
            if baseline.how != "last":
                raise
            return History(description=baseline.description, required=self.required)
        # An operator-call scope repeats the time of the operator inside it.
        series = tuple(one for one in found.series if one.metric.name != OPERATOR_CALL)
        history = msgspec.structs.replace(found, series=series, required=self.required)
        return _without_own(history, judged) if baseline.how == "last" else history

    def check(self) -> None:
        """Check that the store can be opened, before a run that needs it later.

        Raises:
            UsageError: There is no such store.
            InfrastructureError: The store does not answer.
        """
        self._open().close()

    def _open(self) -> Store:
        # The first run has no baseline yet, and may create the history.
        return open_store(self.url, create=self.baseline.how == "last")


def history_of(url: str | None, baseline: BaselineRef | str | None) -> HistoryRef | None:
    """Return the history and baseline to compare with.

    None if neither is given; if only one is, the other has its default.

    Raises:
        UsageError: The text of ``baseline`` is invalid.
    """
    if url is None and baseline is None:
        return None
    if isinstance(baseline, str):
        baseline = parse_baseline(baseline) if baseline else None
    return HistoryRef(
        url or default_history(), baseline or DEFAULT_BASELINE, required=baseline is not None
    )


def _known_at(store: Store, judged: Provenance) -> str:
    """Return the end of the time whose results are known to ``judged``.

    Results of its own occasion belong to it, also those that began later.
    """
    latest = moment(judged.started_utc)
    if judged.session:
        same = Selection(judged.board, None, judged.model, judged.method, since=judged.started_utc)
        for entry in store.results(same):
            if occasion_of(entry.provenance) == occasion_of(judged):
                latest = max(latest, moment(entry.provenance.started_utc))
    return (latest + timedelta(microseconds=1)).isoformat()


def _without_own(history: History, judged: Provenance) -> History:
    def own(index: int) -> bool:
        result = history.results[index]
        return (result.unit, origin_of(result), occasion_of(result)) == (
            *(judged.unit, origin_of(judged), occasion_of(judged)),
        )

    baseline = tuple(index for index in history.baseline if not own(index))
    return msgspec.structs.replace(history, baseline=baseline)


def save_history(directory: Path, history: History) -> None:
    """Save the history that a run was compared with, for later evaluations of the same run."""
    RunDirectory(directory).write_late(HISTORY, encode_history(history))


def load_history(directory: Path) -> History | None:
    """Return the history that a run was compared with; None without one.

    Raises:
        FormatError: The file is not a history.
    """
    file = directory / HISTORY
    if not file.is_file():
        return None
    return decode_history(file.read_bytes(), str(file))


def compare_with(
    history: History, subject: Subject, result: Result, budget: Budget | None
) -> HistoryComparison:
    """Compare a run with its history.

    Raises:
        UsageError: SciPy or ruptures is not installed.
    """
    limits = (budget or DEFAULT_BUDGET).history
    measured = Measured(provenance_of(result), numbers_of(subject, limits), ticks_of(subject))
    return compare_with_history(history, [measured], limits, durations_of(subject))
