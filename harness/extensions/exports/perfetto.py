"""Perfetto's own trace format: named tracks, exact nanoseconds, counters with units, flows.

The process is the run. It has a track of the run, one of its executions, one per tracer, one for
each delegate call, one per task and interrupt, one of marks, and counters. None is a thread,
because the UI folds threads when a trace opens.
An arrow leads from a delegate call to each event of the delegate. Perfetto draws it from the end of
a slice, so it begins in an instant at the start of the call: from the call itself it would go back
in time.

Every packet is of one sequence. Its clock is that on which the slices are drawn; those of the
target are arguments of the run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

from harness.export.formats import Exported, ExportFormat, Request
from harness.extensions.exports.timeline import (
    WITH_WRAPPERS,
    WRAPPER_FLAVOURS,
    Drawing,
    draw,
    process_labels,
    process_name,
)
from harness.formatting import escaped
from harness.plugins import require
from harness.records.result import RunIdentity
from harness.records.trace import Trace

MESSAGES: Final = {
    "Trace": {"packet": (1, "*TracePacket")},
    "TracePacket": {
        "timestamp": (8, "uint64"),
        "trusted_packet_sequence_id": (10, "uint32"),
        "sequence_flags": (13, "uint32"),
        "track_event": (11, "TrackEvent"),
        "interned_data": (12, "InternedData"),
        "track_descriptor": (60, "TrackDescriptor"),
    },
    "TrackDescriptor": {
        "uuid": (1, "uint64"),
        "name": (2, "string"),
        "process": (3, "ProcessDescriptor"),
        "parent_uuid": (5, "uint64"),
        "counter": (8, "CounterDescriptor"),
    },
    "ProcessDescriptor": {
        "pid": (1, "int32"),
        "process_name": (6, "string"),
        "process_labels": (8, "*string"),
    },
    "CounterDescriptor": {"unit": (3, "int32")},
    "TrackEvent": {
        "category_iids": (3, "*uint64"),
        "debug_annotations": (4, "*DebugAnnotation"),
        "type": (9, "int32"),
        "name_iid": (10, "uint64"),
        "track_uuid": (11, "uint64"),
        "counter_value": (30, "int64"),
        "double_counter_value": (44, "double"),
        "flow_ids": (47, "*fixed64"),
        "terminating_flow_ids": (48, "*fixed64"),
    },
    "DebugAnnotation": {
        "name_iid": (1, "uint64"),
        "uint_value": (3, "uint64"),
        "int_value": (4, "int64"),
        "string_value": (6, "string"),
        "string_value_iid": (17, "uint64"),
    },
    "InternedData": {
        "event_categories": (1, "*Interned"),
        "event_names": (2, "*Interned"),
        "debug_annotation_names": (3, "*Interned"),
        "debug_annotation_string_values": (29, "*InternedString"),
    },
    "Interned": {"iid": (1, "uint64"), "name": (2, "string")},
    "InternedString": {"iid": (1, "uint64"), "str": (2, "bytes")},
}
"""The subset of Perfetto's messages that is written; enums are integers."""

_SEQUENCE: Final = 1
_STATE_CLEARED, _NEEDS_STATE = 1, 2  # flags of a packet
BEGIN, END, _INSTANT, _COUNTER = 1, 2, 3, 4  # types of an event
_UNITS: Final = {
    "uA": 0,
    "value": 0,
    "count": 2,
    "bytes": 3,
}  # of a counter; 0 says it in the name only
_PID: Final = 1
PROCESS: Final = 1  # uuid of the process's track; those of the others follow
_VALUES: Final = "debug_annotation_string_values"
_UNIQUE: Final = frozenset({"metadata"})  # texts that seldom repeat
_MARKS: Final = "marks"
"""Name of the track of marks."""

_SUBMIT: Final = "submit"
"""Name of the instant in a delegate call from which arrows lead to the delegate's events."""


def write_perfetto(trace: Trace, request: Request) -> Exported:
    """Return the file, with notes on data of the trace that it lacks.

    Raises:
        UsageError: The rate of the tracer's clock is unknown, or protobuf is not installed.
    """
    shown = request.flavour == WITH_WRAPPERS
    drawing = draw(trace, request.method, request.energy, request.symbols, wrappers=shown)
    writer = _DrawingWriter(drawing)
    writer.descriptors(request.identity)
    writer.phases(request.identity)
    writer.slices()
    writer.counters()
    writer.instants()
    return Exported(b"".join(writer.chunks), drawing.notes)


PERFETTO: Final = ExportFormat(
    "Perfetto's own format, for ui.perfetto.dev (.pftrace).", write_perfetto, WRAPPER_FLAVOURS
)


class PacketWriter:
    """Collects packets; each is serialized when complete."""

    def __init__(self) -> None:
        self.types = messages("etdump_harness.perfetto", MESSAGES)
        self.chunks: list[bytes] = []
        self.tables: dict[str, dict[str, int]] = {}
        self.new: Any = None  # texts first used by the current packet

    def packet(self, time: int | None = None, **content: Any) -> None:
        """Add a packet, with the texts that it is the first to use."""
        packet = self.types["TracePacket"](trusted_packet_sequence_id=_SEQUENCE, **content)
        packet.sequence_flags = _NEEDS_STATE if self.chunks else _STATE_CLEARED
        if time is not None:
            packet.timestamp = time
        if self.new is not None:
            packet.interned_data.CopyFrom(self.new)
            self.new = None
        trace = self.types["Trace"]()
        trace.packet.append(packet)
        self.chunks.append(trace.SerializeToString())

    def event(self, kind: int, track: int, **content: Any) -> Any:
        """Return an event without a name."""
        return self.types["TrackEvent"](type=kind, track_uuid=track, **content)

    def interned(self, field: str, text: str) -> int:
        """Return the id of a text in a field of InternedData; its first user's packet has it."""
        table = self.tables.setdefault(field, {})
        if text not in table:
            table[text] = len(table) + 1
            if self.new is None:
                self.new = self.types["InternedData"]()
            content = {"str": text.encode()} if field == _VALUES else {"name": text}
            getattr(self.new, field).add(iid=table[text], **content)
        return table[text]

    def named(self, kind: int, track: int, name: str, category: str) -> Any:
        """Return an event that has a name and a category."""
        event = self.event(kind, track, name_iid=self.interned("event_names", name))
        event.category_iids.append(self.interned("event_categories", category))
        return event

    def annotate(self, event: Any, arguments: Mapping[str, int | str]) -> None:
        """Add arguments to an event."""
        for key, value in arguments.items():
            iid = self.interned("debug_annotation_names", key)
            annotation = event.debug_annotations.add(name_iid=iid)
            if isinstance(value, int):
                setattr(annotation, "int_value" if value < 0 else "uint_value", value)
            elif key in _UNIQUE:
                annotation.string_value = value
            else:
                annotation.string_value_iid = self.interned(_VALUES, value)

    def process(self, identity: RunIdentity) -> None:
        """Describe the process, which is the run."""
        process: dict[str, Any] = {"pid": _PID, "process_name": process_name(identity)}
        process["process_labels"] = process_labels(identity)
        self.packet(track_descriptor={"uuid": PROCESS, "process": process})

    def child(self, uuid: int, **content: Any) -> None:
        """Describe a track below the process; the UI sorts them by name."""
        self.packet(track_descriptor={"uuid": uuid, "parent_uuid": PROCESS, **content})


class _DrawingWriter(PacketWriter):
    """Writes a drawing."""

    def __init__(self, drawing: Drawing) -> None:
        super().__init__()
        self.drawing = drawing
        self.first_counter = PROCESS + 1 + len(drawing.tracks)
        self.first_gap = self.first_counter + len(drawing.counters)
        self.run_track = self.first_gap + len(drawing.gaps)
        names = dict.fromkeys(phase.track for phase in drawing.phases)
        self.phase_tracks = {
            name: uuid for uuid, name in enumerate(names, start=self.run_track + 1)
        }
        found = [span.name for span in drawing.contexts] + [_MARKS] * bool(drawing.marks)
        first = self.run_track + 1 + len(names)
        self.instant_tracks = {
            name: uuid for uuid, name in enumerate(dict.fromkeys(found), start=first)
        }

    def descriptors(self, identity: RunIdentity) -> None:
        """Write the tracks' names and the snapshots of the target's clocks."""
        self.process(identity)
        if len(self.drawing):
            self.child(self.run_track, name="run")
        for name, uuid in self.phase_tracks.items():
            self.child(uuid, name=name)
        for uuid, track in enumerate(self.drawing.tracks, start=PROCESS + 1):
            self.child(uuid, name=track.name)
        for uuid, counter in enumerate(self.drawing.counters, start=self.first_counter):
            self.child(uuid, name=counter.title, counter={"unit": _UNITS[counter.unit]})
        for uuid, _ in enumerate(self.drawing.gaps, start=self.first_gap):
            self.child(uuid, name="losses")
        for name, uuid in self.instant_tracks.items():
            self.child(uuid, name=name)

    def phases(self, identity: RunIdentity) -> None:
        """Write the run, as long as everything in it, and below it loading and executions."""
        if not len(self.drawing):
            return
        run = self.named(BEGIN, self.run_track, process_name(identity), "run")
        known = {name: escaped(text) for name, text in identity.texts().items() if text}
        self.annotate(run, known | dict(_clocks(self.drawing)))
        last = [self.drawing.end, *(c.time for c in self.drawing.counters if c.unit == "bytes")]
        end = max(int(times.max()) for times in last if len(times))
        self.packet(0, track_event=run)
        self.packet(end, track_event=self.event(END, self.run_track))
        for phase in self.drawing.phases:
            track = self.phase_tracks[phase.track]
            category = "loading" if phase.name == "loading" else "execution"
            begin = self.named(BEGIN, track, phase.name, category)
            self.packet(phase.start, track_event=begin)
            self.packet(phase.end, track_event=self.event(END, track))

    def slices(self) -> None:
        """Write begin and end of every slice, track by track, nested as drawn."""
        flows = _flow_ids(self.drawing)
        for track in range(len(self.drawing.tracks)):
            uuid = PROCESS + 1 + track
            open_: list[int] = []
            for number in np.flatnonzero(self.drawing.track == track).tolist():
                while len(open_) > self.drawing.depth[number]:
                    self.end(uuid, open_.pop())
                self.begin(uuid, number, *flows.get(number, ((), ())))
                open_.append(number)
            while open_:
                self.end(uuid, open_.pop())
        for uuid, gap in enumerate(self.drawing.gaps, start=self.first_gap):
            self.packet(gap.start, track_event=self.named(BEGIN, uuid, gap.name, "loss"))
            self.packet(gap.end, track_event=self.event(END, uuid))

    def begin(
        self, uuid: int, number: int, outgoing: tuple[int, ...], incoming: tuple[int, ...]
    ) -> None:
        title, start = self.drawing.titles[number], int(self.drawing.start[number])
        event = self.named(BEGIN, uuid, title.text, title.kind)
        event.terminating_flow_ids.extend(incoming)
        self.annotate(event, self.drawing.arguments(number))
        self.packet(start, track_event=event)
        if outgoing:
            submit = self.named(_INSTANT, uuid, _SUBMIT, title.kind)
            submit.flow_ids.extend(outgoing)
            self.packet(start, track_event=submit)

    def end(self, uuid: int, number: int) -> None:
        self.packet(int(self.drawing.end[number]), track_event=self.event(END, uuid))

    def counters(self) -> None:
        """Write the value of each counter after each change."""
        for uuid, counter in enumerate(self.drawing.counters, start=self.first_counter):
            for time, value in zip(counter.time.tolist(), counter.value.tolist(), strict=True):
                key = "double_counter_value" if isinstance(value, float) else "counter_value"
                self.packet(time, track_event=self.event(_COUNTER, uuid, **{key: value}))

    def instants(self) -> None:
        """Write the marks, and when each task and each interrupt had the core."""
        for mark in self.drawing.marks:
            event = self.named(_INSTANT, self.instant_tracks[_MARKS], mark.name, "mark")
            self.packet(mark.start, track_event=event)
        for span in self.drawing.contexts:
            track = self.instant_tracks[span.name]
            self.packet(span.start, track_event=self.named(BEGIN, track, span.name, "context"))
            self.packet(span.end, track_event=self.event(END, track))


def _flow_ids(drawing: Drawing) -> dict[int, tuple[tuple[int, ...], tuple[int, ...]]]:
    """Return per slice the flows that begin and end in it."""
    outgoing: dict[int, list[int]] = {}
    incoming: dict[int, tuple[int, ...]] = {}
    for flow, (call, event) in enumerate(drawing.flows, start=1):
        outgoing.setdefault(call, []).append(flow)
        incoming[event] = (flow,)
    return {
        number: (tuple(outgoing.get(number, ())), incoming.get(number, ()))
        for number in outgoing.keys() | incoming.keys()
    }


def _clocks(drawing: Drawing) -> Iterator[tuple[str, str]]:
    """Yield rate and width of each of the target's clocks, and its reading when it is first drawn.

    Clock snapshots say that, too, but Perfetto opens a trace that has them with its tracks folded.
    """
    clocks = drawing.trace.clock[drawing.row]
    for number, clock in enumerate(drawing.trace.clocks):
        slices = np.flatnonzero(clocks == number)
        if len(slices):
            first = int(slices[0])
            reading = int(drawing.trace.start[drawing.row[first]])
            text = f"{clock.hz} Hz, {clock.bits} bits, {reading} at {int(drawing.start[first])} ns"
            yield f"clock_{escaped(clock.name)}", text


Fields = Mapping[str, tuple[int, str]]
"""Number and type by name; ``*`` before the type: repeated. Types are scalars or messages."""


def messages(package: str, spec: Mapping[str, Fields]) -> dict[str, Any]:
    """Return a class for each message of ``spec``, in a pool of their own.

    Unset fields differ from fields with their default value, as in proto2.

    Raises:
        UsageError: protobuf is not installed.
    """
    descriptor_pb2, descriptor_pool, message_factory = require(
        "export",
        "this format",
        "google.protobuf.descriptor_pb2",
        "google.protobuf.descriptor_pool",
        "google.protobuf.message_factory",
    )
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name=f"{package}.proto", package=package, syntax="proto2"
    )
    for name, fields in spec.items():
        message = file.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            scalar = kind.lstrip("*")
            entry = message.field.add(name=field, number=number)
            entry.label = kinds.LABEL_REPEATED if kind[0] == "*" else kinds.LABEL_OPTIONAL
            if scalar in spec:
                entry.type, entry.type_name = kinds.TYPE_MESSAGE, f".{package}.{scalar}"
            else:
                entry.type = kinds.Type.Value(f"TYPE_{scalar.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}"))
        for name in spec
    }
