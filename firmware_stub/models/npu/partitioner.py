"""Which nodes of a program the simulated NPU takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import torch
from executorch.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult
from executorch.exir.backend.utils import tag_constant_data
from torch.export import ExportedProgram
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase

from .backend import ADD, LINEAR, MULTIPLY, OPS, SimulatedNpu, compile_specs


def _is_matrix(node: object) -> bool:
    if not isinstance(node, torch.fx.Node):
        return False
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.dtype == torch.float32 and value.dim() <= 2


class _Supported(OperatorSupportBase):
    def __init__(self, program: ExportedProgram) -> None:
        self.parameters = program.graph_signature.inputs_to_parameters

    def is_node_supported(self, _submodules: Any, node: torch.fx.Node) -> bool:
        if node.op != "call_function" or node.target not in OPS or not self.fits(node):
            return False
        if node.target in (ADD, MULTIPLY):  # the machine does not broadcast
            return all(t.meta["val"].shape == node.meta["val"].shape for t in node.args)
        return node.target != LINEAR or self.has_constant_weights(node)

    def fits(self, node: torch.fx.Node) -> bool:
        tensors = [node, *(argument for argument in node.args if argument is not None)]
        return not node.kwargs and all(_is_matrix(tensor) for tensor in tensors)

    def has_constant_weights(self, node: torch.fx.Node) -> bool:
        return all(weights is None or weights.name in self.parameters for weights in node.args[1:])


@final
class NpuPartitioner(Partitioner):
    """Takes linear layers with constant weights, ReLU, and sums and products of equal shapes.

    Args:
        named: Debug ids are texts rather than integers.
    """

    def __init__(self, *, named: bool) -> None:
        self.delegation = DelegationSpec(SimulatedNpu.__name__, compile_specs(named=named))

    def ops_to_not_decompose(
        self, ep: ExportedProgram
    ) -> tuple[list[torch._ops.OpOverload], Callable[[torch.fx.Node], bool] | None]:
        supported = _Supported(ep)

        def keep(node: torch.fx.Node) -> bool:
            return supported.fits(node) and supported.has_constant_weights(node)

        return [torch.ops.aten.linear.default], keep

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        finder = CapabilityBasedPartitioner(
            exported_program.graph_module,
            _Supported(exported_program),
            allows_single_node_partition=True,
        )
        tags = {}
        for partition in finder.propose_partitions():
            tag = f"npu_{partition.id}"
            tags[tag] = self.delegation
            for node in partition.nodes:
                node.meta["delegation_tag"] = tag
        tag_constant_data(exported_program)
        return PartitionResult(tagged_exported_program=exported_program, partition_tags=tags)
