"""A run beside an earlier one as a picture: an execution whose parts are red, blue or gone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from harness.analyze.compare import OperatorChange
from harness.check.history.comparison import judgement_word
from harness.extensions.web.html.svg import FrameBox, Limits, View
from harness.records.trace import EXECUTION, is_wrapper
from harness.records.verdict import Judgement
from harness.report.words import brief, counted, event_title, left_out, percent, short_time

_SAME: Final = 0.005
"""A change of a smaller share has no colour if nothing judged it."""

_STEPS: Final = (0.1, 0.5)
"""Shares from which a change has a stronger colour."""


def legend(frames: Sequence[FrameBox], *, judged: bool) -> list[tuple[str, str]]:
    """Return the classes of the colours of frames, and what they say."""
    same = "no detectable change" if judged else f"changed by less than {percent(_SAME)}"
    words = {"slower": "slower", "faster": "faster", "same": same, "new": "new", "gone": "gone"}
    used = {frame.kind.rstrip("123") for frame in frames}
    return [
        (f"d-{name}{'2' if name in ('slower', 'faster') else ''}", word)
        for name, word in words.items()
        if f"d-{name}" in used
    ]


Naming = Callable[[OperatorChange], str]
"""Returns the short name of an operator."""


def is_judged(change: OperatorChange) -> bool:
    """Whether a comparison with history judged a change."""
    return change.judgement not in ("", "too little")


def judgement_of(change: OperatorChange) -> Judgement:
    """Return what became of an operator's time: as it was judged, or else by its size alone."""
    if change.time.before is None:
        return "appeared"
    if change.time.after is None:
        return "vanished"
    if change.judgement and is_judged(change):
        return change.judgement
    if abs(_relative(change)) < _SAME:
        return "same"
    return "regression" if _relative(change) > 0 else "improvement"


def _relative(change: OperatorChange) -> float:
    before, difference = change.time.before, change.time.difference
    return difference / before if before and difference is not None else 0.0


def colour_of(change: OperatorChange) -> str:
    """Return the class of the colour of a change."""
    judgement = judgement_of(change)
    if judgement in ("appeared", "vanished"):
        return {"appeared": "d-new", "vanished": "d-gone"}[judgement]
    ways = {"regression": "slower", "suspect": "slower", "improvement": "faster"}
    way = ways.get(judgement)
    if way is None:
        return "d-same"
    return f"d-{way}{1 + sum(abs(_relative(change)) >= step for step in _STEPS)}"


def percent_of(change: OperatorChange) -> str:
    """Return the change in per cent with its sign; empty if it is unknown or none."""
    share = _relative(change)
    return f"{100 * share:+.1f} %" if share else ""


def change_text(change: OperatorChange) -> str:
    """Return the time of an operator now and before, and what became of it."""
    before, after = change.time.before, change.time.after
    if after is None:
        return f"gone, was {_time(before or 0.0, change)}"
    if before is None:
        return f"{_time(after, change)}, new"
    judgement = change.judgement or judgement_of(change)
    known = change.judgement or judgement != "same"
    parts = [percent_of(change), judgement_word(judgement, "time") if known else ""]
    words = ", ".join(filter(None, parts)) or "the same"
    return f"{_time(after, change)}, was {_time(before, change)} ({words})"


def _time(value: float, of: OperatorChange) -> str:
    return short_time(value if of.unit == "ns" else None, value)


def difference_view(
    changes: Iterable[OperatorChange], limits: Limits, naming: Naming = event_title
) -> View | None:
    """Draw an execution by its times now, each part in the colour of its change.

    Operators are in the order of instructions. Within the longest event of an instruction are its
    others, such as those of a delegate.

    Args:
        changes: The operators of both runs; those outside of executions are left out.
        limits: How many frames are drawn.
        naming: Returns the short name of an operator.

    Returns:
        Frames with the one around each; frames of what is ``gone``; whether any
        ``changed``, and whether a comparison with history judged that; None without executions in
        both runs.
    """
    found = [change for change in changes if not is_wrapper(change.name)]
    root = max((c for c in found if c.name == EXECUTION), key=_now, default=None)
    if root is None or root.time.before is None or not root.time.after:
        return None
    found = [c for c in found if c.block == root.block and c is not root and c.unit == root.unit]
    parts = [c for c in found if c.time.after is not None]
    gone = [c for c in found if c.time.after is None and c.time.before]
    if not parts:
        return None
    frames = [_box(root, 0.0, 100.0, 0, naming)]
    parents = [-1]
    groups = _by_instruction(parts)
    whole = max(_now(root), sum(_now(group[0]) for group in groups))
    kept = sorted(range(len(groups)), key=lambda n: -_now(groups[n][0]))[: limits.frames]
    at, drawn = 0.0, set(kept)
    for number, (outer, *inner) in enumerate(groups):
        width = 100 * _now(outer) / whole
        if number in drawn and width:
            parents.append(0)
            frames.append(_box(outer, at, width, 1, naming))
            around, left = len(frames) - 1, at
            longest = max(_now(outer), sum(map(_now, inner)))
            for change in inner:
                part = width * _now(change) / longest
                frames.append(_box(change, left, part, 2, naming))
                parents.append(around)
                left += part
        at += width
    judged = any(map(is_judged, found))
    boxes = [*_gone(sorted(gone, key=_place), naming)][: limits.frames]
    return {
        "frames": frames,
        "parents": parents,
        "small": left_out(len(groups), limits.frames),
        "gone": boxes,
        "gone_parents": [-1] * len(boxes),
        "lost": f"{counted(len(gone), 'operator')} gone: {_time(sum(map(_then, gone)), root)}",
        "changed": any(frame.kind != "d-same" for frame in frames),
        "judged": judged,
        "legend": legend(frames, judged=judged),
        "headline": f"An execution takes {change_text(root)}",
    }


def _now(change: OperatorChange) -> float:
    """Its time in an execution."""
    return (change.time.after or 0.0) * (change.per_run.after or 1.0)


def _place(change: OperatorChange) -> tuple[int, int]:
    return change.chain, change.instruction


def _by_instruction(changes: Sequence[OperatorChange]) -> list[list[OperatorChange]]:
    """Group events of one instruction, the longest of the runtime first, by instruction."""
    groups: dict[tuple[object, ...], list[OperatorChange]] = defaultdict(list)
    for change in changes:
        groups[_place(change) if change.chain >= 0 else (-1, change.name)].append(change)
    for group in groups.values():
        group.sort(key=lambda c: (c.delegate_int != -1 or c.delegate_str is not None, -_now(c)))
    return sorted(groups.values(), key=lambda group: _place(group[0]))


def _box(change: OperatorChange, left: float, width: float, level: int, naming: Naming) -> FrameBox:
    title = naming(change)
    shown = "" if colour_of(change) == "d-same" else percent_of(change)
    return FrameBox(
        left=round(left, 4),
        width=round(width, 4),
        level=level,
        name=brief(f"{title} {shown}".strip()),
        text=brief(f"{title}: {change_text(change)}"),
        kind=colour_of(change),
    )


def _gone(changes: Sequence[OperatorChange], naming: Naming) -> Iterator[FrameBox]:
    """Draw what there is no more, each as wide as its part of all of it."""
    times = [_then(change) for change in changes]
    at, whole = 0.0, sum(times)
    for change, time in zip(changes, times, strict=True):
        yield _box(change, at, 100 * time / whole, 0, naming)
        at += 100 * time / whole


def _then(change: OperatorChange) -> float:
    """Its time in an execution of the earlier run."""
    return (change.time.before or 0.0) * (change.per_run.before or 1.0)
