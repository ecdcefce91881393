"""Files of `--dataset` that do not fit are refused before anything is built or started."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.conftest import CommandResult

Etharness = Callable[..., CommandResult]

X = np.zeros((4, 49, 10), np.float32)
LABELS = np.array([0, 1, 2, 11])
Y = np.zeros((4, 12), np.float32)
FRAMES = np.zeros((4, 640), np.float32)


def refused(
    etharness: Etharness, tmp_path: Path, model: str, arrays: dict[str, Any], *options: str
) -> str:
    file = tmp_path / "samples.npz"
    np.savez_compressed(file, **arrays)
    return refused_file(etharness, tmp_path, model, file, *options)


def refused_file(
    etharness: Etharness, tmp_path: Path, model: str, file: Path | str, *options: str
) -> str:
    output = tmp_path / "run"
    words = ("--board", "native", "--model", model, "--dataset", str(file), "-o", str(output))
    done = etharness("run", *words, *options)
    assert done.code == 2, done.err
    assert not output.exists(), "nothing was started"
    return " ".join(done.err.split())


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": X, "labels": LABELS}, "unknown array 'x'"),
        ({"labels": LABELS}, "no array 'inputs' (arrays: labels)"),
        ({"inputs": X}, "neither 'labels' nor 'references' (arrays: inputs)"),
        ({"inputs": X, "label": LABELS}, "did you mean 'labels'"),
        ({"inputs": X[:0], "labels": LABELS[:0]}, "it has no samples: 'inputs' is empty"),
        ({"inputs": X, "labels": LABELS[:3]}, "'inputs' has 4 samples, 'labels' has 3"),
        ({"inputs": X[:, :48], "labels": LABELS}, "float32[1, 1, 49, 10], but it is float32[48"),
        ({"inputs": X.astype(float), "labels": LABELS}, "but it is float64[49, 10]"),
        ({"inputs": X.astype(np.int8), "labels": LABELS}, "add inputs_scale"),
        (
            {"inputs_0": X, "inputs_1": X, "labels": LABELS},
            "the model has 1 input, the file has 2 arrays of inputs",
        ),
        ({"inputs": X, "labels": LABELS + 1}, "label 12 of sample 3 is out of range"),
        ({"inputs": X, "labels": LABELS - 2}, "label -2 of sample 0 is out of range, as are"),
        ({"inputs": X, "labels": LABELS / 2}, "'labels' is float64[4] try: save one whole number"),
        ({"inputs": X, "labels": np.eye(4, dtype=int)}, "'labels' is int64[4, 4]"),
        ({"inputs": X, "references": X}, "a sample of 'references' must be float32[1, 12]"),
        ({"inputs": X, "labels": LABELS, "metric": np.array("f1")}, "unknown metric 'f1'"),
        ({"inputs": X, "labels": LABELS, "metric": np.array("auc")}, "AUC needs one score"),
        ({"inputs": X, "references": X, "groups": LABELS}, "'groups' and 'metric' are of labels"),
        ({"inputs": X, "inputs_scale": np.float32(1), "labels": LABELS}, "for integers"),
        (
            {"inputs": X, "references": np.where(Y[2] == Y, np.nan, Y)},
            "'references' of sample 0 has elements that are not numbers",
        ),
        ({"inputs": np.array(["a"] * 4), "labels": LABELS}, "'inputs' is <U1[4]"),
        ({"inputs": np.array([{}] * 4), "labels": LABELS}, "not a readable .npz file"),
    ],
)
def test_what_does_not_fit_is_named(
    etharness: Etharness, tmp_path: Path, arrays: dict[str, Any], message: str
) -> None:
    assert message in refused(etharness, tmp_path, "kws_f32", arrays)


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ({"zero_point": np.int8(3)}, "inputs_zero_point needs inputs_scale try: add it"),
        ({"scale": 0.1, "zero_point": 2.7}, "inputs_zero_point is 2.7 try: save a whole number"),
        ({"scale": 0.1, "zero_point": np.inf}, "zero_point must be one finite number, but it is"),
        ({"scale": 0.1, "zero_point": 1j}, "inputs_zero_point must be one finite number"),
        ({"scale": 0.1, "zero_point": "a"}, "inputs_zero_point must be one finite number, but it"),
        ({"scale": np.nan}, "inputs_scale must be one finite number, but it is nan try: save it"),
        ({"scale": 1 + 1j}, "inputs_scale must be one finite number"),
        ({"scale": "x"}, "inputs_scale must be one finite number, but it is x"),
        ({"scale": [0.1, 0.2]}, "inputs_scale must be one finite number, but it is float64[2]"),
        ({"scale": 0}, "inputs_scale is 0 try: save a positive number"),
        ({"scale": 1e300}, "inputs_scale is 1e+300 try: save a positive number within float32"),
    ],
)
def test_scales_are_finite_numbers(
    etharness: Etharness, tmp_path: Path, numbers: dict[str, Any], message: str
) -> None:
    given = {f"inputs_{name}": np.asarray(number) for name, number in numbers.items()}
    arrays = {"inputs": X.astype(np.int8), "labels": LABELS, **given}
    assert message in refused(etharness, tmp_path, "kws_f32", arrays)


def test_integers_with_a_scale_are_for_float_inputs(etharness: Etharness, tmp_path: Path) -> None:
    rows, indices = np.zeros((4, 8, 6), np.float32), np.zeros((4, 8), np.int64)
    arrays = {"inputs_0": rows, "inputs_1": indices, "labels": np.zeros(4, int)}
    text = refused(etharness, tmp_path, "dynamic", {**arrays, "inputs_1_scale": 1.0})
    assert "'inputs_1' must be int64[8] at most, but it is float32[8]" in text
    assert "without inputs_1_scale" in text


def test_top1_needs_classes(etharness: Etharness, tmp_path: Path) -> None:
    arrays = {"inputs": np.zeros((4, 1, 3), np.float32), "metric": "top1"}
    text = refused(etharness, tmp_path, "state", {**arrays, "labels": np.array([0, 1, 2, 3])})
    assert "label 3 of sample 3 is out of range try: the model's 3 classes are labels" in text
    rows, number = np.zeros((4, 2, 3), np.float32), np.zeros(4, np.float32)
    arrays = {"inputs_0": rows, "inputs_1": number, "labels": LABELS % 2}
    text = refused(etharness, tmp_path, "scalars", {**arrays, "metric": "top1"})
    assert "top1 needs a score for each class, but output 0 is [] try: omit 'metric'" in text


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"labels": np.ones(4, int)}, "all 4 samples have the label 1 try: AUC needs samples of"),
        ({"labels": np.array([0, 1, 0, 2]), "metric": np.array("auc")}, "label 2 of sample 3"),
        ({"labels": np.array([0, 1, 0, 1]), "groups": np.array([0, 0, 1, 1])}, "group 0 have diff"),
    ],
)
def test_an_auc_needs_both_classes(
    etharness: Etharness, tmp_path: Path, arrays: dict[str, Any], message: str
) -> None:
    assert message in refused(etharness, tmp_path, "ad_f32", {"inputs": FRAMES, **arrays})


def test_inputs_and_references_are_those_of_the_file(etharness: Etharness, tmp_path: Path) -> None:
    arrays = {"inputs": X, "labels": LABELS}
    text = refused(etharness, tmp_path, "kws_f32", arrays, "--input", str(tmp_path / "x.npy"))
    assert "--dataset has the inputs and what the model should say" in text
    text = refused(etharness, tmp_path, "kws_f32", arrays, "--steps", str(tmp_path))
    assert "--dataset cannot be combined with --steps or --state" in text
    text = refused(etharness, tmp_path, "kws_f32", arrays, "--state", "keep")
    assert "try: each sample begins with the initial contents of the model's own buffers" in text
    text = refused(etharness, tmp_path, "tests/fixtures/two_methods.bpte", arrays)
    assert "omit --input, --reference and --dataset" in text


def test_a_missing_file_and_one_of_another_kind(etharness: Etharness, tmp_path: Path) -> None:
    assert "did you mean 'kws'?" in refused_file(etharness, tmp_path, "kws_f32", "kvs")
    file = tmp_path / "x.npz"
    file.write_bytes(b"PK\x03\x04 no archive")
    assert "not a readable .npz file" in refused_file(etharness, tmp_path, "kws_f32", file)
    whole = tmp_path / "whole.npz"
    np.savez_compressed(whole, inputs=X, labels=LABELS)
    file.write_bytes(whole.read_bytes()[:-40])
    assert "not a readable .npz file" in refused_file(etharness, tmp_path, "kws_f32", file)


def test_arrays_larger_than_the_bound_are_not_unpacked(
    etharness: Etharness, tmp_path: Path
) -> None:
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "|u1", "fortran_order": False, "shape": (1 << 30,)}
    )
    file = tmp_path / "bomb.npz"
    with (
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("inputs.npy", "w") as member,
    ):
        member.write(header.getvalue())
        for _ in range(1 << 10):
            member.write(bytes(1 << 20))
    assert "more than 1,073,741,824" in refused_file(etharness, tmp_path, "kws_f32", file)
    short = tmp_path / "short.npz"
    with zipfile.ZipFile(short, "w") as archive:
        archive.writestr("inputs.npy", header.getvalue())
    assert "truncated" in refused_file(etharness, tmp_path, "kws_f32", short)


def test_boards_without_a_link_have_none(etharness: Etharness, tmp_path: Path) -> None:
    words = ("run", "--model", "kws_f32", "--dataset", "kws", "-o", str(tmp_path / "run"))
    done = etharness(*words, "--board", "qemu-mps3-an547-mlek")
    assert done.code == 2
    assert "--dataset cannot be set" in " ".join(done.err.split())
