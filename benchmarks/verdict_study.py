"""Measure what verdicts against history see, by generated sessions of known noise.

python -m benchmarks.verdict_study              # all, in docs/verdicts.md
python -m benchmarks.verdict_study --nights 10  # a sample, printed
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

import numpy as np

from benchmarks.verdict_noise import LEVELS, MODELS, OPERATORS, STATISTICS, NoiseModel
from harness.check.history.compare import compare_with_history
from harness.check.history.comparison import Compared, HistoryComparison
from harness.check.history.samples import (
    Floats,
    History,
    Measured,
    Metric,
    Provenance,
    Sample,
    Series,
)

BASELINE = 20
METRICS = [
    Metric("operator", f"op{number}", statistic, "ns", "Execute", 0, number, clock="cycles")
    for statistic in STATISTICS
    for number in range(OPERATORS)
]


def provenance(session: str, commit: str, night: int) -> Provenance:
    return Provenance(
        id=f"{session} {commit}",
        started_utc=f"{2026 + night // 336}-{1 + night // 28 % 12:02}-{1 + night % 28:02}T01:00:00+00:00",
        board="board",
        unit="unit",
        model="net.pte",
        model_sha256="",
        method="forward",
        build_id="",
        tool_version="",
        commit=commit,
        session=session,
    )


@dataclass
class Course:
    """Sessions of one run each, one a night, each of its own commit."""

    model: NoiseModel
    times: Floats

    def judge(self, night: int, slower: Mapping[int, float] | None = None) -> HistoryComparison:
        """Compare ``night`` with the nights before it, with some operators made slower."""
        results = [provenance(f"n{n}", f"c{n}", n) for n in range(night + 1)]
        flat = self.times[: night + 1].reshape(night + 1, -1).copy()
        flat[night] = _slowed(flat[night], slower, self.model)
        history = History(
            tuple(results[:night]),
            tuple(
                Series(m, tuple(range(night)), tuple(Sample(v, 20) for v in column))
                for m, column in zip(METRICS, flat[:night].T.tolist(), strict=True)
            ),
            tuple(range(max(0, night - BASELINE), night)),
            f"the last {BASELINE}",
        )
        return compare_with_history(history, [_measured(results[night], flat[night], self.model)])


def _slowed(values: Floats, slower: Mapping[int, float] | None, model: NoiseModel) -> Floats:
    values = values.reshape(len(STATISTICS), OPERATORS).copy()
    for operator, factor in (slower or {}).items():
        values[:, operator] *= factor
    return np.asarray(np.round(values / model.tick_ns) * model.tick_ns).reshape(-1)


def _measured(result: Provenance, values: Floats, model: NoiseModel) -> Measured:
    samples = {m: Sample(v, 20) for m, v in zip(METRICS, values.tolist(), strict=True)}
    return Measured(result, samples, {"cycles": model.tick_ns})


def paired(
    model: NoiseModel, times: Floats, slower: Mapping[int, float] | None = None
) -> HistoryComparison:
    """Compare runs in pairs, one session each; ``times`` has two rows for each."""
    results, series, now = [], [], []
    pairs = times.reshape(len(times) // 2, 2, -1)
    for place, (old, new) in enumerate(pairs):
        results.append(provenance(f"night/{place}", "old", 0))
        series.append(old)
        now.append(
            _measured(provenance(f"night/{place}", "new", 0), _slowed(new, slower, model), model)
        )
    places = tuple(range(len(results)))
    history = History(
        tuple(results),
        tuple(
            Series(m, places, tuple(Sample(v, 20) for v in column))
            for m, column in zip(METRICS, np.array(series).T.tolist(), strict=True)
        ),
        places,
        "commit old",
    )
    return compare_with_history(history, now)


def alarms(comparison: HistoryComparison, but: int = -1) -> list[Compared]:
    """Return the numbers that are reported as changed or with a step."""
    return [
        number
        for number in comparison.numbers
        if (number.judgement in ("regression", "improvement") or number.steps)
        and number.metric.instruction != but
    ]


def found(comparison: HistoryComparison, operator: int) -> bool:
    """Return whether an operator is reported as slower."""
    return any(
        n.metric.instruction == operator and n.judgement == "regression" for n in comparison.numbers
    )


@dataclass
class Counts:
    nights: int = 0
    alarmed: int = 0
    steps: int = 0
    common: int = 0
    median: list[float] = field(default_factory=list)
    small: int = 0
    small_found: int = 0
    honest: int = 0
    honest_found: int = 0
    pairs: int = 0
    paired_alarms: int = 0
    doubled: int = 0


def study(name: str, seed: int, nights: int) -> Counts:
    model = MODELS[name]
    chance = np.random.default_rng([seed, sorted(MODELS).index(name)])
    counts = Counts()
    for trial in range(nights):
        length = int(chance.integers(BASELINE + 1, 140))
        course = Course(model, model.times(chance, length))
        quiet = course.judge(length - 1)
        counts.nights += 1
        found_alarms = alarms(quiet)
        common = any(c.judgement not in ("same", "too little") for c in quiet.common)
        counts.alarmed += bool(found_alarms) or common
        counts.common += common
        counts.steps += any(n.steps for n in found_alarms)
        counts.median.append(quiet.detectable_median)
        stated = {n.metric.instruction: n.detectable for n in quiet.numbers}
        operator = int(chance.integers(OPERATORS))
        if stated[operator] is not None:
            counts.honest += 1
            counts.honest_found += found(
                course.judge(length - 1, {operator: 1 + stated[operator]}), operator
            )
        small = [o for o, s in stated.items() if s is not None and s < 0.03]
        if small:
            operator = int(chance.choice(small))
            counts.small += 1
            counts.small_found += found(course.judge(length - 1, {operator: 1.03}), operator)
        operator = int(chance.integers(OPERATORS))
        times = model.times(chance, 10)
        counts.pairs += 1
        counts.paired_alarms += bool(alarms(paired(model, times)))
        counts.doubled += found(paired(model, times, {operator: 2.0}), operator)
    return counts


def text(name, c):
    return f"{name:16} alarm {c.alarmed}/{c.nights} (steps {c.steps} common {c.common}) med {np.median([x if x is not None else np.inf for x in c.median]):.3f} small {c.small_found}/{c.small} honest {c.honest_found}/{c.honest} ({c.honest_found / max(c.honest, 1):.0%}) pairs alarm {c.paired_alarms} 2x {c.doubled}/{c.pairs}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--nights", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--noise", nargs="*", default=list(MODELS))
    arguments = parser.parse_args()
    with ProcessPoolExecutor(2) as pool:
        jobs = [
            pool.submit(study, name, arguments.seed, arguments.nights) for name in arguments.noise
        ]
        for name, job in zip(arguments.noise, jobs, strict=True):
            print(text(name, job.result()), flush=True)


if __name__ == "__main__":
    main()
