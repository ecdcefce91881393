"""Temporary memory: what delegates of a method take while they execute."""

from __future__ import annotations

import ctypes as ct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware_stub.models.npu.command_format import Op
from firmware_stub.models.npu.job import Command, Job
from harness import Kind, Trace
from tests.support.examples import examples
from tests.support.mirrors import mirrors
from tests.support.npu import Recorder, program_of
from tests.support.programs import ProgramBuilder
from tests.support.runtime import ALIGNMENT, Loaded, RuntimeFailure, load

COLUMNS = 10  # 40 bytes: no multiple of the alignment


def job_of(pieces: int) -> Job:
    """Results go through ``pieces`` pieces of local memory before they reach the output."""
    job = Job()
    x, y = job.argument(1, COLUMNS), job.argument(1, COLUMNS)
    for place in [*(job.scratch(1, COLUMNS) for _ in range(pieces)), y]:
        job.commands.append(Command(Op.ADD, place, x, x))
        x = place
    return job


def chained(*jobs: Job) -> bytes:
    """A .pte file whose method hands its input through one delegate after the other."""
    program = ProgramBuilder([0, 64 * (len(jobs) + 1)])
    tensors = [
        program.tensor((1, COLUMNS), memory=(1, 64 * place)) for place in range(len(jobs) + 1)
    ]
    for job, x, y in zip(jobs, tensors, tensors[1:], strict=False):
        program.delegate("SimulatedNpu", x, y, processed=job.encode())
    return program.finish(tensors[:1], tensors[-1:])


def temporary_rows(trace: Trace) -> list[tuple[int, bool]]:
    """Signed sizes, and whether they were refused."""
    number = trace.blocks[0].allocators.index("temporary") + 1
    rows = np.flatnonzero((trace.kind == Kind.ALLOCATION) & (trace.allocator == number))
    return [(int(trace.size[row]), bool(trace.failed[row])) for row in rows]


def test_delegates_use_the_same_memory_in_turns(etstub: ct.CDLL) -> None:
    recorder = Recorder(etstub)
    loaded = load(etstub, chained(job_of(1), job_of(3), job_of(0)), tracer=recorder.tracer)
    value = np.arange(COLUMNS, dtype=np.float32)
    np.testing.assert_array_equal(loaded.run(value), value * 2**7)
    trace = recorder.trace()
    assert temporary_rows(trace) == [(size, False) for size in (40, -40, 120, -120)]
    without = load(etstub, chained(job_of(0), job_of(0), job_of(0)))
    assert loaded.needed - without.needed == 128


def test_a_method_without_a_wish_has_no_such_allocator(etstub: ct.CDLL) -> None:
    recorder = Recorder(etstub)
    load(etstub, chained(job_of(0)), tracer=recorder.tracer)
    assert recorder.trace().blocks[0].allocators == ("method", "planned_1")


def test_an_arena_that_lacks_it_is_refused_with_the_size_it_needs(etstub: ct.CDLL) -> None:
    file = program_of(job_of(3))
    needed = load(etstub, file).needed
    load(etstub, file, arena_size=needed)
    recorder = Recorder(etstub)
    with pytest.raises(RuntimeFailure, match="arena: too small for the delegates' temp") as caught:
        load(etstub, file, arena_size=needed - 1, tracer=recorder.tracer)
    assert (caught.value.status, caught.value.detail) == ("OUT_OF_MEMORY", needed)
    assert temporary_rows(recorder.trace()) == [(128, True)]


@mirrors("etd_delegate.h", "etd_delegate_run")
class Run(ct.Structure):
    _fields_ = [("tracer", ct.c_void_p), ("temporary", ct.c_void_p)]


def take(loaded: Loaded, run: Run, size: int) -> int | None:
    function = loaded.library.etd_delegate_take_temporary
    function.restype = ct.c_void_p
    found = function(ct.byref(run), ct.c_uint32(size))
    return None if found is None else int(found)


@settings(deadline=None, max_examples=examples(60))
@given(sizes=st.lists(st.integers(1, 90) | st.integers(2**32 - 40, 2**32 - 1), max_size=12))
def test_pieces_are_aligned_and_apart_until_there_is_no_more(
    etstub: ct.CDLL, sizes: list[int]
) -> None:
    recorder = Recorder(etstub)
    loaded = load(etstub, chained(job_of(5)), tracer=recorder.tracer)
    run = Run(None, loaded.method.temporary)
    end = loaded.arena.address + loaded.needed
    place, expected = end - 208, []
    for size in sizes:
        piece = take(loaded, run, size)
        fits = place + size <= end
        assert piece == (place if fits else None)
        expected.append((min(size, 2**31 - 1), not fits))
        place += -(-size // ALIGNMENT) * ALIGNMENT
    assert temporary_rows(recorder.trace()) == expected


def test_a_backend_that_takes_more_than_it_reserved_fails_and_the_next_run_does_not(
    etstub: ct.CDLL,
) -> None:
    recorder = Recorder(etstub)
    loaded = load(etstub, chained(job_of(3)), tracer=recorder.tracer)
    assert take(loaded, Run(None, loaded.method.temporary), 16) is not None
    with pytest.raises(RuntimeFailure, match="SimulatedNpu: out of temporary memory") as caught:
        loaded.execute()
    assert caught.value.status == "KERNEL_FAILED"
    loaded.execute()
    expected = [(16, False), (120, True), (-16, False), (120, False), (-120, False)]
    assert temporary_rows(recorder.trace()) == expected
