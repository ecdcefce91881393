"""What the page of a running night shows: how far it is, what runs where, what failed.

The night tells the process that writes the site with a file, which these tests write.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import lxml.html
import msgspec

from harness import Attempt, NightDocument, NightlyStep, Owner, StepOutcome, UnitOutcome
from tests.support.nights import causes_of

TIMES = ("2026-11-23T01:00:00+00:00", "2026-11-23T01:30:00+00:00")


def step(unit: int, repeat: int) -> NightlyStep:
    return NightlyStep(f"native-{unit}", "native", "small_int8", "only", repeat)


def outcome(
    unit: int, repeat: int, owner: Owner | None = None, why: str = "", *, made: bool = True
) -> StepOutcome:
    """How a planned run ended; one that was not made and has no owner is still to come."""
    ended = "fail" if owner else "pass"
    attempt = Attempt(
        number=1, directory="x", started_utc=TIMES[0], outcome=ended, owner=owner, message=why
    )
    return StepOutcome(
        step=step(unit, repeat),
        outcome=ended if made else "not run",
        owner=owner,
        why=why,
        attempts=(attempt,) if made else (),
    )


def document(*outcomes: StepOutcome, counts: dict[str, int], states: str) -> NightDocument:
    """A night of three units with two runs each, as far as it is."""
    units = tuple(
        UnitOutcome(unit=f"native-{number}", board="native", state=state)  # type: ignore[arg-type]
        for number, state in enumerate(states.split(), 1)
    )
    return NightDocument(
        **{"name": "night", "night": "night-1", "tool_version": "1", "directory": "night-1"},
        **{"started_utc": TIMES[0], "ended_utc": "", "exit_code": 0, "passed": True},
        **{"steps": 6, "attempts": 0, "interrupted": 0},
        counts=counts,
        outcomes=outcomes,
        units=units,
    )


def page_of(
    folder: Path, night: NightDocument, *under_way: NightlyStep, interrupted: bool = False
) -> Any:
    """The page that the process of the site writes."""
    document = {
        **msgspec.to_builtins(night),
        "causes": [cause for cause in causes_of(night) if cause["state"] != "not run"],
    }
    request = {
        "document": document,
        "under_way": [{"step": each, "attempt": 1, "since_utc": TIMES[1]} for each in under_way],
        "changed_utc": TIMES[1],
        "interrupted": interrupted,
        "directories": [],
    }
    file = folder / "request.json"
    file.write_bytes(msgspec.json.encode(request))
    subprocess.run(
        [sys.executable, "-m", "harness.extensions.web.site.writer", folder / "site", file],
        env={**os.environ, "ETHARNESS_HISTORY": str(folder / "h.sqlite")},
        check=True,
    )
    return lxml.html.fromstring((folder / "site/tonight.html").read_bytes())


def headline(page: Any) -> str:
    [line] = page.xpath("//p[contains(@class, 'headline')]")
    return str(line.text_content())


def units(page: Any) -> list[list[str]]:
    """State, step, and numbers of runs that have ended and were planned, of each unit."""
    rows = page.xpath("//section[h2[@id='units']]//tbody/tr")
    cells = [[cell.text_content() for cell in row.xpath("td")] for row in rows]
    return [row[1:5] for row in cells]


def reasons(page: Any) -> dict[str, list[str]]:
    found = {}
    for section in page.xpath("//section[h2[starts-with(@id, 'night-')]]"):
        [title] = section.xpath("h2")
        texts = [item.text_content() for item in section.xpath(".//*[@class='reason']")]
        found[title.text_content()] = texts
    return found


def refreshes(page: Any) -> bool:
    return bool(page.xpath("//meta[@http-equiv='refresh']"))


def still_to_come(*units: int) -> list[StepOutcome]:
    return [outcome(n, repeat, why="not reached", made=False) for n in units for repeat in (1, 2)]


def test_a_night_that_has_just_begun_has_failed_nothing(tmp_path: Path) -> None:
    night = document(*still_to_come(1, 2, 3), counts={"not run": 6}, states="well well well")
    page = page_of(tmp_path, night)
    assert headline(page) == "0 of 6 runs done"
    assert units(page) == [["waits", "", "0", "2"]] * 3
    assert reasons(page) == {}
    assert refreshes(page)


def test_failures_of_the_product_and_of_boards_are_apart(tmp_path: Path) -> None:
    night = document(
        *(outcome(1, 1), *still_to_come(1)[1:]),
        outcome(2, 1, Owner.PRODUCT, "B01: too slow"),
        outcome(2, 2, Owner.LINK, "no answer"),
        *(outcome(3, repeat, Owner.BOARD, "benched: ?", made=False) for repeat in (1, 2)),
        counts={"pass": 1, "product": 1, "board": 2, "link": 1, "not run": 1},
        states="well well benched",
    )
    page = page_of(tmp_path, night, step(1, 2))
    assert (
        headline(page)
        == "5 of 6 runs done, 1 failed, 3 infrastructure failures, 1 passed, 1 running"
    )
    assert reasons(page) == {
        "Failed so far": ["B01: too slow"],
        "Infrastructure failures so far": ["benched: ?", "no answer"],
    }
    assert units(page) == [
        ["runs", str(step(1, 2)).partition("/")[2], "1", "2"],
        ["done", "", "2", "2"],
        ["benched", "", "0", "2"],
    ]


def test_an_interrupted_night_says_so(tmp_path: Path) -> None:
    night = document(*still_to_come(1, 2, 3), counts={"not run": 6}, states="well well well")
    page = page_of(tmp_path, night, interrupted=True)
    assert headline(page) == "0 of 6 runs done, interrupted"
    assert not refreshes(page)
