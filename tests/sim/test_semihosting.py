"""Traces that firmware saves by semihosting: no serial port, no debugger, an exit status."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import harness
from tests.conftest import ROOT, CommandResult
from tests.support.tracer_only import build_tracer_only

pytestmark = pytest.mark.sim

PORT = ROOT / "firmware_stub/ports/semihosting"
SEMIHOSTING = ("-DSEMIHOSTING", f"-I{PORT}", PORT / "etd_semihosting.c")
INPUT = np.zeros((1, 49, 10, 1), np.float32)


def simulate(image: Path, directory: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run the firmware as the page says, from a directory of its own."""
    command = [
        *("qemu-system-arm", "-M", "mps2-an385", "-kernel", image, "-icount", "shift=0"),
        *("-display", "none", "-monitor", "none", "-serial", "none"),
        *("-semihosting-config", "enable=on,target=native", *options),
    ]
    return subprocess.run(
        command, cwd=directory, capture_output=True, text=True, timeout=600, check=False
    )


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("firmware")
    return build_tracer_only(
        directory, model="kws_int8.pte", given=INPUT, executions=2, more=SEMIHOSTING
    )


def test_the_log_is_a_file_and_the_status_is_the_firmwares(
    etharness: Callable[..., CommandResult], image: Path, tmp_path: Path
) -> None:
    logs = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        done = simulate(image, tmp_path / name)
        assert (done.returncode, done.stderr) == (0, "saved\n")
        logs.append((tmp_path / name / "trace.etlog").read_bytes())
    assert logs[0] == logs[1]
    log = tmp_path / "first/trace.etlog"
    assert len(harness.load(log, clock_hz=25_000_000).trace.blocks) == 3  # loading, executions
    checked = etharness("check", log, "--clock-hz", "25e6")
    assert checked.code == 0, checked.out
    decoded = etharness("decode", log, "--clock-hz", "25e6")
    assert "quantized_conv2d #" in decoded.out
    # Without a rate there are ticks, and no invented time.
    assert "[us]" not in etharness("decode", log).out


def test_a_directory_that_cannot_be_written_is_a_failure(image: Path, tmp_path: Path) -> None:
    (tmp_path / "trace.etlog").mkdir()
    done = simulate(image, tmp_path)
    assert (done.returncode, done.stderr) == (1, "not saved\n")


def test_a_model_that_fails_ends_with_its_status(tmp_path: Path) -> None:
    image = build_tracer_only(
        tmp_path, model="export.py", given=INPUT, executions=1, more=SEMIHOSTING
    )
    done = simulate(image, tmp_path)
    assert done.returncode not in (0, 1)
    assert (tmp_path / "trace.etlog").exists()
