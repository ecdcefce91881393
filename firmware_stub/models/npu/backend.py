"""``BackendDetails`` of the simulated NPU: a partition in, a job and its debug handle map out.

A linear layer and the ReLU behind it become one command, which then stands for two debug handles.
"""

from __future__ import annotations

import struct
from typing import final

import numpy as np
import torch
from executorch.exir.backend.backend_details import BackendDetails, PreprocessResult
from executorch.exir.backend.compile_spec_schema import CompileSpec
from executorch.exir.backend.utils import DelegateMappingBuilder
from executorch.exir.dialects._ops import ops as exir_ops
from torch.export import ExportedProgram

from . import command_format as fmt
from .command_format import Op
from .job import Command, DebugId, Job

LINEAR = exir_ops.edge.aten.linear.default
ADD = exir_ops.edge.aten.add.Tensor
MULTIPLY = exir_ops.edge.aten.mul.Tensor
RELU = exir_ops.edge.aten.relu.default
OPS = {LINEAR: Op.LINEAR, ADD: Op.ADD, MULTIPLY: Op.MULTIPLY, RELU: Op.RELU}


def compile_specs(*, named: bool, lanes: int = fmt.DEFAULT_LANES) -> list[CompileSpec]:
    """The options of a delegate.

    Args:
        named: Debug ids are texts rather than integers.
        lanes: MACs per cycle.
    """
    return [
        CompileSpec("named", bytes([named])),
        CompileSpec("lanes", struct.pack("<I", lanes)),
    ]


def matrix_shape(node: torch.fx.Node) -> tuple[int, int]:
    """Rows and columns of a node's value; a vector is one row."""
    shape = tuple(node.meta["val"].shape)
    return (1,) * (2 - len(shape)) + shape


@final
class SimulatedNpu(BackendDetails):
    """Its name is what the .pte file calls the backend."""

    @staticmethod
    def preprocess(
        edge_program: ExportedProgram, compile_specs: list[CompileSpec]
    ) -> PreprocessResult:
        named = any(spec.key == "named" and spec.value == b"\1" for spec in compile_specs)
        compiler = _Compiler(edge_program, named)
        compiler.compile()
        return PreprocessResult(
            processed_bytes=compiler.job.encode(),
            debug_handle_map=compiler.mapping.get_delegate_mapping(),
        )


class _Compiler:
    def __init__(self, program: ExportedProgram, named: bool) -> None:
        self.program = program
        self.named = named
        self.job = Job()
        self.mapping = DelegateMappingBuilder(generated_identifiers=not named)
        self.operands: dict[torch.fx.Node, int] = {}

    def compile(self) -> None:
        nodes = list(self.program.graph.nodes)
        for node in nodes:
            if node.op == "placeholder":
                self._take_placeholder(node)
        for node in self.program.graph.output_node().args[0]:
            self.operands[node] = self.job.argument(*matrix_shape(node))
        for node in nodes:
            if node.op == "call_function" and not self._is_fused(node):
                self._emit(node)

    def _take_placeholder(self, node: torch.fx.Node) -> None:
        signature = self.program.graph_signature
        parameter = signature.inputs_to_parameters.get(node.name)
        if parameter is None:
            self.operands[node] = self.job.argument(*matrix_shape(node))
        else:
            value = self.program.state_dict[parameter].detach().numpy()
            self.operands[node] = self.job.constant(
                np.ascontiguousarray(value.reshape(matrix_shape(node)))
            )

    def _relu_behind(self, node: torch.fx.Node) -> torch.fx.Node | None:
        """The ReLU that becomes part of a linear layer's command."""
        users = list(node.users)
        alone = node.target == LINEAR and len(users) == 1 and node not in self.operands
        return users[0] if alone and users[0].target == RELU else None

    def _is_fused(self, node: torch.fx.Node) -> bool:
        return node.target == RELU and self._relu_behind(node.args[0]) is node

    def _emit(self, node: torch.fx.Node) -> None:
        relu = self._relu_behind(node)
        nodes = [node] if relu is None else [node, relu]
        inputs = [self.operands[argument] for argument in node.args if argument is not None]
        last = nodes[-1]
        if last not in self.operands:
            self.operands[last] = self.job.scratch(*matrix_shape(last))
        self.job.commands.append(
            Command(
                OPS[node.target],
                self.operands[last],
                *inputs,
                relu=relu is not None,
                debug_id=self._identify(nodes),
            )
        )

    def _identify(self, nodes: list[torch.fx.Node]) -> DebugId:
        if not self.named:
            return self.mapping.insert_delegate_mapping_entry(nodes=nodes)
        ops = "_".join(OPS[node.target].name.lower() for node in nodes)
        return self.mapping.insert_delegate_mapping_entry(
            nodes=nodes, identifier=f"{len(self.job.commands)}:{ops}"
        )
