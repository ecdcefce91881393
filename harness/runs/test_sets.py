"""Test sets of a bundled program: which of them run, where, and the verdict of all of them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec.structs import replace

from harness.decode.bundled_program import BundledProgram, TestSet, read_bundled_program
from harness.decode.pte import read_program
from harness.errors import FormatError, UsageError, did_you_mean
from harness.files import display_path
from harness.records.result import Model
from harness.records.verdict import Verdict
from harness.runs.directory import TEST_SETS
from harness.runs.request import RunRequest


def bundled_model(whole: Model | None, model: Model | None) -> Model | None:
    """Return the record of a bundled program: of the method that needs most of the arena."""
    if model is None or (whole is not None and whole.arena_bytes >= model.arena_bytes):
        return whole
    return replace(model, method="", inputs=(), outputs=(), delegates=(), planned={}, chains=None)


def test_set_name(method: str, index: int) -> str:
    """Return the name of a test set in messages and verdicts."""
    return f"{method}, test set {index}"


def test_set_folder(method: str, index: int) -> str:
    """Return the run directory of a test set, relative to that of the whole.

    Methods with characters that a folder's name should not have get their code points instead.
    """
    name = re.sub(r"[^A-Za-z0-9_]", lambda found: f"%{ord(found[0]):x}", method)
    return f"{TEST_SETS}/{name}-{index}"


def read_test_sets(data: bytes, request: RunRequest) -> BundledProgram:
    """Read a bundled program with the test sets that a request runs.

    Raises:
        UsageError: The program has no test sets for the method, a test set does not fit it, or the
            request has inputs or references of its own.
        FormatError: The file is damaged.
    """
    name = display_path(request.model)
    if request.inputs or request.references:
        raise UsageError(
            f"{name} is a bundled program: its test sets have the inputs and the expected outputs",
            hint="omit --input and --reference, or run the .pte file that was bundled",
        )
    try:
        bundled = read_bundled_program(data)
    except FormatError as error:
        raise FormatError(
            f"{name} is not a complete bundled program: {error.message}",
            hint=error.hint or "bundle it again, or copy it again and compare sizes",
        ) from error
    known = dict.fromkeys(each.method for each in bundled.test_sets)
    if not known:
        raise UsageError(
            f"{name} has no test sets",
            hint="bundle it with a MethodTestSuite, or run its .pte file",
        )
    if request.method is not None and request.method not in known:
        raise UsageError(
            f"{name} has no test sets for method {request.method!r}",
            hint=f"{did_you_mean(request.method, known)}methods with test sets: {', '.join(known)}",
        )
    chosen = tuple(each for each in bundled.test_sets if request.method in (None, each.method))
    _require_fitting(bundled.program, chosen, name)
    return BundledProgram(bundled.program, chosen)


def _require_fitting(program: bytes, test_sets: Iterable[TestSet], name: str) -> None:
    """Check the numbers of inputs and outputs before anything is started."""
    try:
        methods = {method.name: method for method in read_program(program).methods}
    except FormatError:  # the device decides whether the program is valid
        return
    for each in test_sets:
        method = methods.get(each.method)
        if method is None:
            raise UsageError(
                f"{name}: the program has no method {each.method!r}, which test sets are for",
                hint="bundle the test sets with the program that they were made for",
            )
        for what, found, wanted in (
            ("inputs", each.inputs, method.inputs),
            ("outputs", each.expected, method.outputs),
        ):
            if len(found) != len(wanted):
                raise UsageError(
                    f"{name}: {test_set_name(each.method, each.index)} has {len(found)} {what}, "
                    f"the method has {len(wanted)}",
                    hint="bundle the test sets with the program that they were made for",
                )


def combined_verdict(verdicts: Iterable[tuple[str, int, Verdict]]) -> Verdict:
    """Return the verdict of a bundled program: all checks, with the test set in their subject.

    Args:
        verdicts: The verdict of every test set, after its method and its number.
    """
    return Verdict(
        tuple(
            replace(check, subject=f"{test_set_name(method, index)}: {check.subject}")
            for method, index, verdict in verdicts
            for check in verdict.checks
        )
    )
