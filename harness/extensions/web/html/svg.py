"""All pictures of a page: numbers as SVG, and how much of a run is drawn and listed.

The policy of a page forbids styles beside its style sheet, so pictures use classes for colours
and attributes for geometry. A picture is as wide as the page lets it be: places are percentages,
and paths are drawn on a square of ``SIZE`` units that is stretched. Labels stand beside it and
are not stretched.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from html import escape
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from harness.formatting import printable
from harness.report.words import number

if TYPE_CHECKING:
    from markupsafe import Markup

View = dict[str, Any]
"""What a template shows, by the names that it uses."""

SIZE: Final = 1000.0
"""Width and height of a picture in its own units; the page stretches it."""

_TICKS = 4
"""About how many lines there are across a picture."""


@dataclass(frozen=True, slots=True)
class Tick:
    """A line across a picture: how far from its top or left, percent, and what it says."""

    place: float
    text: str


@dataclass(frozen=True, slots=True)
class Axis:
    """Numbers from ``low`` to ``high`` along a picture."""

    low: float
    high: float

    def at(self, value: float) -> float:
        """The place of a number, from 0 to SIZE."""
        span = self.high - self.low
        return round(SIZE * (value - self.low) / span, 1) if span else SIZE / 2

    def percent(self, value: float) -> float:
        """The place of a number, in percent."""
        return round(self.at(value) / 10, 2)

    def down(self, value: float) -> float:
        """The place of a number from the top of a picture whose axis points up."""
        return round(SIZE - self.at(value), 1)

    def ticks(self, unit: float = 1.0) -> list[float]:
        """Round numbers of ``unit`` along it."""
        low, high = self.low / unit, self.high / unit
        span = high - low
        if not 1e-300 < span < math.inf:  # where floats end, logarithms do
            return [self.low]
        step = 10.0 ** math.floor(math.log10(span / _TICKS))
        step *= next((f for f in (1, 2, 5) if span / (step * f) <= _TICKS), 10)
        return [unit * step * n for n in range(math.ceil(low / step), math.floor(high / step) + 1)]

    def scale(self, divisor: float, unit: str) -> tuple[Tick, ...]:
        """Lines across a picture whose axis points up, with their numbers."""
        return tuple(
            Tick(self.down(value) / 10, f"{number(value / divisor)} {unit}")
            for value in self.ticks(divisor)
        )

    def base(self, divisor: float, unit: str) -> tuple[Tick, ...]:
        """Numbers below a picture."""
        return tuple(
            Tick(self.percent(value), f"{number(value / divisor)} {unit}")
            for value in self.ticks(divisor)
        )


def axis(values: Iterable[float], *, from_zero: bool, least: float = 0.0) -> Axis:
    """An axis that holds ``values`` with a little room above and below, but not below 0.

    Args:
        values: The numbers.
        from_zero: Begin at 0.
        least: The smallest span. A change of a single tick does not fill a picture whose axis
            spans a few times the noise.
    """
    found = [value for value in values if math.isfinite(value)] or [0.0]
    low, high = min(found), max(found)
    # What differs by less cannot be told apart in a picture, nor by floats in its labels.
    size = max(abs(low), abs(high))
    room = max((high - low) * 0.08, size * 1e-9) if high > low else size * 0.05 or 1.0
    room = max(room, (least - (high - low)) / 2)
    bottom = 0.0 if from_zero else low - room
    return Axis(max(bottom, 0.0) if low >= 0 else bottom, high + room)


def thinned(values: npt.NDArray[np.int64], points: int) -> npt.NDArray[np.int64]:
    """Places of at most about ``points`` values: of each stretch its first, smallest and largest.

    So neither the peak nor what a curve began with is lost.
    """
    count = len(values)
    if count <= points:
        return np.arange(count)
    edges = np.linspace(0, count, max((points - 1) // 3, 1) + 1).astype(np.int64)
    kept = [0, count - 1]
    for first, behind in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        piece = values[first:behind]
        if len(piece):
            kept += [first, first + int(np.argmin(piece)), first + int(np.argmax(piece))]
    return np.unique(np.array(kept, np.int64))


@dataclass(frozen=True, slots=True)
class FrameBox:
    """A rectangle with a name in it.

    Attributes:
        left: Where it begins, percent of the width.
        width: How wide it is, likewise.
        level: Its row, 0 at the top.
        name: What is written in it where there is room.
        text: What it says of itself.
        kind: Class of its colour.
    """

    left: float
    width: float
    level: int
    name: str
    text: str
    kind: str

    @property
    def shown(self) -> tuple[str, str]:
        """The name as far as there is room for it, on a wide page and on a phone."""
        wide, phone = (fitting(self.name, self.width * pixels) for pixels in _PIXELS)
        return wide, phone


_PIXELS: Final = (11.8, 3.3)
"""Pixels of one percent of a wide page, and of a phone's."""

_LETTER: Final = 6.6
"""Pixels of a letter, about."""

_MARGIN: Final = 9.0
"""Pixels beside a name."""


_WORD: Final = re.compile(r"::|_|\.(?=[a-zA-Z])")
"""What is between the words of a name."""


def fitting(name: str, pixels: float) -> str:
    """Return a name, or the last words of it, or its instruction, whatever has room; else nothing.

    Examples:
        >>> [fitting("quantized_conv2d #3", room) for room in (150, 90, 60, 30, 9)]
        ['quantized_conv2d #3', 'conv2d #3', '#3', '#3', '']
    """
    room = (pixels - _MARGIN) / _LETTER
    if len(name) <= room:
        return name
    words, _, number = name.rpartition(" #") if " #" in name else (name, "", "")
    number = f" #{number.partition(' ')[0]}" if number else ""  # without a change behind it
    while words and len(words) + len(number) > room:
        words = _WORD.split(words, 1)[1] if _WORD.search(words) else ""
    shown = f"{words}{number}" if words else number.strip()
    return shown if len(shown) <= room else ""


Point = tuple[float, float]
"""A place in a picture, from its left and from its top, each from 0 to SIZE."""


def tag(name: str, *content: str, **attributes: str | float | None) -> str:
    """Return an element: its content is markup, its attributes are not.

    Underscores in names of attributes are hyphens, and one at the end is nothing. An attribute
    that is None is left out.
    """
    written = ""
    for key, value in attributes.items():
        if value is not None:
            text = said(value) if isinstance(value, str) else f"{value:.7g}"
            written += f' {_spelled(key)}="{text}"'
    if not content:
        return f"<{name}{written}/>"
    return f"<{name}{written}>{''.join(content)}</{name}>"


@cache
def _spelled(key: str) -> str:
    return key.rstrip("_").replace("_", "-")


@lru_cache(16_384)
def said(text: str) -> str:
    """Return a text as markup that only shows it."""
    return escape(printable(text))


def _markup(*parts: str) -> Markup:
    from markupsafe import Markup  # of the extra `report`

    return Markup("".join(parts))


def _percent(place: float) -> str:
    return f"{place:.7g}%"


@dataclass(frozen=True, slots=True)
class Mark:
    """A point worth a dot: its place in the picture, what it says, and what kind it is of."""

    x: float
    y: float
    text: str
    kind: str


@dataclass(frozen=True, slots=True)
class Curve:
    """A picture of numbers.

    Attributes:
        title: What it is of.
        summary: What it shows, in a sentence, for those who do not see it.
        line: The path of its line.
        area: The path of the area below it or around it; empty without one.
        marks: Points with a dot.
        scale: Lines across with their labels.
        base: Labels below.
        rules: Heights of dashed lines, percent from the top, and what they say.
        columns: Upright lines, percent from the left, and what they say.
        steps: Upright lines where a number went to another level, as ``columns``.
        percent: Heights and labels of a second scale, in percent, at the right.
        flags: Upright lines where a person accepted another level, as ``columns``.
        notes: Texts at places of the picture, such as beside an outlier.
        wide: More labels below, where the picture is wide enough.
    """

    title: str
    summary: str
    line: str
    area: str
    marks: tuple[Mark, ...]
    scale: tuple[Tick, ...]
    base: tuple[Tick, ...]
    rules: tuple[Tick, ...] = ()
    columns: tuple[Tick, ...] = ()
    steps: tuple[Tick, ...] = ()
    percent: tuple[Tick, ...] = ()
    flags: tuple[Tick, ...] = ()
    notes: tuple[Mark, ...] = ()
    wide: tuple[Tick, ...] = ()


def line(points: Sequence[Point]) -> str:
    """The path through points of a picture."""
    return "M" + "L".join(f"{x:g} {y:g}" for x, y in points) if points else ""


def steps(points: Sequence[Point]) -> str:
    """The path of a value that stays what it is until the next point, and to the right end."""
    if not points:
        return ""
    (x, y), *rest = points
    return f"M{x:g} {y:g}" + "".join(f"H{x:g}V{y:g}" for x, y in rest) + f"H{SIZE:g}"


def below(path: str, first: float) -> str:
    """The area from a path, which begins at ``first``, down to the bottom."""
    return f"{path}V{SIZE:g}H{first:g}Z" if path else ""


def band(low: Sequence[Point], high: Sequence[Point]) -> str:
    """The area between two lines."""
    return line([*high, *reversed(low)]) + "Z" if high else ""


def _stretched(*content: str, class_: str | None = None) -> str:
    """A square of SIZE units, stretched to the picture around it."""
    return tag(
        "svg",
        *content,
        class_=class_,
        viewBox=f"0 0 {SIZE:g} {SIZE:g}",
        preserveAspectRatio="none",
        width="100%",
        height="100%",
    )


def _across(place: float, class_: str) -> str:
    return tag("line", class_=class_, x1="0", x2="100%", y1=_percent(place), y2=_percent(place))


def _upright(place: float, class_: str) -> str:
    return tag("line", class_=class_, x1=_percent(place), x2=_percent(place), y1="0", y2="100%")


def _label(text: str, class_: str, x: str | float, y: str | float, dy: float | None = None) -> str:
    return tag("text", said(text), class_=class_, x=x, y=y, dy=dy)


def _title(text: str) -> str:
    return tag("title", said(text))


def _dot(mark: Mark) -> str:
    # A line without length: its round end stays round when the picture is stretched.
    return tag(
        "path", _title(mark.text), class_=f"dot {mark.kind}", d=f"M{mark.x:g} {mark.y:g}h0.01"
    )


def _scale(ticks: Iterable[Tick]) -> Iterator[str]:
    """Lines across a picture, with their labels at its left."""
    for tick in ticks:
        yield _across(tick.place, "grid")
        yield _label(tick.text, "y", -8, _percent(tick.place), 4)


def _base(ticks: Iterable[Tick], class_: str = "x") -> Iterator[str]:
    """Labels below a picture; the outermost ones do not reach beyond it."""
    for tick in ticks:
        side = " first" if tick.place < 8 else " last" if tick.place > 92 else ""
        yield _label(tick.text, f"{class_}{side}", _percent(tick.place), "100%", 18)


def _side(place: float) -> str:
    """The class of a label that would reach beyond a picture if its middle were here."""
    return " first" if place < 25 else " last" if place > 75 else ""


def curve(found: Curve) -> Markup:
    """Draw a curve with its scales, marks and title."""
    parts = [*_scale(found.scale)]
    parts += [
        _label(tick.text, "percent", "100%", _percent(tick.place), 4) for tick in found.percent
    ]
    parts += [_upright(tick.place, "column") for tick in found.columns]
    parts.append(_across(100, "axis"))
    parts.append(
        _stretched(
            tag("path", class_="area", d=found.area) if found.area else "",
            tag("path", class_="line", d=found.line),
            *map(_dot, found.marks),
        )
    )
    parts += _rules(found.rules)
    for tick in found.steps:
        parts += [
            _upright(tick.place, "step"),
            _label(tick.text, f"step{_side(tick.place)}", _percent(tick.place), 0, -3)
            if tick.text
            else "",
        ]
    for tick in found.flags:
        parts += [
            _upright(tick.place, "flag"),
            _label(tick.text, f"flag{_side(tick.place)}", _percent(tick.place), 0, -17),
        ]
    for note in found.notes:
        class_ = f"note {note.kind}{_side(note.x / 10)}"
        down = 14 if note.kind == "above" else -8
        parts.append(_label(note.text, class_, _percent(note.x / 10), _percent(note.y / 10), down))
    parts += [*_base(found.base), *_base(found.wide, "x wide")]
    picture = tag("svg", *parts, class_="plot", role="img", aria_label=found.summary, height=150)
    return _figure(found.title, picture, "curve")


def interval(low: float, value: float, high: float, kind: str) -> Markup:
    """Draw an estimate and its bounds, in percent of a bar whose middle is no change."""
    return _markup(
        tag(
            "svg",
            _upright(50, "none"),
            tag("line", class_="bounds", x1=_percent(low), x2=_percent(high), y1=8, y2=8),
            tag("circle", class_=kind, cx=_percent(value), cy=8, r=4.5),
            class_="range",
            width="100%",
            height=16,
            aria_hidden="true",
        )
    )


def strip(
    places: Iterable[float], median: float, outlier: float | None, before: float | None = None
) -> Markup:
    """Draw every value of a distribution on one line. The table beside it has the numbers.

    Args:
        places: Where each value lies, percent of the line; equal places are one dot.
        median: Where the median lies, likewise.
        outlier: Where the largest value lies if it is far from the others, else None.
        before: Where the median of an earlier run lies; None without one.
    """
    dots = "".join(f"M{10 * place:g} 500h0.01" for place in sorted(set(places)))
    parts = [
        tag("line", class_="none", x1="0", x2="100%", y1=9, y2=9),
        _stretched(tag("path", class_="dots", d=dots)),
        tag(
            "line",
            class_="median",
            x1=_percent(median),
            x2=_percent(median),
            y1=2,
            y2=16,
        ),
    ]
    if before is not None:
        parts.append(
            tag("line", class_="before", x1=_percent(before), x2=_percent(before), y1=2, y2=16)
        )
    if outlier is not None:
        parts.append(tag("circle", class_="outlier", cx=_percent(outlier), cy=9, r=4))
    return _markup(tag("svg", *parts, class_="strip", width="100%", height=18, aria_hidden="true"))


def sparkline(places: Sequence[float], summary: str, noise: tuple[float, float] | None) -> Markup:
    """Draw the last values of a series without a scale.

    Args:
        places: Their heights in the order of time, from 0 at the top to SIZE at the bottom.
        summary: What the line shows, for those who do not see it.
        noise: Top and bottom of the band of the noise; None without one.
    """
    last = max(len(places) - 1, 1)
    points = [(round(SIZE * n / last, 1), y) for n, y in enumerate(places)]
    parts = []
    if noise is not None:
        top, bottom = noise
        path = band([(0.0, bottom), (SIZE, bottom)], [(0.0, top), (SIZE, top)])
        parts.append(tag("path", class_="area", d=path))
    parts.append(tag("path", class_="line", d=line(points)))
    parts += [_dot(Mark(x, y, summary, "now")) for x, y in points[-1:]]
    return _markup(
        tag(
            "svg",
            _stretched(*parts),
            class_="spark",
            role="img",
            aria_label=summary,
            width="100%",
            height=28,
        )
    )


_ROW = 24
"""Height of a row of frames, in pixels."""

_BLOCK = 56
"""Height of a block of a timeline, likewise."""


def _frame(
    frame: FrameBox,
    height: float,
    class_: str,
    top: float | None = None,
    **attributes: str | float | None,
) -> str:
    """A rectangle with as much of its name as fits."""
    wide, small = frame.shown
    names = {"": wide} if wide == small else {"wide": wide, "small": small}
    texts = [
        tag("text", said(name), class_=class_ or None, x=5, y=(height + 9) / 2, aria_hidden="true")
        for class_, name in names.items()
        if name
    ]
    return tag(
        "svg",
        _title(frame.text),
        tag("rect", width="100%", height="100%"),
        *texts,
        class_=class_,
        x=_percent(frame.left),
        y=_ROW * frame.level if top is None else top,
        width=_percent(frame.width),
        height=height,
        **attributes,
    )


def flame(frames: Sequence[FrameBox], parents: Sequence[int], label: str) -> Markup:
    """Draw frames below the ones around them, as a tree that the page's script moves in.

    Args:
        frames: The frames, each behind the one around it.
        parents: Number of the frame around each, -1 for none.
        label: What the picture is of.
    """
    items = [
        _frame(
            frame,
            _ROW - 1,
            f"f {frame.kind}",
            role="treeitem",
            data_n=None if frame.shown[0] == frame.name else frame.name,
            aria_level=frame.level + 1,
            data_p=parent,
            tabindex=None if number else "0",
        )
        for number, (frame, parent) in enumerate(zip(frames, parents, strict=True))
    ]
    levels = max((frame.level for frame in frames), default=-1) + 1
    return _markup(
        tag(
            "svg",
            *items,
            class_="icicle",
            width="100%",
            height=_ROW * levels,
            role="tree",
            aria_orientation="horizontal",
            aria_label=label,
        )
    )


def timeline(
    frames: Sequence[FrameBox],
    base: Iterable[Tick],
    summary: str,
    under: Sequence[FrameBox] = (),
) -> Markup:
    """Draw blocks one after the other on a time axis; what is empty between them is a gap.

    Args:
        frames: The blocks.
        base: Ticks of the axis.
        summary: What the picture shows, for those who do not see it.
        under: Blocks below these, of something to compare them with.
    """
    height = _BLOCK
    parts = [tag("rect", class_="idle", width="100%", height=height)]
    parts += [_frame(frame, height, f"b {frame.kind}") for frame in frames]
    if under:
        parts += [_frame(frame, _ROW - 4, f"u {frame.kind}", top=height + 3) for frame in under]
        height += _ROW
    for tick in base:
        side = " first" if tick.place < 8 else " last" if tick.place > 92 else ""
        x = _percent(tick.place)
        parts.append(tag("line", class_="grid", x1=x, x2=x, y1=height, y2=height + 5))
        parts.append(_label(tick.text, f"x{side}", x, height + 18))
    return _markup(
        tag(
            "svg",
            *parts,
            class_="timeline",
            role="img",
            aria_label=summary,
            width="100%",
            height=height + 24,
        )
    )


def swatch(kind: str) -> Markup:
    """Draw the colour of a kind, for a legend."""
    rect = tag("rect", width=12, height=12, rx=2)
    return _markup(
        tag("svg", rect, class_=f"swatch {kind}", width=12, height=12, aria_hidden="true")
    )


def share_bar(share: float) -> Markup:
    """Draw a share of the whole as a bar below its number, which ends where that does."""
    long = round(100 * min(max(share, 0.0), 1.0), 2)
    return _markup(
        tag(
            "svg",
            tag("rect", x=_percent(100 - long), width=_percent(long), height=6),
            class_="bar",
            width="100%",
            height=6,
            aria_hidden="true",
        )
    )


def gantt(
    anchor: str,
    title: str,
    summary: str,
    bars: Iterable[str],
    rule: Tick,
    scale: Iterable[Tick],
    base: Iterable[Tick],
) -> Markup:
    """Draw lifetimes: what lies where, and how long.

    Args:
        anchor: Prefix of its ids.
        title: What it is of.
        summary: What it shows, in a sentence, for those who do not see it.
        bars: What ``bar`` returned.
        rule: A limit as a dashed line.
        scale: Lines across with their labels.
        base: Labels below.
    """
    pattern = tag(
        "pattern",
        tag("path", d="M0 8L8 0", class_="hatch"),
        id=f"{anchor}-hatch",
        width=8,
        height=8,
        patternUnits="userSpaceOnUse",
    )
    parts = [tag("defs", pattern), *_scale(scale), _across(100, "axis"), *bars]
    parts += [*_rules([rule]), *_base(base)]
    picture = tag("svg", *parts, class_="plot", role="img", aria_label=summary, height=220)
    return _figure(title, picture, "curve gantt")


def bar(
    left: float,
    width: float,
    top: float,
    height: float,
    kind: str,
    text: str = "",
    names: Sequence[str] = (),
    sizes: Sequence[str] = (),
    *,
    hatched: str = "",
) -> str:
    """Draw a rectangle of a Gantt chart, which cuts off a name that does not fit.

    Args:
        left: Where it begins, percent of the width.
        width: How wide it is, likewise.
        top: Where it begins, percent of the height.
        height: How high it is, likewise.
        kind: Class of its colour.
        text: What it says of itself; empty for nothing.
        names: What is written in it, on a wide page and on a phone.
        sizes: What is written below that, likewise.
        hatched: Anchor of the chart, to fill it with its pattern; empty for the colour.
    """
    fill = f"url(#{hatched}-hatch)" if hatched else None
    return tag(
        "svg",
        _title(text) if text else "",
        tag("rect", width="100%", height="100%", fill=fill),
        *_written(names, -3 if any(sizes) else 4),
        *_written(sizes, 12),
        class_=kind,
        x=_percent(left),
        y=_percent(top),
        width=_percent(width),
        height=_percent(height),
    )


def _written(names: Sequence[str], dy: float) -> Iterator[str]:
    """What is written in a bar, as much as fits on a wide page and on a phone."""
    for name, class_ in zip(names, ("name wide", "name small"), strict=False):
        if name:
            yield _label(name, class_, "50%", "50%", dy)


def _rules(rules: Iterable[Tick]) -> Iterator[str]:
    """Dashed lines across a picture, with their labels above them."""
    for tick in rules:
        yield _across(tick.place, "rule")
        yield _label(tick.text, "rule", "100%", _percent(tick.place), -4)


def _figure(title: str, picture: str, class_: str) -> Markup:
    return _markup(tag("figure", tag("figcaption", said(title)), picture, class_=class_))


@dataclass(frozen=True, slots=True)
class Limits:
    """The most that a page shows of one run. Below each list stands how much is left out.

    Attributes:
        rows: Rows of a table of operators, allocators or allocations, the worst first.
        checks: Checks, failed ones first.
        frames: Frames of a flame view, the longest first.
        blocks: Blocks of a timeline, the longest first.
        nodes: Nodes of the list beside it.
        points: Points of a curve.
        trends: Curves through history.
        lines: Lines of the console.
    """

    rows: int
    checks: int
    frames: int
    blocks: int
    nodes: int
    points: int
    trends: int
    lines: int

    @classmethod
    def of(cls, runs: int) -> Limits:
        """The limits of each of ``runs`` runs on one page: the more runs, the lower."""

        def share(whole: int, least: int, most: int) -> int:
            return max(least, min(most, whole // max(runs, 1)))

        return cls(
            rows=share(4_000, 10, 200),
            checks=share(8_000, 20, 500),
            frames=share(12_000, 20, 1_000),
            blocks=share(4_000, 10, 300),
            nodes=share(6_000, 10, 400),
            points=share(20_000, 60, 400),
            trends=share(240, 2, 24),
            lines=share(4_000, 10, 200),
        )
