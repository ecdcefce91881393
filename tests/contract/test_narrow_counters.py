"""Counters that wrap within a scope: durations are true, or called unknown; never a guess."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import harness
from harness.strategies import DeviceLog

Etharness = Callable[..., Any]
OPERATOR = "native_call_mul.out"
EXECUTION = "Method::execute"


def execution(log: DeviceLog, began: int, gaps: list[int], operators: list[int], bits: int) -> int:
    """Log an execution of operators with gaps before each and after all; return its end."""
    mask, now = 2**bits - 1, began
    log.block("Execute")
    for number, length in enumerate(operators):
        start = now + gaps[number]
        now = start + length
        log.profile(OPERATOR, start & mask, now & mask, instruction=number)
    now += gaps[-1]
    log.profile(EXECUTION, began & mask, now & mask, chain=-1)
    return now


def saved(log: DeviceLog, folder: Path) -> Path:
    path = folder / "x.etlog"
    path.write_bytes(log.image())
    return path


def decoded(etharness: Etharness, path: Path, hz: int, bits: int) -> list[dict[str, Any]]:
    ended = etharness("decode", path, "--clock-hz", str(hz), "--clock-bits", str(bits), "--json")
    assert ended.code == 0, ended.err
    return list(json.loads(ended.out)["operators"])


def test_an_execution_lasts_as_long_as_its_operators(tmp_path: Path, etharness: Etharness) -> None:
    log = DeviceLog()
    execution(log, 5, [0, 0, 0], [3 * 10**9, 3 * 10**9], 32)
    first, second, whole = decoded(etharness, saved(log, tmp_path), 10**9, 32)
    assert (first["ns"]["p50"], second["ns"]["p50"]) == (3e9, 3e9)
    assert whole["ns"]["p50"] == 6e9
    run = harness.load(tmp_path / "x.etlog", clock_hz=1e9, clock_bits=32)
    assert [operator.operator.share for operator in run.operators()] == [0.5, 0.5, 1.0]


def test_a_24_bit_counter_times_an_execution_of_many_wraps(
    tmp_path: Path, etharness: Etharness
) -> None:
    hz, log = 125_000_000, DeviceLog()
    lengths = [15 * hz // 1000] * 18  # 270 ms, two wraps of 134 ms
    execution(log, 100, [1000] * 19, lengths, 24)
    *operators, whole = decoded(etharness, saved(log, tmp_path), hz, 24)
    assert whole["ticks"]["p50"] == sum(lengths) + 19_000
    assert sum(operator["ticks"]["p50"] for operator in operators) == sum(lengths)


def test_a_scope_that_may_contain_what_was_before_it_is_unknown(
    tmp_path: Path, etharness: Etharness
) -> None:
    log = DeviceLog()
    end = execution(log, 0, [0, 0, 0], [3 * 10**9, 3 * 10**9], 32)
    log.profile("postprocess", (end - 2**32) % 2**32, end % 2**32, chain=-1)
    path = saved(log, tmp_path)
    *_, whole, scope = decoded(etharness, path, 10**9, 32)
    assert (whole["unknown"], whole["ns"]["p50"]) == (0, 6e9)
    assert (scope["unknown"], scope["ns"]) == (1, None)
    options = ("--clock-hz", "1e9", "--clock-bits", "32")
    assert "I22" in etharness("check", path, *options).out
    assert "?" in etharness("decode", path, *options).out


@st.composite
def runs(draw: st.DrawFn) -> tuple[int, list[tuple[int, list[int], list[int]]]]:
    """The width of a counter; idle time before, gaps and operators of each execution."""
    bits = draw(st.sampled_from([16, 24, 32]))
    # Differences of the last 1/65,536 of the range are steps back.
    longest = 2**bits - 1 - 2 ** (bits - 16)
    length = st.one_of(st.integers(0, 9), st.integers(0, longest // 3), st.integers(0, longest))
    operator = st.one_of(length, st.integers(longest, 2**bits - 1))
    executions = []
    for _ in range(draw(st.integers(1, 4))):
        operators = draw(st.lists(operator, min_size=1, max_size=6))
        gaps = draw(st.lists(length, min_size=len(operators) + 1, max_size=len(operators) + 1))
        # Idle time and the first gap together are between two events.
        executions.append((draw(st.integers(0, longest - gaps[0])), gaps, operators))
    return bits, executions


@given(runs())
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_known_duration_is_the_true_one(
    tmp_path: Path, run: tuple[int, list[tuple[int, list[int], list[int]]]]
) -> None:
    bits, executions = run
    log, now, true = DeviceLog(), 0, []
    for idle, gaps, operators in executions:
        now = execution(log, now + idle, gaps, operators, bits)
        true += [*operators, sum(gaps) + sum(operators)]
    loaded = harness.load(saved(log, tmp_path), clock_hz=1e6, clock_bits=bits)
    most = 2**bits - 2 ** (bits - 16)
    for operator in loaded.operators():
        lengths = [true[row] for row in operator.operator.rows.tolist()]
        if operator.operator.unknown == 0:
            assert operator.ticks.max == max(lengths)
            assert operator.ticks.total == sum(lengths)
        elif operator.name != EXECUTION:
            assert operator.operator.unknown == sum(length >= most for length in lengths)
        assert operator.operator.share is None or operator.operator.share <= 1


@pytest.mark.extension("exports")
@pytest.mark.parametrize("bits", [24, 32])
def test_exported_tables_have_the_true_durations(
    bits: int, tmp_path: Path, etharness: Etharness
) -> None:
    length = 2**bits * 3 // 4
    log = DeviceLog()
    end = execution(log, 7, [1] * 5, [length] * 4, bits)
    path, table = saved(log, tmp_path), tmp_path / "x.csv"
    options = ("--clock-hz", "1e6", "--clock-bits", str(bits))
    assert etharness("export", path, *options, "-f", "csv", "-o", table).code == 0
    assert str(end - 7) in table.read_text("utf-8")
