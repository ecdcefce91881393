"""A night as a JUnit suite: a test case for each of its steps, and for what went wrong besides."""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree import ElementTree as ET

from harness.errors import Owner
from harness.report.html.words import brief
from harness.report.night import NightDocument, StepOutcome
from harness.report.text import printable

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
