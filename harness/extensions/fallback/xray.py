"""The fall-back X-ray of a method with delegates.

`describe` says from the program alone what delegates and the CPU execute, and why; `measure` adds
times of a run; `tables` is what reports show of either. All read one record, ``FallbackXray``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
from msgspec.structs import replace

from harness.analyze.blocks import block_numbers
from harness.analyze.ticks import durations, event_nanoseconds, unknown_durations
from harness.analyze.workload import (
    Arguments,
    InstructionModel,
    Step,
    instruction_model,
    method_arguments,
    method_steps,
    read_section,
)
from harness.config.board import load_board
from harness.errors import FormatError
from harness.extensions.fallback import ethos_u, xnnpack
from harness.extensions.fallback.reasons import (
    SHAPES,
    FallbackReason,
    OperatorFacts,
    example_npu,
    unknown_rule,
)
from harness.formatting import TICKS, operator_title, time_text, time_unit
from harness.records.trace import DELEGATE_CALL, EXECUTION, OPERATOR_CALL
from harness.report.words import ReportTable, counted, percent

if TYPE_CHECKING:
    from harness.check.subject import Subject
    from harness.decode.program import Method
    from harness.records.result import DelegateCall
    from harness.records.trace import Trace

DELEGATE: Final = "delegate"
CONVERSION: Final = "conversions in the delegate"
COPY_IN: Final = "copies into the delegate"
COPY_OUT: Final = "copies out of the delegate"
OTHER: Final = "other operators"
REST: Final = "between instructions"

_ESTIMATED_ON: Final = "qemu-mps3-an547"
"""Board whose coefficients estimate the CPU beside an Ethos-U: a Cortex-M55."""

_PARTS: Final = {
    "quantize": re.compile(r"::(quantize_per_|quantize_affine|choose_qparams)"),
    "dequantize": re.compile(r"::(dequantize_per_|dequantize_affine)"),
    "permute": re.compile(r"::(_?permute|transpose|t_copy|_to_dim_order_copy|_clone_dim_order)"),
    "pad": re.compile(r"::(constant_pad_nd|pad\b|reflection_pad|replication_pad)"),
    OTHER: re.compile(""),
}
"""Parts of the CPU's work, by the names of operators."""

_COPIES: Final = {
    COPY_IN: re.compile(r"\binputs?\b.*(memcpy|copy|permute)"),
    COPY_OUT: re.compile(r"\boutputs?\b.*(memcpy|copy|permute|move)"),
    CONVERSION: re.compile(r"^(Transpose|Convert|Copy) \("),
}
"""Parts of a delegate's call, by the names of its events: those of Ethos-U and of XNNPACK."""

_RULES: Final[dict[str, Callable[[OperatorFacts], FallbackReason]]] = {
    ethos_u.BACKEND: ethos_u.reason,
    "SimulatedNpu": example_npu,
    "XnnpackBackend": xnnpack.reason,
}


class FallenOperator(FallbackReason, frozen=True, kw_only=True):
    """An operator that the CPU executes, in a program with delegates, and why.

    Attributes:
        chain: Number of its chain.
        instruction: Its index in the chain.
        operator: Its name, such as ``aten::mean.out``.
        part: The part of the CPU's work that it counts to.
        operands: Types and shapes of its tensors, and its other arguments.
        macs: Its multiply-accumulates.
        bytes: Bytes of its input and output tensors.
        backend: The backend whose partitioner left it.
        instructions: Estimate for a Cortex-M55 with the bundled kernels, of programs for Ethos-U;
            null if the operator was not measured, and for other backends.
        merges: Without it and its neighbours of known remedy, two calls of the delegate are one.
        time: Time in an execution, in ``FallbackXray.unit``; null without a run.
        saving: What following ``attempt`` is predicted to save of it; null without a run, and
            without ``attempt``.
    """

    chain: int
    instruction: int
    operator: str
    part: str
    operands: str
    macs: int
    bytes: int
    backend: str
    instructions: int | None
    merges: bool = False
    time: float | None = None
    saving: float | None = None


class FallbackPart(msgspec.Struct, frozen=True):
    """A part of an execution.

    Attributes:
        name: ``delegate``, its conversions and copies, what the CPU does, or ``between
            instructions``.
        calls: Instructions of the program; 0 for parts of a call.
        macs: Multiply-accumulates; null for a delegate whose work is not known.
        bytes: Bytes of their input and output tensors.
        time: Time in an execution; null without a run.
        share: Its part of all parts' time; null without a run.
    """

    name: str
    calls: int
    macs: int | None
    bytes: int
    time: float | None = None
    share: float | None = None


class FallbackXray(msgspec.Struct, frozen=True):
    """What delegates and the CPU around them execute in a method.

    Times are means over the executions of middle duration, without the shortest and the longest
    quarter: so parts add up to the execution, and operators to their part.

    Attributes:
        backends: Backends of its delegates.
        delegate_calls: Chain and instruction of every call of a delegate.
        parts: What an execution consists of.
        operators: The operators that the CPU executes, in the order of the program.
        unit: ``ns``, or ``ticks`` for a clock of unknown rate.
        execution: Time of an execution; null without a run.
        executions: Executions that were measured.
        averaged: Executions that the times are means of.
    """

    backends: list[str]
    delegate_calls: list[tuple[int, int]]
    parts: list[FallbackPart]
    operators: list[FallenOperator]
    unit: str = "ns"
    execution: float | None = None
    executions: int = 0
    averaged: int = 0


def describe(
    method: Method, _cpus: Sequence[str], calls: Sequence[DelegateCall] = ()
) -> FallbackXray | None:
    """Return the X-ray of a method from its program alone; None without a delegate.

    None also if its work is not known, as of a tensor of unknown type, which no runtime loads.
    """
    if not method.delegates:
        return None
    arguments = method_arguments(method)
    backends = [*dict.fromkeys(method.delegates)]
    try:
        steps = method_steps(method)
    except FormatError:
        return None
    producers = {written.number: found for found in arguments.values() for written in found.outputs}
    targets = {call.backend: call.work.target for call in calls if call.work is not None}
    model = instruction_model(load_board(_ESTIMATED_ON)[0]) if ethos_u.BACKEND in backends else None
    fallen = []
    for step in steps:
        if step.delegated:
            continue
        found = arguments[step.chain, step.instruction]
        numbers = {given.number for given in found.inputs}, {made.number for made in found.outputs}
        border = bool(numbers[0] & {*method.inputs} or numbers[1] & {*method.outputs})
        facts = OperatorFacts(found, producers, targets, border=border)
        reasons = {backend: _RULES.get(backend, unknown_rule)(facts) for backend in backends}
        backend = next((name for name, reason in reasons.items() if reason.rule), backends[0])
        of_sizes = step.operator.startswith(("executorch_prim::", "aten::sym_size"))
        reason = SHAPES if of_sizes else reasons[backend]
        fallen.append(
            FallenOperator(
                chain=step.chain,
                instruction=step.instruction,
                operator=step.operator,
                part=_part(step),
                operands=_operands(found),
                macs=step.macs or 0,
                bytes=step.bytes_read + step.bytes_written,
                backend=backend,
                **msgspec.structs.asdict(reason),
                instructions=None if model is None else _estimate(step, model),
            )
        )
    delegated = [step for step in steps if step.delegated]
    moved = sum(step.bytes_read + step.bytes_written for step in delegated)
    done = [call.macs for call in calls if call.macs is not None]
    done_by_delegates = sum(done) if len(done) == len(delegated) else None
    parts = [FallbackPart(DELEGATE, len(delegated), done_by_delegates, moved)]
    for name in _PARTS:
        alike = [item for item in fallen if item.part == name]
        macs, size = (sum(getattr(item, of) for item in alike) for of in ("macs", "bytes"))
        parts += [FallbackPart(name, len(alike), macs, size)] if alike else []
    places = [(step.chain, step.instruction) for step in delegated]
    return FallbackXray(backends, places, parts, _merging(fallen, places))


def _part(step: Step) -> str:
    """Return the part of the CPU's work; a copy to another type is more than a permutation."""
    part = next(part for part, names in _PARTS.items() if names.search(step.operator))
    return OTHER if part == "permute" and " to " in step.type else part


def _estimate(step: Step, model: InstructionModel) -> int | None:
    """Return the instructions of an operator."""
    # Both namespaces have the same operators, and the kernels of one were measured.
    name = step.operator.replace("quantized_decomposed::", "cortex_m::")
    found = model.estimate(replace(step, operator=name))
    return None if found is None else round(found)


def _operands(found: Arguments) -> str:
    """Return the tensors of an operator, and its other arguments."""
    given, written = (
        ", ".join(argument.text for argument in side) for side in (found.inputs, found.outputs)
    )
    return f"{given} -> {written}"


_WITH_IT: Final = "follow the advice for the operator beside it"


def _merging(
    operators: Sequence[FallenOperator], calls: Sequence[tuple[int, int]]
) -> list[FallenOperator]:
    """Mark what could be delegated together: the first of a group if two calls become one."""
    marked, group = [*operators], list[int]()
    places = {(item.chain, item.instruction): index for index, item in enumerate(operators)}
    after: tuple[int, int] | None = None
    for place in [*sorted([*places, *calls]), None]:
        if place in places:
            group.append(places[place])
            continue
        own = [index for index in group if operators[index].rule != ethos_u.BESIDE]
        if own and all(operators[index].attempt for index in own):
            for index in {*group} - {*own}:
                marked[index] = replace(operators[index], attempt=_WITH_IT, left=0.0)
            if after is not None and place is not None and after[0] == place[0]:
                marked[group[0]] = replace(marked[group[0]], merges=True)
        after, group = place, []
    return marked


def measure(found: Any, subject: Subject | None) -> FallbackXray:
    """Return the X-ray with the times of a run.

    Args:
        found: An X-ray, or its document in the result of a run.
        subject: The run; None for the X-ray as it is.

    Raises:
        FormatError: The document is invalid.
    """
    xray = read_section(found, FallbackXray, "fallback", "fall-back X-ray")
    if subject is None:
        return xray
    times = _Times(subject.trace)
    return _timed(xray, times) if times.executions else xray


class _Times:
    """Times of the instructions of a trace, summed up per execution.

    Attributes:
        unit: ``ns``, or ``ticks`` for a clock of unknown rate.
        executions: Executions with a known duration.
        blocks: Numbers of the blocks of those of middle duration.
        totals: Their durations.
    """

    def __init__(self, trace: Trace) -> None:
        ticks = durations(trace)
        nanoseconds = event_nanoseconds(trace, ticks)
        usable = ~unknown_durations(trace)
        around = usable & trace.named(EXECUTION)
        counted_in_ns = not np.isnan(nanoseconds[around]).any()
        self.unit = "ns" if counted_in_ns else "ticks"
        self._times = nanoseconds if counted_in_ns else ticks.astype(np.float64)
        self._times = np.where(usable & ~np.isnan(self._times), self._times, 0.0)
        self._trace, self._numbers = trace, block_numbers(trace)
        self.blocks = np.unique(self._numbers[around])
        self.executions = len(self.blocks)
        left_out = self.executions // 4
        middle = np.argsort(self.sums(around), kind="stable")[left_out : self.executions - left_out]
        self.blocks = np.sort(self.blocks[middle])
        self.totals = self.sums(around)

    def sums(self, rows: np.ndarray) -> np.ndarray:
        """Return the sum of the chosen rows in every execution."""
        chosen = np.flatnonzero(rows)
        sums = np.zeros(int(self._numbers.max(initial=0)) + 1)
        np.add.at(sums, self._numbers[chosen], self._times[chosen])
        return sums[self.blocks]

    def at(self, places: Sequence[tuple[int, int]]) -> np.ndarray:
        """Return the rows of some instructions."""
        chains, instructions = self._trace.chain, self._trace.instruction
        rows = np.zeros(len(self._trace), np.bool_)
        for chain, instruction in places:
            rows |= (chains == chain) & (instructions == instruction)
        return rows

    def matching(self, names: re.Pattern[str]) -> np.ndarray:
        """Return the rows of events whose name or delegate id matches."""
        rows = np.zeros(len(self._trace), np.bool_)
        for column in (self._trace.name, self._trace.delegate_str):
            numbers = np.unique(column).tolist()
            right = [n for n in numbers if names.search(self._trace.text(n) or "")]
            rows |= np.isin(column, right)
        return rows

    def converted(self, call: tuple[int, int], position: int) -> float:
        """Return the mean time of the first or the last event of a call, if it converts."""
        inside = self.at([call]) & ~self._trace.named(DELEGATE_CALL)
        converting = np.zeros(len(self._trace), np.bool_)
        for names in _COPIES.values():
            converting |= self.matching(names)
        found = []
        for block in self.blocks.tolist():
            rows = np.flatnonzero(inside & (self._numbers == block))
            edge = rows[position] if len(rows) else -1
            found.append(self._times[edge] if edge >= 0 and converting[edge] else 0.0)
        return float(np.mean(found))

    def calls(self, places: Sequence[tuple[int, int]], name: str) -> np.ndarray:
        """Return the rows of the scopes around some instructions, else of their kernels."""
        rows = self.at(places)
        around = rows & self._trace.named(name)
        return around if around.any() else rows & self.matching(re.compile("^native_call_"))


def _timed(xray: FallbackXray, times: _Times) -> FallbackXray:
    calls = times.calls(xray.delegate_calls, DELEGATE_CALL)
    whole = times.sums(calls)
    inside = times.at(xray.delegate_calls) & ~calls
    pieces = {
        name: sums
        for name, names in _COPIES.items()
        if (sums := times.sums(inside & times.matching(names))).any()
    }
    # Events of a clock of their own can be longer than the call that they are in.
    none = np.zeros_like(whole)
    longest = np.maximum(sum(pieces.values(), none), whole)
    parts = {
        name: sums * np.divide(whole, longest, where=longest > 0, out=longest * 0)
        for name, sums in pieces.items()
    }
    parts = {DELEGATE: whole - sum(parts.values(), none), **parts}
    parts |= {part.name: none for part in xray.parts[1:]}
    operators = []
    for item in xray.operators:
        taken = times.sums(times.calls([(item.chain, item.instruction)], OPERATOR_CALL))
        parts[item.part] = parts.get(item.part, none) + taken
        operators.append(replace(item, time=float(taken.mean())))
    parts[REST] = np.maximum(times.totals - sum(parts.values()), 0.0)
    execution = float(sum(parts.values(), none).mean())
    known = {part.name: part for part in xray.parts}
    return replace(
        xray,
        parts=[
            replace(
                known.get(name, FallbackPart(name, 0, None, 0)),
                time=(time := float(sums.mean())),
                share=time / execution if execution else None,
            )
            for name, sums in parts.items()
        ],
        operators=[_predicted(item, xray, times) for item in operators],
        unit=times.unit,
        execution=execution,
        executions=times.executions,
        averaged=len(times.blocks),
    )


def _predicted(item: FallenOperator, xray: FallbackXray, times: _Times) -> FallenOperator:
    """Return an operator with what following its advice saves.

    That is its time without what the delegate is assumed to take for it. Where two calls become
    one, also what they convert and copy only for the operators between them.
    """
    if not item.attempt or item.time is None:
        return item
    saving, place = item.time * (1 - item.left), (item.chain, item.instruction)
    if item.merges:
        before = max(call for call in xray.delegate_calls if call < place)
        behind = min(call for call in xray.delegate_calls if call > place)
        saving += times.converted(before, -1) + times.converted(behind, 0)
    return replace(item, saving=saving)


_MOST_PLACES: Final = 6
"""Instructions that a row of a table names."""


def tables(xray: FallbackXray) -> Iterator[ReportTable]:
    """Yield what reports show: the parts of an execution, and the operators outside."""
    unit = time_unit([xray.execution or 0.0]) if xray.unit == "ns" else TICKS

    def text(time: float | None) -> str:
        return "" if time is None else time_text(*_either(xray, time), unit, brief=True)

    timed = xray.execution is not None
    headers = ["part", "calls", "MACs", "tensors [B]"]
    headers += [f"time [{unit.name}]", "share"] if timed else []
    rows = [
        [
            part.name,
            f"{part.calls:,}" if part.calls else "",
            "" if part.macs is None else f"{part.macs:,}",
            f"{part.bytes:,}" if part.bytes else "",
            *([text(part.time), percent(part.share)] if timed else []),
        ]
        for part in xray.parts
    ]
    outside = len(xray.operators)
    title = f"{counted(len(xray.delegate_calls), 'call')} of {' and '.join(xray.backends)}, "
    title += f"{counted(outside, 'operator')} outside"
    if timed:
        title += f": means of {counted(xray.averaged, 'execution')}"
        if xray.averaged < xray.executions:
            title += f" of middle duration, of {xray.executions:,}"
    yield ReportTable(title, headers, rows, range(1, len(headers)))
    if outside:
        yield _operator_table(xray, text, unit.name if timed else "")


def _either(xray: FallbackXray, time: float) -> tuple[float | None, float]:
    return (time if xray.unit == "ns" else None), time


def _operator_table(
    xray: FallbackXray, text: Callable[[float | None], str], unit: str
) -> ReportTable:
    """Return the operators outside of delegates, those with the same reason in one row."""
    groups: dict[tuple[str, str], list[FallenOperator]] = {}
    for item in xray.operators:
        groups.setdefault((item.why, item.attempt), []).append(item)
    ordered = sorted(
        groups.values(),
        key=lambda alike: -sum(item.bytes if item.time is None else item.time for item in alike),
    )
    headers = ["operator", "at", "tensors [B]"]
    estimated = any(item.instructions is not None for item in xray.operators)
    headers += ["Cortex-M55 instructions (estimate)"] if estimated else []
    headers += [f"time [{unit}]", f"saving [{unit}]"] if unit else []
    headers += ["why it is outside", "try"]
    rows = []
    for alike in ordered:
        first, savings = alike[0], [item.saving for item in alike if item.saving is not None]
        places = " ".join(f"#{item.instruction}" for item in alike[:_MOST_PLACES])
        places += f" and {len(alike) - _MOST_PLACES:,} more" if len(alike) > _MOST_PLACES else ""
        times = [text(sum(item.time or 0.0 for item in alike))]
        times += [text(sum(savings)) if savings else "not known"]
        rows.append(
            [
                ", ".join(dict.fromkeys(operator_title(item.operator, None) for item in alike)),
                places,
                f"{sum(item.bytes for item in alike):,}",
                *([_instructions(alike)] if estimated else []),
                *(times if unit else []),
                first.why,
                first.attempt or "nothing is known",
            ]
        )
    numbers = range(2, len(headers) - 2)
    return ReportTable("Operators outside of delegates", headers, rows, numbers)


def _instructions(alike: Sequence[FallenOperator]) -> str:
    known = [item.instructions for item in alike if item.instructions is not None]
    least = "at least " if len(known) < len(alike) else ""
    return f"{least}{sum(known):,}" if known else "not measured"
