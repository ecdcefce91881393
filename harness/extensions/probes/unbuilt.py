"""Traces ExecuTorch in firmware that nobody rebuilt, under QEMU: the machine is not stopped.

Used by ``etharness trace``, and by extensions whose boards start such firmware themselves:

    tracer = InstructionTracer(image, directory)      # finds ExecuTorch, builds the plugin
    start(qemu, *tracer.arguments)
    while tracer.executions() < 1: ...
    end(qemu)                                          # by SIGTERM, so that all is written
    etdump = tracer.etdump(method)
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from harness.decode.ed00_writer import write_ed00
from harness.decode.program import Method
from harness.errors import TargetError, UsageError, did_you_mean
from harness.extensions.probes.executorch_code import CodeSet, Role, find_executorch, qualified_name
from harness.extensions.probes.follow_executorch import (
    INSTRUCTIONS,
    FollowedRuntime,
    calls_of,
    ended_calls,
    trace_of_calls,
    trace_of_runtime,
)
from harness.extensions.probes.instruction_counter import InstructionCounter
from harness.extensions.probes.memory import FirmwareElf, Symbol
from harness.records.trace import ClockDomain, Trace

CLOCK = INSTRUCTIONS
"""The clock of its events."""


class InstructionTracer:
    """Counts the instructions of each operator of an unmodified firmware with ExecuTorch.

    Attributes:
        elf: The firmware.
        execution_begin: Address of the function that is an execution.
    """

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
        execute = self._code.of(Role.EXECUTE)
        assert execute is not None
        self._execute = execute
        self.execution_begin: int | None = execute.begin
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
        number = self._code.sets.index(self._execute)
        calls = calls_of(self._execute, number, self._counter.read())
        return len(ended_calls(calls))

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


class CallTracer:
    """Counts the instructions of functions that any runtime calls once per operator.

    Attributes:
        elf: The firmware.
        execution_begin: Address of the function that is an execution; None without one.
    """

    def __init__(
        self, image: Path, directory: Path, at: Sequence[str], execution: str | None = None
    ) -> None:
        """Find the functions, and prepare the plugin.

        Args:
            image: ELF file of the firmware, with symbols.
            directory: Where to put files for the time of the run.
            at: Names of the functions, mangled or with namespaces, or patterns of them with ``*``.
            execution: The function that is an execution; None if all calls are of one.

        Raises:
            UsageError: There is no such function, or it cannot be watched.
            FormatError: The file is not an ELF file of a microcontroller.
        """
        self.elf = FirmwareElf(image)
        functions = matching_functions(self.elf, at)
        self._execution = (
            None if execution is None else matching_functions(self.elf, [execution], most=1)
        )
        self.execution_begin = self._execution[0].address if self._execution else None
        outer = self._execution or []
        self._sets = [
            CodeSet(
                Role.WRAPPER, each.name, each.address, ((each.address, each.address + each.size),)
            )
            for each in [*outer, *(each for each in functions if each not in outer)]
        ]
        self._counter = InstructionCounter.of([each.ranges for each in self._sets], (), directory)

    @property
    def arguments(self) -> tuple[str, ...]:
        """Arguments for QEMU, which load the plugin."""
        return self._counter.arguments

    def executions(self) -> int:
        """Return how many executions have ended until now; 0 without a function of one."""
        if self._execution is None:
            return 0
        return len(ended_calls(calls_of(self._sets[0], 0, self._counter.read())))

    def trace(self, _method: Method | None = None, clock: ClockDomain = CLOCK) -> Trace:
        """Return the calls of the functions, those within another one left out.

        Raises:
            TargetError: No function was called.
        """
        passages = self._counter.read()
        calls = sorted(
            (
                (call, qualified_name(code.name))
                for number, code in enumerate(self._sets)
                if number or self._execution is None
                for call in calls_of(code, number, passages)
            ),
            key=lambda item: item[0].begin,
        )
        if not calls:
            raise TargetError(
                f"the firmware {self.elf.path} called none of the {len(self._sets)} functions",
                hint="check that --at names functions that are called once per operator",
            )
        executions = (
            ended_calls(calls_of(self._sets[0], 0, passages)) if self._execution else [None]
        )
        return trace_of_calls(calls, executions, clock)


def matching_functions(
    elf: FirmwareElf, patterns: Sequence[str], *, most: int | None = None
) -> list[Symbol]:
    """Return functions by names, mangled or with namespaces, or by patterns with ``*``.

    Raises:
        UsageError: There is none of a name, or there are more than ``most``.
    """
    found: dict[int, Symbol] = {}
    for pattern in patterns:
        matching = [
            each
            for each in elf.functions
            if each.size
            and (fnmatchcase(each.name, pattern) or fnmatchcase(qualified_name(each.name), pattern))
        ]
        if not matching:
            names = {qualified_name(each.name) for each in elf.functions}
            raise UsageError(
                f"{elf.path} has no function {pattern!r}",
                hint=did_you_mean(pattern, names)
                + "an image that was stripped has no symbols; the "
                "compiler may also have inlined it",
            )
        found |= {each.address: each for each in matching}
    if most is not None and len(found) > most:
        some = ", ".join(qualified_name(each.name) for each in list(found.values())[:5])
        raise UsageError(
            f"{', '.join(patterns)} names {len(found)} functions of {elf.path}: {some}",
            hint="name one, mangled if necessary",
        )
    return list(found.values())
