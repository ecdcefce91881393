"""Advice of the fall-back X-ray, followed: the operator is delegated, and computes the same."""

from __future__ import annotations

import json
import runpy
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("executorch.devtools", reason="needs torch and executorch")

import torch
from executorch.backends.arm.ethosu import EthosUCompileSpec
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import to_edge_transform_and_lower
from torch import nn
from torch.nn import functional

from tests.conftest import ROOT, CommandResult

pytestmark = pytest.mark.oracle

Etharness = Callable[..., CommandResult]
Function = Callable[[torch.Tensor], torch.Tensor]

WRITTEN: Mapping[str, tuple[Function, tuple[int, ...]]] = {
    "softmax over the last dimension": (lambda x: torch.softmax(x, 1), (1, 4, 6, 8)),
    "pow of 2": (lambda x: torch.pow(x, 3), (3, 8)),
    "mean of 4 dimensions": (lambda x: x.mean(1), (3, 8)),
    "mean over 2 and 3": (lambda x: x.mean(1, keepdim=True), (1, 4, 6, 8)),
    "mean keeps dimensions": (lambda x: x.mean((2, 3)), (1, 4, 6, 8)),
    "unsqueeze of the last dimension": (lambda x: x.unsqueeze(1), (3, 8)),
    "slice of step 1": (lambda x: x[:, ::2], (3, 8)),
    "alpha of 1": (lambda x: torch.sub(x, x + 0.5, alpha=2), (3, 8)),
    "avg_pool2d without counted padding": (
        lambda x: functional.avg_pool2d(x, 3, 2, padding=1),
        (1, 4, 8, 8),
    ),
    "constant weights": (lambda x: x @ torch.abs(x).reshape(8, 3), (3, 8)),
    "conversion of types": (lambda x: x * 2, (3, 8)),
    "padding of 0 or more": (lambda x: functional.pad(x, (-1, 1)), (3, 8)),
    "type": (lambda x: x.double() + x.double(), (3, 8)),
    "convolutions of 1 or 2 dimensions": (nn.Conv3d(1, 2, 2), (1, 1, 4, 4, 4)),
    "max_pool2d without gaps": (lambda x: functional.max_pool2d(x, 2, 3), (1, 4, 8, 8)),
    "cat of 2 or more": (lambda x: torch.cat([x, x], 1), (3, 8)),
    "avg_pool2d without ceil_mode": (
        lambda x: functional.avg_pool2d(x, 3, 2, ceil_mode=True),
        (1, 4, 8, 8),
    ),
    "avg_pool2d without divisor": (
        lambda x: functional.avg_pool2d(x, 2, divisor_override=3),
        (1, 4, 8, 8),
    ),
    "batch norm of 2 to 4 dimensions": (nn.BatchNorm3d(2), (1, 2, 3, 3, 3)),
    "max of 4 dimensions": (lambda x: x.max(1)[0], (3, 8)),
}
"""What XNNPACK leaves, by the rule that says so, and the shape of its input."""

OPERATORS: Mapping[str, tuple[Function, tuple[int, ...]]] = {
    "select_copy": (lambda x: x[:, 1], (3, 8)),
    "log_softmax": (lambda x: torch.log_softmax(x, -1), (3, 8)),
    "split_with_sizes_copy": (lambda x: torch.split(x, 2, 1)[0] + torch.split(x, 2, 1)[3], (3, 8)),
    "squeeze_copy": (lambda x: torch.relu(x).squeeze(1), (3, 1, 8)),
    "argmax": (lambda x: x.argmax(1), (3, 8)),
    "elu": (functional.elu, (3, 8)),
}
"""What XNNPACK's partitioner has no rule for."""

ON_U55: Mapping[str, tuple[Function, tuple[int, ...]]] = {
    "strides of 3": (nn.Conv2d(3, 4, 3, stride=4, padding=1), (1, 3, 16, 16)),
    "kernels of 64": (nn.Conv2d(1, 2, (1, 65)), (1, 1, 2, 70)),
    "convolutions of 2 dimensions": (nn.Conv3d(1, 2, 2), (1, 1, 4, 4, 4)),
    "transposed strides of 2": (nn.ConvTranspose2d(3, 4, 3, stride=3), (1, 3, 4, 4)),
    "pooling by 3": (lambda x: functional.avg_pool2d(x, 4), (1, 4, 16, 16)),
    "pooling of one": (lambda x: functional.avg_pool2d(x, 2), (2, 4, 4, 4)),
    "padded windows of 8": (
        lambda x: functional.avg_pool2d(x, 9, 1, padding=2, count_include_pad=False),
        (1, 2, 16, 16),
    ),
    "resize by 2, 4 or 8": (lambda x: functional.interpolate(x, scale_factor=3), (1, 2, 4, 4)),
    "flip of rows": (lambda x: x.flip(3), (1, 3, 4, 4)),
    "unfold of 16": (lambda x: x.unfold(1, 2, 1), (2, 30)),
    "not on Ethos-U55": (lambda x: torch.where(x > 0.5, x, -x), (3, 8)),
}
"""What Ethos-U55 leaves and Ethos-U85 takes, but for unfold, which no quantizer annotates."""

ON_ALL: Mapping[str, tuple[Function, tuple[int, ...]]] = {
    "transposed without dilation": (nn.ConvTranspose2d(3, 4, 3, dilation=2), (1, 3, 4, 4)),
    "transposed in one group": (
        nn.ConvTranspose2d(4, 4, 3, stride=2, groups=2),
        (1, 4, 4, 4),
    ),
    "transposed in 2 dimensions": (nn.ConvTranspose1d(3, 4, 3), (1, 3, 8)),
    "dilation or stride": (lambda x: functional.max_pool2d(x, 2, 2, dilation=2), (1, 4, 8, 8)),
    "argmax in int32": (lambda x: x.argmax(1), (3, 8)),
    "rank": (torch.relu, (1, 1, 2, 1, 2, 1, 2)),
    "operator": (lambda x: torch.topk(x, 3, 1)[0], (3, 8)),
    "conversion of types": (lambda x: x.to(torch.int32), (3, 8)),
}
"""What every Ethos-U leaves."""

TAKEN: tuple[tuple[Function, tuple[int, ...]], ...] = (
    (nn.Conv2d(3, 4, 3, stride=4), (1, 3, 16, 16)),
    (nn.Conv2d(1, 2, (65, 1)), (1, 1, 70, 2)),
    (nn.ConvTranspose2d(3, 4, 3, stride=2), (1, 3, 4, 4)),
    (lambda x: functional.max_pool2d(x, 4), (1, 4, 16, 16)),
    (lambda x: functional.max_pool2d(x, 2), (2, 4, 4, 4)),
    (lambda x: x.flip(2), (1, 3, 4, 4)),
)
"""What is beside these limits, and every Ethos-U takes."""

BORDER = {"beside the CPU", "integers at the border"}

FOLLOWED = (
    *("softmax over the last dimension", "pow of 2", "mean of 4 dimensions", "mean over 2 and 3"),
    *("mean keeps dimensions", "unsqueeze of the last dimension", "slice of step 1"),
    *("select_copy", "log_softmax", "squeeze_copy"),
)
"""Advice that is an expression of ``x``."""


class Each(nn.Module):
    """Every function of an input of its own."""

    def __init__(self, functions: list[Function]) -> None:
        super().__init__()
        self.functions = functions
        self.modules_of_functions = nn.ModuleList(f for f in functions if isinstance(f, nn.Module))

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(f(x) for f, x in zip(self.functions, inputs, strict=True))


def xray(
    functions: list[Function], inputs: tuple[torch.Tensor, ...], path: Path, etharness: Etharness
) -> list[dict[str, Any]]:
    """The operators outside of XNNPACK in a program of functions."""
    exported = torch.export.export(Each(functions).eval(), inputs)
    lowered = to_edge_transform_and_lower(exported, partitioner=[XnnpackPartitioner()])
    path.write_bytes(lowered.to_executorch().buffer)
    code, out, err = etharness("inspect", str(path), "--json")
    assert code == 0, err
    [method] = json.loads(out)["methods"]
    found: list[dict[str, Any]] = method["sections"]["fallback"]["operators"]
    return found


def test_every_rule_is_that_of_a_real_export_and_advice_is_delegated(
    tmp_path: Path, etharness: Etharness
) -> None:
    torch.manual_seed(0)
    cases = {**WRITTEN, **OPERATORS}
    functions = [function for function, _ in cases.values()]
    inputs = tuple(torch.rand(shape) for _, shape in cases.values())
    found = xray(functions, inputs, tmp_path / "written.pte", etharness)
    rules = {item["rule"]: item for item in found if item["rule"] != "operator"}
    plain = {item["why"].rpartition(" ")[2].strip("_"): item for item in found}
    assert {*rules} - {""} == {*WRITTEN}
    assert {*OPERATORS} <= {*plain}
    slices = "take the parts with slices: x[:, :2], x[:, 2:4], ..., x[:, 6:]"
    assert plain["split_with_sizes_copy"]["attempt"] == slices

    advised: dict[str, Function] = {}
    for name in FOLLOWED:
        text = (rules | plain)[name]["attempt"].partition(" in place of")[0]
        advised[name] = eval(f"lambda x: {text}", {"torch": torch})
    chosen = tuple(x for name, x in zip(cases, inputs, strict=True) if name in advised)
    ordered = [name for name in cases if name in advised]
    for name, x in zip(ordered, chosen, strict=True):
        torch.testing.assert_close(advised[name](x), cases[name][0](x))
    outside = xray([advised[name] for name in ordered], chosen, tmp_path / "advised.pte", etharness)
    assert [(item["operator"], item["why"]) for item in outside] == []


@pytest.mark.parametrize(
    ("target", "left"),
    [("ethos-u55-128", {**ON_U55, **ON_ALL}), ("ethos-u85-256", ON_ALL)],
)
def test_every_rule_of_ethos_u_is_that_of_its_partitioner(
    target: str,
    left: Mapping[str, tuple[Function, tuple[int, ...]]],
    tmp_path: Path,
    etharness: Etharness,
) -> None:
    """Each operator of `left` is outside for its rule, and nothing else is."""
    torch.manual_seed(0)
    cases = [*ON_U55.values(), *ON_ALL.values(), *TAKEN]
    lower = runpy.run_path(str(ROOT / "firmware_stub/models/export_ethos_u.py"))["lower"]
    inputs = tuple(torch.rand(shape) for _, shape in cases)
    path = tmp_path / "all.pte"
    path.write_bytes(
        lower(Each([function for function, _ in cases]), inputs, EthosUCompileSpec(target))
    )
    code, out, err = etharness("inspect", str(path), "--json")
    assert code == 0, err
    [method] = json.loads(out)["methods"]
    found = method["sections"]["fallback"]["operators"]
    rules = {item["rule"] for item in found} - BORDER
    assert rules - {""} == {*left}
    unknown = {item["operator"] for item in found if not item["rule"]}
    assert unknown == (set() if target.startswith("ethos-u55") else {"aten::unfold_copy.out"})
    named = [item["why"] for item in found if "Ethos-U" in item["why"]]
    assert any(f"Ethos-{target[6:9].upper()}" in why for why in named)
    assert not any("U55" in why for why in named if "u85" in target)
    code, text, _ = etharness("inspect", str(path), "--board", "native")
    assert code == 1
    assert "Operators outside of delegates" in text


def test_a_saving_is_about_what_was_predicted(tmp_path: Path) -> None:
    from benchmarks.fallback import NETWORKS, saving

    [network] = [each for each in NETWORKS if each.name.startswith("avg_pool2d")]
    found = saving(network, tmp_path, runs=20, turns=2)
    # `make measure` states it for five; here other processes may take the core.
    assert found.outside == 0
    assert found.predicted > 0.5 * found.before
    assert abs(found.error) < 0.4, found
