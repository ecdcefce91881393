"""What people decide about changes, from the command line to the verdicts of later nights."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from harness import EXECUTION, MeasurementSettings, open_store
from harness.runs.directory import RunDirectory
from tests.conftest import CommandResult
from tests.support.documents import document
from tests.support.results import made, run_directory

Etharness = Callable[..., CommandResult]

GOOD, SLOW, SLOWER = 100_000, 110_000, 125_000


class Nights:
    """One run a night, whose operator ``conv`` takes as long as it is told, without noise."""

    def __init__(self, folder: Path, etharness: Etharness) -> None:
        self.folder, self.etharness = folder, etharness
        self.count = 0

    def history(self, *arguments: str | Path) -> CommandResult:
        return self.etharness("history", *arguments, "--history", self.folder / "h.sqlite")

    def run(self, conv: int, *, add: bool = True, **facts: Any) -> Path:
        """The run directory of one more night, added to the history before it is checked."""
        self.count += 1
        day = f"2026-{10 + self.count // 28:02}-{1 + self.count % 28:02}"
        facts = {"started_utc": f"{day}T01:00:00+00:00", "commit": f"c{self.count:02}00"} | facts
        item = made(f"r{self.count:02}", **facts)
        # The execution waits for the end of its period, so only the operators differ.
        times = {"conv": [conv, conv], "relu": [7_000, 7_000], EXECUTION: [200_000, 200_000]}
        directory = run_directory(self.folder / f"n{self.count:02}", item, times)
        RunDirectory(directory).finish(item.result)
        if add:
            assert self.history("add", directory).code == 0
        return directory

    def check(self, directory: Path, *more: str, baseline: str = "last:6") -> CommandResult:
        store = self.folder / "h.sqlite"
        return self.etharness("check", directory, "--history", store, "--baseline", baseline, *more)

    def night(self, conv: int) -> CommandResult:
        """One more night that is checked."""
        return self.check(self.run(conv))

    def nights(self, count: int, conv: int) -> list[int]:
        return [self.night(conv).code for _ in range(count)]


@pytest.fixture
def nights(tmp_path: Path, etharness: Etharness) -> Nights:
    return Nights(tmp_path, etharness)


@pytest.mark.slow
def test_a_regression_does_not_disappear_with_time(nights: Nights) -> None:
    assert nights.nights(6, GOOD) == [0] * 6
    assert nights.nights(8, SLOW) == [1] * 8
    assert "H01" in nights.night(SLOW).out


def test_nights_that_nobody_checked_do_not_hide_a_step(nights: Nights) -> None:
    """Their results passed, so they are the baseline, and nothing differs from that any more."""
    for _ in range(6):
        nights.run(GOOD)
    for _ in range(7):
        nights.run(SLOW)
    checked = nights.check(nights.run(SLOW))
    assert checked.code == 1
    [step] = [line for line in checked.out.splitlines() if "H03 conv" in line]
    assert "nobody accepted it" in step
    assert "(c0600, c0700]" in step
    nights.history("accept", "conv", "--commit", "c0700", "--reason", "needed")
    assert nights.check(nights.run(SLOW)).code == 0


@pytest.mark.slow
def test_an_accepted_level_is_the_baseline(nights: Nights) -> None:
    nights.nights(6, GOOD)
    assert nights.nights(2, SLOW) == [1, 1]
    code, out, _ = nights.history("accept", "conv", "--reason", "now exact", "--who", "jane")
    assert code == 0
    assert "accepted by jane: now exact" in out
    after = nights.night(SLOW)
    assert after.code == 0, after.out
    assert "H01" not in after.out
    assert "H03" not in after.out
    assert nights.nights(2, SLOW) == [0, 0]
    worse = nights.night(SLOWER)
    assert worse.code == 1
    assert "accepted by jane: now exact" in worse.out
    assert nights.nights(3, SLOWER) == [1] * 3, "the next change is another decision"


def test_the_night_of_the_change_passes_once_it_is_accepted(nights: Nights) -> None:
    nights.nights(6, GOOD)
    directory = nights.run(SLOW)
    assert nights.check(directory).code == 1
    nights.history("accept", "conv", "--reason", "known")
    assert nights.check(directory).code == 0


@pytest.mark.slow
def test_an_ignored_change_is_shown_until_its_day(nights: Nights) -> None:
    nights.nights(6, GOOD)
    nights.nights(1, SLOW)
    assert nights.history("ignore", "conv", "--reason", "issue 7").code == 2
    until = ("--until", "2026-10-11")
    assert nights.history("ignore", "conv", "--reason", "issue 7", *until).code == 0
    codes = []
    for _ in range(3):  # the nights of 10-09 to 10-11
        checked = nights.night(SLOW)
        codes.append(checked.code)
        [note] = [line for line in checked.out.splitlines() if "H01 conv" in line]
        assert note.lstrip().startswith("note")
        assert "ignored until 2026-10-11" in note
        assert "issue 7" in note
    assert codes == [0] * 3
    later = nights.night(SLOW)
    assert later.code == 1
    assert "which has expired" in later.out
    assert nights.nights(2, SLOW) == [1] * 2
    assert nights.night(GOOD).code == 0


@pytest.mark.parametrize("severity", ["error", "warning", "off"])
@pytest.mark.slow
def test_no_budget_raises_an_ignored_change(severity: str, nights: Nights) -> None:
    nights.nights(6, GOOD)
    nights.nights(1, SLOW)
    nights.history("ignore", "conv", "--reason", "issue 7", "--until", "2026-12-31")
    budget = nights.folder / "strict.toml"
    budget.write_text(f'schema = 1\n[severity]\nH01 = "{severity}"\n')
    checked = nights.check(nights.run(SLOW), "--budget", str(budget))
    assert checked.code == 0
    notes = [line.split()[0] for line in checked.out.splitlines() if "H01 conv" in line]
    assert notes == ([] if severity == "off" else ["note:"])
    grown = nights.check(nights.run(SLOWER), "--budget", str(budget))
    assert grown.code == (1 if severity == "error" else 0), "not what was ignored"


def test_an_ignored_change_may_not_grow(nights: Nights) -> None:
    nights.nights(6, GOOD)
    nights.nights(1, SLOW)
    nights.history("ignore", "conv", "--reason", "later", "--until", "2027-01-01")
    assert nights.night(SLOW).code == 0
    assert nights.night(SLOWER).code == 1


@pytest.mark.slow
def test_a_decision_is_undone(nights: Nights) -> None:
    nights.nights(6, GOOD)
    nights.nights(1, SLOW)
    assert nights.history("reopen", "conv").code == 2, "there is nothing to undo"
    nights.history("accept", "conv", "--reason", "a mistake")
    assert nights.nights(7, SLOW) == [0] * 7
    assert nights.history("reopen", "conv", "--reason", "not needed").code == 0
    assert nights.nights(3, SLOW) == [1] * 3, "also after 7 nights that passed"
    assert nights.history("reopen", "conv").code == 2
    assert nights.night(GOOD).code == 0


def test_decisions_are_shown(nights: Nights) -> None:
    nights.nights(5, GOOD)
    nights.nights(1, SLOW)
    told = ("--reason", "new\x1b[2J kernel", "--who", "jane", "--json")
    [made_one] = document("history-decision", nights.history("accept", "conv", *told).out)
    assert made_one["kind"] == "accepted"
    assert (made_one["unit"], made_one["who"], made_one["until"]) == ("native", "jane", None)
    assert made_one["since_utc"] == made_one["at_utc"] == "2026-10-07T01:00:00+00:00"
    out = nights.history("show", "conv").out
    assert "conv, instruction 0 on native, level since 2026-10-07T01:00:00+00:00: accepted" in out
    assert "new\\x1b[2J kernel" in out
    assert "accepted" not in nights.history("show", "relu").out
    shown = document("history-show", nights.history("show", "--json").out)
    assert [item["metric"]["name"] for item in shown["decisions"]] == ["conv"]
    info = document("history-info", nights.history("info", "--json").out)
    assert info["rows"]["decisions"] == 1


def test_a_decision_is_about_one_series(nights: Nights) -> None:
    nights.nights(2, GOOD)
    why = ("--reason", "r")
    several = nights.history("accept", "*", *why)
    assert several.code == 2
    assert "conv, instruction 0 on native" in several.err
    assert nights.history("accept", "nothing*", *why).code == 3
    assert nights.history("accept", "conv", *why, "--since", "2027-01-01").code == 3
    assert nights.history("accept", "conv", *why, "--since", "x", "--commit", "c").code == 2
    assert nights.history("accept", "conv", *why, "--until", "soon").code == 2
    assert nights.history("accept", "conv").code == 2
    assert nights.history("accept", "conv, instruction 0", *why).code == 0
    found = nights.history("accept", "*", *why, "--all", "--commit", "c01", "--json")
    decided = document("history-decision", found.out)
    assert {item["metric"]["name"] for item in decided} >= {"conv", "relu", "planned_1"}
    assert {item["since_utc"] for item in decided} == {"2026-10-02T01:00:00+00:00"}


def test_a_change_on_one_unit_says_nothing_of_another(nights: Nights) -> None:
    for number in range(6):
        for unit in ("u1", "u2"):
            nights.run(GOOD, unit=unit, commit=f"g{number}00", session=f"s{number}")
    for unit in ("u1", "u2"):
        assert nights.check(nights.run(SLOW, unit=unit, commit="b100", session="t1")).code == 1
    assert nights.history("accept", "conv", "--reason", "r").code == 2
    assert nights.history("accept", "conv", "--reason", "r", "--unit", "u1").code == 0
    assert nights.check(nights.run(SLOW, unit="u1", commit="b200", session="t2")).code == 0
    assert nights.check(nights.run(SLOW, unit="u2", commit="b200", session="t2")).code == 1


def test_an_earlier_night_is_judged_by_what_was_known_then(nights: Nights) -> None:
    for _ in range(10):
        nights.run(GOOD)
    directory = nights.run(SLOW)
    first = nights.check(directory, "--json")
    assert first.code == 1
    for _ in range(7):
        nights.run(SLOW)
    nights.history("accept", "conv", "--reason", "r")
    assert nights.check(directory, "--json").out == first.out
    assert nights.check(directory, baseline="commit:c1800").code == 0, "a person's own choice"


def test_the_history_has_the_verdict_that_was_given(nights: Nights) -> None:
    nights.nights(6, GOOD)
    directory = nights.run(SLOW)
    nights.history("baseline", "set", "v1", "--board", "native", "--before", "2026-10-08")
    assert nights.check(directory, baseline="name:v1").code == 1
    [item] = document("history-add", nights.history("add", directory, "--json").out)
    assert item["state"] == "updated"
    assert nights.history("add", directory).out.endswith(": 1 there already\n")
    late = nights.run(SLOW, add=False)
    assert nights.check(late).code == 1
    assert nights.history("add", late).out.endswith(": 1 added\n")
    with open_store(str(nights.folder / "h.sqlite")) as store:
        found = {entry.provenance.id: entry for entry in store.results()}
        series = store.history("native", "kws.pte", "forward")
    for own_id in ("r07", "r08"):
        assert found[own_id].failed == {"H01": 1}
        assert (found[own_id].passed, found[own_id].sound, found[own_id].complete) == (
            *(False, False, True),
        )
    assert len(series.results) == 8, "nights that failed stay in the series"
    assert series.baseline == tuple(range(6))


def test_firmware_built_elsewhere_is_not_compared_with_firmware_built_here(nights: Nights) -> None:
    nights.run(GOOD, settings=MeasurementSettings(runtime="etharness", build="native"))
    flashed = nights.run(SLOW, settings=MeasurementSettings())
    named = nights.check(flashed, baseline="commit:c0100")
    assert named.code == 3
    assert (
        "measured with runtime etharness, build preset native, this run with runtime unknown "
        "(firmware built elsewhere), build preset unknown (firmware built elsewhere)"
    ) in named.err


def test_other_measurement_settings_are_another_series(nights: Nights) -> None:
    plain = MeasurementSettings(runtime="etharness", build="native")
    logged = replace(plain, values="intermediate", stream=True)
    for _ in range(6):
        nights.run(GOOD, settings=plain)
    first = nights.run(SLOW, settings=logged)
    named = nights.check(first, baseline="commit:c0100")
    assert named.code == 3
    assert "baseline commit:c0100 was measured with --values none, no --stream" in named.err
    assert "this run with --values intermediate, --stream" in named.err
    rolling = nights.check(first)
    assert rolling.code == 0
    assert "not comparable: earlier results were measured with --values none" in rolling.out
    for _ in range(7):
        nights.run(SLOW, settings=logged)
    assert nights.check(nights.run(SLOW, settings=logged)).code == 0
    assert nights.check(nights.run(SLOWER, settings=logged)).code == 1
    assert nights.check(nights.run(GOOD, settings=plain)).code == 0
    shown = nights.history("show", "conv").out
    assert "--values" not in shown.splitlines()[0]
    assert shown.splitlines()[-1].startswith("results have 2 measurement settings: ")
    assert len(document("history-show", nights.history("show", "--json").out)["results"]) == 7
    other = nights.history("show", "conv", "--settings", "*intermediate*").out
    assert other.splitlines()[0].endswith("--values intermediate, --stream")
    assert nights.history("show", "conv", "--settings", "*outputs*").code == 3
