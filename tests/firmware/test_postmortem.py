"""What the C server keeps over a reset, and what the host makes of it."""

from __future__ import annotations

import ctypes as ct
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import Postmortem, Region, read_log, read_postmortem
from harness.testing import Op, Reset, Status, messages
from harness.testing import postmortem_format as fmt
from tests.support.c_server import CServer
from tests.support.prepared_server import prepare

COUNT = 3
REGISTERS = {
    fmt.CortexM.PC: 0x1234,
    fmt.CortexM.LR: 0x5679,
    fmt.CortexM.CFSR: 0x10000,
}
HARD_FAULT = 3
TRACER = fmt.HEAD_SIZE + fmt.RUN_SIZE + fmt.FAULT_SIZE + fmt.AFTER_SIZE
"""Where the tracer stands in the record."""
FIRST_OF_RUN = 2
"""The reading of the clock before it is for the request RUN."""


@pytest.fixture
def server(etstub: ct.CDLL) -> CServer:
    return CServer(etstub)


def crash(server: CServer, at_tick: int, *, fault: bool = True) -> None:
    """Run, and start again with memory as it was at the given reading of the clock."""
    seen: list[bytes] = []
    ticks = 0

    def look() -> None:
        nonlocal ticks
        ticks += 1
        if ticks == at_tick:
            if fault:
                server.fault(fmt.Fault.CORTEX_M, HARD_FAULT, dict(REGISTERS))
            seen.extend((server.kept.read(), server.log.read()))

    prepare(server)
    server.on_tick = look
    server.run(7, COUNT)
    server.on_tick = lambda: None
    server.kept.write(seen[0])
    server.log.write(seen[1])
    server.start()


def hello(server: CServer) -> int:
    return messages.TargetInfo.parse(
        server.ask(Op.HELLO, messages.HelloBody(5).encode())
    ).postmortem


def fetch(server: CServer) -> Postmortem:
    assert hello(server) == fmt.Condition.WHOLE
    return read_postmortem(server.fetch(Region.POSTMORTEM))


def readings(server: CServer) -> int:
    """How often the clock is read in a run."""
    count = 0

    def look() -> None:
        nonlocal count
        count += 1

    prepare(server)
    server.on_tick = look
    server.run(7, COUNT)
    server.on_tick = lambda: None
    return count


def test_power_on_leaves_nothing_to_tell(server: CServer) -> None:
    assert hello(server) == fmt.Condition.NONE
    refusal = server.refusal(Op.STAT, messages.StatBody(Region.POSTMORTEM, 0).encode())
    assert refusal.status == Status.BAD_REGION


def test_a_fault_in_a_run_tells_what_was_running(server: CServer) -> None:
    """At every reading of the clock: the scopes that are open are those that the log lacks."""
    for tick in range(FIRST_OF_RUN, readings(server) + 1):
        crash(server, tick)
        found = fetch(server)
        assert found.damage == ()
        assert (found.build_id, found.running) == ("build", True)
        assert (found.run_id, found.count) == (7, COUNT)
        assert (found.fault, found.number) == (fmt.Fault.CORTEX_M, HARD_FAULT)
        assert found.registers == {item.name: value for item, value in REGISTERS.items()}
        assert found.trace is not None
        executes = sum(
            found.trace.text(name) == "Method::execute" for name in found.trace.name.tolist()
        )
        assert found.completed <= executes <= found.completed + 1
        named = [scope.name for scope in found.scopes]
        assert named[:2] in (
            [],
            ["Method::execute"],
            ["Method::init"],
            ["Program::load_method"],
            ["Program::load_method", "Method::init"],
        ) or (named[0] == "Method::execute" and named[1] == "OPERATOR_CALL"), named


def test_a_kernel_is_named_with_its_instruction(server: CServer) -> None:
    seen = set()
    for tick in range(FIRST_OF_RUN, readings(server) + 1):
        crash(server, tick, fault=False)
        found = fetch(server)
        assert found.fault == fmt.Fault.NONE
        if len(found.scopes) == 3:
            kernel = found.scopes[-1]
            seen.add((kernel.name, kernel.chain, kernel.instruction, found.completed))
    assert seen == {
        ("native_call_relu.out", 0, instruction, completed)
        for instruction in range(2)
        for completed in range(COUNT)
    }


def test_the_log_is_that_of_the_run_up_to_the_crash(server: CServer) -> None:
    prepare(server)
    server.run(7, COUNT)
    whole = read_log(server.fetch(Region.TRACE))
    crash(server, 30)
    found = fetch(server).trace
    assert found is not None
    assert 0 < len(found) < len(whole)
    assert found.start.tolist() == whole.start[: len(found)].tolist()


def test_it_is_kept_over_sessions_uploads_and_resets_until_the_next_run(server: CServer) -> None:
    crash(server, 20)
    first = server.fetch(Region.POSTMORTEM)
    prepare(server)
    assert server.fetch(Region.POSTMORTEM) == first
    server.fault(fmt.Fault.CORTEX_M, 2, {fmt.CortexM.PC: 0xBAD})
    server.start()
    again = fetch(server)
    assert (again.resets, again.later_faults) == (2, 1)
    assert (again.number, again.registers["PC"]) == (
        HARD_FAULT,
        REGISTERS[fmt.CortexM.PC],
    )
    assert hello(server) == fmt.Condition.WHOLE
    prepare(server)
    server.run(9)
    assert hello(server) == fmt.Condition.NONE


def test_it_is_forgotten_when_asked_to_and_a_trace_is_not(server: CServer) -> None:
    crash(server, 20)
    server.ask(Op.RESET, messages.ResetBody(Reset.POSTMORTEM).encode())
    assert hello(server) == fmt.Condition.NONE
    prepare(server)
    server.run(9)
    log = server.fetch(Region.TRACE)
    server.ask(Op.RESET, messages.ResetBody(Reset.POSTMORTEM).encode())
    assert server.fetch(Region.TRACE) == log


def test_a_fault_outside_of_a_run_is_told_too(server: CServer) -> None:
    server.fault(fmt.Fault.CORTEX_M, HARD_FAULT, {})
    server.start()
    found = fetch(server)
    assert (found.running, found.fault, found.registers) == (
        False,
        fmt.Fault.CORTEX_M,
        {},
    )


def test_a_reset_when_nothing_runs_leaves_nothing_to_tell(server: CServer) -> None:
    prepare(server)
    server.run(7)
    server.start()
    assert hello(server) == fmt.Condition.NONE


@pytest.mark.attack("Clocks and logs", "a crash record of another build", "ignored")
def test_the_record_of_another_build_is_not_believed(server: CServer) -> None:
    crash(server, 20)
    server._config.build_id = b"another"
    server.start()
    assert hello(server) == fmt.Condition.NONE


def test_a_dump_of_the_memory_reads_like_the_region(server: CServer) -> None:
    """As a debugger gets it: the record and the tracer's buffer where the head says."""
    crash(server, 25)
    region = server.fetch(Region.POSTMORTEM)
    size = int.from_bytes(region[6:8], "little")
    dump = bytearray(region[:size] + bytes(-size % 16) + server.log.read())
    assert int.from_bytes(dump[36:40], "little") == 0, "two blocks, here"
    dump[36:40] = (size + -size % 16).to_bytes(4, "little")
    found = read_postmortem(bytes(dump))
    assert found.trace == read_postmortem(region).trace
    assert found.scopes == read_postmortem(region).scopes


@pytest.mark.parametrize("share", [0, 1, 0.5])
def test_random_memory_is_never_taken_for_a_record(server: CServer, share: float) -> None:
    generator = random.Random(share)
    for _ in range(2000):
        noise = bytes(
            generator.randrange(256) if generator.random() >= share else generator.choice((0, 255))
            for _ in range(server.kept.size)
        )
        server.kept.write(noise)
        server.start()
        assert hello(server) == fmt.Condition.NONE


@pytest.mark.attack(
    "Clocks and logs", "a damaged crash record", "not mistaken for a complete record"
)
@given(data=st.data())
def test_a_damaged_record_is_not_taken_for_a_whole_one(
    etstub: ct.CDLL, data: st.DataObject
) -> None:
    """Whatever bits tip over in head and fault: told, or not believed, or of no consequence."""
    server = CServer(etstub)
    crash(server, data.draw(st.integers(FIRST_OF_RUN, 30)))
    whole = bytearray(server.kept.read())
    checked = [*range(fmt.HEAD_SIZE), *range(fmt.HEAD_SIZE + fmt.RUN_SIZE, TRACER - fmt.AFTER_SIZE)]
    flips = data.draw(
        st.sets(st.tuples(st.sampled_from(checked), st.integers(0, 7)), min_size=1, max_size=4)
    )
    for at, bit in flips:
        whole[at] ^= 1 << bit
    server.kept.write(bytes(whole))
    server.start()
    condition = hello(server)
    assert condition != fmt.Condition.WHOLE
    if condition == fmt.Condition.DAMAGED:
        assert read_postmortem(server.fetch(Region.POSTMORTEM)).damage


@pytest.mark.attack(
    "Clocks and logs",
    "noise in the memory of the tracer after a reset",
    "only the plausible part is served",
)
@given(noise=st.binary(min_size=120, max_size=336))
def test_a_tracer_full_of_noise_is_served_as_far_as_it_makes_sense(
    etstub: ct.CDLL, noise: bytes
) -> None:
    server = CServer(etstub)
    crash(server, 20)
    record = bytearray(server.kept.read())
    record[TRACER : TRACER + len(noise)] = noise
    server.kept.write(bytes(record))
    server.start()
    assert hello(server) in (fmt.Condition.WHOLE, fmt.Condition.DAMAGED)
    found = read_postmortem(server.fetch(Region.POSTMORTEM))
    assert found.fault == fmt.Fault.CORTEX_M
    assert found.trace is not None or found.damage
