"""Networks exported for each kind of Cortex-M core, and each of their kernels, bit for bit.

What a kernel is given comes from the exporter: no test here makes a tensor by hand.
"""

from __future__ import annotations

import ctypes as ct
import random
import runpy
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import harness
from harness import Region, read_program, tensor_from_bytes, tensor_to_bytes
from harness.extensions.executorch import cmsis_nn
from tests.conftest import FIXTURES, MODELS
from tests.support.boards import Bench, started
from tests.support.kernels import Array, Out, Tensor, run_all
from tests.support.operators import CALLS
from tests.support.runtime import DTYPES

torch = pytest.importorskip("torch")
pytest.importorskip("executorch.backends.cortex_m.passes.cortex_m_pass_manager")

pytestmark = pytest.mark.oracle
TARGETS = ("m0", "m3", "m4", "m55", "m55_without_mve")
NETWORKS = ("rows", "one", "picture", "pictures", "products", "image")
BOARD_OF = {"m3": "qemu-mps2-an385", "m4": "qemu-mps2-an386", "m55": "qemu-mps3-an547"}
"""A simulated board with such a core. What is exported for M0 is what M3 gets, and is run there."""
on_targets = pytest.mark.parametrize("target", TARGETS)
of_networks = pytest.mark.parametrize("network", NETWORKS)


@cache
def script() -> dict[str, Any]:
    sys.path.insert(0, str(MODELS))
    try:
        return runpy.run_path(str(MODELS / "export_cpus.py"))
    finally:
        sys.path.remove(str(MODELS))


@dataclass(frozen=True)
class Export:
    """A network as exported for a core, and what the chip's operators compute."""

    module: Any
    program: bytes
    inputs: list[Array]
    outputs: list[Array]


@cache
def exported(network: str, target: str) -> Export:
    edge = script()["lower"](network, target)
    inputs = [x.numpy() for x in script()["inputs"](network)]
    outputs = [y.numpy() for y in script()["references"](network, edge)]
    # Before the program is written, which puts operators with outputs in place of these.
    module = edge.exported_program().module(check_guards=False)
    return Export(module, bytes(edge.to_executorch().buffer), inputs, outputs)


@dataclass(frozen=True)
class KernelCall:
    """One call of an operator, with the values that it gets and returns."""

    operator: str
    arguments: list[Any]
    output: Any


def kernel_calls(export: Export) -> Iterator[KernelCall]:
    """All calls of Cortex-M operators that the first execution makes."""
    calls: list[KernelCall] = []

    class Recorder(script()["ChipReference"]):  # type: ignore[misc]
        def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
            result = super().call_function(target, args, kwargs)
            name = str(getattr(target, "_op", target))
            if name.startswith("cortex_m."):
                operator = name.split(".")[1]
                arguments = [argument(value) for value in args]
                calls.append(KernelCall(operator, arguments, result))
            return result

    Recorder(export.module).run(script()["channels_last"](torch.from_numpy(export.inputs[0])))
    yield from calls


def order_of(value: Any) -> tuple[int, ...]:
    """The exporter's order in memory."""
    return tuple(value.dim_order()) if value.numel() else tuple(range(value.dim()))


def argument(value: Any) -> Any:
    """The same argument for our kernel: tensors in the exporter's shape, type and order."""
    match value:
        case torch.Tensor():
            return Tensor(value.numpy().copy(), order_of(value))
        case torch.dtype():
            return DTYPES[torch.empty(0, dtype=value).numpy().dtype]
        case tuple():
            return list(value)
        case _:
            return value


@on_targets
@of_networks
def test_every_kernel_takes_its_arguments_as_exported(
    etstub: ct.CDLL, network: str, target: str
) -> None:
    called = 0
    for call in kernel_calls(exported(network, target)):
        value = call.output
        out = Out(tuple(value.shape), value.numpy().dtype.type, order_of(value))
        [found] = run_all(etstub, f"cortex_m::{call.operator}", *call.arguments, out)
        np.testing.assert_array_equal(found, value.numpy(), call.operator)
        called += 1
    assert called > 3


def test_the_networks_call_what_has_weights() -> None:
    """For each core those operators that take constants, and which constants for linear layers."""
    for target in TARGETS:
        calls = [call for network in NETWORKS for call in kernel_calls(exported(network, target))]
        found = {call.operator for call in calls}
        kinds = ("conv2d", "linear", "matmul", "activation")
        wanted = {name.partition("::")[2].removesuffix(".out") for name in CALLS}
        weighted = {
            name for name in wanted if name.startswith("quantized") and name.endswith(kinds)
        }
        assert found >= weighted, weighted - found
        linear = [call for call in calls if call.operator == "quantized_linear"]
        for call in linear:
            bias, sums = call.arguments[2:4]
            assert bias is None or target != "m55"
            assert (sums is not None) == (target == "m55")
            assert sums is None or sums.data.shape == (1, call.output.shape[-1])


def compare(bench: Bench, export: Export) -> None:
    info = bench.session.load_model(export.program)
    for array, expected in zip(export.inputs, export.outputs, strict=True):
        bench.session.set_input(0, tensor_to_bytes(array, info.inputs[0]))
        bench.session.run(1, timeout_s=60)
        output = tensor_from_bytes(bench.session.read(Region.OUTPUT), info.outputs[0])
        assert output.shape == expected.shape
        assert output.tobytes() == expected.tobytes()


def test_networks_for_every_core_run_natively() -> None:
    with started("native", deadline_s=60) as bench:
        for target in TARGETS:
            for network in NETWORKS:
                compare(bench, exported(network, target))


@pytest.mark.parametrize("target", BOARD_OF)
def test_networks_run_on_an_emulated_core_of_their_kind(target: str) -> None:
    with started(BOARD_OF[target], deadline_s=60) as bench:
        for network in NETWORKS:
            compare(bench, exported(network, target))


def test_m0_gets_what_m3_gets() -> None:
    for network in NETWORKS:
        assert exported(network, "m0").program == exported(network, "m3").program


def test_a_run_matches_its_reference(tmp_path: Path) -> None:
    """The command's own comparison, which allows int8 models nothing."""
    export = exported("rows", "m55")
    (tmp_path / "model.pte").write_bytes(export.program)
    np.save(tmp_path / "input.npy", export.inputs[0])
    np.save(tmp_path / "reference.npy", export.outputs[0])
    outcome = harness.run(
        tmp_path / "model.pte",
        board="qemu-mps3-an547",
        runs=3,
        output=tmp_path / "run",
        inputs=(tmp_path / "input.npy",),
        references=(tmp_path / "reference.npy",),
    )
    assert outcome.result.exit_code == 0


def test_the_files_kept_are_those_of_the_exporter() -> None:
    written: Callable[[str, str], Export] = exported
    for network, target in script()["WRITTEN"]:
        recorded = np.load(FIXTURES / f"{network}_{target}.npz")
        export = written(network, target)
        np.testing.assert_array_equal(recorded["inputs"], np.stack(export.inputs))
        np.testing.assert_array_equal(recorded["outputs"], np.stack(export.outputs))


SETS = {"m0": "no DSP", "m3": "no DSP", "m4": "DSP", "m55": "MVE", "m55_without_mve": "DSP"}


@on_targets
@of_networks
def test_the_core_is_read_from_the_export(network: str, target: str) -> None:
    """An export is for the sets whose exports are the same program, and for no others."""
    export = exported(network, target)
    made = cmsis_nn.made_for(read_program(export.program).methods[0])
    assert made is not None
    same = {SETS[t] for t in TARGETS if exported(network, t).program == export.program}
    assert set(made.sets) == same


def test_scratch_sizes_are_those_of_cmsis_nn() -> None:
    """The functions in ExecuTorch's wheel, which the exporter asks."""
    theirs = pytest.importorskip("executorch.backends.cortex_m.library.cmsis_nn")
    backends = {"no DSP": "SCALAR", "DSP": "DSP", "MVE": "MVE"}
    generator = random.Random(20260801)
    compared = 0
    while compared < 4000:
        window = drawn(generator)
        if window is None:
            continue
        compared += 1
        common = {
            "input_nhwc": [window.images, *window.source],
            "padding_hw": list(window.padding),
            "stride_hw": list(window.stride),
            "dilation_hw": list(window.dilation),
        }
        target = {"output_nhwc": [window.images, *window.target]}
        columns = window.source[2]
        whole = [window.filters, *window.kernel, columns]
        for name, member in backends.items():
            to = getattr(theirs.Backend, member), theirs.DataType.A8W8
            assert theirs.convolve_wrapper_buffer_size(
                *to, **common, **target, filter_nhwc=[*whole[:3], window.depth]
            ) == cmsis_nn.convolution_scratch(window, name), (window, name)
            assert theirs.depthwise_conv_wrapper_buffer_size(
                *to,
                **common,
                **target,
                filter_nhwc=[*whole[:3], 1],
                ch_mult=max(1, window.filters // columns),
            ) == cmsis_nn.depthwise_scratch(window, name), (window, name)
            assert (
                theirs.transpose_conv_buffer_size(*to, **common, **target, filter_nhwc=whole),
                theirs.transpose_conv_reverse_conv_buffer_size(*to, **common, filter_nhwc=whole),
            ) == cmsis_nn.transposed_scratch(window, name), (window, name)
            assert theirs.avgpool_buffer_size(
                *to, dim_dst_width=window.target[1], ch_src=columns
            ) == cmsis_nn.pooling_scratch(columns, name)
            assert theirs.fully_connected_buffer_size(
                *to, filter_nhwc=[1, -1, -1, columns]
            ) == cmsis_nn.product_scratch(columns, name)


def drawn(generator: random.Random) -> cmsis_nn.ConvolutionShapes | None:
    """A convolution of any kind; None if it has no output."""
    pick = generator.choice
    kernel = pick((1, 1, 2, 3, 4, 5, 10)), pick((1, 2, 3, 4, 5, 10))
    stride = pick((1, 1, 2, 3)), pick((1, 1, 2, 3))
    padding = pick((0, 0, 1, 2, 4)), pick((0, 0, 1, 2, 4))
    dilation = pick((1, 1, 1, 2)), pick((1, 1, 1, 2))
    channels = pick((1, 2, 3, 4, 8, 15, 16, 17, 64, 130))
    filters = pick((1, 4, channels, channels, 2 * channels, 7))
    size = pick((1, 1, 5, 8, 12)), pick((1, 3, 5, 12, 49))
    rows, columns = (
        (size[at] + 2 * padding[at] - dilation[at] * (kernel[at] - 1) - 1) // stride[at] + 1
        for at in (0, 1)
    )
    if rows < 1 or columns < 1:
        return None
    return cmsis_nn.ConvolutionShapes(
        images=pick((1, 1, 2)),
        source=(*size, channels),
        target=(rows, columns, filters),
        kernel=kernel,
        filters=filters,
        depth=channels // 2 if channels % 2 == 0 and pick((False, False, True)) else channels,
        stride=stride,
        padding=padding,
        dilation=dilation,
    )
