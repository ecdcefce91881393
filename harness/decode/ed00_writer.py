"""Writes a Trace as an ED00 file for ExecuTorch's Inspector."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import flatbuffers
import numpy as np
import numpy.typing as npt

from harness.decode import ed00_schema as ed
from harness.decode.ed00_schema import ValueType
from harness.errors import UsageError
from harness.records.trace import NO_CLOCK, NO_COUNT, Block, DebugValue, Kind, TensorValue, Trace

_SLOTS_TABLE, _SLOTS_RUN, _SLOTS_PROFILE, _SLOTS_DEBUG, _SLOTS_VALUE = 1, 4, 8, 6, 8
_COLUMNS = ["kind", "name", "chain", "instruction", "delegate_int", "delegate_str"]
_COLUMNS += ["start", "end", "metadata", "allocator", "size", "debug"]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Information of a Trace that its ED00 file does not contain: numbers of events.

    Attributes:
        allocations: Allocation events not written, including failed ones.
        failed_allocations: Failed ones among these; ETDump has no field for a failure, so the event
            would look like a success.
        lost_values: Debug events not written because bytes of their tensors are lost; Inspector
            would use other bytes instead.
        value_times: Debug events written without their time.
        allocation_details: Allocation events written without their time or offset.
        foreign_clocks: Events written with ticks of a clock domain other than 0; ETDump does not
            name clocks.
        hardware_counts: Events written without their counts of hardware counters.
        instants: Marks, samples, begins and ends of tasks and interrupts, which are not written.
        dropped_on_target: Events dropped by the target; ETDump has no field for any of these.
        dropped_declarations: Blocks and allocators not declared in the log.
        other_losses: Values and runs dropped by the target, and records that are missing or damaged
            (``Trace.losses``).
        filtered_on_target: Events not logged because of run options; ETDump has no field for them.
    """

    allocations: int = 0
    failed_allocations: int = 0
    lost_values: int = 0
    value_times: int = 0
    allocation_details: int = 0
    foreign_clocks: int = 0
    hardware_counts: int = 0
    instants: int = 0
    dropped_on_target: int = 0
    dropped_declarations: int = 0
    other_losses: int = 0
    filtered_on_target: int = 0


def left_out(trace: Trace, *, allocation_events: bool = True) -> LeftOut:
    """Count the information that ``write_ed00`` with the same arguments leaves out."""
    allocation = trace.kind == Kind.ALLOCATION
    debug = trace.kind == Kind.DEBUG
    written = _written(trace, allocation_events)
    detailed = (trace.clock != NO_CLOCK) | (trace.offset >= 0)
    foreign = (trace.clock != NO_CLOCK) & (trace.clock != 0)
    lost = trace.losses
    return LeftOut(
        allocations=int(np.count_nonzero(~written & allocation)),
        failed_allocations=int(np.count_nonzero(allocation & trace.failed)),
        lost_values=int(np.count_nonzero(~written & debug)),
        value_times=int(np.count_nonzero(written & debug & (trace.clock != NO_CLOCK))),
        allocation_details=int(np.count_nonzero(allocation & written & detailed)),
        foreign_clocks=int(np.count_nonzero(~allocation & foreign)),
        instants=int(np.count_nonzero(trace.kind >= Kind.TASK)),
        hardware_counts=int(np.count_nonzero(written & (trace.counts != NO_COUNT).any(axis=1))),
        dropped_on_target=lost.events,
        dropped_declarations=lost.blocks,
        other_losses=lost.values + lost.runs + lost.records + lost.damaged,
        filtered_on_target=trace.filtered_events,
    )


def write_ed00(trace: Trace, *, allocation_events: bool = True, comment: str = "") -> bytes:
    """Write ``trace`` as a size-prefixed ED00 file.

    Reading it again gives an equal trace, except for the parts counted by ``left_out``. Freed bytes
    (negative sizes) are written modulo 2**64, so that running sums stay right.

    Args:
        trace: Any trace; failed allocations and values with lost bytes are never written.
        allocation_events: Write allocation events. ExecuTorch's Inspector (1.5.1) refuses a file
            with any, so a file meant for it needs False.
        comment: Text to put into the file beside the dump. No field of the format refers to it, so
            readers skip it.

    Raises:
        UsageError: A value does not fit its field in the format.
    """
    _check_ranges(trace)
    return _DumpWriter(trace).file(_written(trace, allocation_events), comment)


def _written(trace: Trace, allocation_events: bool) -> npt.NDArray[np.bool_]:
    written: npt.NDArray[np.bool_] = (trace.kind == Kind.PROFILE) | (trace.kind == Kind.DEBUG)
    if allocation_events:
        written |= (trace.kind == Kind.ALLOCATION) & ~trace.failed
    # The last entry is for index -1, of an event without a value.
    lost = np.array([*(value.lost for value in trace.debug_values), False])
    # Events that were read from an ED00 file (no clock) are written unchanged.
    written &= ~lost[trace.debug] | (trace.clock == NO_CLOCK)
    return written


def _check_ranges(trace: Trace) -> None:
    profile = trace.kind == Kind.PROFILE
    for column, rows in (
        ("instruction", profile | (trace.kind == Kind.DEBUG)),
        ("delegate_int", profile | (trace.kind == Kind.DEBUG)),
        ("chain", profile),
        ("allocator", trace.kind == Kind.ALLOCATION),
    ):
        values = getattr(trace, column)
        bad = rows & ((values < -(2**31)) | (values >= 2**31))
        if bad.any():
            row = int(np.argmax(bad))
            raise UsageError(
                f"event {row}: {column} {values[row]} does not fit into 32 bits, its size in ED00"
            )
    if not 0 <= trace.version < 2**32:
        raise UsageError(f"ETDump version {trace.version} does not fit 32 bits")
    for block in trace.blocks:
        if not -(2**31) <= block.bundled_input_index < 2**31:
            raise UsageError(
                f"block {block.name!r}: bundled input index {block.bundled_input_index} "
                "does not fit 32 bits"
            )


class TableBuilder(flatbuffers.Builder):  # type: ignore[misc]
    """A builder that shares vtables only between tables of the same size.

    The flatbuffers package up to 25.9.23 shares a vtable between all tables with the same field
    offsets. The table size in the vtable can then be too small for the last field.
    """

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self._of_size: dict[int, dict[Any, int]] = {}

    def WriteVtable(self) -> Any:  # noqa: N802 - the name is the package's
        """Write the vtable of the table in progress, unless one of its size is there."""
        self.Prep(4, 0)  # what it does first
        size = self.Offset() + 4 - self.objectEnd
        self.vtables = self._of_size.setdefault(size, {})
        return super().WriteVtable()


class _DumpWriter:
    """Builds one file. FlatBuffers are written back to front: children before parents."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.builder: Any = TableBuilder(64 + 96 * len(trace))
        self.strings: dict[str, int] = {}
        self.metadata: dict[tuple[int, int], int] = {}
        self.values: dict[int, int] = {}
        # Python numbers, once: the builder wants those, and item access on arrays is slow.
        self.column = {name: getattr(trace, name).tolist() for name in _COLUMNS}

    def file(self, written: npt.NDArray[np.bool_], comment: str) -> bytes:
        runs = [self.run(block, written) for block in self.trace.blocks]
        vector = self.offsets(runs)
        if comment:
            self.builder.CreateString(comment)
        self.builder.StartObject(2)
        self.builder.PrependUint32Slot(ed.DumpTable.VERSION, self.trace.version, 0)
        self.builder.PrependUOffsetTRelativeSlot(ed.DumpTable.RUN_DATA, vector, 0)
        self.builder.FinishSizePrefixed(self.builder.EndObject(), ed.IDENTIFIER)
        return bytes(self.builder.Output())

    def run(self, block: Block, written: npt.NDArray[np.bool_]) -> int:
        rows = block.first + np.flatnonzero(written[block.first : block.first + block.count])
        events = self.offsets([self.event(row) for row in rows.tolist()])
        tables = [
            self.table(1, {ed.AllocatorTable.NAME: self.string(name)}) for name in block.allocators
        ]
        allocators = self.offsets(tables) if tables else 0
        name = self.string(block.name)
        self.builder.StartObject(_SLOTS_RUN)
        self.builder.PrependUOffsetTRelativeSlot(ed.RunTable.NAME, name, 0)
        self.builder.PrependInt32Slot(
            ed.RunTable.BUNDLED_INPUT_INDEX, block.bundled_input_index, -1
        )
        self.builder.PrependUOffsetTRelativeSlot(ed.RunTable.ALLOCATORS, allocators, 0)
        self.builder.PrependUOffsetTRelativeSlot(ed.RunTable.EVENTS, events, 0)
        return int(self.builder.EndObject())

    def event(self, row: int) -> int:
        kind = self.column["kind"][row]
        if kind == Kind.PROFILE:
            slot, table = ed.EventTable.PROFILE, self.profile(row)
        elif kind == Kind.ALLOCATION:
            slot, table = ed.EventTable.ALLOCATION, self.allocation(row)
        else:
            slot, table = ed.EventTable.DEBUG, self.debug(row)
        return self.table(3, {slot: table})

    def profile(self, row: int) -> int:
        column, builder = self.column, self.builder
        name = self.name(column["name"][row])
        delegate = self.name(column["delegate_str"][row])
        metadata, key = 0, tuple(column["metadata"][row])
        if key[1] >= 0:
            if key not in self.metadata:
                data = self.trace.metadata_bytes[key[0] : sum(key)]
                self.metadata[key] = builder.CreateByteVector(data)
            metadata = self.metadata[key]
        builder.StartObject(_SLOTS_PROFILE)
        builder.PrependUint64Slot(ed.Profile.START, column["start"][row], 0)
        builder.PrependUint64Slot(ed.Profile.END, column["end"][row], 0)
        builder.PrependUOffsetTRelativeSlot(ed.Profile.NAME, name, 0)
        builder.PrependInt32Slot(ed.Profile.CHAIN, column["chain"][row], 0)
        builder.PrependInt32Slot(ed.Profile.INSTRUCTION, column["instruction"][row], -1)
        builder.PrependInt32Slot(ed.Profile.DELEGATE_INT, column["delegate_int"][row], -1)
        builder.PrependUOffsetTRelativeSlot(ed.Profile.DELEGATE_STR, delegate, 0)
        builder.PrependUOffsetTRelativeSlot(ed.Profile.METADATA, metadata, 0)
        return int(builder.EndObject())

    def allocation(self, row: int) -> int:
        self.builder.StartObject(2)
        size = self.column["size"][row] & (2**64 - 1)
        self.builder.PrependUint64Slot(ed.Allocation.SIZE, size, 0)
        self.builder.PrependInt32Slot(ed.Allocation.ALLOCATOR, self.column["allocator"][row], 0)
        return int(self.builder.EndObject())

    def debug(self, row: int) -> int:
        column, builder = self.column, self.builder
        name = self.name(column["name"][row])
        delegate = self.name(column["delegate_str"][row])
        entry = self.debug_entry(column["debug"][row])
        builder.StartObject(_SLOTS_DEBUG)
        builder.PrependUint64Slot(ed.Debug.CHAIN, column["chain"][row] & (2**64 - 1), 0)
        builder.PrependInt32Slot(ed.Debug.INSTRUCTION, column["instruction"][row], -1)
        builder.PrependUOffsetTRelativeSlot(ed.Debug.ENTRY, entry, 0)
        builder.PrependInt32Slot(ed.Debug.DELEGATE_INT, column["delegate_int"][row], -1)
        builder.PrependUOffsetTRelativeSlot(ed.Debug.DELEGATE_STR, delegate, 0)
        builder.PrependUOffsetTRelativeSlot(ed.Debug.NAME, name, 0)
        return int(builder.EndObject())

    def debug_entry(self, index: int) -> int:
        if index < 0:
            return 0
        if index not in self.values:
            self.values[index] = self.value(self.trace.debug_values[index])
        return self.values[index]

    def value(self, value: DebugValue) -> int:
        """Write a Value table and the table of its content."""
        children = {}
        if value.value is not None:
            slot, table = self.content(value)
            children[slot] = table
        if value.output is not None:
            children[ed.ValueTable.OUTPUT] = self.boolean(value.output)
        self.builder.StartObject(_SLOTS_VALUE)
        self.builder.PrependInt8Slot(ed.ValueTable.TYPE, value.type, 0)
        for slot, table in children.items():
            self.builder.PrependUOffsetTRelativeSlot(slot, table, 0)
        return int(self.builder.EndObject())

    def content(self, value: DebugValue) -> tuple[ed.ValueTable, int]:
        """Write what the value holds; return its slot in Value, and its offset."""
        held: Any = value.value
        builder = self.builder
        match value.type:
            case ValueType.TENSOR:
                return ed.ValueTable.TENSOR, self.tensor(held)
            case ValueType.TENSOR_LIST:
                tensors = self.offsets([self.tensor(tensor) for tensor in held])
                return ed.ValueTable.TENSOR_LIST, self.table(
                    1, {ed.TensorListTable.TENSORS: tensors}
                )
            case ValueType.BOOL:
                return ed.ValueTable.BOOL, self.boolean(held)
        builder.StartObject(_SLOTS_TABLE)
        match value.type:
            case ValueType.INT:
                slot = ed.ValueTable.INT
                builder.PrependInt64Slot(ed.NumberTable.VALUE, held, 0)
            # Floats are always stored: the default 0.0 would swallow the sign of -0.0.
            case ValueType.FLOAT:
                slot = ed.ValueTable.FLOAT
                builder.PrependFloat32Slot(ed.NumberTable.VALUE, held, None)
            case ValueType.DOUBLE:
                slot = ed.ValueTable.DOUBLE
                builder.PrependFloat64Slot(ed.NumberTable.VALUE, held, None)
            case _:
                raise UsageError(f"ED00 has no field for a debug value of type {value.type}")
        return slot, int(builder.EndObject())

    def tensor(self, tensor: TensorValue) -> int:
        sizes = self.longs(tensor.sizes)
        strides = self.longs(tensor.strides)
        self.builder.StartObject(4)
        self.builder.PrependInt64Slot(ed.LoggedTensorTable.OFFSET, tensor.offset, 0)
        self.builder.PrependUOffsetTRelativeSlot(ed.LoggedTensorTable.SIZES, sizes, 0)
        self.builder.PrependUOffsetTRelativeSlot(ed.LoggedTensorTable.STRIDES, strides, 0)
        self.builder.PrependInt8Slot(ed.LoggedTensorTable.SCALAR_TYPE, tensor.scalar_type, 0)
        return int(self.builder.EndObject())

    def boolean(self, value: bool) -> int:
        self.builder.StartObject(_SLOTS_TABLE)
        self.builder.PrependBoolSlot(ed.NumberTable.VALUE, value, False)
        return int(self.builder.EndObject())

    def table(self, slots: int, children: dict[int, int]) -> int:
        """Write a table that holds nothing but references."""
        self.builder.StartObject(slots)
        for slot, offset in children.items():
            self.builder.PrependUOffsetTRelativeSlot(slot, offset, 0)
        return int(self.builder.EndObject())

    def offsets(self, items: Sequence[int]) -> int:
        """Write a vector of references."""
        self.builder.StartVector(4, len(items), 4)
        for item in reversed(items):
            self.builder.PrependUOffsetTRelative(item)
        return int(self.builder.EndVector())

    def longs(self, items: Sequence[int]) -> int:
        self.builder.StartVector(8, len(items), 8)
        for item in reversed(items):
            self.builder.PrependInt64(item)
        return int(self.builder.EndVector())

    def name(self, index: int) -> int:
        text = self.trace.text(index)
        return 0 if text is None else self.string(text)

    def string(self, text: str) -> int:
        """Write a string once; later uses share it."""
        if text not in self.strings:
            data = text.encode("utf-8", "surrogateescape")
            self.strings[text] = self.builder.CreateString(data)
        return self.strings[text]
