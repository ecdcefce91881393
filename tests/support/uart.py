"""The C serial rings through ctypes, on a UART of one byte in each direction."""

from __future__ import annotations

import ctypes as ct
from typing import Any

from tests.support.mirrors import mirrors, room_for

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
