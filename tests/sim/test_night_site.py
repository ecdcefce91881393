"""The site of a night: written while simulated boards run, whole at its end, never in its way."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness.extensions.lab.nightly import live
from harness.extensions.web.site import writer
from tests.conftest import CommandResult
from tests.support.nights import written_plan

pytestmark = pytest.mark.sim

Etharness = Callable[..., CommandResult]

PLAN = """
schema = 1
name = "lab"
output = "out"
repeats = 2
history = "runs.sqlite"
[[board]]
board = "native"
count = 2
[[model]]
file = "small_int8.pte"
[[model]]
file = "functions.pte"
budget = "tight.toml"
"""
TIGHT = """
schema = 1
[[time]]
event = "Method::execute"
limit_us = 0.001
"""


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    # The page of the night moves, however long the whole site takes: here to the end of the night.
    monkeypatch.setattr(live, "PAUSE_S", 1_000.0)
    (tmp_path / "tight.toml").write_text(TIGHT)
    return written_plan(tmp_path, PLAN, ("small_int8", "functions"))


@pytest.fixture
def seen(tmp_path: Path) -> Iterator[list[str]]:
    """All that the page of the running night showed, read while the night runs."""
    pages: list[str] = []
    over = threading.Event()

    def read() -> None:
        while not over.is_set():
            try:
                text = (tmp_path / "site/tonight.html").read_text()
            except FileNotFoundError:
                text = ""
            if text and text not in pages[-1:]:
                pages.append(text)
            time.sleep(0.01)

    thread = threading.Thread(target=read)
    thread.start()
    yield pages
    over.set()
    thread.join()


def done_of(page: str) -> int:
    found = re.search(r'<progress max="8" value="(\d+)"', page)
    assert found is not None
    return int(found[1])


@pytest.mark.long
def test_pages_of_a_running_night_say_how_far_it_is(
    plan: Path, seen: list[str], etharness: Etharness
) -> None:
    site = plan.parent / "site"
    code, out, err = etharness("nightly", plan, "--site", site)
    assert code == 1, out + err
    assert "updates of the site" not in err
    early = [page for page in seen if "Runs now" in page]
    assert early
    done = [done_of(page) for page in early]
    assert done == sorted(done)
    assert len({*done}) >= 6  # of 0 to 8; two units may end a step at once
    assert all(re.search(r'<time class="age" datetime="[^"]+" data-late', page) for page in early)
    assert all("What runs where" in page for page in early)
    assert all('http-equiv="refresh"' in page for page in early)
    last = (site / "tonight.html").read_text()
    assert done_of(last) == 8
    assert ">FAIL</span>" in last
    assert "functions on native-1: B01 Method::execute" in last
    assert 'http-equiv="refresh"' not in last
    [night] = (site / "nights").iterdir()
    assert f'href="nights/{night.name}"' in last
    index = (site / "index.html").read_text()
    assert re.search(r"</a> has ended\.", index)
    # The same check fails on both units: one cause, in the words of the night.
    assert len(re.findall('data-kind="failed"', index)) == 1
    assert re.search(
        r"functions on native-\d: B01 Method::execute: [\d.]+ us exceeds .*1 model on 2 units",
        index,
    )
    # Without a night the site is that of the history.
    assert etharness("site", plan.parent / "runs.sqlite", "-o", site).code == 0
    assert not (site / "tonight.html").exists()
    assert "tonight.html" not in (site / "index.html").read_text()


@pytest.mark.long
def test_a_site_that_cannot_be_written_fails_no_night(
    plan: Path, etharness: Etharness, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As if the folder had become somebody else's after it was looked at.
    monkeypatch.setattr(writer, "SiteFolder", lambda _: SimpleNamespace(title=""))
    (plan.parent / "site").mkdir()
    (plan.parent / "site/mine.txt").write_text("kept")
    plan.write_text(PLAN.replace("count = 2", "count = 1").replace("repeats = 2", "repeats = 1"))
    arguments = ["nightly", plan, "--only", "*/small*", "--site", plan.parent / "site"]
    code, out, err = etharness(*arguments)
    assert code == 0, out + err
    assert "PASS: the run passed" in out
    found = re.search(r"warning: .*site: (\d+) of (\d+) updates of the site failed", err)
    assert found is not None
    assert found[1] == found[2] != "0"
    assert "is not empty and not a site" in err
    assert [file.name for file in (plan.parent / "site").iterdir()] == ["mine.txt"]


def test_what_is_wrong_with_the_site_shows_before_anything_runs(
    plan: Path, etharness: Etharness
) -> None:
    code, _, err = etharness("nightly", plan, "--site", plan.parent)
    assert code == 2
    assert "is not empty and not a site" in err
    plan.write_text(PLAN.replace('history = "runs.sqlite"', ""))
    code, _, err = etharness("nightly", plan, "--site", plan.parent / "site")
    assert code == 2
    assert "has no history for the site to show" in err
    assert not (plan.parent / "out").exists()
