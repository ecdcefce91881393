"""Multiply-accumulates are those that PyTorch's flop counter states."""

from __future__ import annotations

import importlib.util
import sys

import pytest

pytest.importorskip("torch", reason="needs torch")

import torch
from torch.utils.flop_counter import FlopCounterMode

from harness import packaged_models, read_program
from harness.analyze.workload import method_steps
from tests.conftest import ROOT

pytestmark = pytest.mark.oracle


def test_macs_are_half_of_torchs_flops() -> None:
    path = ROOT / "firmware_stub/models/networks.py"
    spec = importlib.util.spec_from_file_location("networks", path)
    assert spec is not None
    assert spec.loader is not None
    networks = importlib.util.module_from_spec(spec)
    sys.modules["networks"] = networks
    spec.loader.exec_module(networks)
    for network in networks.NETWORKS:
        model = networks.build(network)
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            model(torch.zeros(network.input_shape))
        program = read_program(packaged_models()[f"{network.name}_f32"].read_bytes())
        steps = method_steps(program.methods[0])
        assert 2 * sum(step.macs or 0 for step in steps) == counter.get_total_flops()
