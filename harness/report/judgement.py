"""Judgement: all that a verdict says, without the places where its files are."""

from __future__ import annotations

import msgspec

from harness.report.postmortem import PostmortemDocument
from harness.result import Verdict


class Judgement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What ``etharness replay --json`` prints, and ``verdict.json`` in a bundle.

    Attributes:
        exit_code: Of the run, or of its check.
        failure: The kind of error for which the run did not end; "" when it did.
        verdict: What the checks said; null for a run that left no trace. The budget is a file of
            the bundle.
        postmortem: What the board was doing when it crashed; places in its firmware are left out,
            as they depend on the toolchain that looks them up.
    """

    exit_code: int
    failure: str
    verdict: Verdict | None
    postmortem: PostmortemDocument | None
