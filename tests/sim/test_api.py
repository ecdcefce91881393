"""Run: the same live, loaded from its directory, from a single file, and from a bundle."""

from __future__ import annotations

import doctest
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import harness
from harness import Failure, InfrastructureError, UsageError
from harness.pytest_plugin import us
from harness.runs.directory import RunDirectory
from tests.conftest import FIXTURES, MODELS, CommandResult
from tests.unit.test_public_api import MAIN_NAMES

pytestmark = pytest.mark.sim

Etharness = Callable[..., CommandResult]

BUDGET = 'schema = 1\n[[time]]\nevent = "Method::execute"\nlimit_us = {}\n'


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> harness.Run:
    output = tmp_path_factory.mktemp("api") / "run"
    return harness.run(MODELS / "small_int8.pte", "native", runs=3, output=output)


@pytest.fixture
def budget(tmp_path: Path) -> Path:
    """A budget that no run can meet."""
    file = tmp_path / "strict.toml"
    file.write_text(BUDGET.format(1))
    return file


def test_a_run_is_the_same_live_and_loaded(live: harness.Run, tmp_path: Path) -> None:
    bundle = live.report(tmp_path / "run.zip")
    assert live.directory is not None
    for run in (live, harness.load(live.directory), harness.load(bundle)):
        assert repr(run) == "<small_int8.pte on native>"
        assert (run.board, run.unit, run.model) == ("native", "native", "small_int8.pte")
        assert run.result == live.result
        assert run.trace == live.trace
        assert run.verdict == live.verdict
        assert run.passed
        assert run.raise_for_verdict() is run
        assert run.operator("Method::execute").p50 == live.operator("Method::execute").p50
        assert run.allocators() == live.allocators()
        assert run.tree() == live.tree()
        assert run.memory().peak == live.memory().peak > 0
        assert np.array_equal(run.outputs[0], live.outputs[0])
    unpacked = harness.load(bundle)
    assert unpacked.path == bundle
    assert unpacked.directory is not None
    place = unpacked.directory.parent
    assert place.is_dir()
    del unpacked
    assert not place.exists()
    with pytest.raises(UsageError, match="is read with the options it records"):
        harness.load(bundle, clock_bits=32)
    assert harness.load(live.directory).path == live.path == live.directory


def test_single_files_load_without_a_directory(live: harness.Run) -> None:
    assert live.directory is not None
    for name in ("trace.etlog", "trace.etdp"):
        run = harness.load(live.directory / name)
        assert (run.directory, len(run.outputs)) == (None, 0)
        assert len(run.operators()) == len(live.operators())
    foreign = harness.load(FIXTURES / "xnnpack_clock32.etdp", clock_bits=32)
    assert foreign.result is None
    assert (foreign.board, foreign.model, repr(foreign)) == ("", "", "<xnnpack_clock32.etdp>")
    assert foreign.trace.clocks[0].bits == 32
    at_1_mhz = harness.load(FIXTURES / "xnnpack_clock32.etdp", clock_hz=1e6)
    assert at_1_mhz.operators("*")[0].p50 == 1000 * at_1_mhz.operators("*")[0].ticks.p50
    with pytest.raises(UsageError, match="has no result to compare with a history"):
        foreign.check(history="h.sqlite", baseline="last:20")


def test_a_check_by_another_budget_changes_nothing(live: harness.Run, budget: Path) -> None:
    verdict = live.check(budget)
    assert not verdict
    assert [check.code for check in verdict.failures] == ["B01"]
    assert not live.check(harness.Budget.load(budget))
    assert live.passed
    failed = harness.load(live.path, budget=budget)
    assert not failed.passed
    with pytest.raises(harness.ChecksFailedError) as caught:
        failed.raise_for_verdict()
    lines = str(caught.value).splitlines()
    assert lines[0].startswith("FAIL: 1 of ")
    assert f"kept in: {live.path}" in lines
    assert lines[-1] == f"again: etharness check {live.path} --budget {budget}"
    assert caught.value.verdict == verdict


def test_comparing_says_what_changed_from_the_other_to_this(live: harness.Run) -> None:
    same = live.compare(live.path)
    assert {change.time.difference for change in same.operators} == {0.0}
    other = harness.load(FIXTURES / "xnnpack_clock32.etdp")
    changed = live.compare(other)
    assert "Method::execute" not in {change.name for change in changed.vanished}
    assert any(change.name.startswith("native_call_") for change in changed.appeared)


def test_exports_and_reports_are_written_and_replaced(live: harness.Run, tmp_path: Path) -> None:
    for _ in range(2):
        [note] = live.export(tmp_path / "t.pftrace", "perfetto", model="small_int8")
        assert note.endswith("--flavour scopes has them")
        assert live.report(tmp_path / "r.json") == tmp_path / "r.json"
    assert (tmp_path / "t.pftrace").stat().st_size > 1000
    with pytest.raises(UsageError, match="unknown format 'perfeto'"):
        live.export(tmp_path / "t", "perfeto")
    with pytest.raises(UsageError, match=r"cannot export to .*: No such file or directory"):
        live.export(tmp_path / "none" / "t.csv", "csv")


def test_a_run_that_failed_is_loaded_with_its_failure(tmp_path: Path) -> None:
    from msgspec.structs import replace

    done = harness.run("small_int8", harness.Board.load("native"), output=tmp_path / "run")
    assert done.result is not None
    directory = RunDirectory(tmp_path / "run")
    (tmp_path / "run" / "trace.etlog").unlink()
    (tmp_path / "run" / "trace.etdp").unlink()
    failure = Failure("LinkError", "the line is dead", "look at the cable")
    directory.finish(replace(done.result, failure=failure, exit_code=75, verdict=None, trace=None))
    run = harness.load(tmp_path / "run")
    assert run.failure == failure
    assert not run.passed
    for ask in (run.raise_for_verdict, run.operators, lambda: run.trace):
        with pytest.raises(InfrastructureError, match="the line is dead") as caught:
            ask()
        assert caught.value.hint == "look at the cable"


def test_a_request_that_is_wrong_starts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="no such board: 'nativ'"):
        harness.run("kws_int8", "nativ")
    with pytest.raises(UsageError, match="no board selected"):
        harness.run("kws_int8")
    with pytest.raises(UsageError, match="'output' is no choice for values"):
        harness.run("kws_int8", "native", values="output")
    with pytest.raises(UsageError, match="cannot read the model"):
        harness.run("nothing.pte", "native")
    with pytest.raises(UsageError, match="no such file or directory"):
        harness.load("nowhere")


def test_runs_are_kept_in_new_folders_and_added_to_a_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from harness import open_store

    monkeypatch.chdir(tmp_path)
    stages: set[str] = set()
    for _ in range(2):
        run = harness.run(
            "small_int8",
            "native",
            values="outputs",
            history="h.sqlite",
            progress=lambda stage, *_: stages.add(stage),
        )
    assert run.path == tmp_path / "out" / "small_int8-native-2"
    assert "pulling" in stages
    assert run.result is not None
    assert run.result.trace is not None
    assert run.result.trace.values > 0
    with open_store("h.sqlite") as store:
        assert len(store.results()) == 2
    again = harness.load(run.path).check(history="h.sqlite", baseline="last:20")
    assert any(check.code.startswith("H") for check in again.checks)


@pytest.mark.parametrize("record", [False, True])
def test_a_check_by_a_baseline_is_recorded_if_wanted(
    record: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, etharness: Etharness
) -> None:
    from harness import open_store

    monkeypatch.chdir(tmp_path)
    strict = Path("strict.toml")
    strict.write_text('schema = 1\n[[time]]\nevent = "Method::execute"\nlimit_us = 0\n')
    paths = [harness.run("small_int8", "native", history="h.sqlite").path for _ in range(2)]
    before = files_of(paths[1])
    verdict = harness.load(paths[1]).check(
        strict, history="h.sqlite", baseline="last:20", record=record
    )
    assert any(check.code.startswith("H") for check in verdict.checks)
    assert (files_of(paths[1]) == before) == (not record)
    with open_store("h.sqlite") as store:
        passed = {entry.provenance.id: entry.passed for entry in store.results()}
    result = harness.load(paths[1]).result
    assert passed[result.id] is not record
    if record:
        left = files_of(paths[1])
        against = ("--history", "h.sqlite", "--baseline", "last:20")
        assert etharness("check", paths[1], "--budget", strict, *against).code == 1
        again = files_of(paths[1])
        assert left.keys() == again.keys() == before.keys() | {"history.json", "check.json"}


def files_of(directory: Path) -> dict[str, bytes]:
    """The files of a run directory by name."""
    names = RunDirectory(directory).files()
    return {name: (directory / name).read_bytes() for name in names}


def test_durations_compare_with_units(live: harness.Run) -> None:
    assert 0 < live.slowest().p50 < 60e6 * us


@pytest.mark.parametrize("name", MAIN_NAMES)
def test_the_examples_of_public_names_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = getattr(harness, name)
    text = found.__doc__
    test = doctest.DocTestParser().get_doctest(text, {}, name, None, None)
    said: list[str] = []
    result = doctest.DocTestRunner().run(test, out=said.append)
    assert result.attempted > 0
    assert result.failed == 0, "".join(said)
