"""What is printed: nothing cut, nothing misread, losses always stated."""

from __future__ import annotations

import io
import subprocess
import sys
from fractions import Fraction

import pytest
from rich.console import Console

from harness.check.budget import Budget
from harness.check.evaluate import evaluate
from harness.check.rules import AllocatorLimit, TimeLimit
from harness.check.subject import Subject
from harness.etdump.compact import read_log
from harness.report.terminal import print_operators, print_run
from harness.report.text import printable, time_unit
from harness.timebase import ClockDomain
from harness.trace import Trace
from tests.support.logs import CompactLog

SYSTICK = ClockDomain("systick", Fraction(25_000_000), 32)
LONG = "native_call_" + "very_long_operator_name_" * 8 + "end.out"


def trace(*, dropped: int = 0, clocks: list[ClockDomain] | None = None) -> Trace:
    log = CompactLog().block("Default").allocator("planned_0").allocation(1, 4096)
    log.block("Execute").profile("native_call_a", 0, 250).profile(LONG, 250, 1000, instruction=1)
    log.profile("Method::execute", 0, 1000, chain=-1)
    log.dropped_events = dropped
    return read_log(log.image(), [SYSTICK] if clocks is None else clocks)


def printed(subject: Trace, *, terminal: bool = False, width: int = 80, **options: object) -> str:
    console = Console(file=io.StringIO(), force_terminal=terminal, width=width, no_color=True)
    print_run(console, subject, **options)  # type: ignore[arg-type]
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def test_piped_output_is_plain_and_uncut() -> None:
    text = printed(trace(), header={"board": "native", "model": "kws_f32.pte"})
    assert LONG in text
    assert text.isascii()
    assert "\x1b" not in text
    assert all(line == line.rstrip() for line in text.splitlines())
    lines = text.splitlines()
    assert lines[0].split() == ["board", "native"]
    header = next(line for line in lines if line.startswith("event"))
    assert "p50 [us]" in header
    execute = next(line for line in lines if line.startswith("Method::execute"))
    assert execute.split() == ["Method::execute", "0", "1", *["40.000"] * 4, "100.0"]
    assert "losses: none" in text


@pytest.mark.parametrize("width", [20, 60, 100, 200])
def test_a_terminal_of_any_width_shows_every_character(width: int) -> None:
    text = printed(trace(), terminal=True, width=width)
    assert "…" not in text
    squeezed = "".join(text.split())
    assert squeezed.count("40.000") == 4
    letters = iter(squeezed)
    assert all(char in letters for char in LONG), "the name is not there in order"


def test_the_longest_total_comes_first_and_the_log_order_on_request() -> None:
    names = ("native_call_a", LONG, "Method::execute")
    longest_first, as_logged = (
        [printed(trace(), detailed=detailed).index(name) for name in names]
        for detailed in (False, True)
    )
    assert longest_first == sorted(longest_first, reverse=True)
    assert as_logged == sorted(as_logged)


def test_without_a_rate_times_are_ticks() -> None:
    text = printed(trace(clocks=[]))
    assert "p50 [ticks]" in text
    assert "1,000" in text


def test_losses_are_stated() -> None:
    text = printed(trace(dropped=17))
    assert "LOSSES: 17 events" in text
    assert "lower bounds" in text


def test_the_verdict_comes_last_with_its_reasons() -> None:
    rules = Budget(
        schema=1,
        time=(TimeLimit(event="Method::execute", limit_us=30.0),),
        allocator=(AllocatorLimit(name="planned_*", limit_bytes=5000),),
    )
    lines = printed(trace(), verdict=evaluate(Subject(trace()), rules)).splitlines()
    assert lines[-2] == "FAIL: 1 of 4 checks do not hold"
    assert "40 us exceeds the limit of 30 us" in lines[-1]
    passing = printed(trace(), verdict=evaluate(Subject(trace()))).splitlines()
    assert passing[-1] == "PASS: 2 of 2 checks hold"


def test_a_block_without_events_is_said_to_be_empty() -> None:
    console = Console(file=io.StringIO())
    print_operators(console, "Nowhere", [])
    assert "no profile events in block 'Nowhere'" in console.file.getvalue()  # type: ignore[attr-defined]


def test_names_cannot_control_the_terminal() -> None:
    log = CompactLog().block("Execute").profile(b"\x1b[2J [red]\xff", 0, 1)
    text = printed(read_log(log.image(), [SYSTICK]))
    assert r"\x1b[2J [red]\xff" in text
    assert printable("größe") == "größe"
    assert printable("a\u202eb") == "a\\u202eb"


@pytest.mark.parametrize(("largest", "unit"), [(9e3, "ns"), (5e6, "us"), (5e9, "ms"), (5e10, "s")])
def test_the_unit_follows_the_largest_time(largest: float, unit: str) -> None:
    assert time_unit([1.0, largest]).name == unit


def test_rich_is_imported_only_to_print() -> None:
    code = "import sys, harness.report.terminal; print('rich' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def npu_lines(npu: ClockDomain) -> dict[str, list[str]]:
    """The printed cells of a trace with events on a second clock, by event."""
    log = CompactLog().block("Execute").profile("Method::execute", 0, 1000, chain=-1)
    log.delegate(None, 3).profile(None, 0xFFFFFF, 99, clock=1)
    log.delegate("0:linear").profile(None, 99, 149, clock=1)
    lines = printed(read_log(log.image(), [SYSTICK, npu])).splitlines()
    return {line.split()[0]: line.split()[1:] for line in lines if line}


def test_shares_compare_across_clocks_of_known_rates() -> None:
    cells = npu_lines(ClockDomain("npu", Fraction(9_375_000), 24))
    assert cells["[3]"] == ["0", "1", *["10.667"] * 4, "26.7"]
    assert cells["[0:linear]"][-1] == "13.3"


def test_shares_of_a_clock_of_unknown_rate_are_among_its_own() -> None:
    cells = npu_lines(ClockDomain("npu", None, 24))
    assert cells["[3]"][-1] == "100.0"
    assert cells["[0:linear]"][-1] == "50.0"
    assert cells["Method::execute"][-1] == "100.0"


def test_the_cold_run_stands_beside_the_others() -> None:
    log = CompactLog().block("Default").profile("Method::init", 0, 5, chain=-1)
    for length in (1000, 250, 500):
        log.block("Execute").profile("Method::execute", 0, length, chain=-1)
    lines = printed(read_log(log.image(), [SYSTICK])).splitlines()
    header = next(line for line in lines if "cold [us]" in line)
    execute = next(line for line in lines if line.startswith("Method::execute"))
    times = execute.split()[3:-1]
    assert times == ["20.000", "23.333", "10.000", "40.000", "40.000"]
    assert header.index("max [us]") < header.index("cold [us]") < header.index("share")
    only = next(line for line in lines if line.startswith("event"))
    assert "cold" not in only, "of the loading there are no cold and warm runs"


def test_runs_that_are_not_alike_show_on_request() -> None:
    log = CompactLog()
    for repeats in (1, 1, 2, 1):
        log.block("Execute")
        for _repeat in range(repeats):
            log.profile("a", 0, 1)
    subject = read_log(log.image(), [SYSTICK])
    assert "runs alike" not in printed(subject)
    lines = printed(subject, detailed=True).splitlines()
    begin = lines.index("Runs")
    assert [line.split() for line in lines[begin + 2 : begin + 4]] == [
        ["Execute", "3", "0", "1", "1"],
        ["Execute", "1", "2", "0", "2"],
    ]
