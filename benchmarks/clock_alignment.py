"""How far off the host's clock events are placed, by several methods, on simulated links.

    python -m benchmarks.clock_alignment

Simulated, as only then the truth is known: a counter of 80 MHz that runs 37 ppm fast, 64 pings in
30 s on links of several delays, and events anywhere in these 30 s.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import floor

import numpy as np
import numpy.typing as npt

from harness import ClockDomain, Ping, align

SEEDS = 20
PINGS = 64
SPAN_NS = 30 * 10**9
EVENTS = 500
CLOCK = ClockDomain("counter", Fraction(80_000_000), 32)
TICKS_PER_NS = Fraction(8, 100) * (1 + Fraction(37, 10**6))

_Floats = npt.NDArray[np.float64]
_Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Link:
    """A link of delays: so long there and back at least, and on the mean so much more."""

    name: str
    round_trip_ns: int
    there: float = 0.5

    def delays(self, chance: random.Random) -> tuple[int, int]:
        """One-way delays: a share of the least round trip each, and an exponential queue."""
        least = self.round_trip_ns
        shares = self.there, 1 - self.there
        there, back = (round(share * (least + chance.expovariate(2 / least))) for share in shares)
        return there, back


LINKS = (
    Link("40 us round trip", 40_000),
    Link("USB, 250 us", 250_000),
    Link("UART, 1.2 ms", 1_200_000),
    Link("UART, 1.2 ms, 80:20", 1_200_000, 0.8),
)


def pings_of(link: Link, chance: random.Random) -> list[Ping]:
    """Pings at regular times, each a little off."""
    pings = []
    for number in range(PINGS):
        before = number * SPAN_NS // PINGS + chance.randrange(SPAN_NS // PINGS // 2)
        there, back = link.delays(chance)
        ticks = floor((before + there) * TICKS_PER_NS) % CLOCK.modulus
        pings.append(Ping(before, before + there + back, 0, ticks))
    return pings


def two_ends(ticks: _Ints, before: _Ints, after: _Ints) -> Callable[[_Ints], _Floats]:
    """As Kineto does: the median slope from readings at either end, the median offset."""
    middles = (before + after) / 2
    half = len(ticks) // 2
    slope = np.median((middles[half:] - middles[:half]) / (ticks[half:] - ticks[:half]))
    offset = np.median(middles - slope * ticks)
    return lambda at: np.asarray(slope * at + offset)


def least_squares(ticks: _Ints, before: _Ints, after: _Ints) -> Callable[[_Ints], _Floats]:
    """A straight line through the middles of the quarter of pings that came back soonest."""
    best = np.argsort(after - before, kind="stable")[: len(ticks) // 4]
    middles = (before + after)[best] / 2
    slope, offset = np.polyfit(ticks[best].astype(np.float64), middles, 1)
    return lambda at: np.asarray(slope * at + offset)


@dataclass(frozen=True)
class Outcome:
    """Errors of each method, nanoseconds, over all seeds; the widest bound, and broken ones."""

    errors: dict[str, _Floats]
    half_width: int
    violations: int
    events: int


def measure(link: Link) -> Outcome:
    errors: dict[str, list[_Floats]] = {"Kineto": [], "least squares": [], "strip": []}
    half_width = violations = events = 0
    for seed in range(SEEDS):
        chance = random.Random(seed)
        pings = pings_of(link, chance)
        alignment = align(pings, CLOCK)
        [epoch] = alignment.epochs
        ticks = np.array([first for first, _ in epoch.stretch.ticks], np.int64)
        before = np.array([ping.host_before_ns for ping in pings], np.int64)
        after = np.array([ping.host_after_ns for ping in pings], np.int64)
        truth = np.array([chance.randrange(SPAN_NS) for _ in range(EVENTS)], np.int64)
        # The first ping's ticks are where the timeline of the epoch begins.
        zero = pings[0].ticks
        at = np.array([floor(int(t) * TICKS_PER_NS) - zero for t in truth], np.int64)
        instants = alignment.instants(at)
        violations += int(np.count_nonzero((truth < instants.low) | (truth > instants.high)))
        half_width = max(half_width, instants.half_width or 0)
        events += EVENTS
        errors["Kineto"].append(np.abs(two_ends(ticks, before, after)(at) - truth))
        errors["least squares"].append(np.abs(least_squares(ticks, before, after)(at) - truth))
        errors["strip"].append(np.abs(instants.mid - truth).astype(np.float64))
    joined = {name: np.concatenate(parts) for name, parts in errors.items()}
    return Outcome(joined, half_width, violations, events)


def section() -> Iterator[str]:
    """Errors and bounds by link, as Markdown."""
    yield "## Accuracy of events on the host's clock"
    yield ""
    yield f"The simulation has a counter with an error of 37 ppm, {PINGS} pings in 30 s,"
    yield f"{EVENTS} events and {SEEDS} seeds. Each link has a minimum round trip and queues"
    yield "with a mean of half of it. The table lists errors in us (median / maximum) of three"
    yield "methods that use the same pings, and the bound of the feasible strip."
    yield ""
    methods = "Kineto's medians of both ends | least squares, fastest quarter | feasible strip"
    yield f"| link | {methods} | bound of the strip | violations of the bound |"
    yield "|---|---|---|---|---|---|"
    for link in LINKS:
        outcome = measure(link)
        cells = [
            f"{np.median(error) / 1000:.1f} / {error.max() / 1000:.1f}"
            for error in outcome.errors.values()
        ]
        broken = f"{outcome.violations} of {outcome.events}"
        bound = f"+-{outcome.half_width / 1000:.1f}"
        yield f"| {link.name} | {' | '.join(cells)} | {bound} | {broken} |"
    yield ""
    yield "Only the feasible strip has a bound. An asymmetric link shifts the results of all"
    yield "three methods; the bound covers this shift."


if __name__ == "__main__":
    print("\n".join(section()))
