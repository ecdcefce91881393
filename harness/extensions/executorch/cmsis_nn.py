"""For which Cortex-M cores an int8 program was exported, by what CMSIS-NN needs on each.

ExecuTorch's exporter for Cortex-M plans CMSIS-NN's scratch memory for the instruction set of one
core, and folds the biases of linear layers into sums over their weights if the core has MVE. The
kernels take both as they are, so a program for another core computes wrong numbers, fails, or
writes beyond its scratch memory.

The sizes are those that CMSIS-NN's ``..._get_buffer_size`` functions return, written from the
shapes. The tests beside ExecuTorch compare them with its own. More scratch memory than a core needs
does no harm, so a program that has it is not refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from harness.analyze.workload import tensor_bytes
from harness.check.fit import MadeFor, Refusal
from harness.decode.program import Call, Method, Tensor, Value, ValueList

_SCALAR, _DSP, _MVE = "no DSP", "DSP", "MVE"
_SETS: Final = (_SCALAR, _DSP, _MVE)
"""Instruction sets that CMSIS-NN distinguishes."""

_CORES: Final = {
    "cortex-m0": _SCALAR,
    "cortex-m0plus": _SCALAR,
    "cortex-m3": _SCALAR,
    "cortex-m23": _SCALAR,
    "cortex-m4": _DSP,
    "cortex-m7": _DSP,
    "cortex-m33": _DSP,
    "cortex-m35p": _DSP,
    "cortex-m55": _MVE,
    "cortex-m85": _MVE,
}
"""Cores that the exporter knows, and for which instruction set it exports by default."""

_BLOCK: Final = 124
"""Channels that a depthwise convolution with MVE gathers at a time (``CH_IN_BLOCK_MVE``)."""

_REVERSED: Final = 16
"""Input channels from which on a transposed convolution is a convolution of its inverse."""


@dataclass(frozen=True, slots=True)
class ConvolutionShapes:
    """The shapes of a convolution; sizes of images as rows, columns, channels.

    Attributes:
        images: Number of images.
        source: Size of an input image.
        target: Size of an output image.
        kernel: Rows and columns of the filter.
        filters: Outputs of the filter.
        depth: Inputs of the filter.
        stride: Step in rows and columns.
        padding: Rows and columns around the image.
        dilation: Distance of the filter's rows and columns.
    """

    images: int
    source: tuple[int, int, int]
    target: tuple[int, int, int]
    kernel: tuple[int, int]
    filters: int
    depth: int
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]

    @property
    def taps(self) -> int:
        """Elements of the filter's window, in one channel."""
        return self.kernel[0] * self.kernel[1]


def convolution_scratch(window: ConvolutionShapes, instructions: str) -> int:
    """Return the scratch bytes of ``arm_convolve_wrapper_s8``."""
    whole = window.source[2] == window.depth  # no groups of channels
    if whole and window.kernel == window.dilation == (1, 1) and window.padding == (0, 0):
        return 0
    row = window.source[0] == window.kernel[0] == window.dilation[1] == 1
    if instructions == _MVE and whole and row and window.stride[1] * window.source[2] % 4 == 0:
        return _row_scratch(window)
    return _columns(window.taps * window.source[2], instructions)


def _columns(length: int, instructions: str) -> int:
    """Return the bytes of gathered columns: four of int8 with MVE, else two of int16."""
    whole = 16 if instructions == _MVE else 4
    return 4 * -(-length // whole) * whole


def _row_scratch(window: ConvolutionShapes) -> int:
    """Return the bytes of a convolution of one row with MVE: the ends, with their padding."""
    columns, channels = window.source[1], window.source[2]
    wide, stride, padding = window.kernel[1], window.stride[1], window.padding[1]
    output = window.target[1]
    # As in C, the remainder of a negative number is not positive.
    excess = (output - 1) * stride + wide - columns
    uneven = excess % 2 if excess >= 0 else -(-excess % 2)
    left = max(1, -(-padding // stride)) if padding else 0
    right = max(1, -(-(padding + uneven) // stride)) if padding + uneven else 0
    if left + right + max(output - left - right, 0) != output:
        return _columns(window.taps * channels, _MVE)
    after = right if uneven else padding
    return max(wide + padding, wide - 1 + after) * channels


def depthwise_scratch(window: ConvolutionShapes, instructions: str) -> int:
    """Return the scratch bytes of ``arm_depthwise_conv_wrapper_s8``."""
    if instructions == _MVE and window.source[2] == 1 < window.target[2]:
        # It becomes a convolution, with its weights in another order.
        return _columns(window.taps, _MVE) + window.taps * window.target[2]
    single = window.source[2] == window.target[2] and window.images == 1
    if instructions == _SCALAR or not single or window.dilation != (1, 1):
        return 0
    if instructions == _MVE:
        return 4 * _BLOCK * window.taps
    if window.kernel == (3, 3) and max(window.padding) <= 1:
        return 0
    return 2 * window.source[2] * window.taps


def transposed_scratch(window: ConvolutionShapes, instructions: str) -> tuple[int, int]:
    """Return the bytes of both scratch buffers of ``arm_transpose_conv_s8``."""
    channels = window.source[2]
    if max(window.stride) <= 2 and channels > _REVERSED:
        reverse = channels * window.taps * window.filters
        return _columns(window.taps * channels, instructions), reverse
    # CMSIS-NN compares the width with the stride of the rows.
    columns = (window.source[1] - 1) * window.stride[1] + max(window.kernel[1], window.stride[0])
    rows = max(window.kernel[0], window.stride[0])
    return 4 * columns * window.target[2] * rows, 0


def pooling_scratch(channels: int, instructions: str) -> int:
    """Return the scratch bytes of ``arm_avgpool_s8``."""
    return 4 * channels if instructions == _DSP else 0


def product_scratch(columns: int, instructions: str) -> int:
    """Return the scratch bytes of ``arm_fully_connected_s8`` with weights known when it runs."""
    return 4 * columns if instructions == _MVE else 0


@dataclass(frozen=True, slots=True)
class _Need:
    """What an operator has of what depends on the core, and what it needs for each set.

    Attributes:
        operator: Its name.
        what: The argument, for messages.
        has: Bytes of the scratch memory, or of the sums of a linear layer.
        needs: Bytes that it needs by instruction set.
        exact: More would do no good: sums are read by some sets, and biases by others.
    """

    operator: str
    what: str
    has: int
    needs: tuple[int, ...]
    exact: bool = False

    def suits(self, instructions: str) -> bool:
        """Whether CMSIS-NN can work with it."""
        need = self.needs[_SETS.index(instructions)]
        return self.has == need if self.exact else self.has >= need

    def made(self, instructions: str) -> bool:
        """Whether the exporter gives this to programs for a set."""
        return self.has == self.needs[_SETS.index(instructions)]


class _UnknownError(Exception):
    """An operator with other arguments than those of the known version."""


def made_for(method: Method) -> MadeFor | None:
    """Return for which cores a method was exported; None if it has no operators of CMSIS-NN."""
    if not any(kernel.name.startswith("cortex_m::") for kernel in _kernels(method)):
        return None
    try:
        needs = tuple(_needs(method))
    except _UnknownError:
        return MadeFor((), (), "cores that are not known: its operators have other arguments")
    sets = tuple(name for name in _SETS if all(need.made(name) for need in needs))
    return MadeFor(tuple(core for core, name in _CORES.items() if name in sets), sets, _text(sets))


def _text(sets: Sequence[str]) -> str:
    if len(sets) == len(_SETS):
        return "any core"
    texts = []
    for name in sets:
        cores = [_short(core) for core, instructions in _CORES.items() if instructions == name]
        texts.append(f"Cortex-{', '.join(cores)} ({name})")
    return " and ".join(texts) or "no known core: scratch sizes of different cores"


def misfits(method: Method, cpu: str) -> Iterator[Refusal]:
    """Yield why CMSIS-NN on a core cannot run a method that was exported for others."""
    made, instructions = made_for(method), _CORES.get(cpu)
    if made is None or not made.sets or instructions is None or instructions in made.sets:
        return
    for need in _needs(method):
        if need.suits(instructions):
            continue
        wanted = need.needs[_SETS.index(instructions)]
        reason = (
            f"it was exported for {made.text}, not for Cortex-{_short(cpu)} ({instructions}): "
            f"{need.operator.removesuffix('.out')} has {need.has:,} bytes of {need.what} and needs "
            f"{wanted:,}"
        )
        target = f"CortexMTargetConfig(cpu=CortexM.{cpu.removeprefix('cortex-').upper()})"
        yield Refusal(
            reason, f"export it for this core: `CortexMPassManager(..., target_config={target})`"
        )
        return


def _short(core: str) -> str:
    """Return a core's name after its family's: ``M55``."""
    return core.removeprefix("cortex-").upper().replace("PLUS", "+")


def _kernels(method: Method) -> Iterator[_Kernel]:
    for chain in method.chains:
        for instruction in chain:
            if instruction.call is Call.KERNEL:
                values = [method.values[number] for number in instruction.args]
                yield _Kernel(instruction.name, values)


@dataclass(frozen=True, slots=True)
class _Kernel:
    """A call of a kernel. Its last argument but one is its output."""

    name: str
    values: list[Value]

    def tensor(self, place: int) -> Tensor:
        value = self.values[place]
        if not isinstance(value, Tensor):
            raise _UnknownError
        return value

    def pair(self, place: int) -> tuple[int, int]:
        value = self.values[place]
        if not isinstance(value, ValueList) or len(value.items) != 2:
            raise _UnknownError
        rows, columns = value.items
        if not isinstance(rows, int) or not isinstance(columns, int):
            raise _UnknownError
        return rows, columns

    def image(self, place: int) -> tuple[int, tuple[int, int, int]]:
        """Return number and size of images, which the layout names in another order."""
        sizes = self.tensor(place).sizes
        if len(sizes) != 4:
            raise _UnknownError
        if "_nhwc" in self.name:
            return sizes[0], (sizes[1], sizes[2], sizes[3])
        return sizes[0], (sizes[2], sizes[3], sizes[1])

    def window(self, stride: int, padding: int, dilation: int) -> ConvolutionShapes:
        images, source = self.image(0)
        weights = self.tensor(1).sizes
        if len(weights) != 4:
            raise _UnknownError
        return ConvolutionShapes(
            images=images,
            source=source,
            target=self.image(-2)[1],
            kernel=(weights[1], weights[2]),
            filters=weights[0],
            depth=weights[3],
            stride=self.pair(stride),
            padding=self.pair(padding),
            dilation=self.pair(dilation),
        )

    def scratch(self, place: int, size: Callable[[str], int], what: str = "scratch") -> _Need:
        has = tensor_bytes(self.tensor(place))
        return _Need(self.name, what, has, tuple(size(name) for name in _SETS))


def _needs(method: Method) -> Iterator[_Need]:
    """Yield what depends on the core.

    Raises:
        _UnknownError: An operator has other arguments than in ExecuTorch 1.5.
    """
    for kernel in _kernels(method):
        described = _DEPENDENT.get(kernel.name.replace("_nhwc", ""))
        if described is None:
            continue
        arguments, needs = described
        if len(kernel.values) != arguments + 2:
            raise _UnknownError
        yield from needs(kernel)


def _of_convolution(kernel: _Kernel) -> Iterator[_Need]:
    window = kernel.window(3, 4, 5)
    yield kernel.scratch(12, lambda name: convolution_scratch(window, name))


def _of_depthwise(kernel: _Kernel) -> Iterator[_Need]:
    window = kernel.window(3, 4, 5)
    yield kernel.scratch(13, lambda name: depthwise_scratch(window, name))


def _of_transposed(kernel: _Kernel) -> Iterator[_Need]:
    window = kernel.window(3, 4, 6)
    yield kernel.scratch(13, lambda name: transposed_scratch(window, name)[0])
    yield kernel.scratch(14, lambda name: transposed_scratch(window, name)[1])


def _of_pooling(kernel: _Kernel) -> Iterator[_Need]:
    channels = kernel.image(0)[1][2]
    yield kernel.scratch(8, lambda name: pooling_scratch(channels, name))


def _of_product(kernel: _Kernel) -> Iterator[_Need]:
    columns = kernel.tensor(2).sizes[-2]
    yield kernel.scratch(7, lambda name: product_scratch(columns, name))


def _of_linear(kernel: _Kernel) -> Iterator[_Need]:
    sums = 0 if kernel.values[3] is None else tensor_bytes(kernel.tensor(3))
    needs = (0, 0, 4 * kernel.tensor(1).sizes[0])
    yield _Need(kernel.name, "sums over weights", sums, needs, exact=True)


_DEPENDENT: Final[dict[str, tuple[int, Callable[[_Kernel], Iterator[_Need]]]]] = {
    "cortex_m::quantized_conv2d.out": (13, _of_convolution),
    "cortex_m::quantized_depthwise_conv2d.out": (14, _of_depthwise),
    "cortex_m::quantized_transpose_conv2d.out": (15, _of_transposed),
    "cortex_m::quantized_avg_pool2d.out": (9, _of_pooling),
    "cortex_m::quantized_batch_matmul.out": (8, _of_product),
    "cortex_m::quantized_linear.out": (11, _of_linear),
}
"""Arguments before the output, and what depends on the core."""
