"""``compare`` explains: what changed between two programs, and what it costs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import harness

Command = Callable[..., Any]
HERE = Path(__file__).parent
MODELS = HERE.parents[1] / "firmware_stub/models"
SCHEMAS = HERE.parents[1] / "schema"

pytestmark = pytest.mark.extension("why")


def causes(etharness: Command, before: object, after: object) -> list[dict[str, Any]]:
    """The causes of the differences between two programs or runs."""
    ended = etharness("compare", before, after, "--json")
    assert ended.code == 0, ended.err
    found = json.loads(ended.out)
    name = "compare" if "comparison" in found else "compare-programs"
    jsonschema.validate(found, json.loads((SCHEMAS / f"{name}.schema.json").read_text()))
    return list(found["why"]["causes"])


@pytest.mark.parametrize(
    "model", ["kws_int8", "ad_f32", "npu_int", "functions", "dynamic", "state"]
)
def test_equal_programs_have_no_cause(model: str, etharness: Command, tmp_path: Path) -> None:
    copy = shutil.copy(MODELS / f"{model}.pte", tmp_path / "copy.pte")
    assert causes(etharness, MODELS / f"{model}.pte", copy) == []
    assert "the program did not change" in etharness("compare", MODELS / f"{model}.pte", copy).out


@pytest.mark.extension("executorch")  # cores that CMSIS-NN's arguments are for
@pytest.mark.parametrize(
    ("before", "after", "kind", "sentence"),
    [
        (
            *("ad_int8", "ad_int8_m55", "core"),
            "exported for Cortex-M55, M85 (MVE), before for Cortex-M0, M0+, M3, M23 (no DSP) and "
            "Cortex-M4, M7, M33, M35P (DSP): other constants in 10 operators",
        ),
        (
            *("kws_int8", "kws_int8_m55", "core"),
            "exported for Cortex-M55, M85 (MVE), before for Cortex-M0, M0+, M3, M23 (no DSP): "
            "scratch memory of 5 operators is 20.1 KiB instead of 0 bytes, first "
            "quantized_depthwise_conv2d #1; other constants in 1 operator",
        ),
        (
            *("kws_f32", "kws_int8", "dtype"),
            "12 operators compute in int8 instead of float32, from quantized_depthwise_conv2d #1 "
            "on, and 1 quantize_per_tensor appeared around",
        ),
    ],
)
def test_the_cause_of_another_export_comes_first(
    before: str, after: str, kind: str, sentence: str, etharness: Command
) -> None:
    first = causes(etharness, before, after)[0]
    assert (first["kind"], first["sentence"]) == (kind, sentence)


@pytest.mark.sim
def test_causes_and_the_rest_add_up_to_what_a_method_takes_longer(
    etharness: Command, tmp_path: Path
) -> None:
    runs = []
    for model in ("kws_int8_m55", "kws_f32"):
        runs.append(tmp_path / model)
        ended = etharness("run", "--board", "native", "--model", model, "-o", runs[-1])
        assert ended.code == 0, ended.out
    why = json.loads(etharness("compare", *runs, "--json").out)["why"]
    totals = [
        next(op.p50 for op in harness.load(run).operators() if op.name == "Method::execute")
        for run in runs
    ]
    assert [why["before"], why["after"]] == totals
    explained = sum(cause["difference"] for cause in why["causes"])
    assert explained + why["unexplained"] == pytest.approx(why["after"] - why["before"])
    assert [cause["kind"] for cause in why["causes"]] == ["dtype"]
    assert why["memory"] == {"planned_1": [20_464, 64_000]}
    text = etharness("compare", *runs).out
    assert why["causes"][0]["sentence"] in " ".join(text.split())
    assert etharness("compare", *runs, "--report", tmp_path / "why.md").code == 0
    assert why["causes"][0]["sentence"] in (tmp_path / "why.md").read_text()


@pytest.mark.sim
def test_a_program_that_is_not_at_hand_is_compared_by_what_the_run_recorded(
    etharness: Command, tmp_path: Path
) -> None:
    model = tmp_path / "model.pte"
    runs = [tmp_path / "a", tmp_path / "b"]
    for run, name in zip(runs, ("kws_f32", "kws_int8"), strict=True):
        shutil.copy(MODELS / f"{name}.pte", model)
        data = bytearray(model.read_bytes())
        model.write_bytes(data + bytes(16))  # no packaged model
        assert etharness("run", "--board", "native", "--model", model, "-o", run).code == 0
    why = json.loads(etharness("compare", *runs, "--json").out)["why"]
    assert [cause["kind"] for cause in why["causes"]][:1] == ["dtype"]
    [note] = why["notes"]
    assert note.endswith(
        "is not at hand: layouts, arguments and constants are not compared; give the programs "
        "with --model"
    )
    wrong = etharness("compare", *runs, "--model", "ad_int8")
    assert (wrong.code, "is not the program that ran" in wrong.err) == (3, True)
