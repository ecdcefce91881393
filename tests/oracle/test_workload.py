"""Multiply-accumulates are those that PyTorch's flop counter states."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable

import pytest

pytest.importorskip("torch", reason="needs torch")

import torch
from torch.utils.flop_counter import FlopCounterMode

from tests.conftest import ROOT, CommandResult

pytestmark = pytest.mark.oracle


def test_macs_are_half_of_torchs_flops(etharness: Callable[..., CommandResult]) -> None:
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
        found = json.loads(etharness("inspect", f"{network.name}_f32", "--json").out)
        assert 2 * found["methods"][0]["macs"] == counter.get_total_flops()
