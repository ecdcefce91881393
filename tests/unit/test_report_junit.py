"""JUnit XML: what systems that show tests read of a verdict, whatever names it holds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import junitparser
import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from lxml import etree

from harness import EvaluatedRun, render_report, write_report
from tests.support.junit import SCHEMAS, assert_valid
from tests.support.reported import FINISHED, failed_run, held, reported, unmet

SUITE = (
    '<testsuites><testsuite id="0" package="p" name="n" hostname="h" '
    'timestamp="2026-11-21T00:00:00" time="1.0" tests="0" failures="0" errors="0">'
    "<properties/>{}<system-out/><system-err/></testsuite></testsuites>"
)
"""A suite that both schemas accept as long as nothing is in it."""

ANY_TEXT = st.text(st.characters(exclude_categories=[]), max_size=30)


def suites_of(*runs: EvaluatedRun) -> list[ET.Element]:
    """Suites of a document that is valid by the schemas of Ant and Jenkins."""
    document = render_report("report.xml", runs)
    assert_valid(document)
    root = ET.fromstring(document)
    for suite in root:
        cases = suite.findall("testcase")
        assert int(suite.attrib["tests"]) == len(cases)
        assert int(suite.attrib["failures"]) == len(suite.findall("testcase/failure"))
        assert int(suite.attrib["errors"]) == len(suite.findall("testcase/error"))
        names = [(case.attrib["classname"], case.attrib["name"]) for case in cases]
        assert len(set(names)) == len(names), "a case is found again by its name"
    return list(root)


def test_every_check_is_a_case_of_its_code() -> None:
    note = msgspec.structs.replace(unmet("I05", "noted"), severity="note")
    [suite] = suites_of(reported(held(), unmet(), unmet("I05", "warned"), note))
    ended, failed, warned, noted, passed = suite.findall("testcase")
    assert [ended.attrib["classname"], passed.attrib["classname"]] == ["run", "B05"]
    failure = failed.find("failure")
    assert failure is not None
    assert failure.attrib == {"message": "it is not so", "type": "B01"}
    assert "etharness explain B01" in (failure.text or "")
    assert [list(case) for case in (warned, noted, passed)] == [[], [], []]
    output = suite.findtext("system-out") or ""
    assert "warning: I05 warned: it is not so" in output
    assert "note: I05 noted: it is not so" in output
    assert "B01" not in output, "a failure has an element of its own"
    facts = {item.attrib["name"]: item.attrib["value"] for item in suite.iter("property")}
    assert (facts["board"], facts["commit"], facts["exit code"]) == ("native", "abc", "0")


def test_a_run_that_did_not_end_is_an_error_with_its_owner() -> None:
    [suite] = suites_of(failed_run("port gone"))
    [case] = suite.findall("testcase")
    error = case.find("error")
    assert error is not None
    assert error.attrib == {"message": "port gone", "type": "LinkError"}
    assert "exit code 75" in (error.text or "")


@pytest.mark.attack(
    "Texts", "control characters and markup in any text, for JUnit XML", "a valid document"
)
@given(subject=ANY_TEXT, reason=ANY_TEXT, console=ANY_TEXT)
@settings(max_examples=50)
def test_any_text_makes_a_document_that_can_be_read(
    subject: str, reason: str, console: str
) -> None:
    run = reported(unmet(subject=subject, reason=reason), held(), held(), title=console)
    [suite] = suites_of(replace(run, console=console))
    assert len(suite.findall("testcase")) == 4


def test_a_kept_parser_reads_the_same_numbers(tmp_path: Path) -> None:
    file = tmp_path / "report.xml"
    write_report(file, [reported(held(), unmet()), failed_run("port gone"), reported(result=None)])
    found = junitparser.JUnitXml.fromfile(str(file))
    found.update_statistics()
    assert (found.tests, found.failures, found.errors) == (5, 1, 1)
    kinds = [[type(item).__name__ for item in case.result] for suite in found for case in suite]
    assert [kind for kind in kinds if kind] == [["Failure"], ["Error"]]


@given(
    texts=st.tuples(ANY_TEXT, ANY_TEXT, ANY_TEXT),
    when=st.one_of(ANY_TEXT, st.datetimes().map(str), st.just("2026-11-21T23:59:59.5+02:00")),
    took=st.floats(-1e9, 1e9),
)
@example(texts=("u", "b", "t"), when="", took=-0.0)
@settings(max_examples=40)
def test_any_result_makes_a_valid_document(
    texts: tuple[str, str, str], when: str, took: float
) -> None:
    unit, board, title = texts
    result = msgspec.structs.replace(
        FINISHED, unit=unit, board=board, started_utc=when, duration_s=took
    )
    suites_of(reported(held(), result=result, title=title), failed_run(unit, kind=board))


def test_a_time_with_a_zone_is_written_in_utc() -> None:
    result = msgspec.structs.replace(FINISHED, started_utc="2026-11-21T01:30:00+02:00")
    [suite] = suites_of(reported(held(), result=result))
    assert suite.get("timestamp") == "2026-11-20T23:30:00"


@pytest.mark.parametrize(
    ("schema", "wrong"),
    [
        ("ant", '<testsuites name="x"/>'),
        ("ant", SUITE.format("<testcase><system-out/></testcase>")),
        ("ant", SUITE.format("").replace("2026-11-21T00:00:00", "2026-11-21T00:00:00Z")),
        ("ant", SUITE.format("").replace('hostname="h"', 'hostname=" "')),
        ("jenkins", SUITE.format("").replace('time="1.0"', 'time="1e3"')),
        ("jenkins", SUITE.format("<verdict/>")),
    ],
)
def test_the_schemas_refuse_what_their_readers_refuse(schema: str, wrong: str) -> None:
    assert_valid(SUITE.format("").encode())
    assert not SCHEMAS[schema].validate(etree.fromstring(wrong))
