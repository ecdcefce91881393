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
from harness.decode.program import Tensor, ValueList
from harness.report.words import counted

_Memory = tuple[int, int, int, int]

BLOCKS: Final = (4, 16)
"""Channels that a depthwise loop computes at once: with and without Helium."""


class Proposal(NamedTuple):
    """What to try instead of an operator.

    Attributes:
        attempt: What to try, in words.
        instead: The calls that would take its place; empty if it would vanish.
        others: Calls that would vanish with it, such as conversions around it.
    """

    attempt: str
    instead: tuple[Step, ...]
    others: tuple[Step, ...] = ()


@dataclass(frozen=True)
class Graph:
    """The instructions of a method, and who writes and reads its values.

    Attributes:
        steps: The work of its kernels.
        arguments: Their arguments.
        writers: The instruction that wrote each value last.
        readers: The instructions that read each value.
        views: The value that was written, for each that is another view of its memory.
    """

    steps: dict[Place, Step]
    arguments: dict[Place, Arguments]
    writers: dict[int, Place]
    readers: dict[int, list[Place]]
    views: dict[int, int]

    @classmethod
    def of(cls, steps: list[Step], arguments: dict[Place, Arguments]) -> Graph:
        """Collect the writers and readers of values."""
        kernels = {(s.chain, s.instruction): s for s in steps if not s.delegated}
        graph, latest = cls(kernels, arguments, {}, {}, {}), dict[_Memory, int]()
        for place, found in arguments.items():
            for argument in found.inputs:
                for number, tensor in _members(argument):
                    memory = _memory(tensor)
                    if number not in graph.writers and memory in latest:
                        graph.views[number] = latest[memory]
                    graph.readers.setdefault(graph.views.get(number, number), []).append(place)
            for argument in found.outputs:
                graph.writers[argument.number] = place
                if isinstance(argument.value, Tensor) and argument.value.offset >= 0:
                    latest[_memory(argument.value)] = argument.number
        return graph

    def writer(self, number: int, place: Place) -> Step | None:
        """Return the kernel before an instruction that writes a value."""
        found = self.writers.get(self.views.get(number, number))
        return self.steps.get(found) if found is not None and found < place else None

    def before(self, place: Place) -> Step | None:
        """Return the kernel that writes the first input of an instruction."""
        inputs = self.arguments[place].inputs
        return self.writer(inputs[0].number, place) if inputs else None

    def after(self, place: Place) -> Step | None:
        """Return the kernel that alone reads the first output of an instruction."""
        outputs = self.arguments[place].outputs
        readers = self.readers.get(outputs[0].number, []) if outputs else []
        return self.steps.get(readers[0]) if len(readers) == 1 else None


def at(step: Step) -> Place:
    """Return the place of a kernel."""
    return step.chain, step.instruction


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
    """The largest of the convolutions that compute in float32 between int8 operators.

    The layout is that of the whole network, so all of them would compute in int8.
    """
    step = graph.steps[place]
    if not step.operator.startswith("aten::convolution."):
        return None
    steps, layers = list[Step](), dict[Step, Step]()
    for chain in (_float_chain(graph, start) for start in graph.steps.values()):
        found = {each: other for each in chain if (other := _in_int8(graph, each)) is not None}
        steps += chain if found else ()
        layers |= found
    if step is not max(layers, key=_macs, default=None):
        return None
    first, *more = layers.pop(step), *layers.values()
    which = "the convolution then computes"
    if more:
        which = f"this and {counted(len(more), 'more convolution')} then compute"
    return Proposal(
        f"export in memory_format=torch.channels_last: {which} in int8",
        (first, *more),
        tuple(each for each in steps if each is not step),
    )


def _macs(step: Step) -> int:
    return step.macs or 0


def _float_chain(graph: Graph, start: Step) -> list[Step]:
    """Return the convolutions and bounds in float32 behind a dequantize, with all around them.

    The last is the quantize behind them, or a bound in int8 behind it, which exports would fuse.
    Empty if another operator begins, ends or is among them.
    """
    chain, after = [start], graph.after(at(start))
    if "::dequantize_per_tensor." not in start.operator:
        return []
    while after is not None and graph.before(at(after)) is chain[-1]:
        if not after.operator.startswith(_BOUNDS) and _in_int8(graph, after) is None:
            break
        chain.append(after)
        after = graph.after(at(after))
    if after is None or "::quantize_per_tensor." not in after.operator:
        return []
    chain.append(after)
    bound = graph.after(at(after))
    is_fused = bound is not None and bound.type == "int8" and bound.operator.startswith(_BOUNDS)
    return [*chain, bound] if bound is not None and is_fused else chain


def _in_int8(graph: Graph, step: Step) -> Step | None:
    """Return what takes the place of a float32 convolution of images that are channels last."""
    if not step.operator.startswith("aten::convolution."):
        return None
    if step.variant not in ("", "pointwise", "depthwise"):
        return None
    [output, *_] = [argument.value for argument in graph.arguments[at(step)].outputs]
    data = _tensors(graph.arguments[at(step)])[0]
    if not isinstance(output, Tensor) or len(data.sizes) != 4:
        return None
    numbers = dict(zip(FEATURES, step.features, strict=True))
    channels = output.sizes[1]
    numbers["row_read"] = numbers["first"] / data.sizes[1]
    numbers["row"] = numbers["element"] / channels
    if step.variant == "depthwise":
        kind = "depthwise_conv2d"
        numbers["inner"] /= channels
        for name, block in (("left_of_4", 4), ("left_of_16", 16)):
            numbers[name] = numbers["mac"] * (channels % block) / channels
    else:  # computes taps outside of the image, too
        kind, taps = "conv2d", _macs(step) / max(numbers["mac"], 1)
        numbers |= {"mac": _macs(step), "inner": numbers["inner"] * taps, "area": 0.0}
    return replace(
        step,
        operator=f"cortex_m::quantized_{kind}.out",
        variant="pointwise" if step.variant == "pointwise" else "",
        type="int8",
        features=tuple(numbers.values()),
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
    if not before.operator.startswith("aten::convolution.") or graph.after(at(before)) is not step:
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
    step, around = graph.steps[place], _conversions(graph, place)
    if step.operator not in _FLOAT_ACTIVATIONS or not around:
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
        "SiLU, GELU or another activation that int8 exports look up in a table", (table,), around
    )


_FLOAT_ACTIVATIONS: Final = frozenset(("aten::elu.out", "aten::leaky_relu.out"))


def fused_bound(graph: Graph, place: Place) -> Proposal | None:
    """A lower bound of 0 that computes in float32 behind an int8 operator."""
    step, around = graph.steps[place], _conversions(graph, place)
    bounds = [argument.value for argument in graph.arguments[place].inputs[1:3]]
    if step.operator != "aten::clamp.out" or bounds != [0, None] or not around:
        return None
    source = graph.before(at(around[0]))
    if source is None or not source.operator.startswith(_FUSE):
        return None
    return Proposal(
        "nn.ReLU instead of clamp_min: int8 exports fuse it into the operator before it",
        (),
        around,
    )


def before_reshaping(graph: Graph, place: Place) -> Proposal | None:
    """A ReLU in int8 that is separate because the output before it is first reshaped."""
    step, source = graph.steps[place], graph.before(place)
    if step.operator != "aten::clamp.out" or step.type != "int8":
        return None
    first = graph.arguments[place].inputs[0]
    reshaped = first.number in graph.views
    while source is not None and source.operator.startswith(_RESHAPE):
        if graph.after(at(source)) is None:
            return None
        reshaped, source = True, graph.before(at(source))
    if source is None or not reshaped or not source.operator.startswith(_FUSE):
        return None
    return Proposal("the activation before the reshaping: int8 exports then fuse it", ())


def behind_pool(graph: Graph, place: Place) -> Proposal | None:
    """An activation that does not change which number is the largest, before a maximum pool."""
    step, pool = graph.steps[place], graph.after(place)
    if not step.operator.startswith(_MONOTONIC):
        return None
    while pool is not None and pool.operator.startswith("aten::unsqueeze_copy."):  # of MaxPool1d
        pool = graph.after(at(pool))
    if pool is None or pool.operator != "aten::max_pool2d_with_indices.out":
        return None
    left = graph.arguments[at(pool)].outputs[0].value
    if not isinstance(left, Tensor) or prod(left.sizes) >= step.elements:
        return None
    part = prod(left.sizes) / step.elements
    fewer = scaled(step, **dict.fromkeys(("element", "first", "row", "row_read"), part))
    return Proposal(
        "the activation behind the maximum pool: the outputs are the same",
        (replace(step, features=fewer),),
    )


def _padded(graph: Graph, layer: Step, place: Place) -> Step:
    """Return a convolution with zeros of its own around the first input of an instruction."""
    if layer.variant in ("", "pointwise") and layer.type == "int8":
        return layer
    inner = _tensors(graph.arguments[place])[0].sizes
    outer = _tensors(graph.arguments[at(layer)])[0].sizes
    kernel = _tensors(graph.arguments[at(layer)])[1].sizes
    taps = kernel[2:] if layer.operator.startswith("aten") else kernel[1:-1]
    part, areas, first = 1.0, 1.0, 1 if "_nhwc." in layer.operator else 2
    for axis, reach in enumerate(taps, first):
        added = outer[axis] - inner[axis]
        outside = added // 2 * (added // 2 + 1)  # taps, at both ends together
        count = outer[axis] - reach + 1
        part *= 1 - min(outside / (count * reach), 1)
        areas *= 1 + added
    work = dict.fromkeys(("mac", "inner", "left_of_4", "left_of_16"), part)
    features = scaled(layer, **work, area=areas, first=prod(inner) / prod(outer))
    return replace(layer, features=features)


def padding_of_zeros(graph: Graph, place: Place) -> Proposal | None:
    """Reflected or repeated edges for a convolution, which exports gather by indexes."""
    positions, source = _positions(graph, place), graph.before(place)
    if not positions or (source is not None and _positions(graph, at(source))):
        return None
    others, after = positions, graph.after(place)
    while after is not None and not after.operator.startswith(_PADDED):
        more = _positions(graph, at(after))
        if not more and "_clone_dim_order" not in after.operator:
            return None
        others, after = [*others, *more, after], graph.after(at(after))
    if after is None:
        return None
    zeros = _padded(graph, after, place)
    attempt = "padding_mode='zeros' of the convolution, for a network that is trained with it"
    return Proposal(attempt, (zeros,), (*others, after))


def _positions(graph: Graph, place: Place) -> list[Step]:
    """Return the kernels that compute the positions that a padding gathers; none for others."""
    step, found = graph.steps[place], list[Step]()
    if step.operator != "aten::index.Tensor_out":
        return found
    members = [number for number, _ in _members(graph.arguments[place].inputs[1])]
    while len(members) == 1:
        writer = graph.writer(members[0], place)
        if writer is None:
            break
        found.append(writer)
        if writer.operator.startswith("aten::arange."):
            return found if len(found) > 1 else []
        pairs = [p for a in graph.arguments[at(writer)].inputs for p in _members(a)]
        members = [number for number, tensor in pairs if not tensor.constant]
    return []


_FUSE: Final = (
    *("cortex_m::quantized_conv2d", "cortex_m::quantized_depthwise_conv2d"),
    *("cortex_m::quantized_linear.", "cortex_m::quantized_add."),
)
"""Operators into which int8 exports fuse an activation."""

_BOUNDS: Final = ("aten::relu.", "aten::clamp.", "aten::hardtanh.")

_RESHAPE: Final = (
    *("dim_order_ops::_clone_dim_order.", "aten::view_copy.", "aten::permute_copy."),
    *("aten::unsqueeze_copy.", "aten::squeeze_copy.", "executorch_prim::et_view."),
)
_PADDED: Final = (
    *("aten::convolution.", "cortex_m::quantized_conv2d", "cortex_m::quantized_depthwise_conv2d"),
)
_MONOTONIC: Final = (
    *("aten::relu.", "aten::sigmoid.", "aten::tanh.", "aten::hardtanh.", "aten::hardsigmoid."),
    *("aten::leaky_relu.", "aten::clamp."),
)


def _conversions(graph: Graph, place: Place) -> tuple[Step, ...]:
    """Return the conversions around a float32 operator between two int8 ones; none for others."""
    before, after = graph.before(place), graph.after(place)
    if before is None or after is None or graph.after(at(before)) is not graph.steps[place]:
        return ()
    is_between = (
        "::dequantize_per_tensor." in before.operator and "::quantize_per_tensor." in after.operator
    )
    return (before, after) if is_between else ()


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
    fused_bound,
    before_reshaping,
    behind_pool,
    padding_of_zeros,
)


def _memory(tensor: Tensor) -> _Memory:
    """Return what a tensor has in common with its views: place, type and number of elements.

    Scratch memory can be at the place of a tensor, too, but is none of its views.
    """
    return tensor.pool, tensor.offset, tensor.scalar_type, prod(tensor.sizes)


def _tensors(found: Arguments) -> list[Tensor]:
    return [value for value in map(_value, found.inputs) if isinstance(value, Tensor)]


def _members(argument: Argument) -> list[tuple[int, Tensor]]:
    """Return the tensors of an argument with their numbers."""
    match argument.value:
        case Tensor():
            return [(argument.number, argument.value)]
        case ValueList(items=items, numbers=numbers):
            pairs = zip(numbers, items, strict=False)
            return [(number, item) for number, item in pairs if isinstance(item, Tensor)]
    return []


def _value(argument: Argument) -> object:
    return argument.value
