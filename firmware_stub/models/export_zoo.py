"""Export the zoo: small networks of many architectures, through each of ExecuTorch's flows.

pip install torch==2.13.0 executorch==1.5.1 tosa-tools
cd firmware_stub/models
python export_zoo.py                  # list the networks and their operators
python export_zoo.py --models DIR     # also write the .pte files and their inputs there
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import executorch.exir.passes._quant_patterns_and_replacements
import executorch.kernels.quantized  # noqa: F401  registers their variants with an output
import numpy as np
import torch
import zoo
import zoo_signals as signals
from chip_reference import ChipReference
from executorch.backends.cortex_m.target_config import CortexM, CortexMTargetConfig
from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
    XNNPACKQuantizer,
    get_symmetric_quantization_config,
)
from executorch.exir import EdgeCompileConfig, EdgeProgramManager, to_edge
from executorch.exir.passes.quant_fusion_pass import QuantFusionPass
from export import channels_last, lower_int8, quantize
from networks import SEED
from torch import nn
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

Tensors = tuple[torch.Tensor, ...]
Draw = Callable[[torch.Generator], Tensors]
Reference = Callable[..., object]

ATEN = torch.ops.aten
PRESERVED = [
    ATEN.glu.default,
    ATEN.logit.default,
    ATEN.pixel_unshuffle.default,
    *(getattr(ATEN, f"reflection_pad{count}d").default for count in (1, 2, 3)),
    *(getattr(ATEN, f"replication_pad{count}d").default for count in (1, 2, 3)),
]
UNCHECKED = EdgeCompileConfig(_check_ir_validity=False)
FLOAT_CONFIGS = {
    "float32": UNCHECKED,
    "preserved": EdgeCompileConfig(_check_ir_validity=False, preserve_ops=PRESERVED),
}
CORES = {"m0": CortexM.M0, "m4": CortexM.M4, "m55": CortexM.M55}


@dataclass(frozen=True)
class Member:
    """A network of the zoo.

    Attributes:
        make: The network in its random initial state.
        draw: Inputs from a generator of random numbers.
        flow: How it is exported: "float32"; "preserved" (keeps the operators in `PRESERVED`);
            "static" or "dynamic" (quantized for portable kernels, "dynamic" linear layers alone);
            or an int8 flow of Cortex-M: "m0", "m4" or "m55".
        runs: Executions after a load, for networks with a state.
        error: Largest difference from PyTorch, absolute and relative; by default that of float32.
    """

    make: Callable[[], nn.Module]
    draw: Draw
    flow: str = "float32"
    runs: int = 1
    error: float = 0.0

    @property
    def exact(self) -> bool:
        """Whether outputs are compared bit for bit."""
        return self.flow in CORES


@dataclass(frozen=True)
class Export:
    """A program, the operators that it calls, inputs, and what PyTorch computes of them."""

    program: bytes
    operators: tuple[str, ...]
    inputs: Tensors
    outputs: Tensors


def normal(*shapes: tuple[int, ...]) -> Draw:
    """Normally distributed numbers."""
    return lambda generator: tuple(torch.randn(shape, generator=generator) for shape in shapes)


def integers(limit: int, *shapes: tuple[int, ...]) -> Draw:
    """Integers from 0 to ``limit`` - 1."""
    return lambda generator: tuple(
        torch.randint(0, limit, shape, generator=generator) for shape in shapes
    )


def adjacent_channels(shape: tuple[int, ...]) -> Draw:
    return lambda generator: (channels_last(torch.randn(shape, generator=generator)),)


def padded_rows(generator: torch.Generator) -> Tensors:
    return torch.randn(2, 5, 16, generator=generator), torch.arange(5)[None] > torch.tensor(
        [[3], [4]]
    )


def cached_step(generator: torch.Generator) -> Tensors:
    return torch.randn(1, 1, 16, generator=generator), torch.tensor([2])


def octets(*shape: int) -> Draw:
    return lambda generator: (torch.randint(0, 256, shape, generator=generator, dtype=torch.uint8),)


def salted_words(generator: torch.Generator) -> Tensors:
    return torch.randint(0, 1 << 40, (2, 5), generator=generator), torch.tensor([[1], [3]])


def phonemes(generator: torch.Generator) -> Tensors:
    return torch.randn(4, 4, generator=generator), torch.tensor([1, 3, 0, 4])


def pulses(generator: torch.Generator) -> Tensors:
    codes = torch.randint(0, 256, (3, 4), generator=generator, dtype=torch.uint8)
    counts = torch.randint(0, 9, (3, 4), generator=generator, dtype=torch.int32)
    x = torch.randn(3, 4, generator=generator)
    x[0, 1], x[2, 3] = torch.inf, torch.nan
    return codes, counts, x


def graph(generator: torch.Generator) -> Tensors:
    edges = torch.stack([torch.tensor([3, 0, 1, 4, 2]), torch.tensor([1, 2, 4, 0, 3])])
    return torch.randn(5, 4, generator=generator), edges


def texts(generator: torch.Generator) -> Tensors:
    return torch.randint(0, 20, (3, 4), generator=generator), torch.tensor([0, 5, 5])


def boxes(generator: torch.Generator) -> Tensors:
    corners = torch.rand(6, 2, generator=generator)
    return (torch.cat([corners, corners + torch.rand(6, 2, generator=generator)], 1),)


def positive(shape: tuple[int, ...]) -> Draw:
    return lambda generator: (torch.rand(shape, generator=generator) + 0.1,)


SEQUENCE, IMAGE = normal((2, 5, 6)), normal((1, 1, 8, 8))
PICTURE, FEATURES = normal((1, 3, 8, 8)), normal((1, 4, 6, 6))
LINE, REDUCED = normal((2, 4, 12)), normal((2, 2, 8, 8))
TOKENS = integers(20, (2, 7))

MEMBERS: dict[str, Member] = {
    "rnn": Member(partial(zoo.Recurrent, nn.RNN), SEQUENCE),
    "gru": Member(partial(zoo.Recurrent, nn.GRU), SEQUENCE),
    "gru_cell": Member(zoo.GruCell, normal((1, 6), (1, 8))),
    "gru_bidirectional": Member(partial(zoo.Recurrent, nn.GRU, bidirectional=True), SEQUENCE),
    "lstm": Member(partial(zoo.Recurrent, nn.LSTM), SEQUENCE),
    "lstm_cell": Member(zoo.LstmCell, normal((1, 6), (1, 8), (1, 8))),
    "lstm_bidirectional": Member(partial(zoo.Recurrent, nn.LSTM, bidirectional=True), SEQUENCE),
    "lstm_two_layers": Member(partial(zoo.Recurrent, nn.LSTM, num_layers=2), SEQUENCE),
    "transformer_encoder": Member(zoo.TransformerEncoder, TOKENS),
    "transformer_causal": Member(partial(zoo.TransformerEncoder, causal=True), TOKENS),
    "transformer_padded": Member(zoo.TorchEncoder, padded_rows),
    "kv_cache": Member(zoo.KvCache, cached_step, runs=3),
    "rotary_attention": Member(zoo.RotaryAttention, normal((1, 6, 16))),
    "vision_transformer": Member(zoo.VisionTransformer, PICTURE),
    "shifted_windows": Member(zoo.ShiftedWindows, normal((1, 4, 4, 8))),
    "unet_nearest": Member(partial(zoo.UNet, "nearest"), IMAGE),
    "unet_bilinear": Member(partial(zoo.UNet, "bilinear"), IMAGE),
    "unet_bilinear_to_size": Member(
        partial(zoo.UNet, "bilinear", to_size=True), normal((1, 1, 9, 7))
    ),
    "unet_nearest_to_size": Member(
        partial(zoo.UNet, "nearest", to_size=True), normal((1, 1, 9, 7))
    ),
    "conv_autoencoder": Member(zoo.ConvAutoencoder, normal((1, 1, 13, 13))),
    "wave_decoder": Member(zoo.WaveDecoder, LINE),
    "channels_last": Member(
        partial(zoo.ChannelsLast, normalized=False), adjacent_channels((1, 3, 16, 12))
    ),
    "channels_last_norm": Member(
        partial(zoo.ChannelsLast, normalized=True), adjacent_channels((1, 3, 16, 12))
    ),
    "mobilenet_v2_block": Member(zoo.InvertedResidual, FEATURES),
    "mobilenet_v3_block": Member(zoo.SqueezeExcite, FEATURES),
    "shufflenet_unit": Member(zoo.ShuffleUnit, normal((1, 8, 4, 4))),
    "detector_head": Member(zoo.DetectorHead, PICTURE),
    "heat_map_peaks": Member(zoo.NonMaximum, normal((1, 2, 6, 6))),
    "box_overlap": Member(zoo.BoxOverlap, boxes),
    "style_block": Member(zoo.StyleBlock, PICTURE),
    "kept_edges": Member(zoo.KeptEdges, normal((1, 3, 6, 8)), "preserved"),
    "panorama": Member(zoo.Panorama, LINE),
    "spatial_transformer": Member(zoo.SpatialTransformer, IMAGE),
    "spatial_transformer_bicubic": Member(
        partial(zoo.SpatialTransformer, "bicubic"), positive((1, 1, 8, 8))
    ),
    "video_clip": Member(zoo.VideoClip, normal((1, 2, 5, 8, 8))),
    "local_response": Member(zoo.LocalResponse, PICTURE),
    "thumbnail": Member(zoo.Thumbnail, PICTURE),
    "grouped": Member(zoo.GroupedFilters, normal((1, 8, 7, 9))),
    "transposed": Member(zoo.TransposedFilters, normal((1, 4, 4, 3))),
    "photograph_224": Member(zoo.Photograph, normal((1, 3, 224, 224))),
    "broadcast_products": Member(zoo.BroadcastProducts, normal((3, 5, 4))),
    "tcn": Member(signals.TemporalNetwork, LINE),
    "wavenet_gate": Member(signals.GatedTemporal, LINE),
    "ecg": Member(signals.Heartbeat, normal((1, 1, 64))),
    "window_statistics": Member(signals.WindowStatistics, normal((2, 3, 20))),
    "mel_front_end": Member(signals.MelFrontEnd, normal((1, 64))),
    "channel_energy": Member(signals.PerChannelEnergy, positive((2, 6, 4))),
    "orientation": Member(signals.Orientation, normal((4, 3))),
    "flow_step": Member(signals.FlowStep, normal((3, 4))),
    "group_norm": Member(signals.GroupNormNet, PICTURE),
    "pooled_pyramid": Member(signals.PooledPyramid, normal((1, 2, 6, 6))),
    "graph_layer": Member(signals.GraphLayer, graph),
    "neighbour_statistics": Member(signals.NeighbourStatistics, graph),
    "bag_of_words": Member(signals.BagOfWords, texts),
    "recommender": Member(signals.Recommender, integers(16, (2, 5), (2, 5))),
    "ring_buffer": Member(signals.RingBuffer, normal((2,)), runs=4),
    "counting": Member(signals.CountingClassifier, normal((3, 7))),
    "constants": Member(signals.Constants, normal((3, 4))),
    "pooled_audio": Member(signals.PooledAudio, normal((2, 2, 32))),
    "adaptive_peaks": Member(signals.AdaptivePeaks, LINE),
    "feature_hash": Member(signals.FeatureHash, salted_words),
    "bit_unpacker": Member(signals.BitUnpacker, octets(2, 5)),
    "selection": Member(signals.Selection, normal((4, 5))),
    "length_regulator": Member(signals.LengthRegulator, phonemes),
    "prototypes": Member(signals.Prototypes, normal((3, 4))),
    "laplacian": Member(signals.Laplacian, normal((4, 4))),
    "mapped_layer": Member(signals.MappedLayer, normal((5, 4))),
    "mixed_types": Member(signals.MixedTypes, pulses),
    "tokens_8bit": Member(partial(signals.QuantizedTable, 8), TOKENS),
    "tokens_4bit": Member(partial(signals.QuantizedTable, 4), TOKENS),
    "tokens_2bit": Member(partial(signals.QuantizedTable, 2), TOKENS),
    "float16_layers": Member(partial(zoo.Reduced, torch.float16), REDUCED, error=2e-3),
    "bfloat16_layers": Member(partial(zoo.Reduced, torch.bfloat16), REDUCED, error=2e-2),
    "residual_static": Member(zoo.QuantizedResidual, FEATURES, "static"),
    "linear_dynamic": Member(signals.Linears, normal((3, 8)), "dynamic"),
    "encoder_dynamic": Member(zoo.TransformerEncoder, TOKENS, "dynamic"),
    **{
        f"{name}_{core}": Member(make, draw, core)
        for core in CORES
        for name, make, draw in (
            ("linear", signals.Linears, normal((3, 8))),
            ("mobilenet_v2_int8", zoo.InvertedResidual, FEATURES),
            ("mobilenet_v3_int8", zoo.SqueezeExcite, FEATURES),
            ("conv_autoencoder_int8", zoo.ConvAutoencoder, normal((1, 1, 13, 13))),
            ("tcn_int8", signals.TemporalNetwork, LINE),
            ("ecg_int8", signals.Heartbeat, normal((1, 1, 64))),
            ("gru_int8", partial(zoo.Recurrent, nn.GRU), SEQUENCE),
            ("unet_nearest_int8", partial(zoo.UNet, "nearest"), IMAGE),
            ("encoder_int8", zoo.EncoderLayer, normal((1, 5, 16))),
            ("style_block_int8", zoo.StyleBlock, PICTURE),
            ("pooled_audio_int8", signals.PooledAudio, normal((2, 2, 32))),
            ("grouped_int8", zoo.GroupedFilters, normal((1, 8, 7, 9))),
            ("difference_int8", zoo.Difference, normal((1, 3, 8, 8))),
        )
    },
}


def build(member: Member) -> nn.Module:
    """The network with random weights and statistics."""
    torch.manual_seed(SEED)
    model = member.make().eval().requires_grad_(False)
    for module in model.modules():
        if isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d)):
            nn.init.normal_(module.running_mean, 0.0, 0.1)
            nn.init.uniform_(module.running_var, 0.5, 1.5)
    return model


def lower(member: Member) -> tuple[EdgeProgramManager, Reference]:
    """The edge program of a network, and what computes its reference."""
    model, generator = build(member), torch.Generator().manual_seed(SEED)
    sample = member.draw(generator)
    if member.flow in FLOAT_CONFIGS:
        config = FLOAT_CONFIGS[member.flow]
        return to_edge(torch.export.export(model, sample), compile_config=config), model
    if member.flow in ("static", "dynamic"):
        is_dynamic = member.flow == "dynamic"
        quantizer = XNNPACKQuantizer().set_global(
            get_symmetric_quantization_config(is_per_channel=True, is_dynamic=is_dynamic)
        )
        exported = torch.export.export(model, sample).module(check_guards=False)
        prepared = prepare_pt2e(exported, quantizer)
        prepared(*sample)
        quantized = convert_pt2e(prepared)
        program = torch.export.export(quantized, sample)
        return to_edge(program, compile_config=UNCHECKED).transform(
            [QuantFusionPass(_fix_node_meta_val=True)]
        ), quantized
    program = quantize(model, lambda: member.draw(generator)[0])
    edge = lower_int8(program, CortexMTargetConfig(cpu=CORES[member.flow]))
    return edge, ChipReference(edge.exported_program().module(check_guards=False))


def export(member: Member) -> Export:
    """The program of a network with its reference; outputs are of the last execution."""
    edge, reference = lower(member)
    inputs = member.draw(torch.Generator().manual_seed(SEED + 1))
    if member.exact:
        inputs = tuple(channels_last(x) for x in inputs)
    with torch.no_grad():
        for _ in range(member.runs):
            outputs = reference(*inputs)
    flat, _ = torch.utils._pytree.tree_flatten(outputs)
    outputs = tuple(tensor.clone() for tensor in flat)
    manager = edge.to_executorch()
    plan = manager.executorch_program.execution_plan[0]
    operators = {f"{op.name}.{op.overload}".removesuffix(".") for op in plan.operators}
    return Export(bytes(manager.buffer), tuple(sorted(operators)), inputs, outputs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=Path, help="where the .pte files and inputs go")
    parser.add_argument("--network", action="append", help="only this one; may be repeated")
    arguments = parser.parse_args()
    for name in arguments.network or MEMBERS:
        exported = export(MEMBERS[name])
        print(f"{name}: {len(exported.program)} bytes, {' '.join(exported.operators)}")
        if arguments.models:
            (arguments.models / f"{name}.pte").write_bytes(exported.program)
            for number, tensor in enumerate(exported.inputs):
                np.save(arguments.models / f"{name}.{number}.npy", tensor.numpy())


if __name__ == "__main__":
    main()
