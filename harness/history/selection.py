"""What a question about history is of, when it does not say all of it."""

from __future__ import annotations

from collections.abc import Sequence

from harness.check.history.stored import Tested
from harness.errors import NotComparableError, UsageError


def the_one(
    tested: Sequence[Tested], board: str | None, model: str | None, method: str | None
) -> tuple[str, str, str]:
    """Return the only board, model and method that fit.

    Raises:
        NotComparableError: None does.
        UsageError: Several do.
    """
    wanted = (board, model, method)
    found = [
        (item.board, item.model, item.method)
        for item in tested
        if all(
            want in (None, has)
            for want, has in zip(wanted, (item.board, item.model, item.method), strict=True)
        )
    ]
    if not found:
        said = " ".join(word for word in wanted if word) or "anything"
        raise NotComparableError(
            f"there is no result of {said}", hint="`etharness history list` shows what there is"
        )
    if len(found) > 1:
        some = "; ".join(f"{model} {method} on {board}" for board, model, method in found[:5])
        raise UsageError(
            f"there are results of {len(found)} kinds: {some}",
            hint="say which with --board, --model and --method",
        )
    return found[0]
