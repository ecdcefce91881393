"""Traces ExecuTorch in firmware that nobody rebuilt, under QEMU: the machine is not stopped.

Used by ``etharness trace``, and by extensions whose boards start such firmware themselves:

    tracer = InstructionTracer(image, directory)      # finds ExecuTorch, builds the plugin
    start(qemu, *tracer.arguments)
    while tracer.executions() < 1: ...
    end(qemu)                                          # by SIGTERM, so that all is written
    etdump = tracer.etdump(method)
"""

from __future__ import annotations

from pathlib import Path

from harness.decode.ed00_writer import write_ed00
from harness.decode.program import Method
from harness.errors import TargetError
from harness.extensions.probes.executorch_code import find_executorch
from harness.extensions.probes.follow_executorch import (
    INSTRUCTIONS,
    FollowedRuntime,
    trace_of_runtime,
)
from harness.extensions.probes.instruction_counter import InstructionCounter
from harness.extensions.probes.memory import FirmwareElf
from harness.records.trace import ClockDomain, Trace

CLOCK = INSTRUCTIONS
"""The clock of its events."""


class InstructionTracer:
    """Counts the instructions of each operator of an unmodified firmware with ExecuTorch."""

    def __init__(self, image: Path, directory: Path) -> None:
        """Find ExecuTorch in an image, and prepare the plugin.

        Args:
            image: ELF file of the firmware, with symbols.
            directory: Where to put files for the time of the run; not in it later.

        Raises:
            FormatError: It is stripped, or contains no ExecuTorch.
            UsageError: It cannot be read, or the host has no C compiler.
            InfrastructureError: The compiler failed.
        """
        self.elf = FirmwareElf(image)
        self._code = find_executorch(self.elf)
        sets = [each.ranges for each in self._code.sets]
        self._counter = InstructionCounter.of(
            sets, {*self._code.kernels, *self._code.delegates}, directory
        )

    @property
    def arguments(self) -> tuple[str, ...]:
        """Arguments for QEMU, which load the plugin."""
        return self._counter.arguments

    def executions(self) -> int:
        """Return how many executions have ended until now."""
        return len(self.followed().executions)

    def followed(self) -> FollowedRuntime:
        """Return what was recorded until now; complete once QEMU has ended."""
        return FollowedRuntime(self._code, self._counter.read())

    def trace(self, method: Method | None, clock: ClockDomain = CLOCK) -> Trace:
        """Return the trace, with counts of instructions as times, once QEMU has ended.

        Args:
            method: The method from the model's file; None to name kernels by their functions.
            clock: The clock to give to its events.

        Raises:
            TargetError: No execution has ended, or the firmware runs another model.
        """
        followed = self.followed()
        if not followed.executions:
            what = "has begun one that did not end" if followed.unfinished else "has begun none"
            raise TargetError(
                f"the firmware {self.elf.path} has ended no execution: it {what}",
                hint="see its console; firmware that waits for something needs it first",
            )
        return trace_of_runtime(followed, method, clock)

    def etdump(self, method: Method | None) -> bytes:
        """Return the trace as an ED00 file; arguments and errors as of `trace`."""
        return write_ed00(self.trace(method))
