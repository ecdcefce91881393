"""Models with a state: sequences of steps, and buffers that begin anew."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import harness
from harness import TargetError, UsageError
from tests.conftest import FIXTURES, MODELS, CommandResult
from tests.support.bundled import FIXTURE
from tests.support.stateful import NAMES, bundled, unpacked

pytestmark = pytest.mark.sim
Etharness = Callable[..., CommandResult]


@pytest.fixture
def stream(tmp_path: Path) -> tuple[Path, Path]:
    return unpacked("stream", tmp_path)


def failed(run: harness.Run) -> dict[str, str]:
    """The reasons of failed checks by their subjects."""
    return {each.subject: each.reason for each in run.verdict.checks if each.failed}


def add_one(file: Path) -> None:
    """Make the elements of a reference wrong."""
    np.save(file, np.load(file) + 1)


@pytest.mark.parametrize("name", NAMES)
def test_a_sequence_is_one_run_with_a_trace(name: str, tmp_path: Path) -> None:
    program, steps = unpacked(name, tmp_path)
    run = harness.run(program, board="native", steps=steps, runs=2, output=tmp_path / "run")
    count = len([*steps.iterdir()])
    assert (run.verdict.exit_code, run.result.runs_completed) == (0, 2 * count)
    compared = [each.subject for each in run.verdict.checks if each.code == "I11"]
    assert f"step {count} of {count}: steps/{count - 1:03}/outputs/0.npy" in compared
    assert len(compared) == count * len(run.outputs)
    assert len(run.trace.blocks) == 1 + 2 * count
    assert harness.load(tmp_path / "run").verdict == run.verdict


def test_a_plan_has_steps(stream: tuple[Path, Path], tmp_path: Path, etharness: Etharness) -> None:
    program, steps = stream
    plan = tmp_path / "plan.toml"
    plan.write_text(
        f'schema = 1\nname = "lab"\noutput = "out"\n[[board]]\nboard = "native"\n[[model]]\n'
        f'file = "{program.relative_to(tmp_path)}"\nsteps = "{steps.relative_to(tmp_path)}"\n'
    )
    done = etharness("nightly", plan)
    assert done.code == 0, done.out + done.err
    [result] = (tmp_path / "out").rglob("result.json")
    assert len(json.loads(result.read_text())["steps"]) == 6
    (steps / "001/inputs/0.npy").unlink()
    unfit = etharness("nightly", plan, "--dry-run")
    assert unfit.code == 2
    assert "001/inputs/0.npy: missing" in " ".join((unfit.out + unfit.err).split())


def test_hidden_files_are_no_steps(stream: tuple[Path, Path], tmp_path: Path) -> None:
    program, steps = stream
    (steps / ".git").mkdir()
    (steps / "003/inputs/.DS_Store").write_bytes(b"\0")
    run = harness.run(program, board="native", steps=steps, output=tmp_path / "run")
    assert (run.verdict.exit_code, run.result.runs_completed) == (0, 6)


def test_a_wrong_step_is_named(stream: tuple[Path, Path], tmp_path: Path) -> None:
    program, steps = stream
    add_one(steps / "002/reference/1.npy")
    run = harness.run(program, board="native", steps=steps, output=tmp_path / "run")
    assert run.verdict.exit_code == 1
    assert [*failed(run)] == ["step 3 of 6: steps/002/outputs/1.npy"]


def test_steps_of_a_run_are_steps_for_another(stream: tuple[Path, Path], tmp_path: Path) -> None:
    """In place, too: they are read before the directory is made."""
    program, steps = stream
    harness.run(program, board="native", steps=steps, output=tmp_path / "run")
    shutil.rmtree(tmp_path / "run/steps/005")
    again = tmp_path / "run/steps"
    run = harness.run(program, board="native", steps=again, output=tmp_path / "run")
    assert (run.verdict.exit_code, run.result.runs_completed) == (0, 5)
    assert harness.load(tmp_path / "run").verdict.exit_code == 0


def test_test_sets_are_a_sequence_if_they_keep_the_state(tmp_path: Path) -> None:
    model = bundled("stream")
    kept = harness.run(model, board="native", state="keep", output=tmp_path / "kept")
    assert (kept.verdict.exit_code, kept.result.runs_completed, kept.test_sets) == (0, 6, [])
    alone = harness.run(model, board="native", output=tmp_path / "alone")
    assert alone.test_sets[0].verdict.exit_code == 0
    assert all(each.verdict.exit_code == 1 for each in alone.test_sets[1:])
    assert all("--state keep" in reason for reason in failed(alone).values())


def test_repetitions_begin_with_the_first_state(stream: tuple[Path, Path], tmp_path: Path) -> None:
    """Where outputs are compared; without references the state is kept, as ever."""
    program, steps = stream
    given: dict[str, Any] = {
        "board": "native",
        "runs": 5,
        "inputs": [steps / "000/inputs/0.npy"],
        "references": [steps / f"000/reference/{number}.npy" for number in range(2)],
    }
    right = harness.run(program, **given, output=tmp_path / "right")
    assert (right.verdict.exit_code, right.result.runs_completed) == (0, 5)
    assert right.result.settings is not None
    assert right.result.settings.state == "reset"
    kept = harness.run(program, **given, state="keep", output=tmp_path / "kept")
    assert all("--state reset" in reason for reason in failed(kept).values())
    assert len(failed(kept)) == 2
    add_one(steps / "000/reference/0.npy")
    wrong = harness.run(program, **given, output=tmp_path / "wrong")
    assert [*failed(wrong)] == ["outputs/0.npy"]
    del given["references"]
    plain = harness.run(program, **given, output=tmp_path / "plain")
    np.testing.assert_array_equal(plain.outputs[1], kept.outputs[1])


def test_steps_that_begin_anew_are_inputs_for_themselves(
    stream: tuple[Path, Path], tmp_path: Path
) -> None:
    program, steps = stream
    shutil.copytree(steps / "000", steps / "001", dirs_exist_ok=True)
    shutil.copytree(steps / "000", steps / "002", dirs_exist_ok=True)
    for number in range(3, 6):
        shutil.rmtree(steps / f"{number:03}")
    given: dict[str, Any] = {"board": "native", "steps": steps}
    assert (
        harness.run(program, **given, state="reset", output=tmp_path / "a").verdict.exit_code == 0
    )
    assert len(failed(harness.run(program, **given, output=tmp_path / "b"))) == 4


@pytest.mark.parametrize(
    "options",
    [
        {"stream": True, "trace_limit": 8000},
        {"values": "intermediate"},
        {"when_full": "drop-oldest"},
        {"state": "keep", "profile": "method"},
    ],
    ids=str,
)
def test_sequences_take_the_options_of_runs(options: dict[str, Any], tmp_path: Path) -> None:
    program, steps = unpacked("llama", tmp_path)
    run = harness.run(
        program, board="native", steps=steps, runs=2, **options, output=tmp_path / "r"
    )
    assert failed(run) == {}
    assert sum(block.name == "Execute" for block in run.trace.blocks) == 16


def test_the_simulated_board_keeps_the_state(stream: tuple[Path, Path], tmp_path: Path) -> None:
    program, steps = stream
    run = harness.run(
        program, board="qemu-mps2-an385", steps=steps, runs=2, output=tmp_path / "run"
    )
    assert failed(run) == {}


def remove(path: Path) -> Callable[[Path], None]:
    return lambda steps: (shutil.rmtree if (steps / path).is_dir() else Path.unlink)(steps / path)


def make(path: str, array: Any) -> Callable[[Path], None]:
    return lambda steps: np.save(steps / path, array)


def empty(steps: Path) -> None:
    shutil.rmtree(steps)
    steps.mkdir()


def many(steps: Path) -> None:
    for number in range(3001):
        (steps / f"x{number}").mkdir()


WRONG: dict[str, tuple[Callable[[Path], None], str]] = {
    "no folder": (shutil.rmtree, "no such folder"),
    "no steps": (empty, "has no steps"),
    "too many": (many, r"3,007 steps; the limit is 3,000"),
    "no input": (remove(Path("001/inputs/0.npy")), r"001/inputs/0\.npy: missing"),
    "no inputs": (remove(Path("001/inputs")), r"001/inputs/0\.npy: missing"),
    "no reference": (remove(Path("003/reference/1.npy")), r"003/reference/1\.npy: missing"),
    "no references": (remove(Path("000/reference")), r"000/reference/0\.npy: missing"),
    "a gap": (remove(Path("003/reference/0.npy")), r"reference has 1\.npy, but no 0\.npy"),
    "a file more": (
        make("004/inputs/1.npy", 0.0),
        r"004/inputs has 2 files, the method has 1 input",
    ),
    "a shape": (
        make("002/inputs/0.npy", np.zeros((1, 5), np.float32)),
        r"002/inputs/0\.npy: input 0 must be float32\[1, 6\], but the file has float32\[1, 5\]",
    ),
    "a type": (make("002/inputs/0.npy", np.zeros((1, 6))), r"but the file has float64\[1, 6\]"),
    "one place": (
        lambda steps: (steps / "001").rename(steps / "2"),
        r"are the same number, so their order is unknown",
    ),
    "no array": (
        lambda steps: (steps / "005/inputs/0.npy").write_text("x"),
        r"005/inputs/0\.npy: not a readable \.npy file",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_steps_start_nothing(case: str, stream: tuple[Path, Path], tmp_path: Path) -> None:
    (program, steps), (spoil, message) = stream, WRONG[case]
    spoil(steps)
    with pytest.raises(UsageError, match=message):
        harness.run(program, board="native", steps=steps, output=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_contradictions_are_refused(
    stream: tuple[Path, Path], tmp_path: Path, etharness: Etharness
) -> None:
    program, steps = stream
    given = ["run", "--board", "native", f"-o{tmp_path / 'run'}"]

    def refused(*words: object) -> str:
        done = etharness(*given, *map(str, words))
        assert done.code == 2
        return done.err

    array = steps / "000/inputs/0.npy"
    both = refused("--model", program, "--steps", steps, "--input", array)
    assert "--steps cannot be combined with --input" in both
    sets = refused("--model", bundled("stream"), "--steps", steps)
    assert "is a bundled program" in sets
    assert "--state keep" in sets
    assert "select one with --method: encode, forward" in refused(
        "--model", FIXTURE, "--state", "keep"
    )
    count = refused("--model", program, "--steps", steps, "--runs", 1_000_000)
    assert "6,000,000 executions; the limit is 1,000,000" in count


def at(done: int, act: Callable[[], object]) -> Callable[[str, int, int], None]:
    """Report progress to a function that acts once when so many executions are complete."""
    pending = [act]

    def progress(stage: str, completed: int, total: int) -> None:
        if stage == "running" and completed == done and pending:
            assert total == 6
            pending.pop()()

    return progress


def interrupt() -> None:
    raise KeyboardInterrupt


def test_an_interrupted_sequence_keeps_its_trace(stream: tuple[Path, Path], tmp_path: Path) -> None:
    program, steps = stream
    with pytest.raises(KeyboardInterrupt, match="3 of 6 executions completed"):
        harness.run(
            program,
            board="native",
            steps=steps,
            output=tmp_path / "run",
            progress=at(3, interrupt),
        )
    run = harness.load(tmp_path / "run")
    assert run.result.runs_completed == 3
    assert [block.name for block in run.trace.blocks] == ["Default", *["Execute"] * 3]


def test_a_crash_names_its_step(stream: tuple[Path, Path], tmp_path: Path) -> None:
    program, steps = stream

    def kill() -> None:
        own = Path("/proc/self/task").glob("*/children")
        children = [pid for each in own for pid in each.read_text().split()]
        [board] = [
            pid for pid in children if Path(f"/proc/{pid}/exe").readlink().name == "firmware"
        ]
        os.kill(int(board), signal.SIGSEGV)

    with pytest.raises(TargetError, match=r"^step [34] of 6: .*SIGSEGV"):
        harness.run(
            program, board="native", steps=steps, output=tmp_path / "run", progress=at(3, kill)
        )
    result = json.loads((tmp_path / "run/result.json").read_text())
    assert result["exit_code"] == 4
    assert result["runs_completed"] in (2, 3)  # the end of the third may have been lost


def test_a_kernel_that_fails_names_its_step(tmp_path: Path) -> None:
    """A position beyond the cache."""
    program, steps = unpacked("llama", tmp_path)
    np.save(steps / "004/inputs/1.npy", np.array([99], np.int64))
    with pytest.raises(TargetError, match=r"^step 5 of 8: native: the device refused RUN"):
        harness.run(program, board="native", steps=steps, output=tmp_path / "run")
    partial = harness.load(tmp_path / "run/trace.partial")
    assert sum(block.name == "Execute" for block in partial.trace.blocks) == 4


def test_reports_have_the_outputs_of_each_step(
    stream: tuple[Path, Path], tmp_path: Path, etharness: Etharness
) -> None:
    program, steps = stream
    add_one(steps / "002/reference/1.npy")
    harness.run(program, board="native", steps=steps, output=tmp_path / "run")
    pages = [f"-o{tmp_path / 'run'}.{suffix}" for suffix in ("html", "zip")]
    for page in pages:
        assert etharness("report", tmp_path / "run", page).code == 1
    html = (tmp_path / "run.html").read_text()
    assert all(
        f"steps/{step:03}/outputs/{index}.npy" in html for step in range(6) for index in (0, 1)
    )
    assert "no reference" not in html
    replayed = etharness("replay", tmp_path / "run.zip")
    assert replayed.code == 1
    assert "step 3 of 6: steps/002/outputs/1.npy" in replayed.out


def test_steps_may_differ_in_shape(tmp_path: Path) -> None:
    """In any order of sizes; also of a model without a state."""
    arrays = np.load(FIXTURES / "dynamic.npz")
    for number, rows in enumerate(("rows5", "rows8", "rows2")):
        for part, name in (("inputs", "input"), ("reference", "output")):
            folder = tmp_path / f"steps/{number}/{part}"
            folder.mkdir(parents=True)
            for index in range(2 if part == "inputs" else 4):
                np.save(folder / f"{index}.npy", arrays[f"{rows}.{name}{index}"])
    model = MODELS / "dynamic.pte"
    run = harness.run(
        model, board="native", steps=tmp_path / "steps", runs=2, output=tmp_path / "run"
    )
    assert failed(run) == {}
    assert run.outputs[0].shape == (2,)
