"""The HTML report: the verdict first, everything that is known of a run, and what is left out."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from harness import (
    Block,
    ClockDomain,
    ClockQuality,
    ClockRecord,
    DelegateCall,
    EvaluatedRun,
    FirmwareSize,
    Kind,
    Losses,
    Model,
    ModelOutput,
    Ping,
    ReferenceRecord,
    Subject,
    TargetRecord,
    TensorRecord,
    Trace,
    TraceSummary,
    Verdict,
    evaluate_path,
    render_report,
    write_report,
)
from harness.extensions.web.html.svg import Limits, axis, thinned
from harness.runs.directory import EventDocument, PostmortemDocument
from tests.conftest import FIXTURES, CommandResult
from tests.support.compared import with_history
from tests.support.pages import Page
from tests.support.reported import FINISHED, SMALL, failed_run, held, reported, unmet
from tests.support.traces import EventSpec, RunSpec, trace_of

ETDUMP = FIXTURES / "kws_f32_executorch.etdp"


def page_of(*runs: EvaluatedRun) -> Page:
    found = Page(render_report("report.html", runs))
    found.assert_sound()
    return found


def test_a_trace_alone_has_a_page_with_its_operators_tree_and_checks(tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    write_report(file, [evaluate_path(ETDUMP)])
    found = Page(file.read_bytes())
    found.assert_sound()
    assert found.text(found.all("title")[0]).startswith("PASS: ")
    assert "convolution #1" in found.section("-operators")
    exact = [cell.get("title") for cell in found.all("td")]
    assert any(
        (title or "").startswith("native_call_convolution.out · instruction ") for title in exact
    )
    assert "Method::execute" in found.section("-tree")
    assert "none: this is a trace alone" in found.section("-provenance")


def test_the_verdict_and_why_come_first_and_lead_to_an_explanation() -> None:
    run = reported(held(), unmet("B01", "relu", "2 us exceeds the limit of 1 us"))
    found = page_of(run)
    text = found.text(found.all("main")[0])
    assert text.index("2 us exceeds the limit of 1 us") < text.index("1 of 2 checks failed")
    assert text.index("2 us exceeds") < text.index("Operators")
    links = [a.get("href") for a in found.all("a")]
    assert "#code-B01" in links
    assert "times are within their limits" in found.section("codes")


def test_the_page_of_a_code_is_in_the_report_below_its_headings() -> None:
    found = page_of(reported(unmet("I12")))
    explanation = found.section("codes")
    assert "completed fewer executions than requested" in explanation
    assert "etharness postmortem DIRECTORY" in explanation
    assert "https://" not in explanation


def test_a_run_that_failed_says_what_to_try_and_what_the_board_was_doing() -> None:
    crash = PostmortemDocument(
        message="HardFault in conv2d (instruction 3), execution 2 of 5",
        cause="HardFault",
        running=True,
        run_id=1,
        execution=2,
        executions=5,
        build_id="abc",
        registers={"PC": 0x1234},
        places={"PC": "conv2d at conv2d.c:12"},
        open=(EventDocument("conv2d", -1, 0, 3, 17, None),),
        last_events=(EventDocument("quantize", -1, 0, 2, 5, 17),),
        allocators=[],
        losses=None,
        stack_used=0,
        stack_size=0,
        reset_reasons=(),
        resets=1,
        later_faults=0,
        damage=("the log is cut off",),
    )
    failed = failed_run("the board restarted", kind="RestartedError", exit_code=4)
    found = page_of(replace(failed, postmortem=crash, console="one\ntwo\x1b[0m\n"))
    text = found.text(found.all("main")[0])
    assert "the run failed: RestartedError: the board restarted" in text
    assert "exit code 4" in text
    assert "Try: try again" in text
    told = found.section("-postmortem")
    for expected in ("HardFault in conv2d", "0x00001234", "conv2d.c:12", "the log is cut off"):
        assert expected in told
    assert "one\ntwo\\x1b[0m" in found.section("-console")
    assert "executions requested and not completed2" in found.section("-losses").replace("\n", "")


def test_of_very_many_operators_the_worst_are_shown_and_the_rest_is_counted() -> None:
    count = 20_000
    trace = Trace.unset(
        count,
        names=[f"op{n}" for n in range(count)],
        blocks=[Block("Execute", 0, count)],
        clocks=[ClockDomain("c", Fraction(10**9))],
    )
    trace.name[:], trace.clock[:] = np.arange(count), 0
    trace.start[:] = np.arange(count) * 10_000_000
    trace.end[:] = trace.start + np.arange(count).astype(np.uint64)
    data = render_report(
        "report.html", [EvaluatedRun("many", Subject(trace.sealed()), Verdict(()))]
    )
    found = Page(data)
    shown = Limits.of(1).rows
    operators = found.section("-operators")
    assert "op19999" in operators
    assert f"{count - shown:,} more operators are not shown" in operators
    assert len([f for f in found.all("svg") if f.get("role") == "treeitem"]) == Limits.of(1).frames
    assert f"{count - Limits.of(1).frames:,} shorter ones are not drawn" in found.section("-tree")
    assert len(data) < 2_000_000


def test_a_long_name_is_cut_and_its_length_said() -> None:
    trace = trace_of(RunSpec([EventSpec("x" * 10_000, 0, 5)]))
    data = render_report("report.html", [EvaluatedRun("a", Subject(trace), Verdict(()))])
    assert b"[10,000 characters]" in data
    assert b"x" * 200 not in data


def test_every_loss_is_a_number_zero_too() -> None:
    assert "events dropped by the target0" in page_of(reported()).section("-losses").replace(
        "\n", ""
    )
    trace = replace(SMALL, losses=Losses(events=1234, runs=2)).sealed()
    text = page_of(reported(trace=trace)).section("-losses").replace("\n", "")
    assert "events dropped by the target1,234" in text
    assert "executions overwritten by newer ones, as requested2" in text


def test_link_clock_and_outputs_are_described() -> None:
    quality = ClockQuality(
        "cpu", "host", 3, ("first reading",), 9, 9, 8, 1500, 2, 1, (-3.0, 4.0), "it slept"
    )
    result = msgspec.structs.replace(
        FINISHED,
        baud=115_200,
        link={"retries": 3, "corrupt_crc": 2},
        pings=(Ping(0, 1000, 0, 5), Ping(10_000, 13_000, 1, 6)),
        model=Model(
            "dir/net.pte", "ab" * 32, 10, 20, 30, (), (TensorRecord(6, (1, 2), 8, "outputs/0.npy"),)
        ),
    )
    trace = replace(SMALL, clocks=(ClockDomain("cpu", Fraction(10**9), 32),)).sealed()
    outputs = (ModelOutput("outputs/0.npy", np.array([[1.0, 2.0]]), np.array([[1.0, 2.5]])),)
    subject = Subject(trace, qualities=(quality,), outputs=outputs)
    found = page_of(EvaluatedRun("a", subject, Verdict(()), result))
    link = found.section("-link")
    for expected in ("115,200 baud", "1,000.0 ns", "3,000.0 ns", "retries"):
        assert expected in link
    clocks = found.section("-clocks")
    for expected in ("within ±1,500.0 ns", "-3.0 to +4.0 ppm", "it slept", "2, among 1 event"):
        assert expected in clocks
    off = found.section("-outputs")
    assert "float32" in off
    assert "1 x 2" in off
    assert "0.5 at most" in off
    assert "frames damaged on the line, and sent again2" in found.section("-losses").replace(
        "\n", ""
    )


def test_everything_that_tells_a_run_from_another_is_said() -> None:
    clock = ClockRecord("cpu", 32, False, 100, 1)
    target = TargetRecord(
        "native", "x86", "b1d", 3, 512, (clock,), 1000, 2000, 30, 4000, 50, 7, 2, 9
    )
    call = DelegateCall(0, 1, "NpuBackend")
    tensor = TensorRecord(1, (4,), 4, "inputs/0.npy")
    model = Model("net.pte", "ab", 10, 20, 30, (tensor,), (), delegates=(call, call))
    log = TraceSummary(
        events=11,
        blocks=2,
        log_bytes=333,
        sha256="cd",
        dropped_events=0,
        dropped_blocks=0,
        missing_chunks=0,
        missing_records=0,
        streaming_ticks=44,
        stack_used=55,
        stack_size=66,
        values=7,
        dropped_values=0,
        dropped_runs=0,
        value_ticks=88,
        debug_bytes=99,
        etdp_left_out_allocations=12,
        etdp_left_out_values=13,
    )
    result = msgspec.structs.replace(
        FINISHED,
        target=target,
        image=FirmwareSize("stub", 1234, 56, 78),
        model=model,
        trace=log,
        time_scales={"npu*": "100 MHz"},
        reference=ReferenceRecord(("r/0.npy",), 0.5, None),
    )
    found = page_of(reported(result=result))
    text = " ".join(found.section("-provenance").split())
    for expected in (
        "native (x86), firmware b1d",
        "version 3, frames of up to 512 bytes",
        "room for log4,000 bytes",
        "clockcpu, 100 Hz, 32 bits; an empty event costs 3.5 ticks",
        "1,234 text + 56 data + 78 bss bytes",
        "net.pte, 10 bytes",
        "input 0int8, 4, 4 bytes, inputs/0.npy",
        "delegatesNpuBackend (2 instructions)",
        "11 events of 2 blocks in 333 bytes",
        "7 with 99 bytes of tensors",
        "44 ticks, between operators",
        "55 of 66 bytes used",
        "time scale of npu*100 MHz",
        "of 1 output, tolerance rtol 0.5",
    ):
        assert expected in text
    losses = "".join(found.section("-losses").split("\n"))
    assert "allocations left out of the ED00 copy12" in losses
    assert "values left out of the ED00 copy13" in losses


@given(st.lists(st.integers(-5, 5), min_size=1, max_size=400), st.integers(3, 60))
@example([0, -1, 1, 0] * 2, 6)
def test_a_thinned_curve_keeps_its_ends_and_extremes(values: list[int], points: int) -> None:
    column = np.array(values, np.int64)
    kept = thinned(column, points)
    assert (np.diff(kept) > 0).all()
    assert {0, len(values) - 1} <= set(kept.tolist())
    assert column[kept].max() == column.max()
    assert column[kept].min() == column.min()
    assert len(kept) <= max(points, 5)


@given(st.floats(-1e18, 1e18), st.floats(0, 1e18))
@example(6.01e16, 13.0)
@example(0.0, 5e-324)
def test_labels_of_an_axis_are_few_and_within_it(low: float, span: float) -> None:
    found = axis([low, low + span], from_zero=False)
    ticks = found.ticks()
    assert 1 <= len(ticks) <= 6
    assert all(-1 <= found.at(tick) <= 1001 for tick in ticks)


def test_memory_with_times_is_drawn_on_its_clock() -> None:
    trace = Trace.unset(
        2,
        blocks=[Block("Execute", 0, 2, allocators=("heap",))],
        clocks=[ClockDomain("c", Fraction(10**6))],
    )
    trace.kind[:], trace.allocator[:], trace.clock[:] = Kind.ALLOCATION, 1, 0
    trace.size[:], trace.start[:], trace.end[:] = [10, 20], [1000, 3000], [1000, 3000]
    assert "2 ms" in page_of(reported(trace=trace.sealed())).section("-memory")
    unknown = replace(trace, clocks=(ClockDomain("c", None),)).sealed()
    assert "2,000 ticks" in page_of(reported(trace=unknown)).section("-memory")


def test_history_shows_what_changed_with_its_interval_and_where_it_stepped() -> None:
    found = page_of(with_history())
    text = found.section("-history")
    for expected in (
        "the first 10; 10 of 20 results, of 5 sessions",
        "1 slower, ",
        "6.7 ns [6.6, 6.8]",
        "+3.3 ns [+3.2, inf]",
        "+50.00 %",
        "far beyond the noise",
        "one result was left out",
    ):
        assert expected in text
    trends = found.section("-trends")
    assert "49.3 % slower since 20000000" in trends
    pictures = [s for s in found.all("svg") if s.get("role") == "img"]
    assert any("20 earlier results" in s.get("aria-label", "") for s in pictures)


def test_a_trend_is_of_one_unit_and_of_the_statistic_that_history_has() -> None:
    run = with_history()
    assert run.history is not None
    away = tuple(
        msgspec.structs.replace(result, unit="board" if place % 2 else "other")
        for place, result in enumerate(run.history.results)
    )
    cold = tuple(
        msgspec.structs.replace(
            series,
            metric=msgspec.structs.replace(series.metric, statistic="cold avg"),
        )
        for series in run.history.series
    )
    history = msgspec.structs.replace(run.history, results=away, series=cold)
    found = page_of(replace(run, history=history, comparison=None))
    text = found.section("-trends")
    assert "cold average of relu #1 of " in text
    assert "10 results are of other units and not drawn" in text
    pictures = [s for s in found.all("svg") if s.get("role") == "img"]
    assert any("10 earlier results" in s.get("aria-label", "") for s in pictures)


def test_memory_is_drawn_with_peaks_and_refusals() -> None:
    count = 4
    trace = Trace.unset(
        count,
        names=["conv"],
        blocks=[Block("Execute", 0, count, allocators=("heap", "pool"))],
        clocks=[ClockDomain("c", Fraction(10**9))],
    )
    trace.kind[:] = Kind.ALLOCATION
    trace.allocator[:] = [1, 1, 2, 1]
    trace.size[:] = [1000, -1000, 48, 9000]
    trace.failed[3] = True
    subject = Subject(trace.sealed(), planned={"heap": 2000})
    found = page_of(EvaluatedRun("a", subject, Verdict(()), None))
    text = found.section("-memory")
    assert "heap: peak 1,000 bytes of 2,000 bytes" in text
    assert "capacity 2,000 bytes" in text
    assert "50.0 %" in text
    assert "Refused" in text
    assert "9,000" in text
    assert "change 1" in text  # nothing has a time


def test_the_tree_of_clocks_that_do_not_compare_says_what_is_not_drawn() -> None:
    trace = trace_of(
        RunSpec(
            [
                EventSpec("inner", 2, 5, delegate="npu"),
                EventSpec("DELEGATE_CALL", 1, 9),
                EventSpec("x", 0, 10),
            ]
        ),
    )
    clocks = (trace.clocks[0], ClockDomain("npu", None, 32))
    column = trace.clock.copy()
    column[0] = 1
    found = page_of(reported(trace=replace(trace, clocks=clocks, clock=column).sealed()))
    text = found.section("-tree")
    assert "1 are on clocks that do not compare" in " ".join(text.split())
    assert "3 ticks" in text


def test_a_trace_that_no_clock_can_hold_is_shown_without_a_tree() -> None:
    far = 2**63 + 5
    clock = ClockDomain("c", Fraction(10**9), 64)
    events = [EventSpec("a", n * far % 2**64, (n * far + 1) % 2**64) for n in range(6)]
    found = page_of(reported(trace=trace_of(RunSpec(events), clock=clock)))
    assert "There is neither a call tree nor memory over time" in found.text(found.all("main")[0])
    assert "a" in found.section("-operators")


def test_the_same_runs_give_the_same_bytes() -> None:
    assert render_report("report.html", [with_history()]) == render_report(
        "report.html", [with_history()]
    )


def test_without_jinja_the_extra_is_named_before_anything_runs(
    monkeypatch: pytest.MonkeyPatch, etharness: Callable[..., CommandResult], tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    run = ("run", "--board", "native", "--model", "small_int8", "-o", tmp_path / "run")
    for command in (run, ("check", ETDUMP)):
        code, _, err = etharness(*command, "--report", tmp_path / "report.html")
        assert code == 2
        assert "jinja2" in err
        assert "etdump-harness[report]" in err
    assert not (tmp_path / "run").exists()
