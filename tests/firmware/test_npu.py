"""The example backend: what it computes, logs and refuses."""

from __future__ import annotations

import ctypes as ct
import struct
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware_stub.models.npu import command_format as fmt
from firmware_stub.models.npu.command_format import Op
from firmware_stub.models.npu.job import Command, Job, Matrix, decode, execute
from harness import NO_NAME, Trace, durations
from tests.conftest import FIXTURES, MODELS
from tests.support.examples import examples
from tests.support.npu import NPU_BITS, Recorder, program_of
from tests.support.programs import ProgramBuilder
from tests.support.runtime import Loaded, RuntimeFailure, load

EXAMPLES = ("npu_int", "npu_str")
sizes = st.integers(1, 9)


def run_job(library: ct.CDLL, job: Job, *inputs: Matrix, recorder: Recorder | None = None) -> bytes:
    """Execute a job on the device's code; return the bytes of its output."""
    tracer = None if recorder is None else recorder.tracer
    loaded: Loaded = load(library, program_of(job), tracer=tracer)
    loaded.run(*inputs)
    return loaded.output(0)


def job_of(op: Op, rows: int, columns: int, terms: int, seed: int, **options: object) -> Job:
    """One command on arguments: a and out; what else it needs is constant."""
    random = np.random.default_rng(seed)

    def constant(*shape: int) -> int:
        return job.constant(random.standard_normal(shape).astype(np.float32))

    job = Job()
    a = job.argument(rows, terms if op is Op.LINEAR else columns)
    others = {
        Op.LINEAR: lambda: (constant(columns, terms), constant(1, columns)),
        Op.ADD: lambda: (constant(rows, columns),),
        Op.MULTIPLY: lambda: (constant(rows, columns),),
        Op.RELU: lambda: (),
    }[op]()
    job.commands.append(Command(op, job.argument(rows, columns), a, *others, **options))
    return job


def input_of(job: Job, seed: int = 0) -> np.ndarray:
    shape = (job.operands[0].rows, job.operands[0].columns)
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def linear_job() -> Job:
    return job_of(Op.LINEAR, 2, 3, 4, seed=1)


@settings(deadline=None, max_examples=examples(100))
@given(
    op=st.sampled_from(Op), rows=sizes, columns=sizes, terms=sizes, seed=sizes, relu=st.booleans()
)
def test_every_op_is_the_references_bit_for_bit(
    etstub: ct.CDLL, op: Op, rows: int, columns: int, terms: int, seed: int, relu: bool
) -> None:
    job = job_of(op, rows, columns, terms, seed, relu=relu)
    value = input_of(job, seed)
    assert run_job(etstub, job, value) == execute(job, [value])[0].tobytes()


def test_a_job_survives_being_written_and_read() -> None:
    job = job_of(Op.LINEAR, 2, 3, 4, seed=1, debug_id="0:linear", relu=True)
    again = decode(job.encode())
    assert again.commands == job.commands
    assert again.encode() == job.encode()


def test_results_pass_through_local_memory(etstub: ct.CDLL) -> None:
    job = Job()
    x, y = job.argument(3, 5), job.argument(3, 5)
    double, square = job.scratch(3, 5), job.scratch(3, 5)
    job.commands += [Command(Op.ADD, double, x, x), Command(Op.MULTIPLY, square, double, x)]
    job.commands.append(Command(Op.ADD, y, double, square))
    value = input_of(job)
    assert run_job(etstub, job, value) == (2 * value + 2 * value * value).tobytes()


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_compute_what_pytorch_does(etstub: ct.CDLL, name: str) -> None:
    fixture = np.load(FIXTURES / f"{name}.npz")
    loaded = load(etstub, (MODELS / f"{name}.pte").read_bytes())
    for value, expected in zip(fixture["inputs"], fixture["outputs"], strict=True):
        np.testing.assert_allclose(loaded.run(value), expected.ravel(), rtol=0, atol=1e-5)


def npu_rows(trace: Trace) -> np.ndarray:
    return np.flatnonzero(trace.clock == 1)


@pytest.mark.parametrize("debug_id", [0, 7, 2**31 - 1, "0:linear", "x" * 255])
def test_an_event_says_which_command_it_was_and_what_it_moved(
    etstub: ct.CDLL, debug_id: int | str
) -> None:
    job = job_of(Op.LINEAR, 2, 3, 4, seed=1, debug_id=debug_id)
    recorder = Recorder(etstub)
    run_job(etstub, job, input_of(job), recorder=recorder)
    trace = recorder.trace()
    (row,) = npu_rows(trace)
    cost = job.cost(job.commands[0])
    named = isinstance(debug_id, str)
    assert trace.delegate_int[row] == (-1 if named else debug_id)
    assert trace.text(int(trace.delegate_str[row])) == (debug_id if named else None)
    assert trace.name[row] == NO_NAME
    assert (trace.chain[row], trace.instruction[row]) == (0, 0)
    assert trace.metadata_of(row) == struct.pack("<II", cost.macs, cost.nbytes)
    assert (cost.macs, cost.nbytes) == (2 * 3 * 4, 4 * (8 + 12 + 3 + 6))
    assert durations(trace)[row] == cost.cycles == 32 + 6 + 15


@settings(deadline=None, max_examples=examples(60))
@given(start=st.integers(0, 2**32 - 1) | st.integers(2**32 - 400, 2**32 - 1))
def test_the_counter_runs_on_across_wraps_of_both_clocks(etstub: ct.CDLL, start: int) -> None:
    job = Job()
    x, y = job.argument(4, 8), job.argument(4, 8)
    job.commands += [Command(Op.ADD, y, x, x, debug_id=i) for i in range(3)]
    recorder = Recorder(etstub, start=start, step=1)
    run_job(etstub, job, input_of(job), recorder=recorder)
    trace = recorder.trace()
    rows = npu_rows(trace)
    assert (durations(trace)[rows] == job.cost(job.commands[0]).cycles).all()
    assert (trace.start[rows[1:]] == trace.end[rows[:-1]]).all()
    assert (trace.end[rows] < 2**NPU_BITS).all()
    call = next(i for i in range(len(trace)) if trace.text(int(trace.name[i])) == "DELEGATE_CALL")
    cpu = (int(trace.end[call]) - int(trace.start[call])) % 2**32
    npu = (int(trace.end[rows[-1]]) - int(trace.start[rows[0]])) % 2**NPU_BITS
    assert npu <= cpu * 3 / 8 + 1, "the call ended before the NPU did"
    # The two counters keep their distance whatever they have wrapped.
    first = int(trace.start[call]) * 3 // 8 - 0x800
    assert 0 <= (int(trace.start[rows[0]]) - first) % 2**NPU_BITS <= 3


def test_a_run_sees_the_counter_wrap_within_a_command(etstub: ct.CDLL) -> None:
    job = job_of(Op.LINEAR, 1, 64, 128, seed=1)
    recorder = Recorder(etstub, start=0, step=1)
    run_job(etstub, job, input_of(job), recorder=recorder)
    trace = recorder.trace()
    (row,) = npu_rows(trace)
    assert trace.start[row] > trace.end[row]
    assert durations(trace)[row] == job.cost(job.commands[0]).cycles


def test_a_clock_that_stands_still_ends_the_wait(etstub: ct.CDLL) -> None:
    job = linear_job()
    with pytest.raises(RuntimeFailure, match="SimulatedNpu: the clock does not advance") as caught:
        run_job(etstub, job, input_of(job), recorder=Recorder(etstub, step=0))
    assert caught.value.status == "KERNEL_FAILED"


def patched(at: int, *values: int) -> Callable[[bytes], bytes]:
    """Replaces bytes of a job."""
    return lambda data: data[:at] + bytes(values) + data[at + len(values) :]


OPERAND = fmt.HEADER_SIZE
COMMAND = fmt.HEADER_SIZE + 4 * fmt.OPERAND_SIZE


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (lambda data: b"", "invalid magic or size"),
        (lambda data: data[:15], "invalid magic or size"),
        (patched(0, 0), "invalid magic or size"),
        (patched(4, 2), "unsupported format version"),
        (patched(5, 20), "unsupported format version"),
        (patched(8, 255, 255), "truncated job"),
        (lambda data: data[: COMMAND + 15], "outside its memory|truncated job"),
        (patched(OPERAND + 2, 2), "operand: argument out of range"),
        (patched(OPERAND, 3), "operand: unknown place"),
        (patched(OPERAND, 2), "operand: outside its memory"),
        (patched(OPERAND + fmt.OPERAND_SIZE + 8, 1), "operand: not aligned"),
        (patched(OPERAND + fmt.OPERAND_SIZE + 9, 255), "operand: outside its memory"),
        (patched(COMMAND, 9), "command: unknown op"),
        (patched(COMMAND, 0), "command: unknown op"),
        (patched(COMMAND, 2), "command: operand shapes do not match"),
        (patched(COMMAND + 1, 4), "command: unknown flag"),
        (patched(COMMAND + 2, 9), "command: operand shapes do not match"),
        (patched(COMMAND + 2, 255, 255), "command: operand shapes do not match"),
        (patched(COMMAND + 6, 2), "command: operand shapes do not match"),
        (patched(COMMAND + 1, 2, 3, 0, 0, 0, 1, 0, 2, 0, 0, 0, 255, 255), "unterminated name"),
    ],
)
def test_a_damaged_job_is_refused(
    etstub: ct.CDLL, damage: Callable[[bytes], bytes], problem: str
) -> None:
    job = linear_job()
    file = program_of(job, processed=damage(job.encode()))
    with pytest.raises(RuntimeFailure, match=f"SimulatedNpu: .*({problem})") as caught:
        load(etstub, file)
    assert caught.value.status == "BAD_PROGRAM"


def test_results_do_not_go_to_constants(etstub: ct.CDLL) -> None:
    job = Job()
    x = job.argument(1, 4)
    job.commands.append(Command(Op.RELU, job.constant(np.zeros((1, 4), np.float32)), x))
    with pytest.raises(RuntimeFailure, match="result is a constant"):
        load(etstub, program_of(job))


def test_a_job_is_shorter_than_a_wrap(etstub: ct.CDLL) -> None:
    job = Job()
    x, y = job.argument(60000, 60000), job.argument(60000, 60000)
    job.commands.append(Command(Op.RELU, y, x))
    with pytest.raises(RuntimeFailure, match="job exceeds one counter wrap"):
        load(etstub, program_of(job, arguments=[(1, 1), (1, 1)]))


@pytest.mark.parametrize("lanes", [b"", b"\1", bytes(4), struct.pack("<I", fmt.MAX_LANES + 1)])
def test_lanes_are_checked(etstub: ct.CDLL, lanes: bytes) -> None:
    with pytest.raises(RuntimeFailure, match="lanes out of range"):
        load(etstub, program_of(linear_job(), specs={"lanes": lanes}))


def test_lanes_make_commands_shorter(etstub: ct.CDLL) -> None:
    job, recorder = linear_job(), Recorder(etstub)
    file = program_of(job, specs={"other": b"", "lanes": struct.pack("<I", 24)})
    load(etstub, file, tracer=recorder.tracer).run(input_of(job))
    trace = recorder.trace()
    assert durations(trace)[npu_rows(trace)] == job.cost(job.commands[0], lanes=24).cycles


@pytest.mark.parametrize("shapes", [[(2, 4), (2, 2)], [(2, 3), (2, 3)], [(2, 4)], [(2, 4)] * 3])
def test_arguments_are_checked(etstub: ct.CDLL, shapes: list[tuple[int, int]]) -> None:
    loaded = load(etstub, program_of(linear_job(), arguments=shapes))
    with pytest.raises(RuntimeFailure, match=r"SimulatedNpu: .*argument") as caught:
        loaded.execute()
    assert caught.value.status == "KERNEL_FAILED"


def test_only_contiguous_float_arguments_in_memory_will_do(etstub: ct.CDLL) -> None:
    job = Job()
    job.commands.append(Command(Op.RELU, job.argument(2, 4), job.argument(2, 4)))
    for make in (
        lambda p: p.tensor((2, 4), np.int32, memory=(1, 0)),
        lambda p: p.tensor((2, 4), memory=(1, 0), dim_order=(1, 0)),
        lambda p: p.tensor((2, 4)),
        lambda p: p.value("null"),
        lambda p: p.constant(np.zeros((2, 4), np.float32)),
    ):
        program = ProgramBuilder([0, 64])
        out, x = make(program), program.tensor((2, 4), memory=(1, 32))
        program.delegate("SimulatedNpu", out, x, processed=job.encode())
        loaded = load(etstub, program.finish())
        with pytest.raises(RuntimeFailure, match=r"argument|constant"):
            loaded.execute()
