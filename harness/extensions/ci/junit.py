"""Runs as JUnit XML for CI systems: a suite per run, a test case per check."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC
from xml.etree import ElementTree as ET

from harness.errors import FormatError, Owner
from harness.formatting import printable
from harness.records.nightly import NightDocument, StepOutcome
from harness.records.result import moment
from harness.records.verdict import Check
from harness.report.description import RunDescription, describe
from harness.report.operators import operator_name, share_text
from harness.report.words import LONGEST_SENTENCE, brief, left_out
from harness.runs.source import EvaluatedRun

RUN_CASE = "run"
"""Class name of the test case that fails if the run did."""

_UNKNOWN = "1970-01-01T00:00:00"
"""Timestamp of a trace without a result; readers want one without a time zone."""

_SHOWN = ("warning", "note")
"""Outcomes of checks that the output of a suite lists; failures have an element of their own."""

_MOST_OPERATORS = 100
"""Operators among the properties of a suite."""


def junit_report(runs: Sequence[EvaluatedRun], night: NightDocument | None = None) -> bytes:
    """Return the XML of ``runs``.

    A nightly run is a suite in front of theirs, with a test case for each step. Steps that were not
    run are skipped, and their unit is an error of its own.

    The document is valid by Ant's schema, the strictest in use, and by that of Jenkins: a test case
    holds a result and nothing else. So what else is known of it is in the output of the suite. A
    failed check is a ``failure``. A warning or note is a test that passed. A run that failed before
    its end is an ``error``.
    """
    root = ET.Element("testsuites")
    if night is not None:
        root.append(night_suite(night))
    for number, run in enumerate(runs, start=len(root)):
        root.append(_suite(number, describe(run)))
    ET.indent(root)
    document: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return document + b"\n"


def _suite(number: int, run: RunDescription) -> ET.Element:
    result, checks = run.run.result, run.verdict.checks
    suite = ET.Element(
        "testsuite",
        name=_token(run.title),
        id=str(number),
        package="etharness",
        timestamp=_timestamp(result.started_utc if result else ""),
        hostname=_token(result.unit if result else ""),
        tests=str(len(checks) + 1),
        failures=str(len(run.verdict.failed)),
        errors=str(int(run.failure is not None)),
        skipped="0",
        time=_seconds(result.duration_s if result else 0.0),
    )
    properties = ET.SubElement(suite, "properties")
    for name, value in _properties(run):
        ET.SubElement(properties, "property", name=_token(name), value=value)
    suite.append(_ended(run))
    suite.extend(_cases(checks))
    warned = [f"{row.outcome}: {row.code} {row.subject}: {_output(row)}" for row in checks]
    shown = [text for text, row in zip(warned, checks, strict=True) if row.outcome in _SHOWN]
    ET.SubElement(suite, "system-out").text = "\n".join([*shown, *run.console])
    crash = run.run.postmortem.message if run.run.postmortem is not None else ""
    ET.SubElement(suite, "system-err").text = _lines(crash)
    return suite


def _properties(run: RunDescription) -> Iterator[tuple[str, str]]:
    """The verdict, the facts, and the operators with the longest total time."""
    yield "verdict", brief(run.verdict.line, LONGEST_SENTENCE)
    for fact in run.facts:
        yield fact.label, brief(fact.text, LONGEST_SENTENCE)
    table = run.operators
    if table is None:
        return
    for place, row in enumerate(table.operators[:_MOST_OPERATORS], start=1):
        instruction = f", instruction {row.instruction}" if row.chain != -1 else ""
        texts = f"p50 {table.text(row, 'p50')}, avg {table.text(row, 'avg')} [{table.unit.name}]"
        value = f"{len(row.rows):,} times, {texts}, share {share_text(row.share)} [%]"
        yield f"operator {place}: {brief(operator_name(row))}{instruction}", value
    if more := left_out(len(table.operators), _MOST_OPERATORS):
        yield "operators left out", f"{more:,}"


def _ended(run: RunDescription) -> ET.Element:
    """The test case that is an error if the run failed before its end."""
    took = run.run.result.duration_s if run.run.result else 0.0
    case = _case(RUN_CASE, "the run ends", took)
    if run.failure is not None:
        failure = run.failure
        text = f"{failure.message}\n{failure.hint}\nexit code {run.exit_code}"
        message, kind = brief(failure.message, LONGEST_SENTENCE), brief(failure.kind)
        ET.SubElement(case, "error", message=message, type=kind).text = _lines(text)
    return case


def _cases(checks: Iterable[Check]) -> Iterator[ET.Element]:
    seen: Counter[tuple[str, str]] = Counter()
    for row in checks:
        name = f"{brief(row.subject)}: {brief(row.rule)}"
        seen[row.code, name] += 1
        if (times := seen[row.code, name]) > 1:
            name = f"{name} ({times})"
        case = ET.Element("testcase", classname=row.code, name=name, time=_seconds(0.0))
        if row.outcome == "fail":
            message = brief(row.reason, LONGEST_SENTENCE)
            ET.SubElement(case, "failure", message=message, type=row.code).text = _output(row)
        yield case


def _output(row: Check) -> str:
    lines = [row.reason]
    if row.source:
        lines.append(f"rule: {row.source}")
    if row.outcome != "pass":
        lines.append(f"see: etharness explain {row.code}")
    return "\n".join(lines)


def _lines(text: str) -> str:
    """Return text that XML can hold, line by line."""
    return "\n".join(map(printable, text.splitlines()))


def night_suite(night: NightDocument) -> ET.Element:
    """Return the suite of a nightly run.

    A failure of the product and a regression are a ``failure``, any other failure is an ``error``,
    also of a step that was not run because of it. Quarantined failures are ``skipped``, and so are
    steps that were not run if that does not count.
    """
    cases = [*map(_step, night.outcomes), *_troubles(night)]
    output = [line for outcome in night.outcomes for line in _attempts(outcome)]
    output += [
        printable(f"{arm.after} against {arm.before}, {arm.model} on {arm.board}: {arm.summary}")
        for arm in night.arms
    ]
    attempts = [attempt for outcome in night.outcomes for attempt in outcome.attempts]
    suite = ET.Element(
        "testsuite",
        name=_token(night.night),
        id="0",
        package="etharness.nightly",
        timestamp=_timestamp(night.started_utc),
        hostname=_token(""),
        tests=str(len(cases)),
        failures=str(sum(case.find("failure") is not None for case in cases)),
        errors=str(sum(case.find("error") is not None for case in cases)),
        skipped=str(sum(case.find("skipped") is not None for case in cases)),
        time=_seconds(sum(attempt.duration_s for attempt in attempts)),
    )
    properties = ET.SubElement(suite, "properties")
    for name, value in night.counts.items():
        ET.SubElement(properties, "property", name=_token(name), value=str(value))
    suite.extend(cases)
    ET.SubElement(suite, "system-out").text = "\n".join([*map(printable, night.notes), *output])
    ET.SubElement(suite, "system-err").text = ""
    return suite


def _step(outcome: StepOutcome) -> ET.Element:
    step = outcome.step
    took = sum(attempt.duration_s for attempt in outcome.attempts)
    place = f"{step.board}.{step.model}"
    case = _case(place, str(step), took)
    why = f"{outcome.why} (known as {outcome.quarantine})" if outcome.quarantine else outcome.why
    why = f"not run: {why}" if outcome.outcome == "not run" else why
    if outcome.counts:
        _failed(case, outcome.owner, why, "\n".join(_attempts(outcome)))
    elif outcome.state != "pass":
        owner = f"{outcome.owner}: " if outcome.quarantine else ""
        ET.SubElement(case, "skipped", message=brief(f"{owner}{why}", LONGEST_SENTENCE))
    return case


def _troubles(night: NightDocument) -> Iterator[ET.Element]:
    for trouble in night.troubles:
        case = _case("night", trouble.message)
        _failed(case, trouble.owner, trouble.message, trouble.hint)
        yield case


def _case(place: str, name: str, seconds: float = 0.0) -> ET.Element:
    return ET.Element("testcase", classname=brief(place), name=brief(name), time=_seconds(seconds))


def _token(text: str) -> str:
    """Return text for an attribute that must not be blank."""
    return brief(text) if text.strip() else "none"


def _seconds(duration: float) -> str:
    """Return a duration as both schemas accept it: not negative, without an exponent."""
    return f"{max(0.0, duration):.3f}"  # the first of equals, so 0.0 for -0.0


def _timestamp(when: str) -> str:
    """Return a time in UTC without a zone; ``_UNKNOWN`` for text that is none."""
    try:
        return moment(when).astimezone(UTC).replace(microsecond=0, tzinfo=None).isoformat()
    except (FormatError, OverflowError):
        return _UNKNOWN


def _failed(case: ET.Element, owner: Owner | None, why: str, text: str) -> None:
    kind = "failure" if owner is Owner.PRODUCT else "error"
    message = brief(why, LONGEST_SENTENCE)
    ET.SubElement(case, kind, message=message, type=str(owner or Owner.HOST)).text = "\n".join(
        map(printable, text.splitlines())
    )


def _attempts(outcome: StepOutcome) -> list[str]:
    """The outcome of the step, then a line for each attempt."""
    lines = [
        f"attempt {attempt.number}: {attempt.outcome} {attempt.owner or ''} {attempt.message} "
        f"[{attempt.directory}]"
        for attempt in outcome.attempts
    ]
    return [*map(printable, [outcome.told, *lines])]
