"""A site says of the newest result what a check of it says, however short the history is."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Collection
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from harness import (
    ClockDomain,
    HistoryComparison,
    HistoryLimits,
    HistoryRef,
    Measured,
    Metric,
    Sample,
    compare_with_history,
    entry_of,
    measure,
    open_store,
)
from harness.extensions.web.site.writer import write_site
from harness.report.words import metric_title
from tests.support.examples import examples
from tests.support.results import Made, made, trace_with
from tests.support.sites import started

OPERATORS = ["native_call_conv.out", "native_call_add.out", "native_call_softmax.out"]
LIMITS = HistoryLimits()
RUNS = 5
EXAMPLES = int(os.environ.get("ETHARNESS_SITE_EXAMPLES", "0")) or examples(40)
"""Every example writes a site; `make measure` tries more."""


def nights_of(
    sessions: int,
    *,
    noise: float,
    factor: float,
    changed: Collection[str],
    share: float,
    emulated: bool = False,
    tick_ns: int = 1,
    seed: int = 0,
) -> list[Made]:
    """Results of a board with some noise; the last one is of a changed program.

    Args:
        sessions: Number of the earlier ones.
        noise: Largest share by which results and operators differ.
        factor: Factor of the changed operators.
        changed: Their names.
        share: Share of the executions in which they changed.
        emulated: The board is an emulator.
        tick_ns: Nanoseconds per tick of its clock.
        seed: Of the noise.
    """
    random = np.random.default_rng(seed)
    clock = ClockDomain("timer", Fraction(10**9, tick_ns), 64)
    found = []
    for night in range(sessions + 1):
        shared = 1 + noise * random.random()
        times = {}
        for number, name in enumerate(OPERATORS):
            level = 40_000.0 * (number + 1) * shared * (1 + noise * random.random())
            more = night == sessions and name in changed
            times[name] = [
                int(level * (factor if more and run < share * RUNS else 1) / tick_ns)
                for run in range(RUNS)
            ]
        facts: dict[str, Any] = {"started_utc": started(night), "session": f"night {night}"}
        facts |= {"commit": f"{night:09}", "runs_completed": RUNS, "runs_requested": RUNS}
        found.append(
            made(f"r{night}", trace_with(times, clock=clock), **facts, emulated_time=emulated)
        )
    return found


NIGHTS = st.builds(
    nights_of,
    st.integers(1, 8),
    noise=st.sampled_from([0.0, 0.002, 0.05, 0.4]),
    factor=st.sampled_from([0.1, 0.4, 0.8, 1.0, 1.015, 1.3, 1.9, 3.0, 20.0]),
    changed=st.sets(st.sampled_from(OPERATORS)),
    share=st.sampled_from([0.6, 1.0]),
    tick_ns=st.sampled_from([1, 1000, 20_000]),
    seed=st.integers(0, 999),
) | st.builds(
    nights_of,
    st.integers(1, 8),
    noise=st.just(0.0),
    factor=st.sampled_from([0.8, 1.0, 1.015, 1.3, 20.0]),
    changed=st.sets(st.sampled_from(OPERATORS)),
    share=st.sampled_from([0.6, 1.0]),
    tick_ns=st.sampled_from([1, 1000]),
    emulated=st.just(True),
)


def checked(history: Path, newest: Made) -> HistoryComparison:
    """What a check of a result compares with its history, as ``etharness check`` does."""
    tested = entry_of(newest.result, newest.subject)[0].provenance
    earlier = HistoryRef(str(history)).fetch(tested, LIMITS)
    numbers: dict[Metric, Sample] = {}
    for statistic in LIMITS.statistics:
        numbers |= measure(newest.subject, statistic)
    return compare_with_history(
        earlier,
        [Measured(tested, numbers)],
        LIMITS,
    )


def on_pages(site: Path) -> dict[str, Any]:
    """The series of the only model of a site, by title."""
    [file] = [file for file in site.glob("data/*.js") if file.stem not in ("index", "search")]
    text = file.read_text().removeprefix('window.etharness.take("model", ').removesuffix(");\n")
    return {series["title"]: series for series in json.loads(text)["series"]}


@pytest.mark.long
@settings(suppress_health_check=list(HealthCheck), max_examples=EXAMPLES)
@given(results=NIGHTS)
@example(nights_of(2, noise=0.05, factor=20.0, changed=OPERATORS[:1], share=0.6))
@example(nights_of(2, noise=0.05, factor=20.0, changed=OPERATORS, share=1.0))
@example(  # from 2 ticks to 3 on an exact clock
    nights_of(2, noise=0, factor=1.5, changed=OPERATORS[:1], share=1, emulated=True, tick_ns=20_000)
)
def test_a_site_says_what_a_check_says(results: list[Made]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        with open_store(str(place / "h.sqlite")) as store:
            for item in results:
                store.add(item.result, item.subject)
            write_site(store, place / "site")
        comparison = checked(place / "h.sqlite", results[-1])
        series = on_pages(place / "site")
        page = (place / "site/index.html").read_text()
    # What all operators have in common is judged by itself, and shown with each of them.
    together = {item.judgement for item in comparison.common}
    for number in comparison.numbers:
        if number.metric.kind != "operator":
            continue
        found = series[metric_title(replace(number.metric, statistic="p50"))]
        if found["judgement"] != number.judgement:
            assert found["judgement"] in together & {"regression", "improvement"}
            assert number.judgement in ("same", "too little")
        elif number.judgement == "regression":
            assert "slower" in page
