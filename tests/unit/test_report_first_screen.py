"""The first screen of a run's page, its timelines, strips and memory plan."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import (
    Check,
    ClockDomain,
    ClockQuality,
    EvaluatedRun,
    InstructionRecord,
    Kind,
    Losses,
    Model,
    ModelOutput,
    Subject,
    Trace,
    Verdict,
    render_report,
)
from tests.conftest import FIXTURES
from tests.support.compared import with_history
from tests.support.pages import Page
from tests.support.reported import FINISHED, held, reported, unmet
from tests.support.traces import EventSpec, RunSpec, trace_of

MODEL = FIXTURES.parents[1] / "firmware_stub/models/kws_int8.pte"


def runs_of(*lengths: int, gap: int = 10) -> Trace:
    """Executions of two operators, of which the first takes each of these times."""
    runs = []
    for length in lengths:
        events = [
            EventSpec("native_call_convolution.out", gap, gap + length, instruction=0),
            EventSpec("OPERATOR_CALL", gap, gap + length, instruction=0),
            EventSpec("native_call_relu.out", 2 * gap + length, 3 * gap + length, instruction=1),
            EventSpec("Method::execute", 0, 4 * gap + length, chain=-1, instruction=-1),
        ]
        runs.append(RunSpec(events))
    return trace_of(*runs)


def page_of(run: EvaluatedRun) -> Page:
    found = Page(render_report("report.html", [run]))
    found.assert_sound()
    return found


def tiles(found: Page) -> dict[str, str]:
    """The text of each tile, by its label."""
    [group] = [item for item in found.all("dl") if item.get("class") == "tiles"]
    texts = {}
    for tile in group:
        label, *rest = [" ".join(found.text(part).split()) for part in tile]
        texts[label] = " | ".join(rest)
    return texts


def trust(found: Page) -> tuple[str, list[str]]:
    """The line of trust, and what is red in it."""
    [line] = [p for p in found.all("p") if p.get("class") == "trust"]
    return found.text(line), [found.text(part).strip(" ·\n") for part in line if part.get("class")]


def timelines(found: Page) -> list[list[tuple[float, float, str]]]:
    """Begin and width in percent, and kind, of each event of each timeline."""
    pictures = [item for item in found.all("svg") if item.get("class") == "timeline"]
    return [
        [
            (float(part.get("x")[:-1]), float(part.get("width")[:-1]), part.get("class").split()[1])
            for part in picture
            if (part.get("class") or "").startswith("b ")
        ]
        for picture in pictures
    ]


def test_a_timeline_has_operators_and_gaps_stay_empty() -> None:
    found = page_of(reported(trace=runs_of(210)))
    assert timelines(found) == [[(4.0, 84.0, "k-convolution"), (92.0, 4.0, "k-activation")]]
    titles = [found.text(item) for item in found.all("title")]
    assert "convolution #0: 210 ns, 84.0 % of the execution, begins at 10.0 ns" in titles


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=8), st.integers(0, 1000))
def test_events_are_within_their_timeline_and_do_not_overlap(lengths: list[int], gap: int) -> None:
    found = timelines(page_of(reported(trace=runs_of(*lengths, gap=gap))))
    assert found
    for parts in found:
        places = [place for begin, width, _ in parts for place in (begin, begin + width)]
        assert places[0] >= 0
        assert places[-1] <= 100.01  # three decimals are shown
        assert all(end <= begin + 0.01 for end, begin in pairwise(places))


def test_the_median_execution_is_drawn_and_the_others_are_folded() -> None:
    found = page_of(reported(trace=runs_of(900, 100, 120, 110, 5000)))
    text = found.section("-timeline")
    assert "Median execution: number 3 of 5, 160 ns" in text
    assert "Slowest execution: number 5 of 5, 5.04 us" in text
    assert "First execution after loading (cold): number 1 of 5, 940 ns" in text
    assert "convolution 75.0 %" in text
    assert "between operators 18.8 %" in text
    widths = [[width for _, width, _ in parts] for parts in timelines(found)]
    assert widths[0] == [75.0, 6.25]
    assert widths[1][0] == pytest.approx(100 * 5000 / 5040, abs=0.01)
    assert widths[2][0] == pytest.approx(100 * 900 / 5040, abs=0.01)  # on the same axis


def test_executions_that_are_alike_are_said_to_be() -> None:
    text = page_of(reported(trace=runs_of(100, 100, 100))).section("-timeline")
    assert "All 3 executions took the same time within 0.1 %." in text
    assert "Slowest" not in text


def test_an_operator_that_stands_out_is_named_and_leads_to_its_execution() -> None:
    found = page_of(reported(trace=runs_of(100, 101, 102, 900, 103, 99)))
    assert "execution 4: 900 ns" in found.section("-operators")
    targets = [a.get("href") for a in found.all("a")]
    assert "#run-1-execution-4" in targets
    assert "all 6 alike" in found.section("-operators")  # relu
    strip = next(s for s in found.all("svg") if s.get("class") == "strip")
    assert [part.get("class") for part in strip].count("outlier") == 1


def test_a_spread_without_outlier_names_none() -> None:
    found = page_of(reported(trace=runs_of(100, 104, 102, 106, 103, 99)))
    assert "execution " not in found.section("-operators").partition("share [%]")[2]


def test_tiles_say_what_they_are_compared_with() -> None:
    page = page_of(reported(trace=runs_of(100, 200, 300)))
    found = tiles(page)
    assert found["median execution"] == "240 ns | p90 320 ns"
    assert found["slowest operator"].startswith("convolution #0 | 200 ns, 83.3 % of the time")
    assert found["peak memory"].startswith("unknown")
    assert "output error" not in found
    assert " · no baseline · outputs not compared · " in trust(page)[0]


def test_tiles_have_the_change_the_noise_and_a_trend() -> None:
    found = page_of(with_history())
    assert "+50.0 % slower" in tiles(found)["slowest operator"]
    lines = [s.get("aria-label") for s in found.all("svg") if s.get("class") == "spark"]
    assert any(line.startswith("last 20 values, oldest first; now") for line in lines)


def test_the_error_of_the_outputs_is_the_largest() -> None:
    ones = np.ones(3)
    values = [ModelOutput("a", np.zeros(2), np.array([0.0, 0.5])), ModelOutput("b", ones, ones)]
    run = EvaluatedRun("a", Subject(runs_of(5), outputs=tuple(values)), Verdict(()), FINISHED)
    assert tiles(page_of(run))["output error"] == "0.5 | largest of 2 outputs against the reference"
    values[1] = ModelOutput("b", np.ones(2), np.ones(3))
    run = EvaluatedRun("a", Subject(runs_of(5), outputs=tuple(values)), Verdict(()), FINISHED)
    assert tiles(page_of(run))["output error"].startswith("differs in shape")


def test_what_the_numbers_rest_on_is_red_only_if_it_is_not_clean() -> None:
    quality = ClockQuality("cpu", "host", 3, ("first",), 9, 9, 8, 1500, 0, 0, (0.0, 0.0), "")
    clean = Subject(runs_of(100, 100), qualities=(quality,))
    text, red = trust(page_of(EvaluatedRun("a", clean, Verdict(()), FINISHED)))
    assert red == []
    for expected in ("2 of 2 executions", "nothing lost", "clock ±1.50 us", "commit abc"):
        assert expected in text
    lossy = replace(runs_of(100), losses=Losses(events=7)).sealed()
    short = msgspec.structs.replace(FINISHED, runs_requested=5)
    text, red = trust(page_of(EvaluatedRun("a", Subject(lossy), Verdict(()), short)))
    assert red == ["2 of 5 executions", "7 events lost"]


def limited(measured: float) -> Check:
    return msgspec.structs.replace(
        unmet(reason="as measured"), measured=measured, limit=100.0, passed=measured <= 100
    )


def test_a_failed_limit_says_by_how_much_and_a_passed_one_only_if_it_is_close() -> None:
    def headline(measured: float) -> str:
        found = page_of(reported(held(), limited(measured)))
        return found.text(found.all("main")[0])

    assert "(+4.00 %)" in headline(104)
    assert "closest to its limit: B01 relu, 96 us of 100 us (-4.00 %)" in headline(96)
    assert "closest" not in headline(3)


def test_only_three_failures_are_unfolded() -> None:
    failed = [replace_subject(limited(200.0 + n), f"op{n}") for n in range(5)]
    found = page_of(reported(*failed))
    folded = [found.text(item) for item in found.all("details")]
    assert any("and 2 more failed checks" in text and "op0" in text for text in folded)


def replace_subject(item: Check, subject: str) -> Check:
    return msgspec.structs.replace(item, subject=subject)


def planned(file: Path, digest: str = "") -> EvaluatedRun:
    data = MODEL.read_bytes()
    model = Model(
        str(file), digest or hashlib.sha256(data).hexdigest(), len(data), 16_000, 0, (), ()
    )
    step = InstructionRecord("kernel", "cortex_m::quantized_conv2d.out")
    subject = Subject(runs_of(5), chains=((step,) * 16,))
    return EvaluatedRun("a", subject, Verdict(()), msgspec.structs.replace(FINISHED, model=model))


def test_the_memory_plan_shows_lifetimes_peak_and_gaps() -> None:
    found = page_of(planned(MODEL))
    text = found.section("-plan")
    assert "peak 16,000 of 16,000 planned bytes at quantized_conv2d #2" in text
    assert "planned 16,000 bytes" in text
    bars = [s for s in found.all("svg") if (s.get("class") or "").startswith("k-convolution")]
    assert any("8,000 bytes at offset 8,000" in found.text(bar) for bar in bars)
    assert "2 tensors live then: quantized_conv2d #1 8,000 B, quantized_conv2d #2 8,000 B" in text
    texts = [(t.get("class"), found.text(t)) for bar in bars for t in bar if t.get("class")]
    assert ("name wide", "conv2d #1") in texts
    assert ("name wide", "8,000 B") in texts
    assert ("name small", "#1") in texts
    titles = [found.text(item) for item in found.all("title")]
    assert any(title.startswith("input 0 (value ") for title in titles)
    gaps = [s for s in found.all("svg") if s.get("class") == "gap"]
    assert found.text(gaps[0]) == "6,040 bytes free between tensors"  # 8,000 - 1,960


def test_a_model_that_is_gone_or_another_one_has_no_plan(tmp_path: Path) -> None:
    assert "kws.pte is no longer where it ran" in page_of(planned(tmp_path / "kws.pte")).section(
        "-plan"
    )
    assert "is not the one that ran" in page_of(planned(MODEL, "ab" * 32)).section("-plan")


def with_memory(second: int) -> EvaluatedRun:
    """A run that takes 1,000 bytes while loading, and 64 bytes at a tick."""
    trace = trace_of(
        RunSpec([EventSpec("a"), EventSpec("Program::load_method", 0, 50, chain=-1)], name="Load"),
        RunSpec([EventSpec("b"), EventSpec("Method::execute", 9_000, 59_000, chain=-1)]),
        clock=ClockDomain("c", Fraction(10**6)),
    )
    kind, size, start = trace.kind.copy(), trace.size.copy(), trace.start.copy()
    allocator = trace.allocator.copy()
    kind[[0, 2]], size[[0, 2]], start[[0, 2]] = Kind.ALLOCATION, [1000, 64], [10, second]
    allocator[[0, 2]] = 1
    blocks = tuple(replace(block, allocators=("heap",)) for block in trace.blocks)
    end = np.maximum(start, trace.end)
    columns = {"kind": kind, "size": size, "start": start, "end": end, "allocator": allocator}
    return reported(trace=replace(trace, **columns, blocks=blocks).sealed())


def test_memory_that_does_not_change_after_loading_is_a_sentence() -> None:
    found = page_of(with_memory(40))
    assert "Unchanged after loading: heap 1,064 bytes." in found.section("-memory")
    assert not [p for p in found.all("path") if p.get("class") == "line"]


def test_memory_is_drawn_over_the_run_with_loading_apart() -> None:
    found = page_of(with_memory(34_000))
    text = found.section("-memory")
    assert "loading, 50.0 us" in text
    assert "20 ms" in text
    [path] = [p for p in found.all("path") if p.get("class") == "line"]
    # A fifth of loading, whose scale is its own, and half of the execution.
    assert [step.split("V")[0] for step in path.get("d").split("H")[1:]] == ["60", "650", "1000"]


def shown_time(nanoseconds: int) -> str:
    event = EventSpec("Method::execute", 0, nanoseconds, chain=-1, instruction=-1)
    found = page_of(reported(trace=trace_of(RunSpec([event]))))
    return tiles(found)["median execution"].partition(" | ")[0]


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (7, "7.00 ns"),
        (284_400, "284 us"),
        (28_440, "28.4 us"),
        (9_999, "10.0 us"),
        (999_499, "999 us"),
        (999_500, "1.00 ms"),
        (1_234_567_000_000, "1,235 s"),
    ],
)
def test_a_time_has_three_digits(nanoseconds: int, text: str) -> None:
    assert shown_time(nanoseconds) == text


@given(st.integers(1, 10**15))
def test_a_short_time_has_four_digits_at_most_and_is_near(nanoseconds: int) -> None:
    text, unit = shown_time(nanoseconds).split()
    value = float(text.replace(",", "")) * {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}[unit]
    assert value == pytest.approx(nanoseconds, rel=0.006)
    assert unit == "s" or float(text) < 1000


@pytest.mark.parametrize(("limit", "shown"), [(2.0, " (+150 %)"), (5e-324, "")])
def test_a_limit_of_about_0_is_exceeded_by_no_percentage(limit: float, shown: str) -> None:
    check = msgspec.structs.replace(unmet(reason="too long"), measured=5.0, limit=limit)
    found = page_of(reported(check))
    [reason] = [s for s in found.all("span") if s.get("class") == "reason"]
    assert found.text(reason) == f"too long{shown}"


def names_in(found: Page, class_: str) -> list[list[str]]:
    """What is written in each block or frame, on a wide page and on a phone."""
    blocks = [e for e in found.all("svg") if (e.get("class") or "").split()[:1] == [class_]]
    return [[found.text(t) for t in block if t.tag.endswith("text")] for block in blocks]


def test_names_in_narrow_blocks_are_whole_words() -> None:
    spans = ((0, 300), (300, 400), (400, 430), (430, 432), (432, 1000))
    name = "native_call_cortex_m::quantized_depthwise_conv2d.out"
    events = [EventSpec(name, a, b, instruction=n) for n, (a, b) in enumerate(spans)]
    whole = EventSpec("Method::execute", 0, 1000, chain=-1, instruction=-1)
    found = page_of(reported(trace=trace_of(RunSpec([*events, whole]))))
    written = [
        ["quantized_depthwise_conv2d #0", "conv2d #0"],
        ["conv2d #1", "#1"],
        ["#2"],
        [],
        ["quantized_depthwise_conv2d #4", "depthwise_conv2d #4"],
    ]
    assert names_in(found, "b") == written
    assert names_in(found, "f") == [["Method::execute"], *written]


def test_the_call_tree_has_no_wrappers_but_those_of_unlogged_kernels() -> None:
    events = [
        EventSpec("native_call_relu.out", 10, 40, instruction=0),
        EventSpec("OPERATOR_CALL", 5, 45, instruction=0),
        EventSpec("OPERATOR_CALL", 50, 90, instruction=1),
        EventSpec("Method::execute", 0, 100, chain=-1, instruction=-1),
    ]
    found = page_of(reported(trace=trace_of(RunSpec(events))))
    frames = [e for e in found.all("svg") if (e.get("class") or "").startswith("f ")]
    assert [found.text(frame[0]).partition(":")[0] for frame in frames[1:]] == [
        "native_call_relu.out · instruction 0",
        "OPERATOR_CALL · instruction 1",
    ]
    assert [frame.get("aria-level") for frame in frames] == ["1", "2", "2"]
    assert found.section("-tree").count("OPERATOR_CALL") == 3  # title, name, list


def test_calls_of_delegates_are_named_after_their_backends() -> None:
    events = [
        EventSpec("DELEGATE_CALL", 0, 50, instruction=0),
        EventSpec("", 10, 40, instruction=0, delegate=3),
        EventSpec("Method::execute", 0, 60, chain=-1, instruction=-1),
    ]
    run = reported(trace=trace_of(RunSpec(events)))
    assert run.subject is not None
    found = page_of(replace(run, subject=replace(run.subject, backends={(0, 0): "XnnpackBackend"})))
    assert ["XnnpackBackend #0"] in names_in(found, "b")
    assert "XnnpackBackend [3] #0" in found.section("-operators")
