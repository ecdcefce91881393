"""Measure how often verdicts against history are right, and write it into docs/verdicts.md.

    python -m benchmarks.verdict_pool POOL.jsonl --sessions 300
    python -m benchmarks.verdicts POOL.jsonl

Nights are drawn from a pool of sessions that were really run (``benchmarks/verdict_pool.py``), each
session whole: the runs that are compared were made next to each other. The simulated board with a
deterministic clock is run here.
"""

from __future__ import annotations

import argparse
import os
import platform
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import chain
from pathlib import Path

import numpy as np
from msgspec.structs import replace

from benchmarks.verdict_counts import Share, alarms, found, is_operator, provenance, write_section
from benchmarks.verdict_pool import (
    BASELINE,
    EXECUTIONS,
    SHARE,
    SLOWER,
    UNCHANGED,
    Pool,
    PooledRun,
    read_pool,
    write_models,
)
from harness import (
    OPERATOR_CALL,
    History,
    HistoryComparison,
    HistoryLimits,
    Measured,
    Metric,
    Provenance,
    Sample,
    Series,
    compare_with_history,
)
from harness.check.history.measure import numbers_of
from harness.check.history.samples import Floats
from harness.history.entries import provenance_of
from harness.runs.request import RunRequest
from harness.runs.run import run_model
from harness.runs.source import subject_of

SESSIONS = 80
"""Of a night."""
NIGHTS = 24
SLOWED_NIGHTS = 10
TRIAL_NIGHTS = 5
"""For choices that are only compared with each other."""
EXACT_BOARD = "qemu-mps2-an386"
EXACT_RESULTS = 5
LIMITS = HistoryLimits()


class Nights:
    """Makes nights of a pool."""

    def __init__(self, pool: Pool) -> None:
        self.numbers = sorted(pool.sessions)
        self._pool = pool
        self.metrics = pool.metrics

    def run(self, session: int, variant: str) -> PooledRun:
        """The run of a variant in a session."""
        return self._pool.sessions[session][variant]

    def values(self, variant: str, statistic: str) -> Floats:
        """Every number of every session's run of a variant, shape (sessions, metrics)."""
        runs = [self.run(number, variant).values[statistic] for number in self.numbers]
        return np.array(runs)

    def night(
        self,
        sessions: Sequence[int],
        variant: str,
        scaled: dict[int, float] | None = None,
        swapped: frozenset[int] = frozenset(),
    ) -> HistoryComparison:
        """Hold ``variant`` against the baseline in these sessions.

        ``scaled`` are factors for operators' times, by instruction; in the sessions ``swapped`` the
        run of the variant counts as that of the baseline, and the other way round.
        """
        series: dict[Metric, list[Sample]] = {}
        results, judged = [], []
        for number in sessions:
            old, new = (variant, BASELINE) if number in swapped else (BASELINE, variant)
            results.append(_provenance(number, BASELINE))
            for metric, sample in self._samples(number, old).items():
                series.setdefault(metric, []).append(sample)
            samples = self._samples(number, new)
            if scaled:
                samples = {m: _scaled(m, sample, scaled) for m, sample in samples.items()}
            judged.append(Measured(_provenance(number, variant), samples))
        places = tuple(range(len(results)))
        history = History(
            tuple(results),
            tuple(Series(metric, places, tuple(samples)) for metric, samples in series.items()),
            places,
            "the baseline",
        )
        return compare_with_history(history, judged, LIMITS)

    def _samples(self, session: int, variant: str) -> dict[Metric, Sample]:
        run = self.run(session, variant)
        return {
            replace(metric, statistic=statistic) if metric.kind == "operator" else metric: Sample(
                value, EXECUTIONS
            )
            for statistic in LIMITS.statistics
            for metric, value in zip(self.metrics, run.values[statistic], strict=True)
            if metric.name != OPERATOR_CALL
        }


def _provenance(session: int, variant: str) -> Provenance:
    return provenance(f"night/{session}", variant)


def _scaled(metric: Metric, sample: Sample, factors: dict[int, float]) -> Sample:
    if not is_operator(metric):
        return sample
    return Sample(sample.value * factors.get(metric.instruction, 1.0), sample.count)


def drawn(nights: Nights, count: int, sessions: int = SESSIONS) -> Iterator[list[int]]:
    """Sessions of so many nights, each without replacement, in the order in which they were run."""
    chance = np.random.default_rng(1)
    for _ in range(count):
        yield sorted(chance.choice(nights.numbers, sessions, replace=False).tolist())


def noise(nights: Nights) -> Iterator[str]:
    """How noisy the board was."""
    chosen = [place for place, metric in enumerate(nights.metrics) if is_operator(metric)]
    seconds = [nights.run(n, v).seconds for n in nights.numbers for v in (BASELINE, UNCHANGED)]
    median, mean = np.median(seconds), np.mean(seconds)
    yield f"{len(nights.numbers)} sessions were run on {_machine()}, while other programs ran."
    yield f"A run of {EXECUTIONS} executions took {median:.2f} s (median; mean {mean:.2f} s)."
    low, high = (2 * SESSIONS * each for each in (median, mean))
    yield f"A night of {SESSIONS} sessions, each with one run of the baseline and one of the"
    yield f"candidate, takes {low:.0f} to {high:.0f} s. The kernels are those of the C firmware,"
    yield "built for the host; the clock is the host's. The table shows the difference of an"
    yield "operator's time between two runs of the same program in one session, as a share:"
    yield ""
    yield "| statistic | quietest tenth | median operator | noisiest tenth | largest once |"
    yield "|---|---|---|---|---|"
    for statistic in ("min", "p10", "p50", "avg"):
        one, other = (nights.values(v, statistic)[:, chosen] for v in (BASELINE, UNCHANGED))
        differences = (other - one) / np.median(one, axis=0)
        spread = 1.4826 * np.median(np.abs(differences), axis=0)
        low, middle, high = np.quantile(spread, [0.1, 0.5, 0.9])
        cells = " | ".join(f"{value:.2%}" for value in (low, middle, high))
        yield f"| `{statistic}` | {cells} | {np.abs(differences).max():.0%} |"
    yield ""
    yield "The spread is 1.4826 times the median absolute difference, which is the standard"
    yield "deviation if the values are normal. These are far from normal, as the last column shows."


def quiet(nights: Nights) -> Iterator[str]:
    """Nights without a change."""
    yield "Both arms run the same program, in nights drawn from the pool. An alarm is a"
    yield "regression, an improvement, a step or a common change:"
    yield ""
    yield "| nights | with any false alarm |"
    yield "|---|---|"
    for sessions in (5, 10, 20, SESSIONS):
        plain, swapped = Share(), Share()
        chance = np.random.default_rng(2)
        for night in drawn(nights, NIGHTS, sessions):
            plain.add(any(alarms(nights.night(night, UNCHANGED))))
            turned = frozenset(number for number in night if chance.random() < 0.5)
            swapped.add(any(alarms(nights.night(night, UNCHANGED, swapped=turned))))
        yield f"| {sessions} sessions | {plain} |"
        row = f"{sessions} sessions, each with a random run as the baseline"
        yield f"| {row} | {swapped} |"
    apart = Share()
    for start in range(0, len(nights.numbers) - 20 + 1, 20):
        night = nights.numbers[start : start + 20]
        apart.add(any(alarms(nights.night(night, UNCHANGED))))
    yield f"| 20 consecutive sessions, each used once | {apart} |"


def slowed(nights: Nights) -> Iterator[str]:
    """Nights in which one operator had more to do."""
    yield f"One operator of the sixty has {SHARE:.0%} more elements. *Real*: the variant was run."
    yield "*Scaled*: the unchanged program was run, and the operator's times were multiplied by"
    yield f"{1 + SHARE}. *Would notice*: the median of the stated detectable changes of the"
    yield f"operator. A night has {SESSIONS} sessions."
    yield ""
    head = ("operator", "time [us]", "slower by", "would notice", "found, real", "found, scaled")
    yield f"| {' | '.join(head)} | other alarms |"
    yield "|---|---|---|---|---|---|---|"
    for name, operator in SLOWER.items():
        [place] = [
            place
            for place, metric in enumerate(nights.metrics)
            if is_operator(metric) and metric.instruction == operator
        ]
        before, after = (nights.values(v, "p50")[:, place] for v in (BASELINE, name))
        really = np.median(after - before) / np.median(before)
        real, scaled, other = Share(), Share(), Share()
        stated = []
        for night in drawn(nights, SLOWED_NIGHTS):
            comparison = nights.night(night, name)
            real.add(found(comparison, operator))
            other.add(any(alarms(comparison, operator)))
            multiplied = nights.night(night, UNCHANGED, scaled={operator: 1 + SHARE})
            scaled.add(found(multiplied, operator))
            stated.append(_detectable(comparison, operator))
        yield (
            f"| {name} ({operator}) | {np.median(before) / 1000:.1f} | {really:.1%} "
            f"| {np.median(stated):.1%} | {real} | {scaled} | {other} |"
        )


def _detectable(comparison: HistoryComparison, operator: int) -> float:
    [share] = [
        number.detectable
        for number in comparison.numbers
        if is_operator(number.metric) and number.metric.instruction == operator
    ]
    return np.inf if share is None else share


def choices(nights: Nights) -> Iterator[str]:
    """How many sessions a night needs."""
    yield f"Found in {TRIAL_NIGHTS} nights, by the number of sessions:"
    yield ""
    yield f"| sessions | would notice | {' | '.join(SLOWER)} | false alarms |"
    yield f"|---|---|{'---|' * len(SLOWER)}---|"
    for sessions in (5, 20, 40):
        counts = {name: Share() for name in SLOWER}
        false = Share()
        stated = []
        for night in drawn(nights, TRIAL_NIGHTS, sessions):
            unchanged = nights.night(night, UNCHANGED)
            false.add(any(alarms(unchanged)))
            median = unchanged.detectable_median
            stated.append(np.inf if median is None else median)
            for name, operator in SLOWER.items():
                counts[name].add(found(nights.night(night, name), operator))
        cells = " | ".join(str(count) for count in counts.values())
        yield f"| {sessions} | {np.median(stated):.1%} | {cells} | {false} |"


def exact(_: Nights) -> Iterator[str]:
    """A simulated board whose clock counts instructions."""
    with tempfile.TemporaryDirectory() as scratch:
        models = write_models(Path(scratch))
        run = _runner(Path(scratch))
        earlier = [run(models[BASELINE], BASELINE) for _ in range(EXACT_RESULTS)]
        history = _history(earlier)
        different = shown = one_tick = one_tick_shown = false = 0
        for name in (UNCHANGED, *SLOWER):
            now = run(models[name], name)
            numbers = {
                number.metric: number.judgement
                for number in compare_with_history(history, [now]).numbers
                if number.metric.kind == "operator"
            }
            reported = {
                replace(metric, statistic="")
                for metric, judgement in numbers.items()
                if judgement != "same"
            }
            changes = _changes(earlier[0], now)
            different += len(changes)
            shown += len(changes.keys() & reported)
            single = {metric for metric, ticks in changes.items() if ticks == 1}
            one_tick += len(single)
            one_tick_shown += len(single & reported)
            false += len(reported - changes.keys())
    yield f"{EXACT_RESULTS} results of the baseline on {EXACT_BOARD}, compared with one result of"
    yield f"the unchanged network and one of each of the {len(SLOWER)} variants:"
    yield ""
    yield "| | operators | shown |"
    yield "|---|---|---|"
    yield f"| time differs from the baseline | {different} | {shown} |"
    yield f"| of these, by at most one tick | {one_tick} | {one_tick_shown} |"
    yield f"| time is the same | | {false} |"


def _runner(scratch: Path) -> Callable[[Path, str], Measured]:
    def run(model: Path, commit: str) -> Measured:
        outcome = run_model(RunRequest(EXACT_BOARD, model, 2, scratch / "run", commit=commit))
        subject = subject_of(outcome.trace, outcome.result)
        return Measured(provenance_of(outcome.result), numbers_of(subject, LIMITS))

    return run


def _history(earlier: Sequence[Measured]) -> History:
    places = tuple(range(len(earlier)))
    series = [
        Series(metric, places, tuple(item.samples[metric] for item in earlier))
        for metric in earlier[0].samples
    ]
    return History(
        tuple(item.provenance for item in earlier), tuple(series), places, "the baseline"
    )


def _changes(before: Measured, after: Measured) -> dict[Metric, int]:
    """Ticks by which the statistics of operators differ, the most of each, by operator."""
    tick = 40.0  # nanoseconds, of a clock of 25 MHz
    changes: dict[Metric, int] = {}
    for metric, sample in after.samples.items():
        if metric.kind == "operator" and metric.name != OPERATOR_CALL:
            ticks = abs(sample.value - before.samples[metric].value) / tick
            if ticks:
                key = replace(metric, statistic="")
                changes[key] = max(changes.get(key, 1), int(np.ceil(ticks)))
    return changes


def _machine() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    models = [line.partition(": ")[2] for line in lines if line.startswith("model name")]
    return f"{os.cpu_count()} cores of {models[0] if models else platform.machine()}"


SECTIONS: dict[str, Callable[[Nights], Iterator[str]]] = {
    "The noise": noise,
    "Nights without a change": quiet,
    f"{SHARE:.0%} more time in one operator": slowed,
    "Fewer sessions": choices,
    "One tick": exact,
}


def section(title: str, pool: Path) -> list[str]:
    """A part of what is measured, as Markdown."""
    return ["", f"### {title}", "", *SECTIONS[title](Nights(read_pool(pool)))]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("pool", type=Path)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    with ProcessPoolExecutor(options.jobs) as processes:
        parts = processes.map(section, SECTIONS, [options.pool] * len(SECTIONS))
        lines = [*chain.from_iterable(parts)]
    print("\n".join(lines))
    write_section("benchmarks/verdicts.py", lines[1:])


if __name__ == "__main__":
    main()
