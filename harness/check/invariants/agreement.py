"""Checks that the log of a run agrees with what else is known of it.

The program, the board and the run's settings say: one loading, then executions (I24), allocations
only while the runtime loads or executes (I25), the values and events that were asked for (I29), and
allocations that add up (I23). By the readings of the clock, the log fits between those around its
run (I26), each execution was measured by itself (I27), and its time is that of its instructions
(I28).

The order is that of both runtimes: ``Program::load_method`` begins the block ``Default`` and
contains ``Method::init``; ``Method::execute`` begins a block ``Execute`` each time.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from itertools import pairwise
from math import gcd
from typing import Final

import numpy as np
import numpy.typing as npt

from harness.analyze.blocks import block_numbers
from harness.analyze.call_tree import next_row
from harness.analyze.ticks import (
    ambiguous_durations,
    durations,
    event_nanoseconds,
    forward,
    own_scopes,
)
from harness.check.invariants.events import FASTEST_HZ, MANY_TICKS, describe, order_known
from harness.check.invariants.executions import KEPT, TEMPORARY
from harness.check.subject import Subject
from harness.decode.device_log_format import HEADER_SIZE
from harness.duration import Duration
from harness.formatting import KERNEL_EVENT, counted, printable
from harness.records.result import BUNDLED_RUNTIME
from harness.records.trace import (
    DELEGATE_CALL,
    EXECUTION,
    LOADING,
    OPERATOR_CALL,
    STREAMING,
    Kind,
    Trace,
)
from harness.records.verdict import Check, check, none_of

_Ints = npt.NDArray[np.int64]

LOADING_BLOCK: Final = "Default"
EXECUTION_BLOCK: Final = "Execute"
"""Names of the blocks that both runtimes begin."""

_LOAD, _INIT = LOADING


_TENSORS: Final = re.compile(r"unplanned|float32_copies|planned_\d+")
"""Allocators that hold tensors."""

_POOL: Final = re.compile(r"planned_\d+")
"""Allocators of pools that the program plans."""

_ALIGNMENT: Final = 16
"""The bundled runtime aligns every piece of its arena to so many bytes."""


def sequence_checks(subject: Subject) -> Iterator[Check]:
    """Check the blocks of a run that the board carried out for the host.

    Of other traces, which may begin and end anywhere, only what no runtime logs is reported.
    Yields nothing if events are missing, and for runs if several tracers executed.
    """
    trace = subject.trace
    if not (trace.blocks and order_known(trace.losses)):
        return
    blocks, tracers = block_numbers(trace), trace.tracer
    defects = []
    mixed = (np.diff(blocks) == 0) & (np.diff(tracers.astype(np.int64)) != 0)
    if mixed.any():
        row = int(np.argmax(mixed))
        defects.append(
            f"block {blocks[row]} has events of tracers {tracers[row]} and {tracers[row + 1]}"
        )
    defects += _pairs(trace, whole=subject.served)
    if subject.served:
        if len({run.tracer for run in subject.runs if run.executes}) > 1:
            return
        defects += _blocks(subject)
        profile = trace.kind == Kind.PROFILE
        loads = int(np.count_nonzero(profile & trace.named(*LOADING)))
        executes = bool((profile & trace.named(EXECUTION)).any())
        if not loads and executes and not trace.filtered_events:
            defects.append("the method was executed, but its loading is not in the log")
        if loads > len(LOADING):
            defects.append(f"the log has {loads} events of loading; a run loads its method once")
    elif not defects:
        return
    reason = f"{len(trace.blocks):,} blocks are one loading and its executions"
    if defects:
        more = f"; and {len(defects) - 1:,} more" if len(defects) > 1 else ""
        reason = defects[0] + more
    yield none_of("I24", "blocks", len(defects), reason, "defects")


def _blocks(subject: Subject) -> Iterator[str]:
    """Yield blocks that are out of place, empty, or have another name than runtimes give them."""
    trace = subject.trace
    cut = (subject.runs_completed or 0) < (subject.runs_requested or 0)
    tracer = next((run.tracer for run in subject.runs if run.executes), 0)
    of_run = [run.order for run in subject.runs if run.tracer == tracer]
    sets = Counter(trace.blocks[order].bundled_input_index for order in of_run)
    usual = sets.most_common(1)[0][0]
    begun = False
    scopes = {number: name for number, name in enumerate(trace.names) if name in _SCOPES}
    for order in of_run:
        block = trace.blocks[order]
        rows = slice(block.first, block.first + block.count)
        names = trace.name[rows][trace.kind[rows] == Kind.PROFILE]
        counts = Counter(scopes[name] for name in names[np.isin(names, list(scopes))].tolist())
        last = cut and order == of_run[-1]  # it may have been interrupted
        where = f"block {order}, {printable(block.name)!r},"
        if not block.count:
            if not last:
                yield f"{where} is empty"
            continue
        loads, executes = counts[_LOAD] + counts[_INIT], counts[EXECUTION]
        if loads and executes:
            yield f"{where} has events of loading and of an execution"
        elif executes > 1:
            yield f"{where} has {executes} executions"
        elif loads and begun:
            yield f"{where} loads the method again, after it was executed"
        elif not (loads or executes or last or trace.filtered_events or order == of_run[0]):
            yield f"{where} has {block.count:,} events, but is neither loading nor an execution"
        begun = begun or executes > 0
        expected = EXECUTION_BLOCK if executes else LOADING_BLOCK if loads else block.name
        if block.name != expected:
            yield f"{where} should have the name {expected!r}"
        if block.bundled_input_index != usual:
            yield f"{where} is of test set {block.bundled_input_index}, others are of {usual}"


_SCOPES: Final = (*LOADING, EXECUTION)


def _pairs(trace: Trace, *, whole: bool) -> Iterator[str]:
    """Yield blocks whose events of loading are no pair, one within the other.

    Only if the log is ``whole`` may none of them be missing.
    """
    profile = trace.kind == Kind.PROFILE
    loads, inits = (np.flatnonzero(profile & trace.named(name)) for name in LOADING)
    blocks = block_numbers(trace)
    for block in np.unique(blocks[np.concatenate([loads, inits])]).tolist():
        of_load, of_init = loads[blocks[loads] == block], inits[blocks[inits] == block]
        if not whole and not (len(of_load) and len(of_init)) and len(of_load) + len(of_init) == 1:
            continue
        if (len(of_load), len(of_init)) != (1, 1):
            yield f"block {block} has {len(of_load)} {_LOAD} and {len(of_init)} {_INIT} events"
            continue
        load, init = int(of_load[0]), int(of_init[0])
        readings = np.concatenate([trace.start[[load, init]], trace.end[[init, load]]])
        if init > load:
            yield f"{_INIT} is logged after {_LOAD} ended in block {block}"
        elif (trace.clock[[load, init]] == 0).all() and (
            sum(forward(trace.clocks[0], readings[:-1], readings[1:]).tolist())
            >= trace.clocks[0].modulus
        ):
            yield f"{_INIT} does not lie within {_LOAD} in block {block}"
        if trace.chain[load] != -1 or trace.chain[init] != -1:
            yield f"loading belongs to an instruction in block {block}"


def asked_checks(subject: Subject) -> Iterator[Check]:
    """Compare the log with the settings of its run (I29).

    What may be missing for other reasons is required only of the bundled runtime, and only if
    nothing is missing from the log.
    """
    settings, trace = subject.settings, subject.trace
    if not subject.served or settings is None or not len(trace):
        return
    defects = []
    values = int(np.count_nonzero(trace.kind == Kind.DEBUG))
    whole = subject.runtime == BUNDLED_RUNTIME and order_known(trace.losses)
    if settings.profile == "all" and trace.filtered_events:
        defects.append(
            f"{counted(trace.filtered_events, 'event')} left out, but all were asked for"
        )
    if settings.values == "none" and values:
        defects.append(f"{counted(values, 'value', 'is')} logged, but none were asked for")
    if settings.values != "none" and not values and whole and not trace.losses.values:
        defects.append(f"no value is logged, but {settings.values} values were asked for")
    if settings.when_full == "stop" and not settings.stream and trace.losses.runs:
        defects.append(f"{counted(trace.losses.runs, 'block')} dropped for newer ones, unasked")
    if not settings.stream and trace.named(*STREAMING).any():
        defects.append("the log was sent during the run, but streaming was not asked for")
    counters = {counter.name for counter in trace.counters}
    missing = [name for name in settings.counters.split(",") if name and name not in counters]
    if missing and whole:
        defects.append(f"the counters {', '.join(missing)} are not in the log")
    room = subject.trace_capacity
    if whole and not settings.stream and room and (subject.log_bytes or 0) > room + HEADER_SIZE:
        defects.append(f"the log has {subject.log_bytes:,} bytes, the board's buffer has {room:,}")
    index = -1 if subject.test_set is None else subject.test_set
    others = {block.bundled_input_index for block in trace.blocks} - {index}
    if whole and others:
        defects.append(f"blocks are of test set {min(others)}, the run was of {index}")
    reason = "; ".join(defects) or "values, counters and events are those of the run's settings"
    yield none_of("I29", "log", len(defects), reason, "defects")


def place_checks(subject: Subject) -> Iterator[Check]:
    """Check that the runtime's allocations lie within loading or an execution, in the log and by
    their times.

    Yields nothing for traces that are no run, if events are missing, and without allocations.
    """
    trace = subject.trace
    rows = np.flatnonzero(trace.kind == Kind.ALLOCATION)
    if not (subject.served and len(rows) and order_known(trace.losses)):
        return
    blocks = block_numbers(trace)
    names: dict[int, str] = {}
    for row in rows.tolist():
        declared, number = trace.blocks[blocks[row]].allocators, int(trace.allocator[row])
        known = 0 < number <= len(declared)
        names[row] = declared[number - 1] if known else f"allocator {number}"
    kept = np.array([bool(KEPT.fullmatch(name)) for name in names.values()])
    temporary = np.array([name == TEMPORARY for name in names.values()])
    bundled = subject.runtime == BUNDLED_RUNTIME
    found = []
    # Only the bundled runtime is known to take all memory of a method while it loads.
    within = LOADING if bundled else (*LOADING, EXECUTION)
    inside = (DELEGATE_CALL,) if bundled and not trace.filtered_events else (EXECUTION,)
    for chosen, scopes in ((kept, within), (temporary, inside)):
        found += _misplaced(subject, rows[chosen], scopes)
    found.sort()
    reason = f"all {int(np.count_nonzero(kept | temporary)):,} are"
    if found:
        row, how = found[0]
        size = abs(int(trace.size[row]))
        what = "free" if trace.size[row] < 0 else "allocation"
        reason = (
            f"{counted(len(found), 'allocation', 'is')} out of place; first the {what} of "
            f"{size:,} bytes of {names[row]} in block {blocks[row]}: {how}"
        )
    yield none_of("I25", "allocations", len(found), reason, "allocations")


def _misplaced(
    subject: Subject, rows: np.ndarray, scopes: tuple[str, ...]
) -> list[tuple[int, str]]:
    """Return rows without one of these scopes behind them in their block, or outside its time."""
    trace, tree = subject.trace, subject.tree
    wanted = (trace.kind == Kind.PROFILE) & trace.named(*scopes) & ~trace.delegated
    blocks = block_numbers(trace)
    around = next_row(blocks, wanted, rows)
    cut = (subject.runs_completed or 0) < (subject.runs_requested or 0)
    text = " or ".join(scopes)
    found = []
    for row, scope in zip(rows.tolist(), around.tolist(), strict=True):
        if scope < 0:
            if not (cut and blocks[row] == blocks[-1]):
                found.append((row, f"it does not lie within {text}"))
            continue
        if trace.clock[row] != 0 or trace.clock[scope] != 0:
            continue
        early, late = tree.start[scope] - tree.start[row], tree.start[row] - tree.end[scope]
        if max(early, late) > 0:
            when = f"{early:,} ticks before" if early > 0 else f"{late:,} ticks after"
            found.append((row, f"its time is {when} {describe(trace, scope)}"))
    return found


def account_checks(subject: Subject) -> Iterator[Check]:
    """Check that allocations add up to what the board and the program say of the memory (I23).

    Yields nothing for a trace that is no run, if events are missing, and if several tracers
    allocate. Only of the bundled runtime is it known that it logs all allocations.
    """
    trace = subject.trace
    allocators = subject.memory.allocators
    rows = subject.memory.rows
    if not (subject.served and order_known(trace.losses)) or len(np.unique(trace.tracer[rows])) > 1:
        return
    used, capacity = subject.arena_used or 0, subject.arena_capacity
    defects = [*_misnamed(subject)]
    if subject.runtime == BUNDLED_RUNTIME:
        defects += _shares(subject)
    held = sum(item.at_end for item in allocators if KEPT.fullmatch(item.allocator.label))
    if held > used:
        defects.append(f"{held:,} bytes are allocated, but the board counts {used:,}")
    if capacity is not None and used > capacity:
        defects.append(f"the board counts {used:,} bytes of an arena of {capacity:,}")
    reason = f"{len(allocators):,} allocators add up to the {used:,} bytes that the board counts"
    if defects:
        more = f"; and {len(defects) - 1:,} more" if len(defects) > 1 else ""
        reason = defects[0] + more
    yield none_of("I23", "arena", len(defects), reason, "defects")


def _misnamed(subject: Subject) -> Iterator[str]:
    """Yield allocators that no block declares, whose name changes, or that the program lacks."""
    for item in subject.memory.allocators:
        if item.allocator.name is None:
            yield (
                f"{counted(len(item.rows), 'allocation', 'is')} of allocator "
                f"{item.allocator.id}, which the log does not declare"
            )
    last: tuple[str, ...] = ()
    for order, block in enumerate(subject.trace.blocks):
        for number, (before, name) in enumerate(zip(last, block.allocators, strict=False), 1):
            if name != before:
                yield (
                    f"allocator {number} is {printable(name)!r} in block {order}, but "
                    f"{printable(before)!r} before"
                )
        last = block.allocators
    for item in subject.memory.allocators if subject.planned else ():
        name = item.allocator.label
        if len(item.rows) and _POOL.fullmatch(name) and name not in subject.planned:
            yield f"{item.at_end:,} bytes are allocated for {name}, which the program lacks"


def _shares(subject: Subject) -> Iterator[str]:
    """Compare the bundled runtime's allocations with its own sums, to the byte.

    It takes everything from one arena, in pieces of whole alignments: ``method_bytes`` are those of
    ``method``; ``planned_bytes`` are the pools, ``unplanned``, ``float32_copies``, and what
    delegates have reserved, which the log shows only when they take it (``temporary``).
    """
    trace, method, tensors, temporary = subject.trace, 0, 0, None
    for item in subject.memory.allocators:
        label = item.allocator.label
        sizes = trace.size[item.rows][~trace.failed[item.rows]]
        taken = int((np.sign(sizes) * (-(-np.abs(sizes) // _ALIGNMENT) * _ALIGNMENT)).sum())
        if label == TEMPORARY:
            temporary = max(item.reach or 0, item.peak)
        elif label == "method":
            method += taken
        elif _TENSORS.fullmatch(label):
            tensors += taken
    counted, planned = subject.method_bytes or 0, subject.planned_bytes or 0
    if method != counted:
        yield f"method has {method:,} bytes, but the board counts {counted:,} for it"
    rest = planned - tensors
    holes = _holes(subject)
    if holes not in (0, tensors):
        yield f"there are {holes:,} bytes between the pieces of method, where no other memory is"
    if temporary is None and rest:
        yield (
            f"tensors have {tensors:,} bytes, but the board counts {planned:,} for them, and no "
            "delegate has temporary memory"
        )
    elif temporary is not None and temporary > rest:
        yield (
            f"delegates take {temporary:,} bytes at once, but the board reserved {max(rest, 0):,}"
        )


def _holes(subject: Subject) -> int:
    """Return the bytes before and between the pieces of ``method``; 0 without offsets.

    Delegates' pieces follow behind the memory of tensors, all others follow one another.
    """
    trace, end, holes = subject.trace, 0, 0
    for item in subject.memory.allocators:
        if item.allocator.label != "method" or (trace.offset[item.rows] < 0).any():
            continue
        for row in item.rows[np.argsort(trace.offset[item.rows], kind="stable")].tolist():
            holes += max(int(trace.offset[row]) - end, 0)
            size = abs(int(trace.size[row]))
            end = max(end, int(trace.offset[row]) + -(-size // _ALIGNMENT) * _ALIGNMENT)
    return holes


def extent_checks(subject: Subject) -> Iterator[Check]:
    """Check that a simulated clock can have counted what the log needs (I26).

    The run set the clock to zero before the log, and the host read it afterwards. The wraps that
    the log needs before this reading must be possible in the host's time: hardly any simulator
    counts faster than ``FASTEST_HZ``, but nothing forbids it, so this is a warning. Real clocks
    follow the host's, so I21 decides about them exactly.
    """
    trace, pings, restart = subject.trace, subject.pings or (), subject.restart
    if not subject.emulated_time or restart is None or not order_known(trace.losses):
        return
    after = next((ping for ping in pings if ping.epoch == restart.epoch), None)
    rows = np.flatnonzero(trace.clock == 0)
    if after is None or not len(rows) or len(np.unique(trace.tracer[rows])) > 1:
        return
    clock, tree = trace.clocks[0], subject.tree
    first = rows[np.argmin(tree.start[rows])]
    begun = int(forward(clock, *_pair(restart.ticks, int(trace.start[first])))[0])
    last = begun + int(tree.end[rows].max() - tree.start[first])
    read = int(forward(clock, *_pair(restart.ticks, after.ticks))[0])
    passed = read + max(-(-(last - read) // clock.modulus), 0) * clock.modulus
    elapsed_ns = after.host_after_ns - restart.host_before_ns
    fits = passed <= FASTEST_HZ * elapsed_ns / 1e9
    reason = f"the log ends {last:,} ticks after the start of the run"
    if not fits:
        reason += (
            f", but the host read {after.ticks:,} ticks {Duration(float(elapsed_ns))} after the "
            f"start: the clock would have counted {passed:,} ticks in this time"
        )
    yield check(
        "I26", severity="warning", subject=f"clock {clock.name}", passed=fits, reason=reason
    )


def _pair(start: int, end: int) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    return np.array([start], np.uint64), np.array([end], np.uint64)


ENOUGH_READINGS: Final = 8
"""Readings of a clock in an execution from which on equal ones are no coincidence."""

WIDE_BITS: Final = 24
"""Width of a counter from which on readings are not equal by chance."""

LONG_UNITS: Final = 64
"""Duration of an event, in steps of the clock, from which on equal ones are a coincidence."""

ENOUGH_LONG: Final = 8
"""How many events of an execution must be so long."""

ENOUGH_KINDS: Final = 4
"""Different kernels of which equal durations are no coincidence."""

ENOUGH_COPIES: Final = 3
"""How many executions with equal durations are no coincidence."""


def reading_checks(subject: Subject) -> Iterator[Check]:
    """Check the host's readings of the clock: in order, and within the counter's width (I26)."""
    readings = [*(subject.pings or ())]
    clocks = subject.trace.clocks
    if not (subject.served and readings and clocks):
        return
    if subject.restart is not None:
        at = next((n for n, p in enumerate(readings) if p.epoch == subject.restart.epoch), None)
        readings.insert(len(readings) if at is None else at, subject.restart)
    ends = [end for ping in readings for end in (ping.host_before_ns, ping.host_after_ns)]
    wide = [ping for ping in readings if not 0 <= ping.ticks < clocks[0].modulus]
    text = f"{len(readings):,} readings are in order"
    if any(before > after for before, after in pairwise(ends)):
        text = "the host's readings are not in the order of its own clock"
    elif wide:
        text = f"the host read {wide[0].ticks:,}, but the counter has {clocks[0].bits} bits"
    passed = text.endswith("are in order")
    yield check("I26", subject="readings", passed=passed, reason=text)


def copy_checks(subject: Subject) -> Iterator[Check]:
    """Check that executions do not repeat the readings of others, or on a host the durations (I27).

    Simulated and real microcontrollers may take exactly as long each time, so durations count only
    on the clock of a host, which also runs other programs.
    """
    trace = subject.trace
    groups: dict[tuple[int, str, int], list[int]] = defaultdict(list)
    for run in subject.runs:
        if run.executes:
            groups[run.tracer, run.name, run.signature].append(run.order)
    if not trace.clocks or not groups:
        return
    copies: list[str] = []
    own = (trace.kind == Kind.PROFILE) & (trace.clock == 0)
    for orders in groups.values():
        tables: dict[int, _Table] = {}  # start and end of the events of each block, shape (n, 2)
        for order in orders:
            block = trace.blocks[order]
            rows = block.first + np.flatnonzero(own[block.first : block.first + block.count])
            tables[order] = np.stack([trace.start[rows], trace.end[rows]], axis=1)
        if trace.clocks[0].bits >= WIDE_BITS:
            copies += _same_readings(tables)
        if not copies and subject.host_clock:
            copies += _same_durations(trace, tables)
    copies += _same_operators(trace)
    reason = "no execution repeats the readings of another one"
    if copies:
        more = f"; and {len(copies) - 1:,} more" if len(copies) > 1 else ""
        reason = copies[0] + more
    yield none_of("I27", "executions", len(copies), reason, "executions")


_Table = npt.NDArray[np.uint64]


def _same_readings(tables: Mapping[int, _Table]) -> Iterator[str]:
    """Yield executions with all readings of an earlier one; I03 is about clocks that stand."""
    seen: dict[bytes, int] = {}
    for order, table in tables.items():
        if not (np.diff(table.ravel()) != 0).any():
            continue
        before = seen.setdefault(table.tobytes(), order)
        if before != order and table.size >= ENOUGH_READINGS:
            yield f"block {order} has the same readings of the clock as block {before}"


def _same_durations(trace: Trace, tables: Mapping[int, _Table]) -> Iterator[str]:
    """Yield the warm executions if all of them have equal durations and equal pauses."""
    warm = list(tables)[1:]
    if len(warm) < ENOUGH_COPIES:
        return
    first = _relative(trace, tables[warm[0]])
    unit = gcd(*np.diff(np.unique(np.concatenate([trace.start, trace.end]))).tolist())
    if np.count_nonzero(first[:, 1] - first[:, 0] >= LONG_UNITS * unit) < ENOUGH_LONG:
        return
    if all(np.array_equal(first, _relative(trace, tables[order])) for order in warm[1:]):
        for order in warm[1:]:
            yield f"block {order} has exactly the durations of block {warm[0]}, on a host"


def _same_operators(trace: Trace) -> Iterator[str]:
    """Yield blocks in which different kernels take exactly as long."""
    kernels = np.array([name.startswith(KERNEL_EVENT) for name in trace.names] + [False])
    rows = np.flatnonzero(own_scopes(trace) & kernels[trace.name])
    ticks, blocks = durations(trace)[rows], block_numbers(trace)[rows]
    first = np.flatnonzero(np.diff(blocks, prepend=-1))
    if not len(first):
        return
    shortest = np.minimum.reduceat(ticks, first)
    longest = np.maximum.reduceat(ticks, first)
    bounds = [*first.tolist(), len(rows)]
    for number in np.flatnonzero((shortest == longest) & (shortest >= LONG_UNITS)).tolist():
        names = trace.name[rows[bounds[number] : bounds[number + 1]]]
        if len(names) >= ENOUGH_LONG and len(np.unique(names)) >= ENOUGH_KINDS:
            yield (
                f"all {len(names):,} kernels in block {blocks[bounds[number]]} take exactly "
                f"{shortest[number]:,} ticks"
            )


def _relative(trace: Trace, table: npt.NDArray[np.uint64]) -> _Ints:
    """Return readings as ticks since the last one, shape (n, 2)."""
    flat = np.ascontiguousarray(table.ravel())
    since = forward(trace.clocks[0], flat, np.full_like(flat, flat[-1]))
    return (-since.astype(np.int64)).reshape(-1, 2)


LONGEST_PAUSE_NS: Final = 0.5e9
"""Longest time outside of instructions that is never questioned, nanoseconds: a busy host may stop
a process for so long."""


MOST_IDLE: Final = 0.9
"""Largest share of a scope that is never questioned: what little is in it decides nothing."""

MOST_EMPTY_EVENTS: Final = 200
"""Longest time between two events on a simulator, in empty events. Nothing else runs there; runs of
all boards take up to 3."""


def spent_checks(subject: Subject) -> Iterator[Check]:
    """Check that executions, and scopes of operators, last no longer than what is logged in them.

    Time that a runtime spends between instructions is short. Yields nothing for a trace alone, if
    events are missing or filtered, or if values are logged without their times.
    """
    trace, tree = subject.trace, subject.tree
    if subject.runs_requested is None or trace.filtered_events or not order_known(trace.losses):
        return
    if ((trace.kind == Kind.DEBUG) & (trace.clock != 0)).any():
        return
    own = own_scopes(trace)
    outer = own & (trace.named(EXECUTION) | trace.named(OPERATOR_CALL))
    children = np.bincount(tree.parent[own & (tree.parent >= 0)], minlength=len(trace))
    kernels = np.array([name.startswith(KERNEL_EVENT) for name in trace.names] + [False])
    has_kernel = np.zeros(len(trace), np.bool_)
    has_kernel[tree.parent[own & kernels[trace.name] & (tree.parent >= 0)]] = True
    outer &= (children > 0) & (trace.named(EXECUTION) | has_kernel) & ~ambiguous_durations(trace)
    rows = np.flatnonzero(outer)
    if not len(rows):
        return
    idle = event_nanoseconds(trace, tree.own)[rows]
    total = event_nanoseconds(trace, tree.total)[rows]
    with np.errstate(invalid="ignore"):
        long = idle > LONGEST_PAUSE_NS
        if subject.emulated_time and subject.probe:
            between = (children[rows] + 1) * float(subject.probe) * MOST_EMPTY_EVENTS
            long |= tree.own[rows] > between
        late = np.flatnonzero(long & (idle > total * MOST_IDLE) & (tree.own[rows] >= MANY_TICKS))
    reason = f"{len(rows):,} scopes last no longer than what is in them"
    if len(late):
        row = int(rows[late[0]])
        reason = (
            f"{counted(len(late), 'scope', 'lasts')} longer than what is in it; the first is "
            f"{describe(trace, row)}: nothing is logged in {Duration(float(idle[late[0]]))} "
            f"of its {Duration(float(total[late[0]]))}"
        )
    yield none_of("I28", "scopes", len(late), reason, "scopes")
