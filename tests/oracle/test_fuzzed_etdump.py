"""ExecuTorch's own deserialiser reads every ED00 file of a fuzzed tracer, as we read it."""

from __future__ import annotations

import pytest

pytest.importorskip("executorch.devtools", reason="needs torch and executorch")

from executorch.devtools.etdump.serialize import deserialize_from_etdump_flatcc

from harness.etdump.ed00 import read_ed00
from tests.oracle.test_inspector import official
from tests.support.fuzzing import fuzzed_traces

pytestmark = [pytest.mark.oracle, pytest.mark.timeout(300)]


def test_the_official_reader_agrees(tmp_path_factory: pytest.TempPathFactory) -> None:
    traces = fuzzed_traces(tmp_path_factory.mktemp("fuzzed"))
    assert len(traces) > 200
    for _, data in traces:
        dump = deserialize_from_etdump_flatcc(data)
        assert dump.run_data == official(read_ed00(data))
