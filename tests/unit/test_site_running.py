"""What the page of a running night shows: how far it is, what runs where, what failed."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import Attempt, NightlyStep, Owner, UnitEvent
from harness.extensions.lab.nightly.journal import Account, Ended, OfUnit, Started
from harness.extensions.lab.nightly.night import Prepared, prepare
from harness.extensions.lab.nightly.verdict import night_verdict
from harness.extensions.web.site.news import RunningNight, running_night
from harness.records.nightly import NightSoFar, StepUnderWay
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


def shown(
    prepared: Prepared, *records: Ended | Started | OfUnit, interrupted: bool = False
) -> RunningNight:
    account = Account(records)
    document = night_verdict(
        *(prepared.units, prepared.all_steps, account),
        name="night",
        night="night-1",
        directory="night-1",
        times=(TIMES[0], ""),
    )
    under_way = [
        StepUnderWay(step, started.number, started.utc)
        for step, started in account.under_way.items()
    ]
    return running_night(NightSoFar(document, under_way, TIMES[1], interrupted=interrupted))


def test_a_night_that_has_just_begun_has_failed_nothing(prepared: Prepared) -> None:
    found = shown(prepared)
    assert (found.done, found.verdict.steps, found.failures) == (0, 6, {})
    assert [unit["state"] for unit in found.units] == ["waits"] * 3
    assert found.sentence == "0 of 6 runs done, 0 running"
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
    assert (
        found.sentence
        == "5 of 6 runs done, 1 failed, 3 infrastructure failures, 1 passed, 1 running"
    )
    assert {state: [item["why"] for item in items] for state, items in found.failures.items()} == {
        "failed": ["B01: too slow"],
        "infrastructure": ["benched: ?", "no answer"],
    }
    assert [unit["state"] for unit in found.units] == ["runs", "done", "benched"]
    assert found.units[0]["step"] == str(one[1])
    assert sum(found.counts.values()) == found.done == 5


def test_an_interrupted_night_says_so(prepared: Prepared) -> None:
    found = shown(prepared, interrupted=True)
    assert found.over
    assert found.sentence == "0 of 6 runs done, interrupted"
