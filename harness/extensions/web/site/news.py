"""What a history says of nights (also one that runs), of commits, and of today: what is new."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import PurePath
from typing import Final, Literal

import msgspec

from harness.check.history.comparison import judgement_word
from harness.extensions.web.html.page import failures_of
from harness.extensions.web.html.svg import View
from harness.extensions.web.site.models import (
    ModelOnUnit,
    SiteResult,
    SiteSeries,
    commit_page,
    night_page,
)
from harness.formatting import DisplayUnit, metric_unit
from harness.records.nightly import (
    NightPair,
    NightSoFar,
    NightVerdict,
    StepOutcome,
    StepUnderWay,
    UnitOutcome,
    state_counts,
)
from harness.records.result import microseconds
from harness.records.verdict import Judgement
from harness.report.changes import LATEST, TrackedNumber
from harness.report.words import (
    LONGEST_SENTENCE,
    URGENCY,
    RunState,
    brief,
    bytes_unit,
    counted,
    counts_of_states,
    counts_text,
    short_size,
    short_time,
    three_digits,
)

PAGE: Final = "tonight.html"

REFRESH_S: Final = 5
"""How often an open page is loaded again while the night runs."""

LATE_S: Final = 120
"""Age at which a page that a running night writes again and again is of one that was killed."""


def running_night(night: NightSoFar) -> View:
    """Describe a night as far as it is, or its end."""
    verdict = night.document.verdict
    done = sum(not outcome.pending for outcome in night.document.outcomes)
    units, counts = _units(night), counts_so_far(verdict)
    running = sum(bool(unit["step"]) for unit in units)
    # How far it is, or how it ended.
    sentence = verdict.headline
    if not sentence:
        parts = [f"{done:,} of {verdict.steps:,} runs done"]
        parts += [counts_text(counts)] if done else []
        if night.interrupted:
            parts.append("interrupted")
        elif running:
            parts.append(f"{running:,} running")
        elif done == verdict.steps:
            parts.append("comparing the results and writing the reports")
        sentence = ", ".join(parts)
    return {
        "name": verdict.night,
        "verdict": verdict,
        "changed": night.changed_utc,
        "interrupted": night.interrupted,
        "ended": verdict.headline,
        "over": bool(verdict.headline) or night.interrupted,  # nothing changes any more
        "sentence": sentence,
        "counts": counts,
        "done": done,  # planned runs that have ended, or never will be made
        "failures": failures_of(verdict, night.document.outcomes),
        "units": units,
    }


def counts_so_far(verdict: NightVerdict) -> dict[RunState, int]:
    """Return how planned runs ended, without those that are still to come."""
    return state_counts(
        {
            name: count
            for name, count in verdict.counts.items()
            if verdict.ended_utc or name != "not run"
        }
    )


def _units(night: NightSoFar) -> list[View]:
    """Return what each unit does."""
    own: dict[str, list[StepOutcome]] = {unit.unit: [] for unit in night.document.units}
    for outcome in night.document.outcomes:
        own[outcome.step.unit].append(outcome)
    current = {now.step.unit: now for now in night.under_way}
    return [_unit(unit, own[unit.unit], current.get(unit.unit)) for unit in night.document.units]


def _unit(unit: UnitOutcome, own: Sequence[StepOutcome], current: StepUnderWay | None) -> View:
    """Return what a unit does: the step that it runs, and how many of its steps have ended."""
    done = sum(outcome.outcome != "not run" for outcome in own)
    # Steps that were not reached yet are no interruption before the end.
    state: str = "waits" if unit.state in ("well", "interrupted") else unit.state
    if current is not None or done == len(own):
        state = "done" if current is None else "runs"
    return {
        "outcome": unit,
        "state": state,
        "step": "" if current is None else str(current.step),
        "attempt": 0 if current is None else current.attempt,
        "since": "" if current is None else current.since_utc,
        "done": done,
        "steps": len(own),
    }


@dataclass(frozen=True, slots=True)
class Standing:
    """A model on a unit today.

    Attributes:
        key: Board type, unit and name of the model.
        title: All of them.
        page: Page that shows more.
        state: How its newest runs ended: as the verdict of their nightly run says, if it is of one.
        why: Why they did not pass.
        tested: Its results; None if it has none.
        planned: The runs that the newest nightly run planned; None if its results are newer, or of
            no nightly run.
    """

    key: tuple[str, str, str]
    title: str
    page: str
    state: RunState
    why: str
    tested: ModelOnUnit | None
    planned: NightPair | None


def standings_of(
    models: Sequence[ModelOnUnit], verdicts: Sequence[NightVerdict] = ()
) -> list[Standing]:
    """Return how every model stands on every unit that it was planned for.

    Args:
        models: Models on units with results.
        verdicts: Verdicts of nightly runs; the last one is of a night that may still run.
    """
    newest: dict[tuple[str, str, str], tuple[NightVerdict, NightPair]] = {}
    last: dict[str, NightVerdict] = {}
    for verdict in sorted(verdicts, key=lambda item: microseconds(item.started_utc)):
        last[verdict.name] = verdict
        for pair in _ended(verdict):
            newest[brief(pair.board), brief(pair.unit), brief(pair.model)] = verdict, pair
    found = []
    seen = set()
    for model in models:
        key = model.board, model.unit, _name(model.model)
        seen.add(key)
        found.append(_tested(model, newest.get(key)))
    for key, (verdict, pair) in newest.items():
        # What an earlier night planned may not be planned any more.
        if key not in seen and last[verdict.name] is verdict:
            found.append(_untested(verdict, pair))
    return found


def worst(results: Iterable[SiteResult]) -> RunState:
    """Return the most urgent state of results."""
    return min((result.state for result in results), key=URGENCY.index)


def _ended(verdict: NightVerdict) -> Iterator[NightPair]:
    """Yield the planned runs of a nightly run that are not still to come."""
    for pair in verdict.pairs:
        counts = pair.counts
        if not verdict.ended_utc:
            counts = {name: count for name, count in counts.items() if name != "not run"}
        if counts:
            yield msgspec.structs.replace(pair, counts=counts)


def _name(model: str) -> str:
    """Return the name of a model, as a plan has it, of its file with or without a test set."""
    return PurePath(model.partition(", ")[0]).name.removesuffix(".pte").removesuffix(".bpte")


def _tested(model: ModelOnUnit, planned: tuple[NightVerdict, NightPair] | None) -> Standing:
    *_, latest = model.rounds()
    state = worst(latest)
    why = next((result.why for result in reversed(latest) if result.state == state), "")
    pair = None
    if planned is not None:
        verdict, runs = planned
        began = microseconds(verdict.started_utc)
        newer = not runs.made and began > microseconds(latest[-1].started)
        if newer or verdict.night == latest[-1].night:
            pair, state, why = runs, runs.state, brief(runs.why, LONGEST_SENTENCE)
    key = model.board, model.unit, model.model
    return Standing(key, model.title, model.page, state, why, model, pair)


def _untested(verdict: NightVerdict, pair: NightPair) -> Standing:
    names = brief(pair.board), brief(pair.unit), brief(pair.model)
    unit = f" ({names[1]})" if names[1] != names[0] else ""
    title = f"{names[2]} on {names[0]}{unit}"
    why = brief(pair.why, LONGEST_SENTENCE)
    return Standing(names, title, night_page(verdict.night), pair.state, why, None, pair)


def nights_of(models: Sequence[ModelOnUnit], verdicts: Sequence[NightVerdict] = ()) -> list[View]:
    """Return all nights, in the order in which they began.

    A night is all results with one label, such as those of a nightly run. Its results have the most
    urgent first, with the series of the median execution.
    """
    by_name = {verdict.night: verdict for verdict in verdicts}
    found: dict[str, list[View]] = {name: [] for name in by_name}
    for model in models:
        execution = next((series for series in model.series if series.role == "execution"), None)
        for place, result in enumerate(model.results):
            if result.night:
                value = None if execution is None else execution.values[place]
                row = {"model": model, "result": result, "execution": execution, "value": value}
                found.setdefault(result.night, []).append(row)
    begins = {
        name: microseconds(by_name[name].started_utc)
        if name in by_name
        else min(microseconds(row["result"].started) for row in rows)
        for name, rows in found.items()
    }
    order = sorted(found, key=lambda name: (begins[name], name))
    return [_night(name, found[name], by_name.get(name)) for name in order]


def _night(name: str, rows: Sequence[View], verdict: NightVerdict | None) -> View:
    by_time = sorted(rows, key=lambda row: microseconds(row["result"].started))
    urgent = sorted(by_time, key=lambda row: URGENCY.index(row["result"].state))
    started = verdict.started_utc if verdict else by_time[0]["result"].started
    ended = by_time[-1]["result"].started if by_time else started
    if verdict is not None and verdict.ended_utc:
        ended = verdict.ended_utc
    states = [row["result"].state for row in urgent]
    return {
        "name": name,
        "page": night_page(name),
        "started": started,
        "ended": ended,
        "rows": urgent,
        "verdict": verdict,  # None for results of no nightly run
        "causes": {} if verdict is None else failures_of(verdict),
        "counts": counts_of_states(states) if verdict is None else counts_so_far(verdict),
        "commits": [*dict.fromkeys(row["result"].commit for row in urgent if row["result"].commit)],
        # Results that say nothing about the models.
        "infrastructure": [row for row in urgent if row["result"].state == "infrastructure"],
    }


def changes_between(
    model: ModelOnUnit, first: Sequence[int], second: Sequence[int]
) -> Iterator[View]:
    """Yield each series in two sets of results, in the order of the series.

    With its medians and numbers of results in both, their difference as a share of the first
    median, and what the comparison with the history says of the second set.

    A set without any number, such as of a board that did not answer, has lost none of them.

    Args:
        model: The model on a unit.
        first: Places of results.
        second: Places of the results of a commit.
    """
    if not all(any(_values(series, some) for series in model.series) for some in (first, second)):
        return
    for series in model.series:
        old, new = _values(series, first), _values(series, second)
        if old or new:
            before, after = (statistics.median(some) if some else None for some in (old, new))
            judgement = _judgement(model, series, second) if old and new else _one_side(bool(new))
            yield {
                "series": series,
                "before": before,
                "after": after,
                "counts": (len(old), len(new)),
                "share": after / before - 1 if before and after is not None else None,
                "judgement": judgement,
                "word": judgement_word(judgement, series.kind) if judgement else "",
            }


def _values(series: SiteSeries, places: Sequence[int]) -> list[float]:
    return [value for place in places if (value := series.values[place]) is not None]


def _one_side(there: bool) -> Judgement:
    return "appeared" if there else "vanished"


def _judgement(
    model: ModelOnUnit, series: SiteSeries, places: Sequence[int]
) -> Judgement | Literal[""]:
    """Return what the history says of a series in the results of a commit.

    The newest value has been compared with its baseline; of earlier ones only steps are known.
    """
    measured = [place for place, value in enumerate(series.values) if value is not None]
    if measured[-1] in places and series.judgement not in ("", "same", "too little"):
        return series.judgement
    commit = model.results[places[0]].commit
    step = next((step for step in series.steps if step.first_bad == commit), None)
    if step is None:
        return series.judgement if measured[-1] in places else ""
    return "regression" if step.after > step.before else "improvement"


_BUILT = ("firmware", "model file", "version of etdump-harness")
_WORSE: Final = ("regression", "suspect")
_ORDER = (*_WORSE, "changed", "vanished", "appeared", "improvement")


def commits_of(models: Sequence[ModelOnUnit]) -> list[View]:
    """Return all tested commits in the order in which their first results began."""
    first: dict[str, tuple[int, str]] = {}
    tested: dict[str, list[View]] = {}
    for model in models:
        before = ""
        places = model.commits()
        for commit, own in places.items():
            started = model.results[own[0]].started
            began = microseconds(started)
            first[commit] = min(first.get(commit, (began, started)), (began, started))
            tested.setdefault(commit, []).append(
                _at_commit(model, own, before, places.get(before, ()))
            )
            before = commit
    order = sorted(first, key=lambda commit: (first[commit][0], commit))
    return [_commit(commit, first[commit][1], tested[commit]) for commit in order]


def _commit(commit: str, started: str, models: Sequence[View]) -> View:
    """Return a tested commit; its outcome is what the history says of its numbers, in a word."""
    states = [result.state for model in models for result in model["results"]]
    found = {each["judgement"] for model in models for each in model["changes"]}
    outcome = next((one for one in ("regression", "improvement") if one in found), "")
    rows = [(item, change) for item in models for change in item["changes"]]
    changed = sorted(
        ((item, change) for item, change in rows if change["judgement"] in _ORDER),
        key=lambda row: (_rank(row[1])[0], not row[1]["series"].role, _rank(row[1])),
    )
    words = Counter(change["word"] for _, change in changed)
    return {
        "changed": changed,  # what the history calls a change, the worst first
        "others": [row for row in rows if row[1]["judgement"] not in _ORDER],
        "words": ", ".join(f"{count:,} {word}" for word, count in words.items()),
        "commit": commit,
        "page": commit_page(commit),
        "started": started,
        "models": models,
        "counts": counts_of_states(states),
        "results": len(states),
        "outcome": "mixed" if {"regression", "improvement"} <= found else outcome,
    }


def _at_commit(model: ModelOnUnit, own: Sequence[int], base: str, before: Sequence[int]) -> View:
    """Return a model on a unit at a commit, beside the commit ``base``, which may be "".

    Series that differ have those that changed first, then the largest difference.
    """
    found = [*changes_between(model, before, own)] if base else []
    changed = [
        each for each in found if each["before"] != each["after"] or each["judgement"] in _ORDER
    ]
    changed.sort(key=_rank)
    old = {model.results[place].built for place in before}
    new = {model.results[place].built for place in own}
    built = [
        name
        for n, name in enumerate(_BUILT)
        if base and {one[n] for one in old} != {one[n] for one in new}
    ]
    return {
        "model": model,
        "results": [model.results[place] for place in own],
        "base": base,
        "changes": changed,
        "same": len(found) - len(changed),
        "built": built,  # otherwise than at the base
    }


def _rank(change: View) -> tuple[int, float]:
    known = change["judgement"] in _ORDER
    return _ORDER.index(change["judgement"]) if known else len(_ORDER), -abs(change["share"] or 0.0)


_REACH: Final = 2.0
"""The band of the noise reaches so many standard deviations to each side."""


def value_text(series: SiteSeries, value: float) -> str:
    """Return a value of a series with its unit, to three digits."""
    if series.unit == "bytes":
        return short_size(value)
    if series.unit in ("ns", "ticks"):
        return short_time(value if series.unit == "ns" else None, value)
    unit = metric_unit("nJ" if series.unit == "nJ" else "count", [value])
    return f"{three_digits(value / unit.divisor)} {unit.name}"


def unit_of(series: SiteSeries, values: Sequence[float]) -> DisplayUnit:
    """Return the unit for several values of a series."""
    if series.unit == "bytes":
        return bytes_unit(values)
    return metric_unit(series.unit, values)  # type: ignore[arg-type]


def tracked(series: SiteSeries) -> TrackedNumber | None:
    """Return the newest value of a series beside those before it; None without any."""
    values = series.measured
    if not values:
        return None
    noise = None
    if series.baseline is not None and series.noise:
        reach = _REACH * series.noise * abs(series.baseline)
        noise = (series.baseline - reach, series.baseline + reach)
    return _number(
        series.title,
        series,
        values,
        change=series.change,
        text=change_text(series),
        judgement=series.judgement,
        noise=noise,
    )


def execution_of(model: ModelOnUnit) -> TrackedNumber | None:
    """Return the median execution of a model on a unit; None if none was timed."""
    found = next((series for series in model.series if series.role == "execution"), None)
    return None if found is None else tracked(found)


def memory_of(model: ModelOnUnit) -> TrackedNumber | None:
    """Return the peaks of all allocators together; None without allocators."""
    peaks = [series for series in model.series if series.role == "peak"]
    if not peaks:
        return None
    if len(peaks) == 1:
        return tracked(peaks[0])
    columns = zip(*(series.values for series in peaks), strict=True)
    totals = [
        sum(value for value in column if value is not None)
        for column in columns
        if any(value is not None for value in column)
    ]
    levels = [series.baseline for series in peaks if series.baseline is not None]
    change = totals[-1] / level - 1 if (level := sum(levels)) and totals else None
    judgements = {series.judgement for series in peaks}
    judgement = next((one for one in (*_WORSE, "improvement") if one in judgements), "same")
    text = "" if not change else f"{100 * change:+.1f} %"
    return _number("peak memory", peaks[0], totals, change, text, judgement, None)


def _number(
    name: str,
    series: SiteSeries,
    values: Sequence[float],
    change: float | None,
    text: str,
    judgement: str,
    noise: tuple[float, float] | None,
) -> TrackedNumber:
    return TrackedNumber(
        name,
        values[-1],
        value_text(series, values[-1]),
        f"{values[-1]:,.10g} {series.unit}",
        change=change,
        change_text=text,
        judgement=judgement if judgement in (*_WORSE, "improvement") else "same",
        earlier=tuple(values[-LATEST - 1 : -1]),
        noise=noise,
    )


NewsKind = Literal[
    "failed", "slower", "larger", "fixed", "faster", "gone", "failing", "set-up", "infrastructure"
]

TITLES: Final[dict[NewsKind, str]] = {
    "failed": "New failures",
    "slower": "Slower",
    "larger": "Larger",
    "fixed": "Fixed",
    "faster": "Faster or smaller",
    "gone": "Gone",
    "failing": "Still failing",
    "set-up": "Set-up errors",
    "infrastructure": "Infrastructure failures",
}
"""Kinds of news in the order in which they are shown."""

_FAILED: Final = ("failed", "regression")
_FAILING: Final = ("failed", "failing")
_WORSE_KINDS: Final = ("slower", "larger")
_PRODUCT: Final = ("pass", *_FAILED)
"""States that say something about the model or the firmware."""

_MISSED: Final = 3
"""A model on a unit is gone if it misses so many of its usual intervals, and a day at least."""

_DAY_US: Final = 86_400_000_000

_NEWS_US: Final = 14 * _DAY_US
"""A model on a unit that has been gone for longer is no news."""


@dataclass(frozen=True, slots=True)
class NewsItem:
    """Something that a team should look at.

    Attributes:
        kind: What it is.
        model: The model on a unit that it is about, which has a title and a page.
        text: What happened, in a sentence.
        commit: Tested commit; empty if unknown.
        since: Whether it has been so since that commit, and is not only known of it.
        series: Series that it is about, the worst first.
        key: Board type, unit and name of the model.
        planned: Whether the newest nightly run planned it, and has a verdict about it.
    """

    kind: NewsKind
    model: ModelOnUnit | Standing
    text: str
    commit: str = ""
    since: bool = False
    series: tuple[SiteSeries, ...] = ()
    key: tuple[str, str, str] = ("", "", "")
    planned: bool = False


def news_of(standings: Sequence[Standing]) -> Mapping[NewsKind, tuple[NewsItem, ...]]:
    """Return what is new, by its kind, in the order in which it is shown."""
    tested = [standing.tested for standing in standings if standing.tested is not None]
    newest = max((microseconds(m.results[-1].started) for m in tested), default=0)
    found: dict[NewsKind, list[NewsItem]] = {kind: [] for kind in TITLES}
    for standing in standings:
        for item in _news(standing, newest):
            planned = standing.planned is not None
            found[item.kind].append(replace(item, key=standing.key, planned=planned))
    return {kind: tuple(items) for kind, items in found.items()}


def _news(standing: Standing, newest_us: int) -> Iterator[NewsItem]:
    yield from _planned(standing)
    model = standing.tested
    if model is None:
        return
    if is_gone(model, newest_us):
        if newest_us - microseconds(model.results[-1].started) > _NEWS_US:
            return
        day = model.results[-1].started[:10]
        yield NewsItem("gone", model, f"no result since {day}", model.results[-1].commit)
        return
    *_, latest = model.rounds()
    if standing.planned is None:
        for kind in ("set-up", "infrastructure"):
            if same := [result for result in latest if result.state == kind]:
                yield NewsItem(kind, model, same[-1].why, same[-1].commit)
    numbers = [*_numbers(model)]
    verdicts = [*_verdicts(model)]
    if any(item.kind in _WORSE_KINDS for item in numbers) and _regressed(model):
        verdicts = []  # it failed because of these numbers
    yield from verdicts
    if standing.state == "failed" and not any(item.kind in _FAILING for item in verdicts):
        # Worse than another variant of the same night, which no result says of itself.
        yield NewsItem("failed", model, standing.why, model.results[-1].commit)
    yield from numbers


def _regressed(model: ModelOnUnit) -> bool:
    """Whether nothing but numbers failed when the model was last tested."""
    told = [[r.state for r in found if r.state in _PRODUCT] for found in model.rounds()]
    latest = next((states for states in reversed(told) if states), [])
    return "regression" in latest and "failed" not in latest


def _planned(standing: Standing) -> Iterator[NewsItem]:
    """Yield the runs of the newest nightly run that failed without saying anything of the model."""
    pair = standing.planned
    if pair is None:
        return
    counts = state_counts(pair.counts)
    for kind in ("set-up", "infrastructure"):
        if counts[kind]:
            yield NewsItem(kind, standing.tested or standing, standing.why)


def _verdicts(model: ModelOnUnit) -> Iterator[NewsItem]:
    """Yield what became of the verdict. Infrastructure failures in between say nothing of it."""
    product = [[result for result in found if result.state in _PRODUCT] for found in model.rounds()]
    told = [found for found in product if found]
    if not told:
        return
    states = [worst(found) for found in told]
    latest = told[-1]
    if states[-1] == "pass":
        if len(states) > 1 and states[-2] in _FAILED:
            yield NewsItem(
                "fixed", model, f"passes again; it failed: {_why(told[-2])}", _at(latest)
            )
        return
    if len(states) == 1 or states[-2] == "pass":
        yield NewsItem("failed", model, _why(latest), _at(latest))
        return
    first = (
        max(place for place, state in enumerate(states) if state == "pass") + 1
        if ("pass" in states)
        else 0
    )
    count = f"failed the last {len(states) - first} times"
    yield NewsItem("failing", model, f"{count}: {_why(latest)}", _at(told[first]), since=True)


def _numbers(model: ModelOnUnit) -> Iterator[NewsItem]:
    """Yield changes of the newest numbers against their baseline, one item for each kind."""
    worse = [s for s in model.series if s.judgement in _WORSE or is_undecided(s)]
    better = [series for series in model.series if series.judgement == "improvement"]
    memory = [series for series in worse if series.kind == "memory"]
    times = [series for series in worse if series.kind != "memory"]
    kinds: tuple[tuple[NewsKind, list[SiteSeries]], ...] = (
        ("slower", times),
        ("larger", memory),
        ("faster", better),
    )
    for kind, some in kinds:
        if some:
            ordered = tuple(sorted(some, key=lambda s: -abs(s.change or 0.0)))
            whole = [series for series in model.series[:1] if series in ordered]
            shown = (*whole, *(series for series in ordered if series not in whole))
            _, commit = changed_between(model, shown)
            text = counted(len(shown), "number")
            yield NewsItem(kind, model, text, commit, since=True, series=shown)
    vanished = tuple(series for series in model.series if series.judgement == "vanished")
    if vanished:
        noun = "number is" if len(vanished) == 1 else "numbers are"
        text = f"{len(vanished)} {noun} in the baseline, but not in the newest result"
        yield NewsItem("gone", model, text, model.results[-1].commit, series=vanished)


def changed_between(model: ModelOnUnit, series: Sequence[SiteSeries]) -> tuple[str, str]:
    """Return between which commits numbers changed; the first commit is not among them.

    Those of the newest step, if it is what the newest result is judged by; else the newest result
    with the first of the numbers, and the commit tested before it.
    """
    first = series[0]
    better = first.judgement == "improvement"
    if first.steps and (first.steps[-1].after < first.steps[-1].before) == better:
        return first.steps[-1].last_good, first.steps[-1].first_bad
    places = [place for place, value in enumerate(first.values) if value is not None]
    commits = [model.results[place].commit for place in places]
    newest = commits[-1] if commits else ""
    earlier = next((commit for commit in reversed(commits) if commit != newest), "")
    return earlier, newest


def change_text(series: SiteSeries) -> str:
    """Return the change of the newest result with its sign, and a word for it.

    An increase that the baseline contains, and that nobody accepted, is named instead.
    """
    undecided = next((step for step in series.steps if step.undecided), None)
    if undecided is not None and series.judgement not in _WORSE:
        size = undecided.after / undecided.before - 1 if undecided.before else 0.0
        return f"{100 * size:+.1f} % in the baseline, not accepted"
    word = judgement_word(series.judgement, series.kind) if series.judgement else ""
    if series.change is None:
        return word
    of = f" ({series.statistic})" if series.statistic else ""
    return f"{100 * series.change:+.1f} %{of}, {word}" if series.change else "no change"


def is_undecided(series: SiteSeries) -> bool:
    """Whether the baseline contains an increase that nobody accepted."""
    return any(step.undecided for step in series.steps)


def is_gone(model: ModelOnUnit, newest_us: int) -> bool:
    """Whether a model has had no result on a unit for longer than it usually has."""
    times = [microseconds(found[0].started) for found in model.rounds()]
    usual = statistics.median([b - a for a, b in pairwise(times)]) if len(times) > 1 else 0
    return newest_us - times[-1] > max(_MISSED * usual, _DAY_US)


def _why(results: Sequence[SiteResult]) -> str:
    return next((result.why for result in results if result.state in _FAILED), "")


def _at(results: Sequence[SiteResult]) -> str:
    return results[-1].commit
