"""Checks that the log of a run agrees with what the program, the board and the run's settings say:
one loading, then executions (I24), allocations only while the runtime loads or executes (I25), the
values and events that were asked for (I29), and allocations that add up (I23).

The order is that of both runtimes: ``Program::load_method`` begins the block ``Default`` and
contains ``Method::init``; ``Method::execute`` begins a block ``Execute`` each time.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

import numpy as np

from harness.analyze.blocks import block_numbers
from harness.analyze.call_tree import next_row
from harness.analyze.memory import AllocatorMemory
from harness.check.invariants.events import describe, order_known
from harness.check.invariants.executions import KEPT, TEMPORARY, live_at_end
from harness.check.subject import Subject
from harness.decode.device_log_format import HEADER_SIZE
from harness.formatting import printable
from harness.records.result import BUNDLED_RUNTIME
from harness.records.trace import DELEGATE_CALL, EXECUTION, LOADING, STREAMING, Block, Kind, Trace
from harness.records.verdict import Check, none_of

LOADING_BLOCK: Final = "Default"
EXECUTION_BLOCK: Final = "Execute"
"""Names of the blocks that both runtimes begin."""

_LOAD, _INIT = LOADING


_TENSORS: Final = re.compile(r"unplanned|planned_\d+")
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
    defects = [*_mixed(trace), *_pairs(trace, whole=subject.served)]
    if subject.served:
        if len({run.tracer for run in subject.runs if run.executes}) > 1:
            return
        defects += [*_blocks(subject), *_loading(subject)]
    elif not defects:
        return
    reason = f"{len(trace.blocks):,} blocks are one loading and its executions"
    if defects:
        more = f"; and {len(defects) - 1:,} more" if len(defects) > 1 else ""
        reason = defects[0] + more
    yield none_of("I24", "blocks", len(defects), reason, "defects")


def _mixed(trace: Trace) -> Iterator[str]:
    """Yield blocks with events of several tracers."""
    blocks = block_numbers(trace)
    inside = np.diff(blocks) == 0
    changes = np.flatnonzero(inside & (np.diff(trace.tracer.astype(np.int64)) != 0))
    for row in changes[:1].tolist():
        yield (
            f"block {blocks[row]} has events of tracers {trace.tracer[row]} and "
            f"{trace.tracer[row + 1]}"
        )


def _blocks(subject: Subject) -> Iterator[str]:
    """Yield blocks that are out of place, empty, or have another name than runtimes give them."""
    trace = subject.trace
    cut = (subject.runs_completed or 0) < (subject.runs_requested or 0)
    tracer = next((run.tracer for run in subject.runs if run.executes), 0)
    of_run = [run.order for run in subject.runs if run.tracer == tracer]
    sets = Counter(trace.blocks[order].bundled_input_index for order in of_run)
    usual = sets.most_common(1)[0][0]
    begun = False
    for order in of_run:
        block = trace.blocks[order]
        counts = _scopes_in(trace, block)
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


def _scopes_in(trace: Trace, block: Block) -> Counter[str]:
    rows = slice(block.first, block.first + block.count)
    numbers = {number: name for number, name in enumerate(trace.names) if name in _SCOPES}
    profile = trace.name[rows][trace.kind[rows] == Kind.PROFILE]
    names, counts = np.unique(profile[np.isin(profile, list(numbers))], return_counts=True)
    return Counter(
        {numbers[name]: count for name, count in zip(names.tolist(), counts.tolist(), strict=True)}
    )


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
        if init > load:
            yield f"{_INIT} is logged after {_LOAD} ended in block {block}"
        elif (trace.clock[[load, init]] == 0).all() and _outside(trace, init, load):
            yield f"{_INIT} does not lie within {_LOAD} in block {block}"
        if trace.chain[load] != -1 or trace.chain[init] != -1:
            yield f"loading belongs to an instruction in block {block}"


def _loading(subject: Subject) -> Iterator[str]:
    """Yield whether a run logged no loading, or several; a filter may have left it out."""
    trace = subject.trace
    loads = int(np.count_nonzero((trace.kind == Kind.PROFILE) & trace.named(*LOADING)))
    executes = bool(((trace.kind == Kind.PROFILE) & trace.named(EXECUTION)).any())
    if not loads and executes and not trace.filtered_events:
        yield "the method was executed, but its loading is not in the log"
    if loads > len(LOADING):
        yield f"the log has {loads} events of loading; a run loads its method once"


def _outside(trace: Trace, inner: int, outer: int) -> bool:
    """Return whether the readings of an event are not between those of another one."""
    from harness.analyze.ticks import forward

    clock = trace.clocks[0]
    ends = [trace.start[[outer]], trace.start[[inner]], trace.end[[inner]], trace.end[[outer]]]
    steps = [int(forward(clock, a, b)[0]) for a, b in pairwise(ends)]
    return sum(steps) >= clock.modulus


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
        defects.append(f"{trace.filtered_events:,} events were left out, but all were asked for")
    if settings.values == "none" and values:
        defects.append(f"{values:,} values are logged, but none were asked for")
    if settings.values != "none" and not values and whole and not trace.losses.values:
        defects.append(f"no value is logged, but {settings.values} values were asked for")
    if settings.when_full == "stop" and not settings.stream and trace.losses.runs:
        defects.append(f"{trace.losses.runs:,} blocks were dropped for newer ones, unasked")
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
    names = [_allocator(trace, int(blocks[row]), int(trace.allocator[row])) for row in rows]
    kept = np.array([bool(KEPT.fullmatch(name)) for name in names])
    temporary = np.array([name == TEMPORARY for name in names])
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
        name = _allocator(trace, int(blocks[row]), int(trace.allocator[row]))
        reason = (
            f"{len(found):,} are not; the first is the {what} of {size:,} bytes of {name} in block "
            f"{blocks[row]}: {how}"
        )
    yield none_of("I25", "allocations", len(found), reason, "allocations")


def _allocator(trace: Trace, block: int, number: int) -> str:
    names = trace.blocks[block].allocators
    return names[number - 1] if 0 < number <= len(names) else f"allocator {number}"


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
    defects = [*_undeclared(subject), *_renamed(trace), *_unplanned_pools(subject)]
    if subject.runtime == BUNDLED_RUNTIME:
        defects += _shares(subject)
    held = sum(live_at_end(item) for item in allocators if KEPT.fullmatch(item.allocator.label))
    if held > used:
        defects.append(f"{held:,} bytes are allocated, but the board counts {used:,}")
    if capacity is not None and used > capacity:
        defects.append(f"the board counts {used:,} bytes of an arena of {capacity:,}")
    reason = f"{len(allocators):,} allocators add up to the {used:,} bytes that the board counts"
    if defects:
        more = f"; and {len(defects) - 1:,} more" if len(defects) > 1 else ""
        reason = defects[0] + more
    yield none_of("I23", "arena", len(defects), reason, "defects")


def _undeclared(subject: Subject) -> Iterator[str]:
    """Yield allocators that have allocations, but that no block declares."""
    for item in subject.memory.allocators:
        if item.allocator.name is None:
            yield (
                f"{len(item.rows):,} allocations are of allocator {item.allocator.id}, which the "
                "log does not declare"
            )


def _renamed(trace: Trace) -> Iterator[str]:
    """Yield blocks in which an allocator has another name than in the block before."""
    last: tuple[str, ...] = ()
    for order, block in enumerate(trace.blocks):
        for number, (before, name) in enumerate(zip(last, block.allocators, strict=False), 1):
            if name != before:
                yield (
                    f"allocator {number} is {printable(name)!r} in block {order}, but "
                    f"{printable(before)!r} before"
                )
        last = block.allocators


def _unplanned_pools(subject: Subject) -> Iterator[str]:
    """Yield pools with allocations that the program does not plan."""
    for item in subject.memory.allocators:
        name = item.allocator.label
        known = name in subject.planned or not subject.planned
        if len(item.rows) and _POOL.fullmatch(name) and not known:
            yield f"{live_at_end(item):,} bytes are allocated for {name}, which the program lacks"


def _shares(subject: Subject) -> Iterator[str]:
    """Compare the bundled runtime's allocations with its own sums, to the byte.

    It takes everything from one arena, in pieces of whole alignments: ``method_bytes`` are those of
    ``method``; ``planned_bytes`` are the pools, ``unplanned``, and the memory that delegates have
    reserved, which the log shows only when they take it (``temporary``).
    """
    method, tensors, temporary = 0, 0, None
    for item in subject.memory.allocators:
        label = item.allocator.label
        if label == TEMPORARY:
            temporary = max(item.reach or 0, item.peak)
        elif label == "method":
            method += _aligned(subject.trace, item)
        elif _TENSORS.fullmatch(label):
            tensors += _aligned(subject.trace, item)
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


def _aligned(trace: Trace, item: AllocatorMemory) -> int:
    """Return the bytes of the arena that an allocator's pieces take."""
    sizes = trace.size[item.rows][~trace.failed[item.rows]]
    return int((np.sign(sizes) * (-(-np.abs(sizes) // _ALIGNMENT) * _ALIGNMENT)).sum())
