"""Benchmarks are written as Google's library writes them."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

pytest.importorskip("google_benchmark", reason="needs the tools that read exports")

from harness import export_trace, read_ed00
from tests.conftest import FIXTURES

pytestmark = pytest.mark.tools

PROGRAM = """
import google_benchmark

@google_benchmark.register
@google_benchmark.option.repetitions(2)
def nothing(state):
    while state:
        pass

google_benchmark.main()
"""


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return what the library writes of a benchmark with two repetitions."""
    program = tmp_path_factory.mktemp("google") / "nothing.py"
    program.write_text(PROGRAM)
    command = [sys.executable, program, "--benchmark_format=json", "--benchmark_min_time=1x"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def ours() -> dict[str, Any]:
    trace = read_ed00((FIXTURES / "kws_f32_executorch.etdp").read_bytes())
    found: dict[str, Any] = json.loads(export_trace(trace, "google-benchmark").data)
    return found


def shape(entry: dict[str, Any]) -> dict[str, type]:
    return {name: type(value) for name, value in entry.items()}


def test_entries_have_the_fields_of_the_library(theirs: dict[str, Any]) -> None:
    expected = next(entry for entry in theirs["benchmarks"] if entry["run_type"] == "iteration")
    assert all(shape(entry) == shape(expected) for entry in ours()["benchmarks"])


def test_the_context_is_of_the_schema_of_the_library(theirs: dict[str, Any]) -> None:
    expected, context = shape(theirs["context"]), shape(ours()["context"])
    assert context.items() <= expected.items()
    assert ours()["context"]["json_schema_version"] == theirs["context"]["json_schema_version"]
