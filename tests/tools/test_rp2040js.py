"""The board rpi-pico: firmware for a Cortex-M0+, run by rp2040js."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.device_costs import BRIDGE, missing
from tests.conftest import MODELS, ROOT, CommandResult

pytestmark = pytest.mark.tools
Etharness = Callable[..., CommandResult]

BOARD = "rpi-pico"
NOT_OFFERED = {"flash", "rate", "counters"}


@pytest.fixture(autouse=True)
def installed() -> None:
    if reason := missing():
        pytest.skip(reason)


def test_it_qualifies_quickly(tmp_path: Path, etharness: Etharness) -> None:
    code, out, err = etharness("qualify", "--quick", "--board", BOARD, "-o", tmp_path, "--json")
    assert code == 0, out + err
    stages = {stage["name"]: stage for stage in json.loads(out)["stages"]}
    states = {name: stage["state"] for name, stage in stages.items()}
    assert states.pop("wrap") == "skipped"
    assert {name for name, state in states.items() if state != "passed"} == NOT_OFFERED
    assert stages["crash"]["message"].startswith("HardFault in Method::execute, execution 2 of 3")


def test_two_runs_have_the_same_ticks(tmp_path: Path, etharness: Etharness) -> None:
    logs = []
    for name in ("one", "two"):
        model = MODELS / "small_int8.pte"
        run = ("run", "--board", BOARD, "--model", model, "--runs", "3", "-o", tmp_path / name)
        code, out, err = etharness(*run)
        assert code == 0, out + err
        logs.append((tmp_path / name / "trace.etdp").read_bytes())
    assert logs[0] == logs[1]


def test_the_version_that_doctor_asks_for_is_the_pinned_one(etharness: Etharness) -> None:
    code, out, _ = etharness("doctor", "--board", BOARD)
    assert code == 0, out
    [pinned] = set(re.findall(r"rp2040js@?\s?(\d+\.\d+\.\d+)", BRIDGE.read_text()))
    assert f"rp2040js {pinned}" in out


@pytest.mark.parametrize(("vtor", "code"), [("0", 0), ("none", 4)])
def test_start_up_code_sets_the_vector_table(
    vtor: str, code: int, tmp_path: Path, etharness: Etharness
) -> None:
    """Whatever the boot loader has left in VTOR; without the register no interrupt would arrive."""
    text = (
        (ROOT / "boards/rpi-pico.toml").read_text().replace("{here}/rp2040js", str(BRIDGE.parent))
    )
    text = text.replace('"{image}", ', f'"{{image}}", "--vtor", "{vtor}", ')
    lines = [line for line in text.splitlines() if not line.startswith("budget")]
    board = tmp_path / "rpi-pico.toml"
    board.write_text("\n".join(lines).replace("boot_s = 20", "boot_s = 5") + "\n")
    model = MODELS / "small_int8.pte"
    run = ("run", "--board", board, "--model", model, "-o", tmp_path / "run")
    done = etharness(*run)
    assert done.code == code, done.out + done.err
