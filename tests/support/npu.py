"""Jobs for the simulated NPU, and methods that consist of one."""

from __future__ import annotations

import ctypes as ct
from collections.abc import Iterable

from firmware_stub.models.npu.job import Job
from harness import ClockDomain, Trace, read_log
from tests.support.programs import ProgramBuilder
from tests.support.runtime import TICKS, Memory, Tracer

NPU_BITS = 24
CLOCKS = [ClockDomain("cpu", None, 32), ClockDomain("npu", None, NPU_BITS)]


class Recorder:
    """A tracer of the device on a clock that moves by itself, ``step`` ticks at every reading."""

    def __init__(self, library: ct.CDLL, *, start: int = 0, step: int = 7) -> None:
        self.library = library
        self.now = start
        self._step = step
        self._log, self.tracer = Memory(1 << 16), Tracer()
        self._ticks = TICKS(self._read)
        log = ct.c_void_p(self._log.address)
        library.etd_tracer_init(ct.byref(self.tracer), log, self._log.size, self._ticks, None)

    def _read(self, _context: int | None) -> int:
        self.now = (self.now + self._step) % 2**32
        return self.now

    def trace(self) -> Trace:
        image = Memory(self.library.etd_log_size(ct.byref(self.tracer)))
        read = self.library.etd_log_read
        read(ct.byref(self.tracer), 0, ct.c_void_p(image.address), image.size)
        return read_log(image.read(), CLOCKS)


def program_of(
    job: Job,
    *,
    processed: bytes | None = None,
    specs: dict[str, bytes] | None = None,
    arguments: Iterable[tuple[int, ...]] | None = None,
    outputs: int = 1,
) -> bytes:
    """A .pte file whose method is one call of a job; its last arguments are the outputs."""
    matrices = [operand for operand in job.operands if operand.place == 0]
    shapes = arguments or [(operand.rows, operand.columns) for operand in matrices]
    program = ProgramBuilder([0, 1 << 16])
    numbers, place = [], 0
    for rows, columns in shapes:
        numbers.append(program.tensor((rows, columns), memory=(1, place)))
        place += -(-4 * rows * columns // 16) * 16
    data = job.encode() if processed is None else processed
    program.delegate("SimulatedNpu", *numbers, processed=data, specs=specs)
    cut = len(numbers) - outputs
    return program.finish(numbers[:cut], numbers[cut:])
