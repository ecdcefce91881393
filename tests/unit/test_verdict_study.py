"""A sample of the study of verdicts (``benchmarks/verdict_study.py``), with fixed seeds.

The whole study has a hundred nights of each noise; a sample finds only what is broken.
"""

from __future__ import annotations

from benchmarks.verdict_noise import MODELS
from benchmarks.verdict_study import Counts, study, table


def test_a_sample_of_nights_under_every_noise() -> None:
    counts = {name: study(name, seed=7, nights=2) for name in MODELS}
    total = Counts()
    for one in counts.values():
        total.add_all(one)
    # Of 24 nights, at 1 % each, 3 have an alarm with a probability of 0.2 %.
    assert total.alarms.count <= 2
    assert total.pair_alarms.count <= 2
    # Nine of ten are found, so 5 of 24 are missed with a probability of 8 %, 7 with 0.6 %.
    assert total.stated.count >= total.stated.of - 6
    assert total.small.of >= 8
    assert total.small.count >= 0.8 * total.small.of
    assert total.doubled.count >= total.doubled.of - 3
    assert len([*table(counts)]) > 2 * len(MODELS)
