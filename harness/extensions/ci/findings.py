"""Failed checks for code review, as SARIF and as annotations of GitHub."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from harness import __version__
from harness.documentation import explain
from harness.files import display_path
from harness.records.nightly import NightDocument
from harness.records.result import encode
from harness.records.verdict import CODES
from harness.report.description import RunDescription, describe
from harness.report.words import LONGEST_SENTENCE, brief
from harness.runs.source import EvaluatedRun

_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"

_LEVELS: Final = {"fail": "error", "warning": "warning", "note": "note"}
"""Level of SARIF by outcome of a check."""

_COMMANDS: Final = {"error": "error", "warning": "warning", "note": "notice"}
"""Workflow command of GitHub by level."""

_RUN_RULE: Final = "run"
"""Rule of a run that failed before its end."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that a reviewer should see.

    Attributes:
        rule: Code of the check, or ``run``.
        level: ``error``, ``warning`` or ``note``.
        title: The code, and what was checked where.
        text: Why it does not hold.
        file: File of the rule, or else the run directory.
        line: Line of the rule; None without.
        identity: What stays the same while the finding does.
    """

    rule: str
    level: str
    title: str
    text: str
    file: str
    line: int | None
    identity: str


def findings(runs: Sequence[EvaluatedRun]) -> list[Finding]:
    """Return what does not hold in ``runs``, errors first."""
    found = [item for run in runs for item in _of_run(describe(run))]
    return sorted(found, key=lambda item: [*_COMMANDS].index(item.level))


def _of_run(run: RunDescription) -> Iterator[Finding]:
    tested = " on ".join(filter(None, (run.model, run.unit or run.board))) or run.title
    if run.failure is not None:
        message = f"{run.failure.kind}: {run.failure.message}"
        yield _finding(run, _RUN_RULE, "error", f"{tested}: the run failed", message, "", tested)
    for row in (*run.verdict.failed, *run.verdict.warned):
        title = f"{row.code} {row.subject} ({tested})"
        text = f"{row.rule}: {row.reason}"
        identity = f"{row.code} {row.subject} {row.rule} {tested}"
        yield _finding(run, row.code, _LEVELS[row.outcome], title, text, row.source, identity)


def _finding(
    run: RunDescription, rule: str, level: str, title: str, text: str, source: str, identity: str
) -> Finding:
    placed = re.fullmatch(r"(.+):(\d+)", source)
    # Rules are placed relative to the first budget file.
    file = Path(run.run.budget).parent / placed[1] if placed else Path(run.title)
    path = display_path(file)
    line = int(placed[2]) if placed else None
    shown = brief(title), brief(text, LONGEST_SENTENCE)
    return Finding(rule, level, *shown, path, line, identity)


def sarif_report(runs: Sequence[EvaluatedRun], night: NightDocument | None = None) -> bytes:
    """Return failed checks as SARIF 2.1.0, in one run of the tool, as services expect it.

    A finding points to the line of its rule in the budget, or to the run directory. Its fingerprint
    is made of check, operator, model and board, so that it is the same finding tomorrow. Of a
    nightly run it has the findings of ``runs``.
    """
    del night  # steps that were not run have nothing to point to
    found = findings(runs)
    used = dict.fromkeys(item.rule for item in found)
    driver = {
        "name": "etdump-harness",
        "version": __version__,
        "rules": [_rule(rule) for rule in used],
    }
    document = {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": driver},
                "columnKind": "unicodeCodePoints",
                "results": [_result(item, [*used].index(item.rule)) for item in found],
            }
        ],
    }
    return encode(document)


def _rule(rule: str) -> dict[str, Any]:
    if rule == _RUN_RULE:
        return {"id": rule, "shortDescription": {"text": "the run ends"}}
    level = CODES[rule].severity if rule in CODES else "error"
    url = explain(rule)[1].url if rule in CODES else None
    return {
        "id": rule,
        "shortDescription": {"text": CODES[rule].title if rule in CODES else rule},
        "help": {"text": f"etharness explain {rule}"},
        **({"helpUri": url} if url else {}),
        "defaultConfiguration": {"level": level},
    }


def _result(item: Finding, index: int) -> dict[str, Any]:
    path = Path(item.file)
    uri = path.as_uri() if path.is_absolute() else quote(path.as_posix())
    place: dict[str, Any] = {"artifactLocation": {"uri": uri}}
    if item.line is not None:
        place["region"] = {"startLine": item.line}
    return {
        "ruleId": item.rule,
        "ruleIndex": index,
        "level": item.level,
        "message": {"text": f"{item.title}: {item.text}"},
        "locations": [{"physicalLocation": place}],
        "partialFingerprints": {"check/v1": hashlib.sha256(item.identity.encode()).hexdigest()},
    }


def github_annotations(runs: Sequence[EvaluatedRun]) -> Iterator[str]:
    """Yield a workflow command of GitHub Actions for each finding, errors first.

    GitHub shows the first ten of each level of a step.
    """
    for item in findings(runs):
        place = {"file": item.file} if item.line is not None else {}
        line = {"line": str(item.line)} if item.line is not None else {}
        properties = {**place, **line, "title": item.title}
        pairs = ",".join(f"{name}={_property(text)}" for name, text in properties.items())
        yield f"::{_COMMANDS[item.level]} {pairs}::{_data(item.text)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


class _Sarif:
    __call__ = staticmethod(sarif_report)
    annotations = staticmethod(github_annotations)


SARIF: Final = _Sarif()
"""The plugin for reports with the suffix ``.sarif``, and for ``--annotations``."""
