"""Health of a unit on the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.records.health import Health
from harness.report.terminal import show_line, show_table, show_wrapped

if TYPE_CHECKING:
    from rich.console import Console


def show_health(console: Console, health: Health, *, verbosity: int = 0) -> None:
    """Print the health of a unit: all findings, or only the last line if ``verbosity`` is negative.

    Args:
        console: The console.
        health: The findings.
        verbosity: Negative for the last line alone.
    """
    if verbosity >= 0:
        rows = [
            (each.state if each.state == "ok" else each.state.upper(), each.part, each.said)
            for each in health.findings
        ]
        where = f" on {health.port}" if health.port else ""
        show_table(
            console, ("", "part", "found"), rows, title=f"{health.unit}, {health.board}{where}"
        )
        if health.rates:
            _show_rates(console, health)
        for step in health.healing:
            became = "well" if step.healthy else "still not well"
            show_line(console, f"{step.step}: {step.said}; it was {became} then")
    failure = health.failure
    if failure is None:
        show_line(console, f"{health.unit} is well", style="bold green")
        return
    owner = f" ({failure.owner})" if failure.owner else ""
    text = f"{health.unit} is NOT well{owner}: {failure.said}"
    show_wrapped(console, text, indent=4, style="bold red")
    if failure.hint:
        show_wrapped(console, f"  try: {failure.hint}", indent=4)


def _show_rates(console: Console, health: Health) -> None:
    headers = ["baud", "round trip [us]", "longest", "up [kB/s]", "down [kB/s]", "frames"]
    headers += ["loss [%]", "overruns", ""]
    rows = []
    for rate in health.rates:
        typical, longest = rate.round_trip_us or (None, None)
        rows.append(
            (
                str(rate.baud or "none"),
                _number(typical),
                _number(longest),
                _number(rate.up_bytes_s, 1000, 1),
                _number(rate.down_bytes_s, 1000, 1),
                str(rate.frames),
                f"{100 * rate.loss:.2f}",
                str(rate.overruns),
                rate.said,
            )
        )
    show_table(console, headers, rows, title="Line", numbers=range(8))
    if health.advised_baud is not None:
        show_line(console, f"best for units.toml: baud = {health.advised_baud}")


def _number(value: float | None, divisor: int = 1, decimals: int = 0) -> str:
    return "-" if value is None else f"{value / divisor:.{decimals}f}"
