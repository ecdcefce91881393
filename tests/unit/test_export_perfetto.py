"""Perfetto's format, read back by the messages it was written with."""

from __future__ import annotations

from typing import Any

import pytest

from harness import RunIdentity, draw, export_trace
from tests.support.exports import delegated_trace, named

pytest.importorskip("google.protobuf")


IDENTITY = RunIdentity(board="native", model="kws.pte", firmware="build-1", commit="c0ffee")


def parsed(data: bytes) -> list[Any]:
    from harness.extensions.exports.perfetto import MESSAGES, messages

    return list(messages("test", MESSAGES)["Trace"].FromString(data).packet)


@pytest.fixture(scope="module")
def packets() -> list[Any]:
    return parsed(export_trace(delegated_trace(), "perfetto").data)


def test_only_the_first_packet_clears_the_state_of_the_one_sequence(packets: list[Any]) -> None:
    assert [packet.sequence_flags for packet in packets] == [1] + [2] * (len(packets) - 1)
    assert {packet.trusted_packet_sequence_id for packet in packets} == {1}


def test_every_slice_begins_and_ends_on_its_track(packets: list[Any]) -> None:
    drawing = draw(delegated_trace())
    begins = [packet for packet in packets if packet.track_event.type == 1]
    ends = [packet for packet in packets if packet.track_event.type == 2]
    others: list[Any] = [*drawing.gaps, *drawing.phases]
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


def test_the_run_is_a_slice_with_its_identity_and_the_clocks_of_the_target() -> None:
    drawing = draw(delegated_trace())
    job = drawing.start[named(drawing, "[0]")[0]]
    packets = parsed(export_trace(drawing.trace, "perfetto", identity=IDENTITY).data)
    texts: dict[str, dict[int, str]] = {"names": {}, "keys": {}, "values": {}}
    runs = []
    for packet in packets:
        new = packet.interned_data
        texts["names"] |= {entry.iid: entry.name for entry in new.event_names}
        texts["keys"] |= {entry.iid: entry.name for entry in new.debug_annotation_names}
        values = new.debug_annotation_string_values
        texts["values"] |= {entry.iid: entry.str.decode() for entry in values}
        event = packet.track_event
        if event.type == 1 and texts["names"][event.name_iid] == "kws.pte on native":
            runs.append(
                {
                    texts["keys"][item.name_iid]: texts["values"][item.string_value_iid]
                    for item in event.debug_annotations
                }
            )
    assert runs == [
        {
            "board": "native",
            "model": "kws.pte",
            "firmware": "build-1",
            "commit": "c0ffee",
            "clock_cpu": f"80000000 Hz, 32 bits, {2**32 - 9100} at 0 ns",
            "clock_npu": f"375000000 Hz, 24 bits, {2**24 - 2500} at {job} ns",
        }
    ]
