"""Flame graphs: slices nest, self times sum to those of the outermost events, names stay apart."""

from __future__ import annotations

import json
import re
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import (
    ClockDomain,
    FormatError,
    RunIdentity,
    Trace,
    draw,
    export_trace,
    read_ed00,
    read_log,
)
from harness.extensions.exports.flame_graph import flames
from harness.strategies import device_logs, traces
from tests.conftest import FIXTURES
from tests.support.examples import examples
from tests.support.exports import CPU, delegated_trace, two_tracers
from tests.support.logs import CompactLog

any_trace = st.one_of(
    traces(),
    device_logs().map(lambda log: read_log(log.image(), [ClockDomain("cpu", Fraction(10**9), 32)])),
)


def attempt(trace: Trace, name: str) -> bytes | None:
    """Export; None for events that no counter of this width can have stamped."""
    try:
        return export_trace(trace, name).data
    except FormatError:
        return None


def check_profile(profile: dict[str, Any], frames: int) -> int:
    """Check one profile by the rules of speedscope's format; returns the number of its slices."""
    assert profile["type"] == "evented"
    assert profile["unit"] == "nanoseconds"
    open_: list[int] = []
    now = profile["startValue"]
    for event in profile["events"]:
        assert now <= event["at"] <= profile["endValue"]
        now = event["at"]
        assert 0 <= event["frame"] < frames
        if event["type"] == "O":
            open_.append(event["frame"])
        else:
            assert open_.pop() == event["frame"]
    assert not open_
    return len(profile["events"]) // 2


def check_speedscope(data: bytes) -> int:
    """Check a file; returns the number of its slices."""
    document = json.loads(data)
    assert document["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    frames = [frame["name"] for frame in document["shared"]["frames"]]
    assert len(set(frames)) == len(frames)
    profiles = document["profiles"]
    assert len({profile["name"] for profile in profiles}) == len(profiles)
    assert document["activeProfileIndex"] in range(max(len(profiles), 1))
    return sum(check_profile(profile, len(frames)) for profile in profiles)


@given(any_trace)
@settings(max_examples=examples(25))
def test_every_drawn_slice_is_in_one_profile(trace: Trace) -> None:
    data = attempt(trace, "speedscope")
    if data is not None:
        assert check_speedscope(data) == len(draw(trace))


def folded(data: bytes) -> dict[str, int]:
    """Return the lines by the rule of their readers: a stack, a space, a number."""
    found = [re.fullmatch(r"(.*) (\d+)", line) for line in data.decode().split("\n")[:-1]]
    stacks = {match[1]: int(match[2]) for match in found if match}
    assert len(stacks) == len(found)
    return stacks


def outermost(trace: Trace) -> int:
    """Return the time of events that are in no other one, by the drawing."""
    drawing = draw(trace)
    rows = [
        number
        for flame in flames(drawing)
        if flame.lane == 0
        for number, depth in zip(flame.slices, flame.depths, strict=True)
        if depth == 0
    ]
    return int((drawing.end - drawing.start)[rows].sum())


@given(any_trace)
@settings(max_examples=examples(25))
def test_self_times_sum_to_the_times_of_the_outermost_events(trace: Trace) -> None:
    data = attempt(trace, "folded")
    if data is not None:
        assert sum(folded(data).values()) == outermost(trace)


def test_self_times_sum_to_the_executions_of_a_recorded_run() -> None:
    trace = read_ed00((FIXTURES / "kws_f32_executorch.etdp").read_bytes())
    drawing = draw(trace)
    stacks = folded(export_trace(trace, "folded").data)
    for scope in ("Method::execute", "Program::load_method"):
        total = sum(
            int(drawing.end[number] - drawing.start[number])
            for number in range(len(drawing))
            if trace.text(int(trace.name[drawing.row[number]])) == scope
        )
        inside = {stack: own for stack, own in stacks.items() if stack.split(";")[1] == scope}
        assert sum(inside.values()) == total
    assert np.array([*stacks.values()]).all()


@pytest.mark.parametrize("make", [delegated_trace, two_tracers])
def test_delegates_and_cores_are_shown(make: Any) -> None:
    trace = make()
    document = json.loads(export_trace(trace, "speedscope").data)
    assert check_speedscope(export_trace(trace, "speedscope").data) == len(draw(trace))
    titles = [profile["name"] for profile in document["profiles"]]
    first = document["profiles"][document["activeProfileIndex"]]
    assert first["name"].startswith("Execute 1")
    if make is two_tracers:
        assert any(title.endswith(", tracer 1") for title in titles)
    notes = " ".join(export_trace(trace, "speedscope").notes)
    assert "counters over time" in notes


HOSTILE = st.text(alphabet=';\n\r\t \\x3b"{}=#0a\u00e9\ud800', min_size=1, max_size=6)


def named(names: list[str]) -> Trace:
    log = CompactLog().block("Execute")
    for number, name in enumerate(names):
        raw = name.encode("utf-8", "surrogatepass")  # a lone surrogate is no valid UTF-8
        log.profile(raw, 100 * number, 100 * number + 50, instruction=number)
    return read_log(log.image(), [CPU])


@pytest.mark.attack(
    "Texts",
    "`;`, spaces and newlines in names, for collapsed stacks",
    "one line per stack; different names stay different",
)
@given(st.lists(HOSTILE, min_size=1, max_size=4, unique=True))
@settings(max_examples=examples(40))
def test_hostile_names_neither_break_a_line_nor_meet_another(names: list[str]) -> None:
    trace = named(names)
    stacks = folded(export_trace(trace, "folded", identity=RunIdentity(board="a;b\n")).data)
    assert stacks.pop(r"a\x3bb\x0a;board: a\x3bb\x0a") == 0
    assert all(stack.count(";") == 1 for stack in stacks), "one frame below the run"
    shown = Counter(frame["name"] for frame in frames_of(trace))
    assert len(stacks) == len(shown)


def frames_of(trace: Trace) -> list[dict[str, str]]:
    found: list[dict[str, str]] = json.loads(export_trace(trace, "speedscope").data)["shared"][
        "frames"
    ]
    return found
