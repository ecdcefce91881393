"""`--dataset` on boards: the metrics are those of the outputs, losses are numbers, falls fail."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import harness
from tests.conftest import FIXTURES, ROOT, CommandResult

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
    assert "I12 samples: all requested executions completed: 4 of 5 samples ran" in " ".join(
        done.out.split()
    )
    found = accuracy(run)
    assert (found["ran"], found["samples"]) == (4, 5)
    assert list(found["failures"].values()) == [1]
    assert np.load(run / "samples.npz")["sample"].tolist() == [0, 1, 3, 4]
    assert etharness("check", str(run)).code == 1


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
