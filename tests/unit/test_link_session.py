"""What a session asks, and what it makes of the answers, against a device in Python."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness import DeviceRefusedError, LinkError, Region, Session, TargetError
from harness.testing import (
    RESPONSE,
    CorruptReason,
    Op,
    Reset,
    State,
    Status,
    encode_frame,
    messages,
)
from harness.testing.simulated_board import (
    MODEL_MAGIC,
    Behaviour,
    SimulatedBoard,
    VirtualClock,
    output_of,
    trace_of,
)

MODEL = MODEL_MAGIC + bytes(range(256)) * 64
INPUT = bytes(range(245)) * 8


class Bench:
    """A session on a fake device."""

    def __init__(self, **behaviour: object) -> None:
        self.clock = VirtualClock()
        self.device = SimulatedBoard(self.clock, Behaviour(**behaviour))  # type: ignore[arg-type]
        self.console = bytearray()
        self.session = Session(
            self.device, clock_ns=self.clock, seed=1, console=self.console.extend, board="bench"
        )

    def ready(self) -> Session:
        self.session.hello(10)
        self.session.load_model(MODEL)
        self.session.set_input(0, INPUT)
        return self.session


def test_bytes_that_the_devices_uart_lost_are_among_the_losses() -> None:
    bench = Bench()
    session = bench.ready()
    bench.device.overruns = 2
    assert session.status().overruns == 2
    assert session.statistics.as_dict()["overruns"] == 2


def test_hello_learns_the_target() -> None:
    bench = Bench(mtu=1024)
    info = bench.session.hello(1)
    assert (info.link_version, info.mtu, info.board, info.cpu) == (1, 1024, "fake", "python")
    assert [(c.name, c.bits, c.down) for c in info.clocks] == [
        ("systick", 32, False),
        ("rtc", 24, True),
    ]
    assert info.clocks[1].hz == pytest.approx(32_768 / 3)
    assert (info.model_capacity, info.arena_capacity) == (1 << 20, 65_536)
    assert (info.input_capacity, info.trace_capacity) == (4096, 32_768)
    assert (info.probe_ticks, info.probe_pairs, info.operators) == (640, 64, 9)
    assert bench.session.target == info


def test_a_board_without_a_clock_is_at_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    parse = messages.TargetInfo.parse
    monkeypatch.setattr(messages.TargetInfo, "parse", lambda body: replace(parse(body), clocks=()))
    with pytest.raises(TargetError, match="fake: the device declares no clock"):
        Bench().session.hello(1)


def test_hello_waits_for_a_board_that_boots() -> None:
    bench = Bench(boot_s=3.0)
    bench.session.hello(5)
    assert bench.clock.now < 3.3
    assert bench.session.statistics.retries == 0, "a board that boots has lost nothing"


def test_hello_gives_up_when_its_time_is_over() -> None:
    bench = Bench(boot_s=30.0)
    with pytest.raises(
        LinkError, match="bench: no answer to HELLO within 5 s; nothing was received"
    ):
        bench.session.hello(5)
    # A silent board gets three PINGs more, of bytes that no line translates.
    assert bench.clock.now == pytest.approx(5.75)


def test_a_session_brings_model_outputs_and_trace_over_byte_for_byte() -> None:
    bench = Bench(text_after_execution=b"tick\r\n")
    session = bench.ready()
    steps: list[tuple[int, int]] = []
    outcome = session.run(3, timeout_s=1, progress=lambda *step: steps.append(step))
    assert outcome.completed == 3
    assert steps == [(1, 3), (2, 3), (3, 3)]
    assert session.read(Region.OUTPUT) == output_of(INPUT)
    assert session.read(Region.TRACE) == trace_of(MODEL, 3, 20_000)
    assert bytes(bench.console) == b"tick\r\n" * 3
    assert session.status().state is State.DONE
    figures = session.statistics
    assert figures.loss == 0
    assert figures.stale_answers == 0
    assert figures.text_bytes == 18
    assert figures.frames_sent == len({sequence for _, sequence in bench.device.seen})
    assert figures.as_dict()["corrupt_crc"] == 0


def test_what_reading_took_is_known() -> None:
    bench = Bench(bytes_per_s=10_000.0)
    session = bench.ready()
    session.run(3, timeout_s=60)
    trace = session.read(Region.TRACE)
    figures = session.statistics
    assert figures.read_bytes == len(trace)
    on_the_line = 1e6 * len(trace) / 10_000
    assert on_the_line < figures.read_us < 1.5 * on_the_line, "frames and turnarounds cost little"


def test_model_information() -> None:
    session = Bench().session
    session.hello(1)
    steps: list[tuple[int, int]] = []
    info = session.load_model(MODEL, progress=lambda *step: steps.append(step))
    assert (info.planned_bytes, info.method_bytes) == (1000, 200)
    (tensor,) = info.inputs
    assert (tensor.scalar_type, tensor.sizes, tensor.nbytes) == (6, (1, 490), 1960)
    assert tensor.dim_order == (0, 1)
    assert steps[-1] == (len(MODEL), len(MODEL))
    assert steps == sorted(steps)


def test_run_ids_go_on_where_the_device_is() -> None:
    session = Bench().ready()
    assert [session.run(1, timeout_s=1).run_id for _ in range(3)] == [1, 2, 3]


def test_ping_brackets_the_device_clock() -> None:
    bench = Bench(latency_s=0.008)
    bench.session.hello(1)
    ping = bench.session.ping()
    assert ping.host_after_ns - ping.host_before_ns == 16_000_000
    assert ping.host_before_ns < ping.ticks * 40 < ping.host_after_ns


@pytest.mark.parametrize(
    ("status", "detail", "said", "message"),
    [
        (
            Status.UNSUPPORTED_OPERATOR,
            2,
            b"no kernel for aten::rely.out",
            "fake: the device refused RUN: no kernel for aten::rely.out (instruction 2)",
        ),
        (Status.OUT_OF_MEMORY, 9000, b"", "fake: the device refused RUN: out of memory (9000 "),
        (Status.KERNEL_FAILED, 1, b"\x1b[2Jbad", "RUN: \ufffd[2Jbad (instruction 1)"),
        (77, 3, b"", "fake: the device refused RUN: status 77"),
    ],
)
def test_a_failed_run_says_what_the_device_said(
    status: int, detail: int, said: bytes, message: str
) -> None:
    session = Bench(run_outcome=(status, detail, said)).ready()
    with pytest.raises(DeviceRefusedError) as caught:
        session.run(1, timeout_s=1)
    assert message in caught.value.message
    assert (caught.value.status, caught.value.detail) == (status, detail)
    assert caught.value.exit_code == 4


def test_a_refused_model_is_not_sent_again() -> None:
    bench = Bench()
    bench.session.hello(1)
    with pytest.raises(DeviceRefusedError, match=r"COMMIT: no program identifier \(byte 4"):
        bench.session.load_model(b"no model at all")
    assert sum(type_ == Op.COMMIT for type_, _ in bench.device.seen) == 1


def test_a_model_that_does_not_fit() -> None:
    bench = Bench(model_capacity=100)
    bench.session.hello(1)
    with pytest.raises(DeviceRefusedError, match=r"OPEN: too large \(capacity 100 bytes\)"):
        bench.session.load_model(MODEL)


def test_nothing_to_read_before_a_run() -> None:
    with pytest.raises(DeviceRefusedError, match="STAT: no such region"):
        Bench().ready().read(Region.TRACE)


def test_a_device_that_restarts_by_itself_is_noticed() -> None:
    bench = Bench(restart_in_execution=2)
    session = bench.ready()
    with pytest.raises(TargetError, match="fake: the board restarted by itself"):
        session.run(3, timeout_s=5)
    with pytest.raises(TargetError, match="restarted by itself"):
        session.read(Region.TRACE)


@pytest.mark.attack("Link and servers", "a second host on the same line", "detected; the run fails")
def test_another_host_is_noticed() -> None:
    bench = Bench()
    session = bench.ready()
    Session(bench.device, clock_ns=bench.clock, seed=2).hello(1)
    with pytest.raises(LinkError, match="another host"):
        session.status()


def test_a_reboot_on_purpose_needs_a_new_hello_and_forgets_the_model() -> None:
    bench = Bench(boot_s=0.5)
    session = bench.ready()
    session.reset(Reset.REBOOT)
    assert session.target is None
    session.hello(5)
    assert session.status().state is State.IDLE


def test_a_reset_forgets_the_model() -> None:
    session = Bench().ready()
    session.reset()
    assert session.status().state is State.IDLE
    with pytest.raises(DeviceRefusedError, match="RUN: no model"):
        session.run(1, timeout_s=1)


def test_a_silent_device_is_the_links_fault_and_the_wait_is_bounded() -> None:
    bench = Bench(silent={Op.PING, Op.STATUS})
    bench.session.hello(1)
    with pytest.raises(LinkError, match="fake: no answer to PING, sent 5 times"):
        bench.session.ping()
    with pytest.raises(LinkError, match=r"fake: no answer to STATUS in 10 s, sent 5 times"):
        bench.session.status()
    assert bench.clock.now == pytest.approx(20, abs=0.1)
    assert bench.session.statistics.retries == 8


def test_an_answer_that_does_not_parse_is_counted_and_asked_for_again() -> None:
    bench = Bench(malformed={Op.STATUS})
    bench.session.hello(1)
    with pytest.raises(LinkError, match="no answer to STATUS"):
        bench.session.status()
    assert bench.session.statistics.corrupt[CorruptReason.BODY] == 5
    assert bench.clock.now < 1, "no need to wait for what has come"


@pytest.mark.attack(
    "Link and servers", "answers that do not parse", "exit code 75 after counted retries"
)
@pytest.mark.parametrize("op", [Op.OPEN, Op.WRITE, Op.COMMIT, Op.STAT, Op.READ])
def test_answers_that_do_not_parse_end_as_a_link_error(op: Op) -> None:
    bench = Bench(malformed={op})

    def run_and_read() -> None:
        bench.ready().run(1, timeout_s=1)
        bench.session.read(Region.TRACE)

    with pytest.raises(LinkError):
        run_and_read()
    assert bench.session.statistics.corrupt[CorruptReason.BODY]


@pytest.mark.attack(
    "Link and servers", "a device that sends endless answers", "the session ends at the deadline"
)
def test_a_device_that_never_stops_talking_cannot_hold_up_the_host() -> None:
    bench = Bench(silent={Op.STATUS})
    bench.session.hello(1)
    read = bench.device.read

    def babble(timeout: float) -> bytes:
        return read(min(timeout, 0.01)) + encode_frame(Op.PING | RESPONSE, 0, bytes(16)) * 5

    bench.device.read = babble  # type: ignore[method-assign]
    with pytest.raises(LinkError, match="no answer to STATUS in 10 s"):
        bench.session.status()
    assert bench.session.statistics.stale_answers > 1000


@pytest.mark.attack(
    "Link and servers", "firmware of another protocol version", "refused with both versions"
)
def test_a_device_of_another_version() -> None:
    bench = Bench()
    bench.device._hello = lambda frame: bench.device.say(  # type: ignore[method-assign]
        encode_frame(Op.HELLO | RESPONSE, frame.sequence, b"\0\x02\0\x04")
    )
    with pytest.raises(TargetError, match="the device chose link version 2, not 1"):
        bench.session.hello(1)


class TestLiveness:
    """A target that can tell that it is dead is asked before the link is blamed."""

    def dead(self) -> None:
        raise TargetError("the process was killed by SIGKILL")

    def test_when_the_stream_ends(self) -> None:
        clock = VirtualClock()
        device = SimulatedBoard(clock)
        session = Session(device, clock_ns=clock, check_alive=self.dead)
        device.close()
        with pytest.raises(TargetError, match="SIGKILL"):
            session.hello(1)

    def test_when_an_answer_is_missing(self) -> None:
        clock = VirtualClock()
        device = SimulatedBoard(clock, Behaviour(silent={Op.STATUS}))
        session = Session(device, clock_ns=clock, check_alive=self.dead)
        session.hello(1)
        with pytest.raises(TargetError, match="SIGKILL"):
            session.status()
        assert clock.now < 3, "at the first retry, not the last"
