"""A change that noise may explain is measured again before it fails a run."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import harness
from tests.contract.desk import MODELS, Command, Desk, checks, in_turns

HERE = Path(__file__).parent
BUNDLED = HERE.parent / "fixtures" / "two_methods.bpte"


@pytest.mark.extension("history")
def test_what_is_gone_when_it_is_measured_again_passes(desk: Desk, etharness: Command) -> None:
    archive = desk.folder / "m.zip"
    ended = desk.run("m", [1.3, 1.0], "--report", archive)
    assert ended.code == 0, ended.out
    assert etharness("replay", archive).code == 0
    verdict = desk.verdict("m")
    assert verdict["repeats"] == 1
    assert verdict["repeats_s"] > 0
    assert all(check["passed"] for check in checks(verdict, "H12"))
    assert any("measured again 1 time: gone" in c["reason"] for c in checks(verdict, "H12"))
    assert "measured again" in ended.out
    assert (desk.folder / "m/again/2/result.json").is_file()
    # The run directory says the same without the board.
    checked = etharness("check", desk.folder / "m", "--json")
    assert checked.code == 0
    assert checks(json.loads(checked.out), "H12") == checks(verdict, "H12")
    # Nor is it open again when it is compared with the newest results of the store, twice.
    store = ("--history", desk.folder / "h.sqlite", "--baseline", "last:20")
    for _ in range(2):
        checked = etharness("check", desk.folder / "m", *store, "--json")
        assert checked.code == 0, checked.out
        assert checks(json.loads(checked.out), "H12") == checks(verdict, "H12")
    # The history has the run, and not what looked again.
    listed = json.loads(
        etharness("history", "list", "--history", desk.folder / "h.sqlite", "--json").out
    )
    assert len(listed) == 13
    # Nor if all runs are added later.
    later = json.loads(
        etharness(
            *("history", "add", "--history", desk.folder / "h.sqlite", desk.folder, "--json")
        ).out
    )
    assert len(later) == 13


@pytest.mark.extension("history")
def test_what_holds_for_a_night_is_suspect_and_fails_the_next(
    desk: Desk, etharness: Command
) -> None:
    assert desk.run("m", [1.3] * 9).code == 3
    verdict = desk.verdict("m")
    assert verdict["repeats"] == 1
    [*suspect] = checks(verdict, "H12")
    assert suspect
    assert all("in 2 runs of one session" in check["reason"] for check in suspect)
    assert not checks(verdict, "H01") or all(check["passed"] for check in checks(verdict, "H01"))
    assert etharness("check", desk.folder / "m").code == 3
    assert not harness.load(desk.folder / "m").check()
    # The night after it decides, and nothing of either has become the baseline.
    for night in "no":
        assert desk.run(night, [1.3] * 9).code == 1
        assert any(not check["passed"] for check in checks(desk.verdict(night), "H01"))
    assert desk.run("p", [1.0] * 9).code == 0


@pytest.mark.extension("history")
def test_a_run_need_not_look_again(desk: Desk) -> None:
    assert desk.run("m", [1.3, 1.0], "--look-again", "0").code == 3
    verdict = desk.verdict("m")
    assert "repeats" not in verdict
    assert all("in one session" in check["reason"] for check in checks(verdict, "H12"))
    assert desk.run("n", [1.0]).code == 0


@pytest.mark.extension("history")
def test_runs_of_one_session_are_results_of_their_own(desk: Desk, etharness: Command) -> None:
    assert desk.run("m", [1.0] * 9, "--repeat", "3").code == 0
    assert desk.verdict("m")["repeats"] == 2
    store = ("--history", desk.folder / "h.sqlite", "--json")
    listed = json.loads(etharness("history", "list", *store).out)
    assert len(listed) == 15
    sessions = {
        one["provenance"]["session"] for one in listed if one["provenance"]["commit"] == "m" * 8
    }
    assert {session.partition("/")[2] for session in sessions} == {"", "2", "3"}
    other = ("--history", desk.folder / "other.sqlite", "--json")
    etharness("history", "add", desk.folder / "m", *other)
    assert len(json.loads(etharness("history", "list", *other).out)) == 3


@pytest.mark.extension("history")
def test_a_repeat_that_fails_leaves_the_change_suspect(
    desk: Desk, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m/again").write_text("no folder")
    assert desk.run("m", [1.3] * 9).code == 3
    assert "could not be measured again" in caplog.text


def test_runs_until_a_change_of_a_size_would_be_noticed(desk: Desk, etharness: Command) -> None:
    assert etharness("run", "--model", "small_int8", "--detect", "3%").code == 2
    assert desk.run("m", [1.0] * 99, "--detect", "x").code == 2
    assert desk.run("m", [1.0] * 99, "--detect", "90%", "--repeat-time", "60").code == 0
    assert "repeats" not in desk.verdict("m")
    assert desk.run("n", [1.0] * 99, "--detect", "0.000001%", "--repeat-time", "6").code == 0
    assert desk.verdict("n")["repeats"] >= 1


@pytest.mark.extension("history")
def test_each_test_set_of_a_bundled_program_is_repeated(desk: Desk, etharness: Command) -> None:
    ended = desk.run("m", [1.0] * 99, "--repeat", "2", model=BUNDLED)
    assert ended.code == 0, ended.out
    whole = json.loads((desk.folder / "m/result.json").read_text())
    assert len(whole["test_sets"]) == 5
    for one in whole["test_sets"]:
        name = f"m/{one['directory']}"
        assert desk.verdict(name)["repeats"] == 1
        [again] = (desk.folder / name).glob("*/2/result.json")
        record = json.loads(again.read_text())
        assert record["test_set"] == one["index"]
        assert record["model"]["method"] == one["method"]
    store = ("--history", desk.folder / "h.sqlite", "--json")
    listed = json.loads(etharness("history", "list", *store).out)
    assert len(listed) == 12 + 2 * 5


BUDGET = """schema = 1
[[time]]
event = "native_call_*"
limit_us = 2.65
"""


@pytest.mark.extension("history")
@pytest.mark.parametrize(
    ("factors", "options"), [([1.0, 1.4, 1.0], ("--repeat", "2")), ([1.3, 1.4, 1.0, 1.0], ())]
)
def test_a_limit_that_a_further_run_exceeds_fails_the_verdict(
    desk: Desk, etharness: Command, factors: list[float], options: tuple[str, ...]
) -> None:
    budget = desk.folder / "budget.toml"
    budget.write_text(BUDGET)
    ended = desk.run("m", factors, *options, "--budget", budget)
    assert ended.code == 1, ended.out
    [failed] = checks(desk.verdict("m"), "B01")[-1:]
    assert failed["subject"].startswith("run 2: ")
    assert not failed["passed"]
    # Whoever reads the run directory, or a bundle of it, finds the same.
    archive = desk.folder / "m.zip"
    checked = etharness("check", desk.folder / "m", "--json")
    assert checked.code == 1
    assert failed in json.loads(checked.out)["checks"]
    assert etharness("report", desk.folder / "m", "-o", archive).code == 1
    assert etharness("replay", archive).code == 1
    # Another budget is another question.
    budget.write_text(BUDGET.replace("2.65", "9"))
    other = json.loads(etharness("check", desk.folder / "m", "--budget", budget, "--json").out)
    assert all(check["passed"] for check in checks(other, "B01"))


@pytest.mark.extension("history")
@pytest.mark.parametrize("options", [{}, {"repeat": 4}])
def test_an_interrupt_of_a_further_run_keeps_the_runs_before_it(
    desk: Desk, etharness: Command, options: dict[str, int]
) -> None:
    stages: list[str] = []

    def interrupt(stage: str, done: int, total: int) -> None:
        if any(one.startswith("run 3,") for one in stages):
            raise KeyboardInterrupt
        stages.append(stage)

    desk.choose([1.3, 1.02, 1.0])
    with pytest.raises(KeyboardInterrupt):
        harness.run(
            "kws_int8",
            board=desk.board,
            history=str(desk.folder / "h.sqlite"),
            baseline="last:20",
            commit="m" * 8,
            output=desk.folder / "m",
            detect="0.0001%",
            repeat_time=600.0,
            progress=interrupt,
            **options,
        )
    result = json.loads((desk.folder / "m/result.json").read_text())
    # What was asked for is missing, or else the run is complete.
    assert (result["failure"] is not None) == bool(options)
    assert result["verdict"]["repeats"] == 1
    if not options:
        assert etharness("check", desk.folder / "m").code == result["exit_code"]
    store = ("--history", desk.folder / "h.sqlite", "--json")
    listed = json.loads(etharness("history", "list", *store).out)
    assert len(listed) == 12 + 1 + bool(options)


@pytest.mark.extension("history", "lab")
@pytest.mark.long
def test_a_night_measures_again_what_is_suspect(desk: Desk, etharness: Command) -> None:
    plan = desk.folder / "plan.toml"
    plan.write_text(
        f'''schema = 1
name = "lab"
history = "nights.sqlite"
baseline = "last:20"
model = [{{ file = "{MODELS / "kws_int8.pte"}" }}]
board = [{{ board = "{desk.board}", count = 1 }}]
heal = {{ first = false }}
'''
    )

    def night(*factors: float) -> Any:
        desk.choose(factors)
        return etharness("nightly", plan, "--json")

    for _ in range(12):
        assert night(1.0).code == 0
    gone = night(1.3, 1.0)
    assert gone.code == 0, gone.out
    document = json.loads(gone.out)
    assert document["steps"] == 2
    assert any("measured again: 1 run, " in note for note in document["notes"])
    holds = night(*[1.3] * 4)
    assert holds.code == 1
    document = json.loads(holds.out)
    assert (document["steps"], document["counts"]["regression"]) == (2, 2)
    assert "suspect" in document["arms"][0]["summary"]
    plan.write_text(plan.read_text() + "run = { look_again = 0 }\n")
    decided = json.loads(night(1.3).out)
    assert decided["steps"] == 1
    assert "regression" in decided["arms"][0]["summary"]
    # A night repeats a run to notice a change of a size, too.
    text = plan.read_text()
    for share, steps in (("90%", 1), ("0.000001%", 2)):
        detect = f'detect = "{share}", look_again = 0, repeat_time = 2'
        plan.write_text(text.replace("look_again = 0", detect))
        detected = json.loads(night(*[1.0] * 99).out)
        assert (detected["exit_code"], detected["steps"]) == (0, steps)
        assert any("not detectable yet" in note for note in detected["notes"]) == (steps == 2)
    plan.write_text(plan.read_text().replace('baseline = "last:20"\n', ""))
    assert "detect needs a baseline" in etharness("nightly", plan).err


@pytest.fixture
def other_model(tmp_path: Path) -> Path:
    """A model that differs from kws_int8 by padding only, under the same name."""
    file = tmp_path / "new" / "kws_int8.pte"
    file.parent.mkdir()
    file.write_bytes((MODELS / "kws_int8.pte").read_bytes() + bytes(16))
    return file


@pytest.mark.extension("history")
def test_a_regression_of_the_model_fails_in_the_first_night(
    desk: Desk, etharness: Command, other_model: Path
) -> None:
    factors = in_turns(1.12, *[(1.0, 1.12)] * 5)
    ended = desk.run("m", factors, "--repeat-time", "600", model=other_model)
    assert ended.code == 1, ended.out
    verdict = desk.verdict("m")
    [failed] = [check for check in checks(verdict, "H01") if not check["passed"]]
    assert "measured against the baseline's model in 5 pairs: +1" in failed["reason"]
    assert not any(check["passed"] is False for check in checks(verdict, "H12"))
    assert verdict["repeats"] == 10
    # The runs of both models are kept, and say which they are.
    roles = {}
    for file in (desk.folder / "m/again").glob("*/result.json"):
        result = json.loads(file.read_text())
        roles[int(file.parent.name)] = (result["role"], result["commit"])
        same = (
            result["model"]["sha256"]
            == json.loads((desk.folder / "m/result.json").read_text())["model"]["sha256"]
        )
        assert same == (result["role"] == "second look")
    assert [roles[number][0] for number in sorted(roles)] == [
        *("baseline", "second look", "second look", "baseline") * 2,
        *("baseline", "second look"),
    ]
    assert {commit for role, commit in roles.values() if role == "baseline"} == {"l" * 8}
    # Whoever reads the run directory or compares it with the store again finds the same.
    store = ("--history", desk.folder / "h.sqlite", "--baseline", "last:20")
    for options in ((), store, store):
        checked = etharness("check", desk.folder / "m", *options, "--json")
        assert checked.code == 1, checked.out
        assert failed in json.loads(checked.out)["checks"]
    # No run of a pair is a result, not even if somebody adds it.
    later = etharness(
        *("history", "add", "--history", desk.folder / "h.sqlite", "--json"),
        *(desk.folder / "m", desk.folder / "m/again/2"),
    )
    states = {Path(one["path"]).name: one["state"] for one in json.loads(later.out)}
    assert states["2"] == "refused"
    listed = etharness("history", "list", "--history", desk.folder / "h.sqlite", "--json")
    assert len(json.loads(listed.out)) == 13


@pytest.mark.extension("history")
def test_what_slows_both_models_is_no_regression(
    desk: Desk, etharness: Command, other_model: Path
) -> None:
    # A throttled chip, or a mode of the board: it lasts for the session, and for the next one.
    for name in "mn":
        ended = desk.run(name, [1.3] * 20, "--repeat-time", "600", model=other_model)
        assert ended.code == 0, ended.out
        verdict = desk.verdict(name)
        gone = checks(verdict, "H12")
        assert gone
        assert all(check["passed"] for check in gone)
        assert any("measured against the baseline's model in 1 pair" in c["reason"] for c in gone)
        assert verdict["repeats"] == 2
        assert "measured again beside the baseline's model: a suspect change of 30 %" in ended.out


@pytest.mark.extension("history")
def test_pairs_on_other_firmware_clear_no_change(desk: Desk, other_model: Path) -> None:
    build = json.loads((desk.folder / "l/result.json").read_text())["target"]["build_id"]
    with closing(sqlite3.connect(desk.folder / "h.sqlite")) as store, store:
        changed = store.execute("update name set text = 'earlier' where text = ?", [build])
        assert changed.rowcount == 1
    # All runs on the new firmware are slow, of whichever model.
    ended = desk.run("m", [1.3] * 20, "--repeat-time", "600", model=other_model)
    assert ended.code == 3, ended.out
    verdict = desk.verdict("m")
    reasons = [check["reason"] for check in checks(verdict, "H12")]
    assert any("so it is the firmware, or noise that lasts" in reason for reason in reasons)
    assert any("the pairs compare models only" in reason for reason in reasons)
    assert verdict["repeats"] == 2
    # A burst is over when it is measured again.
    assert desk.run("n", [1.3] + [1.0] * 20, "--repeat-time", "600", model=other_model).code == 0


@pytest.mark.extension("history")
def test_a_model_that_is_not_at_hand_is_said_and_can_be_given(
    desk: Desk, etharness: Command, other_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ETHARNESS_BASELINE_DIR", str(desk.folder / "others"))
    assert desk.run("m", [1.3] * 9, model=other_model).code == 3
    verdict = desk.verdict("m")
    [note] = [check for check in checks(verdict, "H12") if check["severity"] == "note"]
    assert "the baseline's model of commit llllllll" in note["reason"]
    assert "--baseline-model FILE" in note["reason"]
    # That run has kept its own model, and not the baseline's.
    [kept] = (desk.folder / "others").glob("*.pte")
    assert kept.read_bytes() == other_model.read_bytes()
    given = ("--repeat-time", "600", "--baseline-model", MODELS / "kws_int8.pte")
    assert desk.run("n", [1.3] * 20, *given, model=other_model).code == 0
    assert checks(desk.verdict("n"), "H12")
    # Nor does a damaged one count.
    damaged = desk.folder / "others" / f"{sha256(MODELS / 'kws_int8.pte')}.pte"
    damaged.write_bytes(b"damaged")
    assert desk.run("o", [1.3] * 9, model=other_model).code != 0
    assert not damaged.exists()
    # What cannot be measured against is an error before anything runs.
    for file in (desk.folder / "absent.pte", desk.board):
        refused = desk.run("p", [1.0], "--baseline-model", file, model=other_model)
        assert refused.code == 2, refused.out
        assert file.name in refused.err
        assert not (desk.folder / "p").exists()
    alone = etharness(
        *("run", "--board", desk.board, "--model", other_model),
        *("--baseline-model", MODELS / "kws_int8.pte", "-o", desk.folder / "p"),
    )
    assert alone.code == 2
    assert "--baseline-model needs a comparison" in alone.err


@pytest.mark.extension("history")
def test_python_measures_in_pairs_too(desk: Desk, other_model: Path) -> None:
    desk.choose([1.3] * 20)
    stages: list[str] = []
    run = harness.run(
        other_model,
        board=desk.board,
        history=str(desk.folder / "h.sqlite"),
        baseline="last:20",
        commit="m" * 8,
        output=desk.folder / "m",
        baseline_model=MODELS / "kws_int8.pte",
        repeat_time=600.0,
        progress=lambda stage, done, total: stages.append(stage),
    )
    assert run.check()
    assert any("in turns with the baseline's model" in stage for stage in stages)


TEST = """
import pytest

@pytest.mark.etharness(
    board={board!r}, model="new/kws_int8.pte", repeat_time=600.0, commit={commit!r}
)
def test_it(etharness_run):
    etharness_run.check()
"""


@pytest.mark.extension("history")
@pytest.mark.parametrize(
    ("factors", "failed"), [([1.3] * 20, False), (in_turns(1.12, *[(1.0, 1.12)] * 5), True)]
)
def test_a_test_measures_in_pairs_too(
    desk: Desk, other_model: Path, factors: list[float], *, failed: bool
) -> None:
    assert other_model.parent.parent == desk.folder
    (desk.folder / "test_it.py").write_text(TEST.format(board=str(desk.board), commit="m" * 8))
    desk.choose(factors)
    options = ("--etharness-history", "h.sqlite", "--etharness-baseline", "last:20")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "test_it.py", *options],
        cwd=desk.folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == int(failed), done.stdout
    said = "measured against the baseline's model in 5 pairs: +1"
    assert (said in done.stdout) == failed, done.stdout


def sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


@pytest.mark.extension("history", "lab")
@pytest.mark.long
def test_a_night_measures_in_turns_with_the_baselines_model(
    desk: Desk, etharness: Command, other_model: Path
) -> None:
    plan = desk.folder / "plan.toml"

    def night(model: Path, *factors: float) -> Any:
        plan.write_text(
            f'''schema = 1
name = "lab"
history = "nights.sqlite"
baseline = "last:20"
model = [{{ file = "{model}" }}]
board = [{{ board = "{desk.board}", count = 1 }}]
heal = {{ first = false }}
'''
        )
        desk.choose(factors)
        return etharness("nightly", plan, "--json")

    for _ in range(12):
        assert night(MODELS / "kws_int8.pte", 1.0).code == 0
    # What slows both models is gone: once for one run, and for as long as it lasts.
    for _ in range(2):
        throttled = night(other_model, *[1.3] * 9)
        assert throttled.code == 0, throttled.out
        document = json.loads(throttled.out)
        assert document["steps"] == 2
        assert document["counts"]["pass"] == 2
        [note] = [note for note in document["notes"] if "measured again" in note]
        assert "3 runs, 2 of them in turns with the baseline" in note
    # A regression of the model is red in the first night.
    slower = night(other_model, 1.12, *in_turns(1.12, *[(1.0, 1.12)] * 5))
    assert slower.code == 1, slower.out
    document = json.loads(slower.out)
    assert document["counts"]["regression"] == 2
    assert document["arms"][0]["counts"]["regression"] == 1
    assert "suspect" not in document["arms"][0]["counts"]
    [note] = [note for note in document["notes"] if "measured again" in note]
    assert "11 runs, 10 of them in turns with the baseline" in note
    # None of these nights has become the baseline, whose model is the one before them.
    store = ("--history", desk.folder / "nights.sqlite", "--json")
    listed = json.loads(etharness("history", "list", *store).out)
    assert len(listed) == 12 + 2 * 3
    assert sum(one["sound"] for one in listed) == 12
    assert night(MODELS / "kws_int8.pte", 1.0).code == 0
    # Without a history there is nothing to measure against.
    plan.write_text(
        plan.read_text().replace('baseline = "last:20"\n', 'run = { baseline_model = "m.pte" }\n')
    )
    (desk.folder / "m.pte").write_bytes(other_model.read_bytes())
    refused = etharness("nightly", plan)
    assert refused.code == 2
    assert "baseline_model needs a baseline" in refused.err
