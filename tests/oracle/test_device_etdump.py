"""ExecuTorch's own deserialiser and Inspector read the ED00 file that a device writes itself."""

from __future__ import annotations

import ctypes as ct
import struct
from pathlib import Path

import pytest

pytest.importorskip("executorch.devtools", reason="needs torch and executorch")

from executorch.devtools import Inspector
from executorch.devtools.etdump.serialize import deserialize_from_etdump_flatcc

from harness import read_ed00, read_log, write_ed00
from tests.firmware.test_etdump_c import logged
from tests.oracle.test_inspector import official
from tests.support.device_file import device_file

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


TENSOR = (6, [2, 1], struct.pack("<2f", 1.5, -2))
VALUES: list[tuple] = [
    ("debug", 2),
    ("block", b"Execute"),
    ("chain", 0, 3),
    ("value", 0, TENSOR),
    ("value", 0, [TENSOR, (4, [0, 7], b"")]),
    ("delegate_value", b"conv", -1, (0, [3], b"abc")),
    ("delegate_value", None, 7, 2**40),
    ("value", 0, (6, [40], bytes(160))),  # there is no room for it
    ("value", 0, None),
    ("chain", -1, 0),
    *(("value", 1, value) for value in (TENSOR, -5, 0.5, False)),
]


def test_the_official_reader_agrees_about_values(etstub: ct.CDLL) -> None:
    tracer = logged(etstub, 4096, VALUES)
    data = device_file(tracer)
    assert data is not None
    assert deserialize_from_etdump_flatcc(data).run_data == official(read_ed00(data))
    assert read_ed00(data) == read_ed00(write_ed00(read_log(tracer.image())))
    assert len(read_ed00(data)) == len(VALUES) - 5  # all but what sets up, and what was lost


def test_the_inspector_shows_values_with_the_debug_buffer(etstub: ct.CDLL, tmp_path: Path) -> None:
    calls = [call for call in VALUES if call[-1] is not None]  # it has no reading of None
    tracer = logged(etstub, 4096, calls)
    (tmp_path / "device.etdp").write_bytes(device_file(tracer) or b"")
    (tmp_path / "debug.bin").write_bytes(tracer.debug_bytes())
    inspector = Inspector(
        etdump_path=str(tmp_path / "device.etdp"), debug_buffer_path=str(tmp_path / "debug.bin")
    )
    [block] = inspector.event_blocks
    tensor, *numbers = block.run_output
    assert tensor.tolist() == [[1.5], [-2]]
    assert numbers == [-5, 0.5, False]


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
