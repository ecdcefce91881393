"""Perfetto's format, read back by the messages it was written with."""

from __future__ import annotations

from typing import Any

import pytest

from harness.export.formats import export
from harness.export.timeline import draw
from tests.support.exports import delegated_trace

pytest.importorskip("google.protobuf")


@pytest.fixture(scope="module")
def packets() -> list[Any]:
    from harness.export.perfetto import MESSAGES
    from harness.export.protobuf import messages

    trace = messages("test", MESSAGES)["Trace"]()
    trace.ParseFromString(export(delegated_trace(), "perfetto").data)
    return list(trace.packet)


def test_only_the_first_packet_clears_the_state_of_the_one_sequence(packets: list[Any]) -> None:
    assert [packet.sequence_flags for packet in packets] == [1] + [2] * (len(packets) - 1)
    assert {packet.trusted_packet_sequence_id for packet in packets} == {1}


def test_every_slice_begins_and_ends_on_its_track(packets: list[Any]) -> None:
    drawing = draw(delegated_trace())
    begins = [packet for packet in packets if packet.track_event.type == 1]
    ends = [packet for packet in packets if packet.track_event.type == 2]
    others = [*drawing.gaps, *drawing.phases]
    assert len(begins) == len(ends) == len(drawing) + len(others) + 1
    times = sorted([0, *drawing.start.tolist(), *(item.start for item in others)])
    assert sorted(packet.timestamp for packet in begins) == times
    instants = [packet for packet in packets if packet.track_event.type == 3]
    flows = [flow for packet in instants for flow in packet.track_event.flow_ids]
    ended = [flow for packet in begins for flow in packet.track_event.terminating_flow_ids]
    assert sorted(flows) == sorted(ended) == list(range(1, len(drawing.flows) + 1))


def test_names_are_interned_before_they_are_used(packets: list[Any]) -> None:
    known: dict[int, str] = {}
    for packet in packets:
        known |= {entry.iid: entry.name for entry in packet.interned_data.event_names}
        if packet.track_event.type == 1:
            assert packet.track_event.name_iid in known
    assert {"DELEGATE_CALL #0", "delegate: [0]", "matmul", "2 runs lost"} <= set(known.values())


def test_clocks_of_the_target_are_provenance_only(packets: list[Any]) -> None:
    snapshots = [packet.clock_snapshot for packet in packets if packet.HasField("clock_snapshot")]
    clocks = [[clock.clock_id for clock in snapshot.clocks] for snapshot in snapshots]
    assert clocks == [[6, 128], [6, 129]]
    assert snapshots[0].clocks[1].timestamp == 2**32 - 9100
