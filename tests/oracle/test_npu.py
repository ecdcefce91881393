"""The example backend against ExecuTorch: its export, its Inspector, PyTorch's numbers."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("executorch.devtools", reason="needs torch and executorch")

import torch
from executorch.devtools import Inspector
from executorch.devtools.inspector import Event, TimeScale
from executorch.exir import to_edge_transform_and_lower

import harness
from firmware_stub.models.npu.export import EXAMPLES, Example, build, export
from firmware_stub.models.npu.job import decode, execute
from firmware_stub.models.npu.partitioner import NpuPartitioner
from harness import Trace, operator_statistics
from tests.conftest import FIXTURES, MODELS

pytestmark = pytest.mark.oracle
of_examples = pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
BOARD = "qemu-mps2-an385"
RUNS = 3


def jobs(program: bytes) -> list[bytes]:
    """The jobs in a .pte file, one after the other, with what follows them."""
    return [b"ENPU" + part for part in program.split(b"ENPU")[1:]]


def instructions(manager: Any) -> list[tuple[str, list[int]]]:
    plan = manager.executorch_program.execution_plan[0]
    return [
        (type(instruction.instr_args).__name__, list(instruction.instr_args.args))
        for instruction in plan.chains[0].instructions
    ]


@of_examples
def test_the_script_makes_the_committed_program(example: Example) -> None:
    manager = export(example)
    committed = (MODELS / f"{example.name}.pte").read_bytes()
    kinds = [kind for kind, _ in instructions(manager)]
    assert kinds == ["DelegateCall", "KernelCall"] * 2
    made = [decode(job) for job in jobs(manager.buffer)]
    kept = [decode(job) for job in jobs(committed)]
    assert len(kept) == 2
    for ours, theirs in zip(made, kept, strict=True):
        assert ours.commands == theirs.commands
        assert ours.operands == theirs.operands


@of_examples
def test_the_fixture_is_what_pytorch_computes(example: Example) -> None:
    fixture = np.load(FIXTURES / f"{example.name}.npz")
    network = build(example)
    for value, expected in zip(fixture["inputs"], fixture["outputs"], strict=True):
        computed = network(torch.from_numpy(value)).numpy()
        np.testing.assert_allclose(computed, expected, rtol=0, atol=1e-6)


def test_a_job_computes_what_pytorch_does() -> None:
    class Whole(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = torch.nn.Linear(7, 5), torch.nn.Linear(5, 7, bias=False)

        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            hidden = torch.relu(self.first(x))
            return self.last(hidden + torch.relu(hidden)) * y + x

    torch.manual_seed(5)
    network, sample = Whole().eval(), (torch.randn(3, 7), torch.randn(3, 7))
    lowered = to_edge_transform_and_lower(
        torch.export.export(network, sample), partitioner=[NpuPartitioner(named=True)]
    ).to_executorch()
    assert [kind for kind, _ in instructions(lowered)] == ["DelegateCall"]
    (job,) = [decode(data) for data in jobs(lowered.buffer)]
    (found,) = execute(job, [value.numpy() for value in sample])
    np.testing.assert_allclose(found, network(*sample).detach().numpy(), rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    "forward",
    [
        lambda x: x + x[:1],  # broadcasts
        lambda x: x.to(torch.int32) + x.to(torch.int32),
        lambda x: x[None] * x[None],  # three dimensions
        lambda x: torch.nn.functional.linear(x, x),  # weights that are not constant
        lambda x: torch.add(x, x, alpha=2),
    ],
)
def test_what_the_machine_cannot_do_stays_on_the_cpu(forward: object) -> None:
    class Network(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return forward(x)

    lowered = to_edge_transform_and_lower(
        torch.export.export(Network(), (torch.randn(3, 3),)),
        partitioner=[NpuPartitioner(named=False)],
    ).to_executorch()
    assert {kind for kind, _ in instructions(lowered)} == {"KernelCall"}


def inspect(example: Example, directory: Path) -> tuple[Trace, list[Event]]:
    """Run on a board, and open the trace with the committed ETRecord."""
    trace = harness.run(
        MODELS / f"{example.name}.pte", board=BOARD, runs=RUNS, output=directory / "run"
    ).trace
    npu_hz = float(trace.clocks[1].hz)
    inspector = Inspector(
        etdump_path=str(directory / "run" / "trace.etdp"),
        etrecord=str(MODELS / f"{example.name}.etrecord"),
        source_time_scale=TimeScale.NS,
        target_time_scale=TimeScale.NS,
        delegate_time_scale_converter=lambda _, ticks: ticks * 1e9 / npu_hz,
        delegate_metadata_parser=lambda all_runs: [struct.unpack("<II", one) for one in all_runs],
    )
    (block,) = [block for block in inspector.event_blocks if block.name == "Execute"]
    return trace, block.events


HANDLES = {
    "npu_int": [
        (0, [1, 2], ["aten.linear.default", "aten.relu.default"]),
        (1, [3], ["aten.linear.default"]),
        (0, [5], ["aten.mul.Tensor"]),
        (1, [6], ["aten.add.Tensor"]),
        (2, [7], ["aten.linear.default"]),
    ],
    "npu_str": [
        ("0:linear", [1], ["aten.linear.default"]),
        ("0:linear", [3], ["aten.linear.default"]),
        ("1:add", [4], ["aten.add.Tensor"]),
        ("2:relu", [5], ["aten.relu.default"]),
    ],
}


def delegated(events: list[Event]) -> Iterator[Event]:
    return (event for event in events if event.is_delegated_op)


@of_examples
def test_inspector_maps_events_of_the_npu_to_operators(example: Example, tmp_path: Path) -> None:
    _, events = inspect(example, tmp_path)
    found = [
        (event.delegate_debug_identifier, sorted(event.debug_handles), event.op_types)
        for event in delegated(events)
    ]
    assert found == HANDLES[example.name]
    assert {event.delegate_backend_name for event in delegated(events)} == {"SimulatedNpu"}


@of_examples
def test_inspector_shows_the_times_that_we_show(example: Example, tmp_path: Path) -> None:
    trace, events = inspect(example, tmp_path)
    ours = [op for op in operator_statistics(trace, "Execute") if op.clock is trace.clocks[1]]
    theirs = list(delegated(events))
    assert len(ours) == len(theirs) == len(HANDLES[example.name])
    for op, event in zip(ours, theirs, strict=True):
        # Inspector converts start and end apart, in floats; a counter near its wrap costs digits.
        np.testing.assert_allclose(event.perf_data.raw, [op.ns.avg] * RUNS, rtol=1e-6)
        jobs_metadata = [trace.metadata_of(int(row)) for row in op.rows]
        shown = [struct.pack("<II", *pair) for pair in event.delegate_debug_metadatas]
        assert shown == jobs_metadata
