"""The section of reports on what to try for the slowest operators.

`describe` proposes from the program alone, for every core with measured coefficients; `measure`
adds what a run counted; `tables` is what reports show. All read one record, ``OperatorAdvice``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import replace

from harness.analyze.workload import (
    InstructionModel,
    Step,
    instruction_model,
    measured_models,
    method_arguments,
    method_steps,
    read_section,
)
from harness.errors import FormatError
from harness.extensions.advice.rules import Graph, Proposal, proposals
from harness.records.measurement import BUNDLED_KERNELS
from harness.records.trace import CYCLES, is_wrapper
from harness.report.words import ReportTable, percent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.analyze.statistics import Operator
    from harness.check.subject import Subject
    from harness.decode.program import Method
    from harness.records.result import DelegateCall

SLOWEST: Final = 5
"""Operators with the most instructions of an execution that are looked at."""

LEAST: Final = 0.1
"""Part of the instructions that an advice replaces that it must save, by the coefficients."""

LEAST_OF_ALL: Final = 0.01
"""Part of an execution's instructions that it must save."""

INSTRUCTIONS: Final = "instructions"


class CoreAdvice(msgspec.Struct, frozen=True):
    """What an advice is worth on a core, by its measured coefficients.

    Attributes:
        attempt: What to try.
        instructions: Instructions of the operator as it is.
        instead: Instructions of what would take its place.
        elsewhere: Instructions per unit of work that the kernel's usual loop takes on this core;
            null if it is not known.
        saved: Instructions that are saved; also those of other operators that vanish with it.
        of_all: Their part of the instructions of an execution.
    """

    attempt: str
    instructions: int
    instead: int
    elsewhere: float | None
    saved: int
    of_all: float


class OperatorAdvice(msgspec.Struct, frozen=True):
    """An operator that could be cheaper.

    Attributes:
        chain: Number of its chain.
        instruction: Its index in the chain.
        operator: The operator, with the loop that it takes.
        unit: Unit of its work: ``MAC``, or ``element`` of its output without any.
        amount: How much of it.
        cores: What to try on each core; a core where nothing is cheaper is absent.
        measured: Median that the run counted; null without a run.
        counted: What it counted: ``instructions`` or ``cycles``; "" without a run.
    """

    chain: int
    instruction: int
    operator: str
    unit: str
    amount: int
    cores: dict[str, CoreAdvice]
    measured: float | None = None
    counted: str = ""


class MethodAdvice(msgspec.Struct, frozen=True):
    """What to try for the slowest operators of a method.

    Attributes:
        operators: The operators, in the order of the program.
        core: The core of the run; "" without a run.
    """

    operators: list[OperatorAdvice]
    core: str = ""


def describe(
    method: Method, cpus: Sequence[str], _calls: Sequence[DelegateCall] = ()
) -> MethodAdvice | None:
    """Return advice on a method from its program alone; None if there is nothing to say."""
    models = [model for cpu in cpus for model in measured_models(cpu)]
    try:
        steps, arguments = method_steps(method), method_arguments(method)
    except FormatError:
        return None
    graph = Graph.of(steps, arguments)
    slowest = [_slowest(steps, model) for model in models]
    totals = [sum(model.estimate(step) or 0.0 for step in steps) for model in models]
    found = []
    for place, step in graph.steps.items():
        if not any(place in places for places in slowest):
            continue
        proposed = [*proposals(graph, place)]
        cores = {}
        for model, places, total in zip(models, slowest, totals, strict=True):
            options = [_worth(step, each, model, total) for each in proposed]
            best = max((o for o in options if o is not None), key=_saved, default=None)
            if place in places and best is not None:
                cores[model.cpu] = best
        if cores:
            unit, work = ("MAC", step.macs) if step.macs else ("element", step.elements)
            found.append(OperatorAdvice(*place, step.kind, unit, work or 1, cores))
    return MethodAdvice(found) if found else None


def _slowest(steps: list[Step], model: InstructionModel) -> set[tuple[int, int]]:
    known = [(model.estimate(step) or 0.0, (step.chain, step.instruction)) for step in steps]
    return {place for _, place in sorted(known, reverse=True)[:SLOWEST]}


def _saved(advice: CoreAdvice) -> int:
    return advice.saved


def _worth(
    step: Step, proposal: Proposal, model: InstructionModel, total: float
) -> CoreAdvice | None:
    """Return what an advice is worth on a core; None if it does not help there."""
    calls = (step, *proposal.others, *proposal.instead)
    known = [each for each in map(model.estimate, calls) if each is not None]
    if len(known) < len(calls):
        return None
    now, after = known[0], sum(known[1 + len(proposal.others) :])
    replaced = sum(known) - after
    saved = replaced - after
    if saved < LEAST * replaced or saved < LEAST_OF_ALL * total:
        return None
    usual = model.operators.get(proposal.instead[0].kind if proposal.instead else step.kind)
    return CoreAdvice(
        *(proposal.attempt, round(now), round(after), usual.typical if usual else None),
        *(round(saved), round(saved / total, 4)),
    )


def measure(found: Any, subject: Subject | None) -> MethodAdvice:
    """Return the advice with what a run counted.

    Args:
        found: An advice, or its document in the result of a run.
        subject: The run; None for the advice as it is.

    Raises:
        FormatError: The document is invalid.
    """
    advice = read_section(found, MethodAdvice, "advice", "advice")
    if subject is None:
        return advice
    core = _core(subject)
    counts = {
        (operator.chain, operator.instruction): _counted(operator, subject)
        for operator in subject.operators
        if not is_wrapper(operator.name) and not operator.loading and operator.chain >= 0
    }
    total = sum(value for unit, value in counts.values() if unit == INSTRUCTIONS and value)
    operators = []
    for each in advice.operators if core else ():
        if core in each.cores:
            counted, value = counts.get((each.chain, each.instruction), ("", None))
            worth = each.cores[core]
            if counted == INSTRUCTIONS and value is not None:
                saved = max(round(worth.saved + value - worth.instructions), 0)
                worth = replace(worth, saved=saved, of_all=round(saved / max(total, saved, 1), 4))
            operators.append(
                replace(each, measured=value, counted=counted, cores={**each.cores, core: worth})
            )
    return MethodAdvice(operators, core)


def _core(subject: Subject) -> str:
    """Return the CPU of a run with the bundled kernels; empty for others."""
    from harness.config.board import load_board
    from harness.errors import HarnessError

    try:
        model = instruction_model(load_board(subject.board)[0])
    except HarnessError:
        return ""
    kernels = (subject.settings and subject.settings.kernels) or BUNDLED_KERNELS
    return model.cpu if model is not None and model.kernels == kernels else ""


def _counted(operator: Operator, subject: Subject) -> tuple[str, float | None]:
    """Return what a run counted of an operator: an emulator's time counts instructions."""
    for name, unit in (("instret", INSTRUCTIONS), (CYCLES, CYCLES)):
        if name in operator.counters:
            return unit, operator.counters[name].p50
    if subject.emulated_time and operator.ns is not None:
        return INSTRUCTIONS, float(operator.ns.p50)
    return "", None


def tables(advice: MethodAdvice) -> list[ReportTable]:
    """Return the advice as a table; none if there is nothing to say."""
    rows = [row for each in advice.operators for row in _rows(each, advice.core)]
    if not rows:
        return []
    headers = ("instruction", "operator", "here", "elsewhere", "saves", "of all", "try")
    notes = [
        "per multiply-accumulate or per element of the output; savings in instructions, by the "
        "coefficients of the core (docs/advice.md)"
    ]
    return [ReportTable("Advice on the slowest operators", headers, rows, (2, 3, 4, 5), notes)]


def _rows(each: OperatorAdvice, core: str) -> list[tuple[str, ...]]:
    """Return a row for each attempt: of the core of the run, otherwise of all measured cores."""
    cores = {core: each.cores[core]} if core else each.cores
    rows: list[tuple[str, ...]] = []
    for attempt in dict.fromkeys(found.attempt for found in cores.values()):
        alike = {name: found for name, found in cores.items() if found.attempt == attempt}
        saved = dict.fromkeys(f"{f(found.saved for found in alike.values()):,}" for f in (min, max))
        here = [found.instructions / each.amount for found in alike.values()]
        unit = INSTRUCTIONS
        if each.measured is not None:
            here, unit = [each.measured / each.amount], each.counted
        there = [found.elsewhere for found in alike.values() if found.elsewhere is not None]
        rows.append(
            (
                str(each.instruction),
                each.operator,
                f"{_span(here)} {unit}/{each.unit}",
                f"{_span(there)}" if there else "",
                " to ".join(saved),
                _percents([found.of_all for found in alike.values()]),
                attempt if core else f"{attempt} ({', '.join(alike)})",
            )
        )
    return rows


def _span(numbers: list[float]) -> str:
    low, high = min(numbers), max(numbers)
    texts = dict.fromkeys(f"{number:.3g}" for number in (low, high))
    return " to ".join(texts)


def _percents(shares: list[float]) -> str:
    return " to ".join(dict.fromkeys(percent(share) for share in (min(shares), max(shares))))
