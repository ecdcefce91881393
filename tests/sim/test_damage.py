"""A run directory whose files are not as its run left them: no verdict, no report, no entry."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

import harness
from harness import DamagedError, EvaluatedRun, Failure, HistoryRef, RestartedError, write_report
from harness.extensions.bundles.bundle import Archive, Manifest, Packed, pack
from harness.extensions.lab.nightly.night import Night
from harness.inspector import Inspector
from harness.pytest_plugin.running import CaseUnit
from harness.pytest_plugin.running import Runs as SessionRuns
from harness.runs.directory import RunDirectory
from harness.runs.history import add_reported
from harness.runs.request import RunRequest
from harness.runs.run import run_model
from harness.runs.source import load_source
from tests.conftest import MODELS, CommandResult
from tests.support.debugger import Debugger
from tests.support.documents import document
from tests.support.nights import written_plan
from tests.support.reported import FINISHED

UNFINISHED = "Unfinished"
BOARD = "qemu-mps2-an386"

Etharness = Callable[..., CommandResult]
pytestmark = pytest.mark.sim

FILES = (
    *("trace.etlog", "trace.etdp", "debug_buffer.bin", "history.json", "result.json"),
    *("inputs/0.npy", "outputs/0.npy", "reference/0.npy", "used_budget/default.toml"),
)
COMMANDS = (
    *("check", "check --report", "check --salvage", "check --suggest", "check FILE"),
    *("decode", "decode FILE", "export", "compare before", "compare after"),
    *("history add", "replay", "report html", "report json", "report md", "report xml"),
    *("report zip",),
)
IN_ONE_FOLDER = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    # A change is small already, and to shrink it every command would be called many times.
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)


@dataclass(frozen=True)
class Runs:
    """A run, the bundle of it, and another run of the same model on the same board."""

    run: Path
    bundle: Path
    other: Path


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Runs that left every file that a verdict may rest on.

    Their verdict compares with history, so the board's clock must not depend on the host's load.
    """
    home = tmp_path_factory.mktemp("runs")

    def run(name: str, **options: Any) -> Path:
        request = RunRequest(
            *(BOARD, MODELS / "kws_int8.pte", 3, home / name),
            values="outputs",
            **options,
        )

        def ended(reported: EvaluatedRun) -> None:
            add_reported(store, reported)
            write_report(home / f"{name}.zip", [reported])

        run_model(request, ended=ended)
        return home / name

    store = str(home / "h.sqlite")
    against = HistoryRef(store)
    reference = run("first", commit="0") / "outputs/0.npy"
    first = run("run", references=[reference], against=against, commit="1")
    wide = home / "wide.npy"
    np.save(wide, np.load(reference) + 1)
    other = run("other", references=[wide], atol=9.0, against=against, commit="2", seed=5)
    assert sorted([*FILES, "console.log"]) == sorted(RunDirectory(first).files())
    return Runs(first, home / "run.zip", other)


@dataclass(frozen=True)
class Change:
    """What becomes of a file: ``share`` says where in it, ``more`` is what is put at its end."""

    how: str
    share: float = 0.0
    bit: int = 0
    more: bytes = b""

    def of(self, data: bytes, foreign: bytes) -> bytes | None:
        """The bytes of the file afterwards, None for no file."""
        place = int(self.share * len(data))
        match self.how:
            case "flipped":
                flipped = data[place : place + 1]
                return (
                    data[:place]
                    + bytes(each ^ 1 << self.bit for each in flipped)
                    + data[place + 1 :]
                )
            case "cut":
                return data[:place]
            case "extended":
                return data + self.more
            case "foreign":
                return foreign
            case _:
                return None


CHANGES = st.builds(
    Change,
    st.sampled_from(["flipped", "cut", "extended", "foreign", "deleted"]),
    st.floats(0, 1, exclude_max=True),
    st.integers(0, 7),
    st.binary(min_size=1, max_size=40),
)


NEWLINE = Change("extended", more=b"\n")


def changed_file(runs: Runs, directory: Path, name: str, change: Change) -> bool:
    """Change a file of a copy of the run; False if that would say the same as before."""
    before = (runs.run / name).read_bytes()
    after = change.of(before, (runs.other / name).read_bytes())
    if after is not None and (after == before or (name == "result.json" and same(after, before))):
        return False
    if after is None:
        (directory / name).unlink()
    else:
        (directory / name).write_bytes(after)
    return True


def same(after: bytes, before: bytes) -> bool:
    """Whether documents differ only in their layout, which a result may change, and no other file.

    A newline at the end of a result is layout; at the end of any other file it is damage.
    """
    with suppress(ValueError):
        return json.dumps(json.loads(after)) == json.dumps(json.loads(before))
    return False


@contextmanager
def copied(directory: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as scratch:
        yield Path(shutil.copytree(directory, Path(scratch) / "run"))


@pytest.fixture
def copy(runs: Runs, tmp_path: Path) -> Path:
    """A copy of the run."""
    return Path(shutil.copytree(runs.run, tmp_path / "copy"))


def repacked(bundle: Path, run: Path, to: Path) -> None:
    """Write a bundle whose run directory is this one, and whose manifest says so."""
    archive = Archive(bundle.read_bytes(), "b.zip")
    kept = {name: archive.read(name) for name in archive.sizes if not name.startswith("run/")}
    for name in RunDirectory(run).files():
        kept[f"run/{name}"] = (run / name).read_bytes()
    manifest = msgspec.json.decode(kept.pop("manifest.json"), type=Manifest)
    packed = tuple(
        Packed(name, len(data), hashlib.sha256(data).hexdigest()) for name, data in kept.items()
    )
    listed = msgspec.structs.replace(manifest, files=packed)
    to.write_bytes(pack({**kept, "manifest.json": msgspec.json.encode(listed)}))


def command_of(
    name: str, copy: Path, file: str, runs: Runs
) -> tuple[list[str | Path], Path | None]:
    """The arguments of a command that reads a copy, and the file that it would write."""
    out, command, *how = copy.parent / "out", *name.split()
    if command == "replay":
        repacked(runs.bundle, copy, copy.parent / "b.zip")
        return ["replay", copy.parent / "b.zip", "--report", f"{out}.json"], Path(f"{out}.json")
    if command == "report":
        # A sound run beside it makes it no better.
        also = [] if name.endswith("zip") else [runs.other]
        return ["report", copy, *also, "-o", f"{out}.{how[0]}"], Path(f"{out}.{how[0]}")
    trace = copy / (file if file.startswith("trace") else "trace.etlog")
    arguments: dict[str, list[str | Path]] = {
        "check --report": ["check", copy, "--report", f"{out}.json"],
        "check --suggest": ["check", copy, "--suggest", out],
        "check --salvage": ["check", copy, "--salvage"],
        "check FILE": ["check", trace],
        "decode FILE": ["decode", trace],
        "export": ["export", copy, "-f", "csv", "-o", out],
        "compare before": ["compare", copy, runs.other],
        "compare after": ["compare", runs.other, copy],
        "history add": ["history", "add", copy, runs.other, "--history", out, "--json"],
    }
    written = {"check --report": Path(f"{out}.json"), "check --suggest": out, "export": out}
    return arguments.get(name, [name, copy]), written.get(name)


def reads(command: str, file: str, change: Change) -> bool:
    """Whether a command given a copy rests on that file of it."""
    lone_result = file == "result.json" and change.how == "deleted"  # then it is no run directory
    if command.endswith("FILE"):
        return file in FILES[:3] + FILES[4:5] and not lone_result
    return not lone_result


def named(file: str, change: Change) -> str:
    """The file that is said to be damaged: beside another run's result all others are."""
    return "trace.etlog" if (file, change.how) == ("result.json", "foreign") else file


def refuse(etharness: Etharness, runs: Runs, command: str, file: str, change: Change) -> bool:
    """See that nothing comes of a command on a copy in which a file is changed."""
    with copied(runs.run) as copy:
        if not reads(command, file, change) or not changed_file(runs, copy, file, change):
            return False
        arguments, output = command_of(command, copy, file, runs)
        result = etharness(*arguments)
        case = (command, file, change, result)
        said = result.err
        if command == "history add":
            items = {Path(item["path"]): item for item in json.loads(result.out)}
            assert items[copy]["state"] == "refused", case
            said = items[copy]["reason"]
            store = copy.parent / "out"
            listed = document(
                "history-list", etharness("history", "list", "--history", store, "--json").out
            )
            [entry] = listed
            assert entry["provenance"]["id"] == RunDirectory(runs.other).read_result().id, case
        else:
            assert result.out == "", case
        assert result.code == 2, case
        assert output is None or not output.exists(), case
        assert f"/{named(file, change)}: damaged: " in said, case
        assert command == "history add" or "\n  try: " in said, case
        return True


@pytest.mark.parametrize("command", COMMANDS)
@given(change=CHANGES)
@example(change=NEWLINE)
@settings(IN_ONE_FOLDER, max_examples=2)
def test_no_command_takes_a_damaged_file(
    command: str, change: Change, runs: Runs, etharness: Etharness
) -> None:
    refused = [refuse(etharness, runs, command, file, change) for file in FILES]
    assert any(refused)


@pytest.mark.attack(
    "Files", "one flipped bit of a run's log", "every command ends with exit code 2"
)
@pytest.mark.parametrize("command", COMMANDS)
def test_one_flipped_bit_of_the_log_ends_every_command(
    command: str, runs: Runs, etharness: Etharness
) -> None:
    size = (runs.run / "trace.etlog").stat().st_size
    assert refuse(etharness, runs, command, "trace.etlog", Change("flipped", 327.5 / size, 4))


@pytest.mark.parametrize("file", FILES)
@given(change=CHANGES)
@example(change=Change("foreign"))
@example(change=Change("deleted"))
@example(change=NEWLINE)
@settings(IN_ONE_FOLDER, max_examples=60)
def test_every_change_of_every_file_is_found(file: str, change: Change, runs: Runs) -> None:
    if file == "result.json" and change.how == "deleted":
        return
    with copied(runs.run) as copy:
        if not changed_file(runs, copy, file, change):
            return
        with pytest.raises(DamagedError, match=f"/{named(file, change)}: damaged: "):
            load_source(copy)


@pytest.mark.attack("Files", "one flipped bit of `result.json`", "exit code 2")
@pytest.mark.parametrize("bit", range(8))
def test_a_flipped_bit_of_any_part_of_a_result_is_found(bit: int, runs: Runs, copy: Path) -> None:
    """Braces, keys, numbers, strings and white space: each damaged in another way."""
    data = (runs.run / "result.json").read_bytes()
    places = [
        *(0, len(data) - 2, data.index(b"\n"), data.index(f'"{BOARD}"'.encode()) + 3),
        *(data.index(key) + 2 for key in (b'"id"', b'"files"', b'"digest"', b'"measured"')),
        data.index(b'"hz_numerator": ') + 17,
    ]
    for place in places:
        flipped = bytes([data[place] ^ 1 << bit])
        (copy / "result.json").write_bytes(data[:place] + flipped + data[place + 1 :])
        with pytest.raises(DamagedError, match=r"/result\.json: damaged: "):
            load_source(copy)


def test_a_sound_run_is_read_everywhere(
    runs: Runs, copy: Path, etharness: Etharness, tmp_path: Path
) -> None:
    for command in COMMANDS:
        with copied(runs.run) as sound:
            arguments, output = command_of(command, sound, "trace.etlog", runs)
            result = etharness(*arguments)
            assert "damaged" not in result.out + result.err
            assert result.code in (0, 1), (command, result)
            assert output is None or output.exists()


def test_a_result_may_be_laid_out_otherwise(runs: Runs, copy: Path, etharness: Etharness) -> None:
    before = etharness("check", copy, "--json")
    data = (runs.run / "result.json").read_bytes()
    for other in (data + b"\n", data.rstrip(), json.dumps(json.loads(data)).encode() + b" \r\n"):
        (copy / "result.json").write_bytes(other)
        assert etharness("check", copy, "--json") == before


def test_files_that_someone_put_there_are_left_alone(copy: Path, etharness: Etharness) -> None:
    before = etharness("check", copy, "--json")
    (copy / "notes.txt").write_text("mine")
    (copy / "outputs/again.npy").write_bytes(b"mine")
    shutil.copy(copy / "trace.etlog", copy / "kept.etlog")
    assert etharness("check", copy, "--json") == before
    assert etharness("decode", copy / "kept.etlog").code == 0


@pytest.mark.parametrize("name", ["trace.etlog", "debug_buffer.bin", "history.json"])
def test_a_file_that_the_result_does_not_record_is_not_read_for_one_of_the_run(
    name: str, copy: Path, etharness: Etharness
) -> None:
    directory = RunDirectory(copy)
    result = directory.read_result()
    others = {file: record for file, record in (result.files or {}).items() if file != name}
    directory.write_result(msgspec.structs.replace(result, files=others, trace=None))
    code, out, err = etharness("check", copy)
    assert (code, out) == (2, "")
    assert f"{copy / name}: damaged: result.json does not record this file\n  try: remove it" in err


@given(
    field=st.sampled_from(
        ["events", "blocks", "executions", "values", "dropped_events", "missing_chunks"]
    ),
    by=st.integers(1, 1 << 40),
)
@settings(IN_ONE_FOLDER, max_examples=10)
def test_a_result_that_counts_otherwise_than_its_log_is_damaged(
    field: str, by: int, runs: Runs, etharness: Etharness
) -> None:
    with copied(runs.run) as copy:
        directory = RunDirectory(copy)
        result = directory.read_result()
        assert result.trace is not None
        right = getattr(result.trace, field)
        trace = msgspec.structs.replace(result.trace, **{field: right + by})
        directory.write_result(msgspec.structs.replace(result, trace=trace))
        code, out, err = etharness("check", copy)
        assert (code, out) == (2, "")
        assert (
            f"trace.etlog: damaged: it has {right:,} {field.replace('_', ' ')}, "
            f"result.json records {right + by:,}\n"
        ) in err


def test_a_log_recorded_with_two_digests_is_damaged(
    runs: Runs, copy: Path, etharness: Etharness
) -> None:
    """Another run's log, and its length and digest put where files are recorded."""
    directory, foreign = RunDirectory(copy), RunDirectory(runs.other).read_result()
    result = directory.read_result()
    shutil.copy(runs.other / "trace.etlog", copy)
    files = {**(result.files or {}), "trace.etlog": (foreign.files or {})["trace.etlog"]}
    directory.write_result(msgspec.structs.replace(result, files=files))
    code, _, err = etharness("check", copy)
    assert code == 2
    assert f"{copy}/trace.etlog: damaged: " in err


@pytest.mark.parametrize("name", ["/etc/passwd", "../trace.etlog", "outputs/../../x", "outputs/.."])
def test_a_result_has_no_other_files_read(name: str, copy: Path, etharness: Etharness) -> None:
    directory = RunDirectory(copy)
    result = directory.read_result()
    files = {**(result.files or {}), name: (result.files or {})["trace.etlog"]}
    directory.write_result(msgspec.structs.replace(result, files=files))
    code, _, err = etharness("check", copy)
    assert code == 2
    assert f"{copy}/result.json: damaged: it records '{name}', which is not a file of a run" in err


def without_records(copy: Path) -> None:
    """Make a result one of before files were recorded."""
    file = copy / "result.json"
    document = json.loads(file.read_text())
    del document["files"], document["digest"], document["trace"]["executions"]
    file.write_text(json.dumps(document))


def test_of_a_result_from_before_files_were_recorded_the_log_is_verified(
    copy: Path, etharness: Etharness, caplog: pytest.LogCaptureFixture
) -> None:
    without_records(copy)
    assert etharness("check", copy).code == 0
    assert [record.message for record in caplog.records] == [
        f"{copy}/result.json records no digests of its files: only trace.etlog is verified"
    ]
    log = bytearray((copy / "trace.etlog").read_bytes())
    log[327] ^= 1 << 4
    (copy / "trace.etlog").write_bytes(log)
    code, _, err = etharness("check", copy)
    assert code == 2
    assert f"error: {copy}/trace.etlog: damaged: sha256 is " in err


def test_what_can_be_salvaged_is_shown_as_damaged(
    runs: Runs, copy: Path, etharness: Etharness, tmp_path: Path
) -> None:
    assert changed_file(runs, copy, "trace.etlog", Change("flipped", 0.2, 4))
    said = f"damaged: {copy}/trace.etlog: damaged: sha256 is "
    shown = etharness("decode", copy, "--salvage")
    assert (shown.code, said in shown.out) == (0, True)
    damage = document("decode", etharness("decode", copy, "--salvage", "--json").out)["damage"]
    assert damage[0]["reason"].startswith(said.removeprefix("damaged: "))
    file = tmp_path / "x.csv"
    exported = etharness("export", copy, "--salvage", "-f", "csv", "-o", file)
    assert (exported.code, said in exported.err) == (0, True)
    for command in (["check"], ["report", "-o", tmp_path / "r.json"]):
        code, out, err = etharness(*command, copy, "--salvage")
        assert (code, out) == (2, "")
        assert f"error: {copy}/trace.etlog: damaged: " in err
    assert not (tmp_path / "r.json").exists()
    source = load_source(copy, salvage=True)
    with pytest.raises(DamagedError):
        source.require_sound()


def test_another_baseline_is_recorded_and_verified_too(
    runs: Runs, copy: Path, etharness: Etharness
) -> None:
    store = runs.run.parent / "h.sqlite"
    before = RunDirectory(copy).read_result()
    arguments = ["check", copy, "--history", store, "--baseline", "last:2", "--json"]
    held = etharness(*arguments)
    assert held.code in (0, 1)
    after = RunDirectory(copy).load_result()
    assert (after.files or {})["history.json"] != (before.files or {})["history.json"]
    assert msgspec.structs.replace(after, files=before.files, digest=before.digest) == before
    assert etharness("check", copy, "--json") == held
    shutil.copy(runs.run / "history.json", copy)
    assert etharness("check", copy).code == 2


@pytest.mark.parametrize("writes", range(3))
def test_a_baseline_cut_off_while_it_is_kept_can_be_removed(
    writes: int, runs: Runs, copy: Path, etharness: Etharness, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, write, left = RunDirectory(copy), RunDirectory.write, writes

    def cut_off(self: RunDirectory, name: str, data: bytes) -> None:
        nonlocal left
        if left == 0:
            raise KeyboardInterrupt
        left -= 1
        write(self, name, data)

    monkeypatch.setattr(RunDirectory, "write", cut_off)
    with pytest.raises(KeyboardInterrupt):
        directory.write_late("history.json", (runs.other / "history.json").read_bytes())
    monkeypatch.undo()
    code, _, err = etharness("check", copy)
    if writes == 0:
        assert code in (0, 1)
        return
    assert code == 2
    assert "history.json: damaged: result.json does not record this file\n  try: remove it" in err
    (copy / "history.json").unlink()
    assert etharness("check", copy).code in (0, 1)


def test_a_debug_buffer_beside_another_file_is_verified(
    runs: Runs, copy: Path, etharness: Etharness, tmp_path: Path
) -> None:
    alone = Path(shutil.copy(copy / "trace.etlog", tmp_path / "alone.etlog"))
    given_beside = ["decode", alone, "--debug-buffer", copy / "debug_buffer.bin"]
    assert etharness(*given_beside).code == 0
    assert changed_file(runs, copy, "debug_buffer.bin", Change("flipped", 0.5, 1))
    code, _, err = etharness(*given_beside)
    assert code == 2
    assert f"{copy}/debug_buffer.bin: damaged: sha256 is " in err


def test_inspector_takes_no_damaged_file(runs: Runs, copy: Path) -> None:
    assert Inspector(etdump_path=str(copy / "trace.etdp")).event_blocks
    assert changed_file(runs, copy, "trace.etdp", Change("flipped", 0.5, 1))
    for path in (copy, copy / "trace.etdp"):
        with pytest.raises(DamagedError, match=r"trace\.etdp: damaged: "):
            Inspector(etdump_path=str(path))


def test_a_test_session_takes_no_damaged_file(tmp_path: Path) -> None:
    board = harness.Board.load("native")
    file = board.file
    wanted = CaseUnit(board, file, "native"), MODELS / "small_int8.pte", {"seed": 3}
    first = SessionRuns(tmp_path, 5).get(*wanted)
    assert first.directory is not None
    log = bytearray((first.directory / "trace.etlog").read_bytes())
    log[len(log) // 2] ^= 1
    (first.directory / "trace.etlog").write_bytes(log)
    with pytest.raises(DamagedError, match=r"trace\.etlog: damaged: "):
        SessionRuns(tmp_path, 5).get(*wanted)


def test_a_night_says_of_a_damaged_run_that_it_is(
    etharness: Etharness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (
        'schema = 1\noutput = "out"\nrepeats = 2\nhistory = "runs.sqlite"\nreports = ["r.json"]\n'
        '[[board]]\nboard = "native"\n[[model]]\nfile = "small_int8.pte"\n'
    )
    plan = written_plan(tmp_path, text)
    damaged: list[Path] = []

    def damage(night: Any, effects: Any, work: Any = Night.work) -> None:
        work(night, effects)
        damaged.append(min(file for file in night.directory.glob("runs/**/trace.etlog")))
        log = bytearray(damaged[0].read_bytes())
        log[40] ^= 1
        damaged[0].write_bytes(log)

    monkeypatch.setattr(Night, "work", damage)
    code, out, _ = etharness("nightly", plan, "--json")
    night = document("nightly", out)
    assert code == night["exit_code"] == 71
    assert f"{damaged[0]}: damaged: " in night["troubles"][0]["message"]
    listed = etharness("history", "list", "--history", tmp_path / "runs.sqlite", "--json")
    [kept] = document("history-list", listed.out)
    assert kept["provenance"]["id"] != RunDirectory(damaged[0].parent).read_result().id


def test_a_postmortem_is_verified(etharness: Etharness, tmp_path: Path) -> None:
    debugger = Debugger(
        *("qemu-mps2-an385", tmp_path, "quantized_linear"),
        stops=4,
        then="set *(short *)$pc = 0xde00",
    )
    run = tmp_path / "run"
    with pytest.raises(RestartedError):
        harness.run(MODELS / "small_int8.pte", board=debugger.board_file, runs=20, output=run)
    assert etharness("postmortem", run).code == 0
    for name in ("postmortem.bin", "postmortem.json", "trace.etlog"):
        with copied(run) as copy:
            data = bytearray((copy / name).read_bytes())
            data[len(data) // 2] ^= 1
            (copy / name).write_bytes(data)
            for command in (["postmortem"], ["report", "-o", tmp_path / "r.json"], ["check"]):
                code, out, err = etharness(*command, copy)
                assert (code, out) == (2, ""), (name, command)
                assert f"{copy / name}: damaged: sha256 is " in err
    (run / "postmortem.bin").write_bytes(b"ETPM")
    code, _, err = etharness("postmortem", run / "postmortem.bin")
    assert (code, "postmortem.bin: damaged: it has 4 bytes" in err) == (2, True)


@pytest.mark.parametrize("deleted", ["trace.etlog", "console.log"])
def test_a_run_without_a_trace_is_verified(
    deleted: str, etharness: Etharness, tmp_path: Path
) -> None:
    directory = RunDirectory.create(tmp_path / "run")
    directory.write("console.log", b"panic\n")
    if deleted == "trace.etlog":
        directory.write(deleted, b"")
    failure = Failure("LinkError", "the port is gone", "")
    directory.finish(msgspec.structs.replace(FINISHED, failure=failure, exit_code=75, trace=None))
    (directory.path / deleted).unlink()
    for command in (["report", "-o", tmp_path / "r.json"], ["check"], ["decode"]):
        code, _, err = etharness(*command, directory.path)
        assert code == 2
        assert f"{deleted}: damaged: the file is missing, result.json records it" in err
    added = etharness("history", "add", directory.path, "--history", tmp_path / "h.sqlite")
    assert (added.code, ": damaged: " in added.out) == (2, True)


@pytest.mark.attack(
    "Host and signals", "kill -9 of a run", "the result states that the run was cut off"
)
def test_a_run_that_was_killed_is_read_as_far_as_it_got(
    runs: Runs, copy: Path, etharness: Etharness, caplog: pytest.LogCaptureFixture
) -> None:
    """Its result is still the one that was written before anything was started."""
    directory = RunDirectory(copy)
    failure = Failure(UNFINISHED, "the run was cut off", "run it again")
    result = msgspec.structs.replace(
        directory.read_result(), failure=failure, files=None, digest="", trace=None, verdict=None
    )
    directory.write_result(result)
    (copy / "trace.etlog").rename(copy / "trace.partial")
    (copy / "trace.etdp").unlink()
    assert etharness("decode", copy / "trace.partial").code == 0
    assert etharness("report", copy, "-o", copy.parent / "r.json").code == 1
    assert etharness("history", "add", copy, "--history", copy.parent / "h.sqlite").code == 0
    assert caplog.records == []


def test_the_beginning_of_a_log_is_recorded_and_verified(
    runs: Runs, copy: Path, etharness: Etharness
) -> None:
    directory = RunDirectory(copy)
    (copy / "trace.etlog").rename(copy / "trace.partial")
    (copy / "trace.etdp").unlink()
    failure = Failure("LinkError", "the line broke", "")
    result = msgspec.structs.replace(
        directory.read_result(), failure=failure, exit_code=75, trace=None
    )
    directory.finish(result)
    assert etharness("decode", copy / "trace.partial").code == 0
    with (copy / "trace.partial").open("ab") as file:
        file.write(b"more")
    code, _, err = etharness("decode", copy / "trace.partial")
    assert (code, "trace.partial: damaged: it has " in err) == (2, True)


@given(change=CHANGES.filter(lambda change: change.how in ("flipped", "cut", "extended")))
@settings(IN_ONE_FOLDER, max_examples=20)
def test_a_damaged_bundle_is_not_replayed(change: Change, runs: Runs, etharness: Etharness) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        bundle, report = Path(scratch) / "b.zip", Path(scratch) / "r.json"
        sound = runs.bundle.read_bytes()
        changed = change.of(sound, b"")
        if changed is None or changed == sound:
            return
        bundle.write_bytes(changed)
        code, out, err = etharness("replay", bundle, "--report", report)
        assert (code, out) == (2, ""), change
        assert f"{bundle}" in err
        assert "damaged" in err, err
        assert not report.exists()
