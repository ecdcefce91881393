"""The history that a run is compared with: fetched from a store, saved in the run directory."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import msgspec

from harness.check.history.baseline import DEFAULT_BASELINE, BaselineRef, parse_baseline
from harness.check.history.samples import History, Provenance, occasion_of, origin_of
from harness.check.history.settings import HistoryLimits
from harness.errors import NotComparableError
from harness.history import default_history, open_store
from harness.history.entries import Selection
from harness.records.result import moment
from harness.records.trace import OPERATOR_CALL

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
        self, tested: Provenance, limits: HistoryLimits, also: Collection[str] = ()
    ) -> History:
        """Read the results to compare ``tested`` with: the same board and model, on any unit.

        Results that began after ``tested`` are left out, unless the baseline names them, so a
        result that is evaluated again later gets the same verdict. A ``last:N`` baseline leaves out
        results of the same unit, commit and session, and may be empty.

        Args:
            tested: Provenance of the result to evaluate.
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
                    *(tested.board, tested.model, tested.method),
                    statistics=limits.statistics,
                    baseline=baseline,
                    without=(tested.id, *also),
                    failed=True,
                    known_at=_known_at(store, tested),
                )
        except NotComparableError:
            if baseline.how != "last":
                raise
            return History(description=baseline.description, required=self.required)
        # An operator-call scope repeats the time of the operator inside it.
        series = tuple(one for one in found.series if one.metric.name != OPERATOR_CALL)
        history = msgspec.structs.replace(found, series=series, required=self.required)
        return _without_own(history, tested) if baseline.how == "last" else history

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


def _known_at(store: Store, tested: Provenance) -> str:
    """Return the end of the time whose results are known to ``tested``.

    Results of its own occasion belong to it, also those that began later.
    """
    latest = moment(tested.started_utc)
    if tested.session:
        same = Selection(tested.board, None, tested.model, tested.method, since=tested.started_utc)
        for entry in store.results(same):
            if occasion_of(entry.provenance) == occasion_of(tested):
                latest = max(latest, moment(entry.provenance.started_utc))
    return (latest + timedelta(microseconds=1)).isoformat()


def _without_own(history: History, tested: Provenance) -> History:
    def own(index: int) -> bool:
        result = history.results[index]
        return (result.unit, origin_of(result), occasion_of(result)) == (
            *(tested.unit, origin_of(tested), occasion_of(tested)),
        )

    baseline = tuple(index for index in history.baseline if not own(index))
    return msgspec.structs.replace(history, baseline=baseline)
