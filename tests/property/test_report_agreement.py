"""Every report of a run lists the same operators, the same failed checks and the same verdict."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any
from xml.etree import ElementTree as ET

import msgspec
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from rich.console import Console

from harness import (
    EXECUTION,
    OPERATOR_CALL,
    Budget,
    Compared,
    EvaluatedRun,
    Failure,
    HistoryComparison,
    HistoryLimits,
    Interval,
    Subject,
    TimeLimit,
    Trace,
    Verdict,
    evaluate,
    measure,
    render_report,
)
from harness.formatting import TICKS, printable
from harness.report.changes import change_cells
from harness.report.description import describe
from harness.report.operators import operator_name, share_text
from harness.report.run import print_run
from harness.report.words import event_title
from harness.strategies import executions
from tests.support.examples import examples
from tests.support.pages import Page
from tests.support.reported import FINISHED, unmet

ODD = ("<b>&amp;", "a|b `c`", r"\*x_[y](z)", "\x1b[31mred\x00", "\udc80\u202e", "x  y", "#~$@")
"""What each format has to escape."""

CELLS = ("operator", "instruction", "count", "p50", "avg", "share")

EXACT = re.compile(
    r"(.*?)(?: · instruction (-?\d+))? · count ([\d,]+) · median (.*), average (.*), p90 .*",
    re.DOTALL,
)
"""An operator in a tooltip of the page: its name as logged, and its statistics."""

OFF = re.compile(r" \([+-][\d,.]+ %\)$")
"""By how much a number is off its limit."""

READER = MarkdownIt("commonmark", {"html": True}).enable("table")


@dataclass(frozen=True)
class Shown:
    """What a report shows.

    Attributes:
        verdict: PASS or FAIL, and why.
        operators: Name, instruction, count, median, average and share of each, in order. Of a
            terminal, which prints short names and three digits, each line.
        failed: Code, subject, rule and reason of each failed check, in order.
    """

    verdict: str
    operators: Sequence[tuple[str, ...]]
    failed: list[str]


names = st.one_of(
    st.sampled_from(ODD),
    # Tables of Markdown cut the spaces around a cell.
    st.text(st.characters(), max_size=12).map(lambda text: text.strip(" ") or "x"),
)


@st.composite
def evaluated_runs(draw: st.DrawFn) -> EvaluatedRun:
    """A run with limits that hold or fail, with or without delegates, a history and a failure."""
    trace = _renamed(draw, draw(executions(max_operators=3, delegates=draw(st.booleans()))).trace)
    subject = Subject(trace, board="native", model="net.pte")
    limits = draw(st.lists(st.floats(0, 1e6), max_size=1))
    rules = tuple(TimeLimit(event="*", limit_us=limit) for limit in limits)
    checks = list(evaluate(subject, Budget(schema=1, time=rules)).checks)
    for number, reason in enumerate(draw(st.lists(names, max_size=3))):
        severity = draw(st.sampled_from(["error", "warning", "note"]))
        extra = unmet(subject=f"{draw(names)} {number}", reason=reason)
        measured = draw(st.floats(1, 9))
        extra = msgspec.structs.replace(extra, severity=severity, measured=measured)
        checks.insert(draw(st.integers(0, len(checks))), extra)
    verdict = Verdict(tuple(checks))
    assume(len(verdict.failures) <= 20)  # the terminal lists no more
    result = FINISHED
    if draw(st.booleans()):
        kept = names.map(lambda text: text.encode(errors="replace").decode())  # as result.json does
        failure = Failure(draw(kept), draw(kept), draw(kept))
        result = msgspec.structs.replace(FINISHED, exit_code=4, failure=failure)
    comparison = draw(st.none() | _comparisons(subject))
    return EvaluatedRun(draw(names), subject, verdict, result, comparison=comparison)


def _renamed(draw: st.DrawFn, trace: Trace) -> Trace:
    """The same trace with other names for what is no scope of the runtime."""
    kept = (EXECUTION, OPERATOR_CALL, "DELEGATE_CALL")
    found = [
        name if name in kept else draw(names.filter(lambda n: n not in kept)) + f"#{place}"
        for place, name in enumerate(trace.names)
    ]
    return replace(trace, names=tuple(found))


@st.composite
def _comparisons(draw: st.DrawFn, subject: Subject) -> HistoryComparison:
    numbers = tuple(
        Compared(
            metric=metric,
            board_unit="board",
            judgement=draw(st.sampled_from(["regression", "improvement", "same"])),
            baseline=Interval(sample.value, sample.value, sample.value),
            current=sample.value,
            change=Interval(1.0, 0.5, 1.5),
            relative=draw(st.floats(-1, 1)),
        )
        for metric, sample in measure(subject).items()
    )
    return HistoryComparison(
        description=draw(names),
        limits=HistoryLimits(),
        commit="",
        units=("board",),
        numbers=numbers,
    )


def on_terminal(run: EvaluatedRun) -> Shown:
    out = io.StringIO()
    print_run(Console(file=out, width=10_000), describe(run), top=1_000)
    lines = out.getvalue().splitlines()
    return Shown(
        verdict=lines[-1],
        operators=[(line,) for line in _below(lines, "Operators")],
        failed=[line.removeprefix("failed: ") for line in lines if line.startswith("failed: ")],
    )


def _below(lines: list[str], title: str) -> list[str]:
    """The rows of the table with this title, without its header."""
    first = next((n + 2 for n, line in enumerate(lines) if line.startswith(f"{title} in ")), 0)
    return lines[first : lines.index("", first)] if first else []


def in_html(run: EvaluatedRun) -> Shown:
    page = Page(render_report("report.html", [run]))
    badge, headline = page.all("h1")[0][0], page.all("p")[0]
    assert "headline" in headline.get("class")
    found: dict[str, list[list[str]]] = {}
    for section in page.all("section"):
        heading = next(child.get("id") for child in section if child.get("id"))
        rows = next((e for e in section.iter() if e.tag == "tbody"), ())
        found[heading] = [["".join(cell.itertext()) for cell in row] for row in rows]
    operators = []
    [section] = [e for e in page.all("section") if e[0].get("id") == "run-1-operators"]
    table = next(e for e in section.iter() if e.tag == "tbody")
    for row in table:
        exact = EXACT.fullmatch(row[0].get("title"))
        assert exact is not None
        name, instruction, count, p50, avg = exact.groups()
        share = next(cell for cell in row if cell.get("class") == "n share")
        operators.append((name, instruction or "", count, p50, avg, share.text))
    failed = [
        f"{code} {subject}: {rule.split(' tests/')[0]}: {reason}"
        for outcome, code, rule, subject, _, _, reason in found["run-1-checks"]
        if outcome == "FAIL"
    ]
    why = [item for item in page.all("li") if item.get("class") == "fail"]
    texts = ["".join(item.itertext()).partition(" tests/")[0] for item in why]
    assert [OFF.sub("", text) for text in texts] == failed
    result = "PASS" if badge.text == "PASS" else "FAIL"
    text = headline.text.rstrip(" ")
    if badge.text == "FAIL":  # what decides stands before how many checks failed
        [counts] = [e for e in headline if e.get("class") == "muted"]
        assert text.startswith(run.verdict.worst_failures[0].code)
        text = (counts.text or "").removeprefix("(").partition(", exit code")[0]
    return Shown(f"{result}: {text}", operators, failed)


def in_markdown(run: EvaluatedRun) -> Shown:
    tables: dict[str, list[list[str]]] = {}
    paragraphs, text, rows = [], "", [[""]]
    for token in READER.parse(render_report("report.md", [run]).decode().replace("&#8203;", "")):
        if token.type == "inline":
            parts = token.children or []
            assert {part.type.partition("_")[0] for part in parts} <= {"text", "strong", "em"}
            text = "".join(part.content for part in parts)
            paragraphs.append(text)
            rows[-1].append(text)
        elif token.type == "html_block" and (title := re.search("<summary>(.*)<", token.content)):
            text = title[1]
        elif token.type == "table_open":
            rows = tables[text] = []
        elif token.type == "table_close":
            rows = [[""]]
        elif token.type == "tr_open":
            rows.append([])
    failed = tables.get("Failed checks", [])[1:]
    return Shown(
        verdict=_verdict_of(paragraphs),
        operators=[tuple(row) for row in tables.get("Longest operators", [])[1:]],
        failed=[f"{code} {subject}: {rule}: {reason}" for code, subject, rule, reason in failed],
    )


def _verdict_of(paragraphs: Sequence[str]) -> str:
    """The heading has the verdict and what decided it; a headline that says more stands below."""
    word, _, why = paragraphs[0].split(": ", 2)
    return f"{word}: {why if word == 'PASS' else paragraphs[1].partition('; ')[0]}"


def in_junit(run: EvaluatedRun) -> Shown:
    [suite] = ET.fromstring(render_report("report.xml", [run]))
    facts = [(item.get("name", ""), item.get("value", "")) for item in suite.iter("property")]
    operators = []
    value = re.compile(r"(\S+) times, p50 (.*), avg (.*) \[\w+\], share (\S+) \[%\]")
    for name, text in facts:
        if name.startswith("operator "):
            known = re.fullmatch(r"operator \d+: (.*), instruction (\d+)", name)
            times = value.fullmatch(text)
            assert known is not None
            assert times is not None
            operators.append((*known.groups(), *times.groups()))
    failed = [
        f"{case.get('classname')} {case.get('name')}: {failure.get('message')}"
        for case in suite.iter("testcase")
        for failure in case.iter("failure")
    ]
    assert len(failed) == int(suite.get("failures", ""))
    return Shown(facts[0][1], operators, failed)


def in_json(run: EvaluatedRun) -> Shown:
    [found] = json.loads(render_report("report.json", [run]))["runs"]
    table = describe(run).operators
    unit = TICKS if table is None else table.unit

    def cells(op: dict[str, Any]) -> tuple[str, ...]:
        """The texts of exact values."""
        delegate = op["delegate_int"] if op["delegate_str"] is None else op["delegate_str"]
        name = op["name"] if delegate == -1 else f"{op['name']} [{delegate}]"
        own, suffix = (unit, "") if op["unit"] == "ns" else (TICKS, " ticks")
        times = [own.text(op[name]) + suffix for name in ("p50", "avg")]
        share = f"{100 * op['share']:.1f}" if op["share"] is not None else "?"
        return (name, str(op["instruction"]), f"{op['count']:,}", *times, share)

    return Shown(
        verdict=f"{'PASS' if found['passed'] else 'FAIL'}: {found['headline']}",
        operators=[cells(op) for op in found["operators"]],
        failed=[
            f"{check['code']} {check['subject']}: {check['rule']}: {check['reason']}"
            for check in found["checks"]
            if not check["passed"] and check["severity"] == "error"
        ],
    )


RENDERERS: dict[str, Callable[[EvaluatedRun], Shown]] = {
    "terminal": on_terminal,
    "HTML": in_html,
    "Markdown": in_markdown,
    "JUnit": in_junit,
    "JSON": in_json,
}


@given(evaluated_runs())
@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_all_reports_show_the_same_operators_failed_checks_and_verdict(run: EvaluatedRun) -> None:
    assert run.subject is not None
    shown = {name: render(run) for name, render in RENDERERS.items()}
    names = {printable(op.name) for op in run.subject.operators}
    terminal = shown.pop("terminal")
    failed = [
        f"{check.code} {check.subject}: {f'{check.rule}: ' * (check.code[0] == 'B')}{check.reason}"
        for check in describe(run).verdict.failed
    ]
    assert (terminal.verdict, terminal.failed) == (shown["JSON"].verdict, failed)
    table = describe(run).operators
    assert table is not None
    for (line,), row in zip(terminal.operators, table.operators, strict=True):
        assert line.startswith((event_title(row), operator_name(row)))
        median = table.text(row, "p50") if row.ns is None else table.unit.brief(row.ns.p50)
        assert f" {median} " in line
        assert f" {share_text(row.share)}" in line
    for name, found in shown.items():
        assert found == shown["JSON"], name
        assert found.operators, name
        assert not {EXECUTION, OPERATOR_CALL} & {row[0] for row in found.operators}, name
        assert {row[0].rpartition(" [")[0] or row[0] for row in found.operators} <= names, name
        assert len(found.failed) == len(run.verdict.failures), name
        assert found.verdict.startswith("PASS") == run.passed, name


@given(evaluated_runs())
@settings(max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_all_reports_show_the_same_changes_against_history(run: EvaluatedRun) -> None:
    changes = describe(run).changes
    rows = [] if changes is None else [*map(change_cells, changes.changed[:10])]
    out = io.StringIO()
    print_run(Console(file=out, width=10_000), describe(run))
    lines = iter(out.getvalue().splitlines())
    page = iter(Page(render_report("report.html", [run])).text().splitlines())
    markdown = iter(in_lines(render_report("report.md", [run]).decode()))
    for row in rows:
        for shown in (lines, page, markdown):
            # ``in`` goes on where the row before was found, so the order is the same, too.
            assert any(row["relative"] in line and row["now"] in line for line in shown)


def in_lines(markdown: str) -> list[str]:
    """Texts of each row of the tables of a Markdown document."""
    tokens = READER.parse(markdown)
    lines = [""]
    for token in tokens:
        if token.type == "tr_open":
            lines.append("")
        elif token.type == "inline":
            lines[-1] += "".join(part.content for part in token.children or ()) + " "
    return lines
