"""Turns passages through ExecuTorch's functions into the events that its own tracer would log.

An execution is a call of ``Method::execute``. Within it each call of ``execute_instruction`` is one
instruction, and where it goes out to a function of the kernel table, or to ``execute`` of a
backend, is the scope ``OPERATOR_CALL`` or ``DELEGATE_CALL``; where generated code goes out to a
kernel is ``native_call_...``. Which instruction it is follows from the order and the ``.pte`` file.
What cannot be known is left out.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from harness.decode.program import Call, Instruction, Method
from harness.errors import TargetError
from harness.extensions.probes.executorch_code import (
    CodeSet,
    ExecutorchCode,
    Role,
    is_generated,
    qualified_name,
)
from harness.extensions.probes.instruction_counter import Passage, Passages
from harness.formatting import KERNEL_EVENT, counted
from harness.records.trace import (
    DELEGATE_CALL,
    EXECUTION,
    LOADING,
    OPERATOR_CALL,
    Block,
    ClockDomain,
    Kind,
    Trace,
)

_VENEER: Final = 4
"""Most instructions of a jump that the linker puts between a caller and a function far away."""

INSTRUCTIONS: Final = ClockDomain("instructions", None, 64)
"""The clock of counted instructions."""


class Excursion(NamedTuple):
    """A time that control spends outside of a function, as in what it calls."""

    begin: int
    end: int
    site: int


@dataclass(slots=True)
class FunctionCall:
    """A call of a function, with counts of instructions.

    Attributes:
        begin: Before its first instruction.
        end: After its last one, or after the last one seen.
        returned: It has ended by an instruction that returns, not by a jump to another function.
        excursions: What it called, in order of time; interrupts, too.
    """

    begin: int
    end: int
    returned: bool = False
    excursions: list[Excursion] = field(default_factory=list)


def calls_of(code: CodeSet, number: int, passages: Passages) -> list[FunctionCall]:
    """Return the calls of a function, in order of time.

    Args:
        code: The function.
        number: The number of its set.
        passages: What the counter recorded.
    """
    rows = np.flatnonzero((passages.sets == number) & (passages.kinds != Passage.POINT))
    columns = passages.counts[rows], passages.addresses[rows], passages.kinds[rows]
    calls: list[FunctionCall] = []
    call: FunctionCall | None = None
    site, returned = 0, False
    for count, address, kind in zip(*(column.tolist() for column in columns), strict=True):
        if kind != Passage.ENTER:
            if call is not None:
                call.end, site, returned = count, address, kind == Passage.RETURN
        elif call is not None and count == call.end and address != code.begin:
            returned = False  # what looked like a return was conditional, or of a piece
        elif address == code.begin:
            if call is not None:
                call.returned = returned
            call = FunctionCall(count, count)
            calls.append(call)
            returned = False
        elif call is not None:
            call.excursions.append(Excursion(call.end, count, site))
            returned = False
    if call is not None:
        call.returned = returned
    return calls


def ended_calls(calls: Sequence[FunctionCall]) -> list[FunctionCall]:
    """Return the calls that have ended; one that was followed by another has, if by a jump."""
    return [*calls[:-1], *(call for call in calls[-1:] if call.returned)]


class Observed(NamedTuple):
    """An instruction that was executed.

    Attributes:
        kind: `Call.KERNEL`, `Call.DELEGATE`, or None if it called neither.
        begin: Before what it called.
        end: After it.
        function: Mangled name of the kernel, or of the backend's function; "" if it is unknown.
        native: Begin and end of the kernel within generated code; None without.
    """

    kind: Call | None
    begin: int = 0
    end: int = 0
    function: str = ""
    native: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class FollowedExecution:
    """An execution of a method, or what of it was seen.

    Attributes:
        call: The call of ``Method::execute``.
        instructions: Instructions, in order; those without a kernel and a delegate only if
            ``execute_instruction`` is a function of its own.
    """

    call: FunctionCall
    instructions: tuple[Observed, ...]


class _Entries:
    """Entries into functions, found by the count at which they happened."""

    def __init__(self, entries: Sequence[tuple[int, str]]) -> None:
        self._entries = sorted(entries)
        self._counts = [count for count, _ in self._entries]

    def at(self, count: int) -> str | None:
        """Return the function that was entered at a count, or behind a veneer."""
        found = bisect.bisect_left(self._counts, count)
        if found < len(self._counts) and self._counts[found] - count <= _VENEER:
            return self._entries[found][1]
        return None


class FollowedRuntime:
    """ExecuTorch as the counter saw it.

    Attributes:
        executions: Calls of ``Method::execute`` that have returned.
        loads: Calls of ``Program::load_method`` that have returned.
        inits: Calls of ``Method::init`` that have returned.
        unfinished: A call of ``Method::execute`` that has not returned.
        separate: ``execute_instruction`` is a function of its own, so every instruction is seen.
    """

    def __init__(self, code: ExecutorchCode, passages: Passages) -> None:
        self._code, self._passages = code, passages
        calls = {role: self._calls(role) for role in Role if role != Role.WRAPPER}
        self.loads, self.inits = (
            [call for call in calls[role] if call.returned] for role in (Role.LOAD, Role.INIT)
        )
        self._wrapped = self._wrappers()
        self._begins = sorted(self._wrapped)
        points = passages.kinds == Passage.POINT
        entries = list(
            zip(passages.counts[points].tolist(), passages.addresses[points].tolist(), strict=True)
        )
        self._kernels = _Entries([(n, code.kernels[at]) for n, at in entries if at in code.kernels])
        self._backends = _Entries(
            [(n, code.delegates[at]) for n, at in entries if at in code.delegates]
        )
        self.separate = code.of(Role.INSTRUCTION) is not None
        steps = calls[Role.INSTRUCTION]
        executes = calls[Role.EXECUTE]
        whole = ended_calls(executes)
        self.unfinished = executes[-1] if len(whole) < len(executes) else None
        found = [(call, list(self._seen(call, steps))) for call in whole]
        sites = self._kernel_sites(steps if self.separate else whole)
        self.executions = [
            FollowedExecution(call, tuple(self._observed(each, sites) for each in each_step))
            for call, each_step in found
        ]

    def _calls(self, role: Role) -> list[FunctionCall]:
        for number, code in enumerate(self._code.sets):
            if code.role == role:
                return calls_of(code, number, self._passages)
        return []

    def _wrappers(self) -> dict[int, tuple[CodeSet, FunctionCall]]:
        """Return calls of functions of the kernel table by the count at their begin."""
        numbers = set(np.unique(self._passages.sets).tolist())
        return {
            call.begin: (code, call)
            for number, code in enumerate(self._code.sets)
            if code.role == Role.WRAPPER and number in numbers
            for call in calls_of(code, number, self._passages)
        }

    def _seen(
        self, call: FunctionCall, steps: list[FunctionCall]
    ) -> Iterator[tuple[Excursion, ...]]:
        """Yield what each instruction of an execution called."""
        if self.separate:
            for step in steps:
                if call.begin <= step.begin < call.end:
                    yield tuple(step.excursions)
        else:
            for excursion in call.excursions:
                if self._target(excursion) is not None:
                    yield (excursion,)

    def _kernel_sites(self, calls: list[FunctionCall]) -> dict[int, Call]:
        """Return the instructions that call kernels or backends, by the known ones they call."""
        sites = {}
        for call in calls:
            for excursion in call.excursions:
                target = self._target(excursion)
                if target is not None:
                    sites[excursion.site] = target
        return sites

    def _wrapper(self, excursion: Excursion) -> tuple[CodeSet, FunctionCall] | None:
        found = bisect.bisect_left(self._begins, excursion.begin)
        if found < len(self._begins) and self._begins[found] - excursion.begin <= _VENEER:
            return self._wrapped[self._begins[found]]
        return None

    def _target(self, excursion: Excursion) -> Call | None:
        if self._wrapper(excursion) is not None:
            return Call.KERNEL
        return Call.DELEGATE if self._backends.at(excursion.begin) is not None else None

    def _observed(self, excursions: tuple[Excursion, ...], sites: dict[int, Call]) -> Observed:
        for excursion in excursions:
            kind = self._target(excursion) or sites.get(excursion.site)
            if kind is None:
                continue
            begin, end, _ = excursion
            if kind == Call.DELEGATE:
                return Observed(kind, begin, end, self._backends.at(begin) or "")
            wrapper = self._wrapper(excursion)
            function, native = self._kernels.at(begin) or "", None
            if wrapper is not None:
                code, call = wrapper
                if is_generated(code.name):
                    function, native = self._native(call, end)
                else:
                    function = code.name
            return Observed(kind, begin, end, function, native)
        return Observed(None)

    def _native(self, wrapper: FunctionCall, ends: int) -> tuple[str, tuple[int, int] | None]:
        """Return the name of the kernel that generated code called, and when."""
        # A jump to the kernel instead of a call comes back to where ``ends`` is.
        jump = Excursion(wrapper.end, ends, 0)
        for begin, end, _ in (*wrapper.excursions, *(() if wrapper.returned else (jump,))):
            if (name := self._kernels.at(begin)) is not None:
                return name, (begin, end)
        return "", None


Place = tuple[int, int]
"""An instruction of a method: chain and number."""

NO_PLACE: Final = (-1, 0)
"""Chain and instruction of events outside of instructions, and of those that are not known."""


def identify(
    observed: Sequence[Observed], method: Method, *, separate: bool = True
) -> list[Place | None]:
    """Return which instruction each observed one is; None where several are possible.

    Args:
        observed: The instructions of one execution.
        method: The method from the model's file.
        separate: Instructions without a kernel and a delegate were observed, too.

    Raises:
        TargetError: It is another model's.
    """
    chains = [chain for chain in range(len(method.chains)) if method.chains[chain]]
    starts = _through(method, (chains[0], 0), separate) if chains else {None}
    before: list[dict[Place, set[Place]]] = []
    states: dict[Place, set[Place]] = {place: set() for place in starts if place is not None}
    for number, each in enumerate(observed):
        fitting = {place: past for place, past in states.items() if _fits(each, method, place)}
        if not fitting:
            raise TargetError(_contradiction(number, each, method, list(states)))
        before.append(fitting)
        states = {}
        for place in fitting:
            for after in successors(method, place, separate=separate):
                if after is not None:
                    states.setdefault(after, set()).add(place)
        if number + 1 == len(observed):
            last = {p for p in fitting if None in successors(method, p, separate=separate)}
            if not last:
                raise TargetError(
                    f"the execution ended after {counted(number + 1, 'instruction')}, before "
                    f"the end of {method.name}",
                    hint="the firmware runs another model, or an operator failed: see its console",
                )
    possible: list[set[Place]] = []
    following = last if observed else set()
    for number in range(len(observed) - 1, -1, -1):
        possible.append(following)
        following = {past for place in following for past in before[number][place]}
    return [places.pop() if len(places) == 1 else None for places in reversed(possible)]


def successors(method: Method, place: Place, *, separate: bool) -> set[Place | None]:
    """Return what may be observed after an instruction; None stands for the end."""
    chain, index = place
    instruction = method.chains[chain][index]
    following = [(chain, index + 1)]
    if instruction.call == Call.JUMP_FALSE:
        following.append((chain, instruction.target))
    return set().union(*(_through(method, each, separate) for each in following))


def _through(method: Method, place: Place, separate: bool) -> set[Place | None]:
    """Return the first instructions from a place on that are observed."""
    found: set[Place | None] = set()
    pending, seen = [place], set()
    while pending:
        chain, index = pending.pop()
        while chain < len(method.chains) and index >= len(method.chains[chain]):
            chain, index = chain + 1, 0
        if (chain, index) in seen:
            continue
        seen.add((chain, index))
        if chain >= len(method.chains):
            found.add(None)
            continue
        instruction = method.chains[chain][index]
        if separate or instruction.call in (Call.KERNEL, Call.DELEGATE):
            found.add((chain, index))
            continue
        pending.append((chain, index + 1))
        if instruction.call == Call.JUMP_FALSE:
            pending.append((chain, instruction.target))
    return found


def _fits(each: Observed, method: Method, place: Place) -> bool:
    instruction = method.chains[place[0]][place[1]]
    if each.kind is None:  # a kernel of an unknown kind may be behind it
        return instruction.call != Call.DELEGATE
    if instruction.call != each.kind:
        return False
    return each.kind != Call.KERNEL or _is_kernel_of(each.function, instruction.name)


def _is_kernel_of(function: str, operator: str) -> bool:
    """Whether a kernel may be an operator's: by the words of its name, if it has any."""
    name = qualified_name(function).rsplit("::", 1)[-1]
    if not name.endswith(("_out", "_")):
        return True
    base = operator.rsplit("::", 1)[-1].split(".", 1)[0].strip("_")
    return base in name or name.removesuffix("_out").strip("_") in base


def _contradiction(number: int, each: Observed, method: Method, places: list[Place]) -> str:
    seen = {Call.KERNEL: "a kernel", Call.DELEGATE: "a delegate", None: "no kernel"}[each.kind]
    if each.function:
        seen = qualified_name(each.function)
    if not places:
        return (
            f"{method.name} of the model ends before instruction {number} of the firmware: {seen}"
        )
    expected = ", ".join(
        method.chains[chain][index].name or method.chains[chain][index].call.name.lower()
        for chain, index in sorted(places)
    )
    return (
        f"the firmware runs another model: instruction {number} of its execution called {seen}, "
        f"{method.name} of the model has {expected} there"
    )


class EventTable:
    """Builds a trace of profile events, in the order in which they end."""

    def __init__(self) -> None:
        self._names: dict[str, int] = {}
        self._rows: list[tuple[int, int, int, int, int]] = []
        self._blocks: list[Block] = []

    def add(self, name: str, begin: int, end: int, place: Place = NO_PLACE) -> None:
        """Add an event to the block that is finished next."""
        number = self._names.setdefault(name, len(self._names))
        self._rows.append((number, *place, begin, end))

    def finish_block(self, name: str) -> None:
        """Make a block of the events since the last one, if there are any."""
        first = sum(block.count for block in self._blocks)
        if len(self._rows) > first:
            self._blocks.append(Block(name, first, len(self._rows) - first))

    def trace(self, clock: ClockDomain) -> Trace:
        """Return the trace; all times are of one clock."""
        table = np.array(self._rows, np.int64).reshape(len(self._rows), 5)
        trace = Trace.unset(
            len(table), names=tuple(self._names), blocks=self._blocks, clocks=(clock,)
        )
        trace.kind[:] = Kind.PROFILE
        trace.clock[:] = 0
        trace.name[:], trace.chain[:], trace.instruction[:] = table[:, 0], table[:, 1], table[:, 2]
        trace.start[:], trace.end[:] = table[:, 3], table[:, 4]
        return trace.sealed()


def trace_of_runtime(
    runtime: FollowedRuntime, method: Method | None, clock: ClockDomain = INSTRUCTIONS
) -> Trace:
    """Return the events of a followed runtime as ExecuTorch's tracer logs them.

    Args:
        runtime: What the counter saw.
        method: The method from the model's file, for names and numbers of instructions; None to
            name kernels by their functions.
        clock: The clock of the counts.

    Raises:
        TargetError: The firmware runs another model.
    """
    events = EventTable()
    loads = [(load, LOADING[0], "Default") for load in runtime.loads]
    for call, name, block in sorted(
        [*loads, *((each.call, EXECUTION, "Execute") for each in runtime.executions)],
        key=lambda item: item[0].begin,
    ):
        if block == "Default":
            for init in runtime.inits:
                if call.begin <= init.begin < call.end:
                    events.add(LOADING[1], init.begin, init.end)
        else:
            (execution,) = (each for each in runtime.executions if each.call is call)
            _add_instructions(events, execution, method, separate=runtime.separate)
        events.add(name, call.begin, call.end)
        events.finish_block(block)
    return events.trace(clock)


def kernel_event(instruction: Instruction) -> str:
    """Return the name that generated code gives to the event of a kernel."""
    return f"{KERNEL_EVENT}{instruction.name.rsplit('::', 1)[-1]}"


def _add_instructions(
    events: EventTable, execution: FollowedExecution, method: Method | None, *, separate: bool
) -> None:
    observed = execution.instructions
    places: Sequence[Place | None]
    if method is not None:
        places = identify(observed, method, separate=separate)
    elif separate and all(each.kind is not None for each in observed):
        # Without jumps and moves the order is that of the one chain.
        places = [(0, index) for index in range(len(observed))]
    else:
        places = [None] * len(observed)
    for each, place in zip(observed, places, strict=True):
        if each.kind is None:
            continue
        at = place or NO_PLACE
        known = method.instruction(*place) if method is not None and place is not None else None
        if each.native is not None:
            name = qualified_name(each.function)
            if known is not None:
                name = kernel_event(known)
            events.add(name, *each.native, at)
        scope = OPERATOR_CALL if each.kind == Call.KERNEL else DELEGATE_CALL
        if method is None and each.native is None and each.function:
            scope = qualified_name(each.function)
        events.add(scope, each.begin, each.end, at)


def trace_of_calls(
    calls: Sequence[tuple[FunctionCall, str]],
    executions: Sequence[FunctionCall | None],
    clock: ClockDomain = INSTRUCTIONS,
) -> Trace:
    """Return calls of functions as events, one block for each execution.

    A call that ended by a jump to another function ends at the next call, or with the execution:
    where that function returned to is not known.

    Args:
        calls: Calls with the names of their events, by their begin.
        executions: Calls within which they are; None for all of them.
        clock: The clock of the counts.
    """
    events = EventTable()
    for execution in executions:
        outer: list[tuple[FunctionCall, str]] = []
        for call, name in calls:
            inside = execution is None or execution.begin <= call.begin < execution.end
            if inside and (not outer or call.begin >= outer[-1][0].end):
                outer.append((call, name))
        ends = [call.begin for call, _ in outer[1:]]
        ends.append(max(outer[-1][0].end, execution.end) if execution and outer else 0)
        for number, ((call, name), following) in enumerate(zip(outer, ends, strict=True)):
            end = call.end if call.returned else max(call.end, following)
            events.add(name, call.begin, end, (0, number))
        if execution is not None:
            events.add(EXECUTION, execution.begin, execution.end)
        events.finish_block("Execute")
    return events.trace(clock)
