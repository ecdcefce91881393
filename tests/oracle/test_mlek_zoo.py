"""The zoo on Arm's image with ExecuTorch: PyTorch's numbers, or the refusal; and its memory.

Every network is executed, or refused with what is pinned here.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("executorch.exir", reason="needs torch and executorch")

from harness import HarnessError, read_program
from harness.check.executorch_memory import runtime_memory
from harness.extensions.mlek.machine import RunnerReport, read_report
from tests.support.zoo import compare, exported, run, script

pytestmark = pytest.mark.oracle
BOARD = "qemu-mps3-an547-mlek"
NETWORKS = list(script()["MEMBERS"])

REFUSED = {
    "channels_last_norm": (4, r"is_contiguous_dim_order.*op_native_batch_norm\.cpp"),
    "heat_map_peaks": (4, r"kernel 'aten::adaptive_max_pool2d\.out' not found"),
    "adaptive_peaks": (4, r"kernel 'aten::adaptive_max_pool2d\.out' not found"),
    "group_norm": (4, r"kernel 'aten::_adaptive_avg_pool2d\.out' not found"),
    "pooled_pyramid": (4, r"kernel 'aten::_adaptive_avg_pool2d\.out' not found"),
    "pooled_audio": (4, r"kernel 'aten::_adaptive_avg_pool2d\.out' not found"),
    "bit_unpacker": (4, r"kernel 'aten::__rshift__\.Scalar_out' not found"),
    "broadcast_products": (2, "output 1 has no dimension"),
    "counting": (2, "output 3 has no dimension"),
    "laplacian": (2, "output 0 has no dimension"),
    "selection": (2, "the shape of one is dynamic"),
    "mobilenet_v2_int8_m55": (4, "Expected 14args received 15"),
    "mobilenet_v3_int8_m55": (4, "Expected 15args received 16"),
    "conv_autoencoder_int8_m55": (4, r"kernel 'cortex_m::quantized_activation\.out' not found"),
    "encoder_int8_m55": (4, r"kernel 'cortex_m::quantized_activation\.out' not found"),
    "tcn_int8_m55": (4, r"kernel 'cortex_m::pad\.out' not found"),
    "gru_int8_m55": (4, r"kernel 'aten::linear\.out' not found"),
    "unet_nearest_int8_m55": (4, r"kernel 'cortex_m::quantized_max_pool2d\.out' not found"),
    "pooled_audio_int8_m55": (4, r"kernel 'aten::_adaptive_avg_pool2d\.out' not found"),
    "style_block_int8_m55": (4, "2 input tensors have different dim orders"),
}
"""Exit code and message of each network that is not executed, beside those for other cores."""

OTHER_CORES = (2, "was exported for Cortex-M")

WRONG = {"style_block"}
"""Networks of which this image computes other numbers than ExecuTorch 1.5.1 does on a host."""

TEMPORARY = {"detector_head": 256}
"""Temporary memory of networks with a kernel that takes more than loading does: `topk`."""


def report_of(directory: Path) -> RunnerReport:
    return read_report((directory / "run/console.log").read_bytes())


def for_another_core(name: str) -> bool:
    return script()["MEMBERS"][name].flow in ("m0", "m4")


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_computes_what_pytorch_does_or_is_refused(name: str, tmp_path: Path) -> None:
    memory = runtime_memory(read_program(exported(name).program).methods[0])
    assert memory is not None
    refusal = OTHER_CORES if for_another_core(name) else REFUSED.get(name)
    if refusal is not None:
        with pytest.raises(HarnessError, match=refusal[1]) as refused:
            run(BOARD, name, tmp_path / "zoo")
        assert refused.value.exit_code == refusal[0]
    else:
        run(BOARD, name, tmp_path / "zoo")
        outputs = [np.load(file) for file in sorted((tmp_path / "zoo/run/outputs").glob("*.npy"))]
        if name in WRONG:
            with pytest.raises(AssertionError, match="Mismatched elements"):
                compare(name, outputs)
        else:
            compare(name, outputs)
    if not (tmp_path / "zoo/run/console.log").is_file():
        return
    report = report_of(tmp_path / "zoo")
    if report.method is not None:
        assert (report.planned, report.method) == (memory.planned, memory.requested)
        assert report.temporary == TEMPORARY.get(name, memory.temporary)


def test_most_networks_are_executed() -> None:
    others = [name for name in NETWORKS if for_another_core(name)]
    executed = [name for name in NETWORKS if name not in REFUSED and name not in others]
    assert len(executed) == 55
    assert set(REFUSED) | WRONG | set(TEMPORARY) <= set(NETWORKS)
