"""Forty seeded changes of exports of five networks: is the right cause first?

    python -m benchmarks.why_study [--only NAME] [--keep FOLDER]    # needs torch and executorch

Each change is one edit of a network, its quantization or its lowering, through ExecuTorch's own
flows. ``etharness compare`` sees both files, and nothing else. It is right if its first cause is of
the expected kind and its sentence names what was edited. Every program is also compared with
itself: there must be no cause. Writes the table of docs/why.md.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import random
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import nn

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/why.md"
sys.path.insert(0, str(ROOT / "firmware_stub/models"))

from executorch.backends.cortex_m.target_config import CortexM, CortexMTargetConfig  # noqa: E402
from executorch.backends.xnnpack.partition.config import ALL_PARTITIONER_CONFIGS  # noqa: E402
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner  # noqa: E402
from executorch.exir import EdgeCompileConfig, ExecutorchBackendConfig, to_edge_transform_and_lower  # noqa: E402
from executorch.exir.memory_planning import MemoryPlanningAlgorithmSuite, naive  # noqa: E402
from executorch.exir.passes import MemoryPlanningPass  # noqa: E402
from torch.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval  # noqa: E402

from benchmarks.verdict_counts import write_section  # noqa: E402
from harness.extensions.why.explain import explain_programs  # noqa: E402
from harness.records.explanation import ProgramCause  # noqa: E402

# Scripts beside the models, which are no package.
export: Any = importlib.import_module("export")
networks: Any = importlib.import_module("networks")
pt2e: Any = importlib.import_module("torchao.quantization.pt2e.quantize_pt2e")


class Mixer(nn.Module):
    """Attention, a layer norm and two linear layers, as in a small transformer."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.queries, self.keys, self.values = (nn.Linear(width, width) for _ in range(3))
        self.norm = nn.LayerNorm(width)
        self.up, self.classifier = nn.Linear(width, 2 * width), nn.Linear(2 * width, 4)
        self.activation = nn.ReLU()

    def features(self, x: torch.Tensor) -> torch.Tensor:
        """What the classifier takes."""
        scores = torch.softmax(self.queries(x) @ self.keys(x).transpose(1, 2), dim=2)
        y = self.norm(x + scores @ self.values(x))
        return self.activation(self.up(y)).mean(dim=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Probabilities of four classes."""
        return torch.softmax(self.classifier(self.features(x)), dim=1)


NETWORKS = {
    "kws": networks.Network("kws", lambda: networks.DsCnn(16), (1, 1, 49, 10)),
    "ic": networks.Network("ic", networks.ResNet8, (1, 3, 32, 32)),
    "ad": networks.Network("ad", networks.Autoencoder, (1, 640)),
    "vww": networks.Network("vww", networks.MobileNet, (1, 3, 32, 32)),
    "mixer": networks.Network("mixer", Mixer, (1, 8, 16)),
}


@dataclass(frozen=True)
class Recipe:
    """How a network becomes a program.

    Attributes:
        flow: ``float``, ``xnnpack`` or ``int8``.
        edit: Name of an edit of the network before it is exported.
        seed: Of the edit.
        fold: Whether batch norms are folded before the export.
        half: Whether it computes in float16.
        last: Whether images are channels last (always in ``int8``, unless ``last`` is False).
        scale: What the inputs of calibration are multiplied by.
        per_tensor: Whether weights have one scale.
        core: The core of an int8 export.
        without: Operators that XNNPACK's partitioner leaves, by the names of its rules.
        plan: The algorithm of the memory plan: ``greedy`` or ``naive``.
        shape: Shape of the input; () for that of the network.
        older: As older releases export: views are copied, and dim orders have no operators.
    """

    flow: str = "float"
    edit: str = ""
    seed: int = 0
    fold: bool = True
    half: bool = False
    last: bool | None = None
    scale: float = 1.0
    per_tensor: bool = False
    core: str = "M4"
    without: tuple[str, ...] = ()
    plan: str = "greedy"
    shape: tuple[int, ...] = ()
    older: bool = False


@dataclass(frozen=True)
class Change:
    """A change of an export, and what the first cause has to say.

    Attributes:
        network: The network.
        name: What is changed, for people.
        before: The first recipe.
        after: The second recipe.
        kind: Kind of the right cause.
        says: A regular expression that its sentence matches.
    """

    network: str
    name: str
    before: Recipe
    after: Recipe
    kind: str
    says: str


FLOAT, XNNPACK, INT8 = Recipe(), Recipe("xnnpack"), Recipe("int8")


def changes() -> list[Change]:
    """The forty changes."""
    made: list[Change] = []

    def add(
        networks: str, name: str, before: Recipe, after: dict[str, Any], kind: str, says: str
    ) -> None:
        for network in networks.split():
            seeded = replace(before, **after)
            if seeded.edit:
                seeded = replace(seeded, seed=len(made) + 1)
            made.append(Change(network, name, before, seeded, kind, says))

    add(
        "kws ad",
        "lowered to XNNPACK",
        FLOAT,
        {"flow": "xnnpack"},
        "delegate",
        "moved from the CPU to XnnpackBackend",
    )
    add(
        "mixer",
        "no longer lowered to XNNPACK",
        XNNPACK,
        {"flow": "float"},
        "delegate",
        "moved from XnnpackBackend to the CPU",
    )
    add(
        "kws mixer",
        "XNNPACK leaves softmax",
        XNNPACK,
        {"without": ("SoftmaxConfig",)},
        "delegate",
        "softmax.* moved from XnnpackBackend",
    )
    add("kws ic", "images channels last", FLOAT, {"last": True}, "layout", "channels_last")
    add(
        "ic vww",
        "int8 images not channels last",
        INT8,
        {"last": False},
        "layout",
        "channels_last|contiguous|copies|transpose|permute",
    )
    add(
        "kws ic ad",
        "calibrated with larger inputs",
        INT8,
        {"scale": 3.0},
        "scale",
        "scale .*quantize_per_tensor #0",
    )
    add(
        "kws vww ad",
        "batch norms not folded",
        FLOAT,
        {"fold": False},
        "fusion",
        "batch_norm.* no longer fused",
    )
    add("ic mixer", "computes in float16", FLOAT, {"half": True}, "dtype", "float16|Half")
    add("kws ad", "quantized", FLOAT, {"flow": "int8"}, "dtype", "int8 instead of float32")
    add("ic", "not quantized", INT8, {"flow": "float"}, "dtype", "float32 instead of int8")
    add("kws ic", "padding of a convolution", FLOAT, {"edit": "padding"}, "argument", "padding")
    add("vww", "padding of a convolution", INT8, {"edit": "padding"}, "argument", "padding")
    add("kws vww", "stride of a convolution", FLOAT, {"edit": "stride"}, "argument", "stride")
    add(
        "kws ic",
        "weights scaled per tensor",
        INT8,
        {"per_tensor": True},
        "quantizer",
        "per tensor instead of per channel",
    )
    add("kws ad", "for another core", INT8, {"core": "M55"}, "core", "Cortex-M55")
    add(
        "vww mixer",
        "one layer trained again",
        FLOAT,
        {"edit": "weights"},
        "weights",
        "weight|constant",
    )
    add(
        "kws ic", "a layer with more channels", FLOAT, {"edit": "wider"}, "shape", "weight|constant"
    )
    add(
        "kws mixer",
        "relu became another activation",
        FLOAT,
        {"edit": "activation"},
        "operator",
        "gelu|hardtanh|clamp|sigmoid|mul",
    )
    add("ic ad", "naive memory plan", FLOAT, {"plan": "naive"}, "plan", "memory plan takes")
    add("kws", "longer input", FLOAT, {"shape": (1, 1, 98, 10)}, "shape", "the input is")
    add(
        "ic",
        "an exporter without dim orders",
        replace(FLOAT, last=True),
        {"older": True},
        "layout",
        "to_dim_order_copy.* vanished",
    )
    add("mixer", "an exporter that copies views", FLOAT, {"older": True}, "operator", "view")
    return made


@cache
def exported(network: str, recipe: Recipe) -> bytes:
    """Export a network by a recipe."""
    torch.set_num_threads(1)
    chosen = NETWORKS[network]
    if recipe.shape:
        chosen = replace(chosen, input_shape=recipe.shape)
    model = networks.build(chosen)
    if recipe.fold and recipe.flow != "int8":
        _fold(model)
    if recipe.edit:
        EDITS[recipe.edit](model, random.Random(recipe.seed))
    if recipe.flow == "int8":
        return _int8(model, chosen, recipe)
    torch.manual_seed(1)
    sample = torch.randn(chosen.input_shape)
    if recipe.last:
        model, sample = model.to(memory_format=torch.channels_last), export.channels_last(sample)
    if recipe.half:
        model, sample = model.half(), sample.half()
    partitioners = []
    if recipe.flow == "xnnpack":
        configs = [one for one in ALL_PARTITIONER_CONFIGS if one.__name__ not in recipe.without]
        partitioners = [XnnpackPartitioner(configs=configs)]
    edge = to_edge_transform_and_lower(
        torch.export.export(model, (sample,)),
        partitioner=partitioners,
        compile_config=EdgeCompileConfig(_check_ir_validity=False, _skip_dim_order=recipe.older),
    )
    return bytes(edge.to_executorch(_plan(recipe)).buffer)


def _plan(recipe: Recipe) -> ExecutorchBackendConfig:
    suite = MemoryPlanningAlgorithmSuite([naive]) if recipe.plan == "naive" else None
    return ExecutorchBackendConfig(
        memory_planning_pass=MemoryPlanningPass(suite), remove_view_copy=not recipe.older
    )


def _int8(model: nn.Module, network: Any, recipe: Recipe) -> bytes:
    from executorch.backends.cortex_m.quantizer import quantizer

    kept = quantizer.INT8_PER_CHANNEL_CONFIG
    if recipe.per_tensor:
        quantizer.INT8_PER_CHANNEL_CONFIG = quantizer.INT8_PER_TENSOR_CONFIG
    torch.manual_seed(1)
    try:
        if recipe.last is False:
            quantized = _quantize_as_is(model, network)
        else:
            quantized = export.quantize(
                model, lambda: torch.randn(network.input_shape) * recipe.scale
            )
    finally:
        quantizer.INT8_PER_CHANNEL_CONFIG = kept
    edge = export.lower_int8(quantized, CortexMTargetConfig(cpu=CortexM[recipe.core]))
    return bytes(edge.to_executorch().buffer)


def _quantize_as_is(model: nn.Module, network: Any) -> Any:
    """Quantize a network whose inputs are contiguous: it makes them channels last itself."""

    class Contiguous(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = model

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.inner(x.contiguous(memory_format=torch.channels_last))

    from executorch.backends.cortex_m.quantizer.quantizer import CortexMQuantizer

    inner = Contiguous().eval().to(memory_format=torch.channels_last)
    sample = torch.randn(network.input_shape)
    prepared = pt2e.prepare_pt2e(
        torch.export.export(inner, (sample,)).module(check_guards=False), CortexMQuantizer()
    )
    for _ in range(32):
        prepared(torch.randn(network.input_shape))
    return torch.export.export(pt2e.convert_pt2e(prepared), (sample,))


def _fold(model: nn.Module) -> None:
    """Fold batch norms into the layers before them."""
    for module in model.modules():
        if not isinstance(module, nn.Sequential):
            continue
        for place, (first, second) in enumerate(itertools.pairwise(module)):
            if isinstance(second, nn.BatchNorm2d):
                module[place] = fuse_conv_bn_eval(first, second)
            elif isinstance(second, nn.BatchNorm1d):
                module[place] = fuse_linear_bn_eval(first, second)
            else:
                continue
            module[place + 1] = nn.Identity()


def _convolutions(model: nn.Module) -> list[nn.Conv2d]:
    return [one for one in model.modules() if isinstance(one, nn.Conv2d) and one.kernel_size[0] > 1]


def _padding(model: nn.Module, chance: random.Random) -> None:
    # The pooling of the residual network takes one size.
    one = chance.choice(_convolutions(model)[: 1 if isinstance(model, networks.ResNet8) else 3])
    one.padding = tuple(size + 1 for size in one.padding)


def _stride(model: nn.Module, _: random.Random) -> None:
    candidates = [one for one in _convolutions(model)[:1] if one.stride == (1, 1)]
    one = candidates[0] if candidates else _convolutions(model)[0]
    one.stride = (1, 1) if one.stride == (2, 2) else (2, 2)


def _weights(model: nn.Module, chance: random.Random) -> None:
    layers = [one for one in model.modules() if isinstance(one, nn.Conv2d | nn.Linear)]
    with torch.no_grad():
        chance.choice(layers[:-1]).weight.mul_(1.01)


def _activation(model: nn.Module, chance: random.Random) -> None:
    places = [
        (parent, name)
        for parent in model.modules()
        for name, child in parent.named_children()
        if isinstance(child, nn.ReLU)
    ]
    parent, name = chance.choice(places)
    setattr(parent, name, chance.choice([nn.GELU(), nn.Hardtanh(), nn.ReLU6()]))


def _wider(model: nn.Module, _: random.Random) -> None:
    """Give a convolution 8 more channels, and what follows it 8 more inputs."""
    pairs = []
    convolutions = [one for one in model.modules() if isinstance(one, nn.Conv2d)]
    for place, first in enumerate(convolutions):
        behind = convolutions[place + 1 :]
        if (
            behind
            and behind[0].groups == 1
            and behind[0].in_channels == first.out_channels
            and first.groups == 1
        ):
            pairs.append((first, behind[0]))
    if not pairs:
        # Depthwise layers between: widen the layer before, the depthwise one and the next.
        first, middle, last = convolutions[0], convolutions[1], convolutions[2]
        _grow(first, outputs=8)
        middle.groups += 8
        middle.in_channels += 8
        _grow(middle, outputs=8)
        _grow(last, inputs=8)
        return
    first, last = pairs[0] if len(pairs) == 1 else pairs[1]
    _grow(first, outputs=8)
    _grow(last, inputs=8)


def _grow(layer: nn.Conv2d, inputs: int = 0, outputs: int = 0) -> None:
    weight = layer.weight
    more = torch.randn(weight.shape[0] + outputs, weight.shape[1] + inputs, *weight.shape[2:]) * 0.1
    layer.weight = nn.Parameter(more, requires_grad=False)
    layer.out_channels, layer.in_channels = more.shape[0], more.shape[1] * layer.groups
    if layer.bias is not None and outputs:
        layer.bias = nn.Parameter(torch.zeros(more.shape[0]), requires_grad=False)


EDITS: dict[str, Callable[[nn.Module, random.Random], None]] = {
    "padding": _padding,
    "stride": _stride,
    "weights": _weights,
    "activation": _activation,
    "wider": _wider,
}


def causes(before: bytes, after: bytes) -> list[ProgramCause]:
    """What ``etharness compare`` says of two programs."""
    return [cause for method in explain_programs(before, after) for cause in method.causes]


def is_right(change: Change, found: Sequence[ProgramCause]) -> bool:
    """Return whether the first cause is the change that was made."""
    return (
        bool(found)
        and found[0].kind == change.kind
        and bool(re.search(change.says, found[0].sentence))
    )


def study(folder: Path, chosen: Sequence[Change]) -> Iterator[tuple[Change, list[ProgramCause]]]:
    """Export both programs of each change, and yield what is said of them."""
    for number, change in enumerate(chosen):
        programs = [exported(change.network, recipe) for recipe in (change.before, change.after)]
        for name, program in zip(("before", "after"), programs, strict=True):
            (folder / f"{number:02}_{name}.pte").write_bytes(program)
        yield change, causes(*programs)


def table(results: Sequence[tuple[Change, list[ProgramCause]]]) -> Iterator[str]:
    """The lines of the table of docs/why.md."""
    yield "| network | change | right first | first cause |"
    yield "|---|---|---|---|"
    for change, found in results:
        right = "yes" if is_right(change, found) else "NO"
        said = found[0].sentence if found else "no cause"
        flow = change.before.flow
        yield f"| {change.network} | {change.name} ({flow}) | {right} | {said} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="changes whose network and name match this")
    parser.add_argument("--keep", type=Path, help="where the programs go")
    arguments = parser.parse_args()
    named = [(one, f"{one.network}: {one.name} {one.before.flow}") for one in changes()]
    chosen = [one for one, name in named if re.search(arguments.only, name)]
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        results = [*study(folder, chosen)]
    lines = [*table(results)]
    right = sum(is_right(*result) for result in results)
    programs = {(one.network, recipe) for one in chosen for recipe in (one.before, one.after)}
    equal = sum(not causes(exported(*one), exported(*one)) for one in programs)
    lines += ["", f"The right cause was first in {right} of {len(results)} changes. "]
    lines[-1] += f"{equal} of {len(programs)} programs had no cause beside themselves."
    print("\n".join(lines))
    if not arguments.only:
        write_section("benchmarks/why_study.py", lines, PAGE)


if __name__ == "__main__":
    main()
