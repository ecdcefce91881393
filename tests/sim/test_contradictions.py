"""Results that were edited with care: their digest is right, but they contradict themselves."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import harness
from tests.conftest import MODELS, CommandResult

pytestmark = pytest.mark.sim

Etharness = Callable[..., CommandResult]
Document = dict[str, Any]


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that fails by its reference and by its budget."""
    home = tmp_path_factory.mktemp("failed")
    budget, reference = home / "strict.toml", home / "reference.npy"
    budget.write_text('schema = 1\n[[time]]\nevent = "Method::execute"\nlimit_ticks = 0\n')
    model = MODELS / "small_int8.pte"
    assert harness.run(model, board="native", runs=2, output=home / "first").passed
    np.save(reference, np.load(home / "first/outputs/0.npy") + 1)
    run = harness.run(
        *(model, "native"),
        runs=2,
        output=home / "run",
        budget=budget,
        references=(reference,),
    )
    assert run.result.exit_code == 1
    return home / "run"


def pass_all_checks(document: Document) -> None:
    for check in document["verdict"]["checks"]:
        check["passed"] = True


EDITS: dict[str, tuple[Callable[[Document], object], str]] = {
    "exit code": (lambda d: d.update(exit_code=0), "it records a failed verdict, but exit code 0"),
    "verdict": (lambda d: d.update(verdict=None), "no failed verdict, but exit code 1"),
    "passed": (
        lambda d: d.update(exit_code=0, verdict=d["verdict"] | {"passed": True}),
        "its verdict passed, but 2 of its checks failed",
    ),
    "checks": (pass_all_checks, "its verdict failed, but 0 of its checks failed"),
    "budget": (lambda d: d["verdict"].update(budget=""), "its checks name a budget"),
    "reference": (
        lambda d: d.update(reference=None),
        "it records the file reference/0.npy, but the reference does not name it",
    ),
    "model": (
        lambda d: d.update(model=None),
        "it records the file inputs/0.npy, but the model does not name it",
    ),
    "outputs": (
        lambda d: d["model"].update(outputs=[]),
        "it records the file outputs/0.npy, but the model does not name it",
    ),
    "output": (
        lambda d: d["model"]["outputs"][0].update(file="outputs/1.npy"),
        "it records the file outputs/0.npy, but the model does not name it",
    ),
    "failure": (
        lambda d: d.update(exit_code=0, failure={"kind": "LinkError", "message": "", "hint": ""}),
        "it records a failure, but exit code 0",
    ),
    "tolerance": (
        lambda d: d["reference"].update(atol=1e9),
        "outputs/0.npy differs from its reference, but by its tolerance they match",
    ),
}


@pytest.mark.attack("Files", "a `result.json` with changed numbers and a new digest", "exit code 2")
@pytest.mark.parametrize("name", EDITS)
def test_a_result_that_contradicts_itself_is_damaged(
    name: str, failed: Path, tmp_path: Path, etharness: Etharness
) -> None:
    copy = Path(shutil.copytree(failed, tmp_path / "copy"))
    assert etharness("check", copy).code == 1
    edit, message = EDITS[name]
    document = json.loads((copy / "result.json").read_text())
    edit(document)
    del document["digest"]
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    document["digest"] = sha256(text.encode()).hexdigest()
    (copy / "result.json").write_text(json.dumps(document))
    checked = etharness("check", copy)
    assert checked.code == 2
    assert f"{copy / 'result.json'}: damaged: " in checked.err
    assert message in checked.err


def test_another_budget_may_pass_what_the_recorded_one_does_not(
    failed: Path, tmp_path: Path, etharness: Etharness
) -> None:
    loose = tmp_path / "loose.toml"
    loose.write_text('schema = 1\n[severity]\nI11 = "warning"\n')
    assert etharness("check", failed, "--budget", loose).code == 0
