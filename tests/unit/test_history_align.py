"""Histories go on after an edit of the graph, and what is lost is said."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace

from harness import (
    HOST_NANOSECONDS,
    Check,
    Decision,
    History,
    HistoryComparison,
    InstructionRecord,
    Measured,
    Metric,
    Sample,
    Subject,
    compare_with_history,
    measure,
    open_store,
)
from harness.analyze.counterparts import ProgramOutline
from harness.check.history.align import aligned, as_newest
from harness.check.history.samples import decode_history, encode_history, with_results
from harness.runs.source import subject_of
from tests.support.histories import history_checks, provenance
from tests.support.results import made, trace_with

WHOLE = Metric("operator", "Method::execute", "p50", "ns", "Execute", -1, 0, clock="cycles")
Program = Sequence[tuple[str, str]]
"""Name and shape of every operator; "" for an unknown one."""


def metric(name: str, instruction: int) -> Metric:
    return Metric("operator", name, "p50", "ns", "Execute", 0, instruction, clock="cycles")


def program(count: int = 25) -> list[tuple[str, str]]:
    return [(("conv", "relu", "pad")[n % 3], f"[{n // 6}]") for n in range(count)]


def without(whole: Program, *removed: int) -> list[tuple[str, str]]:
    return [step for number, step in enumerate(whole) if number not in removed]


def outline(of: Program) -> ProgramOutline | None:
    return ProgramOutline((tuple(shape for _, shape in of),)) if of[0][1] else None


def measured(
    number: int, of: Program, times: Sequence[float], sha: str, *, unit: str = "one"
) -> Measured:
    """A result in which the operators of a program take these times; noise is 0.1 %."""
    chance = np.random.default_rng(number)
    noisy = [value * (1 + 1e-3 * chance.standard_normal()) for value in times]
    samples = {metric(name, n): Sample(noisy[n], 20) for n, (name, _) in enumerate(of)}
    samples[WHOLE] = Sample(sum(noisy), 20)
    result = replace(provenance(number, f"s{number}", f"c{number}", unit), model_sha256=sha)
    return Measured(result, samples, outline(of))


TIMES = [10_000.0 * (1 + n) for n in range(25)]


def nights(of: Program, count: int = 12, sha: str = "a") -> History:
    history = History(baseline=tuple(range(count)), description="the last 20")
    return with_results(history, [measured(n, of, TIMES[: len(of)], sha) for n in range(count)])


def names(checks: Sequence[Check], code: str) -> list[str]:
    return [check.subject for check in checks if check.code == code and not check.passed]


def said(comparison: HistoryComparison) -> str:
    [note] = comparison.notes
    return note


def test_an_operator_that_is_slower_after_a_fusion_is_named() -> None:
    old = program()
    new, times = without(old, 5), [t for n, t in enumerate(TIMES) if n != 5]
    times[9] *= 3  # instruction 10 of the old program
    found = compare_with_history(nights(old), [measured(50, new, times, "b")])
    checks = history_checks(found)
    assert names(checks, "H01") == ["relu, instruction 9"]
    assert not names(checks, "H07")
    assert said(found) == (
        "the model was changed: 24 of 24 operators compared with the same operators of earlier "
        "programs; 1 of 25 earlier operators gone: pad #5; the total time of the method is "
        "compared as Method::execute"
    )


def test_nothing_is_slower_after_an_edit_that_changes_no_time() -> None:
    old = program()
    new, times = without(old, 5, 11, 12), [t for n, t in enumerate(TIMES) if n not in (5, 11, 12)]
    found = compare_with_history(nights(old), [measured(50, new, times, "b")])
    assert {n.judgement for n in found.numbers if n.metric.kind == "operator"} <= {
        *("same", "improvement")
    }
    assert [n.metric for n in found.numbers if n.judgement == "improvement"] == [WHOLE]


def test_a_slow_new_operator_shows_in_the_total() -> None:
    old = program()
    new, times = [*old], [*TIMES]
    new.insert(7, ("attention", "[9]"))
    times.insert(7, 4e6)
    found = compare_with_history(nights(old), [measured(50, new, times, "b")])
    assert names(history_checks(found), "H01") == ["Method::execute, total time of the method"]
    assert "25 of 26 operators compared" in said(found)
    assert "; 1 new, without history: attention #7; " in said(found)
    assert [n.metric.name for n in found.numbers if n.judgement == "appeared"] == ["attention"]


def test_without_shapes_what_may_be_two_operators_is_not_compared() -> None:
    old = [("conv", ""), ("conv", ""), ("relu", ""), ("pad", "")]
    found = compare_with_history(
        nights(old), [measured(50, old[1:], [30_000.0, 30_000.0, 40_000.0], "b")]
    )
    assert "2 of 3 operators compared" in said(found)
    assert "1 new, without history: conv #0; 1 of these may be any of several" in said(found)
    assert "2 of 4 earlier operators gone: conv #0, conv #1" in said(found)
    assert names(history_checks(found), "H01") == []


def test_other_shapes_in_place_are_compared_and_said() -> None:
    old = program()
    new, times = [*old], [*TIMES]
    new[4], times[4] = (new[4][0], "[99]"), 3 * times[4]
    found = compare_with_history(nights(old), [measured(50, new, times, "b")])
    assert names(history_checks(found), "H01")[0] == "relu, instruction 4"
    assert "25 of 25 operators compared" in said(found)
    assert "; 1 with other shapes: relu #4; " in said(found)


def test_the_same_operators_in_another_file_are_compared_without_a_word() -> None:
    found = compare_with_history(nights(program()), [measured(50, program(), TIMES, "b")])
    assert not found.notes
    assert {number.judgement for number in found.numbers} == {"same"}


def test_a_baseline_with_the_tested_program_says_nothing() -> None:
    old, new = program(), without(program(), 5)
    times = [t for n, t in enumerate(TIMES) if n != 5]
    history = nights(old)
    history = with_results(history, [measured(n, new, times, "b") for n in range(12, 16)])
    history = replace(history, baseline=tuple(range(16)))
    found = compare_with_history(history, [measured(50, new, times, "b")])
    assert not found.notes
    assert not names(history_checks(found), "H07")
    sessions = {n.baseline_sessions for n in found.numbers}
    assert sessions == {16}


def test_a_log_without_the_execution_says_so() -> None:
    old = program()
    history = nights(old)
    item = measured(50, old[1:], TIMES[1:], "b")
    samples = {one: sample for one, sample in item.samples.items() if one != WHOLE}
    found = compare_with_history(history, [replace(item, samples=samples)])
    assert said(found).endswith(
        "; the total time of the method is unknown: its log has no Method::execute, and its times "
        "cannot be added"
    )


def test_a_log_without_the_execution_has_the_sum_of_its_operators() -> None:
    times = {"native_call_a": [10, 20, 30], "native_call_b": [1, 1, 1]}
    found = measure(made("x", trace_with(times)).subject)
    [total] = [one for one in found if one.name == "sum of operators"]
    assert (total.block, total.chain, total.unit, total.clock) == (
        *("Execute", -1, "ns", HOST_NANOSECONDS.name),
    )
    assert (found[total].value, found[total].count) == (21.0, 3)
    with_execution = measure(made("x", trace_with({"Method::execute": [9], "a": [9]})).subject)
    assert not [one for one in with_execution if one.name == "sum of operators"]


def test_times_on_clocks_of_unknown_rate_are_not_added() -> None:
    whole = trace_with({"a": [5], "b": [3]})
    clocks = (HOST_NANOSECONDS, dataclasses.replace(HOST_NANOSECONDS, name="npu", hz=None))
    trace = dataclasses.replace(whole, clocks=clocks, clock=np.arange(len(whole)) % 2)
    assert {one.clock for one in measure(Subject(trace))} >= {HOST_NANOSECONDS.name, "npu"}
    assert not [one for one in measure(Subject(trace)) if one.name == "sum of operators"]


def test_the_sum_is_added_to_older_results_where_it_is_exact() -> None:
    total = replace(WHOLE, name="sum of operators", instruction=-1)
    old = program(3)

    def history(std: float) -> History:
        found = History(baseline=(0,))
        samples = {metric(name, n): Sample(10.0 * n, 20, std) for n, (name, _) in enumerate(old)}
        return with_results(found, [Measured(provenance(0, "s", "c"), samples)])

    tested = [Measured(provenance(9, "t", "d"), {total: Sample(31.0, 20)})]
    exact, _, _ = aligned(history(0.0), tested)
    assert [one.samples[0].value for one in exact.series if one.metric == total] == [30.0]
    noisy, _, _ = aligned(history(1.0), tested)
    assert total not in {one.metric for one in noisy.series}
    assert aligned(exact, tested)[0] == exact


def test_decisions_follow_their_operators() -> None:
    old, new = program(), without(program(), 5)

    def about(instruction: int) -> Decision:
        name = old[instruction][0]
        start = provenance(11, "", "").started_utc
        return Decision(
            kind="accepted",
            unit="one",
            metric=replace(metric(name, instruction), statistic=""),
            since_utc=start,
            at_utc=start,
            reason="",
            who="",
            made_utc=start,
        )

    history = replace(nights(old), decisions=(about(10), about(5), about(2)))
    found, _, _ = aligned(history, [measured(50, new, TIMES[1:], "b")])
    assert [(one.metric.name, one.metric.instruction) for one in found.decisions] == [
        *(("relu", 9), ("pad", 2)),
    ]


def test_candidates_of_two_programs_get_the_names_of_the_newest() -> None:
    old, new = program(), without(program(), 5)
    both = [
        measured(50, old, TIMES, "a", unit="two"),
        measured(51, new, [t for n, t in enumerate(TIMES) if n != 5], "b"),
    ]
    _, candidates, _ = aligned(nights(old), both)
    assert {*candidates[0].samples} == {*both[1].samples}
    assert candidates[1] is both[1]


def test_a_history_of_one_program_stays_as_it_is() -> None:
    history, tested = nights(program()), [measured(50, program(), TIMES, "a")]
    assert aligned(history, tested) == (history, tested, ())
    assert aligned(history, []) == (history, [], ())


def test_outlines_are_saved_with_a_history() -> None:
    history = replace(nights(program()), outlines={"a": ProgramOutline((("\udc80",),))})
    assert decode_history(encode_history(history), "here") == history


def test_twenty_programs_of_a_thousand_operators_are_aligned_fast() -> None:
    whole = [(f"op{n % 7}", f"[{n % 50}]") for n in range(1_000)]
    history = History(baseline=tuple(range(20)))
    for number in range(20):
        one = without(whole, 40 * number)
        results = [measured(number, one, [1e4] * len(one), f"p{number}")]
        history = with_results(history, results)
    began = time.process_time()
    found, _, lost = aligned(history, [measured(50, whole, [1e4] * 1_000, "b")])
    assert time.process_time() - began < 15
    assert len(found.series) == 1_001
    assert sum(len(series.results) for series in found.series) == 20 * 1_000
    assert not lost  # each operator is in some of the earlier programs


def test_a_store_keeps_what_is_known_of_a_program_once(store_url: str) -> None:
    trace = trace_with({"native_call_a": [10, 20]})
    with open_store(store_url) as store:
        for name in ("one", "two"):
            item = made(name, trace)
            step = InstructionRecord("kernel", "aten::add.out", operands="int8[1] -> int8[1]")
            chains = ((step,),)
            assert item.result.model is not None
            model = replace(item.result.model, chains=chains)
            result = replace(item.result, model=model)
            store.add(result, subject_of(trace, result))
        old = made("old", trace)
        store.add(old.result, old.subject)
        history = store.history("native", "kws.pte", "forward", baseline=None)
        assert store.info().rows["programs"] == 1
    assert history.outlines == {"ab" * 32: ProgramOutline((("aten::add.out int8[1] -> int8[1]",),))}


def test_series_are_shown_with_the_names_of_the_newest_program() -> None:
    old, new = program(), without(program(), 5)
    times = [t for n, t in enumerate(TIMES) if n != 5]
    history = with_results(nights(old), [measured(20, new, times, "b")])
    shown = as_newest(history)
    by_metric = {series.metric: series for series in shown.series}
    assert len(by_metric[metric("relu", 9)].results) == 13
    assert len(by_metric[metric("pad", 5)].results) == 12  # gone, and no other has its name
    assert len(shown.series) == 24 + 1 + 1
    assert as_newest(History()) == History()
    assert as_newest(nights(old)) == nights(old)
