"""ExecuTorch's own deserialiser reads every ED00 file of a fuzzed tracer, as we read it."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest

pytest.importorskip("executorch.devtools", reason="needs torch and executorch")

from executorch.devtools.etdump.serialize import deserialize_from_etdump_flatcc

from harness import TensorValue, Trace, read_ed00
from tests.oracle.test_inspector import official
from tests.support.fuzzing import fuzz_traces, saved_traces

pytestmark = pytest.mark.oracle

NAMED_TYPES = range(8)
"""Scalar types whose names ExecuTorch's schema gives to that JSON."""


def held_values(trace: Trace) -> Iterator[object]:
    for value in trace.debug_values:
        yield from value.value if isinstance(value.value, tuple) else [value.value]


def is_readable(value: object) -> bool:
    """Whether a value survives the JSON that ExecuTorch makes of the file."""
    if isinstance(value, TensorValue):
        return value.scalar_type in NAMED_TYPES
    return not isinstance(value, float) or math.isfinite(value)


def test_the_official_reader_agrees(tmp_path_factory: pytest.TempPathFactory) -> None:
    compared = 0
    folder = tmp_path_factory.mktemp("fuzzed")
    fuzz_traces(folder)
    for _, data in saved_traces(folder):
        trace = read_ed00(data)
        if all(map(is_readable, held_values(trace))):
            dump = deserialize_from_etdump_flatcc(data)
            assert dump.run_data == official(trace)
            compared += 1
    assert compared > 200
