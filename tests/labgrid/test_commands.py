"""Commands on a unit whose board is at a place of labgrid: a firmware process behind a TCP port."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness import Unit, find_unit
from harness.target.selection import hold_if
from tests.conftest import CommandResult
from tests.support.boards import KWS
from tests.support.labgrid import FakeCoordinator, holder_at
from tests.support.rack import Rack, rack

UNITS = """\
schema = 1
[[unit]]
id = "fixed"
board = "{board}"
lease = "labgrid"
place = "one"
[[unit]]
id = "any"
board = "{board}"
lease = "labgrid"
match = {{ board = "native" }}
"""


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rack]:
    with rack(tmp_path_factory.mktemp("rack"), units=1, seed=1, patience=5) as running:
        yield running


@pytest.fixture(autouse=True)
def place(
    fake: FakeCoordinator, board: Rack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> FakeCoordinator:
    """The board is at place one; nobody may have the others."""
    address = find_unit("u01", board.units_file).port
    fake.move("one", int(str(address).rpartition(":")[2]))
    fake.acquire("two", "bench/somebody")
    (tmp_path / "units.toml").write_text(UNITS.format(board=board.board_file))
    monkeypatch.setenv("ETHARNESS_LOCK_DIR", str(tmp_path / "locks"))
    monkeypatch.chdir(tmp_path)
    return fake


def test_a_unit_is_held_where_its_board_is(place: FakeCoordinator) -> None:
    unit = Unit(id="any", board="native", lease="labgrid", match={"board": "native"})
    with hold_if(unit, reason="a test", timeout_s=0) as held:
        assert held is not None
        assert held.id == "one"
        assert str(held.port).startswith("socket://127.0.0.1:")
        with hold_if(unit, reason="again", timeout_s=0) as same:
            assert same == held
        with hold_if(held, reason="as what was found", timeout_s=0) as same:
            assert same == held
    with hold_if(None, reason="nothing", timeout_s=0) as nothing:
        assert nothing is None


@pytest.mark.sim
def test_runs_pulls_and_postmortems(
    place: FakeCoordinator, etharness: Callable[..., CommandResult]
) -> None:
    run = ("--model", KWS, "--runs", "2")
    for unit, called in (("any", "one"), ("fixed", "fixed")):
        done = etharness("run", "--unit", unit, *run, "-o", unit)
        assert done.code == 0, done.err
        result = json.loads(Path(unit, "result.json").read_text())
        assert result["unit"] == called
        assert result["port"].startswith("socket://127.0.0.1:")
        assert holder_at(place, "one") == ""
    done = etharness("pull", "--unit", "any", "-o", "pulled")
    assert done.code == 0, done.err
    assert json.loads(Path("pulled/result.json").read_text())["unit"] == "one"
    done = etharness("postmortem", "--unit", "fixed")
    assert (done.code, done.out) == (0, "fixed has no crash record\n"), done.err


def test_a_place_that_is_taken_is_told_in_the_result(
    place: FakeCoordinator, etharness: Callable[..., CommandResult], board: Rack
) -> None:
    place.acquire("one", "bench/somebody")
    text = board.board_file.read_text().replace("deadlines = {", "deadlines = { unit_s = 0.01,")
    Path("native.toml").write_text(text)
    Path("units.toml").write_text(UNITS.format(board="native.toml"))
    done = etharness("run", "--unit", "any", "--model", KWS, "-o", "out")
    assert done.code == 75
    assert "none of the 2 places with board=native was free within 0.01 s" in done.err
    failure = json.loads(Path("out/result.json").read_text())["failure"]
    assert (failure["kind"], failure["owner"]) == ("BusyError", "host")


def test_units_and_their_holders_are_shown(
    place: FakeCoordinator,
    etharness: Callable[..., CommandResult],
    caplog: pytest.LogCaptureFixture,
) -> None:
    any_ = find_unit("any")
    with hold_if(any_, reason="a test", timeout_s=0):
        shown = json.loads(etharness("lab", "who", "--json").out)
        found = {item["what"]: item for item in shown if item["unit"] == "any"}
        ours, theirs = found["labgrid place one"], found["labgrid place two"]
        assert (ours["kind"], ours["pid"], ours["alive"]) == ("process", os.getpid(), True)
        assert ours["since_utc"] < ours["until_utc"]
        assert (theirs["kind"], theirs["owner"], theirs["host"]) == ("person", "somebody", "bench")
        assert etharness("lab", "who", "fixed").out.count("labgrid place one") == 1
        units = {item["id"]: item for item in json.loads(etharness("lab", "units", "--json").out)}
        assert units["any"]["port"] == "labgrid: board=native"
        assert len(units["any"]["holders"]) == 2
    place.stop()
    units = {item["id"]: item for item in json.loads(etharness("lab", "units", "--json").out)}
    assert "cannot reach the labgrid coordinator" in units["fixed"]["problem"]
    assert etharness("lab", "who").code == 0
    assert "unit fixed: cannot reach the labgrid coordinator at 127.0.0.1:1" in caplog.text


@pytest.mark.sim
def test_health_is_asked_where_the_board_is(
    etharness: Callable[..., CommandResult],
) -> None:
    done = etharness("lab", "health", "any", "--json")
    assert done.code == 0, done.out
    [health] = json.loads(done.out)
    assert (health["unit"], health["healthy"]) == ("one", True)
    assert health["port"].startswith("socket://127.0.0.1:")
