"""Judged runs as JUnit XML, for systems that show tests: a suite per run, a test case per check."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from xml.etree import ElementTree as ET

from harness.errors import Owner
from harness.formatting import printable
from harness.records.nightly import NightDocument, StepOutcome
from harness.records.verdict import Check
from harness.report.html.facts import provenance
from harness.report.html.formatting import brief
from harness.runs.judged_run import JudgedRun

RUN_CASE = "run"
"""The test case that says whether a run ended."""

_UNKNOWN = "1970-01-01T00:00:00"
"""When a trace without a result was made, for readers that want a time without a zone."""


def junit_report(runs: Sequence[JudgedRun], night: NightDocument | None = None) -> bytes:
    """Return the XML of ``runs``.

    A night is a suite in front of theirs, with a test case for each of its steps. Of a unit that
    did not do all, the steps that were not run are skipped, and the unit is an error by itself.

    Elements stand in the order that Ant's and Jenkins' schemas ask for. A check that fails is a
    ``failure``; one that does not hold but is none, is a test that passed and says so in its
    output; a run that did not end is an ``error``.
    """
    root = ET.Element("testsuites", name="etharness")
    if night is not None:
        root.append(night_suite(night))
    for number, run in enumerate(runs, start=len(root)):
        root.append(_suite(number, run))
    for count in ("tests", "failures", "errors"):
        root.set(count, str(sum(int(suite.get(count, "0")) for suite in root)))
    root.set("time", f"{sum(float(suite.get('time', '0')) for suite in root):.3f}")
    ET.indent(root)
    document: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return document + b"\n"


def _suite(number: int, run: JudgedRun) -> ET.Element:
    result, checks = run.result, run.verdict.checks
    suite = ET.Element(
        "testsuite",
        name=brief(run.title),
        id=str(number),
        package="etharness",
        timestamp=(result.started_utc if result else _UNKNOWN)[: len(_UNKNOWN)],
        hostname=brief(result.unit) if result else "none",
        tests=str(len(checks) + 1),
        failures=str(len(run.verdict.failures)),
        errors=str(int(run.failure is not None)),
        skipped="0",
        time=f"{result.duration_s:.3f}" if result else "0.000",
    )
    properties = ET.SubElement(suite, "properties")
    for name, value in provenance(run):
        ET.SubElement(properties, "property", name=name, value=value)
    suite.append(_ended(run))
    suite.extend(_cases(checks))
    ET.SubElement(suite, "system-out").text = _lines(run.console)
    crash = "" if run.postmortem is None else run.postmortem.message
    ET.SubElement(suite, "system-err").text = _lines(crash)
    return suite


def _ended(run: JudgedRun) -> ET.Element:
    """The test case that is an error if the run did not end."""
    took = run.result.duration_s if run.result else 0.0
    case = ET.Element("testcase", classname=RUN_CASE, name="the run ends", time=f"{took:.3f}")
    if run.failure is not None:
        failure, code = run.failure, run.result.exit_code if run.result else 0
        text = f"{failure.message}\n{failure.hint}\nexit code {code}"
        message, kind = brief(failure.message, 1000), brief(failure.kind)
        ET.SubElement(case, "error", message=message, type=kind).text = _lines(text)
    return case


def _cases(checks: Iterable[Check]) -> list[ET.Element]:
    seen: Counter[tuple[str, str]] = Counter()
    cases = []
    for check in checks:
        name = f"{brief(check.subject)}: {brief(check.rule)}"
        seen[check.code, name] += 1
        if (times := seen[check.code, name]) > 1:
            name = f"{name} ({times})"
        case = ET.Element("testcase", classname=check.code, name=name, time="0.000")
        if check.failed:
            message = brief(check.reason, 1000)
            ET.SubElement(case, "failure", message=message, type=check.code).text = _told(check)
        else:
            said = "" if check.passed else f"{check.severity}: "
            ET.SubElement(case, "system-out").text = said + _told(check)
        cases.append(case)
    return cases


def _told(check: Check) -> str:
    lines = [check.reason]
    if check.source:
        lines.append(f"rule: {check.source}")
    if not check.passed:
        lines.append(f"what it means: etharness explain {check.code}")
    return _lines("\n".join(lines))


def _lines(text: str) -> str:
    """Text that XML can hold, line by line."""
    return "\n".join(map(printable, text.splitlines()))


_LONGEST = 1000


def night_suite(night: NightDocument) -> ET.Element:
    """Return the suite.

    A failure of the product is a ``failure``, of anybody else an ``error``; one that is known and
    does not count is skipped, as is a step that was not run.
    """
    cases = [*map(_step, night.outcomes), *_besides(night)]
    attempts = [attempt for outcome in night.outcomes for attempt in outcome.attempts]
    suite = ET.Element(
        "testsuite",
        name=brief(night.night),
        id="0",
        package="etharness.nightly",
        timestamp=night.started_utc[:19],
        hostname="none",
        tests=str(len(cases)),
        failures=str(sum(case.find("failure") is not None for case in cases)),
        errors=str(sum(case.find("error") is not None for case in cases)),
        skipped=str(sum(case.find("skipped") is not None for case in cases)),
        time=f"{sum(attempt.duration_s for attempt in attempts):.3f}",
    )
    properties = ET.SubElement(suite, "properties")
    for name, value in night.counts.items():
        ET.SubElement(properties, "property", name=name, value=str(value))
    suite.extend(cases)
    ET.SubElement(suite, "system-out").text = "\n".join(map(printable, night.notes))
    ET.SubElement(suite, "system-err").text = ""
    return suite


def _step(outcome: StepOutcome) -> ET.Element:
    step = outcome.step
    took = sum(attempt.duration_s for attempt in outcome.attempts)
    place = f"{step.board}.{step.model}"
    case = _case(place, str(step), f"{took:.3f}")
    if outcome.outcome == "not run":
        ET.SubElement(case, "skipped", message=brief(f"not run: {outcome.why}", _LONGEST))
    elif outcome.quarantine:
        why = f"{outcome.owner}: {outcome.why} (known as {outcome.quarantine})"
        ET.SubElement(case, "skipped", message=brief(why, _LONGEST))
    elif outcome.outcome == "fail":
        _failed(case, outcome.owner, outcome.why, _attempts(outcome))
        return case
    ET.SubElement(case, "system-out").text = _attempts(outcome)
    return case


def _besides(night: NightDocument) -> Iterator[ET.Element]:
    for unit in night.units:
        if unit.not_run:
            case = _case("night.units", unit.unit, "0.000")
            why = f"{unit.state}: {unit.why}; {unit.not_run} steps were not run"
            _failed(case, unit.owner or Owner.HOST, why, why)
            yield case
    for side in night.sides:
        name = f"{side.after} against {side.before}, {side.model} on {side.board}"
        case = _case("night.comparison", name, "0.000")
        if side.passed:
            ET.SubElement(case, "system-out").text = printable(side.said)
        else:
            _failed(case, Owner.PRODUCT, side.said, side.said)
        yield case
    for trouble in night.troubles:
        case = _case("night", trouble.message, "0.000")
        _failed(case, trouble.owner, trouble.message, trouble.hint)
        yield case


def _case(place: str, name: str, seconds: str) -> ET.Element:
    return ET.Element("testcase", classname=brief(place), name=brief(name), time=seconds)


def _failed(case: ET.Element, owner: Owner | None, why: str, text: str) -> None:
    kind = "failure" if owner is Owner.PRODUCT else "error"
    message = brief(why, _LONGEST)
    ET.SubElement(case, kind, message=message, type=str(owner or Owner.HOST)).text = "\n".join(
        map(printable, text.splitlines())
    )


def _attempts(outcome: StepOutcome) -> str:
    """Every attempt in a line, and what came of all."""
    lines = [
        f"attempt {attempt.number}: {attempt.outcome} {attempt.owner or ''} {attempt.message} "
        f"[{attempt.directory}]"
        for attempt in outcome.attempts
    ]
    return "\n".join(map(printable, [outcome.told, *lines]))
