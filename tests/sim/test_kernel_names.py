"""Runs name their kernels, and times of different kernel libraries are not compared."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

import harness
from harness import MeasurementSettings
from tests.conftest import MODELS, CommandResult
from tests.support.results import TARGET

BUNDLED_KERNELS = "bundled C kernels"

pytestmark = pytest.mark.sim
Etharness = Callable[..., CommandResult]

CMSIS_NN = {"runtime": "ExecuTorch 1.5.1", "kernels": "CMSIS-NN"}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("run")
    harness.run(MODELS / "small_int8.pte", board="native", runs=2, output=directory)
    return directory


def with_target(run: Path, directory: Path, **names: str) -> Path:
    """A copy of a run whose firmware reported other names."""
    result = harness.load(run).result
    assert result.target is not None
    target = msgspec.structs.replace(result.target, **names)
    directory.mkdir(parents=True)
    shutil.copy(run / "trace.etlog", directory)
    changed = msgspec.structs.replace(result, target=target, files=None, digest="")
    (directory / "result.json").write_bytes(msgspec.json.encode(changed))
    return directory


def test_every_report_of_a_run_names_its_kernels(
    run: Path, etharness: Etharness, tmp_path: Path
) -> None:
    result = harness.load(run).result
    assert result.target is not None
    assert (result.target.runtime, result.target.kernels) == ("bundled C runtime", BUNDLED_KERNELS)
    assert result.settings is not None
    assert result.settings.kernels == ""  # so that results of earlier versions stay comparable
    for suffix in ("html", "md", "xml", "json"):
        file = tmp_path / f"report.{suffix}"
        assert etharness("report", run, "-o", file).code == 0
        assert BUNDLED_KERNELS in file.read_text()
    assert BUNDLED_KERNELS in etharness("report", run).out


def test_times_of_different_kernels_are_not_comparable(
    run: Path, etharness: Etharness, tmp_path: Path
) -> None:
    other = with_target(run, tmp_path / "other", **CMSIS_NN)
    code, out, _ = etharness("compare", run, other)
    assert code == 3
    assert (
        "NOT COMPARABLE: different kernels: bundled C kernels before, "
        "ExecuTorch 1.5.1 with CMSIS-NN after"
    ) in out
    unnamed = with_target(run, tmp_path / "unnamed", runtime="", kernels="")
    newer = with_target(other, tmp_path / "newer", runtime="ExecuTorch 1.6.0")
    assert etharness("compare", run, run).code == 0
    assert etharness("compare", run, unnamed).code == 0
    assert etharness("compare", other, newer).code == 0


def test_a_kernel_library_is_a_series_of_its_own() -> None:
    bundled = MeasurementSettings(build="native")
    other = MeasurementSettings(build="native", kernels="CMSIS-NN")
    assert bundled.key != other.key
    assert str(other) == (
        "runtime unknown (firmware built elsewhere), build preset native, kernels CMSIS-NN"
    )


def test_the_bundled_runtime_goes_without_saying() -> None:
    names = {"runtime": "bundled C runtime", "kernels": BUNDLED_KERNELS}
    said = [msgspec.structs.replace(TARGET, **given).software for given in (names, CMSIS_NN)]
    assert said == [BUNDLED_KERNELS, "ExecuTorch 1.5.1 with CMSIS-NN"]
