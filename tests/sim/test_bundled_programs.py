"""Every test set of a bundled program runs, and the verdict names the ones that fail."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import harness
from harness import Result, UsageError, open_store, read_bundled_program
from tests.conftest import CommandResult
from tests.support.bundled import FIXTURE

pytestmark = pytest.mark.sim
Etharness = Callable[..., CommandResult]
BUNDLED = read_bundled_program(FIXTURE.read_bytes())
NAMES = ["encode-0", "encode-1", "forward-0", "forward-1", "forward-2"]


@pytest.fixture(scope="module")
def wrong(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle with a wrong expected output: ``forward``, test set 1, element [1, 2]."""
    data = FIXTURE.read_bytes()
    expected = BUNDLED.test_sets[3].expected[0]
    other = expected.copy()
    other[1, 2] += 0.5
    assert data.count(expected.tobytes()) == 1
    file = tmp_path_factory.mktemp("wrong") / "wrong.bpte"
    file.write_bytes(data.replace(expected.tobytes(), other.tobytes()))
    return file


@pytest.fixture(scope="module")
def passing(tmp_path_factory: pytest.TempPathFactory) -> harness.Run:
    directory = tmp_path_factory.mktemp("passing")
    return harness.run(FIXTURE, board="native", runs=2, output=directory)


def result_of(run: harness.Run) -> Result:
    assert run.result is not None
    return run.result


def test_every_test_set_of_every_method_runs(passing: harness.Run) -> None:
    whole = result_of(passing)
    assert passing.passed
    assert (whole.exit_code, whole.runs_requested, whole.runs_completed) == (0, 10, 10)
    assert [(each.method, each.index) for each in whole.test_sets] == [
        (each.method, each.index) for each in BUNDLED.test_sets
    ]
    assert [Path(each.directory).name for each in whole.test_sets] == NAMES
    for run, test_set in zip(passing.test_sets, BUNDLED.test_sets, strict=True):
        assert run.passed
        assert run.operator("Method::execute").count == 2
        for found, expected in zip(run.outputs, test_set.expected, strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
        matched = [check for check in run.verdict.checks if check.code == "I11"]
        assert len(matched) == len(test_set.expected)


def test_the_trace_of_a_test_set_has_its_number(passing: harness.Run) -> None:
    for run, test_set in zip(passing.test_sets, BUNDLED.test_sets, strict=True):
        assert {block.bundled_input_index for block in run.trace.blocks} == {test_set.index}
        assert run.directory is not None
        exported = harness.load(run.directory / "trace.etdp")
        assert {block.bundled_input_index for block in exported.trace.blocks} == {test_set.index}
    with pytest.raises(UsageError, match="test_sets"):
        _ = passing.trace


def test_the_program_is_uploaded_once(passing: harness.Run) -> None:
    inputs = sum(x.nbytes for each in BUNDLED.test_sets for x in each.inputs)  # type: ignore[union-attr]
    link = result_of(passing).link
    assert len(BUNDLED.program) + inputs < link["bytes_sent"] < 2 * len(BUNDLED.program)


def test_a_wrong_expected_output_is_named(wrong: Path, tmp_path: Path) -> None:
    run = harness.run(wrong, board="native", output=tmp_path / "run")
    assert result_of(run).exit_code == 1
    (failure,) = run.verdict.failures
    assert (failure.code, failure.subject) == ("I11", "forward, test set 1: outputs/0.npy")
    expected = BUNDLED.test_sets[3].expected[0][1, 2]
    for part in (
        "1 of 6 elements differ (rtol 0.0001, atol 0.0001)",
        "first [1, 2]: ",
        f"expected {np.float32(expected + np.float32(0.5))!s}",
        "error 0.5",
    ):
        assert part in failure.reason
    assert [each.exit_code for each in result_of(run).test_sets] == [0, 0, 0, 1, 0]
    loaded = harness.load(tmp_path / "run")
    assert loaded.verdict == run.verdict
    assert [each.passed for each in loaded.test_sets] == [True, True, True, False, True]


def test_tolerances_apply_to_every_test_set(wrong: Path, tmp_path: Path) -> None:
    assert harness.run(wrong, board="native", atol=0.6, output=tmp_path / "loose").passed
    run = harness.run(FIXTURE, board="native", rtol=0.0, atol=0.0, output=tmp_path / "exact")
    assert {check.code for check in run.verdict.failures} <= {"I11"}


def test_one_method_can_be_chosen_and_old_test_sets_go(wrong: Path, tmp_path: Path) -> None:
    harness.run(wrong, board="native", output=tmp_path / "run")
    run = harness.run(wrong, board="native", method="encode", output=tmp_path / "run")
    assert run.passed
    assert sorted(each.name for each in (tmp_path / "run" / "test_sets").iterdir()) == NAMES[:2]
    harness.run("kws_int8", board="native", output=tmp_path / "run")
    assert not [*(tmp_path / "run").glob("test_sets/*")]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--method", "decode"], "no test sets for method 'decode'"),
        (["--input", "x.npy"], "its test sets have the inputs"),
        (["--reference", "y.npy"], "its test sets have the inputs"),
        (["--report", "x.zip"], "an archive is of one run"),
    ],
)
def test_what_does_not_go_with_test_sets_is_refused(
    etharness: Etharness, tmp_path: Path, options: list[str], message: str
) -> None:
    run = tmp_path / "run"
    code, _, err = etharness(*("run", "--board", "native", "--model", FIXTURE, *options, "-o", run))
    assert code == 2
    assert message in err
    assert not run.exists()


def test_a_damaged_bundle_is_named(etharness: Etharness, tmp_path: Path) -> None:
    (tmp_path / "cut.bpte").write_bytes(FIXTURE.read_bytes()[:3000])
    run = tmp_path / "run"
    code, _, err = etharness(
        *("run", "--board", "native", "--model", tmp_path / "cut.bpte", "-o", run)
    )
    assert code == 2
    assert "cut.bpte is not a complete bundled program: points outside the buffer" in err
    assert "in BundledProgram.method_test_suites at byte" in err
    assert not run.exists()


def test_commands_take_the_run_of_a_bundled_program(
    etharness: Etharness, wrong: Path, tmp_path: Path
) -> None:
    run, report, history = (tmp_path / name for name in ("run", "report.xml", "history.sqlite"))
    code, out, _ = etharness(
        *("run", "--board", "native", "--model", wrong, "-o", run),
        *("--report", report, "--history", history),
    )
    assert code == 1
    assert "forward         1      1 of 1" in out
    assert out.count("I11 forward, test set 1: outputs/0.npy") == 1
    assert report.read_text().count("<testsuite ") == len(NAMES)
    ids = [each.id for each in harness.load(run).result.test_sets]
    with open_store(str(history)) as store:
        assert all(store.has(each) for each in ids)
    _, out, _ = etharness("history", "add", run, "--history", tmp_path / "another.sqlite")
    assert "5 added" in out
    assert "test_sets/forward-1" in report.read_text()
    page = tmp_path / "page.html"
    assert etharness("report", run, "-o", page).code == 1
    assert "wrong.bpte, forward, test set 1 on native" in page.read_text()
    code, out, _ = etharness("check", run)
    assert code == 1
    assert "I11 forward, test set 1: outputs/0.npy" in out
    code, _, err = etharness("decode", run)
    assert code == 2
    assert "encode-0" in err


def test_swapped_test_sets_are_noticed(passing: harness.Run, tmp_path: Path) -> None:
    run = harness.run(FIXTURE, board="native", output=tmp_path / "run")
    folder = tmp_path / "run" / "test_sets"
    (folder / "forward-0").rename(folder / "aside")
    (folder / "forward-1").rename(folder / "forward-0")
    (folder / "aside").rename(folder / "forward-1")
    assert run.passed
    with pytest.raises(harness.HarnessError, match="damaged: not the run that"):
        harness.load(tmp_path / "run")
