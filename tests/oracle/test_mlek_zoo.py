"""The zoo on Arm's image with ExecuTorch: PyTorch's numbers, or the refusal; and its memory.

Every network is executed, or refused with what is pinned here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("executorch.exir", reason="needs torch and executorch")

from harness import HarnessError
from tests.conftest import CommandResult
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
    "video_clip": (4, r"kernel 'aten::max_pool3d_with_indices\.out' not found"),
    "local_response": (4, r"kernel 'aten::avg_pool3d\.out' not found"),
    "neighbour_statistics": (4, r"kernel 'aten::scatter_reduce\.two_out' not found"),
    "bag_of_words": (4, r"kernel 'aten::_embedding_bag_forward_only\.out' not found"),
    "bit_unpacker": (4, r"kernel 'aten::__rshift__\.Scalar_out' not found"),
    "broadcast_products": (2, "output 1 has no dimension"),
    "counting": (2, "output 3 has no dimension"),
    "laplacian": (2, "output 0 has no dimension"),
    "selection": (2, "the shape of one is dynamic"),
    "mobilenet_v2_int8_m55": (4, "Expected 14args received 15"),
    "grouped_int8_m55": (4, "Expected 14args received 15"),
    "difference_int8_m55": (4, "Expected 14args received 15"),
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

REPORTED = {
    "requested": r"Method memory allocated: (\d+) bytes",
    "planned": r"Total planned memory allocated: (\d+) bytes",
    "temporary": r"Temp memory: Used: \d+; Peak: (\d+);",
}
"""What Arm's runner prints of the memory that `inspect --runtime executorch` states; the last is of
the whole run."""


def stated_memory(etharness: Callable[..., CommandResult], program: bytes, file: Path) -> Any:
    file.write_bytes(program)
    out = etharness("inspect", file, "--runtime", "executorch", "--json").out
    return json.loads(out)["methods"][0]["executorch"]


def for_another_core(name: str) -> bool:
    return script()["MEMBERS"][name].flow in ("m0", "m4")


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_computes_what_pytorch_does_or_is_refused(
    etharness: Callable[..., CommandResult], name: str, tmp_path: Path
) -> None:
    memory = stated_memory(etharness, exported(name).program, tmp_path / "stated.pte")
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
    console = tmp_path / "zoo/run/console.log"
    text = console.read_text(errors="replace") if console.is_file() else ""
    found = {key: re.findall(pattern, text) for key, pattern in REPORTED.items()}
    if found["requested"]:
        assert {key: int(numbers[-1]) for key, numbers in found.items()} == {
            key: memory[key] for key in REPORTED
        }


def test_most_networks_are_executed() -> None:
    others = [name for name in NETWORKS if for_another_core(name)]
    executed = [name for name in NETWORKS if name not in REFUSED and name not in others]
    assert len(executed) == 63
    assert set(REFUSED) | WRONG <= set(NETWORKS)
