"""The command stream of an Ethos-U: operations with their shapes, work and memory traffic.

The stream is a list of 32-bit words behind the driver's header. A command of one word has a number
(bits 0 to 9) and a parameter (bits 16 to 31); one of two words (bit 14 set) has a payload behind
it. Most commands set a register; an operation uses the registers as they are then. Numbers and
fields are those of Arm's public compiler (``ethos_u55_regs.py``, ``ethos_u85_interface.hpp`` of
Vela), as are the formulas for multiply-accumulates and for data that is read more than once.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Final, NamedTuple

from harness.errors import FormatError
from harness.extensions.npu.vela_stream import EXPORT_AGAIN

PRODUCTS: Final = {0: "U55", 1: "U65", 2: "U85"}

# Driver actions, in the low byte of a word of the header.
_CONFIG, _STREAM, _READ_APB, _DUMP_SHRAM, _NOP = 1, 2, 3, 4, 5

# Operations: commands of one word below 0x100.
_STOP, _CONV, _DEPTHWISE, _POOL, _ELEMENTWISE, _RESIZE, _DMA = 0, 2, 3, 5, 6, 7, 16
_SILENT: Final = {_STOP, 1, 17, 18, 19}
"""Stop, interrupt, waits and the mask of the performance counters: they do no work."""
_BRANCH: Final = 0x100  # of two words

# Registers of one word that are read here.
_PAD_TOP, _PAD_LEFT, _PAD_RIGHT, _PAD_BOTTOM = 0x100, 0x101, 0x102, 0x103
_IFM_DEPTH, _IFM_PRECISION, _IFM_UPSCALE, _IFM_BROADCAST = 0x104, 0x105, 0x107, 0x108
_IFM_WIDTH0, _IFM_HEIGHT0, _IFM_REGION = 0x10A, 0x10B, 0x10F
_OFM_WIDTH, _OFM_HEIGHT, _OFM_DEPTH, _OFM_PRECISION = 0x111, 0x112, 0x113, 0x114
_BLOCK_WIDTH, _BLOCK_HEIGHT, _BLOCK_DEPTH, _OFM_REGION = 0x115, 0x116, 0x117, 0x11F
_KERNEL_WIDTH, _KERNEL_HEIGHT, _KERNEL_STRIDE = 0x120, 0x121, 0x122
_ACC_FORMAT, _ACTIVATION, _WEIGHT_REGION, _SCALE_REGION, _WEIGHT_FORMAT = (
    0x124,
    0x125,
    0x128,
    0x129,
    0x12E,
)
_SOURCE_REGION, _TARGET_REGION, _SIZE0, _SIZE1 = 0x130, 0x131, 0x132, 0x133
_IFM2_BROADCAST, _IFM2_PRECISION, _IFM2_REGION = 0x180, 0x185, 0x18F

# Registers of two words.
_WEIGHT_BASE, _SCALE_BASE = 0x20, 0x22
_DMA_SOURCE, _DMA_TARGET, _DMA_LENGTH = 0x30, 0x31, 0x32
_WEIGHT_LENGTHS: Final = ((0x21, 0x91), (0x21, 0x91, 0x93, 0x95))
_SCALE_LENGTHS: Final = ((0x23, 0x93), (0x23,))
"""Lengths of what each core reads: those of U55 and U65, and those of the U85."""

_KNOWN: Final = (
    {n for n in range(0x100, 0x110) if n not in (0x106, 0x10E)}
    | {n for n in range(0x111, 0x130) if n not in (0x119, 0x11D, 0x11E)}
    | {*range(0x130, 0x135), 0x180, 0x181, *range(0x185, 0x190)},
    {*range(7), *range(0x10, 0x17), *range(0x20, 0x28), *range(0x30, 0x3A)}
    | {*range(0x80, 0x87), *range(0x90, 0x98)},
)
"""Numbers of the registers of one and of two words, of all products."""

_POOLS: Final = ("max pool", "average pool", "reduce sum", "sum pool", "copy", "min pool")
_ARGMAX: Final = {6: "argmax x", 7: "argmax y"}
_ELEMENTS: Final = {
    **dict(enumerate(("mul", "add", "sub", "min", "max", "lrelu", "abs", "clz", "shr", "shl"))),
    **{10: "lsr", 11: "div", 16: "equal", 17: "not equal", 18: "greater equal", 19: "greater"},
    **{33: "and", 34: "or", 35: "xor", 36: "not", 42: "and not"},
}
_UNARY: Final = {"lrelu", "abs", "clz", "not"}
_TYPES: Final = {
    (False, 1): "uint8",
    (False, 2): "uint16",
    (False, 4): "uint32",
    (True, 1): "int8",
    (True, 2): "int16",
    (True, 4): "int32",
    (True, 8): "int64",
    (False, 8): "uint64",
}

Shape = tuple[int, int, int]
"""Height, width and depth."""


class FeatureMap(NamedTuple):
    """What an operation reads or writes.

    Attributes:
        shape: Its part that the operation needs.
        type: Type of the elements.
        item: Bytes of an element.
        bricks: Stored in bricks of 16 channels (NHCWB16).
        region: Number of the memory region; -1 without memory (a scalar, a chained operation).
    """

    shape: Shape
    type: str
    item: int
    bricks: bool
    region: int

    @property
    def stored(self) -> int:
        """Its bytes in memory, with the channels that bricks add; 0 without memory."""
        height, width, depth = self.shape
        depth = -(-depth // 16) * 16 if self.bricks else depth
        return height * width * depth * self.item if self.region >= 0 else 0

    def __str__(self) -> str:
        return f"{self.type}[{', '.join(map(str, self.shape))}]"


class Transfer(NamedTuple):
    """A copy by the DMA; the target is -1 for the NPU's own memory, such as its lookup tables."""

    source: int
    target: int
    target_at: int
    length: int


@dataclass(slots=True)
class Operation:
    """An operation of the command stream.

    Attributes:
        kind: What it computes: ``conv``, ``depthwise conv``, ``average pool``, ``add``.
        at: Byte offset of its command in the stream.
        kernel: Height and width of the kernel; (1, 1) for elementwise operations.
        strides: Vertical and horizontal stride.
        dilations: Vertical and horizontal dilation.
        inputs: The feature maps that it reads.
        output: The one that it writes.
        block: Height, width and depth of the parts of the output that are computed at a time.
        macs: Multiply-accumulates, also of pooling and sums.
        weights: Bytes of its encoded weights.
        scales: Bytes of its scales and biases.
        passes: How often weights and scales are read.
        reads: How often the input is read.
        constants_region: Memory region of weights and scales.
        transfers: Copies by the DMA that it waits for.
        table: It applies a lookup table.
        part_kernel: The kernel is traversed before the channels are.
        accumulator: Number of the format in which sums are kept.
    """

    kind: str
    at: int
    kernel: tuple[int, int] = (1, 1)
    strides: tuple[int, int] = (1, 1)
    dilations: tuple[int, int] = (1, 1)
    inputs: tuple[FeatureMap, ...] = ()
    output: FeatureMap | None = None
    block: Shape = (1, 1, 1)
    macs: int = 0
    weights: int = 0
    scales: int = 0
    passes: int = 1
    reads: float = 1.0
    constants_region: int = -1
    transfers: list[Transfer] = field(default_factory=list)
    table: bool = False
    part_kernel: bool = False
    accumulator: int = 0

    @property
    def name(self) -> str:
        """Its kind, with the size of the kernel and the stride if they are not 1."""
        name = self.kind
        if self.kernel != (1, 1) or self.kind.endswith("conv"):
            name += f" {self.kernel[0]}x{self.kernel[1]}"
        if self.strides != (1, 1):
            name += f" stride {self.strides[0]}x{self.strides[1]}"
        return name + (" + table" if self.table and self.kind != "table" else "")

    @property
    def operands(self) -> str:
        """Types and shapes of its operands; empty for a copy."""
        if self.output is None:
            return ""
        return f"{' '.join(map(str, self.inputs))} -> {self.output}".strip()

    def traffic(self) -> Iterator[tuple[int, int, int]]:
        """Yield regions, each with bytes read and bytes written, some of them repeatedly."""
        for number, given in enumerate(self.inputs):
            yield given.region, round(given.stored * (self.reads if number == 0 else 1)), 0
        if self.output is not None:
            yield self.output.region, 0, self.output.stored
        yield self.constants_region, (self.weights + self.scales) * self.passes, 0
        for transfer in self.transfers:
            yield transfer.source, transfer.length, 0
            yield transfer.target, 0, transfer.length


@dataclass(slots=True)
class CommandStream:
    """A decoded command stream.

    Attributes:
        product: Number of the product, a key of ``PRODUCTS``.
        macs_per_cycle: 8-bit multiply-accumulates per cycle, of all cores.
        words: Number of words behind the header.
        operations: In the order of the stream.
        unknown: Commands that this version does not know, by number: counted, not decoded.
        branches: Number of jumps; operations between them count once.
    """

    product: int
    macs_per_cycle: int
    words: int
    operations: list[Operation]
    unknown: dict[int, int]
    branches: int = 0


def read_commands(data: bytes, at: int = 0) -> CommandStream:
    """Decode a block ``cmd_data``.

    Args:
        data: The block.
        at: Its byte offset in the blob, for messages.

    Raises:
        FormatError: The header or the stream is damaged, or of an unknown product.
    """
    if len(data) % 4 or data[:4] != b"COP1":
        raise _damaged("no header of the Ethos-U driver (COP1)", at)
    words = struct.unpack(f"<{len(data) // 4}I", data)
    config, first, count = _header(words, at)
    if first + count > len(words):
        missing = (first + count - len(words)) * 4
        raise _damaged(f"{missing} bytes of the command stream are missing", at + len(data))
    if config is None or config >> 28 not in PRODUCTS:
        named = "is not named" if config is None else f"{config >> 28} is unknown"
        raise _damaged(f"the NPU's product {named}", at)
    reader = _Reader(config >> 28)
    stop = reader.read(words[first : first + count], at + first * 4)
    if not stop:
        raise _damaged("the command stream has no end (NPU_OP_STOP)", at + len(data))
    reader.close()
    return CommandStream(
        config >> 28,
        1 << (config & 15),
        count,
        reader.operations,
        reader.unknown,
        reader.branches,
    )


def _header(words: tuple[int, ...], at: int) -> tuple[int | None, int, int]:
    """Return the NPU's configuration, the index of the stream's first word, and its length."""
    config, index = None, 1
    while index < len(words):
        word, action = words[index], words[index] & 255
        index += 1
        if action == _STREAM:
            return config, index, (word >> 8 & 255) << 16 | word >> 16
        if action == _CONFIG:
            config = words[index] if index < len(words) else None
            index += 2
        elif action not in (_READ_APB, _DUMP_SHRAM, _NOP):
            raise _damaged(f"unknown action {action} of the driver", at + index * 4 - 4)
    raise _damaged("the header of the driver names no command stream", at + len(words) * 4)


class _Reader:
    """The registers while a stream is read, and what it did so far."""

    def __init__(self, product: int) -> None:
        self._u85 = product == 2
        self._short: dict[int, int] = {}
        self._long: dict[int, int] = {}
        self._pending: list[Transfer] = []
        self.operations: list[Operation] = []
        self.unknown: dict[int, int] = {}
        self.branches = 0

    def read(self, words: tuple[int, ...], at: int) -> bool:
        """Follow the commands; return whether the end was found."""
        index = 0
        while index < len(words):
            word = words[index]
            number, control, parameter = word & 0x3FF, word >> 14 & 3, word >> 16
            if control > 1 or (control == 1 and index + 1 == len(words)):
                raise _damaged(f"invalid command 0x{word:08x}", at + index * 4)
            if control == 1:
                if number == _BRANCH:
                    self.branches += 1
                elif number not in _KNOWN[1]:
                    self._count(word & 0xFFFF)
                self._long[number] = words[index + 1] | (parameter & 0xFF) << 32
            elif number == _STOP:
                return True
            elif number in _KNOWN[0]:
                self._short[number] = parameter
            elif number not in _SILENT:
                self._operate(number, parameter, index * 4)
            index += 1 + control
        return False

    def close(self) -> None:
        """Report copies by the DMA that no operation waits for as operations of their own."""
        for transfer in self._pending:
            self.operations.append(Operation("dma", 0, transfers=[transfer]))

    def _count(self, number: int) -> None:
        self.unknown[number] = self.unknown.get(number, 0) + 1

    def _operate(self, number: int, parameter: int, at: int) -> None:
        if number == _DMA:
            self._pending.append(self._transfer())
        elif number in (_CONV, _DEPTHWISE):
            self.operations.append(self._convolution(number, parameter, at))
        elif number == _POOL:
            self.operations.append(self._pool(parameter, at))
        elif number == _ELEMENTWISE:
            self.operations.append(self._elementwise(parameter, at))
        elif number == _RESIZE and self._u85:
            self.operations.append(self._resize(at))
        else:
            self._count(number)
            return
        if number != _DMA:
            self._claim(self.operations[-1])

    def _transfer(self) -> Transfer:
        """Return the copy that the registers describe, in one, two or three dimensions."""
        source, target = self._get(_SOURCE_REGION), self._get(_TARGET_REGION)
        length, mode = self._far(_DMA_LENGTH), source >> 9 & 3
        if mode >= 1:
            length *= self._get(_SIZE0, 1)
        if mode >= 2:
            length *= self._get(_SIZE1, 1)
        inside = -1 if target >> 8 & 1 else target & 7
        return Transfer(source & 7, inside, self._far(_DMA_TARGET), length)

    def _claim(self, operation: Operation) -> None:
        """Give an operation the copies that it waits for.

        These are the copies of its weights and scales, and of lookup tables; with others that came
        before them, as the DMA works in order.
        """
        regions = {operation.constants_region} if operation.weights or operation.scales else set()
        bases = (self._far(_WEIGHT_BASE), self._far(_SCALE_BASE))
        last = 0
        for number, transfer in enumerate(self._pending, 1):
            start, end = transfer.target_at, transfer.target_at + transfer.length
            within = any(start <= base < end for base in bases)
            if transfer.target < 0 or (transfer.target in regions and within):
                last = number
        operation.transfers, self._pending = self._pending[:last], self._pending[last:]

    def _get(self, register: int, absent: int = 0) -> int:
        return self._short.get(register, absent)

    def _far(self, register: int) -> int:
        return self._long.get(register, 0)

    def _convolution(self, number: int, parameter: int, at: int) -> Operation:
        """A convolution, a depthwise one, a linear layer, or a product of two feature maps."""
        deep = number == _CONV
        operation = self._windowed("conv" if deep else "depthwise conv", at, deep=deep)
        height, width, depth = self._output().shape
        if deep and self._u85 and parameter & 1:  # the second input is the weights
            shape = 1, depth, operation.inputs[0].shape[2]
            second = self._input(_IFM2_PRECISION, _IFM2_REGION, shape)
            operation.kind, operation.inputs = "matmul", (*operation.inputs, second)
            return operation
        operation.weights = sum(map(self._far, _WEIGHT_LENGTHS[self._u85]))
        operation.scales = sum(map(self._far, _SCALE_LENGTHS[self._u85]))
        if self._u85 and self._get(_WEIGHT_FORMAT) >> 4 & 1:  # two of four weights are zero
            operation.macs //= 2
        operation.constants_region = self._get(_WEIGHT_REGION) & 7
        operation.passes = -(-height // operation.block[0]) * -(-width // operation.block[1])
        return operation

    def _pool(self, parameter: int, at: int) -> Operation:
        kind = _ARGMAX.get(parameter) or (
            _POOLS[parameter] if parameter < len(_POOLS) else f"pool {parameter}"
        )
        operation = self._windowed(kind, at, deep=kind == "reduce sum")
        # Without an instruction to copy or to look up, Vela averages windows of one element.
        if kind == "average pool" and operation.kernel == (1, 1) == operation.strides:
            operation.kind = "table" if operation.table else "copy"
            if self._get(_IFM_UPSCALE) & 3:
                operation.kind = "upscale"
        return operation

    def _windowed(self, kind: str, at: int, *, deep: bool) -> Operation:
        """An operation with a kernel; a deep one sums over the channels of its input."""
        kernel, strides, dilations = self._window()
        spans = [(n - 1) * by + 1 for n, by in zip(kernel, dilations, strict=True)]
        output = self._output()
        height, width, depth = output.shape
        upscale = 2 if self._get(_IFM_UPSCALE) & 3 else 1
        pads = (
            self._get(_PAD_TOP) + self._get(_PAD_BOTTOM),
            self._get(_PAD_LEFT) + self._get(_PAD_RIGHT),
        )
        rows, columns = (
            max(1, -(-((size - 1) * stride + span - pad) // upscale))
            for size, stride, span, pad in zip((height, width), strides, spans, pads, strict=True)
        )
        channels = self._get(_IFM_DEPTH) + 1 if deep else depth
        given = self._input(_IFM_PRECISION, _IFM_REGION, (rows, columns, channels))
        block = self._block(output.shape)
        return Operation(
            kind,
            at,
            kernel,
            strides,
            dilations,
            (given,),
            output,
            block,
            macs=prod(kernel) * prod(output.shape) * (channels if deep else 1),
            reads=self._reads(
                given.shape, output.shape, block, [*zip(strides, spans, strict=True)], deep
            ),
            table=self._get(_ACTIVATION) & 0x1F > 0,
            part_kernel=bool(self._get(_KERNEL_STRIDE) >> 2 & 1),
            accumulator=self._get(_ACC_FORMAT) & 3,
        )

    @staticmethod
    def _reads(
        given: Shape, output: Shape, block: Shape, window: Sequence[tuple[int, int]], deep: bool
    ) -> float:
        """Return how often the input is read, with the borders that blocks share.

        ``window`` has a stride and a length for each of the two directions.
        """
        times = float(-(-output[2] // block[2]) if deep else 1)
        for have, size, part, (stride, span) in zip(given, output, block, window, strict=False):
            needed = min(have, (min(part, size) - 1) * stride + span)
            times *= max(1.0, -(-size // part) * needed / have)
        return times

    def _window(self) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int]]:
        """Return the sizes of the kernel, the strides and the dilations; vertical first."""
        packed = self._get(_KERNEL_STRIDE)
        spans = self._get(_KERNEL_HEIGHT) + 1, self._get(_KERNEL_WIDTH) + 1
        strides = (
            (packed >> 1 & 1 | (packed >> 9 & 7) << 1) + 1,
            (packed & 1 | (packed >> 6 & 7) << 1) + 1,
        )
        dilations = (packed >> 4 & 1) + 1, (packed >> 3 & 1) + 1
        kernel = (spans[0] - 1) // dilations[0] + 1, (spans[1] - 1) // dilations[1] + 1
        return kernel, strides, dilations

    def _block(self, output: Shape) -> Shape:
        """Return the block of the output, at most the output itself."""
        height, width, depth = (
            min(self._get(register) + 1, size)
            for register, size in zip(
                (_BLOCK_HEIGHT, _BLOCK_WIDTH, _BLOCK_DEPTH), output, strict=True
            )
        )
        return height, width, depth

    def _elementwise(self, parameter: int, at: int) -> Operation:
        kind = _ELEMENTS.get(parameter & 0x3F, f"elementwise {parameter & 0x3F}")
        output = self._output()
        inputs = [self._broadcast(_IFM_PRECISION, _IFM_REGION, _IFM_BROADCAST, output.shape)]
        if kind not in _UNARY:
            inputs.append(
                self._broadcast(_IFM2_PRECISION, _IFM2_REGION, _IFM2_BROADCAST, output.shape)
            )
        return Operation(
            kind,
            at,
            inputs=tuple(inputs),
            output=output,
            block=self._block(output.shape),
            table=self._get(_ACTIVATION) & 0x1F > 0,
            part_kernel=bool(self._get(_KERNEL_STRIDE) >> 2 & 1),
            accumulator=self._get(_ACC_FORMAT) & 3,
        )

    def _broadcast(self, precision: int, region: int, register: int, output: Shape) -> FeatureMap:
        """Return an input of an elementwise operation: dimensions that it repeats have size 1."""
        mode = self._get(register) if self._u85 or register == _IFM2_BROADCAST else 0
        scalar = mode & (8 if self._u85 else 0x80)
        height, width, depth = (
            1 if scalar or mode & bit else size for bit, size in zip((1, 2, 4), output, strict=True)
        )
        found = self._input(precision, region, (height, width, depth))
        return found._replace(region=-1) if scalar else found

    def _resize(self, at: int) -> Operation:
        output = self._output()
        shape = self._get(_IFM_HEIGHT0) + 1, self._get(_IFM_WIDTH0) + 1, output.shape[2]
        given = self._input(_IFM_PRECISION, _IFM_REGION, shape)
        return Operation("resize", at, inputs=(given,), output=output)

    def _input(self, precision: int, region: int, shape: Shape) -> FeatureMap:
        value = self._get(precision)
        return self._map(shape, value & 1, 1 << (value >> 2 & 3), value, region)

    def _output(self) -> FeatureMap:
        shape = (
            self._get(_OFM_HEIGHT) + 1,
            self._get(_OFM_WIDTH) + 1,
            self._get(_OFM_DEPTH) + 1,
        )
        value = self._get(_OFM_PRECISION)
        return self._map(shape, value & 1, 1 << (value >> 1 & 3), value, _OFM_REGION)

    def _map(self, shape: Shape, signed: int, item: int, value: int, region: int) -> FeatureMap:
        # The U85 can pass a result on without memory: chained (2) or unused (3).
        inside = self._u85 and value >> 14 & 3 >= 2
        place = -1 if inside else self._get(region) & 7
        return FeatureMap(shape, _TYPES[bool(signed), item], item, bool(value >> 6 & 1), place)


def _damaged(what: str, at: int) -> FormatError:
    return FormatError(what, offset=at, field="cmd_data", hint=EXPORT_AGAIN)
