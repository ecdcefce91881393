"""What is new in a history: what failed, got slower or larger, was fixed, or is gone."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal

from harness.records.result import microseconds
from harness.report.summaries import URGENCY, RunState
from harness.site.changes import WORDS
from harness.site.documents import ModelOnUnit, SiteResult, SiteSeries, SiteStep

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

_PRODUCT: Final = ("pass", "failed")
"""States that say something about the model or the firmware."""

_JUDGED: Final = {
    "same": "no detectable change",
    "too little": "too few results to tell",
    "appeared": "new",
    "vanished": "gone",
}
"""Words for what became of a series that neither grew nor shrank."""

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
        model: The model on a unit that it is about.
        text: What happened, in a sentence.
        commit: Tested commit; empty if unknown.
        since: Whether it has been so since that commit, and is not only known of it.
        series: Series that it is about, the worst first.
    """

    kind: NewsKind
    model: ModelOnUnit
    text: str
    commit: str = ""
    since: bool = False
    series: tuple[SiteSeries, ...] = ()


def news_of(models: Sequence[ModelOnUnit]) -> Mapping[NewsKind, tuple[NewsItem, ...]]:
    """Return what is new, by its kind, in the order in which it is shown."""
    newest = max((microseconds(m.results[-1].started) for m in models), default=0)
    found: dict[NewsKind, list[NewsItem]] = {kind: [] for kind in TITLES}
    for model in models:
        for item in _news(model, newest):
            found[item.kind].append(item)
    return {kind: tuple(items) for kind, items in found.items()}


def state_of_model(model: ModelOnUnit) -> RunState:
    """Return the most urgent state of the newest results that were recorded together."""
    *_, latest = model.rounds()
    return _worst(latest)


def _news(model: ModelOnUnit, newest_us: int) -> Iterator[NewsItem]:
    if is_gone(model, newest_us):
        if newest_us - microseconds(model.results[-1].started) > _NEWS_US:
            return
        day = model.results[-1].started[:10]
        yield NewsItem("gone", model, f"no result since {day}", model.results[-1].commit)
        return
    *_, latest = model.rounds()
    for kind in ("set-up", "infrastructure"):
        if same := [result for result in latest if result.state == kind]:
            count = f"{len(same)} of {len(latest)} results: " if len(latest) > 1 else ""
            yield NewsItem(kind, model, f"{count}{same[-1].why}", same[-1].commit)
    yield from _verdicts(model)
    yield from _numbers(model)


def _verdicts(model: ModelOnUnit) -> Iterator[NewsItem]:
    """Yield what became of the verdict. Infrastructure failures in between say nothing of it."""
    product = [[result for result in found if result.state in _PRODUCT] for found in model.rounds()]
    told = [found for found in product if found]
    if not told:
        return
    states = [_worst(found) for found in told]
    latest = told[-1]
    if states[-1] == "pass":
        if len(states) > 1 and states[-2] == "failed":
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
    commit = model.results[-1].commit
    worse = [s for s in model.series if s.judgement == "regression" or _is_undecided(s)]
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
            step = None if kind == "faster" else _newest_increase(shown)
            at = commit if step is None else step.first_bad
            text = _count_text(shown)
            yield NewsItem(kind, model, text, at, since=step is not None, series=shown)
    vanished = tuple(series for series in model.series if series.judgement == "vanished")
    if vanished:
        noun = "number is" if len(vanished) == 1 else "numbers are"
        text = f"{len(vanished)} {noun} in the baseline, but not in the newest result"
        yield NewsItem("gone", model, text, commit, series=vanished)


def _newest_increase(series: Sequence[SiteSeries]) -> SiteStep | None:
    """Return the last step of the first series with one, if it is an increase."""
    step = next((one.steps[-1] for one in series if one.steps), None)
    return step if step is not None and step.after > step.before else None


def _count_text(series: Sequence[SiteSeries]) -> str:
    return "1 number" if len(series) == 1 else f"{len(series)} numbers"


def change_text(series: SiteSeries) -> str:
    """Return the change of the newest result with its sign, and a word for it.

    An increase that the baseline contains, and that nobody accepted, is named instead.
    """
    undecided = next((step for step in series.steps if step.undecided), None)
    if undecided is not None and series.judgement != "regression":
        size = undecided.after / undecided.before - 1 if undecided.before else 0.0
        return f"{100 * size:+.1f} % in the baseline, not accepted"
    grew, shrank = WORDS[series.kind]
    words = {"regression": grew, "improvement": shrank, **_JUDGED}
    word = words.get(series.judgement, series.judgement)
    if series.change is None:
        return word
    return f"{100 * series.change:+.1f} %, {word}" if series.change else "no change"


def _is_undecided(series: SiteSeries) -> bool:
    return any(step.undecided for step in series.steps)


def is_gone(model: ModelOnUnit, newest_us: int) -> bool:
    """Whether a model has had no result on a unit for longer than it usually has."""
    times = [microseconds(found[0].started) for found in model.rounds()]
    usual = statistics.median([b - a for a, b in pairwise(times)]) if len(times) > 1 else 0
    return newest_us - times[-1] > max(_MISSED * usual, _DAY_US)


def _worst(results: Sequence[SiteResult]) -> RunState:
    return min((result.state for result in results), key=URGENCY.index)


def _why(results: Sequence[SiteResult]) -> str:
    return next((result.why for result in results if result.state == "failed"), "")


def _at(results: Sequence[SiteResult]) -> str:
    return results[-1].commit
