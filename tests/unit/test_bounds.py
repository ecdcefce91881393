"""Everything that grows stops at its bound, before memory or disk is full; docs/bounds.md."""

from __future__ import annotations

import os
import re
import resource
import socket
import threading
import time
import tracemalloc
import zipfile
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock

from harness import (
    Attempt,
    FormatError,
    HarnessError,
    HostError,
    MeterRequest,
    NightlyStep,
    PortError,
    ProbeError,
    Region,
    TargetError,
    UsageError,
    files,
    open_port,
    read_etrecord,
    read_image,
)
from harness.extensions.bundles.bundle import open_bundle, pack
from harness.extensions.energy import recording, run
from harness.extensions.energy.meters import open_meter
from harness.extensions.energy.recording import RecordingHeader, SampleBlock, read_recording
from harness.extensions.energy.run import MeterRecorder
from harness.extensions.lab.nightly import commands, journal
from harness.extensions.lab.nightly.commands import allow_open_files
from harness.extensions.lab.nightly.journal import (
    Ended,
    Finished,
    Journal,
    JournalError,
    Progress,
    Started,
    read_journal,
    unstored_nights,
)
from harness.extensions.lab.nightly.night import prepare
from harness.extensions.probes.debug_probe import open_probe
from harness.inspector import etrecord
from harness.link import transfers
from harness.link.transfers import LogChunks
from harness.target import build
from harness.target.build import alone_in, building_in
from harness.testing import messages
from tests.conftest import CommandResult
from tests.support.fake_gdbserver import FakeGdbserver
from tests.support.nights import PLAN, written_plan
from tests.unit.test_link_transfers import MODEL, slow_line

MANIFEST = "manifest.json"
MOST_LINE = 64 << 10
MOST_UNITS = 256
MOST_LOG = 1 << 30

Etharness = Callable[..., CommandResult]

STEP_BYTES = 512
"""What a night keeps in memory of a step that was attempted."""
PAGE = Path(__file__).parents[2] / "docs/bounds.md"
ROW = re.compile(
    r"^\| [^|]+ \| `([a-z0-9_.]+)\.(\w+)` \| ([\d,.]+)( \w+)? \| [^|]+ \| (.+) \|$", re.M
)
UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "bytes": 1, "s": 1, "": 1}
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")

HUGE = 1 << 36
"""Size of a file that needs no space on the disk: its bytes were never written."""


def huge(path: Path, beginning: bytes = b"") -> Path:
    with path.open("wb") as file:
        file.write(beginning)
        file.truncate(HUGE)
    return path


def test_each_bound_of_the_page_is_that_of_the_code_and_has_a_test() -> None:
    rows = ROW.findall(PAGE.read_text())
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    assert len(rows) == sum(not line.startswith("| what grows") for line in lines)
    for module, name, number, unit, tests in rows:
        value = float(number.replace(",", "")) * UNITS[unit.strip()]
        assert getattr(import_module(f"harness.{module}"), name) == value, (module, name)
        named = TEST.findall(tests)
        assert named, (module, name)
        for file, function in named:
            assert f"def {function}(" in (PAGE.parents[1] / file).read_text(), function


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("run", "--board", "native", "-o", "out", "--model", "big.pte"), "big.pte is too large"),
        (("run", "--board", "native", "-o", "out", "--model", "kws_int8", "--reference", "big.npy"),
         "big.npy is too large"),
        (("inspect", "big.pte"), "big.pte is too large"),
        (("decode", "big.etdp"), "big.etdp is too large: 68,719,476,736 bytes, the limit is"),
        (("check", "big.etdp"), "big.etdp is too large"),
        (("compare", "big.etdp", "big.etdp"), "big.etdp is too large"),
        (("export", "big.etdp", "-f", "csv", "-o", "trace.csv"), "big.etdp is too large"),
        (("decode", "run"), "run/result.json is too large"),
        (("report", "run", "-o", "report.html"), "run/result.json is too large"),
        (("replay", "big.zip"), "big.zip is too large"),
        (("postmortem", "big.etpm"), "big.etpm is too large"),
        (("nightly", "big.toml"), "big.toml is too large"),
        (("budget", "big.toml", "--board", "native", "--model", "x"), "too large"),
        (("lab", "units", "--units", "big.toml"), "big.toml is too large"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)  # fmt: skip
def test_a_file_without_end_is_refused_before_memory_is_taken(
    arguments: tuple[str, ...],
    said: str,
    etharness: Etharness,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("run").mkdir()
    for name in ("big.pte", "big.npy", "big.etdp", "big.zip", "big.etpm", "big.toml"):
        huge(Path(name))
    huge(Path("run/result.json"))
    code, _, err = etharness(*arguments)
    assert (code, said in err) == (2, True), err


def test_other_files_have_limits_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"big\.bin is too large"):
        read_image(huge(tmp_path / "big.bin"))
    with pytest.raises(UsageError, match=r"power\.samples is too large"):
        read_recording(huge(tmp_path / "power.samples", b'{"meter":"x","hz_numerator":1}\n'))
    record = tmp_path / "etrecord.bin"
    with zipfile.ZipFile(record, "w") as archive:
        archive.writestr("ETRECORD_V0", "")
        archive.writestr("debug_handle_map", "{}" + 100 * " ")
    monkeypatch.setattr(etrecord, "MOST_MEMBER", 100)
    with pytest.raises(FormatError, match="102 bytes announced"):
        read_etrecord(record)


def test_a_manifest_is_not_unpacked_if_it_is_too_large(tmp_path: Path) -> None:
    bundle = tmp_path / "bundle.zip"
    bundle.write_bytes(pack({MANIFEST: bytes((16 << 20) + 1)}))
    with pytest.raises(FormatError, match=r"more than the limit of 16,777,216: nothing was unpack"):
        open_bundle(bundle)


def test_of_earlier_nights_the_newest_are_read(tmp_path: Path) -> None:
    for day in range(62):
        with Journal.open(tmp_path / f"night-202601{day:02}T000000") as opened:
            opened.add(Finished("2026-01-01T00:00:00Z", 0))
    found = list(unstored_nights(tmp_path / "night-20260161T000000", "night"))
    assert [found[0].name, len(found)] == ["night-20260101T000000", 60]


@pytest.mark.parametrize("command", ["inspect", "decode"])
def test_a_pipe_without_end_is_refused(
    command: str, etharness: Callable[..., CommandResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its size is not known before, as of ``<(command)`` in a shell."""
    for limit in ("MOST_PIPE", "MOST_MODEL"):
        monkeypatch.setattr(files, limit, 3_000_000)
    out, into = os.pipe()

    def write() -> None:
        with suppress(OSError):
            while True:
                os.write(into, bytes(1 << 16))

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    try:
        code, _, err = etharness(command, f"/dev/fd/{out}")
        assert (code, "the limit is 3,000,000" in err) == (2, True), err
    finally:
        os.close(out)
        writer.join()
        os.close(into)


def test_a_region_larger_than_any_memory_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfers, "MOST_REGION", 4000)
    _, _, session = slow_line(trace_size=5000)
    session.load_model(MODEL)
    session.run(1, timeout_s=5)
    with pytest.raises(TargetError, match="says that TRACE 0 has 5,000 bytes; the limit is 4,000"):
        session.read(Region.TRACE)


def test_a_streamed_log_has_an_end() -> None:
    chunks = LogChunks()
    chunks.add(messages.LogPart(1, 0, 100, 0, bytes(100)))
    with pytest.raises(HarnessError, match=r"exceeds .* in chunk 2") as caught:
        chunks.wanted(messages.LogWait(1, 1, MOST_LOG - 99))
    assert caught.value.exit_code == 4  # of the model and its options, not of the infrastructure
    assert "--profile method" in caught.value.hint
    assert chunks.whole() == (bytes(100),)


def test_a_gdbserver_that_never_ends_a_packet_is_given_up() -> None:
    def serve(server: socket.socket) -> None:
        with suppress(OSError):
            connection, _ = server.accept()
            with connection:
                while True:
                    connection.sendall(b"$" + bytes(b"a" * 65_536))

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve, args=(server,), daemon=True)
        thread.start()
        address = f"gdb://127.0.0.1:{server.getsockname()[1]}?timeout=30"
        with pytest.raises(ProbeError, match="sent no whole packet in"):
            open_probe(address)
        thread.join()


def test_an_rtt_ring_larger_than_any_memory_is_refused() -> None:
    block = b"SEGGER RTT".ljust(16, b"\0") + np.array([1, 1], "<i4").tobytes()
    rings = np.array([0, FakeGdbserver.BASE, 1 << 31, 0, 0, 0], "<u4").tobytes()
    with FakeGdbserver(bytearray(block + rings + bytes(600))) as server:
        address = f"rtt+{server.address.partition('?')[0]}?address={FakeGdbserver.BASE:#x}"
        with pytest.raises(PortError, match="damaged"):
            open_port(address, 115_200)


def control_block(name_at: int, size: int) -> bytes:
    """One of RTT, with two rings at the same place: in a gdbserver that only shows memory."""
    counts = b"SEGGER RTT".ljust(16, b"\0") + np.array([1, 1], "<i4").tobytes()
    return counts + 2 * np.array([name_at, FakeGdbserver.BASE, size, 0, 0, 0], "<u4").tobytes()


@pytest.mark.parametrize("ours", [0, 1])
def test_a_search_for_rtt_passes_over_other_control_blocks(
    ours: int, caplog: pytest.LogCaptureFixture
) -> None:
    names = b"terminal\0\0\0\0etdump\0\0"
    places = [FakeGdbserver.BASE + at for at in (0, 12)]
    damaged, blocks = control_block(places[1], 1), [control_block(at, 64) for at in places]
    blocks = [blocks[1], blocks[0]] if ours == 0 else blocks
    memory = bytearray(names + damaged + blocks[0] + blocks[1] + bytes(600))
    at = [FakeGdbserver.BASE + len(names) + number * len(damaged) for number in range(3)]
    with FakeGdbserver(memory) as server:
        address = f"rtt+{server.address.partition('?')[0]}?address={FakeGdbserver.BASE:#x}"
        open_port(f"{address}&size={len(memory)}", 115_200).close()
    said = [record.getMessage() for record in caplog.records]
    chosen, other = at[1 + ours], at[2 - ours]
    assert f"passed over the RTT control block at {other:#x}, took {chosen:#x}" in said
    assert any(
        f"the RTT control block at {at[0]:#x}: " in line and "damaged" in line for line in said
    )


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"native"', '"native"\ncount = 1000000000', "board.count must be at most 256, not 1"),
        ('"native"', f'"native"\ncount = {MOST_UNITS}\n[[board]]\nboard = "qemu-microbit"\n',
         "selects 257 units; the limit is 256"),
        ("schema = 1", "schema = 1\nrepeats = 1000000000", "000 runs; the limit is 100,000"),
        ("schema = 1", "schema = 1\nretry = { link = 1000000000 }", "link must be at most 100"),
    ],
)  # fmt: skip
def test_a_plan_without_end_is_refused(tmp_path: Path, old: str, new: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        prepare(written_plan(tmp_path, PLAN.replace(old, new, 1)), None)
    assert said in f"{caught.value.message} {caught.value.hint}"


def test_a_journal_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "MOST_JOURNAL", 200)
    record = Finished("2026-01-01T00:00:00Z", 0)
    with Journal.open(tmp_path) as opened:
        opened.add(record)
        opened.add(record)
        with pytest.raises(JournalError, match="has reached 200 bytes") as caught:
            opened.add(record)
    assert "--fresh" in caught.value.hint
    assert (tmp_path / "journal.jsonl").stat().st_size <= 200
    huge(tmp_path / "journal.jsonl")
    with pytest.raises(UsageError, match=r"journal\.jsonl is too large"):
        read_journal(tmp_path / "journal.jsonl")


def test_a_night_keeps_little_of_a_step_in_memory(tmp_path: Path) -> None:
    """Of an attempt that failed with pages of evidence, too."""
    steps = [NightlyStep("a", "native", "small", "", repeat) for repeat in range(1, 301)]
    with Journal.open(tmp_path) as opened:
        progress = Progress()

        def attempt(step: NightlyStep) -> None:
            evidence = tuple(f"{step.repeat}: {number:0500}" for number in range(20))
            ended = Attempt(
                number=1, directory="", started_utc="", outcome="fail", evidence=evidence
            )
            for record in (Started(step, 1, "", ""), Ended(step, ended)):
                opened.add(record)
                progress.learn(record)

        attempt(steps[0])
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            for step in steps[1:]:
                attempt(step)
            after, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert all(progress.failures(step) == 1 for step in steps)
        assert len(opened.records) == 600
    assert (after - before) / len(steps) < STEP_BYTES


def test_the_build_cache_loses_what_was_unused_for_longest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Never what another process has locked, or has used within the last hour."""
    names = ["held", "oldest", "older", "recent"]
    ages = [9.0, 8.0, 7.0, 0.5]
    for name, hours in zip(names, ages, strict=True):
        with alone_in(tmp_path / name, name), building_in(tmp_path / name):
            (tmp_path / name / "image").write_bytes(bytes(1000 if name != "recent" else 2000))
        used = time.time() - hours * 3600
        os.utime(tmp_path / f"{name}.lock", (used, used))
    assert [name for name in names if (tmp_path / name).exists()] == names
    monkeypatch.setattr(build, "MOST_CACHE", 2500)
    (tmp_path / "another").mkdir()  # not a build of this program
    new = tmp_path / "new"
    with FileLock(tmp_path / "held.lock"), alone_in(new, "new"), building_in(new):
        (new / "image").write_bytes(bytes(1000))
    left = {path.name for path in tmp_path.iterdir() if path.is_dir()}
    assert left == {"held", "recent", "new", "another"}


def test_a_line_without_end_of_a_csv_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "samples.csv"
    meter = open_meter(MeterRequest.parse(f"csv:{file}", 3.3, 0))
    meter.start()
    file.write_text("time(s),current(A),D0\n" + "1" * (MOST_LINE + 1))
    meter.stop()
    with pytest.raises(UsageError, match="a line has more than 65,536 characters"):
        meter.read(0)


class EndlessMeter:
    """A meter whose samples never end, as its export may be of another day."""

    live = False
    header = RecordingHeader("endless", 1000)

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def close(self) -> None: ...

    def read(self, _timeout_s: float, /) -> SampleBlock | None:
        zeros = np.zeros(1000)
        return SampleBlock(zeros, zeros, zeros > 0, zeros.astype(np.uint8))


def test_a_recording_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (run, recording):
        monkeypatch.setattr(module, "MOST_RECORDING", 100_000)
    file = tmp_path / "power.samples"
    writer = MeterRecorder(EndlessMeter(), file)
    with pytest.raises(UsageError, match="the recording exceeds 100,000 bytes"):
        writer.finish()
    assert file.stat().st_size < 110_000


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    current = [(1024, 2048)]
    monkeypatch.setattr(resource, "getrlimit", lambda _: current[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _, both: current.append(both))
    return current


def test_a_night_asks_for_the_files_that_it_opens(limits: list[tuple[int, int]]) -> None:
    allow_open_files(2)
    assert len(limits) == 1
    allow_open_files(100)
    assert limits[-1] == (64 + 100 * commands.FILES_PER_UNIT, 2048)
    with pytest.raises(HostError, match="256 units need 4160 open files; this host allows 2048"):
        allow_open_files(MOST_UNITS)
