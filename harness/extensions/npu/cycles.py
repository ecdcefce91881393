"""Vela's estimate of the cycles of each operation, if ``ethos-u-vela`` is installed.

Vela estimates an operation from its shapes, the blocks in which it computes and the memories
between which it moves data. All of this is in the command stream and in the options that ExecuTorch
keeps beside it, so that its estimator (``ethosu.vela.npu_performance``) needs no model. It knows
Ethos-U55 and U65.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, NamedTuple

from harness.extensions.npu.command_stream import FeatureMap, Operation

_AREAS: Final = {"SRAM": "Sram", "flash": "OffChipFlash", "DRAM": "Dram"}
_ACCUMULATORS: Final = ("Acc32", "Acc40", "Acc16")


class CycleEstimate(NamedTuple):
    """Cycles of operations.

    Attributes:
        cycles: Those of each operation; None without an estimate of it.
        tool: What estimated them; "" without an estimate.
        note: Why there is none, if that is not plain; "" otherwise.
    """

    cycles: list[int | None]
    tool: str = ""
    note: str = ""


def estimate_cycles(
    operations: Sequence[Operation], options: dict[str, str], memories: dict[int, str]
) -> CycleEstimate:
    """CycleEstimate the cycles of operations, if Vela is installed and knows the NPU.

    An operation takes as long as its computation or as the memory that takes longest, whichever is
    more.

    Args:
        operations: The operations.
        options: Vela's options, from the program.
        memories: Names of the memory regions.
    """
    nothing: list[int | None] = [None] * len(operations)
    if not options.get("accelerator-config", "").startswith(("ethos-u55", "ethos-u65")):
        return CycleEstimate(nothing)
    try:
        import_module("ethosu.vela.npu_performance")
    except ImportError:
        return CycleEstimate(nothing)
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # Vela prints what it makes of its options
            vela = _Estimator(options, memories)
            cycles = [vela.cycles(operation) for operation in operations]
    except Exception as error:  # of Vela, which expects the streams that it has written
        return CycleEstimate(
            nothing, note=f"Vela cannot estimate its cycles: {error or repr(error)}"
        )
    return CycleEstimate(cycles, f"Vela {version('ethos-u-vela')}")


class _Estimator:
    """Vela's estimator for one configuration of an NPU."""

    def __init__(self, options: dict[str, str], memories: dict[int, str]) -> None:
        parts = ("npu_performance", "operation", "tensor", "shape4d", "architecture_features")
        performance, operation, tensor, shape4d, features = (
            import_module(f"ethosu.vela.{part}") for part in parts
        )
        allocator = import_module("ethosu.vela.architecture_allocator")
        config = Path(options.get("config", "Arm/vela.ini"))
        known = Path(features.CONFIG_FILES_PATH) / config
        self._arch = features.ArchitectureFeatures(
            vela_config_files=[str(known if known.exists() else config)],
            accelerator_config=options["accelerator-config"],
            system_config=options["system-config"],
            memory_mode=options["memory-mode"],
            max_blockdep=features.ArchitectureFeatures.MAX_BLOCKDEP,
            verbose_config=False,
            arena_cache_size=None,
        )
        self._performance: Any = performance
        self._operation: Any = operation
        self._shape: Any = shape4d.Shape4D
        self._tensor: Any = tensor
        self._config: Any = allocator.ArchitectureBlockConfig
        self._elements: Any = features.SHRAMElements
        self._memories = memories

    def cycles(self, each: Operation) -> int | None:
        """Return the cycles of an operation; None if Vela does not estimate its kind."""
        computed = self._computed(each)
        moved: dict[str, int] = {}
        for region, read, written in each.traffic():
            if region >= 0:
                name = self._memories.get(region, "")
                moved[name] = moved.get(name, 0) + read + written
        bandwidths = self._arch.memory_bandwidths_per_cycle
        waited = [
            size / bandwidths[self._area(name)] for name, size in moved.items() if name in _AREAS
        ]
        return None if computed is None else round(max([computed, *waited]))

    def _computed(self, each: Operation) -> int | None:
        kinds, op = self._operation.NpuBlockType, self._operation.Op
        known = {
            "conv": (kinds.ConvolutionMxN, op.Conv2DBias),
            "depthwise conv": (kinds.ConvolutionDepthWise, op.DepthwiseConv2DBias),
            "max pool": (kinds.Pooling, op.MaxPool),
            "average pool": (kinds.Pooling, op.AvgPool),
            "copy": (kinds.Pooling, op.AvgPool),
            "upscale": (kinds.Pooling, op.AvgPool),
            "table": (kinds.Pooling, op.AvgPool),
            "reduce sum": (kinds.ReduceSum, op.ReduceSum),
            "mul": (kinds.ElementWise, op.Mul),
            "add": (kinds.ElementWise, op.Add),
            "sub": (kinds.ElementWise, op.Sub),
            "min": (kinds.ElementWise, op.Minimum),
            "max": (kinds.ElementWise, op.Maximum),
            "lrelu": (kinds.ElementWise, op.LeakyRelu),
            "abs": (kinds.ElementWise, op.Abs),
            "clz": (kinds.ElementWise, op.CLZ),
            "shr": (kinds.ElementWise, op.SHR),
            "shl": (kinds.ElementWise, op.SHL),
        }.get(each.kind)
        if known is None or each.output is None:
            return None
        block_type, type_ = known
        query = self._performance.PerformanceQuery(block_type)
        self._describe(query, "ifm", each.inputs[0])
        self._describe(query, "ofm", each.output)
        if len(each.inputs) > 1:
            self._describe(query, "ifm2", each.inputs[1])
        query.kernel = self._operation.Kernel(
            *(each.kernel[1], each.kernel[0], each.strides[1], each.strides[0]),
            *(each.dilations[1], each.dilations[0]),
        )
        query.config = self._config()
        query.config.ofm_block = self._shape(1, *each.block)
        query.config.acc_type = getattr(self._elements, _ACCUMULATORS[each.accumulator])
        query.config.is_partkernel = each.part_kernel
        query.config.ifm_block = self._input_block(each)
        if each.scales:
            query.const_shape = self._shape(1, 1, 1, each.output.shape[2])
            query.const_memory_area = self._area(self._memories[each.constants_region])
        activation = op.LUT if each.table else None
        return int(
            self._performance.measure_cycle_cost(self._arch, type_, activation, query).op_cycles
        )

    def _input_block(self, each: Operation) -> Any:
        """Return the block of the input that a block of the output needs."""
        height, width, depth = each.inputs[0].shape
        spans = [
            (part - 1) * stride + min(8, (size - 1) * dilation + 1)
            for part, stride, size, dilation in zip(
                each.block[:2], each.strides, each.kernel, each.dilations, strict=True
            )
        ]
        deep = each.kind in ("conv", "reduce sum")
        most = 16 if each.part_kernel or each.inputs[0].item > 1 else 32
        return self._shape(
            *(1, min(height, spans[0]), min(width, spans[1])),
            min(depth, most) if deep else each.block[2],
        )

    def _describe(self, query: Any, name: str, found: FeatureMap) -> None:
        formats = self._tensor.TensorFormat
        setattr(query, f"{name}_shape", self._shape(1, *found.shape))
        setattr(query, f"{name}_bits", found.item * 8)
        setattr(query, f"{name}_format", formats.NHCWB16 if found.bricks else formats.NHWC)
        # A scalar is in the command: it is read from no memory.
        memory = self._memories.get(found.region, "SRAM")
        setattr(query, f"{name}_memory_area", self._area(memory))

    def _area(self, memory: str) -> Any:
        return self._tensor.MemArea[_AREAS[memory]]
