"""A comparison with history on the terminal."""

from __future__ import annotations

import io
import re
from dataclasses import replace

import numpy as np
from rich.console import Console

from harness import Metric, compare_with_history
from harness.report.description import describe
from harness.report.run import print_run
from tests.support.histories import HistoryBuilder, night, noisy, operator, size
from tests.support.reported import reported


def printed(builder: HistoryBuilder, *, detailed: bool = False) -> str:
    """What a comparison adds to the text of a run."""
    plain = reported()
    comparison = compare_with_history(builder.history(), builder.judged)
    texts = []
    for run in (plain, replace(plain, comparison=comparison)):
        out = io.StringIO()
        console = Console(file=out, width=200)
        print_run(console, describe(run), verbosity=int(detailed), show_verdict=False)
        texts.append(out.getvalue())
    assert texts[1].startswith(f"{texts[0]}\n")
    return texts[1].removeprefix(f"{texts[0]}\n")


def slower() -> HistoryBuilder:
    before, after = noisy(0, 30, 8, own=0.003)
    after[:, 2] *= 1.1
    after[:, 5] *= 1.2
    return night(before, after)


def test_the_worst_comes_first_with_its_interval() -> None:
    lines = printed(slower()).splitlines()
    assert lines[0] == "Compared with the baseline"
    assert lines[2].split()[:5] == ["slower", "op5", "·", "instruction", "5"]
    assert lines[3].split()[:5] == ["slower", "op2", "·", "instruction", "2"]
    found = re.search(r" (\S+) % +\S+ us +\S+ us \[\S+, \S+\]$", lines[2])
    assert found is not None
    assert 19 < float(found[1]) < 21
    whole = printed(slower(), detailed=True).splitlines()[2]
    found = re.search(r" (\+\S+) us \[(\S+), (\S+)\]", whole)
    assert found is not None
    change, low, high = map(float, found.groups())
    assert low < change < high
    assert lines[-2] == "same as the baseline: 6 of 8 numbers"
    assert lines[-1].startswith("would have noticed ")


def test_everything_is_shown_when_asked_for() -> None:
    text = printed(slower(), detailed=True)
    assert len(re.findall(r"^no detectable change  ", text, re.MULTILINE)) == 6


def test_sizes_and_ticks_have_their_own_units() -> None:
    builder = HistoryBuilder()
    ticks = Metric("operator", "npu", "p50", "ticks", "Execute")
    for place in range(5):
        builder.earlier(f"s{place}", "a", {operator(): 5e4, ticks: 700.0, size(): 1000.0})
    builder.now("now", "b", {operator(): 6e4, ticks: 750.0, size(): 2000.0})
    text = printed(builder)
    for word, name, before, now, relative in (
        ("larger", r"log_bytes", r"1,000 bytes.*", r"2,000 bytes", r"\+100\.00 %"),
        ("slower", r"npu · p50", r"700 ticks.*", r"750 ticks", r"\+7\.14 %"),
        ("slower", r"op0 · instruction 0 · p50", r"50\.000 us.*", r"60\.000 us", r"\+20\.00 %"),
    ):
        assert re.search(rf"{word} +{name} +{relative} +{now} +{before}", text)


def test_notes_and_names_of_devices_are_safe() -> None:
    builder = HistoryBuilder()
    builder.now("now", "b", {operator(name="\x1b[31m"): 1.0}, unit="two\n")
    text = printed(builder)
    assert text == "", "the check H06 says that there is no baseline"
    chance = np.random.default_rng(0)
    for place in range(5):
        value = {operator(name="\x1b[31m"): 1e5 * chance.random()}
        builder.earlier(f"s{place}", "a", value, unit="two\n")
    assert "\x1b" not in printed(builder, detailed=True)
