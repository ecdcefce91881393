"""What is printed: nothing cut, nothing misread, losses always stated."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from harness import (
    AllocatorLimit,
    Budget,
    Check,
    ClockDomain,
    EvaluatedRun,
    Result,
    Subject,
    TimeLimit,
    Trace,
    Verdict,
    evaluate,
    read_log,
)
from harness.formatting import printable, time_unit
from harness.report.description import describe
from harness.report.run import print_run
from harness.report.terminal import show_table
from tests.conftest import CommandResult
from tests.support.logs import CompactLog
from tests.support.reported import FINISHED, held, unmet

SYSTICK = ClockDomain("systick", Fraction(25_000_000), 32)
LONG = "native_call_" + "very_long_operator_name_" * 8 + "end.out"


def trace(*, dropped: int = 0, clocks: list[ClockDomain] | None = None) -> Trace:
    log = CompactLog().block("Default").allocator("planned_0").allocation(1, 4096)
    log.block("Execute").profile("native_call_a", 0, 250).profile(LONG, 250, 1000, instruction=1)
    log.profile("Method::execute", 0, 1000, chain=-1)
    log.dropped_events = dropped
    return read_log(log.image(), [SYSTICK] if clocks is None else clocks)


def printed(
    trace: Trace,
    *,
    terminal: bool = False,
    width: int = 80,
    detailed: bool = False,
    result: Result | None = None,
    verdict: Verdict | None = None,
) -> str:
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=width, no_color=True)
    run = describe(
        EvaluatedRun("out", Subject(trace), Verdict(()) if verdict is None else verdict, result)
    )
    print_run(console, run, verbosity=int(detailed), show_verdict=verdict is not None)
    return out.getvalue()


def test_piped_output_is_plain_and_uncut() -> None:
    text = printed(trace(), result=FINISHED)
    assert LONG.removeprefix("native_call_").removesuffix(".out") in text
    assert "\x1b" not in text
    assert all(line == line.rstrip() for line in text.splitlines())
    lines = text.splitlines()
    assert lines[0].endswith("native")
    header = next(line for line in lines if line.startswith("operator "))
    assert header.split() == ["operator", "time", "share", "[%]"]
    assert "Operators in us, longest first" in lines
    execute = next(line for line in lines if line.startswith("Method::execute"))
    assert execute.split() == ["Method::execute", "40.0", "100.0"]
    assert "losses: none" in text


def test_names_between_colons_are_no_emoji(
    etharness: Callable[..., CommandResult], tmp_path: Path
) -> None:
    file, budget = tmp_path / "trace.etlog", tmp_path / "budget.toml"
    file.write_bytes(CompactLog().block("Execute").profile("ns:bug:x", 0, 100).image())
    budget.write_text('schema = 1\n[[time]]\nevent = "ns:bug:x"\nlimit_us = 1\n')
    out = etharness("check", file, "--budget", budget, "--clock-hz", "1000000").out
    assert "failed: B01 ns:bug:x, " in out


@pytest.mark.parametrize("width", [20, 40, 80, 100, 300])
def test_a_table_fits_the_width_of_a_terminal(width: int) -> None:
    whole = printed(trace(), detailed=True)
    text = printed(trace(), terminal=True, width=width, detailed=True)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()
    assert max(map(len, lines)) <= width
    begin = lines.index("Events")
    headers = re.findall(r"\w+(?: \[\S+\])?", whole.splitlines()[begin + 1])
    shown = [header for header in headers if header in lines[begin + 1]]
    assert shown == headers[: len(shown)], "columns are left out from the right"
    note = " ".join(" ".join(lines[begin + 2 :]).split())
    left_out = ", ".join(headers[len(shown) :])
    assert (f"not shown at this width: {left_out}" in note) == bool(left_out)
    if width == 300:
        assert LONG in text
    else:
        assert LONG not in text
        assert "native_ca" in text
        assert "end.out" in text


@settings(max_examples=200)
@given(
    st.lists(st.lists(st.text(max_size=60), min_size=4, max_size=4), min_size=1, max_size=5),
    st.sets(st.integers(1, 3)),
    st.integers(24, 120),
)
def test_any_table_fits_any_width_with_whole_numbers(
    rows: list[list[str]], numbers: set[int], width: int
) -> None:
    rows = [
        [f"{len(cell)}.5" if place in numbers else cell for place, cell in enumerate(row)]
        for row in rows
    ]
    headers = ["a", "bb", "ccc", "dddd"]
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=width, color_system=None)
    show_table(console, headers, rows, numbers=numbers)
    lines = out.getvalue().splitlines()
    last = next((n for n, line in enumerate(lines) if line.startswith("not shown")), -1)
    table = lines[:last]
    assert max(map(len, table)) <= width
    shown = sum(header in lines[0] for header in headers)
    for row in rows:
        for place in numbers & set(range(shown)):
            assert any(row[place] in line.split() for line in table)


@pytest.mark.parametrize(
    ("lengths", "encoding", "shown"),
    [
        ([100, 800, 450], "utf-8", "▁█▅"),
        ([3, 3], "utf-8", "▁▁"),
        ([0, 0], "utf-8", "▁▁"),
        ([1000, 1001], "utf-8", "▁▁"),  # 0.1 % is no step
        ([100, 800, 450], "ascii", "_#+"),
    ],
)
def test_bars_show_outliers_and_keep_small_steps_small(
    lengths: list[int], encoding: str, shown: str
) -> None:
    log = CompactLog()
    for length in lengths:
        log.block("Execute").profile("native_call_a", 0, length)
    subject = Subject(read_log(log.image(), [SYSTICK]))
    data = io.BytesIO()
    file = io.TextIOWrapper(data, encoding=encoding)
    print_run(Console(file=file, width=200), describe(EvaluatedRun("out", subject, Verdict(()))))
    file.flush()
    lines = data.getvalue().decode(encoding).splitlines()
    [row] = [line.split() for line in lines if line.startswith("a #0")]
    header = next(line for line in lines if line.startswith("operator "))
    varies = max(lengths) - min(lengths) > 1  # a tick
    assert ("executions" in header) == varies, "no bars where all are equal"
    if "executions" in header:
        assert row[-1] == shown


def test_operators_show_the_longest_execution_of_each_part_of_the_run() -> None:
    log = CompactLog()
    for length in [100] * 30 + [900] + [100] * 9:
        log.block("Execute").profile("native_call_a", 0, length)
    lines = printed(read_log(log.image(), [SYSTICK])).splitlines()
    [row] = [line for line in lines if line.startswith("a #0")]
    assert "▁▁▁▁▁▁▁█▁▁" in row


def test_the_longest_total_comes_first_and_the_log_order_on_request() -> None:
    as_logged = ("native_call_a", LONG, "Method::execute")
    for names, detailed in ((("Method::execute", "very_long", "a #0"), False), (as_logged, True)):
        places = [printed(trace(), detailed=detailed).index(name) for name in names]
        assert places == sorted(places)


def test_without_a_rate_times_are_ticks() -> None:
    text = printed(trace(clocks=[]))
    assert "Operators in ticks" in text
    assert "1,000" in text


def steady_trace(*, jitter: int = 0) -> Trace:
    log = CompactLog()
    for number in range(4):
        log.block("Execute")
        for place, length in enumerate((9_000_000, 8_000, 7)):
            start, more = 10_000_000 * place, jitter * number
            log.profile(f"native_call_{'abc'[place]}", start, start + length + more)
        log.profile("Method::execute", 0, 30_000_000, chain=-1)
    return read_log(log.image(), [SYSTICK])


def test_what_is_the_same_in_all_executions_is_said_once() -> None:
    lines = printed(steady_trace()).splitlines()
    alike = "alike within 1 % or a tick"
    begin = lines.index(f"Operators in ms, longest first, 4 calls each, {alike}")
    assert lines[begin + 1].split() == ["operator", "p50", "share", "[%]"]
    # Small values keep two digits in the unit of large ones.
    times = [line.split()[2] for line in lines[begin + 2 : begin + 5]]
    assert times == ["360", "0.320", "0.00028"]
    changing = printed(steady_trace(jitter=900_000)).splitlines()
    header = next(line for line in changing if line.startswith("operator"))
    assert header.split() == ["operator", "p50", "p90", "max", "share", "[%]", "executions"]


def test_many_operators_are_summed_in_a_line_or_by_what_they_are() -> None:
    log = CompactLog().block("Execute")
    names = ["sigmoid.out", "addmm.out", "mul.out"]
    for number in range(150):
        start, name = 100 * number, names[number % 3]
        log.profile(f"native_call_{name}", start, start + 10 + number % 3, instruction=number)
    log.profile("Method::execute", 0, 15_000, chain=-1)
    run = describe(EvaluatedRun("out", Subject(read_log(log.image(), [SYSTICK])), Verdict(())))

    def shown(**options: Any) -> list[str]:
        out = io.StringIO()
        print_run(Console(file=out, width=80), run, show_verdict=False, **options)
        lines = out.getvalue().splitlines()
        begin = next(n for n, line in enumerate(lines) if re.match("Operators|Time by", line))
        return lines[begin : lines.index("", begin)]

    assert len(shown()) == 2 + 20 + 1
    few = shown(top=2)
    assert [line.split()[0] for line in few[2:4]] == ["mul", "mul"]
    assert few[-1].split() == ["...", "148", "more", "(--top", "150)", "10.8"]
    assert len(shown(top=150)) == 152
    by_kind = [line.split() for line in shown(by="kind")[2:]]
    assert [row[0] for row in by_kind] == ["elementwise", "linear", "activation"]
    assert [row[1] for row in by_kind] == ["50"] * 3
    assert [row[-1] for row in by_kind] == ["4.0", "3.7", "3.3"]
    assert [line.split()[0] for line in shown(by="operator")[2:]] == ["mul", "addmm", "sigmoid"]


def test_losses_are_stated() -> None:
    text = printed(trace(dropped=17))
    assert "LOSSES: log full in execution 2; 17 events after it are lost; use --stream" in text
    assert "lower bounds" in text


def test_the_verdict_comes_last_with_its_reasons() -> None:
    rules = Budget(
        schema=1,
        time=(TimeLimit(event="Method::execute", limit_us=30.0),),
        allocator=(AllocatorLimit(name="planned_*", limit_bytes=5000),),
    )
    lines = printed(trace(), verdict=evaluate(Subject(trace()), rules)).splitlines()
    assert "40 us exceeds the limit of 30 us" in lines[-2]
    assert re.fullmatch(r"FAIL: 1 of \d+ checks failed", lines[-1])
    passing = printed(trace(), verdict=evaluate(Subject(trace()))).splitlines()
    assert re.fullmatch(r"PASS: (\d+) of \1 checks passed", passing[-1])


def test_a_trace_without_events_is_said_to_be_empty() -> None:
    assert printed(Trace.unset(0)).splitlines()[2] == "no profile events"


@pytest.mark.attack(
    "Texts", "terminal escapes in names of operators, boards and models", "printed as visible text"
)
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
    assert cells["[3]"] == ["#0", "10.7", "26.7"]
    assert cells["[0:linear]"][-1] == "13.3"


def test_a_clock_of_unknown_rate_has_no_share_of_the_wall_time() -> None:
    cells = npu_lines(ClockDomain("npu", None, 24))
    assert cells["[3]"][-1] == "?"
    assert cells["[0:linear]"][-1] == "?"
    assert cells["Method::execute"][-1] == "100.0"


def test_the_cold_run_stands_beside_the_others() -> None:
    log = CompactLog().block("Default").profile("Method::init", 0, 5, chain=-1)
    for length in (1000, 250, 500):
        log.block("Execute").profile("Method::execute", 0, length, chain=-1)
    lines = printed(read_log(log.image(), [SYSTICK])).splitlines()
    header = next(line for line in lines if line.startswith("scope"))
    execute = next(line for line in lines if line.startswith("Method::execute"))
    loading = next(line for line in lines if line.startswith("Method::init"))
    assert "Scopes in us, 3 calls" in lines
    assert header.split() == ["scope", "p50", "p90", "max", "share", "[%]", "executions"]
    assert execute.split() == ["Method::execute", "20.0", "36.0", "40.0", "100.0", "█▁▃"]
    assert loading.split() == ["Method::init", "0.200", "100.0"], "nothing was repeated"


def test_runs_that_are_not_alike_show_on_request() -> None:
    log = CompactLog()
    for repeats in (1, 1, 2, 1):
        log.block("Execute")
        for _repeat in range(repeats):
            log.profile("a", 0, 1)
    subject = read_log(log.image(), [SYSTICK])
    assert "identical runs" not in printed(subject)
    lines = printed(subject, detailed=True).splitlines()
    begin = lines.index("Runs")
    assert [line.split() for line in lines[begin + 2 : begin + 4]] == [
        ["Execute", "3", "0", "1", "1"],
        ["Execute", "1", "2", "0", "2"],
    ]


def shown_verdict(*checks: Check, verbosity: int = 0, width: int | None = None) -> list[str]:
    """The lines that a verdict adds to a run."""
    run = describe(EvaluatedRun("out", Subject(trace()), Verdict(checks)))
    texts = []
    for show in (False, True):
        out = io.StringIO()
        console = Console(file=out, width=width or 10_000, force_terminal=width is not None)
        print_run(console, run, verbosity=verbosity, show_verdict=show)
        texts.append(re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue()))
    assert texts[1].startswith(texts[0])
    return texts[1].removeprefix(texts[0]).splitlines()[1:]


def test_a_verdict_ends_with_the_worst_failures_and_warnings_stand_before() -> None:
    little, much = unmet(subject="little"), unmet(subject="much")
    much = msgspec.structs.replace(much, measured=500.0)
    note = msgspec.structs.replace(unmet("I05", "note"), severity="note")
    found = shown_verdict(little, unmet("I05", "warned"), held(), much, note)
    starts = ["warning: I05 warned:", "note: I05 note:"]
    starts += ["failed: B01 much:", "failed: B01 lit", "FAIL: 2 of 5"]
    assert [line[: len(start)] for line, start in zip(found, starts, strict=True)] == starts


def test_a_quiet_verdict_is_only_that_and_a_detailed_one_has_every_check() -> None:
    checks = (unmet("I05", "warned"), unmet(subject="slow"), held(subject="fine"))
    quiet = shown_verdict(*checks, verbosity=-1)
    assert quiet == [
        "failed: B01 slow: a rule: it is not so",
        "FAIL: 1 of 3 checks failed, 1 warning",
    ]
    assert shown_verdict(checks[0], verbosity=-1) == ["PASS: 0 of 1 checks passed, 1 warning"]
    table = shown_verdict(*checks, verbosity=1)
    assert [line.split()[0] for line in table[2:5]] == ["pass", "warning", "FAIL"]


def test_a_verdict_names_the_worst_of_very_many_failures() -> None:
    checks = [unmet(subject=f"op{number}") for number in range(100)]
    found = shown_verdict(*checks)
    assert found[-2:] == ["  and 80 more; -v lists all", "FAIL: 100 of 100 checks failed"]
    assert len(found) == 22
    assert (
        len([line for line in shown_verdict(*checks, verbosity=1) if line[:11] == "failed: B01"])
        == 100
    )


@pytest.mark.parametrize("width", [35, 60, 80, 200])
def test_reasons_fit_the_width_of_a_terminal(width: int) -> None:
    path = "/" + "x" * 300 + "\x1b[2J"
    reason = " ".join(f"word{number}" for number in range(40)) + " " + path
    found = shown_verdict(unmet("I05", "warned", reason), unmet(reason=reason), width=width)
    words = [line.strip() for line in found if len(line) > width]
    assert words == ["/" + "x" * 300 + r"\x1b[2J"] * 2, "a path stays whole, to be copied"
