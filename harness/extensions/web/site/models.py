"""Models on units: their results in a history, their series, and charts of these.

What a site knows of each model on a unit is a document, which its data file holds exactly.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import msgspec

from harness.check.history.align import as_newest
from harness.check.history.compare import DEFAULT_LIMITS, compare_with_history, most_significant
from harness.check.history.comparison import (
    CommonChange,
    Compared,
    HistoryComparison,
    MetricStep,
    NumberKind,
    number_kind,
)
from harness.check.history.group_sessions import series_of
from harness.check.history.samples import (
    Decision,
    History,
    Measured,
    Metric,
    Provenance,
    Series,
    StoredResult,
    occasion_of,
    repeat_key,
)
from harness.extensions.web.html.history import series_chart
from harness.extensions.web.html.svg import Limits, View
from harness.formatting import printable
from harness.history.entries import Selection
from harness.history.store import Store
from harness.records.measurement import describe_settings, settings_key, settings_of_key
from harness.records.result import microseconds
from harness.records.trace import EXECUTION, is_wrapper
from harness.records.verdict import CODES, Judgement
from harness.report.words import LONGEST_SENTENCE, RunState, brief, metric_title, state_of

_LONGEST_SLUG: Final = 40
"""Characters of a name in a file name."""

_DIGEST: Final = 8
"""Hexadecimal digits that keep file names of similar names apart."""


class SiteResult(msgspec.Struct, frozen=True):
    """A result as the site shows it.

    Attributes:
        id: Id of the result.
        started: Start time, ISO 8601.
        commit: Tested commit; empty if unknown.
        night: Label of the results that it was recorded with; empty if there are no others.
        state: How it ended.
        why: Why it did not pass.
        built: Firmware, model file and version of this package, which a comparison names if they
            differ.
    """

    id: str
    started: str
    commit: str
    night: str
    state: RunState
    why: str
    built: tuple[str, str, str]


class SiteStep(msgspec.Struct, frozen=True):
    """A lasting change of a series.

    Attributes:
        last_good: Commit of the last result before it.
        first_bad: Commit of the first result after it.
        since: Start of that result.
        before: Level before it.
        after: Level after it.
        p: P-value.
        decision: What a person decided about it; empty without a decision.
        undecided: An increase that the baseline contains and nobody accepted.
    """

    last_good: str
    first_bad: str
    since: str
    before: float
    after: float
    p: float
    decision: str = ""
    undecided: bool = False


class SiteSeries(msgspec.Struct, frozen=True):
    """A number of a model on a unit, result by result.

    Attributes:
        page: Path of its page.
        title: Its title, such as ``median execution``.
        name: Name of the operator, allocator or size in the log.
        kind: What it is of.
        role: ``execution``: the median execution; ``peak``: the peak of an allocator; else empty.
        unit: Unit of the values: ``ns``, ``ticks``, ``bytes``, ``count`` or ``nJ``.
        values: The value in each result of the model on the unit; None where it was not measured.
        judgement: Outcome of comparing the newest result with its baseline; empty without one.
        baseline: Level of the baseline; None without one.
        change: Change of the newest result, as a share of the baseline.
        statistic: Statistic whose change it is, if not that of the values, such as ``min``.
        noise: Standard deviation between sessions, as a share; None if unknown.
        detectable: Smallest change that would have been found, as a share; None if unknown.
        steps: Lasting changes, oldest first.
        decision: The decision that counts for the newest result; empty without one.
    """

    page: str
    title: str
    name: str
    kind: NumberKind
    role: Literal["execution", "peak", ""]
    unit: str
    values: tuple[float | None, ...]
    judgement: Judgement | Literal[""] = ""
    baseline: float | None = None
    change: float | None = None
    statistic: str = ""
    noise: float | None = None
    detectable: float | None = None
    steps: tuple[SiteStep, ...] = ()
    decision: str = ""

    @property
    def measured(self) -> list[float]:
        """The values of the results that have it, oldest first."""
        return [value for value in self.values if value is not None]


class ModelOnUnit(msgspec.Struct, frozen=True):
    """A model and method on a unit, measured with the same settings: all its results and series.

    Attributes:
        slug: Part of the names of its files.
        board: Board type.
        unit: Unit, one physical board.
        model: Name of the model's file, without its suffix.
        method: Method that ran.
        settings: Measurement settings as text.
        results: Its results, oldest first.
        left_out: Number of older results that the site does not show.
        series: Its series; executions, memory and sizes first.
    """

    slug: str
    board: str
    unit: str
    model: str
    method: str
    settings: str
    results: tuple[SiteResult, ...]
    left_out: int
    series: tuple[SiteSeries, ...]

    @property
    def page(self) -> str:
        """Path of its page."""
        return f"models/{self.slug}.html"

    @property
    def data(self) -> str:
        """Path of its data file."""
        return data_path(self.slug)

    @property
    def title(self) -> str:
        """Its name."""
        model, board = self.model or "unknown model", self.board or "unknown board"
        unit = f" ({self.unit})" if self.unit not in ("", self.board) else ""
        return f"{model} on {board}{unit}"

    def commits(self) -> dict[str, list[int]]:
        """Return the places of results by commit, in the order in which commits first occur."""
        found: dict[str, list[int]] = {}
        for place, result in enumerate(self.results):
            if result.commit:
                found.setdefault(result.commit, []).append(place)
        return found

    def rounds(self) -> Iterator[list[SiteResult]]:
        """Yield results recorded together, oldest first."""
        found: dict[str, list[SiteResult]] = {}
        for result in self.results:
            found.setdefault(result.night or result.id, []).append(result)
        yield from found.values()


def data_path(slug: str) -> str:
    """Return the path of the data of a model on a unit."""
    return f"data/{slug}.js"


def slug_of(*names: str) -> str:
    """Return a file name for names that may hold any text; other names give another one."""
    text = re.sub(r"[^a-z0-9.]+", "-", "-".join(names).lower()).strip("-.")[:_LONGEST_SLUG]
    digest = hashlib.sha256("\0".join(names).encode(errors="surrogatepass")).hexdigest()
    return f"{text.strip('-.') or 'x'}-{digest[:_DIGEST]}"


def commit_page(commit: str) -> str:
    """Return the path of the page of a commit."""
    return f"commits/{slug_of(commit[:12], commit)}.html"


def night_page(night: str) -> str:
    """Return the path of the page of a night."""
    return f"nights/{slug_of(night)}.html"


_COMPARED: Final = "H"
"""First letter of the codes of comparisons with the history."""

BASELINE: Final = 20
"""Newest sound results before the newest one that it is compared with, as by ``last:20``."""


@dataclass(frozen=True)
class ResultGroup:
    """Results of a model and method on a unit with the same measurement settings.

    Attributes:
        settings: Key of the measurement settings.
        entries: The newest results, oldest first.
        left_out: Number of older results.
        decisions: Decisions about its series.
    """

    settings: str
    entries: tuple[StoredResult, ...]
    left_out: int
    decisions: tuple[Decision, ...]

    @property
    def tested(self) -> Provenance:
        """One of its results, which all are of its model, method and unit."""
        return self.entries[0].provenance

    @property
    def slug(self) -> str:
        """Part of the names of its files."""
        of = self.tested
        model = of.model.removesuffix(".pte")
        return slug_of(model, of.board, of.unit, of.method, self.settings)

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
            *(self.tested.board, self.tested.model, self.tested.method),
            unit=self.tested.unit,
            settings=self.settings,
            statistics=DEFAULT_LIMITS.statistics,
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
            settings,
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
    if (
        entry.passed is False
        and entry.failed
        and all(code[0] == _COMPARED for code in entry.failed)
    ):
        return "regression"
    if entry.passed is not None:
        return "pass" if entry.passed else state_of(entry.exit_code or 1)
    return "pass" if not entry.exit_code else state_of(entry.exit_code)


def why_of(entry: StoredResult) -> str:
    """Return why a result did not pass, in a sentence."""
    if entry.failure:
        message = brief(entry.failure_message, LONGEST_SENTENCE)
        return message or brief(entry.failure)
    parts = [
        f"{brief(code)} does not hold{_times(count)}: {CODES[code].title}"
        if code in CODES
        else brief(code)
        for code, count in entry.failed.items()
    ]
    return "; ".join(parts) or f"exit code {entry.exit_code}"


def _times(count: int) -> str:
    return f" ({count} times)" if count > 1 else ""


def _tested(entry: StoredResult) -> tuple[str, str, str, str]:
    origin = entry.provenance
    return origin.model, origin.board, origin.unit, origin.method


POINTS: Final = 400
"""Results of a model on a unit that the site shows, the newest."""

_CHART: Final = replace(Limits.of(1), points=POINTS + 1, rows=POINTS)

_SHOWN: Final = "p50"
"""Statistic of times on pages."""

_MOST_LINES: Final = 40
"""Lines at which commits begin in a chart."""

_DIGITS: Final = 9
"""Significant digits of values in data files."""


ChartedSeries = tuple[SiteSeries, View]
"""A series and its chart."""


def describe_model(
    group: ResultGroup,
    results: Sequence[SiteResult],
    history: History,
    subjects: Mapping[str, str],
) -> tuple[ModelOnUnit, list[ChartedSeries]]:
    """Return a model on a unit with all its series, and a chart of each.

    Args:
        group: Its results.
        results: The same as the site shows them.
        history: Their numbers.
        subjects: Subjects of commits.
    """
    slug = group.slug
    places = {entry.provenance.id: place for place, entry in enumerate(group.entries)}
    compared, undisturbed = _compared(history)
    history = as_newest(history)
    charted = []
    tested = group.tested
    model, board = brief(tested.model.removesuffix(".pte")), brief(tested.board)
    for series in sorted(_shown(history.series), key=_rank):
        at = [places.get(history.results[place].id) for place in series.results]
        if all(place is None for place in at):
            continue  # only results have it that were stored after the group was read
        number, statistic = compared.get(series_of(series.metric), (None, ""))
        plain, _ = undisturbed.get(series_of(series.metric), (None, ""))
        if number is not None and plain is not None:
            number = _with_all_steps(number, plain.steps)
        described = _series(slug, series, at, len(results), number, history.decisions)
        described = msgspec.structs.replace(described, statistic=statistic)
        chart = series_chart(
            *(history, series, _CHART),
            compared=number,
            where=f"{model} on {board}",
            subjects=subjects,
        )
        charted.append((described, _thinned(chart)))
    found = ModelOnUnit(
        slug=slug,
        board=board,
        unit=brief(tested.unit),
        model=model,
        method=brief(tested.method),
        settings=printable(describe_settings(settings_of_key(group.settings))),
        results=tuple(results),
        left_out=group.left_out,
        series=tuple(series for series, _ in charted),
    )
    return found, charted


def _thinned(chart: View) -> View:
    """Return a chart without the lines at which commits begin, if they would be all there is."""
    if len(chart["curve"].columns) <= _MOST_LINES:
        return chart
    return chart | {"curve": replace(chart["curve"], columns=())}


def _shown(every: Sequence[Series]) -> Iterator[Series]:
    """Yield the series with pages: medians of times.

    Scopes repeat operators, and most allocators refuse nothing.
    """
    for series in every:
        if series.metric.kind == "operator" and series.metric.statistic != _SHOWN:
            continue
        refused = series.metric.statistic == "failed_bytes"
        if is_wrapper(series.metric.name) and series.metric.kind == "operator":
            continue
        if not refused or any(sample.value for sample in series.samples):
            yield series


def _rank(series: Series) -> int:
    """Order of series: executions, memory, sizes, then the rest as it is."""
    kind = series.metric.kind
    ranks = {"execution": 0, "peak": 1, "": {"result": 2, "allocator": 3}.get(kind, 4)}
    return ranks[_role(series.metric)]


def _role(metric: Metric) -> Literal["execution", "peak", ""]:
    if metric.kind == "operator" and metric.name == EXECUTION:
        return "execution"
    is_peak = metric.kind == "allocator" and metric.statistic == "peak_bytes"
    return "peak" if is_peak else ""


_Decided = tuple[Compared, str]
"""A number with the judgement of all statistics of its operator and the change of the one that
decided; the name of that one, "" if it is the statistic that pages show."""


def _compared(
    history: History,
) -> tuple[Mapping[Metric, _Decided], Mapping[Metric, _Decided]]:
    """Compare the newest result with its history, as a check without a budget does.

    With decisions, and without any: a decision that holds hides the steps up to it, and pages show
    all of them.
    """
    if not history.baseline:
        return {}, {}
    last = len(history.results) - 1
    newest = Measured(
        history.results[last],
        {
            series.metric: series.samples[-1]
            for series in history.series
            if series.results[-1] == last
        },
    )
    found = _by_series(compare_with_history(history, [newest], every=True))
    if not history.decisions:
        return found, found
    undecided = msgspec.structs.replace(history, decisions=())
    return found, _by_series(compare_with_history(undecided, [newest], every=True))


def _by_series(comparison: HistoryComparison) -> dict[Metric, _Decided]:
    """Return the numbers of a comparison as they were measured, by their series.

    What all operators of a session have in common is taken out before each is compared, and judged
    by itself. Pages show values that contain it, so it is put back into changes, noise and
    judgements.
    """
    common = {item.clock: item for item in comparison.common}
    numbers = [
        _as_measured(number, common[number.metric.clock])
        if number.metric.kind == "operator" and number.metric.clock in common
        else number
        for number in comparison.numbers
    ]
    shown = {
        series_of(number.metric): number
        for number in numbers
        if number.metric.kind != "operator" or number.metric.statistic == _SHOWN
    }
    return {
        series: _decided(found, shown[series])
        for found in most_significant(numbers)
        if (series := series_of(found.metric)) in shown
    }


def _decided(found: Compared, shown: Compared) -> _Decided:
    other = found.metric.statistic if found.judgement != shown.judgement else ""
    decided = msgspec.structs.replace(
        shown,
        judgement=found.judgement,
        steps=found.steps,
        detectable=found.detectable,
        relative=found.relative if other else shown.relative,
    )
    return decided, other


def _as_measured(number: Compared, common: CommonChange) -> Compared:
    """Put what all operators have in common back into the number of one."""
    noise, relative, judgement = number.noise, number.relative, number.judgement
    if noise is not None:
        noise = math.hypot(noise, common.noise or 0.0)
    if relative is not None:
        relative = (1 + relative) * (1 + number.common) - 1
    elif judgement == "too little":
        relative = number.common
    if relative is not None and judgement in ("same", "too little"):
        with_all = relative * common.change.value > 0 and abs(relative) > number.relative_limit
        if with_all and common.judgement in ("regression", "suspect", "improvement"):
            judgement = common.judgement
        elif number.relative is None:
            relative = None
    return msgspec.structs.replace(number, noise=noise, relative=relative, judgement=judgement)


def _with_all_steps(number: Compared, every: Sequence[MetricStep]) -> Compared:
    """Return a number with also the steps that a decision hides; these are decided."""
    undecided = {step.first_bad_utc for step in number.steps if step.undecided}
    steps = (
        msgspec.structs.replace(step, undecided=step.first_bad_utc in undecided) for step in every
    )
    return msgspec.structs.replace(number, steps=tuple(steps))


def _series(
    slug: str,
    series: Series,
    places: Sequence[int | None],
    results: int,
    number: Compared | None,
    decisions: Sequence[Decision],
) -> SiteSeries:
    metric = series.metric
    values: list[float | None] = [None] * results
    for place, sample in zip(places, series.samples, strict=True):
        if place is not None:  # else added since the results were read
            values[place] = _rounded(sample.value)
    own = [decision for decision in decisions if decision.metric == series_of(metric)]
    page = f"series/{slug}/{slug_of(metric_title(metric), *_identity(metric))}.html"
    title = brief(metric_title(metric))
    found = SiteSeries(
        page=page,
        title=title,
        name=brief(metric.name),
        kind=number_kind(metric),
        role=_role(metric),
        unit=metric.unit,
        values=tuple(values),
    )
    if number is None:
        return found
    return msgspec.structs.replace(
        found,
        judgement=number.judgement,
        baseline=None if number.baseline is None else _rounded(number.baseline.value),
        change=_known(number.relative),
        noise=_known(number.noise),
        detectable=_known(number.detectable),
        steps=tuple(_step(step, own) for step in number.steps),
        decision="" if number.decision is None else brief(number.decision.describe()),
    )


def _identity(metric: Metric) -> tuple[str, ...]:
    return tuple(str(value) for value in msgspec.structs.astuple(metric))


def _step(step: MetricStep, decisions: Sequence[Decision]) -> SiteStep:
    """Return a step with the newest decision about a level that begins there."""
    good, bad = microseconds(step.last_good_utc), microseconds(step.first_bad_utc)
    about = [item for item in decisions if good < microseconds(item.since_utc) <= bad]
    return SiteStep(
        last_good=brief(step.last_good),
        first_bad=brief(step.first_bad),
        since=step.first_bad_utc,
        before=_rounded(step.before),
        after=_rounded(step.before + step.size.value),
        p=step.p,
        decision=brief(about[-1].describe()) if about else "",
        undecided=step.undecided,
    )


def _known(share: float | None) -> float | None:
    return None if share is None or not math.isfinite(share) else float(f"{share:.4g}")


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else 0.0
