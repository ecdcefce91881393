"""Stages of a board whose image nobody here builds: it has no link, so only runs can be proven."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from harness.errors import TargetError, UsageError
from harness.extensions.qualify.bench import Bench, failed, not_offered, passed, reference_of
from harness.extensions.qualify.record import StageFigure, StageRecord
from harness.extensions.qualify.stages import packaged_networks
from harness.files import data_directory
from harness.records.verdict import OUTPUTS
from harness.runs.request import RunRequest
from harness.runs.run import run_model
from harness.runs.source import EvaluatedRun

_ORDINARY: Final = "kws_f32"
"""The network of the stage `run`: portable kernels run it on every core."""

_RUNS: Final = 3


def stage_on_image(name: str) -> Callable[[Bench], StageRecord]:
    """Return what carries a stage out on such a board."""
    return {"run": _ordinary_run, "networks": _networks}.get(name, _without_link)


def _without_link(bench: Bench) -> StageRecord:
    return not_offered(
        f"not applicable: {bench.board.name} has an image that nobody here builds, and no link"
    )


def _ordinary_run(bench: Bench) -> StageRecord:
    """Run a network as `etharness run` does, with all its checks, into a run directory."""
    run = _run(bench, _ORDINARY, bench.output / "run", _RUNS)
    checks, wrong = run.verdict.checks, run.verdict.failures
    figures = [
        StageFigure("model", _ORDINARY),
        StageFigure("executions", _RUNS),
        StageFigure("checks", len(checks)),
    ]
    if wrong:
        text = "; ".join(f"{check.code}: {check.rule}: {check.reason}" for check in wrong)
        return failed(text, f"see `etharness report {bench.output / 'run'}`", *figures)
    return passed(f"{_RUNS} executions of {_ORDINARY} pass {len(checks)} checks", *figures)


def _networks(bench: Bench) -> StageRecord:
    """Compare the outputs of every network that the image takes with its reference."""
    figures, wrong, refused, matched = [], [], 0, 0
    networks = packaged_networks(bench.board)
    for at, network in enumerate(networks):
        bench.progress(at, len(networks))
        _, _, runs = reference_of(network.name)
        folder = bench.output / "networks" / network.name
        try:
            run = _run(bench, network.name, folder, runs)
        except (TargetError, UsageError) as error:
            refused += 1
            figures.append(StageFigure(network.name, f"not run: {error.message.splitlines()[0]}"))
            continue
        compared = [check for check in run.verdict.checks if check.code == OUTPUTS]
        if not compared or any(check.failed for check in compared):
            reasons = "; ".join(check.reason for check in compared) or "no output was compared"
            wrong.append(f"{network.name}: {reasons}")
            continue
        matched += 1
        figures.append(StageFigure(network.name, "; ".join(check.reason for check in compared)))
    if wrong:
        remedy = "run it with --reference, and see its run directory"
        return failed("; ".join(wrong), remedy, *figures)
    if not matched:
        return failed("no packaged network runs", "see the reasons of each network", *figures)
    message = f"{matched} networks match; {refused} are refused by the image, each with its reason"
    return passed(message, *figures)


def _run(bench: Bench, model: str, folder: Path, runs: int) -> EvaluatedRun:
    """Run a network with its reference, and remember what its board says of itself."""
    inputs, outputs, _ = reference_of(model)
    files = []
    for kind, arrays in (("input", inputs), ("output", outputs)):
        for index, array in enumerate(arrays):
            file = bench.output / "reference" / model / f"{kind}{index}.npy"
            file.parent.mkdir(parents=True, exist_ok=True)
            np.save(file, array)
            files.append(file)
    request = RunRequest(
        board=bench.chosen.board,
        model=data_directory("firmware_stub") / "models" / f"{model}.pte",
        runs=runs,
        output=folder,
        inputs=tuple(files[: len(inputs)]),
        references=tuple(files[len(inputs) :]),
        chosen=replace(bench.chosen, unit=None),
    )
    run = run_model(request, lambda _, done, total: bench.progress(done, total))
    bench.described = run.result.target if run.result is not None else None
    return run
