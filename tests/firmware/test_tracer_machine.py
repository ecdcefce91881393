"""Several C tracers beside their models, call by call, in any order, also where it makes no sense.

Events end twice, end on another tracer, end before there is a block; names have numbers that no
name has; buffers are too small for anything. After every call each log is what its model says, byte
for byte, and what the host reads from it agrees with the model's counts.
"""

from __future__ import annotations

import ctypes as ct

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from harness import ClockDomain, Kind, Losses, read_log
from harness.testing import device_log_format as log_format
from tests.support.examples import examples
from tests.support.tracer import CTracer, DelegateEvent, Event, Pair
from tests.support.tracer_calls import CALL, CHAIN, HANDLE, I32, METADATA, U32
from tests.support.tracer_model import Model, Started

CLOCKS = [ClockDomain(f"clock {number}", None, 32) for number in range(255)]
WHICH = st.integers(0, 7)
SIZE = st.one_of(st.integers(0, 200), st.integers(0, 2000))
NULL_CALLS = (
    ("create_event_block", (b"a",)),
    ("set_chain_debug_handle", (1, 2)),
    ("end_profiling", (Event(),)),
    ("end_profiling_delegate", (DelegateEvent(), b"a", 1)),
    ("log_profiling_delegate", (b"a", -1, 0, 1, 2, None, 0)),
    ("track_allocation", (1, 2, 3)),
    ("log_recycle", ()),
    ("set_debug_level", (2,)),
    ("log_evalue", (1, None)),
)


class Tracers(RuleBasedStateMachine):
    """Up to three tracers, each with its model.

    Tame ones refer only to names and allocators that there are, and begin no second chunk: what
    the host can read as it is.
    """

    library: ct.CDLL

    def __init__(self) -> None:
        super().__init__()
        self.pairs: list[Pair] = []
        self.ended: list[tuple[Event, Started]] = []
        self.ended_delegates: list[tuple[DelegateEvent, Started, int]] = []

    @initialize(
        sizes=st.lists(st.tuples(SIZE, st.integers(0, 200)), min_size=1, max_size=3),
        tame=st.booleans(),
    )
    def begin(self, sizes: list[tuple[int, int]], tame: bool) -> None:
        self.tame = tame
        for number, (size, debug) in enumerate(sizes):
            pair = Pair(CTracer(self.library, size, debug), Model(size, debug))
            pair.tracer.call("set_tracer_number", number)
            pair.model.number = number
            self.pairs.append(pair)

    def pick(self, which: int) -> Pair:
        return self.pairs[which % len(self.pairs)]

    @rule(which=WHICH, calls=st.lists(CALL, min_size=5, max_size=30))
    def call(self, which: int, calls: list[tuple]) -> None:
        for call in calls:
            self.make(self.pick(which), call)

    def make(self, pair: Pair, call: tuple) -> None:
        if self.tame and call[0] == "recycle":
            return
        if self.tame and call[0] in ("allocation", "free", "failure"):
            call = (call[0], call[1] % (pair.model.allocators + 1), *call[2:])
        if call[0] == "end" and pair.events:
            self.ended.append(pair.events[call[1] % len(pair.events)])
        if call[0] == "end_delegate" and pair.delegates:
            self.ended_delegates.append(pair.delegates[call[1] % len(pair.delegates)])
        pair.make(call)

    @rule(which=WHICH, event=WHICH)
    def end_again_anywhere(self, which: int, event: int) -> None:
        """An event that has ended ends once more, perhaps on a tracer that never started it."""
        if self.ended and not (self.tame and len(self.pairs) > 1):
            started, expected = self.ended[event % len(self.ended)]
            pair = self.pick(which)
            pair.tracer.call("end_profiling", started)
            pair.model.end(expected)

    @rule(which=WHICH, event=WHICH, metadata=METADATA)
    def end_a_delegates_event_again(self, which: int, event: int, metadata: bytes | None) -> None:
        if self.ended_delegates and not (self.tame and len(self.pairs) > 1):
            started, expected, number = self.ended_delegates[event % len(self.ended_delegates)]
            pair = self.pick(which)
            size = len(metadata or b"")
            pair.tracer.call("end_profiling_delegate", started, metadata, size)
            pair.model.end(expected, delegate=(number, metadata))

    @rule(which=WHICH, name=st.integers(0, 0xFFFF), chain=CHAIN, handle=HANDLE)
    def start_by_any_number(self, which: int, name: int, chain: int, handle: int) -> None:
        pair = self.pick(which)
        if self.tame and not pair.model.names:
            return
        name %= len(pair.model.names) if self.tame else 2 * len(pair.model.names) + 1
        known = name < len(pair.model.names)
        arguments = (ct.c_uint16(name), chain, ct.c_uint32(handle))
        started = pair.tracer.call("start_profiling_interned", *arguments)
        text = pair.model.names[name] if known else None
        expected = pair.model.start(None, chain, handle)
        choice = pair.model.choose(text, -1, expected.chain)
        pair.events.append((started, expected._replace(name=name, choice=choice)))

    @rule(which=WHICH, used=U32, size=U32)
    def tell_of_the_stack(self, which: int, used: int, size: int) -> None:
        pair = self.pick(which)
        pair.tracer.call("set_stack_used", ct.c_uint32(used), ct.c_uint32(size))
        pair.model.stack = (used, size)

    @rule(which=WHICH, first=I32)
    def read_a_part(self, which: int, first: int) -> None:
        tracer = self.pick(which).tracer
        image = tracer.image()
        offset = first % (len(image) + 3)
        assert tracer.read(offset, 21) == image[offset : offset + 21]

    @rule()
    def call_without_a_tracer(self) -> None:
        for function, arguments in NULL_CALLS:
            getattr(self.library, f"etd_{function}")(None, *arguments)

    @invariant()
    def logs_are_what_the_models_say(self) -> None:
        for pair in self.pairs:
            image = pair.tracer.image()
            assert image == pair.model.image()
            assert pair.tracer.debug_bytes() == pair.model.debug
            assert (
                len(pair.model.records) * log_format.RECORD_SIZE + pair.model.names_size()
                <= pair.model.size
            )
            if self.tame:
                agree(pair.model, image)


def agree(model: Model, image: bytes) -> None:
    """What the host reads is what the model counts."""
    trace = read_log(image, CLOCKS)
    assert trace.losses == Losses(
        events=model.dropped_events,
        blocks=model.dropped_blocks,
        values=model.dropped_values,
        runs=model.dropped_runs,
    )
    assert trace.filtered_events == model.filtered
    kinds = [model.records[at][0] for at in model.groups()]
    assert int((trace.kind == Kind.PROFILE).sum()) == kinds.count(log_format.Record.PROFILE)
    assert int((trace.kind == Kind.DEBUG).sum()) == kinds.count(log_format.Record.VALUE)
    assert int((trace.kind == Kind.ALLOCATION).sum()) == kinds.count(log_format.Record.ALLOCATION)


def test_any_calls_on_several_tracers(etstub: ct.CDLL) -> None:
    machine = type("Machine", (Tracers,), {"library": etstub})
    run_state_machine_as_test(
        machine,
        settings=settings(max_examples=examples(100), stateful_step_count=30, deadline=None),
    )
