"""Budgets: what is refused when read, and what passes and fails."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

import harness
from harness import (
    Budget,
    Check,
    ClockDomain,
    Losses,
    LossLimit,
    Stack,
    Subject,
    Trace,
    UsageError,
    evaluate,
    read_log,
)
from tests.conftest import BOARDS
from tests.support.logs import CompactLog

TABLES = (
    *("time", "module", "delegate", "block", "counter", "energy", "allocator"),
    *("stack", "trace", "code", "arena", "losses"),
)
"""Of a budget, without severities and the history."""

SYSTICK = ClockDomain("systick", Fraction(25_000_000), 32)


def budget(tmp_path: Path, text: str) -> Budget:
    path = tmp_path / "budget.toml"
    path.write_text(text if text.startswith("schema") else "schema = 1\n" + text)
    return Budget.load(path)


def trace(*, failed: bool = False, dropped: int = 0, hz: bool = True) -> Trace:
    log = CompactLog().block("Default").allocator("planned_0").allocation(1, 1000)
    if failed:
        log.allocation(1, 10**6, failed=True)
    for _ in range(3):
        log.block("Execute").profile("native_call_a", 0, 250).profile("native_call_b", 0, 500)
        log.profile("Method::execute", 0, 1000, chain=-1)
    log.dropped_events = dropped
    return read_log(log.image(), [SYSTICK] if hz else [])


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[[time]]\nevent = 'a'", "limit missing: set one of limit_ns, limit_us"),
        (
            "[[time]]\nevent = 'a'\nlimit_us = 1\nlimit_ticks = 1",
            "one of limit_us and limit_ticks, not both",
        ),
        ("[[time]]\nevent = 'a'\nlimit_us = 1\nstatistic = 'p99'", r"statistic cannot be 'p99'"),
        (
            "[[time]]\nevent = 'a'\nlimit_us = 1\nstatistic = 'count'",
            "limit_count and at_least_count require",
        ),
        (
            "[[time]]\nevent = 'a'\nlimit_count = 1",
            "limit_count and at_least_count require statistic = 'count'",
        ),
        ("[[time]]\nevent = 'a'\nlimit_us = -1", "limit_us"),
        ("[[time]]\nlimit_us = 1", "event"),
        ("[[tiem]]\nevent = 'a'\nlimit_us = 1", "tiem"),
        ("[[allocator]]\nname = 'a'\nlimit_byte = 1", "limit_byte"),
        ("[losses]\nevents = -1", "events"),
        ("schema = 2", "schema"),
    ],
)
def test_a_wrong_budget_is_refused_by_file_and_key(
    tmp_path: Path, text: str, complaint: str
) -> None:
    with pytest.raises(UsageError, match=complaint) as caught:
        budget(tmp_path, text)
    assert "budget.toml" in str(caught.value)


@pytest.mark.parametrize("name", BOARDS)
def test_a_boards_default_budget_limits_nothing_that_depends_on_the_model(name: str) -> None:
    board = harness.Board.load(name)
    path = board.file
    if board.budget is None:
        return
    rules = Budget.load(path.parent / board.budget, name, "model.pte", name)
    tables = {name for name in TABLES if getattr(rules, name)}
    assert tables == {"stack", "losses"}
    assert rules.losses == LossLimit()
    assert rules.stack is not None
    assert rules.stack.optional
    assert rules.stack.limit_bytes is None


def checks(tmp_path: Path, text: str, subject: Trace) -> tuple[bool, list[Check]]:
    verdict = evaluate(Subject(subject), budget(tmp_path, text))
    assert verdict.passed == (not verdict.failures)
    found = [item for item in verdict.checks if item.code.startswith("B")]
    return not any(item.failed for item in found), found


def test_a_pattern_is_checked_against_each_operator_it_matches(tmp_path: Path) -> None:
    text = "[[time]]\nevent = 'native_call_*'\nlimit_us = 15"
    passed, found = checks(tmp_path, text, trace())
    assert not passed
    a, b, events, blocks = found
    assert (a.measured, a.limit, a.unit, a.passed) == (10.0, 15.0, "us", True)
    assert (b.measured, b.passed) == (20.0, False)
    assert b.reason == "20 us exceeds the limit of 15 us"
    assert "native_call_b" in b.subject
    assert events.passed
    assert blocks.passed


@pytest.mark.parametrize(
    ("rule", "passed"),
    [
        ("statistic = 'max'\nlimit_ticks = 1000", True),
        ("statistic = 'max'\nlimit_ticks = 999.5", False),
        ("statistic = 'count'\nlimit_count = 3", True),
        ("statistic = 'count'\nlimit_count = 2", False),
        ("block = 'Exe*'\nlimit_us = 40", True),
        ("block = 'Default'\nlimit_us = 40", False),
    ],
)
def test_statistics_and_units(tmp_path: Path, rule: str, passed: bool) -> None:
    text = f"[[time]]\nevent = 'Method::execute'\n{rule}"
    assert checks(tmp_path, text, trace())[0] is passed


def test_a_rule_that_matches_nothing_fails(tmp_path: Path) -> None:
    text = "[[time]]\nevent = 'nope'\nlimit_us = 1\n[[allocator]]\nname = 'x'\nlimit_bytes = 1"
    _, (time, allocator, *_) = checks(tmp_path, text, trace())
    assert not time.passed
    assert time.measured is None
    assert "no event matches 'nope'" in time.reason
    assert "the limit matches nothing" in time.reason
    assert "no allocator matches 'x'" in allocator.reason


def test_a_time_limit_needs_a_clock_rate(tmp_path: Path) -> None:
    text = "[[time]]\nevent = 'Method::execute'\nlimit_us = 1e9"
    _, (check, *_) = checks(tmp_path, text, trace(hz=False))
    assert not check.passed
    assert "limit_ticks" in check.reason


def test_allocators_are_limited_and_may_not_fail(tmp_path: Path) -> None:
    text = "[[allocator]]\nname = 'planned_*'\nlimit_bytes = 1000"
    assert checks(tmp_path, text, trace())[0]
    assert not checks(tmp_path, text.replace("1000", "999"), trace())[0]
    passed, found = checks(tmp_path, text, trace(failed=True))
    assert not passed
    assert [check.unit for check in found if not check.passed] == ["failures"]


@pytest.mark.parametrize(
    ("stacks", "passed", "said"),
    [
        ([(0, 1000, 2048)], True, "1,000 bytes is within the limit of 1,000 bytes"),
        ([(0, 1001, 2048)], False, "1,001 bytes exceed the limit of 1,000 bytes"),
        ([(0, 10, 2048), (1, 1001, 2048)], False, "is within"),
        ([(0, 512, 512)], False, "all 512 bytes were used: the stack may have overflowed"),
        ([], False, "the limit matches nothing"),
    ],
)
def test_every_stack_is_limited_and_may_not_overflow(
    tmp_path: Path, stacks: list[tuple[int, int, int]], passed: bool, said: str
) -> None:
    subject = replace(trace(), stacks=tuple(Stack(*stack) for stack in stacks))
    all_passed, (check, *others) = checks(tmp_path, "[stack]\nlimit_bytes = 1000", subject)
    assert all_passed is passed
    assert said in check.reason
    assert [other.subject for other in others].count("stack of tracer 1") == (len(stacks) == 2)


def test_losses_fail_unless_allowed(tmp_path: Path) -> None:
    assert not checks(tmp_path, "", trace(dropped=2))[0]
    assert checks(tmp_path, "[losses]\nevents = 2", trace(dropped=2))[0]


def test_lost_values_fail_unless_allowed(tmp_path: Path) -> None:
    lossy = replace(trace(), losses=Losses(values=2))
    assert not checks(tmp_path, "", lossy)[0]
    assert checks(tmp_path, "[losses]\nvalues = 2", lossy)[0]


def test_runs_given_up_as_asked_for_fail_only_beyond_a_limit(tmp_path: Path) -> None:
    lossy = replace(trace(), losses=Losses(runs=2))
    assert checks(tmp_path, "", lossy)[0]
    assert checks(tmp_path, "[losses]\nruns = 2", lossy)[0]
    assert not checks(tmp_path, "[losses]\nruns = 1", lossy)[0]


def test_what_is_given_back_counts_while_it_is_held(tmp_path: Path) -> None:
    log = CompactLog().block("Execute").allocator("temporary")
    for size in (600, 500, -1100, 200, -200):
        log.allocation(1, size)
    text = "[[allocator]]\nname = 'temporary'\nlimit_bytes = 1000"
    _, (check, *_) = checks(tmp_path, text, read_log(log.image()))
    assert not check.passed
    assert check.measured == 1100


def refused(tmp_path: Path, text: str) -> UsageError:
    with pytest.raises(UsageError) as caught:
        budget(tmp_path, text)
    return caught.value


TIME = "[[time]]\nevent = 'a'\n"


@pytest.mark.parametrize(
    ("text", "place", "hint"),
    [
        ("extends = ['/x.toml']", "2:12: '/x.toml' is an", "write the path relative to this file"),
        ("extends = ['budget.toml']", "2:12: budgets extend", "remove one of these extends"),
        ("extends = ['no.toml']", "2:12: file not", "paths are relative to the budget file"),
        ("severity.B99 = 'off'", "2:10: unknown check code 'B99'", "codes are I01, I02, "),
        (
            "[severity]\nI13 = 'off'",
            "3:1: the severity of I13 cannot be changed",
            "remove this line; `etharness explain I13` explains the check",
        ),
        (
            "[severity.B01]\nreason = 'x'",
            "2:1: severity missing for B01",
            'add severity = "error", "warning", "note" or "off"',
        ),
        (
            "[[for]]\nboard = 'nativ'\n",
            "3:1: 'nativ' matches no known board",
            "name a board of your own in boards = [...] at the top of the file",
        ),
        (
            "[[for]]\nboard = ['native', 'nativ']\n",
            "3:20: 'nativ' matches no known board",
            "did you mean 'native'? `etharness boards` lists",
        ),
        (
            f"{TIME}id = 'x'\nlimit_us = 1\n{TIME}id = 'x'\nlimit_us = 2",
            "duplicate id 'x' in [[time]]",
            "give each rule of a file its own id",
        ),
        (
            f"{TIME}limit_us = 1\nat_least_us = 2",
            "5:1: [time] at_least_us = 2 is more than limit_us = 1",
            "no time can keep to both: lower the first, or raise the second",
        ),
        (
            "[[counter]]\nevent = 'a'\ncounter = 'instret'\nlimit_count = 1\nat_least_count = 2",
            "[counter] at_least_count = 2 is more than limit_count = 1",
            "no count can keep to both: lower the first, or raise the second",
        ),
        (
            "[[counter]]\nevent = 'a'\ncounter = 'cycles'\nof = 'instret'\n"
            "limit_ratio = 0.5\nat_least_ratio = 0.75",
            "7:1: [counter] at_least_ratio = 0.75 is more than limit_ratio = 0.5",
            "no count can keep to both: lower the first, or raise the second",
        ),
        (f"{TIME}id = 'x'", "limit missing", "no earlier rule has the id 'x'"),
        (
            f"{TIME}id = 'first'\nlimit_us = 1\n[[time]]\nid = 'frist'",
            "",
            "no earlier rule has the id 'frist': did you mean 'first'?",
        ),
        ("[[time]]\nevent = 'a'", "limit missing", ""),
    ],
)
def test_a_refusal_names_the_place_and_the_remedy(
    tmp_path: Path, text: str, place: str, hint: str
) -> None:
    error = refused(tmp_path, text)
    assert place in error.message
    if hint.endswith(", "):
        assert error.hint.startswith(hint) or hint in error.hint
    elif hint.startswith(("name a board", "did you mean 'native'")):
        assert hint in error.hint
    else:
        assert error.hint == hint


def test_a_file_that_was_read_is_passed_over_and_the_next_is_not(tmp_path: Path) -> None:
    for name, extends in (("a", ""), ("b", "extends = ['a.toml']\n"), ("c", "")):
        rule = f"[[time]]\nevent = '{name}'\nlimit_us = 1\n"
        (tmp_path / f"{name}.toml").write_text(f"schema = 1\n{extends}{rule}")
    rules = budget(tmp_path, "extends = ['b.toml', 'a.toml', 'c.toml']\n")
    assert [rule.event for rule in rules.time] == ["a", "b", "c"]


def test_a_share_stays_of_what_it_was_until_its_limit_is_replaced(tmp_path: Path) -> None:
    base = "schema = 1\n[[time]]\nid = 'x'\nevent = 'a'\nlimit_percent = 50\nof = 'b'\n"
    (tmp_path / "base.toml").write_text(base)
    text = "extends = 'base.toml'\n[[time]]\nid = 'x'\n"
    [kept] = budget(tmp_path, f"{text}limit_percent = 40").time
    assert (kept.limit_percent, kept.of) == (40, "b")
    [replaced] = budget(tmp_path, f"{text}limit_us = 40").time
    assert (replaced.limit_us, replaced.limit_percent, replaced.of) == (40, None, None)


def limits(tmp_path: Path, text: str) -> list[Check]:
    verdict = evaluate(Subject(trace()), budget(tmp_path, text))
    return [check for check in verdict.checks if check.code == "B01"]


@pytest.mark.parametrize(
    ("waiver", "said"),
    [
        ("reason = 'new kernel'", "'warning': new kernel"),
        ("expires = 2100-01-02\nreason = 'x'", "'warning' until 2100-01-02: x"),
        ("", None),
    ],
)
def test_a_waiver_is_told_where_a_check_fails(
    tmp_path: Path, waiver: str, said: str | None
) -> None:
    limit = "[[time]]\nevent = 'native_call_*'\nlimit_us = 15\nseverity = 'warning'\n"
    a, b = limits(tmp_path, limit + waiver)
    assert (a.severity, a.reason) == ("warning", "10 us is within the limit of 15 us")
    exceeded = "20 us exceeds the limit of 15 us"
    assert b.reason == (exceeded if said is None else f"{exceeded}; {said}")


def test_after_a_waiver_that_expired_the_one_of_the_code_counts(tmp_path: Path) -> None:
    limit = "[[time]]\nevent = 'native_call_b'\nlimit_us = 15\nseverity = 'off'\n"
    [check] = limits(tmp_path, f"{limit}expires = 2020-01-02\n[severity]\nB01 = 'note'")
    assert check.severity == "note"
    assert check.reason.endswith("; 'off' expired on 2020-01-02")


def test_each_rule_and_field_has_its_line(tmp_path: Path) -> None:
    rules = budget(tmp_path, f"{TIME}limit_us = 1\n[stack]\nlimit_bytes = 5\n[severity]\nB01='off'")
    assert rules.lines["time", 0] == "budget.toml:2"
    assert rules.lines["time", 0, "limit_us"] == "budget.toml:4"
    assert rules.lines["stack",] == "budget.toml:5"
    assert rules.lines["severity", "B01"] == "budget.toml:8"
    assert rules.source("time", 0, "limit_us") == "budget.toml:4"
    assert rules.source("time", 0, "severity") == "budget.toml:2", "the table around it"
    assert rules.source("arena", "limit_bytes") == ""
