"""Suggested budgets: what was measured keeps to them, what became slower does not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import (
    EXECUTION,
    NO_COUNT,
    Budget,
    Check,
    ClockDomain,
    HardwareCounter,
    Losses,
    Stack,
    Subject,
    Trace,
    evaluate,
    write_ed00,
)
from harness.extensions.budgets.suggest import readable, suggest
from tests.conftest import FIXTURES, CommandResult
from tests.support.documents import document
from tests.support.examples import examples
from tests.support.traces import EventSpec, RunSpec, trace_of

Etharness = Callable[..., CommandResult]

CLOCKS = st.sampled_from(
    [
        ClockDomain("timer", Fraction(25_000_000), 64),
        ClockDomain("odd", Fraction(32_768, 3), 64),
        ClockDomain("unknown", None, 64),
    ]
)
NAMES = st.one_of(
    st.sampled_from(
        ["conv", "relu", "mul", "a[b]*?", "odd\x1b\x7f\"'\\\n", "\udcff", "x" * 10_000]
    ),
    st.text(max_size=5),
)
COUNTERS = (HardwareCounter("instret"), HardwareCounter("cycles", 8))
WORK = st.tuples(NAMES, st.integers(0, 2), st.sampled_from([None, 7, "npu_[1]"]))


@st.composite
def subjects(draw: st.DrawFn) -> list[Subject]:
    """Runs of a few programs on a few boards."""
    found = []
    for _ in range(draw(st.integers(1, 3))):
        clock = draw(CLOCKS)
        work = draw(st.lists(WORK, min_size=1, max_size=6))
        counters = draw(st.sampled_from([(), COUNTERS[:1], COUNTERS]))
        runs = [execution(draw, work, len(counters)) for _ in range(draw(st.integers(1, 3)))]
        trace = trace_of(*runs, clock=clock, counters=counters)
        stacks = draw(st.sampled_from([(), (Stack(0, 100, 400),), (Stack(0, 400, 400),)]))
        losses = draw(st.sampled_from([Losses(), Losses(events=3), Losses(damaged=1, values=2)]))
        found.append(
            Subject(
                replace(trace, stacks=stacks, losses=losses),
                board=draw(st.sampled_from(["", "native", "b[1]"])),
                model=draw(st.sampled_from(["", "kws.pte", "odd\n.pte"])),
                arena_used=draw(st.sampled_from([None, 1234])),
                image=draw(st.sampled_from([{}, {"text": 1000, "data": 10, "bss": 77}])),
                day=date(2026, 11, 21),
            )
        )
    return found


def execution(draw: st.DrawFn, work: list[tuple[str, int, Any]], counters: int) -> RunSpec:
    events, now = [], 0
    counts = st.sampled_from([(), *[(n,) * counters for n in (NO_COUNT, 0, 7, 1234)]])
    for name, instruction, delegate in work:
        took = draw(st.sampled_from([0, 1, 10, 1000, 123_456]))
        event = EventSpec(name, now, now + took, 0, instruction, delegate, counts=draw(counts))
        events.append(event)
        now += took
    if draw(st.booleans()):
        events.append(EventSpec(None, 0, 0, allocated=draw(st.integers(1, 5000))))
    events.append(EventSpec(EXECUTION, 0, now, chain=-1, counts=draw(counts)))
    return RunSpec(events, allocators=("method",))


WISHES = st.builds(
    dict,
    margin=st.sampled_from([0.0, 0.003, 0.2, 1.0]),
    share=st.sampled_from([0.0, 0.05, 0.5]),
    statistic=st.sampled_from(["p50", "max", "avg"]),
)


def held(subject: Subject, path: Path) -> list[Check]:
    """The checks of a budget that a subject does not keep to."""
    budget = Budget.load(path, subject.board, subject.model, subject.unit)
    found = [check for check in evaluate(subject, budget).checks if check.code.startswith("B")]
    return [check for check in found if not check.passed]


@given(subjects(), WISHES)
@settings(max_examples=examples(25))
def test_what_was_measured_keeps_to_it(
    tmp_path_factory: pytest.TempPathFactory, measured: list[Subject], wishes: dict[str, Any]
) -> None:
    path = tmp_path_factory.mktemp("suggest") / "budget.toml"
    path.write_text(suggest(measured, **wishes), encoding="utf-8")
    for subject in measured:
        assert held(subject, path) == []


def slower(trace: Trace, row: int, factor: float) -> Trace:
    """The same with one operator slower in every execution, and all that goes on around it."""
    same = (trace.name == trace.name[row]) & (trace.instruction == trace.instruction[row])
    took = (trace.end - trace.start)[same].astype(np.float64)
    end = trace.end.copy()
    end[same] = trace.start[same] + np.ceil(took * factor).astype(np.uint64)
    return replace(trace, end=end)


@given(
    st.lists(st.integers(1000, 100_000), min_size=2, max_size=8),
    st.sampled_from([0.0, 0.02, 0.2]),
    st.data(),
)
@settings(max_examples=examples(25))
def test_an_operator_slowed_by_more_than_the_margin_fails(
    tmp_path_factory: pytest.TempPathFactory, took: list[int], margin: float, data: st.DataObject
) -> None:
    starts = np.cumsum([0, *took])
    events = [
        EventSpec(f"op{n % 3}", int(start), int(start) + time, instruction=n)
        for n, (start, time) in enumerate(zip(starts, took, strict=False))
    ]
    whole = EventSpec(EXECUTION, 0, int(starts[-1]), chain=-1)
    trace = trace_of(RunSpec([*events, whole]), RunSpec([*events, whole]))
    path = tmp_path_factory.mktemp("suggest") / "budget.toml"
    path.write_text(suggest([Subject(trace)], margin, share=0.0))
    row = data.draw(st.integers(0, len(took) - 1))
    assert held(Subject(slower(trace, row, 1 + 0.5 * margin)), path) == []
    # Rounding up adds a twentieth of the margin at most; a tick is what a clock can tell.
    worse = slower(trace, row, 1 + 1.06 * margin + 1.01 / took[row])
    failed = held(Subject(worse), path)
    assert any(f"instruction {row}" in check.subject for check in failed)


def reruns(seed: int, count: int) -> list[Subject]:
    """Runs of one model on a busy host, made up from a seed.

    The host has slow phases in which everything takes 1.4 times as long, and other processes take
    the core away for some milliseconds at any time.
    """
    random = np.random.default_rng(seed)
    work = np.array([400, 300, 140, 20, 9]) * 1_000
    found, slow = [], False
    for _ in range(count):
        slow ^= bool(random.random() < 0.1)
        runs, now = [], 0
        for _execution in range(6):
            events, began = [], now
            for instruction, typical in enumerate(work.tolist()):
                took = typical * (1.4 if slow else 1.0) * random.lognormal(0, 0.05)
                took += (random.random() < 0.1) * random.uniform(1e6, 1e7)
                events.append(EventSpec("op", now, now + int(took), 0, instruction))
                now += int(took)
            events.append(EventSpec(EXECUTION, began, now, chain=-1))
            runs.append(RunSpec(events))
        clock = ClockDomain("host", Fraction(10**9), 64)
        found.append(Subject(trace_of(*runs, clock=clock), board="native"))
    return found


@pytest.mark.parametrize("seed", range(2))
def test_reruns_on_a_busy_host_keep_to_the_suggestion_of_five_runs(
    seed: int, tmp_path: Path
) -> None:
    runs = reruns(seed, 105)
    path = tmp_path / "budget.toml"
    path.write_text(suggest(runs[:5]))
    assert sum(bool(held(run, path)) for run in runs[5:]) <= 1
    assert all(held(slowed(run, 3), path) for run in runs[5:10]), "it still limits something"


def slowed(run: Subject, factor: int) -> Subject:
    """The same with everything taking several times as long."""
    trace = run.trace
    return replace(run, trace=replace(trace, start=trace.start * factor, end=trace.end * factor))


def test_a_quiet_board_keeps_tight_limits_on_the_median(tmp_path: Path) -> None:
    spread = [1_000_000, 1_010_000, 1_005_000]
    runs = [
        Subject(trace_of(RunSpec([EventSpec("op", 0, took), EventSpec(EXECUTION, 0, took, -1)])))
        for took in spread
    ]
    text = suggest(runs)
    assert "busy host" not in text
    assert '"min"' not in text
    path = tmp_path / "budget.toml"
    path.write_text(text)
    assert held(slowed(runs[0], 2), path)


@given(st.floats(1e-6, 1e12), st.floats(1e-6, 1.0))
def test_readable_numbers_are_a_little_larger(value: float, more: float) -> None:
    found = readable(value, more)
    assert value <= found <= value * (1 + more)
    if more >= 0.01:
        assert float(f"{found:.3g}") == found, "three digits do"


@pytest.mark.parametrize(
    ("value", "more", "expected"),
    [(521.3, 0.01, 525), (521.3, 0.1, 530), (0.0123, 0.01, 0.0124), (999.5, 0.01, 1000), (0, 1, 0)],
)
def test_readable_numbers(value: float, more: float, expected: float) -> None:
    assert readable(value, more) == pytest.approx(expected, rel=0.03)
    assert readable(value, more) >= value


def test_the_command_writes_a_budget_that_the_runs_keep_to(
    etharness: Etharness, tmp_path: Path
) -> None:
    trace = tmp_path / "odd.etdp"
    trace.write_bytes(
        write_ed00(trace_of(RunSpec([EventSpec("a*", 0, 5), EventSpec(EXECUTION, 0, 9, -1)])))
    )
    file = tmp_path / "first.toml"
    paths = [FIXTURES / "kws_f32_executorch.etdp", trace]
    result = etharness("check", *paths, "--suggest", file, "--margin", "10 %")
    assert result.code == 0
    assert "all passed" in result.out
    for path in paths:
        assert etharness("check", path, "--budget", file).code == 0
    again = etharness("check", *paths, "--suggest", file)
    assert (again.code, "already exists" in again.err) == (2, True)
    assert etharness("check", *paths).code == 2
    assert etharness("check", trace, "--suggest", file, "--margin", "much").code == 2
    nowhere = etharness("check", trace, "--suggest", tmp_path / "none/b.toml")
    assert "cannot write the budget" in nowhere.err
    checks = etharness("check", trace, "--suggest", tmp_path / "c.toml", "--json")
    document("check-suggest", checks.out)


def test_the_effective_rules_are_shown_with_their_places(
    etharness: Etharness, tmp_path: Path
) -> None:
    (tmp_path / "base.toml").write_text(
        "schema = 1\n[[time]]\nid = 'x'\nevent = 'relu'\nlimit_us = 1\n[severity]\nB01 = 'note'\n"
    )
    path = tmp_path / "own.toml"
    path.write_text(
        "schema = 1\nextends = 'base.toml'\n[[for]]\nboard = 'native'\n"
        "[[for.time]]\nid = 'x'\nlimit_us = 2\n"
    )
    fields = document("budget-show", etharness("budget", path, "--board", "native", "--json").out)
    assert [(item["field"], item["value"], item["source"]) for item in fields] == [
        ("id", "x", "own.toml:6"),
        ("event", "relu", "base.toml:4"),
        ("limit_us", 2, "own.toml:7"),
        ("B01", "note", "base.toml:7"),
    ]
    printed = etharness("budget", path, "--model", "a/b.pte").out
    assert "limit_us" in printed
    assert "base.toml:5" in printed
    assert printed.endswith("read, the last one wins: base.toml, own.toml\n")
    boards_own = etharness("budget", "--board", "native").out
    assert "default.toml:7" in boards_own
    unclear = etharness("budget")
    assert (unclear.code, "no budget is selected" in unclear.err) == (2, True)
