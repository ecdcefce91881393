"""Measure what verdicts against history see, by generated nights of known noise.

    python -m benchmarks.verdict_stated              # all nights; writes docs/verdicts.md
    python -m benchmarks.verdict_stated --nights 10  # fewer nights; prints the table

Every trial is a history of nights, one run each, of another commit each, with 60 operators. The
last night is compared with the 20 before it. Every third trial it is compared twice more: with one
operator slower by the change that the comparison says it would have noticed, and with one slower by
3 %, if it says that it would have noticed that. Then five pairs of runs are compared, and every
third trial twice more, with one operator twice as slow, or slower by what they say they notice.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from benchmarks.series_noise import MODELS, OPERATORS, STATISTICS, NoiseModel
from benchmarks.verdict_counts import Share, alarms, found, provenance, write_section
from harness import (
    History,
    HistoryComparison,
    Measured,
    Metric,
    Provenance,
    Sample,
    Series,
    compare_with_history,
)
from harness.check.history.samples import Floats

NIGHTS: Final = 120
"""Trials per kind of noise."""

CHANGED_EVERY: Final = 3
"""Every so many trials something is slower, too."""

BASELINE: Final = 20
LONGEST: Final = 140
"""Nights of the longest history; the shortest has just a baseline."""

PAIRS: Final = 5
SMALL: Final = 0.03
"""A change that is to be found where the comparison says that it can."""

METRICS: Final = [
    Metric("operator", f"op{number}", statistic, "ns", "Execute", 0, number, clock="cycles")
    for statistic in STATISTICS
    for number in range(OPERATORS)
]

BEFORE: Final[Mapping[str, tuple[int, int]]] = {
    "gaussian": (1, 60),
    "timer": (19, 60),
    "spikes": (27, 56),
    "walk": (49, 58),
    "autocorrelated": (37, 60),
    "two modes": (56, 12),
    "wild night": (0, 55),
    "unequal nights": (16, 57),
    "drift": (2, 59),
    "seasons": (56, 59),
    "bare metal": (0, 60),
    "busy host": (39, 22),
}
"""Nights with false alarms, and operators found that were twice as slow in five pairs, of 60 each:
of the estimators of version 0.1.0, measured by the same generators."""


@dataclass(frozen=True)
class Nights:
    """A series of nights, one run of a commit of its own each.

    Attributes:
        model: Its noise.
        times: What the clock shows, ns, shape (nights, statistics, operators).
    """

    model: NoiseModel
    times: Floats

    @cached_property
    def history(self) -> History:
        """All nights but the last."""
        return _history([*map(_night, range(len(self.times) - 1))], self.times[:-1], BASELINE)

    def compare(self, slower: Mapping[int, float] | None = None) -> HistoryComparison:
        """Compare the last night with those before, with operators slower by these factors."""
        now = _night(len(self.times) - 1)
        measured = _measured(now, self.times[-1], self.model, slower)
        return compare_with_history(self.history, [measured])


def _night(number: int) -> Provenance:
    return _provenance(f"night {number}", f"c{number}", number)


def compare_pairs(
    model: NoiseModel, times: Floats, slower: Mapping[int, float] | None = None
) -> HistoryComparison:
    """Compare runs in pairs, one session each; ``times`` has two rows for each."""
    old, new = times[0::2], times[1::2]
    sessions = [f"night/{place}" for place in range(len(old))]
    before = [_provenance(session, "old", 2 * n) for n, session in enumerate(sessions)]
    after = [_provenance(session, "new", 2 * n + 1) for n, session in enumerate(sessions)]
    measured = [
        _measured(result, values, model, slower) for result, values in zip(after, new, strict=True)
    ]
    return compare_with_history(_history(before, old, len(old)), measured)


def _provenance(session: str, commit: str, hour: int) -> Provenance:
    started = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=hour)
    return provenance(session, commit, started.isoformat())


def _history(results: Sequence[Provenance], times: Floats, baseline: int) -> History:
    places = tuple(range(len(results)))
    columns = times.reshape(len(results), -1).T.tolist()
    return History(
        tuple(results),
        tuple(
            Series(metric, places, tuple(Sample(value, 20) for value in column))
            for metric, column in zip(METRICS, columns, strict=True)
        ),
        places[-baseline:],
        f"the last {baseline}",
    )


def _measured(
    result: Provenance, times: Floats, model: NoiseModel, slower: Mapping[int, float] | None
) -> Measured:
    shown = times.copy()
    for operator, factor in (slower or {}).items():
        shown[:, operator] = model.shown(times[:, operator] * factor)
    values = zip(METRICS, shown.ravel().tolist(), strict=True)
    samples = {metric: Sample(value, 20) for metric, value in values}
    known = msgspec.structs.replace(result, ticks={"cycles": model.tick_ns})
    return Measured(known, samples)


class Trial(msgspec.Struct, frozen=True):
    """What was seen in one trial; None where nothing could be asked.

    Attributes:
        alarms: What was reported of a night without a change.
        detectable: Stated detectable change of the median operator in that night.
        stated: Whether an operator was found that was slower by its stated detectable change.
        small: Whether one was found that was slower by 3 %, where that is stated to be detectable.
        pair_alarms: What was reported of five pairs without a change.
        doubled: Whether an operator was found that was twice as slow in five pairs.
        pair_stated: Whether one was found in five pairs that was slower by its stated detectable
            change.
    """

    alarms: tuple[str, ...]
    detectable: float | None
    stated: bool | None
    small: bool | None
    pair_alarms: tuple[str, ...]
    doubled: bool | None
    pair_stated: bool | None = None


@dataclass(slots=True)
class Counts:
    """What was seen under one kind of noise: the attributes of ``Trial``, counted."""

    alarms: Share = field(default_factory=Share)
    small: Share = field(default_factory=Share)
    stated: Share = field(default_factory=Share)
    pair_alarms: Share = field(default_factory=Share)
    doubled: Share = field(default_factory=Share)
    pair_stated: Share = field(default_factory=Share)
    detectable: list[float] = field(default_factory=list)

    def add(self, trial: Trial) -> None:
        """Count a trial."""
        self.alarms.add(bool(trial.alarms))
        self.pair_alarms.add(bool(trial.pair_alarms))
        self.detectable.append(np.inf if trial.detectable is None else trial.detectable)
        if trial.stated is not None:
            self.stated.add(trial.stated)
        if trial.small is not None:
            self.small.add(trial.small)
        if trial.doubled is not None:
            self.doubled.add(trial.doubled)
        if trial.pair_stated is not None:
            self.pair_stated.add(trial.pair_stated)

    def add_all(self, other: Counts) -> None:
        """Add the counts of further trials."""
        for name in ("alarms", "small", "stated", "pair_alarms", "doubled", "pair_stated"):
            getattr(self, name).add_all(getattr(other, name))
        self.detectable += other.detectable


def try_one(name: str, seed: int, number: int) -> Trial:
    """Return what is seen in one trial under a kind of noise; the same each time it is called."""
    model = MODELS[name]
    chance = np.random.default_rng([seed, sorted(MODELS).index(name), number])
    length = int(chance.integers(BASELINE + 1, LONGEST + 1))
    nights = Nights(model, model.times(chance, length))
    quiet = nights.compare()
    states = {
        number.metric.instruction: number.detectable
        for number in quiet.numbers
        if number.detectable is not None
    }
    stated = small = doubled = None
    changed = number % CHANGED_EVERY == 0
    if states and changed:
        operator = int(chance.choice([*states]))
        stated = found(nights.compare({operator: 1 + states[operator]}), operator)
    seen = [operator for operator, share in states.items() if share < SMALL]
    if seen and changed:
        operator = int(chance.choice(seen))
        small = found(nights.compare({operator: 1 + SMALL}), operator)
    times, operator = model.times(chance, 2 * PAIRS), int(chance.integers(OPERATORS))
    in_pairs, pair_stated = compare_pairs(model, times), None
    if changed:
        doubled = found(compare_pairs(model, times, {operator: 2.0}), operator)
        of_operator = [n for n in in_pairs.numbers if n.metric.instruction == operator]
        share = of_operator[0].detectable if of_operator else None
        if share is not None:
            slower = compare_pairs(model, times, {operator: 1 + share})
            pair_stated = found(slower, operator)
    return Trial(
        alarms=tuple(alarms(quiet)),
        detectable=quiet.detectable_median,
        stated=stated,
        small=small,
        pair_alarms=tuple(alarms(in_pairs)),
        doubled=doubled,
        pair_stated=pair_stated,
    )


def table(counts: Mapping[str, Counts]) -> Iterator[str]:
    """Yield the lines of the table."""
    yield "| noise | nights with an alarm | before | would notice | 3 % found | stated found |"
    yield "|---|---|---|---|---|---|"
    for name, one in counts.items():
        noticed = np.median(one.detectable)
        yield (
            f"| {MODELS[name].title} | {one.alarms} | {BEFORE[name][0]} of 60 | {noticed:.1%} "
            f"| {one.small} | {one.stated} |"
        )
    total = Counts()
    for one in counts.values():
        total.add_all(one)
    yield f"| all | {total.alarms} | | | {total.small} | {total.stated} |"
    yield ""
    yield f"With {PAIRS} pairs of runs and no other results:"
    yield ""
    yield "| noise | nights with an alarm | twice as slow found | before | stated found |"
    yield "|---|---|---|---|---|"
    for name, one in counts.items():
        before = f"{BEFORE[name][1]} of 60"
        yield (
            f"| {MODELS[name].title} | {one.pair_alarms} | {one.doubled} | {before} "
            f"| {one.pair_stated} |"
        )
    yield f"| all | {total.pair_alarms} | {total.doubled} | | {total.pair_stated} |"


def measure(
    names: Sequence[str], seed: int, nights: int, jobs: int, file: Path | None
) -> dict[str, Counts]:
    """Return the counts of all these kinds of noise, and print each alarm.

    The kinds of noise take turns, so that a study that is stopped has tried all of them. Trials
    that ``file`` has are not repeated, and new ones are added to it.
    """
    wanted = [(name, seed, number) for number in range(nights) for name in names]
    known = {} if file is None else read_trials(file)
    missing = [key for key in wanted if key not in known]
    counts = {name: Counts() for name in names}
    for key in wanted:
        if key in known:
            counts[key[0]].add(known[key])
    with ProcessPoolExecutor(jobs) as pool:
        trials = pool.map(try_one, *zip(*missing, strict=True)) if missing else []
        for key, trial in zip(missing, trials, strict=True):
            counts[key[0]].add(trial)
            if file is not None:
                with file.open("ab") as out:
                    out.write(msgspec.json.encode((key, trial)) + b"\n")
            for what, reported in (("night", trial.alarms), ("pairs", trial.pair_alarms)):
                for alarm in reported:
                    print(f"{key[0]}, trial {key[2]}, {what}: {alarm}", flush=True)
    return counts


def read_trials(file: Path) -> dict[tuple[str, int, int], Trial]:
    """Return the trials of a file, by noise, seed and number."""
    lines = file.read_bytes().splitlines() if file.exists() else []
    return dict(
        msgspec.json.decode(line, type=tuple[tuple[str, int, int], Trial]) for line in lines
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nights", type=int, default=NIGHTS, help="trials per noise")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--noise", nargs="*", choices=[*MODELS], default=[*MODELS])
    parser.add_argument("--trials", type=Path, help="file of trials, which the study continues")
    options = parser.parse_args()
    counts = measure(options.noise, options.seed, options.nights, options.jobs, options.trials)
    if options.nights < NIGHTS or len(options.noise) < len(MODELS):
        print("\n".join(table(counts)))
    else:
        write_section("benchmarks/verdict_stated.py", table(counts))


if __name__ == "__main__":
    main()
