"""Two traces op by op: through the view and through the command."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from harness import Change, ClockDomain, ClockRecord, NotComparableError, Trace, compare, read_log
from harness.runs.directory import RunDirectory
from tests.conftest import CommandResult
from tests.support.documents import document
from tests.support.examples import examples
from tests.support.logs import CompactLog
from tests.support.reported import FINISHED
from tests.support.results import TARGET

CPU = ClockDomain("cpu", Fraction(1_000_000), 32)
NPU = ClockDomain("npu", None, 32)


def log(
    *runs: dict[str, int], layers: tuple[str, ...] = (), heap: int = 100, dropped: int = 0
) -> CompactLog:
    """Runs of operators with these durations in ticks; instructions count up by name."""
    written = CompactLog().block("Default").profile("Method::init", 0, 9, chain=-1)
    written.allocator("heap").allocation(1, heap, offset=0)
    names = sorted({name for run in runs for name in run})
    for run in runs:
        written.block("Execute")
        for name, ticks in run.items():
            written.profile(name, 10, 10 + ticks, instruction=names.index(name))
        for layer in layers:
            written.delegate(layer).profile(None, 0, 40, chain=1, clock=1)
        written.profile("Method::execute", 0, 500, chain=-1)
    written.dropped_events = dropped
    return written


def trace(*runs: dict[str, int], layers: tuple[str, ...] = (), heap: int = 100) -> Trace:
    return read_log(log(*runs, layers=layers, heap=heap).image(), [CPU, NPU])


def test_what_became_slower_by_most_comes_first() -> None:
    before = trace({"a": 10, "b": 100, "c": 50}, {"a": 10, "b": 100, "c": 50})
    after = trace({"a": 30, "b": 90, "c": 51})
    found = compare(before, after)
    execute = [change for change in found.operators if change.block == "Execute"]
    assert [change.name for change in execute] == ["a", "c", "Method::execute", "b"]
    assert execute[0].time == Change(10e3, 30e3, 20e3, 3.0)
    assert execute[0].count == Change(2, 1, -1, 0.5)
    assert execute[0].per_run == Change(1, 1, 0, 1)
    assert (found.appeared, found.vanished) == ((), ())


def test_repeats_in_a_run_weigh_and_show() -> None:
    before, after = CompactLog(), CompactLog()
    for written, count in ((before, 1), (after, 4)):
        written.block("Execute").profile("once", 0, 10 + 5 * (written is after), instruction=9)
        for _turn in range(count):
            written.profile("loop", 0, 10 + 2 * (written is after))
    found = compare(*(read_log(written.image(), [CPU]) for written in (before, after)))
    assert [change.name for change in found.operators] == ["loop", "once"]
    assert found.operators[0].per_run == Change(1, 4, 3, 4)


def test_what_appeared_and_vanished_is_listed_with_delegate_ids() -> None:
    before = trace({"a": 10, "gone": 7}, layers=("conv", "old"))
    after = trace({"a": 10, "new": 8}, layers=("conv", "pool"), heap=64)
    found = compare(before, after)
    assert [change.delegate_str or change.name for change in found.appeared] == ["new", "pool"]
    assert [change.delegate_str or change.name for change in found.vanished] == ["gone", "old"]
    assert found.vanished[0].time == Change(7e3, None, None, None)
    conv = next(change for change in found.operators if change.delegate_str == "conv")
    assert (conv.unit, conv.time.ratio) == ("ticks", 1)
    (heap,) = found.allocators
    assert heap.peak_bytes == Change(100, 64, -36, 0.64)


def test_cold_and_warm_runs_compare_with_their_like() -> None:
    before = trace({"a": 90}, {"a": 10}, {"a": 12})
    after = trace({"a": 50}, {"a": 20}, {"a": 22}, {"a": 24})

    def ratio(executions: str) -> float | None:
        found = compare(before, after, statistic="avg", executions=executions)  # type: ignore[arg-type]
        assert {change.block for change in found.operators} == {"Execute"}
        change = next(change for change in found.operators if change.name == "a")
        assert change.per_run == Change(1, 1, 0, 1)
        return change.time.ratio

    assert ratio("cold") == pytest.approx(5 / 9)
    assert ratio("warm") == 2


def test_clocks_may_be_called_otherwise_but_ticks_are_no_nanoseconds() -> None:
    image = log({"a": 10}).image()
    known = read_log(image, [ClockDomain("dwt", Fraction(2_000_000), 32)])
    assert compare(trace({"a": 10}), known).operators[-1].time.ratio == 0.5
    unknown = compare(trace({"a": 10}), read_log(image))
    assert {change.time.before for change in unknown.operators} == {None}
    assert {change.time.difference for change in unknown.operators} == {None}
    assert unknown.operators[0].unit == "ticks"


def test_traces_without_anything_in_common_do_not_compare() -> None:
    with pytest.raises(NotComparableError, match="no operator") as error:
        compare(trace({"a": 1}), Trace.unset(0))
    assert "Execute" in error.value.hint
    assert error.value.exit_code == 3


RUNS = st.lists(
    st.dictionaries(st.sampled_from("abcd"), st.integers(0, 1000)), min_size=1, max_size=4
)


@given(RUNS, RUNS)
@settings(max_examples=examples(40))
def test_swapping_the_traces_turns_every_difference_around(
    one: list[dict[str, int]], other: list[dict[str, int]]
) -> None:
    forth = compare(trace(*one), trace(*other))
    back = compare(trace(*other), trace(*one))
    names = [change.name for change in forth.appeared]
    assert names == [change.name for change in back.vanished]
    turned = {(c.block, c.name, c.instruction): c for c in back.operators}
    for change in forth.operators:
        opposite = turned[change.block, change.name, change.instruction]
        assert change.time.before == opposite.time.after
        assert change.time.difference == -(opposite.time.difference or 0)
    same = compare(trace(*one), trace(*one))
    assert all(change.time.difference == 0 for change in same.operators)
    assert same.appeared == same.vanished == ()


def test_the_command_prints_the_worst_first_and_a_document(
    etharness: Callable[..., CommandResult], tmp_path: Path
) -> None:
    paths = tmp_path / "before.etlog", tmp_path / "after.etlog"
    paths[0].write_bytes(log({"a": 10, "b": 100, "gone": 3}).image())
    paths[1].write_bytes(log({"a": 30, "b": 90}, heap=64, dropped=2).image())
    result = etharness("compare", *paths)
    lines = result.out.splitlines()
    assert result.code == 0
    assert lines[0].startswith("LOSSES: the second trace")
    begin = lines.index("Operators by p50 in ticks; per run: 1")
    assert lines[begin + 2].split() == ["a", "#0", "10", "30", "3.000", "+20"]
    assert lines[begin + 3].split() == ["b", "#1", "100", "90", "0.900", "-10"]
    assert "the same: 2 of 4 operators" in lines
    assert lines[lines.index("Vanished") + 2].split() == ["gone", "#2", "3", "1"]
    heap = next(line for line in lines if line.startswith("heap"))
    assert heap.split() == ["heap", "100", "->", "64", "-36", "100", "->", "64", "1", "0"]
    assert "Method::init" in etharness("compare", *paths, "-v").out

    found = document("compare", etharness("compare", *paths, "--json").out)
    unknown = {"alike": None, "options": [], "before": "", "after": ""}
    assert found["comparison"]["settings"] == {
        **unknown,
        "unknown": "no settings of either are recorded",
    }
    assert found["before"]["path"] == str(paths[0])
    assert found["after"]["losses"]["events"] == 2
    assert found["comparison"]["operators"][0]["time"]["ratio"] == 3


def test_executions_come_first_and_scopes_that_wrap_a_kernel_only_on_request(
    etharness: Callable[..., CommandResult], tmp_path: Path
) -> None:
    paths = tmp_path / "before.etlog", tmp_path / "after.etlog"
    for path, ticks in zip(paths, (10, 30), strict=True):
        written = CompactLog().block("Execute")
        for number in range(30):
            start = 100 * number
            name = "add.out" if number % 2 else "addmm.out"
            written.profile(f"native_call_{name}", start, start + ticks, instruction=number)
            written.profile("OPERATOR_CALL", start, start + ticks + 9, instruction=number)
        written.profile("Method::execute", 0, 3_000 + 30 * ticks, chain=-1)
        path.write_bytes(written.image())
    lines = etharness("compare", *paths).out.splitlines()
    begin = next(n for n, line in enumerate(lines) if line.startswith("Operators by p50"))
    assert lines[begin + 2].startswith("Method::execute ")
    assert lines[begin + 22] == "... 11 more (--top 31)"
    assert not any("OPERATOR_CALL" in line for line in lines)
    assert "OPERATOR_CALL" in etharness("compare", *paths, "-v").out
    few = etharness("compare", *paths, "--top", "2").out.splitlines()
    assert few[begin + 4] == "... 29 more (--top 31)"
    kinds = etharness("compare", *paths, "--by", "kind").out.splitlines()
    rows = [line.split() for line in kinds if line.startswith(("linear", "elementwise"))]
    assert sorted(rows) == [
        ["elementwise", "150", "450", "+300", "200.0", "%"],
        ["linear", "150", "450", "+300", "200.0", "%"],
    ]


def test_the_same_trace_has_nothing_to_show(
    etharness: Callable[..., CommandResult], tmp_path: Path
) -> None:
    path = tmp_path / "trace.etlog"
    path.write_bytes(log({"a": 10}).image())
    out = etharness("compare", path, path).out
    assert out.splitlines()[3:] == [
        "the same: 3 of 3 operators",
        "",
        "the same: all allocators",
    ]


def test_bad_input_is_the_users_and_strangers_do_not_compare(
    etharness: Callable[..., CommandResult], tmp_path: Path
) -> None:
    paths = tmp_path / "before.etlog", tmp_path / "after.etlog"
    paths[0].write_bytes(log({"a": 10}).image())
    paths[1].write_bytes(CompactLog().block("Other").profile("x", 0, 1).image())
    assert etharness("compare", *paths).code == 3
    assert etharness("compare", paths[0], tmp_path / "nowhere").code == 2
    assert etharness("compare", paths[0], paths[1], "--statistic", "mode").code == 2


def test_times_in_ticks_are_said_to_be_ticks(
    etharness: Callable[..., CommandResult], tmp_path: Path
) -> None:
    paths = tmp_path / "before.etlog", tmp_path / "after.etlog"
    for path, ticks in zip(paths, (10, 25), strict=True):
        path.write_bytes(log({"a": ticks}).image())
    out = etharness("compare", *paths).out
    assert "Operators by p50 in ticks" in out


def test_a_clock_of_unknown_rate_among_times_has_ticks(
    etharness: Callable[..., CommandResult], tmp_path: Path
) -> None:
    clocks = (ClockRecord("cpu", 32, False, 1_000_000, 1), ClockRecord("npu", 32, False, 0, 1))
    result = replace(FINISHED, target=replace(TARGET, clocks=clocks))
    for name, ticks in (("before", 10), ("after", 20)):
        directory = RunDirectory.create(tmp_path / name)
        image = log({"a": ticks}, layers=("conv",), heap=100 + ticks).image()
        directory.write("trace.etlog", image)
        directory.finish(result)
    out = etharness("compare", tmp_path / "before", tmp_path / "after", "-v").out
    assert "Operators by p50 in us" in out
    assert "40 ticks" in out
