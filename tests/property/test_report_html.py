"""A page about any trace is sound HTML, in which nothing that a device said acts."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import (
    ClockDomain,
    EvaluatedRun,
    Subject,
    TargetRecord,
    Trace,
    evaluate,
    read_log,
    render_report,
)
from harness.strategies import device_logs, traces
from tests.support.compared import with_history
from tests.support.examples import examples
from tests.support.logs import CompactLog
from tests.support.pages import Page
from tests.support.reported import FINISHED, failed_run, reported, unmet
from tests.support.traces import EventSpec, RunSpec, trace_of

HOSTILE = (
    "<script>alert(1)</script>",
    "\"'><img src=x onerror=alert(1)>",
    "</style></title></textarea>--><b>",
    "{{ 7 * 7 }}{% include 'x' %}",
    "a\x00\x1b[31m\r\n\x7f\x85\u2028\u202e\ufffe",
    "\udc80\udcff\ud800",
    "&lt;&#60;&amp",
)
texts = st.one_of(st.sampled_from(HOSTILE), st.text(st.characters(), max_size=20))


@given(traces())
@settings(max_examples=examples(25), deadline=None)
def test_any_trace_gives_a_sound_page(trace: Trace) -> None:
    subject = Subject(trace)
    run = EvaluatedRun("a file", subject, evaluate(subject))
    data = render_report("report.html", [run])
    Page(data).assert_sound()
    assert (
        render_report("report.html", [EvaluatedRun("a file", Subject(trace), run.verdict)]) == data
    )


@given(device_logs())
@settings(max_examples=15, deadline=None)
def test_any_device_log_gives_a_sound_page(log: CompactLog) -> None:
    trace = read_log(log.image(), [ClockDomain("cpu", Fraction(10**9), 32)])
    subject = Subject(trace)
    Page(
        render_report("report.html", [EvaluatedRun("a file", subject, evaluate(subject))])
    ).assert_sound()


@pytest.mark.attack(
    "Texts",
    "markup and scripts in any text of a trace",
    "HTML shows them as text; nothing is executed",
)
@given(texts, texts, texts)
@settings(max_examples=examples(25), deadline=None)
def test_whatever_texts_there_are_none_acts(title: str, reason: str, console: str) -> None:
    run = replace(reported(unmet(subject=title, reason=reason), title=title), console=console)
    failed = failed_run(reason, kind=title)
    assert failed.result is not None
    assert failed.failure is not None
    hint = msgspec.structs.replace(failed.failure, hint=console)
    failed = replace(failed, result=msgspec.structs.replace(failed.result, failure=hint))
    page = Page(render_report("report.html", [run, failed]))
    page.assert_sound()


@pytest.mark.attack(
    "Texts",
    "markup and scripts in any text of a result",
    "HTML shows them as text; nothing is executed",
)
@given(st.fixed_dictionaries(dict.fromkeys(("board", "unit", "port", "commit", "session"), texts)))
@settings(max_examples=15, deadline=None)
def test_whatever_a_result_says_none_of_it_acts(fields: dict[str, str]) -> None:
    target = TargetRecord(fields["board"], fields["unit"], *([fields["port"], 1, 2, ()] + [0] * 8))
    result = msgspec.structs.replace(
        FINISHED, **fields, target=target, time_scales={fields["unit"]: fields["port"]}
    )
    Page(
        render_report("report.html", [reported(result=result), reported(result=result)])
    ).assert_sound()


@pytest.mark.attack(
    "Texts",
    "markup and scripts in commits, units and labels of a history",
    "HTML shows them as text; nothing is executed",
)
@given(texts, texts, texts)
@settings(max_examples=10, deadline=None)
def test_whatever_history_says_none_of_it_acts(name: str, commit: str, delegate: str) -> None:
    run = with_history(
        trace_of(RunSpec([EventSpec(name, 0, 9, delegate=delegate), EventSpec("b", 10, 30)]))
    )
    assert run.history is not None
    results = tuple(
        msgspec.structs.replace(result, commit=commit, session=name, started_utc=delegate)
        for result in run.history.results
    )
    history = msgspec.structs.replace(run.history, results=results, description=commit)
    Page(render_report("report.html", [replace(run, history=history)])).assert_sound()
