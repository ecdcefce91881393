"""The ED00 file that a device writes itself."""

from __future__ import annotations

import ctypes as ct

from tests.support.mirrors import mirrors
from tests.support.tracer import CTracer

WRITE = ct.CFUNCTYPE(ct.c_bool, ct.c_void_p, ct.c_void_p, ct.c_uint32)


@mirrors("etd_etdump.h", "etd_etdump_sink")
class Sink(ct.Structure):
    _fields_ = [("write", WRITE), ("context", ct.c_void_p)]


def device_file(tracer: CTracer, *, allocations: bool = True, limit: int = 1 << 30) -> bytes | None:
    """The file, or None when the sink, full after ``limit`` bytes, has stopped it."""
    data = bytearray()

    def write(_context: int, at: int, size: int) -> bool:
        data.extend(ct.string_at(at, size))
        return len(data) <= limit

    sink = Sink(WRITE(write), None)
    flag = ct.c_bool(allocations)
    complete = tracer.call("etdump_write", flag, ct.byref(sink)) & 0xFF
    if not complete:
        return None
    assert tracer.call("etdump_size", flag) == len(data)
    return bytes(data)
