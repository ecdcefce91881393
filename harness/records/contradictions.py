"""Finds what a result says twice, and differently: it was edited, or mixed from two runs.

Damage that keeps the digest of ``result.json`` right can only be seen here. Without these rules a
result that lost its reference, its outputs or its budget would pass, because nothing would be left
to compare.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

from harness import __version__
from harness.records.check_codes import OUTPUTS
from harness.records.result import Result
from harness.records.verdict import Verdict


def contradiction(result: Result) -> str:
    """Return the first contradiction within the result of a finished run, "" if there is none."""
    if result.files is None:
        return ""
    return next(_of_verdict(result), "") or next(_of_files(result), "")


def changed_outputs(result: Result, verdict: Verdict) -> str:
    """Return which output matches its reference now and did not in the run, "" if there is none.

    Outputs, references and tolerances are recorded, so no option and no budget changes this check;
    the default tolerance of another version may.
    """
    if result.verdict is None or result.tool_version != __version__:
        return ""
    differed = {c.subject for c in result.verdict.checks if c.code == OUTPUTS and not c.passed}
    for check in verdict.checks:
        if check.code == OUTPUTS and check.passed and check.subject in differed:
            return (
                f"it records that {check.subject} differs from its reference, but by its tolerance "
                "they match"
            )
    return ""


def _of_verdict(result: Result) -> Iterator[str]:
    """Compare the exit code with failure and verdict, and the verdict with its checks."""
    verdict = result.verdict
    if result.failure is not None:
        if result.exit_code == 0:
            yield "it records a failure, but exit code 0"
        return
    passed = True if verdict is None else verdict.passed
    if passed != (result.exit_code == 0):
        said = "no failed verdict" if passed else "a failed verdict"
        yield f"it records {said}, but exit code {result.exit_code}"
    if verdict is None or not verdict.checks:  # versions without codes recorded no checks
        return
    failed = sum(check.failed for check in verdict.checks)
    if verdict.passed != (failed == 0):
        said = "passed" if verdict.passed else "failed"
        yield f"its verdict {said}, but {failed} of its checks failed"
    if not verdict.budget and any(check.source for check in verdict.checks):
        yield "its checks name a budget, its verdict does not"


def _of_files(result: Result) -> Iterator[str]:
    """Compare the recorded files of tensors with those that model and reference name."""
    if result.failure is not None:  # it may have ended between two of them
        return
    model, reference = result.model, result.reference
    named = {
        "inputs": {tensor.file for tensor in model.inputs} if model else set(),
        "outputs": {tensor.file for tensor in model.outputs} if model else set(),
        "reference": set(reference.files) if reference else set(),
    }
    for folder, names in named.items():
        recorded = {
            name for name in result.files or () if PurePosixPath(name).parts[:1] == (folder,)
        }
        for name in sorted(recorded ^ names):
            where = "the model" if folder != "reference" else "the reference"
            if name in recorded:
                yield f"it records the file {name}, but {where} does not name it"
            else:
                yield f"{where} names {name}, which is not among the recorded files"
