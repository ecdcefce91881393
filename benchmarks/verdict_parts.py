"""Show what each part of the comparison with history buys: the study without it.

    python -m benchmarks.verdict_parts             # everything; writes docs/verdicts.md
    python -m benchmarks.verdict_parts --lives 2   # fewer nights; prints the table

A part is taken away by replacing one function of ``harness.check.history`` with one that does
nothing. The lives, nights and changes are those of ``verdict_study.py``, with the baseline's model
at hand.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final
from unittest import mock

import numpy as np

from benchmarks.verdict_counts import write_section
from benchmarks.verdict_noise import NOISES, Session
from benchmarks.verdict_rules import RULES, Harness, Report
from benchmarks.verdict_study import Results, measure, ranking
from harness.check.history.samples import Floats

LIVES: Final = 2
"""Lives per noise: 60 quiet nights, and as many changes of each kind as lives."""

KINDS: Final = (
    *("normal", "t3", "operator spikes", "throttling", "burst", "run modes", "build modes"),
    "wild nights",
)
"""Noises of different kinds, one of each: 15 minutes of CPU time."""

WHOLE: Final = "harness, pairs"
"""The rule with all of its parts."""


def _own(spread: float, freedom: float, _typical: float) -> tuple[float, float]:
    return spread, freedom


def _all_residuals(residuals: Floats, usual: float, _spikes: object) -> float:
    return max(float(residuals.std(ddof=1)), usual)


def _usual_only(_residuals: Floats, usual: float, _spikes: object) -> float:
    return usual


def _one_level(values: Floats) -> Floats:
    return np.full(len(values), np.median(values))


def _nothing(*_: object, **__: object) -> None:
    return None


def _empty(*_: object, **__: object) -> tuple[()]:
    return ()


def _none_of(*_: object, **__: object) -> set[object]:
    return set()


_AT: Final = "harness.check.history."

PARTS: Final[Mapping[str, Mapping[str, object]]] = {
    "the common factor": {
        "compare.common_factors": _nothing,
        "pairs.POOLED": 1 << 30,
    },
    "the median operator's spread": {"noise.moderated": _own},
    "the median operator's error in pairs": {"estimate.moderated": _own},
    "winsorised spikes": {"noise._spread": _all_residuals},
    "the standard deviation beside the robust one": {"noise._spread": _usual_only},
    "steps that are no noise": {"noise._levels": _one_level},
    "40 sessions of noise instead of 20": {"noise._WINDOW": 20},
    "two modes": {"compare.modes_of": _empty},
    "gross changes": {
        "compare._gross_metrics": _none_of,
        "compare._gross_clocks": _none_of,
    },
    "the lenient first look": {
        "noise.SessionNoise.lenient": property(lambda noise: noise),
    },
}
"""What replaces a part, by place in ``harness.check.history``."""


@dataclass(frozen=True, slots=True)
class Without:
    """The rule of the harness without a part."""

    part: str

    def __call__(self, history: Floats, session: Session) -> Report:
        """Return what is reported of tonight."""
        with ExitStack() as stack:
            for place, replacement in PARTS[self.part].items():
                stack.enter_context(mock.patch(_AT + place, replacement))
            return Harness(pairs=True)(history, session)


def rules() -> dict[str, Callable[[Floats, Session], Report]]:
    """Return the rules of the table: the whole one, and without each of its parts."""
    return {WHOLE: RULES[WHOLE], **{f"without {part}": Without(part) for part in PARTS}}


def table(results: Results, noises: Sequence[str]) -> Iterator[str]:
    """Yield the lines of the table, the whole rule first."""
    heading, line, *rows = ranking(results, noises, [*rules()])
    yield from (heading, line)
    yield from sorted(rows, key=lambda row: not row.startswith(f"| {WHOLE}"))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--lives", type=int, default=LIVES, help="lives of 30 nights per noise")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--noises", nargs="*", choices=[*NOISES], default=[*KINDS])
    options = parser.parse_args()
    results = measure(
        options.noises, rules(), options.seed, options.lives, options.lives, options.jobs
    )
    lines = table(results, options.noises)
    if options.lives >= LIVES and {*options.noises} >= {*KINDS}:
        write_section("benchmarks/verdict_parts.py", lines)
    else:
        print("\n".join(lines))


if __name__ == "__main__":
    main()
