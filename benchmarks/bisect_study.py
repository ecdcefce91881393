"""Study of bisections: how often they find the right commit under generated noise.

    python -m benchmarks.bisect_study

A repository of 200 commits has one that makes the median execution, or one operator of sixty,
slower by 3, 10 or 50 %. What a run of a commit measures is generated, with the noises of the study
of verdicts: successive runs are successive sessions. No program is run.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from benchmarks.series_noise import MODELS, OPERATORS
from benchmarks.verdict_counts import PAGE, Share, write_section
from harness.extensions.bisect.search import Alike, Suspects
from harness.extensions.bisect.state import Commit, CommitRun
from tests.support.bisections import generated_bisection, measured, run_to_its_end

COMMITS: Final = 200
SIZES: Final = (0.03, 0.1, 0.5)
METRICS: Final = ("execution", "operator")
ONLY_EXECUTION: Final = ("two modes", "busy host")
"""Noises of an operator that are larger than 3 %: bisections take too many runs to study them."""

TRIALS: Final = 100
MAX_RUNS: Final = 50

_MOST: Final = 3000
"""Runs that are generated for one bisection."""

_WILD_BEFORE: Final = 40
"""The one wild session is among so many first runs, as it would hardly matter later."""


Key = tuple[str, str, float]
"""Noise, metric and size of the change."""


@dataclass(frozen=True, slots=True)
class BisectTrial:
    """What one bisection answered.

    Attributes:
        outcome: ``right``, ``wrong``, ``uncertain`` (the right commit is among several suspects)
            or ``refused`` (good and bad could not be told apart).
        runs: Runs that it took.
    """

    outcome: str
    runs: int


def bisect_once(noise: str, metric: str, size: float, seed: int, number: int) -> BisectTrial:
    """Return what one bisection answers; the same each time it is called."""
    model = MODELS[noise]
    keys = [sorted(MODELS).index(noise), METRICS.index(metric), round(1000 * size)]
    chance = np.random.default_rng([seed, *keys, number])
    first_bad = int(chance.integers(1, COMMITS + 1))
    operator = int(chance.integers(OPERATORS))
    times = model.times(chance, _MOST)[:, 1, :]
    if noise == "wild night":
        times = np.roll(times, int(chance.integers(_WILD_BEFORE)) + 20, axis=0)

    def value_of(place: int, run: int) -> CommitRun:
        slower = 1 + size * (place >= first_bad)
        now = times[run]
        value = now.sum() if metric == "execution" else now[operator]
        shown = float(model.shown(np.array([value * slower]))[0])
        return measured(place, shown, resolution=model.tick_ns)

    state = generated_bisection(COMMITS, max_runs=MAX_RUNS)
    found, state = run_to_its_end(state, value_of)
    right = state.request.commits[first_bad]
    return BisectTrial(_outcome(found, right), len(state.runs))


def _outcome(found: object, right: Commit) -> str:
    if isinstance(found, Alike):
        return "refused"
    assert isinstance(found, Suspects)
    if right not in found.commits:
        return "wrong"
    return "right" if len(found.commits) == 1 else "uncertain"


def table(
    trials: dict[Key, list[BisectTrial]],
) -> Iterator[str]:
    """Yield the lines of the table."""
    yield "| noise | metric | 3 % | 10 % | 50 % | not right |"
    yield "|---|---|---|---|---|---|"
    for noise, metric in dict.fromkeys(key[:2] for key in trials):
        cells, others = [], []
        for size in SIZES:
            found = trials.get((noise, metric, size), [])
            right = Share(sum(trial.outcome == "right" for trial in found), len(found))
            runs = np.median([trial.runs for trial in found]) if found else 0
            cells.append(f"{right}, {runs:.0f} runs")
            counts = Counter(trial.outcome for trial in found if trial.outcome != "right")
            others += [f"{count} {word} at {size:.0%}" for word, count in counts.items()]
        yield f"| {MODELS[noise].title} | {metric} | {' | '.join(cells)} | {', '.join(others)} |"


def measure(
    noises: Sequence[str],
    metrics: Sequence[str],
    trials: int,
    seed: int,
    jobs: int,
    file: Path | None,
) -> dict[Key, list[BisectTrial]]:
    """Return the trials of all these noises, metrics and sizes.

    Those that ``file`` has are not repeated, and new ones are added to it.
    """
    known = {} if file is None else read_trials(file)
    found: dict[Key, list[BisectTrial]] = {}
    with ProcessPoolExecutor(jobs) as pool:
        for key in product(noises, metrics, SIZES):
            if key[0] in ONLY_EXECUTION and key[1] == "operator":
                continue
            if len(known.get(key, [])) >= trials:
                found[key] = known[key][:trials]
                continue
            words = [[word] * trials for word in (*key, seed)]
            found[key] = list(pool.map(bisect_once, *words, range(trials), chunksize=5))
            print(*key, Counter(trial.outcome for trial in found[key]), flush=True)
            if file is not None:
                with file.open("ab") as out:
                    out.write(msgspec.json.encode((key, found[key])) + b"\n")
    return found


def read_trials(file: Path) -> dict[Key, list[BisectTrial]]:
    """Return the trials of a file, by noise, metric and size."""
    lines = file.read_bytes().splitlines() if file.exists() else []
    return dict(msgspec.json.decode(line, type=tuple[Key, list[BisectTrial]]) for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--trials", type=int, default=TRIALS, help="bisections per cell")
    parser.add_argument("--file", type=Path, help="file of trials, which the study continues")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--noise", nargs="*", choices=[*MODELS], default=[*MODELS])
    parser.add_argument("--metric", nargs="*", choices=METRICS, default=[*METRICS])
    options = parser.parse_args()
    metrics: list[str] = options.metric
    found = measure(
        options.noise, metrics, options.trials, options.seed, options.jobs, options.file
    )
    cells = len(SIZES) * (len(MODELS) * len(METRICS) - len(ONLY_EXECUTION))
    if options.trials < TRIALS or len(found) < cells:
        print("\n".join(table(found)))
    else:
        page = PAGE.with_name("bisect.md")
        write_section("benchmarks/bisect_study.py", table(found), page)


if __name__ == "__main__":
    main()
