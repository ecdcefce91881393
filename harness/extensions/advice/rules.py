"""What to try instead of an operator, and the work that would remain.

A rule reads one instruction of a program. It says what to try and which calls would take its place;
the measured coefficients of a core then tell whether these are cheaper there (`section.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod
from typing import Final, NamedTuple

from msgspec.structs import replace

from harness.analyze.workload import FEATURES, Argument, Arguments, Place, Step
from harness.decode.program import Tensor

BLOCKS: Final = (4, 16)
"""Channels that a depthwise loop computes at once: with and without Helium."""


class Proposal(NamedTuple):
    """What to try instead of an operator.

    Attributes:
        attempt: What to try, in words.
        instead: The calls that would take its place; empty if it would vanish.
    """

    attempt: str
    instead: tuple[Step, ...]


@dataclass(frozen=True)
class Graph:
    """The instructions of a method, and who writes and reads its values.

    Attributes:
        steps: The work of its kernels.
        arguments: Their arguments.
        writers: The instruction that wrote each value last.
        readers: The instructions that read each value.
    """

    steps: dict[Place, Step]
    arguments: dict[Place, Arguments]
    writers: dict[int, Place]
    readers: dict[int, list[Place]]

    @classmethod
    def of(cls, steps: list[Step], arguments: dict[Place, Arguments]) -> Graph:
        """Collect the writers and readers of values."""
        writers: dict[int, Place] = {}
        readers: dict[int, list[Place]] = {}
        for place, found in arguments.items():
            for argument in found.inputs:
                readers.setdefault(argument.number, []).append(place)
            writers.update((argument.number, place) for argument in found.outputs)
        kernels = {(s.chain, s.instruction): s for s in steps if not s.delegated}
        return cls(kernels, arguments, writers, readers)

    def before(self, place: Place) -> Step | None:
        """Return the kernel that writes the first input of an instruction."""
        inputs = self.arguments[place].inputs
        writer = self.writers.get(inputs[0].number) if inputs else None
        return self.steps.get(writer) if writer is not None and writer < place else None

    def after(self, place: Place) -> Step | None:
        """Return the kernel that alone reads the first output of an instruction."""
        outputs = self.arguments[place].outputs
        readers = self.readers.get(outputs[0].number, []) if outputs else []
        return self.steps.get(readers[0]) if len(readers) == 1 else None


Rule = Callable[[Graph, Place], Proposal | None]


def proposals(graph: Graph, place: Place) -> Iterator[Proposal]:
    """Yield what every rule proposes for an instruction."""
    for rule in RULES:
        if (found := rule(graph, place)) is not None:
            yield found


def scaled(step: Step, **factors: float) -> tuple[float, ...]:
    """Return the features of a step, some of them times a factor."""
    pairs = zip(FEATURES, step.features, strict=True)
    return tuple(number * factors.get(name, 1.0) for name, number in pairs)


def without_groups(graph: Graph, place: Place) -> Proposal | None:
    """A grouped convolution: the loops of one group are faster, as long as there are few groups."""
    step = graph.steps[place]
    if step.variant != "grouped":
        return None
    data, weight = _tensors(graph.arguments[place])[:2]
    last = "_nhwc." in step.operator
    channels = data.sizes[-1 if last else 1]
    of_group = weight.sizes[1 if step.operator.startswith("aten") else -1]
    groups = channels // of_group
    kind = "pointwise" if prod(weight.sizes[1:]) == of_group else ""
    dense = replace(step, variant=kind, features=scaled(step, mac=groups, other=groups))
    return Proposal(f"one group instead of {groups}, with weights of 0 between them", (dense,))


def channels_last(graph: Graph, place: Place) -> Proposal | None:
    """A convolution that computes in float32 between two int8 operators."""
    step = graph.steps[place]
    if not step.operator.startswith("aten::convolution.") or not _is_between_int8(graph, place):
        return None
    if step.variant not in ("", "pointwise", "depthwise"):
        return None
    [output, *_] = [argument.value for argument in graph.arguments[place].outputs]
    data = _tensors(graph.arguments[place])[0]
    if not isinstance(output, Tensor) or len(data.sizes) != 4:
        return None
    numbers = dict(zip(FEATURES, step.features, strict=True))
    channels = output.sizes[1]
    numbers["row_read"] = numbers["first"] / data.sizes[1]
    numbers["row"] = numbers["element"] / channels
    kind = "conv2d"
    if step.variant == "depthwise":
        kind = "depthwise_conv2d"
        for name, block in (("left_of_4", 4), ("left_of_16", 16)):
            numbers[name] = numbers["mac"] * (channels % block) / channels
    other = replace(
        step,
        operator=f"cortex_m::quantized_{kind}.out",
        variant="pointwise" if step.variant == "pointwise" else "",
        type="int8",
        features=tuple(numbers.values()),
    )
    return Proposal(
        "export in memory_format=torch.channels_last: the convolution then computes in int8",
        (other,),
    )


def more_channels(graph: Graph, place: Place) -> Proposal | None:
    """A depthwise layer with channels left of the blocks that its loop computes at once."""
    step = graph.steps[place]
    if "quantized_depthwise_conv2d" not in step.operator or step.variant:
        return None
    channels = _tensors(graph.arguments[place])[1].sizes[-1]
    wide = [-(-channels // block) * block for block in BLOCKS]
    if wide[0] in (channels, wide[1]):
        return None
    work = dict.fromkeys(("mac", "element", "first", "other", "inner"), wide[0] / channels)
    blocked = scaled(step, **work, left_of_4=0, left_of_16=0)
    left = step.features[FEATURES.index("mac")] * (wide[0] % BLOCKS[1]) / channels
    whole = dict(zip(FEATURES, blocked, strict=True)) | {"left_of_16": left}
    other = replace(step, features=tuple(whole.values()))
    return Proposal(f"{wide[0]} channels instead of {channels}, a multiple of 4", (other,))


def blocks_of_16(graph: Graph, place: Place) -> Proposal | None:
    """The same for the blocks of Helium."""
    step = graph.steps[place]
    if "quantized_depthwise_conv2d" not in step.operator or step.variant:
        return None
    channels = _tensors(graph.arguments[place])[1].sizes[-1]
    wide = -(-channels // BLOCKS[1]) * BLOCKS[1]
    if wide == channels:
        return None
    work = dict.fromkeys(("mac", "element", "first", "other", "inner"), wide / channels)
    other = replace(step, features=scaled(step, **work, left_of_4=0, left_of_16=0))
    return Proposal(f"{wide} channels instead of {channels}, a multiple of 16", (other,))


def folded_norm(graph: Graph, place: Place) -> Proposal | None:
    """A batch normalization behind a convolution, whose weights can contain it."""
    step, before = graph.steps[place], graph.before(place)
    if "batch_norm_legit_no_training" not in step.operator or before is None:
        return None
    if (
        not before.operator.startswith("aten::convolution.")
        or graph.after((before.chain, before.instruction)) is not step
    ):
        return None
    return Proposal("fold it into the convolution: torch.nn.utils.fusion.fuse_conv_bn_eval", ())


def weights_in_place(graph: Graph, place: Place) -> Proposal | None:
    """A constant matrix that is transposed in every execution, for a linear layer."""
    step, after = graph.steps[place], graph.after(place)
    if step.operator.partition(".")[0] not in ("aten::permute_copy", "aten::t_copy"):
        return None
    constant = _tensors(graph.arguments[place])[0].constant
    if not constant or after is None or after.operator not in ("aten::addmm.out", "aten::mm.out"):
        return None
    return Proposal(
        "keep the linear layer: preserve_ops=[torch.ops.aten.linear.default] of EdgeCompileConfig",
        (),
    )


def product_of_itself(graph: Graph, place: Place) -> Proposal | None:
    """A square."""
    step = graph.steps[place]
    if step.operator != "aten::pow.Tensor_Scalar_out" or step.variant != "of two":
        return None
    elements = step.features[FEATURES.index("element")]
    numbers = dict(zip(FEATURES, step.features, strict=True)) | {"other": elements}
    product = replace(step, operator="aten::mul.out", variant="", features=tuple(numbers.values()))
    return Proposal("x * x instead of x ** 2", (product,))


def reciprocal(graph: Graph, place: Place) -> Proposal | None:
    """A division by a constant."""
    step = graph.steps[place]
    if step.operator != "aten::div.out":
        return None
    tensors = _tensors(graph.arguments[place])
    if len(tensors) < 2 or not tensors[1].constant:
        return None
    product = replace(step, operator="aten::mul.out")
    return Proposal("multiply by the reciprocal of the constant", (product,))


def table_look_up(graph: Graph, place: Place) -> Proposal | None:
    """An activation that computes in float32 between two int8 operators."""
    step = graph.steps[place]
    if step.operator not in _FLOAT_ACTIVATIONS or not _is_between_int8(graph, place):
        return None
    numbers = dict(zip(FEATURES, step.features, strict=True)) | {"other": 256.0}
    table = replace(
        step,
        operator="cortex_m::quantized_activation.out",
        variant="",
        type="int8",
        features=tuple(numbers.values()),
    )
    return Proposal(
        "SiLU, GELU or another activation that int8 exports look up in a table", (table,)
    )


_FLOAT_ACTIVATIONS: Final = frozenset(("aten::elu.out", "aten::leaky_relu.out"))


def _is_between_int8(graph: Graph, place: Place) -> bool:
    before, after = graph.before(place), graph.after(place)
    if before is None or after is None:
        return False
    return (
        "::dequantize_per_tensor." in before.operator and "::quantize_per_tensor." in after.operator
    )


RULES: Final[tuple[Rule, ...]] = (
    without_groups,
    channels_last,
    more_channels,
    blocks_of_16,
    folded_norm,
    weights_in_place,
    product_of_itself,
    reciprocal,
    table_look_up,
)


def _tensors(found: Arguments) -> list[Tensor]:
    return [value for value in map(_value, found.inputs) if isinstance(value, Tensor)]


def _value(argument: Argument) -> object:
    return argument.value
