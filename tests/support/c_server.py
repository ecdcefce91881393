"""The C server through ctypes, on a port made of Python callbacks."""

from __future__ import annotations

import ctypes as ct
from collections.abc import Callable
from hashlib import sha256
from typing import Any

from harness import Region, RunOptions
from harness.extensions.postmortem.record_format import REGISTERS
from harness.link.transfers import LogChunks
from harness.testing import RESPONSE, Frame, FrameDecoder, Op, encode_frame, messages
from tests.support.mirrors import mirrors, room_for
from tests.support.runtime import Memory

TICK = 3
MTU = 512
BAUDS = (115_200, 921_600, 3_000_000)
BUILD_ID = b"build"

_READ = ct.CFUNCTYPE(ct.c_uint32, ct.c_void_p, ct.POINTER(ct.c_uint8), ct.c_uint32)
_WRITE = ct.CFUNCTYPE(None, ct.c_void_p, ct.POINTER(ct.c_uint8), ct.c_uint32)
_VOID = ct.CFUNCTYPE(None, ct.c_void_p)
_TICKS = ct.CFUNCTYPE(ct.c_uint32, ct.c_void_p)
_RATE = ct.CFUNCTYPE(None, ct.c_void_p, ct.c_uint32)
_COUNTERS = ct.CFUNCTYPE(ct.c_void_p, ct.c_void_p)
_QUIET = ct.CFUNCTYPE(None, ct.c_void_p, ct.c_bool)


_BEGIN = ct.CFUNCTYPE(None, ct.c_void_p, ct.c_void_p)


@mirrors("etd_port.h", "etd_more_tracers")
class MoreTracers(ct.Structure):
    _fields_ = [
        ("tracers", ct.c_void_p),
        ("count", ct.c_uint32),
        ("capacity", ct.c_uint32),
        ("context", ct.c_void_p),
        ("begin", _BEGIN),
        ("end", _BEGIN),
    ]

    @classmethod
    def of(
        cls,
        tracers: list[int],
        capacity: int,
        begin: Callable[[int], None],
        end: Callable[[int], None],
    ) -> MoreTracers:
        """Tracers at these addresses; the functions get the address of the server's own."""
        both = _BEGIN(lambda _context, own: begin(own)), _BEGIN(lambda _context, own: end(own))
        more = cls(None, len(tracers), capacity, None, *both)
        more.places = (ct.c_void_p * len(tracers))(*tracers)  # kept as long as this is
        more.tracers = ct.addressof(more.places)
        return more


@mirrors("etd_port.h", "etd_port")
class _Port(ct.Structure):
    _fields_ = [
        ("context", ct.c_void_p),
        ("read", _READ),
        ("write", _WRITE),
        ("idle", _VOID),
        ("ticks", _TICKS),
        ("restart_clock", _VOID),
        ("reboot", _VOID),
        ("quiet", _QUIET),
        ("overruns", _TICKS),
        ("set_baud", _RATE),
        ("reset_reason", _TICKS),
        ("alive", _VOID),
        ("counters", _COUNTERS),
        ("marker", _QUIET),
        ("crash", _VOID),
        ("more_tracers", ct.POINTER(MoreTracers)),
        ("stack_bottom", ct.c_void_p),
        ("stack_top", ct.c_void_p),
    ]


@mirrors("etd_port.h", "etd_clock")
class _Clock(ct.Structure):
    _fields_ = [
        ("name", ct.c_char_p),
        ("hz_numerator", ct.c_uint32),
        ("hz_denominator", ct.c_uint32),
        ("bits", ct.c_uint8),
        ("down", ct.c_bool),
    ]


@mirrors("etd_port.h", "etd_target")
class _Target(ct.Structure):
    _fields_ = [
        ("board", ct.c_char_p),
        ("cpu", ct.c_char_p),
        ("clock_name", ct.c_char_p),
        ("clock_hz_numerator", ct.c_uint32),
        ("clock_hz_denominator", ct.c_uint32),
        ("clock_bits", ct.c_uint8),
        ("more_clock_count", ct.c_uint8),
        ("baud_count", ct.c_uint8),
        ("bauds", ct.POINTER(ct.c_uint32)),
        ("more_clocks", ct.POINTER(_Clock)),
    ]


@mirrors("etd_server.h", "etd_placed_model")
class _PlacedModel(ct.Structure):
    _fields_ = [
        ("bytes", ct.c_void_p),
        ("size", ct.c_uint32),
        ("digest", ct.c_char_p),
        ("name", ct.c_char_p),
    ]


@mirrors("etd_server.h", "etd_server_config")
class _Config(ct.Structure):
    _fields_ = [
        ("port", ct.POINTER(_Port)),
        ("target", ct.POINTER(_Target)),
        ("build_id", ct.c_char_p),
        ("model", ct.c_void_p),
        ("model_capacity", ct.c_uint32),
        ("arena", ct.c_void_p),
        ("arena_capacity", ct.c_uint32),
        ("inputs", ct.c_void_p),
        ("input_capacity", ct.c_uint32),
        ("trace", ct.c_void_p),
        ("trace_capacity", ct.c_uint32),
        ("debug", ct.c_void_p),
        ("debug_capacity", ct.c_uint32),
        ("kept", ct.c_void_p),
        ("receive", ct.c_void_p),
        ("send", ct.c_void_p),
        ("encoded", ct.c_void_p),
        ("mtu", ct.c_uint32),
        ("placed", ct.POINTER(_PlacedModel)),
    ]


_Kept = room_for("etd_postmortem.h", "etd_postmortem", 1024)
_Server = room_for("etd_server.h", "etd_server", 4096)


class CServer:
    """A device in this process, with small memory.

    Attributes:
        kept: Memory that survives a reset: the record, and
        log: the tracer's buffer.
        on_tick: Called whenever it reads its clock.
        restarts: How often its clock was restarted.
        reboots: How often it wanted to reboot.
        edges: Levels of its marker pin, if there is one, each with the last tick that was read.
        fed: How often it fed its watchdog, if there is one.
        overruns: How often its port says it lost bytes.
        calls: What was asked of its port, in order: quiet, loud, restart, write.
        baud: The rate it has set.
        answers: Frames it sent that nobody has taken yet.
        chunks: What it has sent of a streamed log; the host at its other end answers at once.
        flash: Memory with the placed model, if there is one.
    """

    def __init__(
        self,
        library: ct.CDLL,
        *,
        model: int = 4096,
        inputs: int = 4096,
        trace: int = 8192,
        debug: int = 0,
        mtu: int = MTU,
        placed: bytes = b"",
        watchdog: bool = False,
        marker: bool = False,
        counters: int | None = None,
        more: MoreTracers | None = None,
    ) -> None:
        self.restarts = self.reboots = self.overruns = self.fed = 0
        self.calls: list[str] = []
        self.edges: list[tuple[bool, int]] = []
        self.baud = BAUDS[0]
        self.answers: list[Frame] = []
        self.chunks = LogChunks()
        self._library = library
        self.on_tick: Callable[[], None] = lambda: None
        self._now = 0
        self._received = bytearray()
        self._decoder = FrameDecoder(mtu)
        self._sequence = 0
        npu = ct.pointer(_Clock(b"npu", 1_000_000, 3, 24, True))
        rates = (ct.c_uint32 * len(BAUDS))(*BAUDS)
        self._target = _Target(
            b"test board", b"host", b"test clock", 1000, 1, 32, 1, len(BAUDS), rates, npu
        )
        self._port = _Port(
            None,
            *(_READ(self._read), _WRITE(self._write), _VOID(), _TICKS(self._ticks)),
            *(_VOID(self._restart), _VOID(self._reboot)),
            *(_QUIET(self._quiet), _TICKS(lambda _context: self.overruns), _RATE(self._set_baud)),
            *(_TICKS(), _VOID(self._alive) if watchdog else _VOID()),
            _COUNTERS(lambda _context: counters),
            _QUIET(self._marker) if marker else _QUIET(),
            _VOID(),
            ct.pointer(more) if more is not None else None,
        )
        longest = mtu + mtu // 254
        sizes = [
            model,
            16384,
            inputs,
            trace,
            max(debug, 1),
            ct.sizeof(_Kept),
            longest + 1,
            mtu,
            longest + 3,
        ]
        self._memory = [Memory(max(size, 1)) for size in sizes]
        program, arena, staged, log, values, kept, receive, send, encoded = self._memory
        self.kept, self.log = kept, log
        self._config = _Config(
            *(ct.pointer(self._port), ct.pointer(self._target), BUILD_ID),
            *(program.address, model, arena.address, arena.size),
            *(staged.address, staged.size, log.address, log.size),
            *(values.address, debug, kept.address),
            *(receive.address, send.address, encoded.address, mtu),
            self._place(placed) if placed else None,
        )
        self._state = _Server()
        library.etd_server_poll.restype = ct.c_bool
        self.start()

    def _place(self, model: bytes) -> Any:
        """Put a model where a board has its flash."""
        flash = Memory(len(model))
        ct.memmove(flash.address, model, len(model))
        self.flash = flash
        return ct.pointer(
            _PlacedModel(flash.address, len(model), sha256(model).digest(), b"placed.pte")
        )

    def start(self) -> None:
        """Start as after a reset: all state is new, memory is as it was."""
        ct.memset(ct.byref(self._state), 0x5A, ct.sizeof(self._state))
        self._library.etd_server_init(ct.byref(self._state), ct.byref(self._config))

    def fault(self, kind: int, number: int, registers: dict[int, int]) -> None:
        """What a fault handler does."""
        values = [registers.get(i, 0) for i in range(REGISTERS)]
        known = sum(1 << i for i in registers)
        words = (ct.c_uint32 * (3 + REGISTERS))(kind, number, known, *values)
        self._library.etd_postmortem_fault(ct.c_void_p(self.kept.address), words)

    def _read(self, _context: int | None, out: Any, size: int) -> int:
        count = min(size, len(self._received))
        ct.memmove(out, bytes(self._received[:count]), count)
        del self._received[:count]
        return count

    def _write(self, _context: int | None, data: Any, size: int) -> None:
        self.calls.append("write")
        for item in self._decoder.feed(ct.string_at(data, size)):
            assert isinstance(item, Frame), item
            self.answers.append(item)
            self._answer_log(item)

    def _answer_log(self, frame: Frame) -> None:
        if frame.type == Op.NOTE_LOG:
            ack = self.chunks.add(messages.LogPart.parse(frame.body))
        elif frame.type == Op.NOTE_LOG_WAIT:
            ack = self.chunks.wanted(messages.LogWait.parse(frame.body))
        else:
            return
        if ack is not None:
            self.feed(encode_frame(Op.LOG_ACK, 0, ack.encode()))

    def _ticks(self, _context: int | None) -> int:
        self.on_tick()
        self._now += TICK
        return self._now

    def _set_baud(self, _context: int | None, baud: int) -> None:
        self.baud = baud

    def _restart(self, _context: int | None) -> None:
        self._now = 0
        self.restarts += 1
        self.calls.append("restart")

    def _alive(self, _context: int | None) -> None:
        self.fed += 1

    def _marker(self, _context: int | None, high: bool) -> None:
        self.edges.append((high, self._now))

    def _quiet(self, _context: int | None, on: bool) -> None:
        self.calls.append("quiet" if on else "loud")

    def _reboot(self, _context: int | None) -> None:
        self.reboots += 1

    def poll(self) -> bool:
        """Let it do one step; False when it had nothing to do."""
        return bool(self._library.etd_server_poll(ct.byref(self._state)))

    def feed(self, data: bytes) -> None:
        """Put bytes on the line."""
        self._received += data

    def settle(self) -> list[Frame]:
        """Let it work until it is idle, and take what it sent."""
        for _ in range(100_000):
            if not self.poll():
                break
        else:
            raise AssertionError("the server never becomes idle")
        answers, self.answers = self.answers, []
        return answers

    def request(self, op: int, body: bytes = b"", *, times: int = 1) -> list[Frame]:
        """Send a request, perhaps repeatedly, and take all that is sent until it is idle."""
        self._sequence += 1
        self.feed(encode_frame(op, self._sequence, body) * times)
        return self.settle()

    def ask(self, op: int, body: bytes = b"") -> bytes:
        """Send a request and return the body of its one answer."""
        answers = [frame for frame in self.request(op, body) if frame.sequence]
        assert [(frame.type, frame.sequence) for frame in answers] == [
            (op | RESPONSE, self._sequence)
        ]
        return answers[0].body

    def upload(
        self, region: Region, index: int, data: bytes, *, chunk: int = 400, times: int = 1
    ) -> bytes:
        """OPEN, WRITE and COMMIT, each sent ``times`` times; return the answer to COMMIT."""
        requests = [(Op.OPEN, messages.OpenBody(region, index, len(data)).encode())]
        for at in range(0, len(data), chunk):
            body = messages.WriteBody(region, index, at, data[at : at + chunk]).encode()
            requests.append((Op.WRITE, body))
        requests.append(
            (Op.COMMIT, messages.CommitBody(region, index, sha256(data).digest()).encode())
        )
        for op, body in requests:
            answers = self.request(op, body, times=times)
            assert len(answers) == times
            assert len({frame.body for frame in answers}) == 1
        return answers[-1].body

    def run(self, run_id: int, count: int = 1, *, times: int = 1, **options: Any) -> list[Frame]:
        """RUN with some options, and all that came of it."""
        self.chunks = LogChunks()
        body = messages.RunBody(run_id, count, RunOptions(**options)).encode()
        return self.request(Op.RUN, body, times=times)

    def stat(self, region: Region, index: int = 0) -> Any:
        return messages.RegionInfo.parse(
            self.ask(Op.STAT, messages.StatBody(region, index).encode())
        )

    def fetch(self, region: Region, index: int = 0) -> bytes:
        """Read a region whole, and prove it."""
        info = self.stat(region, index)
        request = messages.ReadBody(region, index, 0, info.size).encode()
        data = join(self.request(Op.READ, request), info.size)
        assert sha256(data).digest() == info.digest
        return data

    def status(self) -> Any:
        return messages.DeviceStatus.parse(self.ask(Op.STATUS))

    def refusal(self, op: int, body: bytes = b"") -> Any:
        return messages.DeviceOutcome.parse(self.ask(op, body))


def join(frames: list[Frame], size: int) -> bytes:
    """The bytes that data frames carry; they must cover everything, once and in order."""
    data = b""
    for frame in frames:
        part = messages.RegionPart.parse(frame.body)
        assert part.offset == len(data)
        data += part.data
    assert len(data) == size
    return data
