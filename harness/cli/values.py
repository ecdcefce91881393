"""Values of options that people write with a unit: percentages and durations."""

from __future__ import annotations

import math
import re

import click

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def percentage(_: click.Context, parameter: click.Parameter, text: str | None) -> float | None:
    """Return a percentage as a share of 1; None without one."""
    if text is None:
        return None
    try:
        percent = float(text.removesuffix("%"))
    except ValueError:
        percent = math.nan
    if not 0 <= percent < math.inf:
        raise click.BadParameter(f"{text!r} is not a percentage; write 20%", param=parameter)
    return percent / 100


def duration(_: click.Context, parameter: click.Parameter, text: str | None) -> int | None:
    """Return the seconds of a text such as ``2h`` or ``1h30m``; None without one."""
    if text is None:
        return None
    if not re.fullmatch(r"(\d{1,6}[smhd])+", text):
        raise click.BadParameter(
            f"{text!r} is not a duration; write 2h, 90m, 1d or 1h30m", param=parameter
        )
    seconds = sum(int(n) * _SECONDS[unit] for n, unit in re.findall(r"(\d+)([smhd])", text))
    if not seconds:
        raise click.BadParameter("the duration must be longer than 0 s", param=parameter)
    return seconds
