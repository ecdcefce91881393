"""Reports of a night: every kind shows what failed by whose fault, and how often it was tried."""

from __future__ import annotations

import io
import json
from pathlib import Path
from xml.etree import ElementTree as ET

import msgspec
import pytest
from msgspec.structs import replace
from rich.console import Console

from harness import (
    ArmComparison,
    Attempt,
    NightDocument,
    NightlyStep,
    Owner,
    QuarantineStatus,
    StepOutcome,
    Trouble,
    UnitEvent,
    UnitOutcome,
    UsageError,
    write_report,
)
from harness.extensions.lab.nightly.live import ProgressPrinter, show_night
from harness.extensions.lab.nightly.verdict import counts_of
from tests.support.junit import assert_valid
from tests.support.nights import causes_of
from tests.support.pages import Page
from tests.support.reported import failed_run, reported

NASTY = "its | cable\x1b[31m <b>is</b> loose"


def attempt(number: int, owner: Owner | None, message: str = "") -> Attempt:
    return Attempt(
        number=number,
        directory=f"runs/{number}",
        started_utc="2026-11-22T00:00:00+00:00",
        duration_s=1.5,
        outcome="fail" if owner else "pass",
        owner=owner,
        message=message,
    )


def step(repeat: int, unit: str = "desk-1") -> NightlyStep:
    return NightlyStep(unit, "desk", "net", "only", repeat)


OUTCOMES = (
    StepOutcome(step=step(1), outcome="pass", attempts=(attempt(1, None),)),
    StepOutcome(
        step=step(2),
        outcome="pass",
        attempts=(attempt(1, Owner.LINK, "it was silent"), attempt(2, None)),
    ),
    StepOutcome(
        step=step(3),
        outcome="fail",
        owner=Owner.PRODUCT,
        why=NASTY,
        attempts=(attempt(1, Owner.PRODUCT, NASTY),),
    ),
    StepOutcome(
        step=step(4),
        outcome="fail",
        owner=Owner.BOARD,
        why="it is dead",
        attempts=(attempt(1, Owner.BOARD, "it is dead"),),
    ),
    StepOutcome(
        step=step(5),
        outcome="fail",
        owner=Owner.FLASH,
        why="known",
        quarantine="its probe is old (jane, until 2026-12-01; q.toml:3)",
        attempts=(attempt(1, Owner.FLASH, "known"),),
    ),
    StepOutcome(step=step(1, "desk-2"), outcome="not run", owner=Owner.HOST, why="held by jane"),
)
HELD = UnitEvent(
    unit="desk-2",
    utc="2026-11-22T00:00:00+00:00",
    what="not leased",
    owner=Owner.HOST,
    message="held by jane",
)
UNITS = (
    UnitOutcome(
        unit="desk-1",
        board="desk",
        state="well",
        passed=2,
        flaky=1,
        failed={Owner.PRODUCT: 1, Owner.BOARD: 1},
        quarantined=1,
        power_cycles=3,
    ),
    UnitOutcome(
        unit="desk-2",
        board="desk",
        state="not leased",
        owner=Owner.HOST,
        why="held by jane",
        failed={Owner.HOST: 1},
        not_run=1,
        events=(HELD,),
    ),
)
NIGHT = NightDocument(
    name="lab",
    night="lab-20261122T000000",
    tool_version="1",
    directory="out",
    started_utc="2026-11-22T00:00:00+00:00",
    ended_utc="2026-11-22T01:00:00+00:00",
    exit_code=1,
    passed=False,
    headline="FAIL: net on desk-1: it is loose (1 of 6 runs failed); and 4 more causes",
    steps=6,
    attempts=6,
    interrupted=0,
    counts=counts_of(OUTCOMES),
    flaky=1,
    outcomes=OUTCOMES,
    units=UNITS,
    arms=(
        ArmComparison(
            board="desk", model="net", before="old", after="new", passed=True, summary="nothing"
        ),
        ArmComparison(
            board="desk", model="big", before="old", after="new", passed=False, summary="2 slower"
        ),
    ),
    quarantine=(
        QuarantineStatus(
            line=3,
            about="unit desk-1, flash",
            owner="jane",
            reason="its probe is old",
            issue="",
            expires="2026-12-01",
            state="ready",
            passes=10,
            wanted=10,
            excused=1,
        ),
    ),
    troubles=(Trouble(owner=Owner.HOST, message="the store is down", hint="start it"),),
    notes=("12 bytes of a torn line were dropped",),
)
DOWN = {"state": "infrastructure", "owner": "host", "hint": "start it"}
DOWN |= {"why": "the store is down", "sentence": "the store is down"}
NIGHT = msgspec.convert(
    {**msgspec.to_builtins(NIGHT), "causes": [*causes_of(NIGHT), DOWN]}, NightDocument
)
TOLD = (
    "passed on attempt 2 after link",
    "it is dead",
    "its probe is old",
    "not leased",
    "held by jane",
    "2 slower",
    "the store is down",
    "ready to be removed",
    "12 bytes of a torn line",
    "power cycles",
)


def test_the_terminal_says_what_is_to_be_looked_at_last() -> None:
    out = io.StringIO()
    show_night(Console(file=out, width=200), NIGHT)
    text = out.getvalue()
    for part in TOLD:
        assert part in text
    assert text.index("Units") < text.index("the store is down") < text.index("it is dead")
    assert "infrastructure failure: the store is down\n  try: start it\n" in text
    assert text.splitlines()[-1] == NIGHT.headline
    counted = "6 planned runs: 1 failed, 2 infrastructure failures, 1 known failure, 2 passed"
    assert text.splitlines()[-2].endswith(f"{counted}; attempts: 6")
    assert "\x1b" not in text


def test_the_terminal_leaves_out_what_is_too_long_and_says_so() -> None:
    failed = OUTCOMES[2]
    many = tuple(
        StepOutcome(step=step(n), outcome="fail", owner=Owner.PRODUCT, attempts=failed.attempts)
        for n in range(50)
    )
    out = io.StringIO()
    night = replace(NIGHT, outcomes=many)
    show_night(Console(file=out, width=200), night)
    assert "and 30 more; -v shows all" in out.getvalue()
    short = io.StringIO()
    show_night(Console(file=short, width=200), night, verbosity=-1)
    assert "Units" not in short.getvalue()


def test_markdown_shows_the_tables_in_front_of_the_runs(tmp_path: Path) -> None:
    file = tmp_path / "night.md"
    write_report(file, [reported(), failed_run("port gone")], NIGHT)
    text = file.read_text()
    assert text.startswith("## FAIL: net on desk-1: it is loose")
    for part in TOLD:
        assert part in text
    assert "<b>" not in text
    assert "\x1b" not in text
    assert "port gone" in text


def test_junit_has_a_case_for_every_step(tmp_path: Path) -> None:
    file = tmp_path / "night.xml"
    write_report(file, [reported()], NIGHT)
    root = ET.parse(file).getroot()
    suite = root[0]
    assert suite.get("name") == "lab-20261122T000000"
    cases = {(c.get("classname"), c.get("name")): c for c in suite.iter("testcase")}
    assert len(cases) == 6 + 1
    kinds = [
        next((child.tag for child in case if child.tag in ("failure", "error", "skipped")), "pass")
        for case in cases.values()
    ]
    assert kinds == [
        *("pass", "pass", "failure", "error", "skipped", "error"),
        "error",
    ]
    for tag, count in (("failures", 1), ("errors", 3), ("skipped", 1), ("tests", 7)):
        assert suite.get(tag) == str(count)
    assert "passed on attempt 2 after link" in (suite.findtext("system-out") or "")
    assert_valid(file.read_bytes())


def test_a_page_shows_the_tables_in_front_of_the_runs(tmp_path: Path) -> None:
    file = tmp_path / "night.html"
    write_report(file, [reported(), failed_run("port gone")], NIGHT)
    page = Page(file.read_bytes())
    page.assert_sound()
    text = file.read_text()
    for part in TOLD:
        assert part in text
    assert text.count("<h1") == 1


@pytest.mark.parametrize("suffix", ["html", "md", "xml", "json"])
def test_a_night_without_any_run_has_reports_too(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"night.{suffix}"
    write_report(file, [], NIGHT)
    assert "desk-1" in file.read_text()


def test_json_has_the_night_beside_its_runs(tmp_path: Path) -> None:
    file = tmp_path / "night.json"
    write_report(file, [reported()], NIGHT)
    document = json.loads(file.read_text())
    assert document["passed"] is False
    assert document["night"]["counts"]["board"] == 1
    assert document["night"]["units"][0]["failed"] == {"product": 1, "board": 1}


def test_a_bundle_is_of_one_run(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not of a night"):
        write_report(tmp_path / "night.zip", [reported()], NIGHT)


def test_what_happens_is_told_line_by_line(capsys: pytest.CaptureFixture[str]) -> None:
    teller = ProgressPrinter([outcome.step for outcome in OUTCOMES], quiet=False)
    for outcome in OUTCOMES:
        for one in outcome.attempts:
            teller.ended(outcome.step, one)
    teller.happened(HELD)
    ProgressPrinter([], quiet=True).happened(HELD)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "1/6 desk-1/net/only/1: pass 1.5 s"
    assert lines[1] == "2/6 desk-1/net/only/2: FAIL link 1.5 s: it was silent"
    assert lines[2] == "2/6 desk-1/net/only/2 (attempt 2): pass 1.5 s"
    assert lines[-1] == "desk-2: not leased: held by jane"
    assert not any("\x1b" in line for line in lines)
