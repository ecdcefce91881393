"""A bisection whose command runs models on an emulated board."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import MODELS, CommandResult
from tests.support.bisections import make_repository

Etharness = Callable[..., CommandResult]
pytestmark = pytest.mark.sim


@pytest.mark.long
def test_the_commit_with_a_larger_model_is_found_by_one_run_of_each(
    etharness: Etharness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small, large = ((MODELS / f"{name}_int8.pte").read_bytes() for name in ("small", "ad"))
    models = [small, large, large]
    make_repository(tmp_path, ({"model.pte": model} for model in models))
    monkeypatch.chdir(tmp_path)
    run = "run --board qemu-mps2-an385 --model model.pte --runs 1 -q -o {output}"
    command = [sys.executable, "-m", "harness", *run.split()]
    ended = etharness("bisect", "--good", "c0", "--bad", "c2", "--json", "--", *command)
    assert ended.code == 0, ended.err
    document = json.loads(ended.out)
    assert [commit["subject"] for commit in document["suspects"]] == ["change 1"]
    # Good twice and bad once show that the clock has no noise.
    assert {commit["place"]: commit["runs"] for commit in document["commits"]} == {
        0: 2,
        1: 1,
        2: 1,
    }
    assert document["noise"] == document["bound"] == 0
    assert document["change"] > 1
