"""What a history holds: samples of metrics and results, and how to select and limit a comparison.

This is the contract between the store, which fills it, the statistics, which evaluate it, and the
reports, which draw it. A History holds all inputs of a comparison, so a comparison can be repeated
from a copy of it.

In the JSON of a History, names come from devices and may be any bytes; as JSON takes only text,
they are escaped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Annotated, Any, Final, Literal, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from harness.analyze.counterparts import ProgramOutline
from harness.config.board import Strict
from harness.errors import FormatError, UsageError
from harness.files import decode_json
from harness.formatting import escaped, unescaped
from harness.records.measurement import MeasurementSettings
from harness.records.result import ClockQuality
from harness.records.trace import Losses

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

Kind = Literal["operator", "counter", "energy", "allocator", "result", "accuracy"]
"""Kind of a metric: time of an operator, count of a hardware counter in an operator, energy of an
operator, bytes of an allocator, or size of the whole result."""

EXACT_COUNTERS: Final = frozenset(
    ("instret", "loads", "stores", "jumps", "branches", "branches_taken", "compressed")
)
"""Hardware counters of what a program does, which is the same in every run."""


MetricUnit = Literal["ns", "ticks", "bytes", "count", "nJ", "error"]


class Provenance(msgspec.Struct, frozen=True, kw_only=True):
    """Where the numbers of a result come from.

    Attributes:
        id: Id of the result, unique in any store.
        started_utc: Start time of the run, ISO 8601.
        board: Board type.
        unit: Unit (physical board).
        model: Name of the model's file.
        model_sha256: Digest of the file.
        method: Method that ran.
        build_id: Build id that the firmware reports.
        tool_version: Version of this package.
        commit: Tested commit; empty if unknown.
        session: Label for results recorded together, such as in one nightly run.
        settings: How it was measured; None if that was not recorded.
        emulated_time: Its clocks count the steps of an emulator, which are the same in every run;
            None if that was not recorded.
        ticks: Nanoseconds per tick of each clock, by name; a clock that is left out is taken as
            exact.
    """

    id: str
    started_utc: str
    board: str
    unit: str
    model: str
    model_sha256: str
    method: str
    build_id: str
    tool_version: str
    commit: str
    session: str
    settings: MeasurementSettings | None = None
    emulated_time: bool | None = None
    ticks: dict[str, float] = {}


class Metric(msgspec.Struct, frozen=True):
    """A measured quantity that is compared over time.

    Attributes:
        kind: Operator, hardware counter, energy, allocator, whole result or accuracy.
        name: Name of the operator or allocator; of a hardware counter or an energy, the operator's;
            for the whole result, the name of the size, such as ``log_bytes``, ``stack_used``,
            ``text_bytes``.
        statistic: Statistic such as ``p50`` of a Summary or ``peak_bytes`` of an allocator; name of
            a hardware counter, whose median count it is; ``energy``; empty for the whole result.
            Of an accuracy the file of samples and the begin of its digest: others do not compare.
        unit: ``ns``, ``ticks``, ``bytes``, ``count``, ``nJ`` or ``error``, the larger the worse.
        block: Block name of an operator; this and the following fields are as in ``Signature``.
        chain: Chain index.
        instruction: Instruction id.
        delegate_int: Integer delegate debug id, -1 unset.
        delegate_str: String delegate debug id.
        clock: Name of its clock domain.
    """

    kind: Kind
    name: str
    statistic: str
    unit: MetricUnit
    block: str = ""
    chain: int = -1
    instruction: int = -1
    delegate_int: int = -1
    delegate_str: str | None = None
    clock: str = ""


DecisionKind = Literal["accepted", "ignored", "reopened"]


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """A person's decision about a change of one series.

    Attributes:
        kind: ``accepted``, ``ignored`` or ``reopened``.
        unit: Unit (physical board) of the series.
        metric: The series; for an operator without a statistic, as it is about all of them.
        since_utc: Start of the first result at the new level.
        at_utc: Start of the newest result when it was decided; what failed until then is covered.
        reason: Why.
        who: Who decided.
        made_utc: When.
        until: Last day on which it holds, ISO 8601; None without end.
    """

    kind: DecisionKind
    unit: str
    metric: Metric
    since_utc: str
    at_utc: str
    reason: str
    who: str
    made_utc: str
    until: str | None = None

    def holds_on(self, day: date) -> bool:
        """Return whether the new level counts as the baseline on this day."""
        expired = self.until is not None and date.fromisoformat(self.until) < day
        return self.kind != "reopened" and not expired

    def describe(self) -> str:
        """Return kind, end, author and reason as text."""
        until = f" until {self.until}" if self.until is not None else ""
        why = f": {self.reason}" if self.reason else ""
        return f"{self.kind}{until} by {self.who or 'unknown'}{why}"


class Sample(msgspec.Struct, frozen=True):
    """The value of a metric in one result.

    Attributes:
        value: The value.
        count: Number of durations it summarises; 1 for sizes.
        std: Standard deviation of these durations, in the same unit.
    """

    value: float
    count: int = 1
    std: float = 0.0


class Series(msgspec.Struct, frozen=True):
    """The values of a metric in the history.

    Attributes:
        metric: The metric.
        results: Indices into ``History.results`` of the results that have it, ascending.
        samples: The value in each of these results.
    """

    metric: Metric
    results: tuple[int, ...]
    samples: tuple[Sample, ...]


class PairedValues(msgspec.Struct, frozen=True):
    """The values of a metric in pairs of runs.

    Attributes:
        metric: The metric.
        baseline: Its value in each run of the baseline arm.
        candidate: Its value in the run of the tested model beside it.
    """

    metric: Metric
    baseline: tuple[float, ...]
    candidate: tuple[float, ...]


class Pairs(msgspec.Struct, frozen=True, kw_only=True):
    """Runs of what the baseline ran and of what is tested, in turns in one session of one unit.

    They say whether a suspect change is one of the model or firmware: what the session does, it
    does to both.
    They are no results of the history.

    Attributes:
        unit: The unit.
        count: Number of pairs; 0 if none were made.
        commit: Commit of the result whose model it is; empty if unknown.
        model_sha256: Digest of this model.
        against: In what both differ: ``model``, ``firmware``, ``firmware and model``.
        models_only: The firmware of the baseline was another one and is in none of the pairs, so
            what they do not show may be a change of the firmware.
        note: What the pairs do not compare, or why there are none.
        values: The values of the metrics that all these runs have.
    """

    unit: str
    count: int = 0
    commit: str = ""
    model_sha256: str = ""
    against: str = "model"
    models_only: bool = False
    note: str = ""
    values: tuple[PairedValues, ...] = ()

    def followed_by(self, baseline: Measured, candidate: Measured) -> Pairs:
        """Return these pairs, and another one."""
        first, second = baseline.samples, candidate.samples
        known = {one.metric: one for one in self.values}
        metrics = [metric for metric in second if metric in first]
        values = [
            PairedValues(
                metric,
                (*(known[metric].baseline if self.count else ()), first[metric].value),
                (*(known[metric].candidate if self.count else ()), second[metric].value),
            )
            for metric in metrics
            if metric in known or not self.count
        ]
        return msgspec.structs.replace(self, count=self.count + 1, values=tuple(values))


class History(msgspec.Struct, frozen=True):
    """Earlier results of one model and method on one type of board.

    Attributes:
        results: Oldest first.
        series: The values of their metrics.
        baseline: Indices into ``results`` of the baseline, ascending. The other results show noise
            and trends.
        description: Selection of the baseline, for reports: ``the last 20``, ``name v1.2``.
        failed: Indices into ``results`` of those whose verdict failed, ascending.
        rolling: Whether the baseline is the newest results, and so changes from night to night.
        decisions: Decisions about changes of these series, in the order in which they were made.
        notes: What was left out of the history, and why.
        required: The baseline was asked for, and is no default.
        pairs: Runs of what the baseline ran beside what is tested, of a unit each.
        outlines: What is known of the programs of its results, by the digest of the model's file.
    """

    results: tuple[Provenance, ...] = ()
    series: tuple[Series, ...] = ()
    baseline: tuple[int, ...] = ()
    description: str = ""
    required: bool = False
    failed: tuple[int, ...] = ()
    rolling: bool = False
    decisions: tuple[Decision, ...] = ()
    notes: tuple[str, ...] = ()
    pairs: tuple[Pairs, ...] = ()
    outlines: dict[str, ProgramOutline] = {}

    def newest_of_baseline(self, unit: str) -> Provenance | None:
        """Return the newest result of the baseline, of this unit if it has any; None without."""
        baseline = [self.results[place] for place in self.baseline]
        same_unit = [one for one in baseline if one.unit == unit]
        return (same_unit or baseline)[-1] if baseline else None

    def pairs_of(self, unit: str) -> Pairs | None:
        """Return the pairs of a unit; None without any."""
        return next((pairs for pairs in self.pairs if pairs.unit == unit), None)

    def with_pairs(self, pairs: Pairs) -> History:
        """Return a history with these pairs, in place of other ones of their unit."""
        others = (other for other in self.pairs if other.unit != pairs.unit)
        return msgspec.structs.replace(self, pairs=(*others, pairs))


class Measured(msgspec.Struct, frozen=True):
    """The values of one result.

    Attributes:
        provenance: Where the values come from.
        samples: The values by metric.
        outline: What is known of the program; None for nothing.
    """

    provenance: Provenance
    samples: dict[Metric, Sample]
    outline: ProgramOutline | None = None


def with_results(history: History, measured: Iterable[Measured]) -> History:
    """Return a history with further results at its end, which do not belong to its baseline.

    Those that it has already are left out.
    """
    known = {result.id for result in history.results}
    new = [item for item in measured if item.provenance.id not in known]
    found = {item.metric: ([*item.results], [*item.samples]) for item in history.series}
    for place, item in enumerate(new, len(history.results)):
        for metric, sample in item.samples.items():
            results, samples = found.setdefault(metric, ([], []))
            results.append(place)
            samples.append(sample)
    return msgspec.structs.replace(
        history,
        results=(*history.results, *(item.provenance for item in new)),
        series=tuple(Series(metric, tuple(r), tuple(s)) for metric, (r, s) in found.items()),
        outlines=history.outlines
        | {item.provenance.model_sha256: item.outline for item in new if item.outline is not None},
    )


def with_further_runs(history: History, saved: History, tested: Provenance) -> History:
    """Return a history with what a saved one has of further runs of the tested result.

    Runs that looked again are in no store, and without them what they settled is open again.

    Args:
        history: The results of a store.
        saved: The results that the tested one was compared with before.
        tested: Provenance of the tested result.
    """
    known = {series.metric for series in history.series}
    further = []
    for place, result in enumerate(saved.results):
        if result.id != tested.id and repeat_key(result) == repeat_key(tested):
            samples = {
                series.metric: series.samples[series.results.index(place)]
                for series in saved.series
                if series.metric in known and place in series.results
            }
            outline = saved.outlines.get(result.model_sha256)
            further.append(Measured(result, samples, outline))
    if (pairs := saved.pairs_of(tested.unit)) is not None:
        history = history.with_pairs(pairs)
    return with_results(history, further)


@dataclass(frozen=True, eq=False)
class Points:
    """Values of one metric on one unit.

    Attributes:
        values: The values, in the metric's unit, shape (n,).
        sessions: Session number of each, shape (n,).
        origins: Origin number of each (see ``origin_of``), by first occurrence, shape (n,).
        results: Index of each result in ``UnitHistory.results``, shape (n,).
    """

    values: Floats
    sessions: Ints
    origins: Ints
    results: Ints

    def __len__(self) -> int:
        return len(self.values)

    def where(self, chosen: npt.NDArray[Any]) -> Points:
        """Return the points at these indices, or those for which a mask, shape (n,), is True."""
        return Points(*(part[chosen] for part in self._parts))

    def followed_by(self, more: Points) -> Points:
        """Return these points, then ``more``."""
        return Points(*map(np.concatenate, zip(self._parts, more._parts, strict=True)))

    @property
    def _parts(self) -> tuple[npt.NDArray[Any], ...]:
        return self.values, self.sessions, self.origins, self.results

    def with_values(self, values: Floats) -> Points:
        """Return points with other values for the same results."""
        return Points(values, self.sessions, self.origins, self.results)

    def groups(self, keys: Ints) -> Iterator[tuple[int, Points]]:
        """Yield each key in ascending order with its points; ``keys`` has shape (n,)."""
        for key in np.unique(keys).tolist():
            yield key, self.where(keys == key)

    @cached_property
    def cells(self) -> Points:
        """The median per session and origin, sorted by origin, then by first occurrence."""
        keys = self.origins * (int(self.sessions.max(initial=0)) + 1) + self.sessions
        if (keys[1:] > keys[:-1]).all():
            return self  # one result of each, and in this order: the usual history
        _, first = np.unique(keys, return_index=True)
        order = np.lexsort((first, self.origins[first]))
        return self.where(first[order]).with_values(medians_by(keys, self.values)[order])

    @cached_property
    def cells_in_time(self) -> Points:
        """The median per session and origin, sorted by first occurrence."""
        cells = self.cells
        if (cells.results[1:] > cells.results[:-1]).all():
            return cells
        return cells.where(np.argsort(cells.results))


def median(values: Floats) -> float:
    """Return the median of values, shape (n,), of which none is NaN; NaN without values.

    The same as ``numpy.median``, whose overhead is a multiple of the time that short arrays take:
    a comparison needs tens of thousands of medians.
    """
    count = len(values)
    if not count:
        return float("nan")
    ordered = np.sort(values)
    return float((ordered[(count - 1) // 2] + ordered[count // 2]) / 2)


def medians_by(keys: Ints, values: Floats) -> Floats:
    """Return the median of the values of each key, in ascending order of keys, shape (keys,).

    ``scipy.ndimage.median`` gives the same; NumPy alone keeps this module free of SciPy.
    """
    if (keys[1:] > keys[:-1]).all():
        return values  # each key once
    order = np.lexsort((values, keys))
    _, starts, counts = np.unique(keys[order], return_index=True, return_counts=True)
    ordered = values[order]
    return np.asarray((ordered[starts + (counts - 1) // 2] + ordered[starts + counts // 2]) / 2)


def numbered(keys: Iterable[str]) -> Ints:
    """Return a number for each key, equal for equal keys, in order of first occurrence."""
    known: dict[str, int] = {}
    return np.array([known.setdefault(key, len(known)) for key in keys], np.int64)


def session_of(result: Provenance) -> str:
    """Return the session label of a result; its id without one."""
    return result.session or result.id


def occasion_of(result: Provenance) -> str:
    """Return the part of the session label before ``/``: ``night 12`` for ``night 12/7``."""
    return session_of(result).partition("/")[0]


def origin_of(result: Provenance) -> str:
    """Return the tested version: the commit, or firmware and model if it is unknown or dirty."""
    if result.commit and not result.commit.endswith("-dirty"):
        return result.commit
    return f"{result.commit} {result.build_id} {result.model_sha256}"


def repeat_key(result: Provenance) -> tuple[str, str, str]:
    """Return what repeats of one measurement share: the unit, the tested version, the occasion."""
    return result.unit, origin_of(result), occasion_of(result)


How = Literal["name", "commit", "last"]


class BaselineRef(msgspec.Struct, frozen=True):
    """A selection of earlier results.

    Attributes:
        how: ``name``: results stored under a name; ``commit``: results of a commit; ``last``: the
            newest results.
        what: The name, a prefix of the commit, or the number of results.
    """

    how: How
    what: str

    def __str__(self) -> str:
        return f"{self.how}:{self.what}"

    @property
    def description(self) -> str:
        """Text for reports, such as ``the last 20`` or ``name v1.2``."""
        return f"the last {self.what}" if self.how == "last" else f"{self.how} {self.what}"


DEFAULT_BASELINE: Final[BaselineRef] = BaselineRef("last", "20")
"""The newest twenty results."""

_HINT: Final = "write name:v1.2, commit:abc123 or last:20"
_MIN_COMMIT_DIGITS: Final = 4
"""A shorter prefix of a commit would match by chance."""


def parse_baseline(text: str) -> BaselineRef:
    """Read ``name:NAME``, ``commit:PREFIX`` or ``last:COUNT``.

    Raises:
        UsageError: The text has another form.
    """
    how, colon, what = text.strip().partition(":")
    what = what.strip()
    if not colon or how not in ("name", "commit", "last") or not what:
        raise UsageError(f"invalid baseline {text!r}", hint=_HINT)
    if how == "last" and not (what.isascii() and what.isdigit() and int(what)):
        raise UsageError(f"invalid baseline {text!r}: invalid count {what!r}", hint=_HINT)
    if how == "commit" and len(what) < _MIN_COMMIT_DIGITS:
        raise UsageError(
            f"invalid baseline {text!r}: commit prefix too short",
            hint=f"give {_MIN_COMMIT_DIGITS} digits or more",
        )
    return BaselineRef(how, str(int(what)) if how == "last" else what)  # type: ignore[arg-type]


TimeStatistic = Literal["p50", "min", "p10", "p90", "max", "avg"]

_Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
_Amount = Annotated[float, msgspec.Meta(ge=0)]
_Level = Annotated[float, msgspec.Meta(gt=0, lt=1)]


class HistoryOverride(Strict, frozen=True):
    """Other limits for some operators.

    Attributes:
        event: ``fnmatch`` pattern on the event name, case-sensitive.
        block: ``fnmatch`` pattern on the block name.
        relative: Replaces ``HistoryLimits.relative``; None keeps it.
        absolute_us: Replaces ``HistoryLimits.absolute_us``; None keeps it.
        absolute_ticks: Replaces ``HistoryLimits.absolute_ticks``; None keeps it.
        optional: The override may match no operator.
    """

    event: str
    block: str = "*"
    relative: _Share | None = None
    absolute_us: _Amount | None = None
    absolute_ticks: _Amount | None = None
    optional: bool = False


class HistoryLimits(Strict, frozen=True):
    """When a change counts: beyond the relative and the absolute limit, and beyond the noise.

    Attributes:
        statistics: Statistics of an operator's times that are compared; the operator has changed if
            one of them has. On a busy machine the minimum is more sensitive for some operators, the
            median for others.
        relative: Smallest change of a time, as a share of the baseline.
        absolute_us: Smallest change of a time, in microseconds.
        absolute_ticks: Smallest change of a time in ticks, if the clock rate is unknown.
        relative_bytes: Smallest growth of a size, as a share of the baseline.
        absolute_bytes: Smallest growth of a size, in bytes.
        relative_counts: Smallest growth of a hardware counter, as a share of the baseline.
        absolute_counts: Smallest growth of a hardware counter, in counts.
        relative_energy: Smallest growth of an energy, as a share of the baseline.
        absolute_nj: Smallest growth of an energy, in nanojoules.
        absolute_accuracy: Smallest fall of top-1 accuracy and of AUC, both from 0 to 1.
        relative_error: Smallest growth of an error against references, as a share of the baseline.
        absolute_error: Smallest growth of such an error, in units of the output.
        fdr: False discovery rate: expected share of false alarms among the reported changes of one
            result; if nothing changed, the probability of any alarm (``docs/verdicts.md``).
        detectable: Largest change, as a share, that the median operator may have had unseen; with a
            larger one the history says too little (H06).
        min_results: Sessions needed to estimate the noise of an operator.
        confidence: Confidence level of the intervals.
        override: Limits for some operators; the first match applies.
    """

    statistics: Annotated[tuple[TimeStatistic, ...], msgspec.Meta(min_length=1)] = ("min", "p50")
    relative: _Share = 0.02
    absolute_us: _Amount = 0.05
    absolute_ticks: _Amount = 2.0
    relative_bytes: _Share = 0.01
    absolute_bytes: _Amount = 64.0
    relative_counts: _Share = 0.01
    absolute_counts: _Amount = 16.0
    relative_energy: _Share = 0.05
    absolute_nj: _Amount = 100.0
    absolute_accuracy: _Amount = 0.01
    relative_error: _Share = 0.05
    absolute_error: _Amount = 1e-6
    fdr: _Level = 0.01
    detectable: Annotated[float, msgspec.Meta(gt=0)] = 0.25
    min_results: Annotated[int, msgspec.Meta(ge=3)] = 5
    confidence: _Level = 0.95
    override: tuple[HistoryOverride, ...] = ()

    def of(self, metric: Metric) -> tuple[float, float]:
        """Return the relative limit of a metric, and its absolute limit in its unit."""
        if metric.unit == "bytes":
            return self.relative_bytes, self.absolute_bytes
        if metric.unit == "count":
            return self.relative_counts, self.absolute_counts
        if metric.unit == "nJ":
            return self.relative_energy, self.absolute_nj
        if metric.unit == "error":
            share = metric.name.startswith("1 - ")
            return (
                (0.0, self.absolute_accuracy)
                if share
                else (self.relative_error, self.absolute_error)
            )
        relative, us, ticks = self.relative, self.absolute_us, self.absolute_ticks
        for other in self.override:
            if fnmatchcase(metric.name, other.event) and fnmatchcase(metric.block, other.block):
                relative = relative if other.relative is None else other.relative
                us = us if other.absolute_us is None else other.absolute_us
                ticks = ticks if other.absolute_ticks is None else other.absolute_ticks
                break
        return relative, ticks if metric.unit == "ticks" else us * 1000


class LinkFigures(msgspec.Struct, frozen=True):
    """Link statistics of a result.

    Attributes:
        baud: Baud rate, 0 if unknown or not a serial line.
        bytes_carried: Bytes in both directions.
        corrupt_frames: Frames rejected.
        retries: Requests sent again.
        goodput: Payload read from the device in bytes per second; null if not measured.
    """

    baud: int
    bytes_carried: int
    corrupt_frames: int
    retries: int
    goodput: float | None


class StoredResult(msgspec.Struct, frozen=True, kw_only=True):
    """One result in a store.

    Attributes:
        provenance: Where its numbers come from.
        duration_s: Duration of the run.
        exit_code: Exit code of the run.
        passed: Its verdict; null without one.
        budget: Path of the budget file, "" without one.
        failed: Number of failed checks by code (errors).
        warned: Number of failed checks by code (warnings and notes).
        failure: Class of the error that ended the run; "" without an error.
        failure_message: Message of this error.
        runs_requested: Requested executions.
        runs_completed: Completed executions.
        link: Link statistics.
        clocks: Accuracy of each clock.
        losses: Losses of the log.
        indistinct: Numbers left out because others have the same metric.
        complete: All executions completed, no event is missing and no invariant failed, so that its
            numbers are part of a series, whatever its verdict.
        sound: It is complete and passed; only sound results become part of a baseline by
            themselves.
    """

    provenance: Provenance
    duration_s: float
    exit_code: int
    passed: bool | None
    budget: str
    failed: dict[str, int]
    warned: dict[str, int]
    failure: str
    failure_message: str
    runs_requested: int
    runs_completed: int
    link: LinkFigures
    clocks: tuple[ClockQuality, ...]
    losses: Losses
    indistinct: int
    complete: bool
    sound: bool


class NamedBaseline(msgspec.Struct, frozen=True):
    """A baseline with a name.

    Attributes:
        name: Its name.
        set_utc: Time at which it was set.
        results: Number of its results.
    """

    name: str
    set_utc: str
    results: int


class StoreInfo(msgspec.Struct, frozen=True):
    """Information about a store.

    Attributes:
        place: Its path or URL.
        version: Version of its tables.
        rows: Number of rows of each table.
    """

    place: str
    version: str
    rows: dict[str, int]


class Added(msgspec.Struct, frozen=True):
    """The outcome of adding a run directory to a store.

    Attributes:
        path: The directory.
        state: ``added``; ``there``: already in the store; ``updated``: likewise, and a verdict
            given later was recorded; ``refused``.
        id: Id of the result; "" if unknown.
        reason: Why it was refused, or a warning about an added result.
    """

    path: str
    state: Literal["added", "there", "updated", "refused"]
    id: str = ""
    reason: str = ""


class CopyOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of copying a history to another one.

    Attributes:
        results: Number of results.
        baselines: Number of named baselines.
        decisions: Number of decisions.
        nights: Number of verdicts of nightly runs.
    """

    results: int
    baselines: int
    decisions: int
    nights: int = 0


_S = TypeVar("_S", bound=msgspec.Struct)


def encode_history(history: History) -> bytes:
    """Return the JSON of ``history``, without indentation: it is mostly numbers."""
    return msgspec.json.encode(_with_names(history, escaped)) + b"\n"


def decode_history(data: bytes, where: str) -> History:
    """Decode the JSON of ``encode_history``.

    Raises:
        FormatError: It is not such JSON; the message names ``where``.
    """
    try:
        return _with_names(decode_json(data, type_=History), unescaped)
    except msgspec.DecodeError as error:
        raise FormatError(f"{where}: not a history of this version: {error}") from error


def _with_names(history: History, change: Callable[[str], str]) -> History:
    return msgspec.structs.replace(
        history,
        results=tuple(_with_texts(result, change) for result in history.results),
        series=tuple(
            msgspec.structs.replace(series, metric=_with_texts(series.metric, change))
            for series in history.series
        ),
        description=change(history.description),
        decisions=tuple(
            msgspec.structs.replace(
                _with_texts(decision, change), metric=_with_texts(decision.metric, change)
            )
            for decision in history.decisions
        ),
        notes=tuple(map(change, history.notes)),
        pairs=tuple(
            msgspec.structs.replace(
                _with_texts(pairs, change),
                values=tuple(
                    msgspec.structs.replace(one, metric=_with_texts(one.metric, change))
                    for one in pairs.values
                ),
            )
            for pairs in history.pairs
        ),
        outlines={sha: outline.with_names(change) for sha, outline in history.outlines.items()},
    )


def _with_texts(item: _S, change: Callable[[str], str]) -> _S:
    texts = {
        name: change(value)
        for name, value in msgspec.structs.asdict(item).items()
        if isinstance(value, str)
    }
    return msgspec.structs.replace(item, **texts)
