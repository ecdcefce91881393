"""Reads a trace from the memory of a board through a debug probe; the firmware has no link.

Tracers are found by their mark (``schema/compact_log.toml``). A tracer has the counts of a log's
header, in their order; the beginning of the header exists only on the link, so it is made here.

The bundled runtime keeps a method where the firmware has declared it (`etd_method`). It has no mark
of its own, so that firmware pays nothing for it. It is recognized by the address of its tracer and
by what the model's file says: its name, the numbers of its values and instructions, its outputs.

The firmware is read as its linker wrote it: symbols, and bytes that the board must have in memory.
"""

from __future__ import annotations

import logging
import math
import os
import struct
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from harness.config.board import Board
from harness.decode import device_log_format as fmt
from harness.decode.device_log_chunks import join_debug_buffers
from harness.decode.device_log_format import MethodField, TensorField, TracerField, ValueField
from harness.decode.program import Dynamism, Method, Tensor
from harness.errors import (
    FormatError,
    ProbeError,
    TargetError,
    UsageError,
    WrongFirmwareError,
    did_you_mean,
)
from harness.extensions.probes.debug_probe import DebugProbe, halted, open_probe
from harness.files import open_regular
from harness.flash.image import read_image
from harness.link.messages import TensorInfo
from harness.link.transfers import MOST_REGION
from harness.plugins import require
from harness.records.result import TargetRecord, TraceSummary
from harness.records.trace import NO_CLOCK, NUMPY_TYPES, ClockDomain
from harness.runs.device import save_trace
from harness.runs.directory import RunDirectory, from_clock_domain
from harness.runs.request import ProbeRequest
from harness.runs.source import read_trace
from harness.target.selection import Chosen, hold_keys, port_key

if TYPE_CHECKING:
    from harness.records.trace import Trace


_SAMPLES: Final = 8
_SAMPLE_SIZE: Final = 32
"""So many pieces of this size tell one firmware from another: code moves when anything changes."""

_WRITABLE, _ALLOCATED = 1, 2  # SHF_WRITE, SHF_ALLOC
_THUMB: Final = ("EM_ARM",)


class Symbol(NamedTuple):
    """A symbol: its name, address and size in bytes."""

    name: str
    address: int
    size: int


class FirmwareElf:
    """An ELF file of firmware for a 32-bit little-endian CPU.

    Attributes:
        path: The file.
        variables: Symbols of variables, by address.
        functions: Symbols of functions, by address.
        samples: Pieces of its code and constants, which never change.
        build_id: GNU build id in hexadecimal; "" without one.
        is_thumb: Whether its CPU is an Arm of profile M.
    """

    def __init__(self, path: Path) -> None:
        """Read the file.

        Raises:
            UsageError: It cannot be read, or the package that reads it is missing.
            FormatError: It is not such an ELF file, or has no symbols.
        """
        self.path = path
        (reader, errors) = require(
            "probe", "reading an ELF file", "elftools.elf.elffile", "elftools.common.exceptions"
        )
        try:
            with os.fdopen(open_regular(path, follow=True), "rb") as file:
                elf = reader.ELFFile(file)
                if elf.elfclass != 32 or not elf.little_endian:
                    raise FormatError(f"{path} is not an ELF file of a 32-bit little-endian CPU")
                self.is_thumb = elf["e_machine"] in _THUMB
                found = list(self._read_symbols(elf))
                self.samples = tuple(_read_samples(elf))
                self.build_id = _read_build_id(elf)
        except OSError as error:
            raise UsageError(f"cannot read the firmware {path}: {error.strerror}") from error
        except errors.ELFError as error:
            raise FormatError(
                f"{path} is not an ELF file: {error}",
                hint="--elf takes the linker's output, not a .bin, .hex or .uf2 file",
            ) from error
        self.variables = sorted((s for kind, s in found if kind == "STT_OBJECT"), key=_address)
        self.functions = sorted((s for kind, s in found if kind == "STT_FUNC"), key=_address)

    def variable(self, name: str) -> Symbol:
        """Return a variable.

        Raises:
            UsageError: There is none of this name.
        """
        return self._named(name, self.variables, "variable")

    def function(self, name: str) -> Symbol:
        """Return a function; its address is that of its first instruction.

        Raises:
            UsageError: There is none of this name.
        """
        return self._named(name, self.functions, "function")

    def _named(self, name: str, symbols: list[Symbol], kind: str) -> Symbol:
        found = {symbol for symbol in symbols if symbol.name == name}
        if len(found) == 1:
            return found.pop()
        if found:
            places = ", ".join(f"{symbol.address:#x}" for symbol in sorted(found, key=_address))
            raise UsageError(
                f"{self.path} has {len(found)} {kind}s named {name!r}, at {places}",
                hint="give it a name of its own: static names may occur in several files",
            )
        others = self._names(symbols)
        hint = "an image that was stripped has no symbols; the linker may also have removed it"
        raise UsageError(
            f"{self.path} has no {kind} named {name!r}", hint=did_you_mean(name, others) + hint
        )

    @staticmethod
    def _names(symbols: list[Symbol]) -> set[str]:
        return {symbol.name for symbol in symbols}

    def _read_symbols(self, elf: Any) -> Iterator[tuple[str, Symbol]]:
        table = elf.get_section_by_name(".symtab")
        for symbol in table.iter_symbols() if table is not None else ():
            kind, address = symbol["st_info"]["type"], symbol["st_value"]
            if symbol["st_shndx"] == "SHN_UNDEF" or not symbol.name:
                continue
            if kind == "STT_FUNC" and self.is_thumb:
                address &= ~1  # the lowest bit says Thumb
            yield kind, Symbol(symbol.name, address, symbol["st_size"])

    @cached_property
    def names(self) -> set[str]:
        """All names of variables and functions."""
        return self._names(self.variables) | self._names(self.functions)


def _address(symbol: Symbol) -> int:
    return symbol.address


class CodeSample(NamedTuple):
    """A piece of code or constants: where it runs, where it is loaded, and its bytes.

    An image that copies code at its start has it at the first address only later.
    """

    address: int
    loaded_at: int
    data: bytes


def _read_samples(elf: Any) -> Iterator[CodeSample]:
    """Yield pieces, spread evenly over the sections that are loaded and not written."""
    sections = [
        section
        for section in elf.iter_sections()
        if section["sh_type"] == "SHT_PROGBITS"
        and section["sh_flags"] & (_ALLOCATED | _WRITABLE) == _ALLOCATED
        and section["sh_size"] >= _SAMPLE_SIZE
    ]
    segments = [each for each in elf.iter_segments() if each["p_type"] == "PT_LOAD"]
    total = sum(section["sh_size"] for section in sections)
    for section in sections:
        size = section["sh_size"]
        count = max(1, round(_SAMPLES * size / total))
        data = section.data()
        moved = next(
            (each["p_paddr"] - each["p_vaddr"] for each in segments if _contains(each, section)), 0
        )
        for number in range(count):
            at = (size - _SAMPLE_SIZE) * number // max(1, count - 1)
            address = section["sh_addr"] + at
            yield CodeSample(address, address + moved, data[at : at + _SAMPLE_SIZE])


def _contains(segment: Any, section: Any) -> bool:
    """Whether a segment has the bytes of a section."""
    begin = section["sh_offset"] - segment["p_offset"]
    return bool(begin >= 0 and begin + section["sh_size"] <= segment["p_filesz"])


def _read_build_id(elf: Any) -> str:
    section = elf.get_section_by_name(".note.gnu.build-id")
    notes = section.iter_notes() if section is not None else ()
    return next((str(note["n_desc"]) for note in notes if note["n_type"] == "NT_GNU_BUILD_ID"), "")


Read = Callable[[int, int], bytes]
"""Reads memory: address and number of bytes."""

_MAGIC: Final = fmt.TRACER_MAGIC.to_bytes(4, "little")
_ANY_VERSION: Final = _MAGIC[:3]
_POINTER_SIZE: Final = 4
_HEADER_BEGIN: Final = struct.Struct("<IBBHI")
_SEARCHED: Final = 4096
"""Bytes of a variable searched for a tracer or a method; longer ones are buffers."""
_WIDTHS: Final = {
    **dict.fromkeys((TracerField.NAME_COUNT, TracerField.NUMBER), 2),
    **dict.fromkeys((TracerField.FULL, TracerField.OPEN_COUNT), 1),
}
"""Bytes of the fields that are not 4 bytes wide."""
_SIZE: Final = max(field + _WIDTHS.get(field, 4) for field in TracerField)
"""Bytes of a tracer that hold these fields; it is longer."""


@dataclass(frozen=True, slots=True)
class TracerState:
    """The fields of a tracer at one moment; numbers of bytes and records, and pointers.

    Attributes:
        address: Address of the tracer.
        fields: Its fields.
        counts: The fields of the log's header, as they are in it and in the tracer.
    """

    address: int
    fields: dict[TracerField, int]
    counts: bytes

    @property
    def is_idle(self) -> bool:
        """Whether no event is open."""
        return not self.fields[TracerField.OPEN_COUNT]


MemoryLog = tuple[bytes, bytes]
"""A log as the link sends it, and the bytes of logged tensors."""


def check_firmware(elf: FirmwareElf, read: Read) -> None:
    """Compare pieces of the code and constants with the board's memory.

    Raises:
        WrongFirmwareError: They differ: the board runs other firmware.
    """
    for address, loaded_at, expected in elf.samples:
        places = dict.fromkeys((loaded_at, address))
        if all(read(place, len(expected)) != expected for place in places):
            build = f" (build id {elf.build_id})" if elf.build_id else ""
            raise WrongFirmwareError(
                f"the board does not run {elf.path}{build}: its memory differs at {address:#x}",
                hint="give --elf the file that was flashed, or flash it again",
            )


def find_tracers(elf: FirmwareElf, read: Read, symbol: str | None = None) -> list[int]:
    """Return the addresses of the tracers that the firmware has initialized.

    Args:
        elf: The firmware.
        read: Reads memory.
        symbol: A variable that is a tracer, contains one, or points to one; None for all variables
            that are or contain one within their first 4 KiB.

    Raises:
        UsageError: There is no such variable.
        TargetError: There is no tracer.
        FormatError: There is one of another version.
    """
    if symbol is not None:
        variable = elf.variable(symbol)
        tracers = list(_search(variable, read))
        if not tracers and variable.size == _POINTER_SIZE:
            target = int.from_bytes(read(variable.address, _POINTER_SIZE), "little")
            if target:
                tracers = list(_search(Symbol(symbol, target, _SIZE), read))
    else:
        candidates = {item for item in elf.variables if item.size >= _SIZE}
        tracers = sorted({at for item in candidates for at in _search(item, read)})
    if not tracers:
        where = f"in {symbol}" if symbol else "in any variable"
        raise TargetError(
            f"the board has no initialized tracer {where}",
            hint="check that the firmware has called etd_tracer_init; a tracer in allocated memory "
            "is found with --symbol and the name of a variable that points to it",
        )
    return tracers


def _search(variable: Symbol, read: Read) -> Iterator[int]:
    """Yield the addresses in a variable at which a tracer begins."""
    data = read(variable.address, min(variable.size, _SEARCHED))
    at = data.find(_ANY_VERSION)
    while at >= 0:
        address = variable.address + at
        if at + _SIZE <= len(data) and address % _POINTER_SIZE == 0:
            if data[at : at + 4] != _MAGIC:
                raise FormatError(
                    f"the tracer at {address:#x} ({variable.name}) is of version {data[at + 3]}, "
                    f"expected {_MAGIC[3]}",
                    hint="build the firmware with the tracer of this version of etdump-harness",
                )
            yield address
        at = data.find(_ANY_VERSION, at + 1)


def read_state(address: int, read: Read) -> TracerState:
    """Read the fields of a tracer.

    Raises:
        TargetError: They contradict each other: the memory was overwritten.
    """
    data = read(address, _SIZE)
    fields = {
        field: int.from_bytes(data[field : field + _WIDTHS.get(field, 4)], "little")
        for field in TracerField
    }
    used = fields[TracerField.RECORD_COUNT] * fmt.RECORD_SIZE + fields[TracerField.NAMES_SIZE]
    if (
        data[: len(_MAGIC)] != _MAGIC
        or used > fields[TracerField.CAPACITY]
        or fields[TracerField.DEBUG_USED] > fields[TracerField.DEBUG_CAPACITY]
        or max(used, fields[TracerField.DEBUG_USED]) > MOST_REGION
    ):
        raise TargetError(
            f"the tracer at {address:#x} is damaged: its log has more bytes than its buffer",
            hint="the firmware may write beyond a variable, or was reset",
        )
    end = TracerField.RECORD_COUNT + fmt.HEADER_SIZE - _HEADER_BEGIN.size
    return TracerState(address, fields, data[TracerField.RECORD_COUNT : end])


def read_memory_log(state: TracerState, read: Read) -> MemoryLog:
    """Read the log of a tracer that does not change meanwhile."""
    field = state.fields
    buffer, capacity = field[TracerField.BUFFER], field[TracerField.CAPACITY]
    names = field[TracerField.NAMES_SIZE]
    flags = fmt.FLAG_FULL * bool(field[TracerField.FULL])
    begin = _HEADER_BEGIN.pack(fmt.MAGIC, fmt.VERSION, fmt.RECORD_SIZE, fmt.HEADER_SIZE, flags)
    header = begin + state.counts
    records = _bytes(read, buffer, field[TracerField.RECORD_COUNT] * fmt.RECORD_SIZE)
    text = _bytes(read, buffer + capacity - names, names)
    debug = _bytes(read, field[TracerField.DEBUG], field[TracerField.DEBUG_USED])
    return header + records + text, debug


def _bytes(read: Read, address: int, size: int) -> bytes:
    return read(address, size) if size else b""


def have_settled(before: Sequence[TracerState], now: Sequence[TracerState]) -> bool:
    """Whether the logs are complete: no event is open, and nothing has changed between the two.

    The tracer changes its counts before it writes or moves a record. So a log with the same counts
    some time later was not being changed at the second moment.
    """
    return list(before) == list(now) and all(state.is_idle for state in now)


_METHOD_SIZE = MethodField.OUTPUT_COUNT + 4
_TENSOR_SIZE = TensorField.DTYPE + 1


def find_methods(
    elf: FirmwareElf, read: Read, tracers: Collection[int], method: Method
) -> list[int]:
    """Return the addresses at which this method is loaded and traced.

    Args:
        elf: The firmware.
        read: Reads memory.
        tracers: Addresses of the tracers.
        method: The method, from the model's file.
    """
    candidates = {item for item in elf.variables if item.size >= _METHOD_SIZE}
    addresses = set()
    for variable in candidates:
        data = read(variable.address, min(variable.size, _SEARCHED))
        for at in range(-variable.address % 4, len(data) - _METHOD_SIZE + 1, 4):
            if _word(data, at) in tracers and _is_method(data[at:], read, method):
                addresses.add(variable.address + at)
    return sorted(addresses)


def has_readable_outputs(method: Method) -> bool:
    """Whether all outputs of a method are tensors of types that arrays can have."""
    declared = [method.values[number] for number in method.outputs]
    return all(isinstance(one, Tensor) and one.scalar_type in NUMPY_TYPES for one in declared)


def read_outputs(address: int, read: Read, method: Method) -> list[tuple[TensorInfo, bytes]]:
    """Return type, shape and elements of each output of the method at an address.

    They are those of the last execution.

    Args:
        address: Its address.
        read: Reads memory.
        method: The method, from the model's file; with readable outputs.

    Raises:
        TargetError: An output is not as the model's file has it: the memory was overwritten.
    """
    values = _word(read(address, _METHOD_SIZE), MethodField.VALUES)
    return [
        _read_tensor(values + number * fmt.METHOD_VALUE_SIZE, read, method, number)
        for number in method.outputs
    ]


def _is_method(data: bytes, read: Read, method: Method) -> bool:
    counts = {
        MethodField.VALUE_COUNT: len(method.values),
        MethodField.INSTRUCTION_COUNT: sum(map(len, method.chains)),
        MethodField.INPUT_COUNT: len(method.inputs),
        MethodField.OUTPUT_COUNT: len(method.outputs),
    }
    if any(_word(data, field) != count for field, count in counts.items()):
        return False
    name = method.name.encode() + b"\0"
    outputs = b"".join(number.to_bytes(4, "little") for number in method.outputs)
    try:
        return (
            read(_word(data, MethodField.NAME), len(name)) == name
            and read(_word(data, MethodField.OUTPUTS), len(outputs)) == outputs
        )
    except ProbeError:  # pointers to nowhere
        return False


def _read_tensor(value: int, read: Read, method: Method, number: int) -> tuple[TensorInfo, bytes]:
    declared = method.values[number]
    field = read(value, fmt.METHOD_VALUE_SIZE)
    if field[ValueField.KIND] != fmt.METHOD_VALUE_TENSOR or not isinstance(declared, Tensor):
        raise TargetError(f"value {number} of the method is not a tensor in the board's memory")
    tensor = read(_word(field, ValueField.TENSOR), _TENSOR_SIZE)
    rank, element = len(declared.sizes), np.dtype(NUMPY_TYPES[declared.scalar_type]).itemsize
    sizes = tuple(_words(tensor, TensorField.SIZES, rank))
    order = tuple(tensor[TensorField.DIM_ORDER :][:rank])
    nbytes = _word(tensor, TensorField.NBYTES)
    if (
        (tensor[TensorField.NDIM], tensor[TensorField.DTYPE]) != (rank, declared.scalar_type)
        or order != declared.dim_order
        or not fits_declared(sizes, declared)
        or nbytes != math.prod(sizes) * element
        or nbytes > _word(tensor, TensorField.CAPACITY)
    ):
        raise TargetError(
            f"output {method.outputs.index(number)} is damaged: the board's memory does not have "
            "its type and shape",
            hint="the firmware may write beyond a variable",
        )
    data = read(_word(tensor, TensorField.DATA), nbytes) if nbytes else b""
    info = TensorInfo(scalar_type=declared.scalar_type, nbytes=nbytes, sizes=sizes, dim_order=order)
    return info, data


def fits_declared(sizes: Sequence[int], declared: Tensor) -> bool:
    """Whether a tensor can have these sizes."""
    if declared.dynamism == Dynamism.STATIC:
        return sizes == declared.sizes
    bounded = declared.dynamism == Dynamism.BOUND
    pairs = zip(sizes, declared.sizes, strict=True)
    return not bounded or all(size <= bound for size, bound in pairs)


def _word(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little")


def _words(data: bytes, at: int, count: int) -> Iterator[int]:
    return (_word(data, at + 4 * index) for index in range(count))


_log = logging.getLogger(__name__)

_BETWEEN_S: Final = 0.05
"""Time between two looks at a tracer: longer than it takes to move the records of a log."""


class MemoryTracers:
    """The tracers of a board, read through a debug probe."""

    def __init__(self, probe: DebugProbe, wanted: ProbeRequest, elf: FirmwareElf) -> None:
        self._probe, self._wanted, self._elf = probe, wanted, elf
        self._addresses: Sequence[int] = ()
        self._states: list[TracerState] = []

    def find(self) -> None:
        """Compare the firmware, and find the tracers; the board is halted.

        Raises:
            UsageError: The firmware has no tracer, or no such variable.
            TargetError: The board runs other firmware, or has not initialized a tracer.
        """
        check_firmware(self._elf, self._probe.read)
        self._addresses = find_tracers(self._elf, self._probe.read, self._wanted.symbol)

    def states(self) -> list[TracerState]:
        """Return the fields of all tracers; the board is halted."""
        if not self._addresses:
            self.find()
        self._states = [read_state(at, self._probe.read) for at in self._addresses]
        return self._states

    def capacity(self, field: TracerField) -> int:
        """Return the sum of a size over all tracers, bytes, as read last."""
        return sum(state.fields[field] for state in self._states)

    def read(self, states: Sequence[TracerState]) -> MemoryLog:
        """Read the logs of all tracers as one; the board is halted."""
        logs = [read_memory_log(state, self._probe.read) for state in states]
        image = b"".join(image for image, _ in logs)
        return image, join_debug_buffers([debug for _, debug in logs])

    def read_settled(self, timeout_s: float) -> MemoryLog:
        """Read the logs once no event is open and they do not change; the board runs between looks.

        Raises:
            UnsettledError: That did not happen in time.
        """
        deadline = time.monotonic() + timeout_s
        before: list[TracerState] = []
        while True:
            with halted(self._probe):
                states = self.states()
                if have_settled(before, states):
                    return self.read(states)
                if time.monotonic() > deadline:
                    raise UnsettledError(self.read(states), timeout_s)
            before = states
            time.sleep(_BETWEEN_S)

    def read_outputs(self, method: Method) -> list[tuple[TensorInfo, bytes]]:
        """Read the outputs of a method's last execution; the board is halted.

        Raises:
            UnreadOutputsError: The bundled runtime did not execute it, not in a variable, or an
                output is not a tensor.
            TargetError: Memory of an output was overwritten.
        """
        if not has_readable_outputs(method):
            raise UnreadOutputsError(f"an output of {method.name} is not a tensor")
        methods = find_methods(self._elf, self._probe.read, self._addresses, method)
        if len(methods) != 1:
            raise UnreadOutputsError(
                f"{method.name} of this model is loaded in {len(methods)} variables "
                "of the firmware",
                hint="keep its etd_method in a static variable; outputs of other runtimes than "
                "the bundled one cannot be read",
            )
        return read_outputs(methods[0], self._probe.read, method)

    def read_at(self, function: str, count: int, timeout_s: float) -> MemoryLog:
        """Let the board run until it has entered a function ``count`` times, and read the logs.

        Args:
            function: Name of the function.
            count: Number of times.
            timeout_s: Longest wait for each time, seconds.

        Raises:
            TargetError: It was not reached in time, or while an event was open.
        """
        address = self._elf.function(function).address
        for number in range(count):
            _log.info("running to %s at %#x, %d of %d", function, address, number + 1, count)
            self._probe.run_to(address, timeout_s)
        states = self.states()
        if not all(state.is_idle for state in states):
            raise TargetError(
                f"{function} was reached while an execution was under way",
                hint="name a function with --until that is called after the execution",
            )
        return self.read(states)


class UnreadOutputsError(TargetError):
    """The outputs of a model are not found in the memory of a board."""


class UnsettledError(TargetError):
    """The log of a board kept changing, or an event stayed open.

    Attributes:
        image: The log at the last look; its last records may be incomplete.
    """

    def __init__(self, log: MemoryLog, timeout_s: float) -> None:
        super().__init__(
            f"the log did not settle within {timeout_s:g} s: an execution is under way, or one "
            "follows the other",
            hint="name a function with --until at which the log is complete; if the board hangs, "
            "`etharness postmortem` shows where",
        )
        self.image = log[0]


@contextmanager
def probe_of(chosen: Chosen, board: Board, purpose: str) -> Iterator[tuple[Chosen, DebugProbe]]:
    """Lease the unit and the probe, and connect; the board runs on at the end.

    Raises:
        BusyError: Another process holds one of them.
        ProbeError: There is no connection.
    """
    timeout_s = board.deadlines.unit_s
    with chosen.held(reason=purpose, timeout_s=timeout_s) as chosen:
        port = str(chosen.port)
        with hold_keys([port_key(port)], timeout_s, reason=purpose), open_probe(port) as probe:
            yield chosen, probe


def decode_log(log: MemoryLog, board: Board, directory: RunDirectory) -> tuple[Trace, TraceSummary]:
    """Decode and save a log. Only the first of its clocks has a known rate, from the board file.

    The description of the others is in HELLO, which a firmware without a link does not have.
    """
    timer = board.timer
    first = ClockDomain(
        timer.source,
        Fraction(timer.hz),
        timer.bits,
        False,
        timer.monotonic,
        timer.tolerance_ppm,
        timer.wander_ppm,
    )
    image, debug = log
    numbers = read_trace(image, ()).clock
    count = int(numbers[numbers != NO_CLOCK].max(initial=0)) + 1
    others = (ClockDomain(f"clock {number}", None, 32) for number in range(1, count))
    return save_trace(image, debug, (first, *others), directory)


def target_in_memory(
    board: Board, elf: FirmwareElf, trace: Trace, tracers: MemoryTracers
) -> TargetRecord:
    """Return the record of a board that describes itself by its file and its firmware only."""
    return TargetRecord(
        board=board.name,
        cpu=board.cpu,
        build_id=read_image(elf.path).build_id() or elf.build_id,
        link_version=0,
        mtu=0,
        clocks=tuple(from_clock_domain(clock) for clock in trace.clocks),
        model_capacity=0,
        arena_capacity=0,
        input_capacity=0,
        trace_capacity=tracers.capacity(TracerField.CAPACITY),
        debug_capacity=tracers.capacity(TracerField.DEBUG_CAPACITY),
        probe_ticks=0,
        probe_pairs=0,
        operators=0,
    )


def disturbance(probe: DebugProbe) -> dict[str, int]:
    """Return what the probe did to the board, for the result: counts, bytes and microseconds."""
    done = probe.statistics
    return {
        "probe_requests": done.requests,
        "probe_bytes": done.bytes_read,
        "halts": done.halts,
        "halted_us": round(done.halted_s * 1e6),
        "longest_halt_us": round(done.longest_halt_s * 1e6),
    }
