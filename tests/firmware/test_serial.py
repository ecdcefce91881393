"""The rings behind a UART, driven by one made of Python that interrupts whenever it may."""

from __future__ import annotations

import ctypes as ct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.mirrors import mirrors, room_for

# The C serial rings through ctypes, on a UART of one byte in each direction.
OVERRUN = 0x100
RECEIVE_RING = 16
SEND_RING = 8

_RECEIVE = ct.CFUNCTYPE(ct.c_int32, ct.c_void_p)
_SEND = ct.CFUNCTYPE(ct.c_bool, ct.c_void_p, ct.c_uint8)
_INTERRUPTS = ct.CFUNCTYPE(None, ct.c_void_p, ct.c_bool, ct.c_bool)
_TICKS = ct.CFUNCTYPE(ct.c_uint32, ct.c_void_p)
_MASK = ct.CFUNCTYPE(None, ct.c_void_p, ct.c_bool)


@mirrors("etd_serial.h", "etd_uart")
class _Uart(ct.Structure):
    _fields_ = [
        ("context", ct.c_void_p),
        ("receive", _RECEIVE),
        ("send", _SEND),
        ("interrupts", _INTERRUPTS),
        ("mask", _MASK),
        ("ticks", _TICKS),
        ("timeout", ct.c_uint32),
    ]


_Serial = room_for("etd_serial.h", "etd_serial", 256)


class SerialOnUart:
    """Events raise interrupts at once, or as soon as the mask is lifted.

    An interrupt is raised when a byte arrives or leaves while that may interrupt, and not for what
    happened before: the strictest kind of UART.

    Attributes:
        busy: It takes no byte to send; ``patience`` refusals later it does again.
        sent: What it was given to send.
        interrupts: How often the handler was called.
        now: Its clock, which advances with each look at it.
        gaps: How often it had to say that bytes before the next one were lost.
    """

    def __init__(self, library: ct.CDLL, timeout: int = 0) -> None:
        self.now = 0
        self.busy, self.patience = False, 0
        self.sent = b""
        self.interrupts = self.gaps = 0
        self._buffer: int | None = None
        self._overrun = False
        self._masked = self._pending = False
        self._allowed = (False, False)
        self._uart = _Uart(
            None,
            *(_RECEIVE(self._receive), _SEND(self._send)),
            *(_INTERRUPTS(self._allow), _MASK(self._mask)),
            *(_TICKS(self._ticks), timeout),
        )
        self._rings = [(ct.c_uint8 * RECEIVE_RING)(), (ct.c_uint8 * SEND_RING)()]
        self._state = _Serial()
        self._library = library
        for name in ("waiting", "write", "flush"):
            getattr(library, f"etd_serial_{name}").restype = ct.c_bool
        receive, send = self._rings
        self._call("init", ct.byref(self._uart), receive, RECEIVE_RING, send, SEND_RING)

    # --- the line -------------------------------------------------------------------------

    @property
    def has_room_for_a_byte(self) -> bool:
        return self._buffer is None

    def arrive(self, byte: int) -> bool:
        """A byte comes from the line; False when it was lost."""
        kept = self._buffer is None
        if kept:
            self._buffer = byte
        else:
            self._overrun = True
        self._raise(self._allowed[0])
        return kept

    def becomes_free(self) -> None:
        """The byte being sent is out."""
        self.busy = False
        self._raise(self._allowed[1])

    # --- the functions under test ---------------------------------------------------------

    def read(self, size: int) -> bytes:
        out = (ct.c_uint8 * max(1, size))()
        waited = self._call("waiting")
        count = self._call("read", out, size)
        assert (count > 0) == (waited and size > 0)
        return bytes(out[:count])

    def write(self, data: bytes) -> bool:
        return bool(self._call("write", data, len(data)))

    def room(self) -> int:
        return self._call("room")

    def flush(self) -> bool:
        return bool(self._call("flush"))

    def quiet(self, on: bool) -> None:
        self._call("quiet", ct.c_bool(on))

    def overruns(self) -> int:
        return self._call("overruns")

    def dropped(self) -> int:
        return self._call("dropped")

    def _call(self, name: str, *arguments: Any) -> int:
        return int(getattr(self._library, f"etd_serial_{name}")(ct.byref(self._state), *arguments))

    # --- the UART -------------------------------------------------------------------------

    def _raise(self, allowed: bool) -> None:
        if allowed and self._masked:
            self._pending = True
        elif allowed:
            self._interrupt()

    def _interrupt(self) -> None:
        self.interrupts += 1
        # As a core does: the handler is not interrupted by itself.
        self._masked = True
        self._library.etd_serial_interrupt(ct.byref(self._state))
        self._masked = False

    def _ticks(self, _context: int | None) -> int:
        self.now = (self.now + 1) % 2**32
        return self.now

    def _receive(self, _context: int | None) -> int:
        if self._buffer is None:
            return -1
        byte, self._buffer = self._buffer, None
        if self._overrun:
            byte |= OVERRUN
            self.gaps += 1
        self._overrun = False
        return byte

    def _send(self, _context: int | None, byte: int) -> bool:
        if self.busy and self.patience > 0:
            self.patience -= 1
            self.busy = self.patience > 0
        if self.busy:
            return False
        self.sent += bytes([byte])
        self.busy = self.patience > 0
        return True

    def _allow(self, _context: int | None, received: bool, room: bool) -> None:
        self._allowed = (received, room)

    def _mask(self, _context: int | None, on: bool) -> None:
        self._masked = on
        if not on and self._pending:
            self._pending = False
            self._interrupt()


@pytest.fixture
def serial(etstub: ct.CDLL) -> SerialOnUart:
    serial = SerialOnUart(etstub)
    serial.quiet(False)
    return serial


def test_bytes_that_arrive_while_nobody_reads_are_kept(serial: SerialOnUart) -> None:
    sent = bytes(range(RECEIVE_RING))
    for byte in sent:
        assert serial.arrive(byte)
    assert serial.read(1000) == sent
    assert serial.overruns() == 0


def test_a_full_ring_leaves_bytes_in_the_uart_and_goes_on_when_read(serial: SerialOnUart) -> None:
    for byte in range(RECEIVE_RING + 1):
        assert serial.arrive(byte)
    assert not serial.has_room_for_a_byte, "the last byte is still in the UART"
    assert serial.read(1) == b"\0"
    assert serial.has_room_for_a_byte, "room was made, and used without another interrupt"
    assert serial.read(1000) == bytes(range(1, RECEIVE_RING + 1))


def test_bytes_the_uart_had_to_drop_are_counted(serial: SerialOnUart) -> None:
    for byte in range(RECEIVE_RING + 1):
        serial.arrive(byte)
    assert [serial.arrive(byte) for byte in (1, 2, 3)] == [False] * 3
    assert serial.overruns() == 0, "not known before the UART is read again"
    serial.read(1000)
    assert serial.overruns() == 1, "one gap, however long"


def test_nothing_interrupts_while_quiet(serial: SerialOnUart) -> None:
    serial.quiet(True)
    handled = serial.interrupts
    serial.arrive(7)
    serial.write(b"note")
    assert serial.interrupts == handled
    assert serial.sent == b"note", "handed over before write returned"
    serial.quiet(False)
    assert serial.read(10) == b"\7"


def test_it_begins_quiet(etstub: ct.CDLL) -> None:
    serial = SerialOnUart(etstub)
    serial.write(b"boot")
    assert serial.sent == b"boot"
    assert serial.interrupts == 0


def test_what_is_written_waits_in_the_ring_only_while_the_uart_is_busy(
    serial: SerialOnUart,
) -> None:
    serial.busy = True
    serial.write(b"ab")
    assert serial.sent == b""
    assert serial.room() == SEND_RING - 2
    serial.becomes_free()
    serial.becomes_free()
    assert serial.sent == b"ab"
    assert serial.room() == SEND_RING


def test_going_quiet_sends_what_waits(serial: SerialOnUart) -> None:
    serial.busy = True
    serial.write(b"abc")
    serial.patience = 5
    serial.quiet(True)
    assert serial.sent == b"abc"


_steps = st.lists(
    st.one_of(
        st.tuples(st.just("arrive"), st.integers(1, 40)),
        st.tuples(st.just("read"), st.integers(0, 40)),
        st.tuples(st.just("write"), st.integers(0, 3 * SEND_RING)),
        st.tuples(st.just("free"), st.integers(1, 20)),
        st.tuples(st.just("quiet"), st.booleans()),
    ),
    max_size=60,
)


@given(steps=_steps)
def test_any_order_of_events_keeps_every_byte_in_order(
    etstub: ct.CDLL, steps: list[tuple[str, int]]
) -> None:
    serial = SerialOnUart(etstub)
    arrived, read, written = bytearray(), bytearray(), bytearray()
    lost = False
    for step, amount in steps:
        serial.patience = 3
        if step == "arrive":
            for byte in range(amount):
                kept = serial.arrive(byte)
                arrived += bytes([byte]) * kept
                lost = lost or not kept
        elif step == "read":
            read += serial.read(amount)
        elif step == "write":
            written += bytes(range(amount))
            serial.write(bytes(range(amount)))
            serial.busy = bool(amount % 2)
        elif step == "free":
            for _ in range(amount):
                serial.becomes_free()
        else:
            serial.quiet(bool(amount))
    serial.patience = 3
    serial.quiet(False)
    while part := serial.read(64):
        read += part
    serial.flush()
    assert read == arrived
    assert serial.sent == written
    assert serial.overruns() == serial.gaps
    assert (serial.gaps > 0) == lost


TIMEOUT = 50


@pytest.mark.parametrize("now", [0, 2**32 - 20])
def test_a_write_gives_up_on_a_uart_that_takes_nothing(etstub: ct.CDLL, now: int) -> None:
    serial = SerialOnUart(etstub, TIMEOUT)
    serial.now = now
    serial.quiet(False)
    serial.busy = True
    data = bytes(range(3 * SEND_RING))
    assert not serial.write(data)
    assert TIMEOUT <= (serial.now - now) % 2**32 <= 2 * TIMEOUT
    assert serial.dropped() + len(serial.sent) == len(data)
    serial.busy = False
    assert serial.write(b"again")
    assert serial.flush()
    assert serial.sent.endswith(b"again")


def test_a_slow_uart_is_waited_for(etstub: ct.CDLL) -> None:
    """The time counts from the last byte that the UART took."""
    serial = SerialOnUart(etstub, TIMEOUT)
    serial.patience = 3  # three refusals for each byte
    serial.busy = True
    data = bytes(range(4 * TIMEOUT))
    for byte in data:
        serial.patience, serial.busy = 3, True
        assert serial.write(bytes([byte]))
    assert serial.now > TIMEOUT
    assert serial.sent == data
    assert serial.dropped() == 0


def test_a_flush_gives_up_too(etstub: ct.CDLL) -> None:
    serial = SerialOnUart(etstub, TIMEOUT)
    serial.quiet(False)
    serial.busy = True
    assert serial.write(b"abc")
    assert not serial.flush()
    assert serial.dropped() == 3
