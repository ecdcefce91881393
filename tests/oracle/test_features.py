"""Feature programs again: outputs recomputed, and events compared with ExecuTorch's runtime."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("executorch.exir", reason="needs torch and executorch")

from tests.conftest import FIXTURES, MODELS
from tests.sim.test_models_on_boards import signatures
from tests.support.features import CASES, FEATURES, Case

pytestmark = pytest.mark.oracle


@pytest.mark.parametrize("name", FEATURES)
def test_pytorch_computes_what_the_fixtures_hold(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(MODELS), *sys.path])
    script = runpy.run_path(str(MODELS / "export_features.py"))
    (feature,) = (feature for feature in script["FEATURES"] if feature.name == name)
    recorded = dict(np.load(FIXTURES / f"{name}.npz"))
    computed = script["fixture"](feature)
    assert recorded.keys() == computed.keys()
    for key, expected in computed.items():
        if key.endswith(".method"):
            assert str(recorded[key]) == str(expected)
        else:
            np.testing.assert_allclose(recorded[key], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_executorch_logs_the_same_and_computes_the_same(case: Case, tmp_path: Path) -> None:
    traces = []
    for board in ("native", "native-executorch"):
        directory = tmp_path / board
        directory.mkdir()
        traces.append(signatures(case.run(board, directory).trace))
        case.compare(directory)
    assert traces[0] == traces[1]
