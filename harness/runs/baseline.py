"""The history that a run is compared with: fetched from a store, saved in the run directory."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from harness.check.history.baseline import DEFAULT_BASELINE, BaselineRef, parse_baseline
from harness.check.history.samples import History, Provenance, occasion_of, origin_of
from harness.check.history.settings import HistoryLimits
from harness.errors import HarnessError, NotComparableError
from harness.history import default_history, open_store
from harness.records.measurement import describe_difference, settings_key
from harness.records.result import VerdictRecord
from harness.records.trace import OPERATOR_CALL

if TYPE_CHECKING:
    from harness.history.store import Store


_log = logging.getLogger(__name__)


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
        """Read the results to compare ``tested`` with.

        They are of the same board, model and method, on any unit, measured with the same settings,
        and known when the occasion of ``tested`` had ended. A ``last:N`` baseline leaves out
        results of the same unit, commit and session, and may be empty.

        Args:
            tested: Provenance of the result to evaluate.
            limits: Limits that select the statistics to compare.
            also: Ids of further results to leave out.

        Raises:
            NotComparableError: The baseline matches no result, or only results with other
                measurement settings.
            UsageError: There is no such store, or the baseline matches several commits.
            InfrastructureError: The store does not answer.
        """
        baseline = self.baseline
        with self.open() as store:
            try:
                found = store.history(
                    *(tested.board, tested.model, tested.method),
                    statistics=limits.statistics,
                    baseline=baseline,
                    without=(tested.id, *also),
                    settings=settings_key(tested.settings),
                    tested=tested,
                )
            except NotComparableError as error:
                others = self._with_other_settings(store, tested, also)
                if baseline.how == "last":
                    empty = _empty_history(baseline, others, tested)
                    return msgspec.structs.replace(empty, required=self.required)
                if others:
                    raise _not_comparable(baseline, others, tested) from error
                raise
        # An operator-call scope repeats the time of the operator inside it.
        series = tuple(one for one in found.series if one.metric.name != OPERATOR_CALL)
        history = msgspec.structs.replace(found, series=series, required=self.required)
        return _without_own(history, tested) if baseline.how == "last" else history

    def _with_other_settings(
        self, store: Store, tested: Provenance, also: Collection[str]
    ) -> tuple[Provenance, ...]:
        """Return the results that would be the baseline if settings did not matter."""
        try:
            found = store.history(
                *(tested.board, tested.model, tested.method),
                baseline=self.baseline,
                without=(tested.id, *also),
                tested=tested,
                window=0,
                pattern="",  # no numbers
            )
        except HarnessError:
            return ()
        return tuple(found.results[place] for place in found.baseline)

    def record(self, own_id: str, verdict: VerdictRecord) -> None:
        """Record the verdict of a check against the newest results, if the store has the result.

        Without it a result that failed would become part of that baseline. Verdicts against a
        baseline that somebody chose say nothing of that, and `etharness history add` records them.
        A store that cannot be written is left as it is.
        """
        if self.baseline.how != "last":
            return
        try:
            with self.open() as store:
                store.record_verdict(own_id, verdict)
        except HarnessError as error:
            _log.warning("the verdict was not recorded in the history: %s", error.message)

    def check(self) -> None:
        """Check that the store can be opened, before a run that needs it later.

        Raises:
            UsageError: There is no such store.
            InfrastructureError: The store does not answer.
        """
        self.open().close()

    def open(self) -> Store:
        """Open the store; create it only for a baseline that may be empty."""
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


def _empty_history(
    baseline: BaselineRef, others: Sequence[Provenance], tested: Provenance
) -> History:
    """Return the history of the first night of a series, with a note about other series."""
    notes: tuple[str, ...] = ()
    if others:
        notes = (_other_settings("earlier results were", others, tested),)
    return History(description=baseline.description, rolling=True, notes=notes)


def _not_comparable(
    baseline: BaselineRef, others: Sequence[Provenance], tested: Provenance
) -> NotComparableError:
    """Return the error for a baseline that was measured with other settings."""
    return NotComparableError(
        _other_settings(f"baseline {baseline} was", others, tested),
        hint="run again with the settings of the baseline, or measure a baseline with these",
    )


def _other_settings(subject: str, others: Sequence[Provenance], tested: Provenance) -> str:
    """Describe in which settings earlier results differ from the result to evaluate."""
    old, new = describe_difference(others[-1].settings, tested.settings)
    return f"not comparable: {subject} measured with {old}, this run with {new}"


def _without_own(history: History, tested: Provenance) -> History:
    def own(index: int) -> bool:
        result = history.results[index]
        return (result.unit, origin_of(result), occasion_of(result)) == (
            *(tested.unit, origin_of(tested), occasion_of(tested)),
        )

    baseline = tuple(index for index in history.baseline if not own(index))
    return msgspec.structs.replace(history, baseline=baseline)
