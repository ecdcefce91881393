"""A log that was full says so: where it ended, what is lost behind that, and what to try."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest
from msgspec.structs import replace

from harness import (
    EXECUTION,
    ClockDomain,
    EvaluatedRun,
    Subject,
    Trace,
    draw,
    evaluate,
    read_log,
    render_report,
)
from tests.conftest import CommandResult
from tests.support.logs import CompactLog
from tests.support.reported import FINISHED

SYSTICK = ClockDomain("systick", Fraction(25_000_000), 32)

Etharness = Callable[..., CommandResult]


def stopped(complete: int = 6, *, chunk: int = 0, dropped: tuple[int, int] = (444, 13)) -> bytes:
    """A log that was full in the execution behind ``complete`` ones."""
    log, now = CompactLog().block("Default").profile("Method::init", 0, 5, chain=-1), 10
    for _ in range(complete):
        log.block("Execute").profile("a", now, now + 8).profile(EXECUTION, now, now + 9, chain=-1)
        now += 10
    log.block("Execute").profile("a", now, now + 8)
    log.dropped_events, log.dropped_blocks = dropped
    log.chunk = chunk
    return log.image()


def judged(trace: Trace) -> EvaluatedRun:
    result = replace(FINISHED, runs_requested=20, runs_completed=20)
    subject = Subject(trace, runs_requested=20, runs_completed=20)
    return EvaluatedRun("run", subject, evaluate(subject), result)


SENTENCE = "full in execution 7 of 20; 444 events after it are lost; use --stream"


def test_every_report_says_where_the_log_was_full_and_what_to_try() -> None:
    run = judged(read_log(stopped(), [SYSTICK]))
    assert SENTENCE in render_report("report.html", [run]).decode()
    assert SENTENCE in render_report("report.md", [run]).decode()
    assert "full in execution 7 of 20; use --stream" in render_report("report.xml", [run]).decode()
    losses = json.loads(render_report("report.json", [run]))["runs"][0]["losses"]
    assert [item["note"] for item in losses if item["note"]] == [f"log {SENTENCE}"]


def test_the_command_says_so_and_counts_declarations_apart(
    etharness: Etharness, tmp_path: Path
) -> None:
    file = tmp_path / "trace.etlog"
    file.write_bytes(stopped())
    line = next(x for x in etharness("decode", file).out.splitlines() if x.startswith("LOSSES"))
    assert "full in execution 7; 444 events after it are lost; use --stream" in line
    assert "13 block and allocator declarations" in line
    assert "457" not in line
    page = render_report("report.html", [judged(read_log(stopped(), [SYSTICK]))]).decode()
    assert "444 events, 13 declarations" in page
    assert "457" not in page


@pytest.mark.parametrize(
    ("complete", "said"),
    [(0, "full in execution 1 of 20"), (20, "full after execution 20 of 20")],
)
def test_the_execution_is_the_one_under_way(complete: int, said: str) -> None:
    assert (
        said
        in render_report("report.md", [judged(read_log(stopped(complete), [SYSTICK]))]).decode()
    )


def test_a_log_that_was_full_before_any_execution_says_so() -> None:
    log = CompactLog().block("Default").profile("Method::init", 0, 5, chain=-1)
    log.dropped_events = 3
    report = render_report("report.md", [judged(read_log(log.image(), [SYSTICK]))]).decode()
    assert "full while the model was loaded; 3 events after it are lost" in report


def test_the_gap_is_drawn_after_the_last_event() -> None:
    drawing = draw(read_log(stopped(), [SYSTICK]))
    [gap] = drawing.gaps
    assert "444 events, 13 declarations lost from here on" in gap.name
    assert gap.start == int(drawing.end.max())
    assert gap.end > gap.start


def test_losses_of_a_log_that_goes_on_have_no_known_place() -> None:
    """With --stream the log is emptied and goes on, so its last event is not where it was full."""
    first = CompactLog().block("Execute").profile("a", 0, 8)
    first.dropped_events = 5
    later = CompactLog()
    later.chunk, later.first_record, later.dropped_events = 1, 2, 5
    later.names = list(first.names)
    trace = read_log(first.image() + later.profile("a", 20, 28).image(), [SYSTICK])
    assert trace.losses.events == 5
    assert [gap.name for gap in draw(trace).gaps] == ["5 events lost, somewhere here"]
    report = render_report("report.md", [judged(trace)]).decode()
    assert "events dropped by the target" in report
    assert "after it are lost" not in report
