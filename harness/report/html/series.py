"""Series of numbers over results, on a scale that neither hides a change nor blows up noise."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from harness.report.html.scales import Axis, axis
from harness.report.html.svg import sparkline
from harness.report.tracked import TrackedNumber

if TYPE_CHECKING:
    from markupsafe import Markup

_NOISE: Final = 4.0
"""A scale spans at least so many times the band of the noise."""

_LEAST: Final = 0.05
"""A scale spans at least this part of the numbers."""


def series_axis(values: Sequence[float], noise: tuple[float, float] | None) -> Axis:
    """Return a scale on which a step of one tick looks as small as it is.

    Args:
        values: The numbers, at least one.
        noise: The band of the noise; None if it is unknown.
    """
    shown = [*values, *(noise or ())]
    least = _LEAST * abs(statistics.median(values))
    if noise is not None:
        least = max(least, _NOISE * (noise[1] - noise[0]))
    return axis(shown, from_zero=False, least=least)


def trend_line(number: TrackedNumber) -> Markup | str:
    """Draw the last values of a number without labels; empty without an earlier one."""
    if not number.earlier:
        return ""
    scale = series_axis(number.trend, number.noise)
    noise = None
    if number.noise is not None:
        low, high = number.noise
        noise = (scale.down(high), scale.down(low))
    summary = f"{number.name}: {len(number.earlier)} earlier results"
    if number.change_text:
        summary += f"; now {number.text}, {number.change_text}"
    return sparkline([scale.down(value) for value in number.trend], summary, noise)
