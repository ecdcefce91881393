"""What the page of a running night shows: how far it is, what runs where, what failed."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import Owner
from harness.nightly.journal import Account, Ended, OfUnit, Started
from harness.nightly.orchestrator import Prepared, prepare
from harness.records.nightly import Attempt, NightlyStep, UnitEvent
from harness.report.html.badge import Badge
from harness.site.running import RunningNight, running_night
from tests.support.nights import PLAN, written_plan

TIMES = ("2026-11-23T01:00:00+00:00", "2026-11-23T01:30:00+00:00")


@pytest.fixture
def prepared(tmp_path: Path) -> Prepared:
    text = PLAN.replace('board = "native"', 'board = "native"\ncount = 3').replace(
        "schema = 1", "schema = 1\nrepeats = 2"
    )
    return prepare(written_plan(tmp_path, text), None)


def ended(step: NightlyStep, owner: Owner | None = None, message: str = "") -> Ended:
    attempt = Attempt(
        number=1,
        directory="runs/1",
        started_utc=TIMES[0],
        outcome="fail" if owner else "pass",
        owner=owner,
        message=message,
    )
    return Ended(step, attempt)


def shown(prepared: Prepared, *records: Ended | Started | OfUnit) -> RunningNight:
    return running_night(prepared, "night", TIMES, Account(records))


def test_a_night_that_has_just_begun_has_failed_nothing(prepared: Prepared) -> None:
    found = shown(prepared)
    assert (found.done, found.steps, found.failures) == (0, 6, {})
    assert [unit.state for unit in found.units] == ["waits"] * 3
    assert found.sentence == "0 of 6 steps done, 0 failed, 0 running"
    assert not found.over


def test_failures_of_the_product_and_of_boards_are_apart(prepared: Prepared) -> None:
    one, two, three = prepared.steps.values()
    gone = UnitEvent(
        unit=three[0].unit, utc=TIMES[1], what="benched", owner=Owner.BOARD, message="?"
    )
    found = shown(
        prepared,
        *(Started(one[0], 1, "runs/1", TIMES[0]), ended(one[0])),
        Started(one[1], 1, "runs/2", TIMES[1]),
        *(ended(two[0], Owner.PRODUCT, "B01: too slow"), ended(two[1], Owner.LINK, "no answer")),
        OfUnit(gone),
    )
    assert found.sentence == "5 of 6 steps done, 1 failed, 1 infrastructure failure, 1 running"
    assert {state: [item.why for item in items] for state, items in found.failures.items()} == {
        "failed": ["B01: too slow"],
        "infrastructure": ["no answer"],
        "not run": ["benched: ?"],
    }
    assert [unit.state for unit in found.units] == ["runs", "done", "benched"]
    assert found.units[0].step == str(one[1])
    assert sum(found.counts.values()) == found.done == 5


def test_an_interrupted_night_says_so(prepared: Prepared) -> None:
    found = running_night(prepared, "night", TIMES, Account(), interrupted=True)
    assert found.over
    assert found.sentence == "0 of 6 steps done, 0 failed, interrupted"


@pytest.mark.parametrize("text", ['<b> & "x"', "1,000 pass", "ä", ""])
def test_a_badge_shows_any_text(text: str) -> None:
    from lxml import etree

    badge = Badge("models", text, "fail")
    root = etree.fromstring(badge.svg)
    assert root.findtext("{*}title") == f"models: {text}"
    widths = [float(box.get("width", "0")) for box in root.iter("{*}rect")]
    assert float(root.get("width", "0")) == widths[0] > widths[1]
    assert text.encode() in badge.endpoint or text.startswith("<b>")
