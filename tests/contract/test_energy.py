"""A run that names a meter asks the extension that records; without it, nothing is started."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

Etharness = Callable[..., Any]

WITHOUT = find_spec("harness.extensions.energy") is None


@pytest.mark.extension("energy")
def test_a_meter_that_is_not_there_is_named(etharness: Etharness, tmp_path: Path) -> None:
    port = tmp_path / "no-such-port"
    words = ("--energy", f"ppk2:{port}", "--volts", "3.3", "-o", tmp_path / "run")
    run = etharness("run", "--board", "native", "--model", "small_int8", *words)
    assert run.code == 75
    assert str(port) in run.err


@pytest.mark.skipif(not WITHOUT, reason="for checkouts without the extension")
def test_without_the_extension_a_run_with_a_meter_starts_nothing(
    etharness: Etharness, tmp_path: Path
) -> None:
    words = ("--energy", "ppk2", "--volts", "3.3", "-o", tmp_path / "run")
    run = etharness("run", "--board", "native", "--model", "small_int8", *words)
    assert run.code == 2
    assert "meters are not supported by this installation" in run.err
    assert "--energy none" in run.err
    assert not (tmp_path / "run").exists()
