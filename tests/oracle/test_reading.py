"""Dumps of ExecuTorch's own ETDumpGen, and damaged ones, beside ExecuTorch's own reader."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

pytest.importorskip("executorch.devtools", reason="needs torch and executorch")

import flatbuffers
from executorch.devtools.etdump.serialize import deserialize_from_etdump_flatcc

from harness import FormatError, FoundDumps, read_dumps
from tests.oracle.test_inspector import official
from tests.property.test_dumps import accidents
from tests.property.test_etdump_roundtrip import attempt
from tests.support.executorch import Build
from tests.unit.test_etdump_ed00 import RECORDED

pytestmark = pytest.mark.oracle

DUMPS = 4
EVERY = 12
"""Of the accidents: ExecuTorch starts a process for each."""


def test_every_dump_of_a_static_etdumpgen_is_read(tmp_path: Path) -> None:
    """It does not begin anew when it is reset: older dumps stay behind the announced size."""
    build = Build(tmp_path)
    source = Path(__file__).parent / "reset_dumps.cpp"
    program = build.link([build.compile(source)], "executorch_etdump")
    folder = tmp_path / "dumps"
    folder.mkdir()
    subprocess.run([program, str(DUMPS), folder], check=True)
    for newest in range(DUMPS):
        found = read_dumps((folder / str(newest)).read_bytes())
        names = [[dump.trace.text(i) for i in dump.trace.name.tolist()] for dump in found.dumps]
        assert names == [[f"dump {n}"] * (n + 1) for n in range(newest, -1, -1)]
        # Its own reader sees the newest.
        [run] = deserialize_from_etdump_flatcc((folder / str(newest)).read_bytes()).run_data
        assert [event.profile_event.name for event in run.events] == names[0]


def test_what_both_readers_make_of_a_damaged_dump_is_the_same() -> None:
    agreed = only_ours_refused = 0
    for accident, data in list(accidents())[::EVERY]:
        ours = attempt(read_dumps, data)
        try:
            theirs = deserialize_from_etdump_flatcc(data).run_data
        except Exception:  # whatever it is, it has not read the file
            continue
        if isinstance(ours, FoundDumps):
            assert official(ours.dumps[0].trace) == theirs, accident
            agreed += 1
        else:
            assert isinstance(ours, FormatError)
            only_ours_refused += 1
    assert agreed > 5


def test_a_truncated_file_crashes_the_converter() -> None:
    cut = RECORDED.read_bytes()[:-1000]
    with pytest.raises(Exception) as caught:  # noqa: PT011 - flatc dies by a signal, or says little
        deserialize_from_etdump_flatcc(cut)
    assert not isinstance(caught.value, FormatError)
    with pytest.raises(
        FormatError, match="file is truncated: 14096 bytes announced, 13096 present"
    ):
        read_dumps(cut)
    assert read_dumps(cut, salvage=True).damage


def test_what_stands_behind_a_dump_and_its_version_are_ignored() -> None:
    data = RECORDED.read_bytes()
    runs = deserialize_from_etdump_flatcc(data).run_data
    assert deserialize_from_etdump_flatcc(data + b"rubbish").run_data == runs
    with pytest.raises(FormatError, match="7 bytes after the announced size are not a dump"):
        read_dumps(data + b"rubbish")

    builder = flatbuffers.Builder(0)
    builder.StartVector(4, 0, 4)
    nothing = builder.EndVector()
    builder.StartObject(2)
    builder.PrependUint32Slot(0, 99, 0)
    builder.PrependUOffsetTRelativeSlot(1, nothing, 0)
    builder.FinishSizePrefixed(builder.EndObject(), b"ED00")
    later = bytes(builder.Output())
    assert deserialize_from_etdump_flatcc(later).version == 99
    with pytest.raises(FormatError, match="unsupported ETDump version 99"):
        read_dumps(later)


def test_a_dump_without_a_size_prefix_is_refused_there() -> None:
    data = RECORDED.read_bytes()
    with pytest.raises(subprocess.CalledProcessError):
        deserialize_from_etdump_flatcc(data[4:])
    assert read_dumps(data[4:]).dumps[0].trace == read_dumps(data).dumps[0].trace
