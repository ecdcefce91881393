"""Noises of boards and machines for the study of verdicts, session by session.

A *life* is one board with one model under one noise. Each night has one session: the first run of
that night's commit, and as many further runs, of this or of an earlier commit, as a rule asks for.
Whatever disturbs a session acts on its clock, so a run minutes later, or one of other firmware,
meets the same burst, throttled clock or mode where the cause would still be there.

Every noise is a row of ``NOISES``: its cause, how much the times scatter, and effects with their
parameters. A run is drawn from the life's seed, the night and the number of the run in the session,
so all rules see the same data.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from harness.check.history.samples import Floats

Flags = npt.NDArray[np.bool_]

OPERATORS: Final = 25
EXECUTIONS: Final = 20
"""Executions per run."""

KNOWN: Final = 20
"""Nights of a life with one run each, which every rule gets as its history."""

BEFORE: Final = 60
"""Nights of a life before the first one that counts; a rule compares the last 40 of them, too,
so that its history is one that it has made."""

NIGHTS: Final = 90
"""Nights of a life."""

LEVELS: Final = np.random.default_rng(0).permutation(np.geomspace(4e3, 6e5, OPERATORS))
"""True times of the operators, ns."""

MEMORY_BOUND: Final = np.arange(OPERATORS) % 3 == 0
"""Operators whose time depends on the memory more than on the clock of the core."""

_SESSION, _RUN, _EXECUTION = 0.45, 0.25, 2.0
"""Variance of sessions and of runs as shares of the variance of a run's median, and the standard
deviation of an execution as a multiple of the run's: the median of 20 has the remaining 30 %."""


@dataclass(frozen=True, slots=True)
class Scatter:
    """How the times of operators scatter around their level.

    Attributes:
        spread: Standard deviation of the median time of a run, as a share; operators differ.
        tails: Degrees of freedom of Student's t, scaled to the quartiles of the normal
            distribution.
        correlation: Correlation of an operator's deviations in successive nights.
        common: Standard deviation of a factor of all operators in a session, as a share.
    """

    spread: float = 0.005
    tails: float = math.inf
    correlation: float = 0.0
    common: float = 0.003

    def draw(self, chance: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        """Return deviations of scale 1."""
        if math.isinf(self.tails):
            return chance.standard_normal(shape)
        scale = 0.6745 / float(stdtrit(self.tails, 0.75))
        return np.asarray(scale * chance.standard_t(self.tails, shape))


class Effect:
    """Something that disturbs a board. Each method returns factors of the operators' times."""

    def nights(self, chance: np.random.Generator) -> Floats:
        """Return the board's factors for each night, shape (nights, operators) or (nights, 1)."""
        return np.ones((NIGHTS, 1))

    def builds(self, chance: np.random.Generator) -> Floats:
        """Return the factors for the firmware of each night, shaped like those of ``nights``."""
        return np.ones((NIGHTS, 1))

    def scatter(self, chance: np.random.Generator) -> Floats:
        """Return factors of the scatter for each night, shape (nights, operators or 1)."""
        return np.ones((NIGHTS, 1))

    def during(self, session: np.random.Generator, times: Floats) -> Floats | float:
        """Return factors for executions at these times since the session began.

        ``session`` draws the same numbers for all runs of a session. Times are in durations of a
        run, shape (executions,); factors have the shape (executions, operators or 1).
        """
        return 1.0

    def run(self, chance: np.random.Generator) -> Floats | float:
        """Return factors for one run, shape (executions or 1, operators or 1)."""
        return 1.0

    def changes(self, chance: np.random.Generator) -> Floats:
        """Return the nights in which the level or the scatter changed for a while."""
        return np.empty(0)


@dataclass(frozen=True, slots=True)
class Burst(Effect):
    """Another program on the host, for some minutes of some nights, from the first run on."""

    share: float = 0.1
    runs: float = 3.0
    slower: float = 0.15

    def during(self, session: np.random.Generator, times: Floats) -> Floats | float:
        hit, begin, length = session.random(), session.uniform(-1.0, 0.5), session.exponential()
        slower = session.exponential(self.slower, OPERATORS)
        jitter = session.uniform(0.5, 1.5, (EXECUTIONS, OPERATORS))
        end = max(0.5, begin + self.runs * length)
        inside = (hit < self.share) & (times >= begin) & (times < end)
        return np.asarray(1 + inside[:, None] * slower * jitter)


@dataclass(frozen=True, slots=True)
class Throttling(Effect):
    """A chip that becomes hot in a share of the runs, and stays throttled until the session ends.

    The memory has a clock of its own, so operators slow down by different factors.
    """

    share: float = 0.25
    core: float = 1.25
    memory: float = 1.05

    def during(self, session: np.random.Generator, times: Floats) -> Floats | float:
        begin = session.exponential(-1 / math.log(1 - self.share))
        slow = np.where(MEMORY_BOUND, self.memory, self.core)
        return np.where((times >= begin)[:, None], slow, 1.0)


def _gaps(chance: np.random.Generator, low: float, high: float) -> Floats:
    """Return how far the upper level of each operator is above its lower one; 40 % have two."""
    gaps = chance.uniform(low, high, OPERATORS)
    return np.asarray(np.where(chance.random(OPERATORS) < 0.4, gaps, 0.0))


@dataclass(frozen=True, slots=True)
class LastingMode(Effect):
    """A state of the board, such as how its memory was trained, that lasts for several nights."""

    flip: float = 0.15
    low: float = 0.03
    high: float = 0.12

    def _upper(self, chance: np.random.Generator) -> Floats:
        return np.asarray(np.cumsum(chance.random(NIGHTS) < self.flip) % 2, np.float64)

    def nights(self, chance: np.random.Generator) -> Floats:
        upper = self._upper(chance)
        return 1 + upper[:, None] * _gaps(chance, self.low, self.high)

    def changes(self, chance: np.random.Generator) -> Floats:
        return np.asarray(1.0 + np.flatnonzero(np.diff(self._upper(chance))), np.float64)


@dataclass(frozen=True, slots=True)
class BuildModes(Effect):
    """Alignment of code to cache lines: 40 % of the operators have two levels, by commit."""

    low: float = 0.03
    high: float = 0.12

    def builds(self, chance: np.random.Generator) -> Floats:
        weights = chance.uniform(0.2, 0.5, OPERATORS)
        upper = chance.random((NIGHTS, OPERATORS)) < weights
        return 1 + upper * _gaps(chance, self.low, self.high)


@dataclass(frozen=True, slots=True)
class RunModes(Effect):
    """Placement of buffers in the memory: 40 % of the operators have two levels, by run."""

    low: float = 0.03
    high: float = 0.12

    def run(self, chance: np.random.Generator) -> Floats | float:
        # The operators with two levels, and their gaps, are those of every life.
        gaps = _gaps(np.random.default_rng(1), self.low, self.high)
        return np.asarray(1 + (chance.random((1, OPERATORS)) < 0.4) * gaps)


@dataclass(frozen=True, slots=True)
class ExecutionSpikes(Effect):
    """Interrupts: single executions of an operator take longer, with a Pareto tail."""

    share: float = 0.03
    slower: float = 0.1
    tail: float = 1.5

    def run(self, chance: np.random.Generator) -> Floats | float:
        shape = EXECUTIONS, OPERATORS
        hit = chance.random(shape) < self.share
        return np.asarray(1 + hit * self.slower * (1 + chance.pareto(self.tail, shape)))


@dataclass(frozen=True, slots=True)
class OperatorSpikes(Effect):
    """A page that is shared for a run: an operator is slower, with a Pareto tail."""

    share: float = 0.01
    slower: float = 0.03
    tail: float = 1.5

    def run(self, chance: np.random.Generator) -> Floats | float:
        shape = 1, OPERATORS
        hit = chance.random(shape) < self.share
        return np.asarray(1 + hit * self.slower * (1 + chance.pareto(self.tail, shape)))


@dataclass(frozen=True, slots=True)
class Walk(Effect):
    """A rate of the machine that walks from night to night, with all operators."""

    step: float = 0.003

    def nights(self, chance: np.random.Generator) -> Floats:
        return np.exp(np.cumsum(self.step * chance.standard_normal((NIGHTS, 1)), axis=0))


@dataclass(frozen=True, slots=True)
class Drift(Effect):
    """Flash or memory that ages: every operator has its own slope."""

    in_100_nights: float = 0.02

    def nights(self, chance: np.random.Generator) -> Floats:
        slopes = chance.uniform(-self.in_100_nights, self.in_100_nights, OPERATORS) / 100
        return 1 + np.outer(np.arange(NIGHTS), slopes)


@dataclass(frozen=True, slots=True)
class NoisierFrom(Effect):
    """A board that scatters more from some night on, such as after a move to another rack."""

    factor: float = 3.0

    def _first(self, chance: np.random.Generator) -> int:
        return int(chance.integers(BEFORE, NIGHTS - 10))

    def scatter(self, chance: np.random.Generator) -> Floats:
        return np.where(np.arange(NIGHTS)[:, None] >= self._first(chance), self.factor, 1.0)

    def changes(self, chance: np.random.Generator) -> Floats:
        return np.array([self._first(chance)])


@dataclass(frozen=True, slots=True)
class WildNights(Effect):
    """Nights of a maintenance job: all operators scatter many times as much."""

    share: float = 0.1
    factor: float = 10.0

    def scatter(self, chance: np.random.Generator) -> Floats:
        return np.where(chance.random((NIGHTS, 1)) < self.share, self.factor, 1.0)


@dataclass(frozen=True, slots=True)
class UnequalNights(Effect):
    """Load of a shared machine: the scatter of a night is lognormal."""

    sigma: float = 0.6

    def scatter(self, chance: np.random.Generator) -> Floats:
        return np.exp(self.sigma * chance.standard_normal((NIGHTS, 1)))


@dataclass(frozen=True, slots=True)
class Temperature(Effect):
    """An unheated room and an RC oscillator: weather, days, and a board that warms up."""

    weather: float = 0.01
    day: float = 0.002
    warming: float = 0.005

    def nights(self, chance: np.random.Generator) -> Floats:
        nights = np.arange(NIGHTS) + chance.uniform(0, 30)
        rate = self.weather * np.sin(nights * 2 * np.pi / 30)
        return np.asarray(1 + rate + self.day * chance.standard_normal(NIGHTS))[:, None]

    def during(self, session: np.random.Generator, times: Floats) -> Floats | float:
        return np.asarray(1 - self.warming * np.exp(-times))[:, None]


@dataclass(frozen=True, slots=True)
class Week(Effect):
    """A machine that is idle on weekends, its memory more so."""

    core: float = 0.98
    memory: float = 0.95

    def nights(self, chance: np.random.Generator) -> Floats:
        weekend = (np.arange(NIGHTS) + chance.integers(7)) % 7 >= 5
        return np.where(weekend[:, None], np.where(MEMORY_BOUND, self.memory, self.core), 1.0)


@dataclass(frozen=True, slots=True)
class NoisyOperator(Effect):
    """One operator, such as one that waits for a peripheral, that scatters far more."""

    factor: float = 20.0

    def scatter(self, chance: np.random.Generator) -> Floats:
        factors = np.ones((NIGHTS, OPERATORS))
        factors[:, chance.integers(OPERATORS)] = self.factor
        return factors


@dataclass(frozen=True, slots=True)
class MemoryLoad(Effect):
    """Load of the memory by others: the memory-bound operators vary together."""

    night: float = 0.02
    in_run: float = 0.005

    def nights(self, chance: np.random.Generator) -> Floats:
        return np.exp(np.outer(self.night * chance.standard_normal(NIGHTS), MEMORY_BOUND))

    def run(self, chance: np.random.Generator) -> Floats | float:
        return np.asarray(np.exp(self.in_run * chance.standard_normal() * MEMORY_BOUND))[None, :]


@dataclass(frozen=True, slots=True)
class UnitSwap(Effect):
    """Another board under the same name: other oscillator, other wait states."""

    common: float = 0.01
    operators: float = 0.03

    def _first(self, chance: np.random.Generator) -> int:
        return int(chance.integers(BEFORE, NIGHTS - 10))

    def nights(self, chance: np.random.Generator) -> Floats:
        swapped = np.arange(NIGHTS) >= self._first(chance)
        unit = self.common * chance.choice((-1, 1))
        factors = np.exp(unit + self.operators * chance.standard_normal(OPERATORS))
        return np.where(swapped[:, None], factors, 1.0)

    def changes(self, chance: np.random.Generator) -> Floats:
        return np.array([self._first(chance)])


@dataclass(frozen=True, slots=True)
class CommitsMove(Effect):
    """Compiled code of three operators that differs a little in every commit."""

    share: float = 0.01

    def builds(self, chance: np.random.Generator) -> Floats:
        moved = np.isin(np.arange(OPERATORS), chance.choice(OPERATORS, 3, replace=False))
        upper = chance.random((NIGHTS, OPERATORS)) < 0.5
        return np.asarray(1 + self.share * (moved & upper), np.float64)


@dataclass(frozen=True, slots=True)
class BusyDays(Effect):
    """Load that slows everything in a session, more on some nights."""

    slower: float = 0.03

    def nights(self, chance: np.random.Generator) -> Floats:
        return 1 + self.slower * np.abs(chance.standard_normal((NIGHTS, 1)))


@dataclass(frozen=True, slots=True)
class Noise:
    """A kind of noise.

    Attributes:
        title: Its row in the tables.
        effects: What disturbs the board.
        scatter: How times scatter around their level.
        tick_ns: Nanoseconds per tick of the clock.
        exact: The clock counts the steps of an emulator, and the harness knows that.
    """

    title: str
    effects: tuple[Effect, ...] = ()
    scatter: Scatter = Scatter()
    tick_ns: float = 1.0
    exact: bool = False


NOISES: Final[Mapping[str, Noise]] = {
    "normal": Noise("normal, 0.5 %"),
    "timer": Noise("normal on a timer of 1 us (operators from 4 ticks)", tick_ns=1000.0),
    "exact": Noise(
        "exact clock; three operators move by 1 % from commit to commit",
        (CommitsMove(),),
        Scatter(spread=0.0, common=0.0),
        exact=True,
    ),
    "t3": Noise("heavy tails, t with 3 degrees", scatter=Scatter(tails=3.0)),
    "t2": Noise("heavy tails, t with 2 degrees", scatter=Scatter(tails=2.0)),
    "execution spikes": Noise("spikes in 3 % of the executions", (ExecutionSpikes(),)),
    "operator spikes": Noise("spikes of 1 % of the operators, for a run", (OperatorSpikes(),)),
    "burst": Noise("bursts of the host, minutes of every tenth night", (Burst(),)),
    "throttling": Noise("throttling, from a quarter of the runs on", (Throttling(),)),
    "lasting mode": Noise("modes of the board that last (0.15 a night)", (LastingMode(),)),
    "build modes": Noise("two levels, by commit (alignment)", (BuildModes(),)),
    "run modes": Noise("two levels, by run (placement)", (RunModes(),)),
    "walk": Noise("common random walk, 0.3 % a night", (Walk(),)),
    "drift": Noise("drift of operators, up to 2 % in 100 nights", (Drift(),)),
    "correlated": Noise("correlated nights, 0.8", scatter=Scatter(correlation=0.8)),
    "noisier": Noise("three times the scatter from some night on", (NoisierFrom(),)),
    "wild nights": Noise("ten times the scatter in every tenth night", (WildNights(),)),
    "unequal nights": Noise("unequal nights, lognormal 0.6", (UnequalNights(),)),
    "temperature": Noise("temperature: 1 %, and 0.5 % of warming up", (Temperature(),)),
    "week": Noise("weekends, 2 % and 5 % quicker", (Week(),)),
    "noisy operator": Noise("one operator with 20 times the scatter", (NoisyOperator(),)),
    "memory": Noise("memory-bound operators vary together by 2 %", (MemoryLoad(),)),
    "unit swap": Noise("another unit under the same name, 3 %", (UnitSwap(),)),
    "busy host": Noise(
        "busy host: t3, 1.5 %, unequal nights, load, walk",
        (UnequalNights(0.4), BusyDays(), Walk(0.002)),
        Scatter(spread=0.015, tails=3.0),
    ),
}
"""All kinds of noise, by name."""


class Life:
    """One board with one model, for ``NIGHTS`` nights under one noise.

    Args:
        name: A key of ``NOISES``.
        seed: Seed of the study.
        number: Number of the life.
    """

    def __init__(self, name: str, seed: int, number: int) -> None:
        self.noise = NOISES[name]
        self._key = [seed, sorted(NOISES).index(name), number]
        self._drawn: dict[tuple[int, int, float, int], Floats] = {}
        scatter, chance = self.noise.scatter, self._chance(0)
        differ = np.exp(0.4 * chance.standard_normal(OPERATORS))
        self._spread = np.full((NIGHTS, OPERATORS), scatter.spread * differ)
        self._board = np.exp(scatter.common * chance.standard_normal((NIGHTS, 1)))
        self._build = np.ones((NIGHTS, 1))
        deviations = scatter.draw(chance, (NIGHTS, OPERATORS))
        for night in range(1, NIGHTS):
            deviations[night] *= math.sqrt(1 - scatter.correlation**2)
            deviations[night] += scatter.correlation * deviations[night - 1]
        for number, effect in enumerate(self.noise.effects):
            # Every method of an effect draws the same numbers, so that they agree on what happens.
            self._board = self._board * effect.nights(self._chance(1, number))
            self._build = self._build * effect.builds(self._chance(1, number))
            self._spread = self._spread * effect.scatter(self._chance(1, number))
        self._board = self._board * np.exp(math.sqrt(_SESSION) * self._spread * deviations)

    def _chance(self, *key: int) -> np.random.Generator:
        return np.random.default_rng([*self._key, *key])

    @cached_property
    def changes(self) -> int:
        """Number of changes of level or scatter in the nights that are compared."""
        effects = enumerate(self.noise.effects)
        nights = [effect.changes(self._chance(1, number)) for number, effect in effects]
        return sum(int(np.sum(found >= BEFORE)) for found in nights)

    @cached_property
    def history(self) -> Floats:
        """Median times of the run of each of the first nights, in ns, shape (KNOWN, operators)."""
        return np.array([median_times(self.times(night)) for night in range(KNOWN)])

    def times(
        self,
        night: int,
        run: int = 0,
        begin: float = 0.0,
        age: int = 0,
        slower: Floats | None = None,
    ) -> Floats:
        """Return the times of one run in ns, as the clock shows them.

        Args:
            night: The night.
            run: Number of the run in the session.
            begin: When it begins, in durations of a run since the session began.
            age: The firmware is that of so many nights ago.
            slower: Factors by which that firmware is slower.

        Returns:
            Times, shape (executions, operators).
        """
        key = night, run, begin, age
        drawn = self._drawn.get(key)
        if drawn is None:
            drawn = self._drawn[key] = self._draw(night, run, begin, age)
        times = drawn * (1.0 if slower is None else slower)
        return np.asarray(np.round(times / self.noise.tick_ns) * self.noise.tick_ns)

    def _draw(self, night: int, run: int, begin: float, age: int) -> Floats:
        chance, scatter = self._chance(2, night, run), self.noise.scatter
        own = math.sqrt(_RUN) * scatter.draw(chance, (1, OPERATORS))
        own = own + _EXECUTION * chance.standard_normal((EXECUTIONS, OPERATORS))
        common = scatter.common / 3 * chance.standard_normal()
        factors = np.exp(self._spread[night] * own + common)
        factors *= self._board[night] * self._build[night - age]
        moments = begin + np.arange(EXECUTIONS) / EXECUTIONS
        for number, effect in enumerate(self.noise.effects):
            if type(effect).during is not Effect.during:
                factors = factors * effect.during(self._chance(3, night, number), moments)
            factors = factors * effect.run(chance)
        return np.asarray(LEVELS * factors)


class Session:
    """One night of a life: its first run, and more if a rule asks for them.

    Args:
        life: The life.
        earlier: Median times of the first run of each night before, shape (nights, operators).
        reported: Whether the rule reported anything in each of them, shape (nights,).
        suspect: Whether that was left undecided, shape (nights,).
        gone: Whether something was suspect in each of them, and was not any more, shape (nights,).
        slower: Factors by which this night's firmware is slower, shape (operators,).
        changed: First night of that change.

    Attributes:
        earlier, reported, suspect, gone: As above.
        first: Times of the first run, shape (executions, operators).
        previous: Times of the first run of the night before, likewise.
        repeats: Number of runs after the first.
        waited: Durations of a run that were waited in between.
    """

    def __init__(
        self,
        life: Life,
        earlier: Floats,
        reported: Flags,
        suspect: Flags,
        gone: Flags,
        slower: Floats | None = None,
        changed: int = BEFORE,
    ) -> None:
        self._life, self.earlier = life, earlier
        self.reported, self.suspect, self.gone = reported, suspect, gone
        self._slower, self._changed = slower, changed
        self.night = night = len(earlier)
        self.first = life.times(night, slower=self._of(night))
        self.repeats, self.waited = 0, 0.0

    @cached_property
    def previous(self) -> Floats:
        return self._life.times(self.night - 1, slower=self._of(self.night - 1))

    def _of(self, night: int) -> Floats | None:
        return self._slower if night >= self._changed else None

    @property
    def tick_ns(self) -> float:
        """Nanoseconds per tick of the clock."""
        return self._life.noise.tick_ns

    @property
    def exact(self) -> bool:
        """Whether the clock is known to be exact."""
        return self._life.noise.exact

    def measure(self, age: int = 0, wait: float = 0.0, build: int | None = None) -> Floats:
        """Run again, now or after a while, the code of tonight or of ``age`` nights ago.

        Args:
            age: Nights ago.
            wait: Durations of a run to wait.
            build: Age of the build, which aligns the code, if that is another one.

        Returns:
            Times, shape (executions, operators).
        """
        self.repeats += 1
        self.waited += wait
        begin = self.repeats + self.waited
        slower = self._of(self.night - age)
        build = age if build is None else build
        return self._life.times(self.night, self.repeats, begin, build, slower)


def median_times(times: Floats) -> Floats:
    """Return the median time of each operator, shape (operators,)."""
    return np.asarray(np.median(times, axis=0))
