"""Post-order adoption: who is inside whom in a log that appends events when they end.

In such a log what is inside an event stands before it. So an event adopts those of the events
before it that nobody has adopted yet and that started no earlier than itself: trailing ones, one
after the other, up to the first that started earlier. Nothing is sorted by time, which would lose
the order of the log where ticks are coarse.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

_Ints = npt.NDArray[np.int64]
_Bools = npt.NDArray[np.bool_]

NO_INSTRUCTION = -1
"""Instruction of an event that belongs to none, such as the scope of a whole method."""


@dataclass(frozen=True, slots=True)
class EndOrdered:
    """Events of one or several logs in log order. All columns have shape (n,).

    Attributes:
        log: Which log an event is in; those of a log are neighbours. Nobody is adopted across.
        start: When it started, in ticks.
        end: When it ended.
        leaf: True for what contains nothing: an instant, a value that was logged.
        placed: True for what has no time of its own and was placed where something around it began.
        instruction: A number for the instruction it belongs to, or NO_INSTRUCTION.
        wrapper: True for the scope that the runtime puts around whatever an instruction does.
    """

    log: _Ints
    start: _Ints
    end: _Ints
    leaf: _Bools
    placed: _Bools
    instruction: _Ints
    wrapper: _Bools


def adopt(events: EndOrdered, *, flat: bool = False) -> tuple[_Ints, _Bools]:
    """Return the parent of every event, -1 for none, and who might have another one.

    Times decide, except when an event took less than a tick: when it starts and ends in the tick
    in which a later one starts, it may be inside of that one or before it. Then instructions decide
    as far as they can. What happens in an instruction holds no event of another; its wrapper stands
    around the rest of it and never within. What they do not decide is adopted, and marked.

    Args:
        events: What was logged.
        flat: Take what they do not decide as before the later event instead, and mark it: for logs
            of steps that follow each other.
    """
    parent = [-1] * len(events.start)
    unsure: list[int] = []
    start, end = events.start.tolist(), events.end.tolist()
    leaves, instructions = events.leaf.tolist(), events.instruction.tolist()
    wrappers, placed = events.wrapper.tolist(), events.placed.tolist()
    free: list[int] = []  # events that nobody has adopted yet
    current = None
    for row, (log, begin) in enumerate(zip(events.log.tolist(), start, strict=True)):
        if log != current:
            current, free = log, []
        while free and not leaves[row] and start[last := free[-1]] >= begin:
            if start[last] == begin == end[last] and not placed[last]:
                known = not leaves[last] or instructions[last] != NO_INSTRUCTION
                within = instructions[row] != NO_INSTRUCTION
                same = instructions[last] == instructions[row]
                if within and known and (not same or (wrappers[last] and not wrappers[row])):
                    break
                if not (within and same and wrappers[row] and not wrappers[last]):
                    unsure.append(last)
                    if flat:
                        break
            parent[last] = row
            free.pop()
        free.append(row)
    ambiguous = np.zeros(len(parent), np.bool_)
    ambiguous[unsure] = True
    return np.array(parent, np.int64), ambiguous
