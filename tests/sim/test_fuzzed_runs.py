"""Damaged run directories and ED00 files: an error or a verdict, never a traceback or a hang.

``ETHARNESS_FUZZ_CASES=100000`` tries as many, ``ETHARNESS_FUZZ_CASES=4000-7999`` these; case n is
the same in every run of the tests. No damage makes a run pass whose undamaged original fails.
"""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any, Final

import numpy as np
import pytest

import harness
from harness import (
    FormatError,
    HarnessError,
    ReadOptions,
    TensorValue,
    Verdict,
    evaluate_path,
    read_dumps,
    read_ed00,
    render_report,
    tensor_array,
    write_ed00,
)
from harness.runs.directory import RunDirectory
from tests.conftest import FIXTURES, MODELS
from tests.support.documents import digest_of

RESULT = "result.json"

# Damage to files as accidents and careless tools do it: bits, bytes, words, lengths, blocks.
_WORDS: Final = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)


def _flip(data: bytearray, random: Random) -> None:
    for _ in range(random.choice([1, 1, 1, 2, 8])):
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)


def _set_byte(data: bytearray, random: Random) -> None:
    data[random.randrange(len(data))] = random.choice([0, 1, 0x7F, 0x80, 0xFF])


def _set_word(data: bytearray, random: Random) -> None:
    at = random.randrange(len(data)) & ~3
    data[at : at + 4] = random.choice(_WORDS).to_bytes(4, "little")


def _change_word(data: bytearray, random: Random) -> None:
    at = random.randrange(len(data)) & ~3
    word = int.from_bytes(data[at : at + 4], "little") + random.choice([-16, -4, -1, 1, 4, 16])
    data[at : at + 4] = (word % 2**32).to_bytes(4, "little")


def _cut(data: bytearray, random: Random) -> None:
    del data[random.randrange(len(data)) :]


def _extend(data: bytearray, random: Random) -> None:
    data += random.choice([b"\0", b"\xff", b"\x1a", random.randbytes(1)]) * random.randrange(1, 99)


def _remove(data: bytearray, random: Random) -> None:
    at = random.randrange(len(data))
    del data[at : at + random.choice([1, 2, 4, 16, 64])]


def _insert(data: bytearray, random: Random) -> None:
    at = random.randrange(len(data))
    data[at:at] = random.randbytes(random.choice([1, 2, 4, 16, 64]))


def _repeat(data: bytearray, random: Random) -> None:
    at, size = random.randrange(len(data)), random.choice([1, 4, 16, 64, 256])
    data[at:at] = data[at : at + size]


def _exchange(data: bytearray, random: Random) -> None:
    size = random.choice([4, 16, 32])
    one, other = (random.randrange(len(data)) // size * size for _ in range(2))
    first, second = data[one : one + size], data[other : other + size]
    if len(first) == len(second):
        data[one : one + size], data[other : other + size] = second, first


def _blank(data: bytearray, random: Random) -> None:
    at, size = random.randrange(len(data)), random.choice([4, 16, 64, 512])
    data[at : at + size] = bytes([random.choice([0, 0xFF])]) * len(data[at : at + size])


_ACCIDENTS: Final[tuple[Callable[[bytearray, Random], None], ...]] = (
    *(_flip, _set_byte, _set_word, _change_word, _cut, _extend),
    *(_remove, _insert, _repeat, _exchange, _blank),
)


def damage(data: bytes, random: Random) -> bytes:
    """Return the data with one accident, sometimes two."""
    damaged = bytearray(data)
    for _ in range(random.choice([1, 1, 1, 2])):
        if damaged:
            random.choice(_ACCIDENTS)(damaged, random)
    return bytes(damaged)


FIRST, _, LAST = os.environ.get("ETHARNESS_FUZZ_CASES", "400").rpartition("-")
CASES: Final = range(int(FIRST), int(LAST) + 1) if FIRST else range(int(LAST))
SEED: Final = 14

pytestmark = [
    pytest.mark.sim,
    pytest.mark.uncounted,
    pytest.mark.timeout(900 + len(CASES) // 4),
]

VALUES: Final[tuple[Any, ...]] = (
    *(0, -1, 1, 7, 2**31, 2**63 - 1, 2**64, 1e308, -0.5, "", "x", "\udcff"),
    *(None, True, [], {}, [1], "../x", "NaN"),
)
"""What stands for any value of a result."""


BUDGET: Final = """
schema = 1

[[time]]
event = "*"
limit_ticks = 0

[[allocator]]
name = "*"
limit_bytes = 0
"""
"""Every operator and every allocator exceeds it, so no accident makes a run keep to it."""


@dataclass(frozen=True)
class Dump:
    """An ED00 file, and whether it passes by a budget.

    Attributes:
        data: Its bytes.
        budget: The budget; None for invariants only.
        passes: Its verdict while it is sound.
    """

    data: bytes
    budget: Path | None
    passes: bool


@dataclass(frozen=True)
class Originals:
    """Runs by what they are about, ED00 files, and a folder for damaged ones."""

    runs: dict[str, Path]
    dumps: list[Dump]
    folder: Path


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Originals:
    home = tmp_path_factory.mktemp("originals")
    budget = home / "budget.toml"
    budget.write_text(BUDGET)
    reference = home / "reference.npy"
    runs = {}
    for name, more in (
        ("sound", {}),
        ("wrong outputs", {"references": (reference,)}),
        ("over budget", {"budget": budget}),
        ("dropped events", {"trace_limit": 1024}),
    ):
        folder = runs[name] = home / name
        assert harness.run(
            MODELS / "npu_int.pte",
            board="native",
            runs=3,
            output=folder,
            values="intermediate",
            **more,
        ).result.exit_code == (0 if name == "sound" else 1)
        if name == "sound":
            np.save(reference, np.load(folder / "outputs/0.npy") + 1)
    executorch = (FIXTURES / "kws_f32_executorch.etdp").read_bytes()
    written = (runs["sound"] / "trace.etdp").read_bytes()
    dumps = [Dump(written, None, True), Dump(executorch, None, True)]
    dumps += [Dump(written, budget, False), Dump(executorch, budget, False)]
    dumps.append(Dump(overlapping(executorch), None, False))
    return Originals(runs, dumps, home)


def overlapping(data: bytes) -> bytes:
    """The ED00 file with every operator call ending after its execution."""
    trace = read_ed00(data)
    calls = trace.name == trace.names.index("OPERATOR_CALL")
    end = np.where(calls, trace.end + int(trace.end.max() - trace.start.min()), trace.end)
    return write_ed00(replace(trace, end=end))


@dataclass(frozen=True)
class Scratch:
    """A copy of a run in which one file is damaged at a time.

    Attributes:
        run: The copy.
        files: What its files hold while they are sound.
        checks: What the sound run is found to be.
        passes: Whether that passes.
    """

    run: Path
    files: dict[str, bytes]
    checks: tuple[Any, ...]
    passes: bool

    def verdict(self) -> Verdict:
        run = evaluate_path(self.run)
        assert render_report("report.json", [run])
        return run.verdict

    def restore(self) -> None:
        for name, data in self.files.items():
            (self.run / name).write_bytes(data)


@pytest.fixture(scope="module")
def scratches(originals: Originals, tmp_path_factory: pytest.TempPathFactory) -> list[Scratch]:
    found = []
    for name, run in originals.runs.items():
        copy = Path(shutil.copytree(run, tmp_path_factory.mktemp("scratch") / "run"))
        files = {file: (copy / file).read_bytes() for file in RunDirectory(copy).files()}
        verdict = evaluate_path(copy).verdict
        assert verdict.passed == (name == "sound")
        found.append(Scratch(copy, files, verdict.checks, verdict.passed))
    for dump in originals.dumps:
        assert dump_verdict(originals, dump.data, dump.budget, salvage=False).passed == dump.passes
    return found


def damaged_result(data: bytes, random: Random) -> bytes:
    """A result in which some value is another one, with the digest of that."""
    document = json.loads(data)
    shallow = random.random() < 0.5  # a few values on which everything depends
    place, key = random.choice(list(_places(document, 2 if shallow else 99)))
    place[key] = random.choice(VALUES)
    document.pop("digest", None)
    document["digest"] = digest_of(document)
    return json.dumps(document).encode()


def _places(value: Any, depth: int) -> Iterator[tuple[Any, Any]]:
    """Every place in a document at which a value stands, down to a depth."""
    keys: Any = ()
    if isinstance(value, dict):
        keys = value
    elif isinstance(value, list):
        keys = range(len(value))
    for key in keys:
        yield value, key
        if depth > 1:
            yield from _places(value[key], depth - 1)


def record_anew(scratch: Scratch, name: str) -> None:
    """Make the result record the files as they are now."""
    directory = RunDirectory(scratch.run)
    document = json.loads(scratch.files[RESULT])
    result = directory.read_result()
    directory.finish(result)
    if name == "trace.etlog":
        document = json.loads((scratch.run / RESULT).read_text())
        record = document["files"][name]
        document["trace"].update(log_bytes=record["nbytes"], sha256=record["sha256"])
        document["digest"] = digest_of(document)
        (scratch.run / RESULT).write_text(json.dumps(document))


def damage_a_file(scratch: Scratch, random: Random) -> str:
    """Of a run directory: nothing comes of it but the same verdict."""
    name = random.choice(list(scratch.files))
    (scratch.run / name).write_bytes(damage(scratch.files[name], random))
    verdict = scratch.verdict()
    assert verdict.checks == scratch.checks
    return "the same verdict"


def damage_a_recorded_file(scratch: Scratch, random: Random) -> str:
    """As if the run had left it like that: no pass, unless the sound run passes."""
    names = [name for name in scratch.files if name not in (RESULT, "console.log")]
    name = random.choice([*names, "trace.etlog", "trace.etlog"])
    (scratch.run / name).write_bytes(damage(scratch.files[name], random))
    record_anew(scratch, name)
    return outcome_of(scratch.verdict(), original_passes=scratch.passes)


def damage_a_result(scratch: Scratch, random: Random) -> str:
    """A result that says something else, and knows it."""
    (scratch.run / RESULT).write_bytes(damaged_result(scratch.files[RESULT], random))
    return outcome_of(scratch.verdict(), original_passes=scratch.passes)


def damage_a_dump(originals: Originals, random: Random) -> str:
    """An ED00 file: every value in it is read, too, and what is left of a damaged file."""
    dump = random.choice(originals.dumps)
    damaged = damage(dump.data, random)
    salvage = random.random() < 0.5
    for found in read_dumps(damaged, salvage=salvage).dumps:
        for value in found.trace.debug_values[:50]:
            tensors = value.value if isinstance(value.value, tuple) else (value.value,)
            for tensor in tensors:
                _read(tensor, bytes(4096))
    verdict = dump_verdict(originals, damaged, dump.budget, salvage=salvage)
    return outcome_of(verdict, original_passes=dump.passes)


def dump_verdict(
    originals: Originals, data: bytes, budget: Path | None, *, salvage: bool
) -> Verdict:
    """The verdict of ``etharness check`` for an ED00 file outside a run directory."""
    file = originals.folder / "damaged.etdp"
    file.write_bytes(data)
    return evaluate_path(file, budget, ReadOptions(salvage=salvage)).verdict


def outcome_of(verdict: Verdict, *, original_passes: bool) -> str:
    """The outcome for the statistics; damage never makes a failing original pass."""
    assert original_passes or not verdict.passed, "passes, though the undamaged original fails"
    return "passed" if verdict.passed else "failed"


def _read(tensor: object, buffer: bytes) -> None:
    if isinstance(tensor, TensorValue):
        try:
            assert tensor_array(tensor, buffer).nbytes <= 4 * len(buffer)
        except FormatError:
            return


@pytest.mark.long
def test_damage_is_an_error_or_a_verdict(originals: Originals, scratches: list[Scratch]) -> None:
    tried: Counter[tuple[str, str]] = Counter()
    kinds: list[Callable[[Scratch, Random], str]]
    kinds = [damage_a_file, damage_a_recorded_file, damage_a_result]
    for number in CASES:
        random = Random(f"{SEED} {number}")
        chosen = random.choice([*kinds, None, None])
        scratch = random.choice(scratches)
        try:
            if chosen is None:
                outcome = damage_a_dump(originals, random)
            else:
                outcome = chosen(scratch, random)
        except HarnessError as error:
            outcome = type(error).__name__
        except Exception as error:
            error.add_note(f"case {number} of seed {SEED}")
            raise
        finally:
            scratch.restore()
        tried[getattr(chosen, "__name__", "damage_a_dump"), outcome] += 1
    for (kind, outcome), count in sorted(tried.items()):
        print(f"{count:8,} {kind}: {outcome}")
    assert sum(tried.values()) == len(CASES)
    assert tried["damage_a_dump", "FormatError"]
    assert tried["damage_a_file", "DamagedError"]
