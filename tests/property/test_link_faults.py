"""Whatever a line does to the bytes: the right trace, or an error that blames the line."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import HarnessError, InfrastructureError, Region, Session
from harness.testing import Transport
from harness.testing.fault_filter import FaultFilter, Faults
from harness.testing.simulated_board import (
    MODEL_MAGIC,
    Behaviour,
    SimulatedBoard,
    VirtualClock,
    output_of,
    trace_of,
)
from tests.support.bad_lines import bad_lines
from tests.support.examples import examples

MODEL = MODEL_MAGIC + bytes(range(256)) * 24
INPUT = bytes(range(245)) * 8
RUNS = 3

faults = bad_lines(1e-5, 1e-4, 3e-4, 1e-3, 3e-3)
behaviours = st.builds(
    Behaviour,
    mtu=st.sampled_from([256, 512, 1024, 4096]),
    boot_s=st.sampled_from([0.0, 0.6]),
    latency_s=st.sampled_from([0.0, 0.016]),
    bytes_per_s=st.sampled_from([float("inf"), 92_160.0]),
    deaf_while_sending=st.booleans(),
    trace_size=st.sampled_from([0, 1, 500, 20_000]),
    text_after_execution=st.sampled_from([b"", b"tick\r\n", b"\x01 noise"]),
)


def whole_session(transport: Transport, clock: Callable[[], int]) -> tuple[Session, bytes, bytes]:
    session = Session(transport, clock_ns=clock, seed=7)
    session.hello(10)
    session.load_model(MODEL)
    session.set_input(0, INPUT)
    session.run(RUNS, timeout_s=5)
    return session, session.read(Region.OUTPUT), session.read(Region.TRACE)


@pytest.mark.attack(
    "Link and servers",
    "lost, duplicated, swapped and damaged bytes in any order",
    "every byte correct, or exit code 75",
)
@settings(max_examples=examples(150), deadline=None)
@given(faults, behaviours)
def test_a_session_ends_byte_exact_or_blames_the_line(faults: Faults, behaviour: Behaviour) -> None:
    clock = VirtualClock()
    proxy = FaultFilter(SimulatedBoard(clock, behaviour), faults)
    failure = None
    try:
        session, output, trace = whole_session(proxy, clock)
    except HarnessError as error:
        failure = error
    assert clock.now < 3600, "waited without end"
    if failure is not None:
        assert failure.exit_code == InfrastructureError.exit_code, failure
        assert proxy.done or faults.cut_after is not None, f"failed on a clean line: {failure}"
        return
    assert output == output_of(INPUT)
    assert trace == trace_of(MODEL, RUNS, behaviour.trace_size)
    if not proxy.done and not behaviour.deaf_while_sending:
        assert session.statistics.loss == 0


@pytest.mark.attack(
    "Link and servers", "a peer that sends valid nonsense", "exit code 4 or 75; nothing is accepted"
)
@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.binary(min_size=1, max_size=64)), st.integers(0, 2**32))
def test_a_peer_that_talks_nonsense_is_told_from_a_device(nonsense: list[bytes], seed: int) -> None:
    clock = VirtualClock()

    class Babbler:
        """Says each piece once, then repeats the last: a device of another kind on the port."""

        def read(self, timeout: float) -> bytes:
            clock.wait_until(clock.after(min(timeout, 0.01)))
            return nonsense.pop(0) if len(nonsense) > 1 else b"".join(nonsense)

        def write(self, data: bytes, timeout: float) -> None: ...

        def close(self) -> None: ...

    session = Session(Babbler(), clock_ns=clock, seed=seed)
    with pytest.raises(InfrastructureError, match="no answer to HELLO"):
        session.hello(3)
    assert clock.now <= 4.2
