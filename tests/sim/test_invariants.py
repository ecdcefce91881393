"""Invariants hold for real runs: on every kind of core, with every kind of log."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import harness
from tests.conftest import FIXTURES, MODELS, CommandResult
from tests.support.examples import sampled

pytestmark = pytest.mark.sim
Etharness = Callable[..., CommandResult]

KERNELS = {f"I{number:02}" for number in (*range(1, 9), 10, 12, *range(14, 19), *range(23, 30))}
DELEGATE = KERNELS | {"I09"}


@pytest.mark.parametrize(
    ("board", "model", "options", "codes"),
    [
        ("native", "kws_int8", {"stream": True, "trace_limit": 4000}, KERNELS),
        ("native", "npu_int", {"values": "intermediate"}, DELEGATE),
        ("native", "npu_str", {"stream": True, "trace_limit": 1500}, DELEGATE),
        ("native", "functions", {}, KERNELS),
        (
            "native",
            "kws_int8",
            {"when_full": "drop-oldest", "trace_limit": 4000},
            KERNELS,
        ),
        (
            "native",
            "kws_int8",
            {"profile": "method"},
            KERNELS - {"I01", "I05", "I14", "I28"},
        ),
        ("qemu-mps2-an385", "npu_int", {}, DELEGATE),
        ("qemu-mps2-an385", "state", {"values": "outputs"}, KERNELS),
        ("qemu-riscv32-virt", "npu_str", {}, DELEGATE),
        ("qemu-microbit", "small_int8", {}, KERNELS),
    ],
)
def test_every_invariant_holds(
    board: str, model: str, options: dict[str, object], codes: set[str], tmp_path: Path
) -> None:
    verdict = harness.run(
        MODELS / f"{model}.pte", board=board, runs=8, output=tmp_path, **options
    ).result.verdict
    assert verdict is not None
    checks = [check for check in verdict.checks if check.code.startswith("I")]
    # I21 holds where the host has read a real clock often enough for evidence.
    assert {check.code for check in checks} - {"I21"} == codes
    # On a host, some operators do take less than it takes to log them.
    quiet = [check for check in checks if check.code != "I05" or board != "native"]
    assert [check for check in quiet if not check.passed] == []


def test_planned_memory_is_recorded_by_allocator(tmp_path: Path) -> None:
    outcome = harness.run(MODELS / "arenas.pte", board="native", runs=1, output=tmp_path)
    assert outcome.result.model is not None
    assert outcome.result.model.planned == {"planned_1": 112, "planned_2": 32}
    assert outcome.result.verdict is not None
    limits = {c.subject: c.limit for c in outcome.result.verdict.checks if c.code == "I06"}
    assert (limits["planned_1"], limits["planned_2"]) == (112, 32)


@pytest.mark.parametrize("board", sampled(["native", "qemu-mps2-an385"], "native"))
def test_outputs_are_held_against_references_which_the_directory_keeps(
    board: str, etharness: Etharness, tmp_path: Path
) -> None:
    fixture = np.load(FIXTURES / "kws_int8.npz")
    good, bad = tmp_path / "good.npy", tmp_path / "bad.npy"
    np.save(tmp_path / "input.npy", fixture["inputs"][0])
    np.save(good, fixture["outputs"][:1])
    np.save(bad, fixture["outputs"][1:2])
    run = ["run", "--board", board, "--model", MODELS / "kws_int8.pte", "-o", tmp_path / "out"]
    run += ["--input", tmp_path / "input.npy"]
    assert etharness(*run, "--reference", good, "--rtol", "0", "--atol", "0").code == 0
    code, out, _ = etharness(*run, "--reference", bad)
    assert code == 1
    assert "I11 outputs/0.npy: " in out
    bad.unlink()
    assert etharness("check", tmp_path / "out").out.endswith(
        "\n".join(out.splitlines()[-2:]) + "\n"
    )
    code, _, err = etharness(*run, "--reference", good, "--reference", good)
    assert code == 2
    assert "the model has 1 output, not 2" in err
    code, _, err = etharness(*run, "--reference", bad)
    assert code == 2
    assert "bad.npy: not a readable .npy file" in err
