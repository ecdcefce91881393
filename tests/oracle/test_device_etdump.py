"""ExecuTorch's own deserialiser and Inspector read the ED00 file that a device writes itself."""

from __future__ import annotations

import ctypes as ct
from pathlib import Path

import pytest

pytest.importorskip("executorch.devtools", reason="needs torch and executorch")

from executorch.devtools import Inspector
from executorch.devtools.etdump.serialize import deserialize_from_etdump_flatcc

from harness.etdump.compact import read_log
from harness.etdump.ed00 import read_ed00
from tests.firmware.test_etdump_c import device_file, logged
from tests.oracle.test_inspector import official

pytestmark = pytest.mark.oracle

CALLS: list[tuple] = [
    ("start", b"early", -1, 0),
    ("end", 0),
    ("allocator", b"method"),
    ("allocator", None),
    ("bundled", 3),
    ("block", b"Default"),
    ("allocation", 1, 4096, 64),
    ("free", 1, 96, 64),
    ("failure", 2, 5),
    ("block", b"Execute"),
    ("chain", 0, 70_000),
    ("start_delegate", b"conv", -1),
    ("end_delegate", 0, b"metadata"),
    ("log_delegate", None, 7, 1, 10, 20, b""),
    ("chain", -1, 0),
    ("start", b"OPERATOR_CALL", 0, 2),
    ("start", None, 0, 2),
    ("end", 0),
    ("end", 0),
    ("block", None),
]


@pytest.mark.parametrize("keep", [True, False])
def test_the_official_reader_agrees(etstub: ct.CDLL, keep: bool) -> None:
    tracer = logged(etstub, 4096, CALLS)
    data = device_file(tracer, allocations=keep)
    assert data is not None
    dump = deserialize_from_etdump_flatcc(data)
    assert dump.version == 0
    assert dump.run_data == official(read_ed00(data))
    events = sum(len(run.events or []) for run in dump.run_data)
    log = read_log(tracer.image())
    assert events == len(log) - (int(log.failed.sum()) if keep else 3)


def test_the_inspector_opens_it(etstub: ct.CDLL, tmp_path: Path) -> None:
    data = device_file(logged(etstub, 4096, CALLS), allocations=False)
    assert data is not None
    path = tmp_path / "device.etdp"
    path.write_bytes(data)
    names = {
        event.name
        for block in Inspector(etdump_path=str(path)).event_blocks
        for event in block.events
    }
    assert {"early", "OPERATOR_CALL", "conv", "7"} <= names
