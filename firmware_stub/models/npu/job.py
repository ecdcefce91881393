"""A job: assembled for the NPU, read back, and executed as the machine would.

The format is in ``schema/npu.toml``. Needs NumPy only, so that tests without PyTorch can use it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from . import command_format as fmt
from .command_format import Op, Place

Matrix = npt.NDArray[np.float32]
DebugId = int | str

_HEADER = struct.Struct("<IBBHHHI")
_OPERAND = struct.Struct("<BxHHHI")
_COMMAND = struct.Struct("<BBHHHHHI")
_CONSTANT_ALIGNMENT = 16


@dataclass(frozen=True)
class Operand:
    """A matrix. ``offset`` counts bytes of scratch, or in a decoded job of the job."""

    place: Place
    rows: int
    columns: int
    argument: int = 0
    offset: int = 0
    data: bytes = b""

    @property
    def nbytes(self) -> int:
        return 4 * self.rows * self.columns


@dataclass(frozen=True)
class Command:
    """An op over operands, by number; NO_OPERAND where it has none."""

    op: Op
    out: int
    a: int
    b: int = fmt.NO_OPERAND
    c: int = fmt.NO_OPERAND
    relu: bool = False
    debug_id: DebugId = 0


@dataclass(frozen=True)
class Cost:
    macs: int
    nbytes: int
    cycles: int


@dataclass
class Job:
    operands: list[Operand] = field(default_factory=list)
    commands: list[Command] = field(default_factory=list)
    argument_count: int = 0
    scratch_size: int = 0

    def argument(self, rows: int, columns: int) -> int:
        """Append the delegate's next argument; return the operand's number."""
        self.argument_count += 1
        return self._add(Operand(Place.ARGUMENT, rows, columns, argument=self.argument_count - 1))

    def constant(self, data: Matrix) -> int:
        rows, columns = data.shape
        return self._add(Operand(Place.CONSTANT, rows, columns, data=data.tobytes()))

    def scratch(self, rows: int, columns: int) -> int:
        operand = Operand(Place.SCRATCH, rows, columns, offset=self.scratch_size)
        self.scratch_size += operand.nbytes
        return self._add(operand)

    def _add(self, operand: Operand) -> int:
        self.operands.append(operand)
        return len(self.operands) - 1

    def cost(self, command: Command, lanes: int = fmt.DEFAULT_LANES) -> Cost:
        """What the cost model says; see ``schema/npu.toml``."""
        numbers = [command.out, command.a, command.b, command.c]
        used = [self.operands[number] for number in numbers if number != fmt.NO_OPERAND]
        terms = self.operands[command.a].columns if command.op is Op.LINEAR else 1
        macs = self.operands[command.out].nbytes // 4 * terms
        nbytes = sum(operand.nbytes for operand in used)
        cycles = fmt.COMMAND_CYCLES + -(-macs // lanes) + -(-nbytes // fmt.BYTES_PER_CYCLE)
        return Cost(macs, nbytes, cycles)

    def encode(self) -> bytes:
        head = _HEADER.size + _OPERAND.size * len(self.operands)
        names_at = head + _COMMAND.size * len(self.commands)
        commands, names = b"", b""
        for command in self.commands:
            number, flags = command.debug_id, fmt.FLAG_RELU if command.relu else 0
            if isinstance(number, str):
                flags |= fmt.FLAG_NAMED
                text, number = number, names_at + len(names)
                names += text.encode() + b"\0"
            numbers = (command.out, command.a, command.b, command.c, 0)
            commands += _COMMAND.pack(command.op, flags, *numbers, number)
        operands, constants = b"", b""
        constants_at = -(-(names_at + len(names)) // _CONSTANT_ALIGNMENT) * _CONSTANT_ALIGNMENT
        for operand in self.operands:
            offset = operand.offset
            if operand.place is Place.CONSTANT:
                offset = constants_at + len(constants)
                constants += operand.data
            shape = (operand.rows, operand.columns)
            operands += _OPERAND.pack(operand.place, operand.argument, *shape, offset)
        counts = (self.argument_count, len(self.operands), len(self.commands), self.scratch_size)
        header = _HEADER.pack(fmt.MAGIC, fmt.VERSION, fmt.HEADER_SIZE, *counts)
        front = header + operands + commands + names
        return front + bytes(constants_at - len(front)) + constants


def decode(data: bytes) -> Job:
    """Read a job that is known to be sound."""
    _, _, _, arguments, operands, commands, scratch = _HEADER.unpack_from(data)
    job = Job(argument_count=arguments, scratch_size=scratch)
    at = _HEADER.size
    for _ in range(operands):
        place, argument, rows, columns, offset = _OPERAND.unpack_from(data, at)
        at += _OPERAND.size
        operand = Operand(Place(place), rows, columns, argument, offset)
        if operand.place is Place.CONSTANT:
            stored = data[offset : offset + operand.nbytes]
            operand = Operand(operand.place, rows, columns, argument, offset, stored)
        job.operands.append(operand)
    for _ in range(commands):
        op, flags, out, a, b, c, _, number = _COMMAND.unpack_from(data, at)
        at += _COMMAND.size
        debug_id: DebugId = number
        if flags & fmt.FLAG_NAMED:
            debug_id = data[number : data.index(b"\0", number)].decode()
        relu = bool(flags & fmt.FLAG_RELU)
        job.commands.append(Command(Op(op), out, a, b, c, relu, debug_id))
    return job


def execute(job: Job, inputs: Sequence[Matrix]) -> list[Matrix]:
    """Compute the outputs, equal to the device's to the last bit.

    Args:
        job: What to execute.
        inputs: The first arguments; the others are outputs.
    """
    held: dict[tuple[Place, int], Matrix] = {}
    for number, value in enumerate(inputs):
        held[Place.ARGUMENT, number] = value.astype(np.float32)

    def key(operand: Operand) -> tuple[Place, int]:
        argument = operand.place is Place.ARGUMENT
        return operand.place, operand.argument if argument else operand.offset

    def read(number: int) -> Matrix | None:
        if number == fmt.NO_OPERAND:
            return None
        operand = job.operands[number]
        if operand.place is Place.CONSTANT:
            value = np.frombuffer(operand.data, np.float32)
        else:
            value = held[key(operand)]
        return value.reshape(operand.rows, operand.columns)

    for command in job.commands:
        a, b, c = (read(number) for number in (command.a, command.b, command.c))
        value = _compute(command.op, a, b, c)
        if command.relu:
            value = _relu(value)
        held[key(job.operands[command.out])] = value
    return [held[Place.ARGUMENT, i] for i in range(len(inputs), job.argument_count)]


def _compute(op: Op, a: Matrix, b: Matrix | None, c: Matrix | None) -> Matrix:
    match op:
        case Op.LINEAR:
            total = np.zeros((a.shape[0], b.shape[0]), np.float32)
            total += 0 if c is None else c
            for k in range(a.shape[1]):
                total += a[:, k, None] * b[None, :, k]
            return total
        case Op.ADD:
            return a + b
        case Op.MULTIPLY:
            return a * b
        case Op.RELU:
            return _relu(a)


def _relu(value: Matrix) -> Matrix:
    return np.where(value > 0, value, np.float32(0))
