"""Compare rules for verdicts, on nights of known noise in which a rule may measure again.

    python -m benchmarks.verdict_study                       # everything; writes docs/verdicts.md
    python -m benchmarks.verdict_study --rules once again    # some rules; prints the tables
    python -m benchmarks.verdict_study --lives 2             # fewer nights; prints the tables

The rivals are compared with ``harness``, where nothing of the baseline is at hand, and with
``harness, pairs``, where its model is.

All rules see the same lives of boards (``verdict_noise.py``). In each, a rule first compares some
nights that do not count, then 30 quiet nights. From the same first nights on, it also compares
nights with a change: one operator slower by 5 %, by 10 % or twice as slow, and all of them slower
by 10 %.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import product, starmap
from typing import Final

import numpy as np
from scipy.special import betaincinv

from benchmarks.verdict_counts import Share, write_section
from benchmarks.verdict_noise import (
    BEFORE,
    KNOWN,
    NIGHTS,
    NOISES,
    OPERATORS,
    Life,
    Session,
    median_times,
)
from benchmarks.verdict_rules import RULES, Report, Rule
from harness.check.history.samples import Floats

LIVES: Final = 17
"""Lives per noise whose nights are compared without a change: 510 nights."""

CHANGED: Final = 17
"""Lives per noise in which something changes."""

CHANGES: Final[Mapping[str, float]] = {"5 %": 1.05, "10 %": 1.1, "x2": 2.0, "all 10 %": 1.1}
"""Factors of one operator, and of all of them."""

DURING: Final = 5
"""Nights after a change in which it may be found."""

LASTING: Final = ("lasting mode", "noisier", "unit swap")
"""Noises whose level or scatter changes for many nights: one alarm of each change is no mistake."""


MAIN: Final = (
    *("harness, pairs", "harness", "twice", "pairs, 10 %", "again, next night", "next night, 10 %"),
    *("once", "fixed", "welch", "asv", "otava"),
)
"""Rules that the tables by noise show, if all rules were compared."""


@dataclass(slots=True)
class Counts:
    """What a rule did under one noise.

    Attributes:
        alarms: Quiet nights in which it reported something.
        suspects: Other quiet nights in which it left something suspect.
        changes: Changes of level or scatter in these nights.
        repeats: Runs after the first in these nights.
        found: The first night after a change in which it was reported, from 1, or 99; by change.
        seconds: CPU time, with that for generating further runs.
        comparisons: Number of comparisons that took this time.
    """

    alarms: Share = field(default_factory=Share)
    suspects: int = 0
    changes: int = 0
    repeats: int = 0
    found: dict[str, list[int]] = field(default_factory=lambda: {name: [] for name in CHANGES})
    seconds: float = 0.0
    comparisons: int = 0

    def by_night(self, change: str, night: int) -> Share:
        """Return how often a change was found until a night, from 1."""
        found = self.found[change]
        return Share(sum(first <= night for first in found), len(found))

    def add_all(self, other: Counts) -> None:
        """Add the counts of further lives."""
        self.alarms.add_all(other.alarms)
        self.suspects += other.suspects
        self.changes += other.changes
        self.repeats += other.repeats
        self.seconds += other.seconds
        self.comparisons += other.comparisons
        for name, nights in other.found.items():
            self.found[name] += nights


class Player:
    """A rule that compares the nights of one life, one after the other.

    Args:
        life: The life.
        rule: The rule.
        counts: Counts its comparisons.
    """

    def __init__(self, life: Life, rule: Rule, counts: Counts) -> None:
        self._life, self._rule, self._counts = life, rule, counts
        self._first = [*life.history]
        self._kept = [*life.history]
        # Whether something was reported, left suspect, and gone in each night.
        self._found = [(False, False, False)] * KNOWN
        for _ in range(KNOWN, BEFORE):
            self.night()

    def with_change(self, factors: Floats) -> Iterator[Report]:
        """Yield the reports of nights with slower operators, and forget these nights."""
        saved = [*self._first], [*self._kept], [*self._found]
        for _ in range(DURING):
            yield self.night(factors)[0]
        self._first, self._kept, self._found = saved

    def night(self, slower: Floats | None = None) -> tuple[Report, int]:
        """Return the report of the next night, and its number of runs after the first."""
        reported, suspect, gone = np.array(self._found, np.bool_).T
        session = Session(self._life, np.array(self._first), reported, suspect, gone, slower)
        report = self._rule(np.array(self._kept), session)
        self._counts.comparisons += 1
        now = median_times(session.first)
        self._first.append(now)
        self._kept.append(now if report.kept is None else report.kept)
        self._found.append((report.any or report.suspect, report.suspect, report.gone))
        return report, session.repeats


def try_life(
    noise: str, rules: Mapping[str, Rule], seed: int, number: int, quiet: bool, changed: bool
) -> list[Counts]:
    """Return what each rule does in one life; the same each time it is called.

    Args:
        noise: A key of ``NOISES``.
        rules: The rules by name.
        seed: Seed of the study.
        number: Number of the life.
        quiet: Compare nights without a change.
        changed: Compare nights with each of the changes.
    """
    life = Life(noise, seed, number)
    for night in range(NIGHTS):
        life.times(night)  # drawn once for all rules, and not counted as time of the first
    return [_try_rule(life, rule, number, quiet, changed) for rule in rules.values()]


def _try_rule(life: Life, rule: Rule, number: int, quiet: bool, changed: bool) -> Counts:
    counts, began = Counts(), time.process_time()
    player = Player(life, rule, counts)
    for change, factor in CHANGES.items() if changed else ():
        of_all = change.startswith("all")
        operator = number % OPERATORS
        slower = np.ones(OPERATORS)
        slower[slice(None) if of_all else operator] = factor
        found = 99
        for night, report in enumerate(player.with_change(slower), 1):
            if found == 99 and (report.of_all if of_all else report.operators[operator]):
                found = night
        counts.found[change].append(found)
    if quiet:
        counts.changes = life.changes
        for _ in range(BEFORE, NIGHTS):
            report, repeats = player.night()
            counts.alarms.add(report.any)
            counts.suspects += report.suspect
            counts.repeats += repeats
    counts.seconds = time.process_time() - began
    return counts


Results = dict[tuple[str, str], Counts]
"""Counts by noise and rule."""

Cell = Callable[[Counts], str]
"""Text for the counts of one rule under one noise."""


def measure(
    noises: Sequence[str],
    rules: Mapping[str, Rule],
    seed: int,
    lives: int,
    changed: int,
    jobs: int,
) -> Results:
    """Return the counts of all these rules under all these noises."""
    numbers = range(max(lives, changed))
    results = {key: Counts() for key in product(noises, rules)}
    arguments = [
        (noise, rules, seed, number, number < lives, number < changed)
        for noise, number in product(noises, numbers)
    ]
    with ExitStack() as stack:
        found: Iterable[list[Counts]] = starmap(try_life, arguments)
        if jobs > 1:
            pool = stack.enter_context(ProcessPoolExecutor(jobs))
            found = pool.map(try_life, *zip(*arguments, strict=True), chunksize=4)
        for (noise, *_), counts in zip(arguments, found, strict=True):
            for rule, one in zip(rules, counts, strict=True):
                results[noise, rule].add_all(one)
    return results


def limit(share: Share, confidence: float = 0.95) -> float:
    """Return the upper confidence limit of a share (Clopper and Pearson 1934)."""
    if share.count == share.of:
        return 1.0
    above = share.of - share.count
    return float(betaincinv(share.count + 1, above, confidence))


def tables(results: Results) -> Iterator[str]:
    """Yield the lines of all tables."""
    noises = [*dict.fromkeys(noise for noise, _ in results)]
    rules = [*dict.fromkeys(rule for _, rule in results)]
    yield from ranking(results, noises, rules)
    if len(rules) == len(RULES):
        rules = [*MAIN]
    yield ""
    yield "Quiet nights with an alarm; where the level changes for long, alarms per change:"
    yield ""
    yield from by_noise(results, noises, rules, _alarms)
    changed = max(len(counts.found["x2"]) for counts in results.values())
    for change, night in (("5 %", 2), ("10 %", 2), ("x2", 1), ("all 10 %", 2)):
        what = "All operators slower by 10 %" if change.startswith("all") else f"One by {change}"
        yield ""
        yield f"{what}, found by night {night}, in per cent of {changed} changes:"
        yield ""
        yield from by_noise(results, noises, rules, _found(change, night))


def ranking(results: Results, noises: Sequence[str], rules: Sequence[str]) -> Iterator[str]:
    """Yield the lines of the table of rules, the one with the fewest alarms first."""
    heads = (
        *("rule", "quiet nights with an alarm", "suspect", "the worst noise, 95 % limit"),
        "noises over 1 %",
        *("alarms per change", "5 % by night 1, 2, 5", "10 %", "x2", "all 10 %"),
        *("further runs a night", "ms"),
    )
    yield "| " + " | ".join(heads) + " |"
    yield "|---" * len(heads) + "|"
    rows = [_rank(results, noises, rule) for rule in rules]
    for _, line in sorted(rows):
        yield line


def _rank(results: Results, noises: Sequence[str], rule: str) -> tuple[float, str]:
    steady = [results[noise, rule] for noise in noises if noise not in LASTING]
    lasting = [results[noise, rule] for noise in noises if noise in LASTING]
    total, everything = Counts(), Counts()
    for counts in steady:
        total.add_all(counts)
    for counts in (*steady, *lasting):
        everything.add_all(counts)
    worst = max((counts.alarms for counts in steady), key=_share, default=Share())
    over = sum(_share(counts.alarms) > 0.01 for counts in steady)
    each = [f"{counts.alarms.count / counts.changes:.2g}" for counts in lasting if counts.changes]
    found = [_nights(everything, change) for change in CHANGES]
    cells = [
        rule,
        f"{total.alarms.count} of {total.alarms.of}",
        f"{total.suspects / max(total.alarms.of, 1):.1%}",
        f"{_share(worst):.1%} (<= {limit(worst):.1%})",
        f"{over} of {len(steady)}",
        ", ".join(each),
        *found,
        f"{everything.repeats / max(everything.alarms.of, 1):.2f}",
        f"{1000 * everything.seconds / max(everything.comparisons, 1):.1f}",
    ]
    return _share(total.alarms), "| " + " | ".join(cells) + " |"


def _share(share: Share) -> float:
    return share.count / share.of if share.of else 0.0


def _nights(counts: Counts, change: str) -> str:
    shares = [_share(counts.by_night(change, night)) for night in (1, 2, DURING)]
    return ", ".join(f"{100 * share:.0f}" for share in shares) + " %"


def by_noise(
    results: Results, noises: Sequence[str], rules: Sequence[str], cell: Cell
) -> Iterator[str]:
    """Yield the lines of a table with a row for each noise and a column for each rule."""
    yield "| noise | " + " | ".join(rules) + " |"
    yield "|---" * (len(rules) + 1) + "|"
    for noise in noises:
        cells = [cell(results[noise, rule]) for rule in rules]
        yield f"| {NOISES[noise].title} | " + " | ".join(cells) + " |"


def _alarms(counts: Counts) -> str:
    if counts.changes:
        return f"{counts.alarms.count / counts.changes:.2g} each"
    if not counts.alarms.count:
        return "0"
    return f"{_share(counts.alarms):.1%}"


def _found(change: str, night: int) -> Cell:
    return lambda counts: f"{100 * _share(counts.by_night(change, night)):.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--lives", type=int, default=LIVES, help="lives of 30 nights per noise")
    parser.add_argument("--changed", type=int, default=CHANGED, help="lives with changes")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--noises", nargs="*", choices=[*NOISES], default=[*NOISES])
    parser.add_argument("--rules", nargs="*", choices=[*RULES], default=[*RULES])
    options = parser.parse_args()
    rules = {name: RULES[name] for name in options.rules}
    results = measure(
        options.noises, rules, options.seed, options.lives, options.changed, options.jobs
    )
    if results.keys() >= {*product(NOISES, MAIN)} and options.lives >= LIVES:
        write_section("benchmarks/verdict_study.py", tables(results))
    else:
        print("\n".join(tables(results)))


if __name__ == "__main__":
    main()
