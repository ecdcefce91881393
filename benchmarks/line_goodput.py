"""Goodput on a rate-limited line, side by side with what is done without this link.

    python -m benchmarks.line_goodput

The line and both clocks are virtual, so the figures are the same on every machine; the device's
server is the firmware's own C code, taking no time to compute.
"""

from __future__ import annotations

import ctypes as ct
import statistics
from collections.abc import Iterator

from benchmarks import rivals
from harness.files import data_directory
from harness.target.build import build_directory, build_preset
from tests.support.line import Wire
from tests.support.mirrors import load_library
from tests.support.transfers import BAUDS, MODEL, MTU, transfer

LATENCIES_S = (0.001, 0.016)
DAMAGED = 0.01
"""Share of the frames."""
DAMAGE_SEEDS = 9
LATENCY_OF_DAMAGED_S = 0.016


def section() -> Iterator[str]:
    """The part of docs/measurements.md."""
    library = _library()
    yield "## Goodput on a rate-limited line"
    yield ""
    yield "The table lists KB/s for a model of 1 MiB up and a trace of 1 MiB down, in virtual"
    yield "time, on a line with a USB adapter that holds incomplete packets for its latency"
    yield f"time. *Allowed* is the rate of the same bytes in frames of {MTU} bytes without gaps."
    yield "XMODEM-1K and base64 lines carry the same bytes on the same line. base64 lines have"
    yield "no checksum, and need a device that reads fast enough."
    yield ""
    yield "| baud | latency | direction | allowed | ours | of allowed | XMODEM-1K | ours / XMODEM |"
    yield "|---|---|---|---|---|---|---|---|"
    rows, console = [], []
    for baud in BAUDS:
        for latency_s in LATENCIES_S:
            wire = Wire(baud, latency_s)
            for row, base in _compare(library, wire):
                rows.append(row)
                console.append(base)
    yield from rows
    yield ""
    yield "| baud | latency | direction | base64 on the console | ours / base64 |"
    yield "|---|---|---|---|---|"
    yield from console
    yield ""
    yield from _damage(library)


def _damage(library: ct.CDLL) -> Iterator[str]:
    share, latency_s = f"{DAMAGED:.0%}", f"{LATENCY_OF_DAMAGED_S * 1e3:.0f} ms"
    yield f"The next table lists the extra time when one bit is inverted in {share} of the"
    yield "frames of both directions, so that these frames are sent again. The latency is"
    yield f"{latency_s}. The values are the median (and maximum) of {DAMAGE_SEEDS} seeds:"
    yield ""
    yield "| baud | up | down |"
    yield "|---|---|---|"
    for baud in BAUDS:
        clean = _times(library, Wire(baud, LATENCY_OF_DAMAGED_S))
        damaged = [
            _times(library, Wire(baud, LATENCY_OF_DAMAGED_S, damaged=DAMAGED, seed=seed))
            for seed in range(DAMAGE_SEEDS)
        ]
        extra = [
            [time / clean[i] - 1 for time in times]
            for i, times in enumerate(zip(*damaged, strict=True))
        ]
        cells = (f"{statistics.median(each):.1%} ({max(each):.1%})" for each in extra)
        yield f"| {baud} | {' | '.join(cells)} |"


def _times(library: ct.CDLL, wire: Wire) -> tuple[float, float]:
    """Seconds up and down."""
    done = transfer(library, wire)
    return done.up, done.down


def _compare(library: ct.CDLL, wire: Wire) -> Iterator[tuple[str, str]]:
    done = transfer(library, wire)
    up, down = (done.up, done.allowed_up), (done.down, done.allowed_down)
    cases = (
        ("up", MODEL, *up, rivals.xmodem_up, rivals.console_up),
        ("down", done.trace, *down, rivals.xmodem_down, rivals.console_down),
    )
    place = f"{wire.baud} | {wire.latency_s * 1e3:.0f} ms"
    for name, data, ours_s, allowed_s, xmodem, console in cases:
        xmodem_s, console_s = (rival(library, wire, data) for rival in (xmodem, console))
        rates = [len(data) / time / 1e3 for time in (allowed_s, ours_s, xmodem_s, console_s)]
        yield (
            f"| {place} | {name} | {rates[0]:.1f} | {rates[1]:.1f} | {allowed_s / ours_s:.1%} "
            f"| {rates[2]:.1f} | {xmodem_s / ours_s:.2f} |",
            f"| {place} | {name} | {rates[3]:.1f} | {console_s / ours_s:.2f} |",
        )


def _library() -> ct.CDLL:
    source = data_directory("firmware_stub")
    directory = build_directory(source, "native")
    build_preset(source, "native", directory, {})
    return load_library(directory / "libetstub.so")


if __name__ == "__main__":
    print("\n".join(section()))
