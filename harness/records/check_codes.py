"""Check codes: all kinds of checks, with title and severity (pages in docs/checks)."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

Severity = Literal["error", "warning", "note"]
"""Effect of a failed check: ``error`` fails the verdict, ``warning`` needs attention, ``note`` is
information."""


class Code(msgspec.Struct, frozen=True):
    """A kind of check.

    Attributes:
        code: Letter and number: I for invariants, B for limits of a budget, H for comparisons with
            history. A code is never reused.
        title: The condition that holds when it passes, in a few words.
        severity: Default severity; a budget can change it.
        fixed: A budget cannot change the severity.
    """

    code: str
    title: str
    severity: Severity
    fixed: bool = False


CODES: Final[dict[str, Code]] = {
    code.code: code
    for code in (
        Code("I01", "events lie within the scopes around them", "error"),
        Code("I02", "instructions do not overlap, delegates keep within their calls", "error"),
        Code("I03", "clocks advance", "error"),
        Code("I04", "events end after they begin, in the order of the log", "error"),
        Code("I05", "operators take long enough to be measured", "warning"),
        Code("I06", "allocations lie within their memory", "error"),
        Code("I07", "live pieces of memory do not overlap", "error"),
        Code("I08", "freed memory was allocated before", "error"),
        Code("I09", "each execution frees its allocations", "error"),
        Code("I10", "all runs log the same events", "error"),
        Code("I11", "outputs match their references", "error"),
        Code("I12", "all requested runs completed", "error"),
        Code("I13", "an execution was measured", "error", fixed=True),
        Code("B01", "times are within their limits", "error"),
        Code("B02", "allocators hold no more than their limits", "error"),
        Code("B03", "no allocation was refused", "error"),
        Code("B04", "stacks are no deeper than their limit", "error"),
        Code("B05", "no more is lost than is allowed", "error"),
        Code("B06", "nothing is quicker than it can be", "error"),
        Code("B07", "modules are within their limits", "error"),
        Code("B08", "calls of delegates are within their limits", "error"),
        Code("B09", "blocks are within their limits", "error"),
        Code("B10", "the log is no larger than its limit", "error"),
        Code("B11", "the firmware is no larger than its limits", "error"),
        Code("B12", "the model takes no more of the arena than its limit", "error"),
        Code("H01", "no operator is slower than in the baseline", "error"),
        Code("H02", "no size is larger than in the baseline", "error"),
        Code("H03", "no step change in the history", "warning"),
        Code("H04", "no value is lower than in the baseline", "note"),
        Code("H05", "deterministic values match the baseline", "note"),
        Code("H06", "the baseline has enough data", "note"),
        Code("H07", "the operators are those of the baseline", "note"),
        Code("H08", "times have a single level", "note"),
    )
}
"""All codes by name, in the order of the documentation."""
