"""Whole networks of the zoo: PyTorch's numbers and ExecuTorch's events, natively and under QEMU.

A seeded sample of them, as exporting takes two minutes; with ``ETHARNESS_EVERY_MODEL=1``, as
`make measure` sets it, all of them.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("executorch.exir", reason="needs torch and executorch")

from benchmarks.operators import PAGE, read_networks
from harness import HarnessError
from tests.sim.test_models_on_boards import signatures
from tests.support.boards import started
from tests.support.zoo import BEYOND, LARGE, compare, execute, exported, run, runs, script

pytestmark = pytest.mark.oracle
EMULATED = "qemu-mps2-an385"
SAMPLE = 6
NATIVE_SAMPLE = 16
NETWORKS = list(script()["MEMBERS"])
SMALL = [name for name in NETWORKS if name not in LARGE]
PORTABLE = [
    name for name, member in script()["MEMBERS"].items() if not member.exact and name not in BEYOND
]
"""Networks that ExecuTorch's runtime takes on this host, where it has no Cortex-M kernels."""


def sample(networks: list[str], count: int = SAMPLE) -> list[str]:
    """Some networks, always the same ones, or all if the environment says so."""
    if os.environ.get("ETHARNESS_EVERY_MODEL"):
        return networks
    return sorted(random.Random(15).sample(networks, count))


def test_the_zoo_is_large_and_every_flow_is_in_it() -> None:
    assert len(NETWORKS) >= 90
    flows = {member.flow for member in script()["MEMBERS"].values()}
    assert flows == {"float32", "preserved", "static", "dynamic", "m0", "m4", "m55"}


@pytest.mark.parametrize("chunk", range(4))
def test_networks_compute_natively_what_pytorch_does(chunk: int) -> None:
    """And calls the operators that docs/operators.md says; `benchmarks.operators` writes it."""
    listed = read_networks(PAGE.read_text())
    with started("native", deadline_s=60) as bench:
        for name in sample(NETWORKS, NATIVE_SAMPLE)[chunk::4]:
            compare(name, execute(bench, name))
            assert listed[name] == list(exported(name).operators)


def test_the_page_lists_no_other_networks() -> None:
    assert list(read_networks(PAGE.read_text())) == NETWORKS


def test_a_sample_computes_the_same_on_an_emulated_core() -> None:
    with started(EMULATED, deadline_s=60) as bench:
        for name in sample(SMALL):
            compare(name, execute(bench, name))


@pytest.mark.parametrize("name", sample(PORTABLE))
def test_executorch_logs_the_same_events(name: str, tmp_path: Path) -> None:
    traces = []
    for board in ("native", "native-executorch"):
        traces.append(signatures(run(board, name, tmp_path / board).trace))
        files = sorted((tmp_path / board / "run" / "outputs").glob("*.npy"))
        if board == "native":
            compare(name, [np.load(file) for file in files])
    assert traces[0] == traces[1]
    assert len(traces[0]) == 1 + runs(name)


@pytest.mark.parametrize("name", LARGE)
def test_large_inputs_on_this_host(name: str, tmp_path: Path) -> None:
    run("native", name, tmp_path / "run")
    compare(name, [np.load(file) for file in sorted(tmp_path.glob("run/run/outputs/*.npy"))])


@pytest.mark.parametrize("name", ["channels_last", "channels_last_norm"])
def test_channels_last_images_on_an_emulated_core(name: str) -> None:
    with started(EMULATED, deadline_s=60) as bench:
        compare(name, execute(bench, name))


@pytest.mark.parametrize("name", BEYOND)
def test_portable_kernels_refuse(name: str, tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match=BEYOND[name]) as refused:
        run("native-executorch", name, tmp_path / "run")
    assert refused.value.exit_code == 4
