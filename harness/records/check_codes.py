"""Codes of all checks; ``etharness explain CODE`` prints the page of a code."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

Severity = Literal["error", "warning", "note"]
"""Effect of a failed check: ``error``: the verdict fails; ``warning``: needs a look, the verdict
stands; ``note``: for information."""


class Code(msgspec.Struct, frozen=True):
    """A kind of check.

    Attributes:
        code: I and a number for an invariant, B for a limit of a budget, H for a comparison with
            history. Codes are never reused.
        title: The condition for passing, in a few words.
        severity: Severity of a failed check, unless a budget changes it.
        fixed: Budgets cannot change the severity.
    """

    code: str
    title: str
    severity: Severity
    fixed: bool = False


CODES: Final[dict[str, Code]] = {
    code.code: code
    for code in (
        Code("I01", "events nest within their enclosing scopes", "error"),
        Code("I02", "instructions do not overlap, delegate events fit their calls", "error"),
        Code("I03", "clocks advance", "error"),
        Code("I04", "events end after they start, in log order", "error"),
        Code("I05", "operators are long enough to measure", "warning"),
        Code("I06", "allocations fit their memory", "error"),
        Code("I07", "live allocations do not overlap", "error"),
        Code("I08", "every free matches an allocation", "error"),
        Code("I09", "executions free their temporary memory", "error"),
        Code("I10", "all executions log the same events", "error"),
        Code("I11", "outputs match their references", "error"),
        Code("I12", "all requested executions completed", "error"),
        Code("I13", "an execution was measured", "error", fixed=True),
        Code("I14", "executions run the program's instructions", "error"),
        Code("I15", "all completed executions are in the log", "error"),
        Code("I16", "planned memory has its planned size", "error"),
        Code("I17", "executions keep no memory of the method", "error"),
        Code("I18", "stacks stay within their size", "error"),
        Code("I19", "scopes count no less than the events within them", "error"),
        Code("I20", "counts of hardware counters are possible", "error"),
        Code("B01", "operator times are within their limits", "error"),
        Code("B02", "allocators are within their limits", "error"),
        Code("B03", "no allocation failed", "error"),
        Code("B04", "stacks are within their limit", "error"),
        Code("B05", "losses are within their limits", "error"),
        Code("B06", "times are above their lower limits", "error"),
        Code("B07", "module times are within their limits", "error"),
        Code("B08", "delegate times are within their limits", "error"),
        Code("B09", "block times are within their limits", "error"),
        Code("B10", "the log size is within its limit", "error"),
        Code("B11", "the firmware size is within its limits", "error"),
        Code("B12", "the arena use is within its limit", "error"),
        Code("B13", "hardware counters are within their limits", "error"),
        Code("B14", "energy and current are within their limits", "error"),
        Code("H01", "no operator is slower than in the baseline", "error"),
        Code("H02", "no size is larger than in the baseline", "error"),
        Code("H03", "no step in the history", "warning"),
        Code("H04", "no improvement over the baseline", "note"),
        Code("H05", "deterministic values match the baseline", "note"),
        Code("H06", "the baseline has enough data", "note"),
        Code("H07", "operators and sizes are those of the baseline", "note"),
        Code("H08", "times have one mode, not two", "note"),
        Code("H09", "the operators have not changed together", "error"),
        Code("H10", "no hardware counter counts more than in the baseline", "error"),
        Code("H11", "no operator draws more energy than in the baseline", "error"),
    )
}
"""All codes by name, in the order of the documentation."""

NOT_COMPARABLE: Final = "H06"
"""Code of the check that says that a comparison with history rests on too little."""

OUTPUTS: Final = "I11"
"""Code of the check that compares outputs with their references."""
