"""Can this board run this model: one answer, from ``inspect``, ``run``, ``build`` and Python."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import harness

CASES = Path(__file__).parent.parent / "fixtures" / "cases"
MODELS = sorted(path for path in CASES.glob("*.pte"))
Etharness = Callable[..., Any]
XNNPACK = "XnnpackBackend"


def verdicts(etharness: Etharness, model: Path, *options: str) -> dict[str, dict[str, Any]]:
    """What ``inspect`` says of each method of a model and one board."""
    _, out, _ = etharness("inspect", model, "--board", "native", "--json", *options)
    return {method["name"]: method["boards"][0] for method in json.loads(out)["methods"]}


def changed(tmp_path: Path, change: Callable[[bytes], bytes]) -> Path:
    """A model that fits, with a change."""
    model = tmp_path / "model.pte"
    model.write_bytes(change((CASES / "undelegated.pte").read_bytes()))
    return model


@pytest.mark.long
@pytest.mark.sim
@pytest.mark.parametrize("model", MODELS, ids=lambda path: path.stem)
def test_run_refuses_what_inspect_refuses(
    model: Path, etharness: Etharness, tmp_path: Path
) -> None:
    """Which files these are changes when kernels learn a type; that both agree does not."""
    if model.stem == "operator_not_utf8":
        pytest.skip("its name is not text")
    for method, verdict in verdicts(etharness, model).items():
        output = tmp_path / method
        options = ("--board", "native", "--model", model, "--method", method, "-o", output)
        code, _, err = etharness("run", *options)
        assert (code == 2) == (verdict["fits"] is False), err
        if verdict["fits"] is False:
            for lack in verdict["lacks"]:
                assert lack["reason"] in err
                assert lack["remedy"] in err
            failure = json.loads((output / "result.json").read_text())["failure"]
            assert failure["owner"] == "test", "the device misbehaved in no way"
            assert not re.search(r"\(at \d+\)", err)
        else:
            assert code == 0


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        ("float16", r"input 0 is float16, which the bundled kernels do not support"),
        (
            "softmax_float64",
            r"aten::_softmax\.out: input 0 is float64, its kernel takes float16 or",
        ),
        ("external_data", r"constant 'l\.weight' has its data in a \.ptd file"),
    ],
)
def test_a_refusal_names_tensor_and_type(case: str, reason: str, etharness: Etharness) -> None:
    """If one of these runs one day, its case has another kind of verdict, and no reason."""
    model = CASES / f"{case}.pte"
    [verdict] = verdicts(etharness, model).values()
    if verdict["fits"]:
        return
    [lack] = verdict["lacks"]
    assert re.match(reason, lack["reason"])
    assert "export the model" in lack["remedy"]
    code, out, _ = etharness("inspect", model, "--board", "native")
    assert code == 1
    assert f"{lack['reason']}: native" in out
    assert f"  try: {lack['remedy']}" in out


def test_a_model_for_phones_is_told_how_to_export_it(etharness: Etharness, tmp_path: Path) -> None:
    options = ("--board", "native", "--method", "enc", "-o", tmp_path / "run")
    code, _, err = etharness("run", "--model", CASES / "two_methods.pte", *options)
    assert code == 2
    assert f"no backend {XNNPACK}" in err
    assert "for phones and PCs: export without the partitioner" in err


def test_python_is_told_the_same(tmp_path: Path) -> None:
    with pytest.raises(harness.HarnessError) as caught:
        harness.run(CASES / "softmax_float64.pte", board="native", output=tmp_path / "run")
    assert caught.value.exit_code == 2
    assert (
        "input 0 is float64, its kernel takes float16 or float32 or bfloat16"
        in caught.value.message
    )


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"\x1c\0\0\0TFL3" + bytes(100), "a TensorFlow Lite file"),
        (b"PK\x03\x04" + bytes(100), "a zip file, such as PyTorch's .pt, .pth and .pt2 files"),
        (b"\x08\x08\x12\x07pytorch\x1a\x05" + bytes(100), "an ONNX model"),
        (b"\0\0\0\0FT01" + bytes(100), "external data of a program (.ptd)"),
        (b"", "an empty file"),
        (b"no model at all", "an unknown kind of file"),
    ],
)
def test_another_kind_of_file_is_named(
    content: bytes, kind: str, etharness: Etharness, tmp_path: Path
) -> None:
    model = tmp_path / "model.tflite"
    model.write_bytes(content)
    run = ("run", "--board", "native", "-o", tmp_path / "run", "--model", model)
    build = ("build", "--board", "native", "--model", model)
    for command in (("inspect", model), run, build):
        code, _, err = etharness(*command)
        assert code == 2
        assert f"{model} is {kind}, not an ExecuTorch program" in err
        assert "export the PyTorch model with ExecuTorch" in err


@pytest.mark.parametrize("part", [0.5, 0.99])
def test_a_truncated_file_is_refused_by_all(
    part: float, etharness: Etharness, tmp_path: Path
) -> None:
    model = changed(tmp_path, lambda data: data[: int(len(data) * part)])
    for command in (("inspect", model), ("run", "--board", "native", "--model", model)):
        code, _, err = etharness(*command, *(["-o", tmp_path / "run"] if "run" in command else []))
        assert code == 2
        assert "is not a complete ExecuTorch program: file is truncated" in err


def test_a_model_that_is_too_large_is_told_where_it_fits(
    etharness: Etharness, tmp_path: Path
) -> None:
    model = changed(tmp_path, lambda data: data.ljust(65 << 20, b"\0"))
    code, _, err = etharness("run", "--board", "native", "--model", model, "-o", tmp_path / "run")
    assert code == 2
    assert "model: 68,157,440 bytes needed, 67,108,864 available" in err
    assert "place the model in flash" in err
    # Neither does the flash of a small board have room for it.
    code, out, _ = etharness("inspect", model, "--board", "microbit-v1")
    assert code == 1
    assert "microbit-v1, placed in flash: image: " in out
    code, _, err = etharness("build", "--board", "microbit-v1", "--model", model)
    assert code == 2
    assert "placed in flash: image: " in err


def test_a_method_that_is_not_there_starts_nothing(etharness: Etharness, tmp_path: Path) -> None:
    options = ("--board", "native", "--method", "encode", "-o", tmp_path / "run")
    code, _, err = etharness("run", "--model", CASES / "counter.pte", *options)
    assert code == 2
    assert "counter.pte has no method 'encode'" in err
    assert "--method: forward" in err


@pytest.mark.extension("lab")
@pytest.mark.long
@pytest.mark.sim
def test_a_night_calls_it_a_configuration_error(
    etharness: Etharness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One run whose firmware is never built, and no second attempt."""
    model = CASES / "softmax_float64.pte"
    [verdict] = verdicts(etharness, model).values()
    plan = tmp_path / "plan.toml"
    plan.write_text(
        'schema = 1\nname = "night"\n[[board]]\nboard = "native"\n'
        f'[[model]]\nfile = "{model.as_posix()}"\n'
    )
    monkeypatch.chdir(tmp_path)
    code, out, _ = etharness("nightly", plan)
    assert code == 2
    assert verdict["lacks"][0]["reason"] in out
    [result] = (tmp_path / "out").rglob("result.json")
    assert json.loads(result.read_text())["failure"]["owner"] == "test"
