"""The libFuzzer programs: run from a fixed seed within a time box, and again on what they found."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from random import Random

from harness.target.build import build_directory, build_preset
from tests.conftest import ROOT

SEED = 20261121
RUNS, FEWEST = 20_000, 500
SECONDS = 10
LONGEST = 200_000
"""Bytes of an input."""

CALLS, ALLOCATOR, ALLOCATIONS, RECYCLE, VALUE = 19, 7, (8, 9), 11, 12
"""Of fuzz_tracer.c: how many kinds of calls there are, and the numbers of some."""

SOURCE = ROOT / "firmware_stub"
FUZZERS = sorted(path.stem for path in (SOURCE / "fuzz").glob("*.c"))


def fuzz(name: str, corpus: Path) -> int:
    """Fuzz until an input fails, RUNS inputs have passed, or the time is over.

    Inputs that reach new code are added to ``corpus``, one that fails is kept beside it. Returns
    how many passed: FEWEST, however slow the host is, and more.
    """
    seed, box = f"-seed={SEED}", f"-max_total_time={SECONDS}"
    return _run(name, corpus, seed, f"-runs={FEWEST}") + _run(
        name, corpus, seed, f"-runs={RUNS}", box
    )


def replay(name: str, corpus: Path, **environment: str) -> int:
    """Take each input in ``corpus`` once; returns how many passed."""
    return _run(name, corpus, "-runs=0", **environment)


def fuzz_traces(folder: Path) -> None:
    """Save logs of different kinds that a fuzzer finds, and the ED00 files made of them."""
    corpus, saved = folder / "corpus", folder / "saved"
    random = Random(SEED)
    corpus.mkdir()
    for number in range(200):
        (corpus / f"sensible_{number}").write_bytes(_sensible(random))
    fuzz("fuzz_tracer", corpus)
    saved.mkdir()
    replay("fuzz_tracer", corpus, ETHARNESS_FUZZ_SAVE=str(saved))


def saved_traces(folder: Path) -> list[tuple[bytes, bytes]]:
    """Return the logs that ``fuzz_traces`` saved, and the ED00 files the tracer makes of them."""
    logs = sorted((folder / "saved").glob("*.etlog"))
    return [(path.read_bytes(), path.with_suffix(".etdp").read_bytes()) for path in logs]


def _sensible(random: Random) -> bytes:
    """An input of fuzz_tracer whose log the host can read: one chunk, and no allocator but one."""
    calls = [bytes((ALLOCATOR, *bytes(7)))]
    for _ in range(random.randrange(60)):
        call = bytearray(random.randbytes(8))
        call[0] = random.choice([kind for kind in range(CALLS) if kind != RECYCLE])
        if call[0] in ALLOCATIONS:
            call[6] = 1
        if call[0] == VALUE:
            call[3] %= 8  # scalar types that ExecuTorch has
        calls.append(bytes(call))
    counters = random.choice((0, random.randrange(256)))  # most selections count, some are too many
    return random.randrange(2049).to_bytes(2, "little") + bytes((counters,)) + b"".join(calls)


def _run(name: str, corpus: Path, *options: str, **environment: str) -> int:
    directory = build_directory(SOURCE, "fuzz")
    build_preset(SOURCE, "fuzz", directory, {})
    always = [f"-max_len={LONGEST}", "-print_final_stats=1", f"-artifact_prefix={corpus.parent}/"]
    # A program inherits the peak memory of the process it replaces, and libFuzzer takes it for its
    # own. A test worker's may be gigabytes; that of a shell that waits for the fuzzer is small.
    done = subprocess.run(
        ["sh", "-c", '"$@"; exit $?', "fuzz", directory / name, *always, *options, corpus],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, f"{options}, input kept in {corpus.parent}:\n{done.stderr}"
    return int(done.stderr.split("stat::number_of_executed_units:")[1].split()[0])
