"""Runs a model for a test: a ``harness.Run`` that resolves files and fails checks for the test."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.api import Run, RunContext
from harness.errors import ChecksFailedError, UsageError
from harness.pytest_plugin.cases import Case, budget_of, find_file, with_files
from harness.pytest_plugin.kept import fail, use
from harness.pytest_plugin.running import Runs


class _TestContext(RunContext):
    """A test: files are found beside it, and failed verdicts are shown when it fails."""

    def __init__(self, node: pytest.Item) -> None:
        self._node = node

    def find_file(self, path: str | os.PathLike[str]) -> Path:
        return find_file(path, self._node)

    def verdict_failed(self, error: Callable[[], ChecksFailedError], *, checked: bool) -> None:
        __tracebackhide__ = True
        failure = error()
        fail(self._node, failure.message)
        if checked:
            raise failure


def profile(
    node: pytest.Item,
    runs: Runs,
    case: Case,
    model: str | os.PathLike[str] | None,
    options: Mapping[str, Any],
) -> Run:
    """Return the run of a model on the unit of a case; run it if that has not been done.

    Args:
        node: The test.
        runs: The runs of the session.
        case: Unit, model and options of the test.
        model: The model; None for that of the case.
        options: Options of the run; they override those of the case.

    Raises:
        HarnessError: There is no model, or the run failed.
    """
    file = case.model if model is None else find_file(model, node)
    if file is None:
        raise UsageError(
            "the test names no model", hint='mark it: @pytest.mark.etharness(model="model.pte")'
        )
    options = {**case.options, **with_files(options, node)}
    directory = runs.directory_of(case.unit, file, options)
    use(node, directory)
    found = runs.get(case.unit, file, options)
    result = found.result
    if result is None or found.subject is None or found.directory is None:
        raise UsageError(f"{found.title} holds no finished run")
    budget = budget_of(case.budget, node)
    run = Run(found, budget=budget, against=runs.against, context=_TestContext(node))
    model_, target = result.model, result.target
    node.user_properties += [
        ("etharness_version", result.tool_version),
        ("etharness_model", file.name),
        ("etharness_model_sha256", model_.sha256 if model_ else ""),
        ("etharness_build_id", target.build_id if target else ""),
    ]
    return run
