"""News by cause: what one commit, one board or one reason brought about is one box."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from harness.check.history.comparison import judgement_word
from harness.errors import Owner
from harness.extensions.web.html.svg import View
from harness.extensions.web.site.models import BASELINE, ModelOnUnit, SiteSeries
from harness.extensions.web.site.news import NewsItem, NewsKind, changed_between, is_undecided
from harness.formatting import commit_text
from harness.records.nightly import ArmComparison, Changed, NightCause, NightVerdict, StepState
from harness.records.result import microseconds
from harness.records.trace import EXECUTION
from harness.report.nightly import bisect_command, command_words, regression_sentence, runs_text
from harness.report.words import brief, counted

_ORDER: Final[tuple[NewsKind, ...]] = (
    *("failed", "slower", "larger", "failing", "gone", "set-up", "infrastructure"),
    *("fixed", "faster"),
)
"""Kinds of causes, the most urgent first."""

_STATES: Final[dict[NewsKind, StepState]] = {
    "failed": "failed",
    "failing": "failed",
    "slower": "regression",
    "larger": "regression",
    "set-up": "set-up",
    "infrastructure": "infrastructure",
}
"""How a nightly run calls what failed."""

_CODE: Final = re.compile(r"(failed the last [0-9,]+ times: )?[A-Z][0-9]{2}\b")
"""How the reason begins that a check fails for."""

_MOST_NAMED: Final = 3
"""Units or models that a sentence names."""

_ALLOCATOR: Final = " of allocator "
"""What the titles of sizes of allocators have."""

_OWNERS: Final[dict[StepState, str]] = {
    "failed": str(Owner.PRODUCT),
    "regression": str(Owner.PRODUCT),
    "set-up": str(Owner.TEST),
    "infrastructure": "lab",
}

_LOOKS: Final[dict[NewsKind, str]] = {
    **dict.fromkeys(("failed", "failing", "slower", "larger"), "fail"),
    **dict.fromkeys(("fixed", "faster"), "good"),
    "gone": "note",
    "set-up": "warn",
    "infrastructure": "note",
}


def causes_of(
    found: Mapping[NewsKind, Sequence[NewsItem]], verdicts: Iterable[NightVerdict]
) -> list[View]:
    """Return what is new by cause, the most urgent first.

    Numbers that got worse have one cause if they did so since one commit; failures if they have one
    reason, since one commit; and what a board failed to do, if it is one board. What the newest
    nightly run says of a cause is said in its words.

    Args:
        found: What is new.
        verdicts: Verdicts of nightly runs.
    """
    newest: dict[str, NightVerdict] = {}
    for verdict in sorted(verdicts, key=lambda item: microseconds(item.started_utc)):
        newest[verdict.name] = verdict
    causes = [cause for verdict in newest.values() for cause in verdict.causes]
    groups: dict[tuple[object, ...], list[tuple[NewsItem, NightCause | None]]] = {}
    for kind in _ORDER:
        for item in found[kind]:
            cause = _cause_of(item, causes)
            groups.setdefault(_key(item, cause), []).append((item, cause))
    boxes = [_box(same) for same in groups.values()]
    boxes += [
        _described(cause.state, (), cause)
        for cause in causes
        if not cause.runs and cause.state in ("set-up", "infrastructure")
    ]
    return sorted(boxes, key=lambda box: (_ORDER.index(box["kind"]), -len(box["items"])))


def _cause_of(item: NewsItem, causes: Iterable[NightCause]) -> NightCause | None:
    """Return what the newest nightly run says of an item; None if it says nothing of it."""
    state = _STATES.get(item.kind)
    if not item.planned or state is None:
        return None
    board, unit, model = item.key
    about = f"{model} on {board}"
    for cause in causes:
        if cause.state == state and (
            (model in cause.models and unit in cause.units)
            or (not cause.runs and cause.sentence.startswith((f"{about} ", f"{about}:")))
        ):
            return cause
    return None


def _key(item: NewsItem, cause: NightCause | None) -> tuple[object, ...]:
    if item.kind in ("slower", "larger"):
        return "worse", item.commit
    if item.kind in ("failed", "failing") and (code := _CODE.match(item.text)):
        # Of a check that fails for a model, only the numbers differ.
        return item.kind, item.key[2], code[0], item.commit if item.since else ""
    if cause is not None:
        return item.kind, cause.sentence
    if item.kind in ("infrastructure", "set-up"):
        return item.kind, item.key[1], item.text
    if item.kind == "faster":
        return item.kind, item.commit
    return item.kind, item.commit if item.since else "", item.text


def _box(same: Sequence[tuple[NewsItem, NightCause | None]]) -> View:
    by_change = sorted(same, key=lambda pair: _rank(pair[0]))
    worst, cause = by_change[0]
    return _described(worst.kind, [item for item, _ in by_change], cause)


def _rank(item: NewsItem) -> tuple[bool, bool, float]:
    """Order of items of one cause: a time never hides behind a size, nor a model behind a part."""
    first = item.series[0] if item.series else None
    share = 0.0 if first is None else abs(relative_of(first) or 0.0)
    return item.kind == "larger", first is not None and not first.role, -share


def _described(
    kind: NewsKind | StepState, items: Sequence[NewsItem], cause: NightCause | None
) -> View:
    shown: NewsKind = next(one for one in _ORDER if one == kind)
    first = next((item for item in items if item.kind == shown), None)
    if cause is not None:
        sentence, command = cause.sentence, cause.command or cause.hint
    else:
        assert first is not None
        sentence, command = _sentence(first, items)
    state = _STATES.get(shown)
    owner = "" if state is None else _OWNERS[state]
    return {
        "kind": shown,
        "look": _LOOKS[shown],
        "sentence": brief(sentence, 1_000),
        "about": _about(items, cause),
        "owner": str(cause.owner or owner) if cause is not None else owner,
        "command": command,
        "commit": first.commit if first is not None and first.since else "",
        "items": items,
        "models": _by_model(items),
        "one_unit": len({item.key[:2] for item in items}) == 1 and len(items) > 1,
    }


def _about(items: Sequence[NewsItem], cause: NightCause | None) -> str:
    """Say how much a cause hits."""
    models, boards, units = ({item.key[n] for item in items} for n in (2, 0, 1))
    parts = []
    if len(items) > 1:
        on = counted(len(boards), "board") if len(boards) > 1 else next(iter(boards))
        if len(boards) == 1 and len(units) > 1:
            on = f"{counted(len(units), 'unit')} of {on}"
        parts.append(f"{counted(len(models), 'model')} on {on}")
    elif cause is not None and cause.runs:
        parts.append(runs_text(cause))
    return ", ".join(parts)


def _by_model(items: Sequence[NewsItem]) -> list[tuple[str, list[NewsItem]]]:
    """Put the same model on other boards below the one where it is worst."""
    found: dict[str, list[NewsItem]] = {}
    for item in items:
        found.setdefault(item.key[2], []).append(item)
    return [*found.items()]


def _sentence(first: NewsItem, items: Sequence[NewsItem]) -> tuple[str, str]:
    """Return what happened in the words of a nightly run, and what to type about it."""
    model = first.model
    if first.kind in ("slower", "larger") and isinstance(model, ModelOnUnit):
        arm = _arm(model, first)
        return regression_sentence(arm), bisect_command(arm)
    units = _named([item.key[1] for item in items], "units")
    about = f"{_named([item.key[2] for item in items], 'models')} on {units}"
    if first.kind == "faster":
        return f"{about}: {_better(first)}", ""
    command = ""
    if first.kind == "infrastructure":
        about, command = units, command_words("etharness lab health", first.key[1])
    return f"{about}: {first.text or 'no reason was recorded'}", command


def _named(names: Sequence[str], plural: str) -> str:
    several = [*dict.fromkeys(names)]
    return ", ".join(several) if len(several) <= _MOST_NAMED else f"{len(several):,} {plural}"


def _better(item: NewsItem) -> str:
    first = item.series[0]
    word = judgement_word("improvement", first.kind)
    title = "" if first.role == "execution" else f"{first.title} is "
    return f"{title}{abs(100 * (first.change or 0.0)):.1f} % {word} since {item.commit[:10]}"


def _arm(model: ModelOnUnit, item: NewsItem) -> ArmComparison:
    """Return numbers that got worse as a nightly run compares them with its baseline."""
    good, bad = changed_between(model, item.series)
    return ArmComparison(
        board=model.board,
        model=model.model,
        before=f"last:{BASELINE}",
        after="",
        passed=False,
        summary="",
        commits=(commit_text(good), commit_text(bad)),
        changed=tuple(_changed(model, item.series)),
    )


def _changed(model: ModelOnUnit, series: Iterable[SiteSeries]) -> Iterator[Changed]:
    for one in series:
        name = one.title.removeprefix("median of ") if one.kind == "time" else one.name
        before, after = _levels(one)
        is_operator = one.kind == "time" and " #" in one.title and one.role != "execution"
        is_allocator = one.kind == "memory" and _ALLOCATOR in one.title
        size = "allocator" if is_allocator else "result"
        yield Changed(
            unit=model.unit,
            what=EXECUTION if one.role == "execution" else name,
            statistic="" if one.kind == "memory" and not is_allocator else "p50",
            judgement="regression",
            before=before,
            after=after,
            relative=relative_of(one),
            counted_in=one.unit,
            reason="",
            metric_kind="operator" if is_operator else "phase" if one.kind == "time" else size,
        )


def _levels(series: SiteSeries) -> tuple[float | None, float | None]:
    if series.judgement not in ("regression", "suspect") and is_undecided(series):
        step = next(step for step in series.steps if step.undecided)
        return step.before, step.after
    return series.baseline, series.measured[-1] if series.measured else None


def size_text(series: SiteSeries) -> str:
    """Return the change that a series is news for, without a word: ``conv #0 +35.4 %``."""
    share, title = relative_of(series), series.title.removeprefix("median ").removeprefix("of ")
    return f"{title} {100 * share:+.1f} %" if share is not None else title


def relative_of(series: SiteSeries) -> float | None:
    """Return the change that a series is news for, as a share: of its newest result or step."""
    before, after = _levels(series)
    if series.judgement not in ("regression", "suspect") and is_undecided(series):
        return after / before - 1 if before and after is not None else None
    return series.change
