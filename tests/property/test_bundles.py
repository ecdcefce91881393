"""Bundles: judged again they say the same, and no byte of one can change unnoticed."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import tempfile
import zipfile
from collections.abc import Callable
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from harness import (
    EvaluatedRun,
    FormatError,
    ReadOptions,
    UsageError,
    VerdictRecord,
    evaluate_path,
    render_report,
    write_ed00,
    write_report,
)
from harness.extensions.bundles import bundle
from harness.extensions.bundles.bundle import Archive, Manifest, Packed, open_bundle, pack
from harness.runs.directory import RunDirectory
from tests.conftest import CommandResult
from tests.support.documents import document
from tests.support.records import EDGE, graph, node, write_record
from tests.support.reported import FINISHED, failed_run, reported
from tests.support.traces import EventSpec, RunSpec, trace_of

Etharness = Callable[..., CommandResult]

NAMES = st.text(st.sampled_from("abc/._- é"), min_size=1, max_size=8).filter(
    lambda name: not bundle._problem(name)
)


def unpack(data: bytes) -> dict[str, bytes]:
    archive = Archive(data, "x.zip")
    return {name: archive.read(name) for name in archive.sizes}


@given(st.dictionaries(NAMES, st.binary(max_size=50), max_size=5))
def test_files_come_back_and_the_archive_is_the_same_every_time(files: dict[str, bytes]) -> None:
    packed = pack(files)
    assert pack(dict(reversed(files.items()))) == packed
    assert unpack(packed) == files
    with zipfile.ZipFile(io.BytesIO(packed)) as other:
        assert {name: other.read(name) for name in other.namelist()} == files


PACKED = pack({"run/trace.etlog": bytes(range(256)), "run/result.json": b"{}" * 20})


@pytest.mark.attack("Files", "any changed byte of a bundle", "exit code 2; nothing is unpacked")
@given(st.integers(1, 255))
@example(1)
@settings(max_examples=3)
def test_damage_of_any_byte_is_found(change: int) -> None:
    for place in range(len(PACKED)):
        damaged = bytearray(PACKED)
        damaged[place] ^= change
        with pytest.raises(FormatError, match=r"x\.zip"):
            Archive(bytes(damaged), "x.zip")


@given(st.integers(0, len(PACKED) - 1))
def test_a_bundle_cut_off_is_none(size: int) -> None:
    with pytest.raises(FormatError, match=r"x\.zip"):
        Archive(PACKED[:size], "x.zip")


@given(st.binary(min_size=1, max_size=100))
def test_nothing_may_follow(more: bytes) -> None:
    with pytest.raises(FormatError, match=r"x\.zip"):
        Archive(PACKED + more, "x.zip")


def test_a_file_that_only_its_digest_says_is_damaged_is_named() -> None:
    """The archive's own digest fits, as of one that someone made of a damaged file."""
    place = PACKED.index(bytes(range(200, 220)))
    body = PACKED[:place] + b"\0" + PACKED[place + 1 : -73] + bytes(2)
    archive = Archive(with_digest(body), "x.zip")
    with pytest.raises(FormatError, match=r"x\.zip: run/trace\.etlog is damaged"):
        archive.read("run/trace.etlog")


def with_digest(body: bytes) -> bytes:
    comment = b"sha256:" + hashlib.sha256(body).hexdigest().encode()
    return body[:-2] + len(comment).to_bytes(2, "little") + comment


def foreign(name: str, size: int = 3, times: int = 1) -> bytes:
    """A zip that someone else made, with a digest that fits."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as other:
        for _ in range(times):
            other.writestr(name, bytes(size))
    return with_digest(packed.getvalue())


@pytest.mark.attack(
    "Files", "a bundle with `../` and absolute paths (zip slip)", "exit code 2; nothing is written"
)
@pytest.mark.parametrize(
    "name", ["../x", "/etc/x", "a/../../x", "C:x", "a\\..\\x", "a/./x", "a//x", "x\n", "d/"]
)
def test_a_name_that_leads_elsewhere_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="nothing was unpacked"):
        Archive(foreign(name), "x.zip")
    with pytest.raises(UsageError, match="cannot archive"):
        pack({name: b""})


@pytest.mark.attack("Files", "a bundle with a duplicate name", "exit code 2")
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_name_twice_is_refused() -> None:
    with pytest.raises(FormatError, match="which is duplicated"):
        Archive(foreign("x", times=2), "x.zip")


@pytest.mark.attack(
    "Files", "a small bundle that inflates to gigabytes", "exit code 2 before anything is inflated"
)
def test_a_zip_bomb_is_refused_before_it_is_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = foreign("x", 10_000_000)
    monkeypatch.setattr(bundle, "MOST_BYTES", 9_999_999)
    with pytest.raises(FormatError, match="would unpack to 1 files of 10,000,000 bytes"):
        Archive(bomb, "x.zip")
    with pytest.raises(UsageError, match="exceed the limits"):
        pack({"x": bytes(10_000_000)})


@pytest.mark.attack(
    "Files",
    "a bundle with files that its manifest does not list",
    "exit code 2; nothing is unpacked",
)
@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"zeros": bytes(5_000_000)}, "contains zeros, which its manifest does not list"),
        ({"README.txt": bytes(5_000_000)}, "but its manifest says"),
        ({"manifest.json": b" " * (17 << 20)}, "more than the limit"),
    ],
)
def test_nothing_is_unpacked_that_the_manifest_does_not_announce(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: dict[str, bytes], reason: str
) -> None:
    file = tmp_path / "b.zip"
    file.write_bytes(pack({**unpack(small()), **more}))
    read = Archive.read
    unpacked: list[str] = []

    def watched(self: Archive, name: str) -> bytes:
        unpacked.append(name)
        return read(self, name)

    monkeypatch.setattr(Archive, "read", watched)
    with pytest.raises(FormatError, match=reason):
        open_bundle(file)
    assert set(unpacked) <= {"manifest.json"} - set(more)


def test_a_zip_of_another_origin_is_none() -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as other:
        other.writestr("x", b"")
    with pytest.raises(FormatError, match="was not made by etharness"):
        Archive(packed.getvalue(), "x.zip")


EVENTS = st.builds(
    EventSpec,
    name=st.sampled_from(["conv", "relu", "Method::execute", "odd\x1b[1m"]),
    start=st.integers(0, 1000),
    end=st.integers(1000, 5000),
    chain=st.sampled_from([-1, 0]),
    instruction=st.integers(0, 3),
    delegate=st.sampled_from([None, 3, "npu"]),
)
TRACES = st.lists(
    st.lists(EVENTS, min_size=1, max_size=5).map(RunSpec), min_size=1, max_size=4
).map(lambda runs: trace_of(*runs))
RULES = st.sampled_from(
    [
        "[[time]]\nevent = '*'\nlimit_us = 2\nper = 'execution'\n",
        "[[time]]\nevent = 'relu'\nlimit_percent = 10\noptional = true\nseverity = 'note'\n",
        "[[time]]\nevent = 'conv'\nlimit_us = 1\nseverity='off'\nexpires = 2026-11-20\n",
        "[[block]]\nlimit_ms = 1\nreason = 'x'\nseverity = 'warning'\nexpires = 2999-01-01\n",
        "[trace]\nlimit_bytes = 100\n",
        "[[for]]\nboard = 'native'\n[for.stack]\nlimit_bytes = 5\n",
    ]
)


@given(TRACES, st.lists(RULES, unique=True), st.booleans(), st.booleans())
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_a_bundle_says_is_said_again(
    etharness: Etharness, trace: Any, rules: list[str], extended: bool, as_run: bool
) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch) / "someone's home"
        path = home / "run" / "trace.etdp"
        path.parent.mkdir(parents=True)
        path.write_bytes(write_ed00(trace))
        if as_run:
            RunDirectory(path.parent).write_result(FINISHED)
            path = path.parent
        budget = home / "lab" / "budget.toml"
        budget.parent.mkdir()
        budget.write_text("schema = 1\n" + "".join(rules))
        if extended:
            budget = home / "lab" / "of board" / "own.toml"
            budget.parent.mkdir()
            budget.write_text("schema = 1\nextends = '../budget.toml'\n")
        how = ReadOptions(day=date(2026, 11, 21))
        run = evaluate_path(path, budget, how)
        write_report(home / "bundle.zip", [run])
        again = etharness("replay", home / "bundle.zip", "--json")
        assert again.code == (not run.passed), again.err  # another verdict has exit code 3
        assert "home" not in again.out
        sources = {check.source for check in run.verdict.checks if check.code != "B05"}
        expected = "../budget.toml:" if extended else "budget.toml:"
        assert all(source.startswith(expected) for source in sources if source)
        assert not open_bundle(home / "bundle.zip")[0].model


@cache
def small() -> bytes:
    """A bundle of a trace alone."""
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "trace.etdp"
        path.write_bytes(write_ed00(trace_of(RunSpec([EventSpec("relu", 10, 20, instruction=1)]))))
        run = evaluate_path(path)
        return render_report("bundle.zip", [run])


def with_files(change: Callable[[dict[str, bytes]], None], tmp_path: Path) -> Path:
    """A bundle whose files have been changed by someone who knows how to pack one."""
    files = unpack(small())
    change(files)
    path = tmp_path / "changed.zip"
    path.write_bytes(pack(files))
    return path


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("verdict.json", b"{}", "changed.zip: verdict.json has 2 bytes, but its manifest says"),
        (
            "trace/trace.etdp",
            None,
            "changed.zip/trace/trace.etdp: damaged: missing, although its manifest lists it",
        ),
        ("more", b"", "changed.zip contains more, which its manifest does not list"),
        ("manifest.json", None, "invalid manifest.json"),
        ("manifest.json", b'{"schema": 2}', "invalid manifest.json"),
    ],
)
def test_a_file_that_was_exchanged_is_named(
    name: str, data: bytes | None, said: str, tmp_path: Path
) -> None:
    def change(files: dict[str, bytes]) -> None:
        if data is None:
            del files[name]
        else:
            files[name] = data

    with pytest.raises(FormatError) as raised:
        open_bundle(with_files(change, tmp_path))
    assert said in raised.value.message


@pytest.mark.attack(
    "Files",
    "a bundle with a file replaced by another one of the same size",
    "exit code 2, with the name of the file",
)
def test_a_file_of_the_same_size_that_was_exchanged_is_named(tmp_path: Path) -> None:
    def change(files: dict[str, bytes]) -> None:
        files["verdict.json"] = files["verdict.json"][::-1]

    with pytest.raises(FormatError, match=r"verdict\.json is damaged: its digest is"):
        open_bundle(with_files(change, tmp_path))


def repacked(tmp_path: Path, files: dict[str, bytes], **facts: Any) -> Path:
    """A bundle of these files whose manifest lists them, and says something else."""
    manifest = msgspec.json.decode(files["manifest.json"], type=Manifest)
    packed = tuple(
        Packed(name, len(data), hashlib.sha256(data).hexdigest())
        for name, data in files.items()
        if name != "manifest.json"
    )
    changed = msgspec.structs.replace(manifest, files=packed, **facts)
    path = tmp_path / "changed.zip"
    path.write_bytes(pack({**files, "manifest.json": msgspec.json.encode(changed)}))
    return path


@pytest.mark.attack(
    "Files", "a bundle whose result names files of this computer", "they are not read"
)
@pytest.mark.parametrize("field", ["evaluated", "budget", "etrecord", "debug_buffer"])
@pytest.mark.parametrize("name", ["/etc/passwd", "../../etc/passwd", "run", "trace"])
def test_nothing_is_read_that_is_not_in_the_bundle(field: str, name: str, tmp_path: Path) -> None:
    said = f"/{name}: damaged: missing, although its manifest names it"
    with pytest.raises(FormatError, match=said):
        open_bundle(repacked(tmp_path, unpack(small()), **{field: name}))


def test_a_budget_that_extends_what_is_not_in_the_bundle_is_refused(
    etharness: Etharness, tmp_path: Path
) -> None:
    (tmp_path / "outside.toml").write_text("schema = 1\n")
    steps = "../" * 20
    text = f"schema = 1\nextends = '{steps}{tmp_path.as_posix()[1:]}/outside.toml'\n"
    files = {**unpack(small()), "budget/b.toml": text.encode()}
    bundle = repacked(tmp_path, files, budget="budget/b.toml")
    result = etharness("replay", bundle)
    assert (result.code, "which is not in it" in result.err) == (2, True), result.err


def test_another_verdict_is_shown_and_does_not_compare(
    etharness: Etharness, tmp_path: Path
) -> None:
    files = unpack(small())
    files["verdict.json"] = files["verdict.json"].replace(b'"exit_code": 0', b'"exit_code": 1')
    result = etharness("replay", repacked(tmp_path, files))
    assert result.code == 3
    assert '-  "exit_code": 1,\n+  "exit_code": 0,' in result.out
    assert "the verdict differs from the recorded one" in result.err


def test_replay_prints_the_document_that_was_recorded_and_unpacks(
    etharness: Etharness, tmp_path: Path
) -> None:
    (tmp_path / "b.zip").write_bytes(small())
    result = etharness("replay", tmp_path / "b.zip", "--json", "--out", tmp_path / "out")
    assert result.code == 0
    document("replay", result.out)
    assert result.out.encode() == (tmp_path / "out/verdict.json").read_bytes()
    document("bundle", (tmp_path / "out/manifest.json").read_text())
    assert (tmp_path / "out/trace/trace.etdp").is_file()
    again = etharness("replay", tmp_path / "b.zip", "--out", tmp_path / "out")
    assert (again.code, "is not empty" in again.err) == (2, True)
    said = etharness("replay", tmp_path / "b.zip").out
    assert "identical to the verdict of etdump-harness" in said


def test_a_run_without_a_trace_has_a_bundle_too(etharness: Etharness, tmp_path: Path) -> None:
    directory = RunDirectory.create(tmp_path / "run")
    failed = failed_run("the port is gone", exit_code=75)
    assert failed.result is not None
    directory.write_result(failed.result)
    file = tmp_path / "b.zip"
    assert etharness("check", tmp_path / "run", "--report", file).code == 2
    result = etharness("replay", file)
    assert result.code == 75
    assert "the run failed: LinkError: the port is gone" in result.out


def test_what_a_bundle_lacks_is_said(tmp_path: Path) -> None:
    directory = RunDirectory.create(tmp_path / "run")
    result = msgspec.structs.replace(FINISHED, board="someone's own")
    directory.write_result(result)
    run = reported(trace=None, result=result, directory=tmp_path / "run")
    (tmp_path / "b.zip").write_bytes(render_report("bundle.zip", [run]))
    missing = open_bundle(tmp_path / "b.zip")[0].missing
    assert any("the board file of someone's own" in what for what in missing)


def test_a_bundle_is_of_one_run_whose_files_are_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="a bundle contains one run, not 2"):
        render_report("bundle.zip", [reported(), reported()])
    gone = EvaluatedRun(str(tmp_path / "gone"), None, reported().verdict)
    with pytest.raises(UsageError, match=r"cannot bundle .*gone: No such file"):
        render_report("bundle.zip", [gone])
    with pytest.raises(UsageError, match="cannot read the bundle"):
        open_bundle(tmp_path / "none.zip")


def test_a_budget_of_an_earlier_place_is_not_asked_for(
    etharness: Etharness, tmp_path: Path
) -> None:
    """The result names a budget by a path of the machine that ran it."""
    directory = RunDirectory.create(tmp_path / "run")
    verdict = VerdictRecord(passed=True, budget="/nowhere/budget.toml", checks=())
    directory.write_result(msgspec.structs.replace(FINISHED, verdict=verdict))
    directory.write("trace.etdp", write_ed00(trace_of(RunSpec([EventSpec("relu", 10, 20)]))))
    budget = tmp_path / "budget.toml"
    budget.write_text("schema = 1\n")
    how = ReadOptions()
    run = evaluate_path(tmp_path / "run", budget, how)
    write_report(tmp_path / "b.zip", [run])
    budget.unlink()
    result = etharness("replay", tmp_path / "b.zip")
    assert result.code == (not run.passed), result.err
    assert "identical to the verdict of" in result.out


def test_what_was_given_beside_a_trace_is_in_the_bundle(
    etharness: Etharness, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    nodes = [node(f"op_{n}", "aten.relu.default", n + 1, "", f"layers.{n}") for n in range(2)]
    record = {
        "debug_handle_map": {"forward": {str(n): n + 1 for n in range(2)}},
        f"{EDGE}/forward": graph(nodes),
    }
    etrecord = write_record(home / "etrecord.bin", record)
    calls = [EventSpec(f"native_call_{n}", 10 * n, 10 * n + 5, instruction=n) for n in range(2)]
    delegated = EventSpec("npu", 1, 3, instruction=1, delegate="npu_1", metadata=b"\x07")
    trace = home / "trace.etdp"
    trace.write_bytes(write_ed00(trace_of(RunSpec([*calls, delegated]))))
    (home / "debug.bin").write_bytes(bytes(8))
    budget = home / "budget.toml"
    budget.write_text(
        "schema = 1\n[[module]]\nmodule = 'layers.1'\nlimit_us = 1\n"
        "[[time]]\nevent = 'npu'\nlimit_us = 1\n"
        "[[counter]]\ncounter = 'macs'\nevent = 'npu'\nlimit_count = 6\n"
    )
    arguments = ["check", trace, "--budget", budget, "--etrecord", etrecord, "--salvage"]
    arguments += ["--clock-hz", "1000000", "--clock-bits", "32", "--time-scale", "npu*=1 MHz"]
    arguments += ["--debug-buffer", home / "debug.bin", "--metadata", "npu*=macs:u8"]
    checked = etharness(*arguments, "--report", tmp_path / "b.zip", "--json")
    assert checked.code == 1
    measured = {check["code"]: check["measured"] for check in json.loads(checked.out)["checks"]}
    assert (measured["B07"], measured["B01"], measured["B13"]) == (5.0, 2.0, 7.0)
    shutil.rmtree(home)
    replayed = etharness("replay", tmp_path / "b.zip", "--json")
    assert replayed.code == 1
    again = json.loads(replayed.out)["verdict"]
    assert again["checks"] == json.loads(checked.out)["checks"]
    assert again["budget"] == "budget/budget.toml"


def test_a_file_of_a_run_directory_brings_all_of_it(etharness: Etharness, tmp_path: Path) -> None:
    directory = RunDirectory.create(tmp_path / "run")
    directory.write_result(FINISHED)
    directory.write("trace.etdp", write_ed00(trace_of(RunSpec([EventSpec("relu", 10, 20)]))))
    file = tmp_path / "b.zip"
    checked = etharness("check", tmp_path / "run/trace.etdp", "--report", file)
    manifest, _ = open_bundle(file)
    assert manifest.evaluated == "run/trace.etdp"
    assert "run/result.json" in {entry.name for entry in manifest.files}
    assert etharness("replay", file).code == checked.code


def test_names_that_do_not_fit_into_an_archive_are_said(tmp_path: Path) -> None:
    trace = tmp_path / "a:b.etdp"
    trace.write_bytes(write_ed00(trace_of(RunSpec([EventSpec("relu", 10, 20)]))))
    run = evaluate_path(trace)
    with pytest.raises(UsageError, match=r"cannot archive 'trace/a:b\.etdp'"):
        render_report("bundle.zip", [run])


def test_a_trace_alone_is_judged_as_of_the_board_and_model_that_are_said(
    etharness: Etharness, tmp_path: Path
) -> None:
    trace, budget = tmp_path / "trace.etdp", tmp_path / "budget.toml"
    trace.write_bytes(write_ed00(trace_of(RunSpec([EventSpec("relu", 10, 20)]))))
    rule = "[[for.time]]\nevent = 'relu'\nlimit_us = 0\n"
    budget.write_text(f"schema = 1\n[[for]]\nboard = 'native'\nmodel = 'kws*'\n{rule}")
    arguments = ["check", trace, "--budget", budget]
    assert etharness(*arguments).code == 0
    assert etharness(*arguments, "--board", "native").code == 0
    of = ["--board", "native", "--model", "some/kws.pte"]
    assert etharness(*arguments, *of, "--report", tmp_path / "b.zip").code == 1
    replayed = etharness("replay", tmp_path / "b.zip")
    assert replayed.code == 1
    assert "identical to the verdict of" in replayed.out
