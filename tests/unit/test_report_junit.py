"""JUnit XML: what systems that show tests read of a verdict, whatever names it holds."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from pathlib import Path
from xml.etree import ElementTree as ET

import junitparser
import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.report.formats import write_report
from harness.report.junit import junit_report
from harness.runs.evaluation import EvaluatedRun
from tests.support.reported import failed_run, held, reported, unmet

ANY_TEXT = st.text(st.characters(exclude_categories=[]), max_size=30)
ORDER = ["properties", "testcase", "system-out", "system-err"]
REQUIRED = {"name", "timestamp", "hostname", "tests", "failures", "errors", "time", "id", "package"}


def suites_of(*runs: EvaluatedRun) -> list[ET.Element]:
    """Suites that follow the schemas of Ant and Jenkins as far as these say what must be there."""
    root = ET.fromstring(junit_report(runs))
    assert root.tag == "testsuites"
    for suite in root:
        assert suite.attrib.keys() >= REQUIRED
        datetime.strptime(suite.attrib["timestamp"], "%Y-%m-%dT%H:%M:%S")
        tags = [child.tag for child in suite]
        assert tags == sorted(tags, key=ORDER.index)
        assert tags.count("properties") == tags.count("system-out") == tags.count("system-err") == 1
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
    assert (warned.findtext("system-out") or "").startswith("warning: it is not so")
    assert (noted.findtext("system-out") or "").startswith("note: it is not so")
    facts = {item.attrib["name"]: item.attrib["value"] for item in suite.iter("property")}
    assert (facts["board"], facts["commit"], facts["exit code"]) == ("native", "abc", "0")


def test_a_run_that_did_not_end_is_an_error_with_its_owner() -> None:
    [suite] = suites_of(failed_run("port gone"))
    [case] = suite.findall("testcase")
    error = case.find("error")
    assert error is not None
    assert error.attrib == {"message": "port gone", "type": "LinkError"}
    assert "exit code 75" in (error.text or "")


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
    assert (found.tests, found.failures, found.errors) == (5, 1, 1)
    kinds = [[type(item).__name__ for item in case.result] for suite in found for case in suite]
    assert [kind for kind in kinds if kind] == [["Failure"], ["Error"]]
