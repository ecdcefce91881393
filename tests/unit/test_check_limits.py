"""Limits: what each kind of rule measures, and of what."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness import (
    DELEGATE_CALL,
    EXECUTION,
    Budget,
    Check,
    ClockDomain,
    EtrecordNode,
    EventSymbols,
    Module,
    Stack,
    Subject,
    TimeLimit,
    Waiver,
    evaluate,
    read_log,
)
from tests.support.logs import CompactLog
from tests.support.traces import EventSpec, RunSpec, trace_of

MHZ = ClockDomain("timer", Fraction(1_000_000), 32)
UNKNOWN = ClockDomain("timer", None, 32)


def execution(scale: int = 1) -> RunSpec:
    """Two convolutions and a delegate's call with an event of its own within."""
    return RunSpec(
        [
            EventSpec("conv", 0, 10 * scale, instruction=0),
            EventSpec("conv", 10 * scale, 40 * scale, instruction=1),
            EventSpec("relu", 40 * scale, 45 * scale, instruction=2),
            EventSpec("npu_add", 50 * scale, 60 * scale, instruction=3, delegate="add_7"),
            EventSpec(DELEGATE_CALL, 45 * scale, 70 * scale, instruction=3),
            EventSpec(EXECUTION, 0, 100 * scale, chain=-1),
        ]
    )


def subject(clock: ClockDomain = MHZ, **facts: Any) -> Subject:
    """A cold execution, twice as slow as the two warm ones."""
    loading = RunSpec([EventSpec("Program::load_method", 0, 5, chain=-1)], name="Default")
    trace = trace_of(loading, execution(2), execution(), execution(), clock=clock)
    return Subject(trace, **facts)


def checks(tmp_path: Path, text: str, about: Subject | None = None) -> list[Check]:
    """The checks of a budget but for the losses, which a trace has none of."""
    path = tmp_path / "budget.toml"
    path.write_text(f"schema = 1\n{text}\n")
    verdict = evaluate(about or subject(), Budget.load(path))
    found = [check for check in verdict.checks if check.code.startswith("B")]
    return [check for check in found if check.subject != "log" or check.code != "B05"]


@pytest.mark.parametrize(
    ("rule", "measured"),
    [
        ("event = 'relu'\nstatistic = 'total'\nlimit_us = 1", [20.0]),
        ("event = 'relu'\nstatistic = 'max'\nlimit_ms = 1", [0.01]),
        ("event = 'relu'\nstatistic = 'min'\nlimit_ns = 1", [5000.0]),
        ("event = 'relu'\nstatistic = 'std'\nlimit_us = 1", [pytest.approx(2.357, abs=1e-3)]),
        ("event = 'relu'\nstatistic = 'avg'\nexecutions = 'cold'\nlimit_us = 1", [10.0]),
        ("event = 'relu'\nstatistic = 'avg'\nexecutions = 'warm'\nlimit_us = 1", [5.0]),
        ("event = 'relu'\nexecutions = 'cold'\nlimit_ticks = 1", [10.0]),
        ("event = 'relu'\nstatistic='count'\nexecutions = 'warm'\nlimit_count = 1", [2.0]),
        ("event = 'conv'\ninstruction = 1\nlimit_us = 1", [30.0]),
        ("event = 'conv'\nchain = 0\nlimit_us = 1", [10.0, 30.0]),
        ("event = '*'\nexcept = ['conv', 'M*', 'DEL*']\nlimit_us = 1", [5.0, 10.0]),
        ("event = '*'\nexcept = '[!r]*'\nlimit_us = 1", [5.0]),
        ("event = '*'\ndelegate = 'add_*'\nlimit_us = 1", [10.0]),
        ("event = 'conv'\nper = 'execution'\nlimit_us = 1", [40.0]),
        ("event = 'conv'\nper = 'execution'\nstatistic = 'max'\nlimit_ticks = 1", [80.0]),
        ("event = 'conv'\nper = 'execution'\nstatistic = 'count'\nlimit_count = 1", [3.0]),
        (
            "event = 'conv'\nper = 'execution'\nexecutions = 'warm'\nstatistic='std'\nlimit_us=1",
            [0],
        ),
        ("event = 'conv'\nper = 'execution'\nlimit_percent = 1", [40.0]),
        ("event = 'relu'\nstatistic = 'total'\nlimit_percent = 1\nof = 'conv'", [12.5]),
    ],
)
def test_times(rule: str, measured: list[Any], tmp_path: Path) -> None:
    found = checks(tmp_path, f"[[time]]\n{rule}")
    assert [check.measured for check in found] == measured
    assert {check.code for check in found} == {"B01"}


def test_shares_and_ticks_need_no_rate(tmp_path: Path) -> None:
    text = "[[time]]\nevent = 'conv'\nper = 'execution'\nlimit_percent = 40"
    (check,) = checks(tmp_path, text, subject(UNKNOWN))
    assert (check.measured, check.unit, check.passed) == (40.0, "%", True)
    assert check.rule == f"p50 of all conv in Execute, relative to {EXECUTION}"
    (check,) = checks(tmp_path, text.replace("40", "40\nof = 'nothing'"), subject(UNKNOWN))
    assert not check.passed
    assert "block 'Execute' has no 'nothing' event" in check.reason
    (check,) = checks(tmp_path, text.replace("limit_percent", "limit_us"), subject(UNKNOWN))
    assert "the rate of clock 'timer' is unknown: use limit_ticks" in check.reason


def test_what_is_too_quick_fails(tmp_path: Path) -> None:
    text = "[[time]]\nevent = 'relu'\nlimit_us = 5\nat_least_us = "
    above, below = checks(tmp_path, f"{text}5")
    assert (above.code, above.passed, above.source) == ("B01", True, "budget.toml:4")
    assert (below.code, below.passed, below.source) == ("B06", True, "budget.toml:5")
    _, below = checks(tmp_path, f"{text}5.5".replace("limit_us = 5", "limit_us = 6"))
    assert below.reason == "5 us is below the lower limit of 5.5 us"
    assert not below.passed


def test_an_optional_rule_may_match_nothing(tmp_path: Path) -> None:
    optional = "[[time]]\nevent = 'none'\nlimit_us = 1\noptional = true\n"
    optional += "[[allocator]]\nname = 'none'\nlimit_bytes = 1\noptional = true\n"
    optional += "[[module]]\nmodule = 'none'\nlimit_us = 1\noptional = true\n"
    optional += "[[delegate]]\nbackend = 'none'\nlimit_us = 1\noptional = true\n"
    for name in ("stack", "trace", "arena"):
        optional += f"[{name}]\nlimit_bytes = 1\nlimit_percent = 1\noptional = true\n"
    optional += "[code]\nlimit_ram_bytes = 1\noptional = true\n"
    assert checks(tmp_path, optional) == []
    strict = checks(tmp_path, optional.replace("optional = true", ""))
    assert [check.code for check in strict] == (
        ["B01", "B07", "B08", "B02", "B04", "B04", "B10", "B10", "B11", "B12", "B12"]
    )
    assert not any(check.passed for check in strict)
    assert all(check.source.startswith("budget.toml:") for check in strict)


def test_no_cold_execution_is_said(tmp_path: Path) -> None:
    text = "[[time]]\nevent = 'Program::*'\nblock = '*'\nexecutions = 'cold'\nlimit_us = 1"
    (check,) = checks(tmp_path, text)
    assert "no cold execution has 'Program::*'" in check.reason


def test_blocks_are_their_outermost_events(tmp_path: Path) -> None:
    (check,) = checks(tmp_path, "[[block]]\nstatistic = 'total'\nlimit_us = 400")
    assert (check.code, check.measured, check.passed) == ("B09", 400.0, True)
    found = checks(tmp_path, "[[block]]\nblock = '*'\nlimit_us = 100")
    assert [(check.subject, check.measured) for check in found] == [
        ("all events in Default", 5.0),
        ("all events in Execute", 100.0),
    ]


def test_calls_of_a_backend(tmp_path: Path) -> None:
    text = "[[delegate]]\nbackend = 'Npu*'\nstatistic = 'max'\nlimit_us = 50"
    (check,) = checks(tmp_path, text, subject(backends={(0, 3): "NpuBackend"}))
    assert (check.code, check.measured, check.passed) == ("B08", 50.0, True)
    assert check.subject == "NpuBackend in Execute"
    (check,) = checks(tmp_path, text)
    assert "no backend name is known" in check.reason


def symbols(about: Subject) -> list[EventSymbols | None]:
    """Instructions 0 and 1 are of one module each, within another; 2 is the model's own."""
    model, outer = Module("L", "", "Net"), Module("L.body", "body", "Body")
    modules = {
        0: (model, outer, Module("L.body.0", "body.0", "Conv")),
        1: (model, outer, Module("L.body.1", "body.1", "Conv")),
        2: (model,),
        3: (model,),
    }
    found: list[EventSymbols | None] = []
    for chain, number in zip(about.trace.chain, about.trace.instruction, strict=True):
        node = EtrecordNode("n", "op", None, None, modules.get(int(number)))
        found.append(None if chain < 0 else EventSymbols(0, (node,)))
    return found


def test_modules_hold_what_is_within_them_once(tmp_path: Path) -> None:
    about = subject()
    about = replace(about, symbols=symbols(about))
    text = "[[module]]\nmodule = '{}'\nexecutions = 'warm'\nlimit_us = 40"
    found = checks(tmp_path, text.format("body*"), about)
    assert [(check.subject, check.measured) for check in found] == [
        ("body", 40.0),
        ("body.0", 10.0),
        ("body.1", 30.0),
    ]
    assert {check.code for check in found} == {"B07"}
    (model,) = checks(tmp_path, text.format(""), about)
    assert (model.subject, model.measured, model.passed) == ("(the model)", 70.0, False)
    (nothing,) = checks(tmp_path, text.format("head"), about)
    assert "no module matches 'head'" in nothing.reason
    (unknown,) = checks(tmp_path, text.format("body"))
    assert "(--etrecord)" in unknown.reason


@pytest.mark.parametrize(
    ("text", "measured"),
    [
        ("[stack]\nlimit_percent = 50", [25.0]),
        ("[trace]\nlimit_bytes = 1\nlimit_percent = 1", [600.0, 60.0]),
        ("[arena]\nlimit_bytes = 1\nlimit_percent = 1", [50.0, 25.0]),
        ("[code]\nlimit_text_bytes = 1\nlimit_flash_bytes = 1\nlimit_ram_bytes = 1", [10, 12, 5]),
    ],
)
def test_sizes(text: str, measured: list[float], tmp_path: Path) -> None:
    about = subject(
        log_bytes=600,
        trace_capacity=1000,
        arena_used=50,
        arena_capacity=200,
        image={"text": 10, "data": 2, "bss": 3},
    )
    about = replace(about, trace=replace(about.trace, stacks=(Stack(0, 256, 1024),)))
    assert [check.measured for check in checks(tmp_path, text, about)] == measured


def test_a_waiver_holds_until_its_day_and_says_why(tmp_path: Path) -> None:
    text = "[[time]]\nevent = 'relu'\nlimit_us = 1\nseverity = 'warning'\nreason = 'ticket 7'\n"
    text += "expires = 2026-06-30"
    (before,) = checks(tmp_path, text, subject(day=date(2026, 6, 30)))
    assert (before.severity, before.failed) == ("warning", False)
    assert before.reason.endswith("; 'warning' until 2026-06-30: ticket 7")
    (after,) = checks(tmp_path, text, subject(day=date(2026, 7, 1)))
    assert after.failed
    assert after.reason.endswith("; 'warning' expired on 2026-06-30")
    (held,) = checks(tmp_path, text.replace("= 1", "= 10"), subject(day=date(2026, 7, 1)))
    assert held.reason == "5 us is within the limit of 10 us", "nothing to explain"


def test_a_rules_severity_comes_before_that_of_its_code(tmp_path: Path) -> None:
    rules = "[[time]]\nevent = 'relu'\nlimit_us = 1\n[[time]]\nevent = 'conv'\nlimit_us = 1\n"
    rules += "severity = 'note'\n[severity]\nB01 = 'warning'"
    assert [c.severity for c in checks(tmp_path, rules)] == ["warning", "note", "note"]
    off = rules.replace("B01 = 'warning'", "B01 = { severity = 'off', expires = 2026-01-01 }")
    assert [c.severity for c in checks(tmp_path, off, subject(day=date(2026, 1, 1)))] == [
        "note"
    ] * 2
    expired = checks(tmp_path, off, subject(day=date(2026, 1, 2)))
    assert [c.severity for c in expired] == ["error", "note", "note"]


def test_a_budget_made_in_python_needs_no_file() -> None:
    budget = Budget(
        time=(TimeLimit(event="relu", limit_us=1.0),), severity={"B01": Waiver(severity="note")}
    )
    (check,) = [check for check in evaluate(subject(), budget).checks if check.code == "B01"]
    assert (check.severity, check.passed, check.source) == ("note", False, "")


def several_clocks(*, rate: bool = True) -> Subject:
    """An operator and a delegate's event on a clock of its own, in two executions."""
    events = [
        EventSpec("conv", 0, 10, instruction=0),
        EventSpec("conv", 0, 30, instruction=1, delegate="npu"),
        EventSpec(EXECUTION, 0, 100, chain=-1),
    ]
    trace = trace_of(RunSpec(events), RunSpec(events), clock=MHZ)
    npu = ClockDomain("npu", Fraction(2_000_000) if rate else None, 32)
    clock = np.array([0, 1, 0] * 2, trace.clock.dtype)
    return Subject(replace(trace, clocks=(*trace.clocks, npu), clock=clock))


def test_sums_over_several_clocks_have_a_time_but_no_ticks(tmp_path: Path) -> None:
    text = "[[time]]\nevent = 'conv'\nper = 'execution'\n"
    (check,) = checks(tmp_path, f"{text}limit_us = 25", several_clocks())
    assert (check.measured, check.passed) == (25.0, True)
    (check,) = checks(tmp_path, f"{text}limit_percent = 25", several_clocks())
    assert (check.measured, check.passed) == (25.0, True)
    (check,) = checks(tmp_path, f"{text}statistic='count'\nlimit_count = 2", several_clocks())
    assert (check.measured, check.passed) == (2.0, True)
    (check,) = checks(tmp_path, f"{text}limit_ticks = 25", several_clocks())
    assert (check.passed, check.reason) == (
        False,
        "the events are on several clocks: use a limit in ns, us or ms",
    )
    (check,) = checks(tmp_path, f"{text}limit_us = 25", several_clocks(rate=False))
    assert check.reason == "the rate of a clock is unknown"
    (check,) = checks(tmp_path, f"{text}limit_percent = 25", several_clocks(rate=False))
    assert "not comparable with 'Method::execute'" in check.reason


ALLOCATIONS = (
    CompactLog().block("Execute").allocator("temporary").allocator("unused").allocation(1, 600)
)
ALLOCATIONS.allocation(1, 500).allocation(1, -900).allocation(1, 70, failed=True)


@pytest.mark.parametrize(
    ("rule", "found"),
    [
        ("name = 'temp*'\nlimit_total_bytes = 200", [("B02", 200, True), ("B03", 1, False)]),
        ("name = 'temp*'\nlimit_bytes = 1099", [("B02", 1100, False), ("B03", 1, False)]),
        ("name = 'temp*'\nlimit_failures = 1", [("B03", 1, True)]),
        (
            "name = 'temp*'\nlimit_failures = 2\nlimit_failed_bytes = 69",
            [("B03", 1, True), ("B03", 70, False)],
        ),
        ("name = 'unused'\nlimit_bytes = 1", [("B02", None, False)]),
        ("name = 'unused'\nlimit_bytes = 1\noptional = true", []),
    ],
)
def test_allocators(rule: str, found: list[tuple[str, float, bool]], tmp_path: Path) -> None:
    about = Subject(read_log(ALLOCATIONS.image()))
    made = checks(tmp_path, f"[[allocator]]\n{rule}", about)
    assert [(c.code, c.measured, c.passed) for c in made if c.code[0] == "B"] == found


@pytest.mark.parametrize(
    ("stack", "said"),
    [
        (Stack(0, 100, 0), "the board does not report the size of its stack"),
        (Stack(0, 512, 512), "all 512 bytes were used: the stack may have overflowed"),
    ],
)
def test_a_share_of_a_stack(stack: Stack, said: str, tmp_path: Path) -> None:
    about = subject()
    about = replace(about, trace=replace(about.trace, stacks=(stack,)))
    (check,) = checks(tmp_path, "[stack]\nlimit_percent = 100", about)
    assert (check.passed, check.reason) == (False, said)


def test_a_backend_that_the_record_names_comes_before_that_of_the_result(tmp_path: Path) -> None:
    about = subject(backends={(0, 3): "Old"})
    known = EventSymbols(None, (), "New")
    about = replace(about, symbols=[known if n == 3 else None for n in about.trace.instruction])
    (check,) = checks(tmp_path, "[[delegate]]\nbackend = '*'\nlimit_us = 50", about)
    assert check.subject == "New in Execute"
