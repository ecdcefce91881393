"""Describes a postmortem in words: the cause, the operator and the execution."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
from msgspec.structs import replace

from harness.analyze.memory import allocator_totals
from harness.extensions.postmortem.record import Postmortem
from harness.extensions.postmortem.record_format import Fault, Reason
from harness.formatting import counted, printable
from harness.interrupts import signal_name
from harness.records.trace import LOADING, Kind, Trace
from harness.runs.directory import EventDocument, PostmortemDocument

_EXCEPTIONS: Final = {
    2: "NMI",
    3: "HardFault",
    4: "MemManage fault",
    5: "BusFault",
    6: "UsageFault",
}
"""Cortex-M exceptions by number."""

_CFSR: Final = {
    0: "instruction fetched from a forbidden address",
    1: "access to a forbidden address",
    3: "MemManage fault when leaving an exception",
    4: "stack reaches into forbidden memory",
    5: "MemManage fault when saving floating-point registers",
    8: "bus error at an instruction fetch",
    9: "bus error at a data access",
    10: "bus error at an earlier write",
    11: "bus error when leaving an exception",
    12: "bus error on the stack",
    13: "bus error when saving floating-point registers",
    16: "undefined instruction",
    17: "invalid processor state, such as a jump to an even address",
    18: "invalid return from an exception",
    19: "no coprocessor, or the floating-point unit is off",
    20: "stack overflow",
    24: "unaligned access",
    25: "division by zero",
}
"""Bits of Cortex-M's configurable fault status register."""

_TRAPS: Final = {
    0: "misaligned instruction address",
    1: "instruction fetched from a forbidden address",
    2: "illegal instruction",
    3: "breakpoint",
    4: "misaligned load",
    5: "load from a forbidden address",
    6: "misaligned store",
    7: "store to a forbidden address",
    11: "environment call",
}
"""RISC-V exceptions by mcause."""

_REASONS: Final = {
    Reason.POWER: "power-on or brown-out",
    Reason.PIN: "reset pin",
    Reason.WATCHDOG: "watchdog",
    Reason.SOFTWARE: "the firmware",
    Reason.LOCKUP: "lockup",
}


LAST_EVENTS: Final = 10
"""Number of events before the crash to report."""


def reset_reasons(found: Postmortem) -> tuple[str, ...]:
    """Return the reasons in the device's reset reason register; empty without one."""
    return tuple(text for bit, text in _REASONS.items() if found.reason & bit)


def fault_details(found: Postmortem) -> tuple[str, ...]:
    """Return details of a fault from its status registers."""
    if found.fault == Fault.CORTEX_M:
        status = found.registers.get("CFSR", 0)
        return tuple(text for bit, text in _CFSR.items() if status >> bit & 1) + _address(found)
    if found.fault == Fault.RISCV:
        value = found.registers.get("TVAL", 0)
        return (f"mtval 0x{value:08x}",) if value else ()
    if found.fault == Fault.SIGNAL and "ADDRESS" in found.registers:
        address = found.registers.get("ADDRESS_HIGH", 0) << 32 | found.registers["ADDRESS"]
        return (f"at address 0x{address:x}",)
    return ()


def cause(found: Postmortem) -> str:
    """Return the cause: the fault with details, or the reset with its reasons."""
    details = ", ".join(fault_details(found))
    match found.fault:
        case Fault.CORTEX_M:
            name = _EXCEPTIONS.get(found.number, f"exception {found.number}")
        case Fault.RISCV:
            known = _TRAPS.get(found.number)
            name = f"trap {found.number}" + (f" ({known})" if known else "")
            return name + (f", {details}" if details else "")
        case Fault.SIGNAL:
            name = signal_name(found.number)
        case _:
            details = ", ".join(reset_reasons(found))
            name = "reset"
    return name + (f" ({details})" if details else "")


def running_scope(found: Postmortem) -> EventDocument | None:
    """Return the innermost open event."""
    return found.scopes[-1] if found.scopes else None


def describe(found: Postmortem) -> str:
    """Return one line with the cause, the operator and the execution."""
    if not found.running:
        return f"{cause(found)} while no model was running"
    scope = running_scope(found)
    where = " between events" if scope is None else f" in {_scope_name(scope)}"
    if scope is not None and found.scopes[0].name in LOADING:
        return f"{cause(found)}{where}, before the first of {counted(found.count, 'execution')}"
    return f"{cause(found)}{where}, execution {found.completed + 1} of {found.count}"


def places(found: Postmortem, symbol: Callable[[int], str | None]) -> dict[str, str]:
    """Return function and line of each register with a code address, if ``symbol`` knows it."""
    found_at = {}
    for register in ("PC", "LR", "RA"):
        value = found.registers.get(register)
        if value is None:
            continue
        # A return address points after the call, and Thumb sets bit 0.
        address = value & ~1 if register == "PC" else (value & ~1) - 2
        if place := symbol(address):
            found_at[register] = place
    return found_at


def postmortem_document(found: Postmortem, places: Mapping[str, str]) -> PostmortemDocument:
    """Return the JSON document of a postmortem; ``places`` as returned by ``places()``."""
    trace = found.trace
    return PostmortemDocument(
        message=printable(describe(found)),
        cause=cause(found),
        running=found.running,
        run_id=found.run_id,
        execution=found.completed + 1 if found.running else found.completed,
        executions=found.count,
        build_id=printable(found.build_id),
        registers=found.registers,
        places=dict(places),
        open=tuple(
            replace(scope, name=scope.name and printable(scope.name)) for scope in found.scopes
        ),
        last_events=() if trace is None else _last_events(trace),
        allocators=[] if trace is None else allocator_totals(trace),
        losses=None if trace is None else trace.losses,
        stack_used=found.stack_used,
        stack_size=found.stack_size,
        reset_reasons=reset_reasons(found),
        resets=found.resets,
        later_faults=found.later_faults,
        damage=found.damage,
    )


def _scope_name(scope: EventDocument) -> str:
    name = scope.name or "an event without a name"
    if scope.delegate != -1:
        name = (
            f"{name}, delegate id {scope.delegate}"
            if scope.name
            else f"delegate id {scope.delegate}"
        )
    return name if scope.chain == -1 else f"{name} (instruction {scope.instruction})"


def _address(found: Postmortem) -> tuple[str, ...]:
    for register in ("MMFAR", "BFAR"):
        if register in found.registers:
            return (f"at address 0x{found.registers[register]:08x}",)
    return ()


def _last_events(trace: Trace) -> tuple[EventDocument, ...]:
    rows = np.flatnonzero(trace.kind == Kind.PROFILE)[-LAST_EVENTS:].tolist()
    events = []
    for row in rows:
        name = trace.text(int(trace.name[row]))
        if name is None:
            name = trace.text(int(trace.delegate_str[row]))
        events.append(
            EventDocument(
                name and printable(name),
                int(trace.delegate_int[row]),
                int(trace.chain[row]),
                int(trace.instruction[row]),
                int(trace.start[row]),
                int(trace.end[row]),
            )
        )
    return tuple(events)
