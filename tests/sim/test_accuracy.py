"""`--dataset` on boards: the metrics are those of the outputs, losses are numbers, falls fail."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import harness
from tests.conftest import FIXTURES, NATIVE_PRESET, ROOT, CommandResult
from tests.support.debugger import Debugger
from tests.support.kernels import scalar
from tests.support.programs import ProgramBuilder

pytestmark = pytest.mark.sim
Etharness = Callable[..., CommandResult]

MODELS = ROOT / "firmware_stub/models"
FIXTURE = np.load(FIXTURES / "kws_f32.npz")
X, Y = FIXTURE["inputs"].reshape(-1, 49, 10), FIXTURE["outputs"]
"""Inputs, and what PyTorch computes for them."""


def samples(path: Path, **arrays: Any) -> Path:
    np.savez_compressed(path, **arrays)
    return path


def accuracy(directory: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((directory / "result.json").read_bytes())["accuracy"]
    return found


@pytest.mark.parametrize(
    ("model", "name", "metric", "expected"),
    [
        ("kws_f32", "kws", "top1", 1.0),
        ("kws_int8", "kws", "top1", 37 / 48),
        ("ad_f32", "ad", "auc", 1.0),
        ("ad_int8", "ad", "auc", 0.9975),
        ("ic_int8", "ic", "top1", 0.7),
        ("vww_int8", "vww", "top1", 1.0),
    ],
)
def test_the_packaged_samples_have_their_documented_accuracy(
    model: str, name: str, metric: str, expected: float, tmp_path: Path
) -> None:
    run = harness.run(model, board="native", dataset=name, output=tmp_path / "run")
    assert run.passed
    assert run.result is not None
    record = run.result.accuracy
    assert record is not None
    assert record.ran == record.samples
    assert getattr(record, metric) == pytest.approx(expected, abs=1e-9)
    page = (ROOT / "docs/accuracy.md").read_text()
    number = f"{expected:.4f}" if metric == "auc" else f"{100 * expected:.2f}".removesuffix(".00")
    row = next(line for line in page.splitlines() if line.startswith(f"| `{name}` |"))
    assert number in row


def test_errors_are_those_of_the_outputs(etharness: Etharness, tmp_path: Path) -> None:
    far = Y.copy()
    far[3, 5] += 0.5
    file = samples(tmp_path / "x.npz", inputs=X, references=far, labels=Y.argmax(1))
    run = tmp_path / "run"
    words = ("--board", "native", "--model", "kws_f32", "--runs", "2", "-o", str(run))
    done = etharness("run", *words, "--dataset", str(file))
    assert done.code == 0, done.err
    found = accuracy(run)
    assert found["ran"] == found["samples"] == len(X)
    assert found["top1"] == 1
    assert found["max_error"] == pytest.approx(0.5, abs=1e-4)
    assert found["mean_error"] == pytest.approx(0.5 / Y.size, rel=1e-2)
    assert found["rms_error"] == pytest.approx(0.5 / Y.size**0.5, rel=1e-2)
    details = np.load(run / "samples.npz")
    assert details["predicted"].tolist() == Y.argmax(1).tolist()
    assert details["error"].argmax() == 3
    text = " ".join(done.out.split())
    assert "top-1 100.00% 10 samples" in text
    assert harness.load(run).operator("Method::execute").count == 2, "the log is of the first"
    np.testing.assert_array_equal(np.load(run / "inputs/0.npy").ravel(), X[0].ravel())


def test_integers_with_a_scale_are_what_the_model_gets(tmp_path: Path) -> None:
    stored = np.clip(np.rint(X * 16) + 3, -128, 127).astype(np.int8)
    scaled = (stored.astype(np.float32) - 3) / 16
    outputs = []
    for name, arrays in (
        ("scaled", {"inputs": stored, "inputs_scale": 1 / 16, "inputs_zero_point": 3}),
        ("plain", {"inputs": scaled}),
    ):
        file = samples(tmp_path / f"{name}.npz", references=Y, **arrays)
        run = harness.run("kws_f32", board="native", dataset=file, output=tmp_path / name)
        assert run.result is not None
        assert run.result.accuracy is not None
        outputs.append(run.result.accuracy.rms_error)
    assert outputs[0] == outputs[1]


def test_a_sample_that_fails_is_counted_and_the_others_run(
    etharness: Etharness, tmp_path: Path
) -> None:
    indices = np.zeros((5, 8), np.int64)
    indices[2] = 10**6  # an embedding has no such row
    file = samples(
        tmp_path / "x.npz",
        inputs_0=np.ones((5, 8, 6), np.float32),
        inputs_1=indices,
        labels=np.zeros(5, int),
    )
    run = tmp_path / "run"
    words = ("--board", "native", "--model", "dynamic", "--dataset", str(file), "-o", str(run))
    done = etharness("run", *words)
    assert done.code == 1, done.out + done.err
    assert "I12 samples: 4 of 5 samples ran" in " ".join(done.out.split())
    found = accuracy(run)
    assert (found["ran"], found["samples"]) == (4, 5)
    assert list(found["failures"].values()) == [1]
    assert np.load(run / "samples.npz")["sample"].tolist() == [0, 1, 3, 4]
    assert etharness("check", str(run)).code == 1


def operator(
    path: Path, name: str, given: tuple[Any, Any], said: tuple[Any, Any], *more: object
) -> Path:
    """Write a program of one operator from its input to its output, each a shape and a type."""
    program = ProgramBuilder([0, 512])
    x = program.tensor(*given, memory=(1, 0))
    y = program.tensor(*said, memory=(1, 256))
    values = [scalar(program, value) for value in more]  # type: ignore[arg-type]
    program.call(name, x, *values, y, overload="out")
    path.write_bytes(program.finish(inputs=[x], outputs=[y]))
    return path


def test_two_elements_are_two_classes(etharness: Etharness, tmp_path: Path) -> None:
    """Also if the input has two, which is then no reconstruction."""
    model = operator(tmp_path / "two.pte", "aten::relu", ((1, 2), np.float32), ((1, 2), np.float32))
    rng = np.random.default_rng(3)
    x, labels = rng.standard_normal((20, 1, 2)).astype(np.float32), np.arange(20) % 2
    scores = np.maximum(x, 0) @ np.float32([-1, 1])
    pairs = [(a > b) + (a == b) / 2 for a in scores[labels == 1] for b in scores[labels == 0]]
    words = ("run", "--board", "native", "--model", str(model), "--dataset")
    file = samples(tmp_path / "auc.npz", inputs=x, labels=labels, metric="auc")
    done = etharness(*words, str(file), "-o", str(tmp_path / "auc"))
    assert done.code == 0, done.err
    assert accuracy(tmp_path / "auc")["auc"] == pytest.approx(np.mean(pairs))
    assert "accuracy: AUC by class 1 - class 0" in done.out
    file = samples(tmp_path / "top1.npz", inputs=x, labels=labels)
    assert etharness(*words, str(file), "-o", str(tmp_path / "top1")).code == 0
    right = np.maximum(x, 0).reshape(20, 2).argmax(1) == labels
    assert accuracy(tmp_path / "top1")["top1"] == right.mean()
    assert accuracy(tmp_path / "top1")["auc"] is None


def test_a_model_that_names_the_class_has_its_top1(etharness: Etharness, tmp_path: Path) -> None:
    model = operator(
        *(tmp_path / "am.pte", "aten::argmax", ((1, 5), np.float32), ((1,), np.int64), 1, False)
    )
    x, labels = np.eye(5, dtype=np.float32)[:, None], np.array([0, 1, 2, 3, 1])
    file = samples(tmp_path / "x.npz", inputs=x, labels=labels)
    run = tmp_path / "run"
    words = ("--board", "native", "--model", str(model), "--dataset", str(file), "-o", str(run))
    done = etharness("run", *words)
    assert done.code == 0, done.err
    assert accuracy(run)["top1"] == 0.8
    assert np.load(run / "samples.npz")["predicted"].tolist() == [0, 1, 2, 3, 4]


def test_integers_with_a_scale_are_for_float16_too(etharness: Etharness, tmp_path: Path) -> None:
    model = operator(
        *(tmp_path / "half.pte", "aten::relu", ((1, 4), np.float16), ((1, 4), np.float16))
    )
    stored = np.arange(-6, 6, dtype=np.int8).reshape(3, 4)
    file = samples(
        *(tmp_path / "x.npz",),
        inputs=stored,
        inputs_scale=0.5,
        references=np.maximum(stored, 0).astype(np.float16) / 2,
    )
    words = ("--board", "native", "--model", str(model), "--dataset", str(file))
    done = etharness("run", *words, "-o", str(tmp_path / "run"))
    assert done.code == 0, done.err
    assert accuracy(tmp_path / "run")["max_error"] == 0


def test_a_type_that_numpy_lacks_is_named_with_a_remedy(
    etharness: Etharness, tmp_path: Path
) -> None:
    path, program = tmp_path / "bf.pte", ProgramBuilder([0, 512])
    x, y = (program.tensor((1, 4), scalar_type=15, memory=(1, 256 * n)) for n in range(2))
    program.call("aten::relu", x, y, overload="out")
    path.write_bytes(program.finish(inputs=[x], outputs=[y]))
    words = ("run", "--board", "native", "--model", str(path), "-o", str(tmp_path / "run"))
    done = etharness(*words)
    assert done.code == 4
    text = " ".join(done.err.split())
    assert "an input or output of bfloat16, which NumPy lacks try: give it float32 inputs" in text


def test_outputs_of_another_size_than_their_references_are_failures(
    etharness: Etharness, tmp_path: Path
) -> None:
    arrays, count = np.load(FIXTURES / "dynamic.npz"), 3
    given = {f"inputs_{n}": np.stack([arrays[f"rows5.input{n}"]] * count) for n in range(2)}
    said = {f"references_{n}": np.stack([arrays[f"rows5.output{n}"]] * count) for n in range(4)}
    words = ("run", "--board", "native", "--model", "dynamic", "--dataset")
    file = samples(tmp_path / "x.npz", **given, **said)
    assert etharness(*words, str(file), "-o", str(tmp_path / "right")).code == 0
    assert accuracy(tmp_path / "right")["max_error"] < 1e-4
    said["references_3"] = np.stack([arrays["rows2.output3"]] * count)
    file = samples(tmp_path / "y.npz", **given, **said)
    done = etharness(*words, str(file), "-o", str(tmp_path / "wrong"))
    assert done.code == 1, done.out + done.err
    found = accuracy(tmp_path / "wrong")
    assert (found["ran"], found["max_error"]) == (0, None)
    assert found["failures"] == {"output 3 is [5, 3], its reference [2, 3]": count}


@pytest.mark.parametrize("options", [(), ("--stream", "--runs", "3")], ids=str)
def test_the_log_is_of_the_first_sample_that_runs(
    options: tuple[str, ...], etharness: Etharness, tmp_path: Path
) -> None:
    rows = np.arange(4, dtype=np.float32)[:, None, None] + np.zeros((4, 8, 6), np.float32)
    indices = np.zeros((4, 8), np.int64)
    indices[[0, 1]] = 10**6  # an embedding has no such row
    given = {"inputs_0": rows, "inputs_1": indices, "labels": np.zeros(4, int)}
    file, run = samples(tmp_path / "x.npz", **given), tmp_path / "run"
    words = ("run", "--board", "native", "--model", "dynamic", *options, "--dataset")
    done = etharness(*words, str(file), "-o", str(run))
    assert done.code == 1, done.out + done.err
    assert "2 of 4 samples ran" in done.out
    found = accuracy(run)
    assert (found["ran"], [*found["failures"].values()]) == (2, [2])
    assert (np.load(run / "inputs/0.npy") == 2).all()
    assert not (run / "trace.partial").exists()
    indices[:] = 10**6
    file = samples(tmp_path / "none.npz", **given)
    done = etharness(*words, str(file), "-o", str(tmp_path / "none"))
    assert done.code == 4
    assert "all 4 samples failed: native: the device refused RUN" in " ".join(done.err.split())
    assert (accuracy(tmp_path / "none")["ran"], accuracy(tmp_path / "none")["samples"]) == (0, 4)


def at(sample: int, act: Callable[[], object]) -> Callable[[str, int, int], None]:
    """Report progress to a function that acts once, before a sample runs."""
    pending = [act]

    def progress(stage: str, done: int, total: int) -> None:
        if (stage, done) == ("samples", sample) and pending:
            pending.pop()()

    return progress


def kill(word: bytes) -> None:
    """Kill the process below this one that is called so."""
    below, found = ["self"], []
    for pid in below:
        children = [
            each.read_text().split() for each in Path(f"/proc/{pid}/task").glob("*/children")
        ]
        below += [child for part in children for child in part]
        called = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[:2]
        found += [int(pid)] if pid != "self" and any(word in part for part in called) else []
    [process] = found
    os.kill(process, signal.SIGKILL)


def interrupt() -> None:
    raise KeyboardInterrupt


def broken(tmp_path: Path, message: str, code: int, **given: Any) -> None:
    """Run samples of which the fourth ends the run, and look at what is kept of the first three."""
    stored = np.load(MODELS / "samples/kws.npz")
    with pytest.raises((harness.HarnessError, KeyboardInterrupt), match=message):
        harness.run("kws_int8", dataset="kws", output=tmp_path / "run", **given)
    found = accuracy(tmp_path / "run")
    assert (found["ran"], found["samples"], found["failures"]) == (3, 48, {})
    predicted = np.load(tmp_path / "run/samples.npz")["predicted"]
    assert found["top1"] == (predicted == stored["labels"][:3]).mean()
    run = harness.load(tmp_path / "run")
    assert run.operator("Method::execute").count == 1, "the log was on the host before"
    assert (run.result.runs_completed, run.result.exit_code) == (1, code)


def test_a_crash_names_its_sample(tmp_path: Path) -> None:
    progress = at(3, lambda: kill(b"/firmware"))
    broken(tmp_path, r"^sample 3 of 48: .*SIGKILL", 4, board="native", progress=progress)


def test_an_interrupt_keeps_the_samples_so_far(tmp_path: Path) -> None:
    progress = at(3, interrupt)
    broken(tmp_path, "^3 of 48 samples completed", 130, board="native", progress=progress)


def test_a_link_that_breaks_names_its_sample(tmp_path: Path) -> None:
    """The simulator goes on, without the relay between it and the host."""
    relay = [sys.executable, str(ROOT / "tests/support/relay.py"), "connect", "{connect}"]
    argv = ["sh", "-c", '"$@"; exec sleep 600', "sh", *relay, "{image}"]
    target = f'kind = "command", time = "real", argv = {json.dumps(argv)}'
    text = (ROOT / "boards/native.toml").read_text().replace('kind = "native"', target)
    text = text.replace('budget = "budgets/default.toml"\n', "")
    board = tmp_path / "native.toml"
    board.write_text(text.replace('preset = "native"', f'preset = "{NATIVE_PRESET}"'))
    progress = at(3, lambda: kill(b"relay.py"))
    broken(tmp_path, "^sample 3 of 48: ", 75, board=board, progress=progress)


def test_a_board_that_restarts_names_its_sample(etharness: Etharness, tmp_path: Path) -> None:
    """At the fourth call of a kernel that each execution calls once; the first one is logged."""
    debugger = Debugger(
        *("qemu-mps2-an385", tmp_path, "quantized_linear"),
        stops=5,
        then="set *(short *)$pc = 0xde00",
    )
    broken(tmp_path, "^sample 3 of 48: .*the board restarted", 4, board=debugger.board_file)
    said = etharness("check", str(tmp_path / "run"))
    assert said.code == 1
    assert "sample 3 of 48: qemu-mps2-an385: the board restarted" in " ".join(said.out.split())


def test_outputs_that_are_no_numbers_are_wrong_and_have_no_error(
    etharness: Etharness, tmp_path: Path
) -> None:
    wrong = X.copy()
    wrong[4] = np.nan
    file = samples(tmp_path / "x.npz", inputs=wrong, references=Y, labels=Y.argmax(1))
    run = tmp_path / "run"
    budget = tmp_path / "budget.toml"
    budget.write_text("schema = 1\n[accuracy]\nat_least_top1 = 0.9\nlimit_max_error = 0.1\n")
    words = ("--board", "native", "--model", "kws_f32", "--dataset", str(file), "-o", str(run))
    done = etharness("run", *words, "--budget", str(budget))
    assert done.code == 1
    text = " ".join(done.out.split())
    assert "outputs of 1 sample are infinite or not numbers" in text
    assert "failed: B16 max_error: max_error over all samples: outputs are not numbers" in text
    found = accuracy(run)
    assert found["top1"] == 0.9
    assert found["max_error"] is None
    assert found["not_numbers"] == 1


def test_scores_of_recordings_are_means_of_their_parts(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    frames = (rng.standard_normal((12, 640)) * np.repeat([1, 2], 6)[:, None]).astype(np.float32)
    labels = np.repeat([0, 1], 6)
    for groups, name in ((None, "alone"), (np.repeat([7, 3, 9, 4], 3), "groups")):
        arrays = {} if groups is None else {"groups": groups}
        file = samples(tmp_path / f"{name}.npz", inputs=frames, labels=labels, **arrays)
        run = harness.run("ad_f32", board="native", dataset=file, output=tmp_path / name)
        assert run.result is not None
        assert run.result.accuracy is not None
        scores = np.load(tmp_path / name / "samples.npz")["score"]
        truth = labels
        if groups is not None:
            scores = np.array([scores[groups == group].mean() for group in (7, 3, 9, 4)])
            truth = np.array([0, 0, 1, 1])
        pairs = [(a > b) + (a == b) / 2 for a in scores[truth == 1] for b in scores[truth == 0]]
        assert run.result.accuracy.auc == pytest.approx(np.mean(pairs))


def test_a_fall_is_a_regression_in_history_and_compare(
    etharness: Etharness, tmp_path: Path
) -> None:
    pytest.importorskip("scipy", reason="an extra: its absence has tests of its own")
    store = ("--history", str(tmp_path / "runs.sqlite"))
    words = ("run", "--board", "native", "--name", "kws", "--dataset", "kws", "--look-again", "0")
    first = etharness(
        *(*words, "--model", "kws_f32", "--commit", "a", "-o", str(tmp_path / "a"), *store)
    )
    assert first.code == 0, first.err
    again = etharness(
        *(*words, "--model", "kws_f32", "--commit", "b", "-o", str(tmp_path / "b"), *store),
        *("--baseline", "last:20", "--json"),
    )
    checks = json.loads(again.out)["verdict"]["checks"]
    assert [check["passed"] for check in checks if check["code"] == "H13"] == [True]
    worse = etharness(
        *(*words, "--model", "kws_int8", "--commit", "c", "-o", str(tmp_path / "c"), *store),
        *("--baseline", "last:20"),
    )
    assert "failed: H13 1 - top1, kws.npz" in " ".join(worse.out.split())
    assert "Accuracy" in etharness("history", "show", *store).out
    compared = etharness("compare", str(tmp_path / "a"), str(tmp_path / "c"))
    text = " ".join(compared.out.split())
    assert "ACCURACY: top1 is worse: 1 before, 0.7708 after, over the same samples" in text
    assert "top1 1 0.7708 less accurate" in text
    better = etharness("compare", str(tmp_path / "c"), str(tmp_path / "a"), "--json")
    (change,) = json.loads(better.out)["accuracy"]
    assert change["metric"] == "top1"
    assert change["judgement"] == "improvement"


def test_outputs_that_became_no_numbers_are_a_regression(
    etharness: Etharness, tmp_path: Path
) -> None:
    """A metric that the samples are for and that is unknown is as bad as it can be."""
    pytest.importorskip("scipy", reason="an extra: its absence has tests of its own")
    words = ("run", "--board", "native", "--name", "log", "--look-again", "0", "--dataset")
    store = ("--history", str(tmp_path / "runs.sqlite"))
    x = np.linspace(-1, 1, 20, dtype=np.float32).reshape(5, 1, 4)
    refs = samples(tmp_path / "refs.npz", inputs=x, references=np.abs(x) + 1)
    scores = samples(tmp_path / "auc.npz", inputs=x[:, :, :2], labels=[0, 1, 0, 1, 0], metric="auc")
    for size, file, metric in ((4, refs, "mean_error"), (2, scores, "auc")):
        shape = ((1, size), np.float32)
        for name, kernel in (("a", "aten::relu"), ("b", "aten::log")):
            model = operator(tmp_path / f"{name}.pte", kernel, shape, shape)
            run = tmp_path / f"{name}{size}"
            given = ("--model", str(model), "--commit", name, "-o", str(run), *store)
            done = etharness(*words, str(file), *given, *("--baseline", "last:20") * (name == "b"))
        assert done.code == 1
        assert "failed: H13" in done.out
        compared = etharness("compare", str(tmp_path / f"a{size}"), str(tmp_path / f"b{size}"))
        text = " ".join(compared.out.split())
        assert f"ACCURACY: {metric} is worse: " in text
        assert "unknown after, over the same samples" in text


@pytest.mark.parametrize(("size", "worse"), [(1e-7, False), (1e-3, True)])
def test_errors_of_the_size_of_rounding_do_not_count(
    size: float, worse: bool, etharness: Etharness, tmp_path: Path
) -> None:
    pytest.importorskip("scipy", reason="an extra: its absence has tests of its own")
    x = np.full((3, 1, 4), size, np.float32)
    file = samples(tmp_path / "x.npz", inputs=x, references=x * np.float32(0.9))
    shape = ((1, 4), np.float32)
    for kernel in ("relu", "neg"):
        model = operator(tmp_path / f"{kernel}.pte", f"aten::{kernel}", shape, shape)
        harness.run(model, board="native", dataset=file, output=tmp_path / kernel)
    done = etharness("compare", str(tmp_path / "relu"), str(tmp_path / "neg"))
    assert ("ACCURACY: mean_error is worse" in " ".join(done.out.split())) == worse


def test_a_masked_class_is_the_last_one(tmp_path: Path) -> None:
    """Its score is -inf, which is equal to a reference of -inf."""
    shape = ((1, 4), np.float32)
    model = operator(tmp_path / "log.pte", "aten::log", shape, shape)
    x = np.float32([[[1, 2, 0, 0]], [[3, 2, 0, 1]], [[0, 0, 0, 0]], [[1, np.inf, 2, 3]]])
    with np.errstate(divide="ignore"):
        right = np.log(x)
    file = samples(
        tmp_path / "x.npz", inputs=x, references=right, labels=[1, 0, 0, 1], metric="top1"
    )
    run = harness.run(model, board="native", dataset=file, output=tmp_path / "run")
    record = run.result.accuracy
    assert record is not None
    assert (record.top1, record.not_numbers, record.unknown) == (0.5, 4, "")
    assert record.max_error == pytest.approx(0, abs=1e-6)
    assert np.load(tmp_path / "run/samples.npz")["predicted"].tolist() == [1, 0, -1, -1]


def test_a_marker_takes_packaged_samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/test_it.py").write_text(
        "import pytest\n@pytest.mark.etharness(board='native', model='kws_int8', dataset='kws')\n"
        "def test_it(etharness_run):\n    assert etharness_run.result.accuracy.ran == 48\n"
    )
    monkeypatch.chdir(tmp_path)
    words = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir=.", "tests")
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_a_part_of_the_samples_is_not_judged(etharness: Etharness, tmp_path: Path) -> None:
    whole, part = tmp_path / "whole", tmp_path / "part"
    harness.run("kws_int8", board="native", dataset="kws", output=whole)
    with pytest.raises(KeyboardInterrupt):
        harness.run(
            *("kws_int8",), board="native", dataset="kws", output=part, progress=at(7, interrupt)
        )
    compared = etharness("compare", str(whole), str(part))
    text = " ".join(compared.out.split())
    assert "ACCURACY: not judged, because 7 of 48 samples ran after" in text
    assert "gone" not in text.partition("Accuracy")[2].partition("accuracy: ")[0].split()


def test_a_plan_and_a_budget_know_it(etharness: Etharness, tmp_path: Path) -> None:
    budget = tmp_path / "budget.toml"
    budget.write_text("schema = 1\n[accuracy]\nat_least_auc = 0.999\n")
    run = tmp_path / "run"
    words = ("--board", "native", "--model", "ad_int8", "-o", str(run), "--budget", str(budget))
    assert etharness("run", *words).code == 1, "no samples ran"
    done = etharness("run", *words, "--dataset", "ad", "--repeat", "2", "-o", str(tmp_path / "two"))
    assert done.code == 1
    text = " ".join(done.out.split())
    assert (
        "failed: B16 auc: auc over all samples: 0.998 auc is below the lower limit of 0.999 auc"
        in text
    )
    second = json.loads((tmp_path / "two/repeats/2/result.json").read_bytes())
    assert second["accuracy"]["auc"] == pytest.approx(0.9975)
    plan = tmp_path / "plan.toml"
    shutil.copy(MODELS / "ad_int8.pte", tmp_path)
    plan.write_text(
        'schema = 1\nname = "lab"\noutput = "out"\nhistory = "runs.sqlite"\n[[board]]\n'
        'board = "native"\n[[model]]\nfile = "ad_int8.pte"\ndataset = "ad.npz"\n'
    )
    wrong = etharness("nightly", str(plan), "--dry-run")
    assert wrong.code == 2
    assert "file not found: ad.npz" in wrong.err
    shutil.copy(MODELS / "samples/ad.npz", tmp_path)
    right = etharness("nightly", str(plan), "--dry-run")
    assert right.code == 0, right.err
    samples(tmp_path / "ad.npz", inputs=np.zeros((2, 640), np.float32), labels=[0, 2], metric="auc")
    unfit = etharness("nightly", str(plan), "--dry-run")
    assert unfit.code == 2
    assert "ad.npz: label 2 of sample 1 is out of range" in " ".join(
        (unfit.out + unfit.err).split()
    )
