"""Several tasks and an interrupt, each with its own tracer, behind one link."""

from __future__ import annotations

import subprocess
from collections import defaultdict
from pathlib import Path

import harness
from harness import Kind, Trace, read_log
from harness.testing import CorruptFrame, Frame, FrameDecoder, Text
from tests.library.conftest import INCLUDE, WARNINGS, sh, sources

THREADS = Path(__file__).with_name("threads.c")
TASKS, EVENTS, INTERRUPTS = 4, 500, 20
PART = 0x70


def build(folder: Path, *options: str) -> Path:
    """Compile the program with everything that it shares between threads under watch."""
    files = [THREADS, *sources("tracer", "clock", "link")]
    command = ["gcc", "-std=c11", "-O1", "-g", *WARNINGS, f"-I{INCLUDE}", "-pthread"]
    sh(*command, "-fsanitize=thread", *options, *files, "-o", "threads", cwd=folder)
    return folder / "threads"


def logs(output: bytes) -> dict[int, bytes]:
    """The logs by number, from frames between lines of text."""
    parts: dict[int, bytes] = defaultdict(bytes)
    text = b""
    for item in FrameDecoder(128).feed(output):
        assert not isinstance(item, CorruptFrame)
        if isinstance(item, Frame):
            assert item.type == PART
            parts[item.sequence] += item.body
        elif isinstance(item, Text):
            text += item.data
    assert set(text.split(b"\n")) == {b"console text", b""}
    return parts


def names(trace: Trace) -> list[str | None]:
    return [trace.text(int(name)) for name in trace.name[trace.kind == Kind.PROFILE]]


def test_tasks_and_an_interrupt_trace_at_once(tmp_path: Path) -> None:
    done = subprocess.run([build(tmp_path)], capture_output=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stderr == b""  # the sanitizer found no race
    images = logs(done.stdout)
    assert sorted(images) == [*range(TASKS), TASKS]
    for number in range(TASKS):
        trace = read_log(images[number])
        assert names(trace) == ["odd" if number % 2 else "even"] * EVENTS
        assert not trace.losses.any
    assert names(read_log(images[TASKS])) == ["interrupt"] * INTERRUPTS


def test_the_host_reads_them_as_one_trace(tmp_path: Path) -> None:
    done = subprocess.run([build(tmp_path)], capture_output=True, check=True, timeout=600)
    images = logs(done.stdout)
    trace = read_log(b"".join(images[number] for number in sorted(images)))
    profiled = trace.tracer[trace.kind == Kind.PROFILE].tolist()
    assert [profiled.count(number) for number in range(TASKS)] == [EVENTS] * TASKS
    assert profiled.count(TASKS) == INTERRUPTS
    # All read one counter, and the verdict knows when each of them did.
    path = tmp_path / "all.etlog"
    path.write_bytes(b"".join(images[number] for number in sorted(images)))
    verdict = harness.load(path, clock_hz=10**9).verdict
    assert [check.passed for check in verdict.checks if check.code == "I30"] == [True]


def test_a_shared_tracer_is_a_race(tmp_path: Path) -> None:
    program = build(tmp_path, "-DSHARE_ONE_TRACER")
    done = subprocess.run([program], capture_output=True, check=False, timeout=600)
    assert b"data race" in done.stderr
