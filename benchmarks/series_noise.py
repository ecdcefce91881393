"""Generated sessions for the study of verdicts: noise of boards and machines, one array each.

Every noise is a function of a random generator and a shape, and returns factors of the operators'
true times, shape (sessions, statistics, operators). Sessions follow each other, one a night. The
two statistics of an operator (``min`` and ``p50`` of a run) share most of their noise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from harness.check.history.samples import Floats

OPERATORS: Final = 60
STATISTICS: Final = ("min", "p50")

LEVELS: Final = np.geomspace(4e3, 6e5, OPERATORS)
"""True times of the operators, ns."""

Noise = Callable[[np.random.Generator, int], Floats]


def _spreads(chance: np.random.Generator) -> Floats:
    """Return the standard deviation of each operator's times, as a share: 0.5 %, more or less."""
    return np.asarray(0.005 * np.exp(0.4 * chance.standard_normal(OPERATORS)))


def _shared(chance: np.random.Generator, values: Floats) -> Floats:
    """Give each statistic the noise ``values``, shape (sessions, operators), and some of its own.

    The variance stays that of ``values`` if these have variance 1.
    """
    own = chance.standard_normal((len(values), len(STATISTICS), OPERATORS))
    return np.asarray(np.sqrt(0.8) * values[:, None, :] + np.sqrt(0.2) * own)


def gaussian(chance: np.random.Generator, sessions: int) -> Floats:
    """Normal noise, independent from session to session."""
    values = chance.standard_normal((sessions, OPERATORS))
    return 1 + _spreads(chance) * _shared(chance, values)


def spikes(chance: np.random.Generator, sessions: int) -> Floats:
    """Normal noise, and in 1 % of the runs an operator takes longer, with a Pareto tail."""
    factors = gaussian(chance, sessions)
    hit = chance.random((sessions, OPERATORS)) < 0.01
    size = 0.03 * (1 + chance.pareto(1.5, (sessions, OPERATORS)))
    return np.asarray(factors * (1 + np.where(hit, size, 0.0))[:, None, :])


def walk(chance: np.random.Generator, sessions: int) -> Floats:
    """Normal noise on a rate of the machine that walks by 0.3 % a night."""
    rate = np.exp(np.cumsum(0.003 * chance.standard_normal(sessions)))
    return np.asarray(gaussian(chance, sessions) * rate[:, None, None])


def autocorrelated(chance: np.random.Generator, sessions: int) -> Floats:
    """Noise that remembers the night before: autoregressive, with a coefficient of 0.8."""
    steps = chance.standard_normal((sessions + 50, OPERATORS))
    values = np.empty_like(steps)
    values[0] = steps[0]
    for night in range(1, len(steps)):
        values[night] = 0.8 * values[night - 1] + np.sqrt(1 - 0.64) * steps[night]
    return 1 + _spreads(chance) * _shared(chance, values[50:])


def two_modes(chance: np.random.Generator, sessions: int) -> Floats:
    """Every operator flips between two levels, 3 % to 12 % apart."""
    gaps = chance.uniform(0.03, 0.12, OPERATORS)
    weights = chance.uniform(0.2, 0.5, OPERATORS)
    upper = chance.random((sessions, OPERATORS)) < weights
    return np.asarray(gaussian(chance, sessions) * (1 + np.where(upper, gaps, 0.0))[:, None, :])


def wild_night(chance: np.random.Generator, sessions: int) -> Floats:
    """One night of the last weeks in which everything took three times as long, more or less."""
    factors = gaussian(chance, sessions)
    wild = sessions - 2 - int(chance.integers(min(18, sessions - 3)))
    factors[wild] *= 3 * np.exp(0.3 * chance.standard_normal(OPERATORS))
    return factors


def unequal_nights(chance: np.random.Generator, sessions: int) -> Floats:
    """Some nights are several times as noisy as others."""
    scale = np.exp(0.6 * chance.standard_normal((sessions, 1, 1)))
    return 1 + scale * (gaussian(chance, sessions) - 1)


def drift(chance: np.random.Generator, sessions: int) -> Floats:
    """Each operator becomes slower or quicker by up to 2 % in a hundred nights."""
    slopes = chance.uniform(-0.0002, 0.0002, OPERATORS)
    return gaussian(chance, sessions) * (1 + np.outer(np.arange(sessions), slopes))[:, None, :]


def seasons(chance: np.random.Generator, sessions: int) -> Floats:
    """A board in an unheated room: all times follow the weather, by 1 %, and its oscillator."""
    nights = np.arange(sessions) + chance.uniform(0, 365)
    weather = 0.01 * np.sin(nights * 2 * np.pi / 30)
    day = 0.002 * chance.standard_normal(sessions)
    return gaussian(chance, sessions) * (1 + weather + day)[:, None, None]


def bare_metal(chance: np.random.Generator, sessions: int) -> Floats:
    """A microcontroller without a cache: the same ticks, but for one or two of bus contention."""
    ticks = chance.poisson(0.3, (sessions, len(STATISTICS), OPERATORS))
    return np.asarray(1 + ticks * 10.0 / LEVELS)


def busy_host(chance: np.random.Generator, sessions: int) -> Floats:
    """A shared machine: heavy tails, unequal nights, a walking rate and runs that are disturbed."""
    night = np.exp(0.4 * chance.standard_normal((sessions, 1, 1)))
    noise = chance.standard_t(3, (sessions, OPERATORS)) / np.sqrt(3)
    rate = np.exp(np.cumsum(0.002 * chance.standard_normal(sessions)))
    rate *= 1 + 0.03 * np.abs(chance.standard_normal(sessions))
    spread = 3 * _spreads(chance)
    return rate[:, None, None] * np.exp(night * spread * _shared(chance, noise))


@dataclass(frozen=True, slots=True)
class NoiseModel:
    """A kind of noise.

    Attributes:
        title: Its row in the table.
        factors: Makes the factors of the operators' times.
        tick_ns: Nanoseconds per tick of the clock.
        continuous: Whether the noise has a density, so that no change is found always.
    """

    title: str
    factors: Noise
    tick_ns: float = 1.0
    continuous: bool = True

    def times(self, chance: np.random.Generator, sessions: int) -> Floats:
        """Return times in ns as the clock shows them, shape (sessions, statistics, operators)."""
        return self.shown(LEVELS * self.factors(chance, sessions))

    def shown(self, times: Floats) -> Floats:
        """Return times in ns, rounded to ticks."""
        return np.asarray(np.round(times / self.tick_ns) * self.tick_ns)


MODELS: Final[Mapping[str, NoiseModel]] = {
    "gaussian": NoiseModel("normal, 0.5 %", gaussian),
    "timer": NoiseModel("the same, on a timer of 1 us", gaussian, 1000.0, continuous=False),
    "spikes": NoiseModel("Pareto spikes in 1 % of the times", spikes),
    "walk": NoiseModel("common random walk, 0.3 % a night", walk),
    "autocorrelated": NoiseModel("autocorrelated, 0.8 from night to night", autocorrelated),
    "two modes": NoiseModel("two modes per operator", two_modes, continuous=False),
    "wild night": NoiseModel("one wild night, everything x 3", wild_night),
    "unequal nights": NoiseModel("nights that are unequally noisy", unequal_nights),
    "drift": NoiseModel("drift of each operator, up to 2 % in 100 nights", drift),
    "seasons": NoiseModel("common seasons, 1 %", seasons),
    "bare metal": NoiseModel("bare metal, a tick or two", bare_metal, 10.0, continuous=False),
    "busy host": NoiseModel("busy host", busy_host),
}
"""All kinds of noise, by name."""
