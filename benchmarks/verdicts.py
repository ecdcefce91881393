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
from harness.check.history.compare import compare_with_history
from harness.check.history.comparison import Compared, HistoryComparison
from harness.check.history.measure import numbers_of
from harness.check.history.samples import (
    Floats,
    History,
    Measured,
    Metric,
    Provenance,
    Sample,
    Series,
)
from harness.check.history.settings import HistoryLimits
from harness.history.entries import provenance_of
from harness.records.trace import OPERATOR_CALL
from harness.runs.evaluation import subject_of
from harness.runs.request import RunRequest
from harness.runs.run import run_model

PAGE = Path(__file__).resolve().parent.parent / "docs/verdicts.md"
BEGIN, END = "<!-- measured: benchmarks/verdicts.py -->", "<!-- end of what is measured -->"
SESSIONS = 80
"""Of a night."""
NIGHTS = 200
SLOWED_NIGHTS = 100
SCALED_NIGHTS = 60
TRIAL_NIGHTS = 20
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
        limits: HistoryLimits = LIMITS,
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
            for metric, sample in self._samples(number, old, limits).items():
                series.setdefault(metric, []).append(sample)
            samples = self._samples(number, new, limits)
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
        return compare_with_history(history, judged, limits)

    def _samples(self, session: int, variant: str, limits: HistoryLimits) -> dict[Metric, Sample]:
        run = self.run(session, variant)
        return {
            replace(metric, statistic=statistic) if metric.kind == "operator" else metric: Sample(
                value, EXECUTIONS
            )
            for statistic in limits.statistics
            for metric, value in zip(self.metrics, run.values[statistic], strict=True)
            if metric.name != OPERATOR_CALL
        }


def _provenance(session: int, variant: str) -> Provenance:
    return Provenance(
        id=f"{session} {variant}",
        started_utc="",
        board="native",
        unit="native",
        model="sixty.pte",
        model_sha256="",
        method="forward",
        build_id="",
        tool_version="",
        commit=variant,
        session=f"night/{session}",
    )


def _scaled(metric: Metric, sample: Sample, factors: dict[int, float]) -> Sample:
    if not is_operator(metric):
        return sample
    return Sample(sample.value * factors.get(metric.instruction, 1.0), sample.count)


def is_operator(metric: Metric) -> bool:
    """Whether it is one of the network's sixty, no scope around them and nothing about loading."""
    inside = metric.kind == "operator" and metric.block == "Execute"
    return inside and metric.name not in ("Method::execute", OPERATOR_CALL)


def alarms(comparison: HistoryComparison, but: int | None = None) -> list[Compared]:
    """What is reported as changed or as a step, but for the times of one operator."""
    return [
        number
        for number in comparison.numbers
        if (number.judgement in ("regression", "improvement") or number.steps)
        and not (is_operator(number.metric) and number.metric.instruction == but)
    ]


def found(comparison: HistoryComparison, operator: int) -> bool:
    """Whether an operator is reported as slower."""
    return any(
        is_operator(number.metric)
        and number.metric.instruction == operator
        and number.judgement == "regression"
        for number in comparison.numbers
    )


def drawn(nights: Nights, count: int, sessions: int = SESSIONS) -> Iterator[list[int]]:
    """Sessions of so many nights, each without replacement, in the order in which they were run."""
    chance = np.random.default_rng(1)
    for _ in range(count):
        yield sorted(chance.choice(nights.numbers, sessions, replace=False).tolist())


def share(count: int, nights: int) -> str:
    return f"{count} of {nights} ({count / nights:.1%})"


def noise(nights: Nights) -> Iterator[str]:
    """How noisy the board was."""
    chosen = [place for place, metric in enumerate(nights.metrics) if is_operator(metric)]
    seconds = [nights.run(n, v).seconds for n in nights.numbers for v in (BASELINE, UNCHANGED)]
    yield f"{len(nights.numbers)} sessions were run on {_machine()}, while others used it. A run of"
    yield f"{EXECUTIONS} executions took {np.median(seconds):.2f} s (median; mean"
    middle, mean = (2 * SESSIONS * each for each in (np.median(seconds), np.mean(seconds)))
    yield f"{np.mean(seconds):.2f} s), so a night of {SESSIONS} sessions, each of one run of the"
    yield f"baseline and one of what is new, takes {middle:.0f} to {mean:.0f} s. How much a time in"
    yield "one run differs from that in another run of the same session, of the same program, as a"
    yield "share of it, over the 60 operators:"
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
    yield "deviation of normal numbers. These are far from normal, as the last column shows."


def quiet(nights: Nights) -> Iterator[str]:
    """Nights without a change."""
    count = sum(bool(alarms(nights.night(n, UNCHANGED))) for n in drawn(nights, NIGHTS))
    yield "The same program under two names, in nights drawn from the pool:"
    yield ""
    yield "| nights | with any false alarm (regression, improvement or step) |"
    yield "|---|---|"
    yield f"| {NIGHTS} of {SESSIONS} sessions | {share(count, NIGHTS)} |"
    chance = np.random.default_rng(2)
    count = 0
    for night in drawn(nights, NIGHTS):
        swapped = frozenset(number for number in night if chance.random() < 0.5)
        count += bool(alarms(nights.night(night, UNCHANGED, swapped=swapped)))
    row = f"{NIGHTS} of {SESSIONS} sessions, in each of which chance says which run is the baseline"
    yield f"| {row} | {share(count, NIGHTS)} |"
    apart = [
        nights.numbers[start : start + SESSIONS]
        for start in range(0, len(nights.numbers) - SESSIONS + 1, SESSIONS)
    ]
    count = sum(bool(alarms(nights.night(night, UNCHANGED))) for night in apart)
    row = f"{len(apart)} of {SESSIONS} sessions in a row, none twice"
    yield f"| {row} | {share(count, len(apart))} |"


def slowed(nights: Nights) -> Iterator[str]:
    """Nights in which one operator had more to do."""
    yield f"One operator of the sixty has {SHARE:.0%} more elements. *Real*: the variant was run."
    yield "*Scaled*: the unchanged program was run, and the operator's times multiplied by"
    yield f"{1 + SHARE}."
    yield ""
    rows = []
    for name, operator in SLOWER.items():
        [place] = [
            place
            for place, metric in enumerate(nights.metrics)
            if is_operator(metric) and metric.instruction == operator
        ]
        before, after = (nights.values(v, "p50")[:, place] for v in (BASELINE, name))
        really = np.median(after - before) / np.median(before)
        real = scaled = other = 0
        for night in drawn(nights, SLOWED_NIGHTS):
            comparison = nights.night(night, name)
            real += found(comparison, operator)
            other += bool(alarms(comparison, operator))
        for night in drawn(nights, SCALED_NIGHTS):
            scaled += found(nights.night(night, UNCHANGED, scaled={operator: 1 + SHARE}), operator)
        times = (
            share(real, SLOWED_NIGHTS),
            share(scaled, SCALED_NIGHTS),
            share(other, SLOWED_NIGHTS),
        )
        rows.append(
            f"| {name} ({operator}) | {np.median(before) / 1000:.1f} | {really:.1%} "
            f"| {' | '.join(times)} |"
        )
    yield "| operator | time [us] | slower by | found, real | found, scaled | other alarms |"
    yield "|---|---|---|---|---|---|"
    yield from rows


def choices(nights: Nights) -> Iterator[str]:
    """What else could have been chosen."""
    yield f"Found in {TRIAL_NIGHTS} nights, by the statistics that stand for a run and by the"
    yield "number of sessions:"
    yield ""
    yield f"| statistics | sessions | {' | '.join(SLOWER)} | false alarms |"
    yield f"|---|---|{'---|' * len(SLOWER)}---|"
    tried: list[tuple[tuple[str, ...], int]] = [
        (statistics, SESSIONS) for statistics in (("min",), ("p10",), ("p50",), ("min", "p50"))
    ]
    tried += [(LIMITS.statistics, sessions) for sessions in (10, 20, 40, 60)]
    for statistics, sessions in tried:
        limits = replace(LIMITS, statistics=statistics)
        counts = dict.fromkeys(SLOWER, 0)
        false = 0
        for night in drawn(nights, TRIAL_NIGHTS, sessions):
            false += bool(alarms(nights.night(night, UNCHANGED, limits)))
            for name, operator in SLOWER.items():
                counts[name] += found(nights.night(night, name, limits), operator)
        cells = " | ".join(f"{count / TRIAL_NIGHTS:.0%}" for count in counts.values())
        names = ", ".join(f"`{name}`" for name in statistics)
        yield f"| {names} | {sessions} | {cells} | {false} |"


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
    yield f"On {EXACT_BOARD}, {EXACT_RESULTS} results of the baseline, and one of the unchanged"
    yield f"network and of each of the {len(SLOWER)} variants:"
    yield ""
    yield "| | operators | shown |"
    yield "|---|---|---|"
    yield f"| with another time than in the baseline | {different} | {shown} |"
    yield f"| of these, by a single tick at the most | {one_tick} | {one_tick_shown} |"
    yield f"| with the same time | | {false} |"


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
    "Other choices": choices,
    "One tick": exact,
}


def section(title: str, pool: Path) -> list[str]:
    """A part of what is measured, as Markdown."""
    return ["", f"### {title}", "", *SECTIONS[title](Nights(read_pool(pool)))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pool", type=Path)
    pool = parser.parse_args().pool
    with ProcessPoolExecutor() as processes:
        parts = processes.map(section, SECTIONS, [pool] * len(SECTIONS))
        text = "\n".join([BEGIN, *chain.from_iterable(parts), "", END])
    before, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text(before + text + rest.partition(END)[2])
    print(text)


if __name__ == "__main__":
    main()
