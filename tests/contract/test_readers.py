"""Every file that a command reads may hold anything: the command says what is wrong with it.

A row of `READERS` is a kind of file and the command that reads it. Each file is damaged as bytes,
or value by value where it is a document.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import time
import tomllib
import zipfile
import zlib
from collections.abc import Callable, Iterable
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "tests/fixtures"
CASES = FIXTURES / "cases"
MODELS = ROOT / "firmware_stub/models"
TRACE = FIXTURES / "kws_f32_executorch.etdp"
SOUND = {0, 1, 2, 3, 4, 75}
"""Exit codes that say what is the matter; 70 is a defect."""

Etharness = Callable[..., Any]
Damage = Callable[[st.DataObject, bytes], bytes]

BYTES = [
    b"\xff\xfe",
    b"\x80",
    b"\0" * 9,
    b"-1",
    b"nan",
    b"1e999",
    b"9" * 400,
    b"[" * 5000,
    b'"',
    b"\n",
]
VALUES = [
    *(None, True, -1, 0, 2**31, 2**63, 2**64, 10**400, 0.5, -0.0),
    *(
        float("nan"),
        float("inf"),
        "",
        "\udc80",
        "\0\x1b[2J\n::error::",
        "x" * 5000,
        "../../x",
        "1e5",
    ),
    *([], {}, [[]], [None], {"": None}, [-1], ["\udc80"], [float("nan")]),
]
"""Of wrong types, sizes and ranges; a lone surrogate becomes a byte that is not UTF-8."""


def as_bytes(data: st.DataObject, content: bytes) -> bytes:
    """Cut a file short, change a bit, or put other bytes into it."""
    # Some files differ in length from run to run, such as leases with a process id.
    at = data.draw(st.integers(0, 2**16), "at") % max(len(content), 1)
    how = data.draw(st.sampled_from(["cut", "flip", "insert", "replace", "fill"]), "how")
    if how == "cut":
        return content[:at]
    if how == "flip":
        bit = 1 << data.draw(st.integers(0, 7), "bit")
        return content[:at] + bytes(byte ^ bit for byte in content[at : at + 1]) + content[at + 1 :]
    if how == "fill":
        size = data.draw(st.sampled_from([1, 2, 4, 8]), "size")
        filler = data.draw(st.sampled_from([b"\0", b"\x7f", b"\x80", b"\xff"]), "filler")
        return content[:at] + filler * size + content[at + size :]
    other = data.draw(st.sampled_from(BYTES), "other")
    return content[:at] + other + content[at + (len(other) if how == "replace" else 0) :]


def places(value: Any) -> list[tuple[Any, Any]]:
    """All values of a document: each with its container and its key."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    found = [(value, key) for key, _ in pairs]
    inner = value.values() if isinstance(value, dict) else value
    return found + [
        place for each in inner if isinstance(each, dict | list) for place in places(each)
    ]


def with_wrong_value(data: st.DataObject, document: Any) -> bytes:
    """Replace, remove or add a value of a document; return its JSON."""
    container, key = data.draw(st.sampled_from(places(document)), "place")
    how = data.draw(st.sampled_from(["replace", "replace", "replace", "remove", "add"]), "how")
    value = data.draw(st.sampled_from(VALUES), "value")
    if how == "remove":
        del container[key]
    elif how == "add" and isinstance(container, dict):
        container[data.draw(st.sampled_from(["later", "\udc80", ""]), "key")] = value
    else:
        container[key] = value
    return json.dumps(document, ensure_ascii=False).encode(errors="surrogateescape")


def as_json(data: st.DataObject, content: bytes) -> bytes:
    """Damage a JSON document, or its bytes."""
    if data.draw(st.integers(0, 3), "bytes") == 0:
        return as_bytes(data, content)
    return with_wrong_value(data, json.loads(content))


def as_result(data: st.DataObject, content: bytes) -> bytes:
    """Damage a result; its digest is right, so that the wrong value is read."""
    damaged = with_wrong_value(data, json.loads(content))
    try:
        document = json.loads(damaged)
        document.pop("digest", None)
        text = json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
        document["digest"] = hashlib.sha256(text).hexdigest()
        return json.dumps(document).encode()
    except (ValueError, AttributeError):
        return damaged


def as_toml(data: st.DataObject, content: bytes) -> bytes:
    """Replace the value of a line by one of another type or range, or damage bytes."""
    lines = content.decode().splitlines()
    tomllib.loads(content.decode())
    pairs = [number for number, line in enumerate(lines) if re.match(r"\w+ = [^\[{]*$", line)]
    if not pairs or data.draw(st.integers(0, 3), "bytes") == 0:
        return as_bytes(data, content)
    number = data.draw(st.sampled_from(pairs), "line")
    texts = [
        "-1",
        "0",
        "nan",
        "inf",
        "1e300",
        "9" * 30,
        '""',
        '"\udcff"',
        '"\\u0000\\u001b[2J"',
        "[]",
    ]
    value = data.draw(st.sampled_from([*texts, "{}", "true", "1979-05-27", "[[[]]]"]), "value")
    lines[number] = f"{lines[number].partition(' = ')[0]} = {value}"
    return "\n".join(lines).encode(errors="surrogateescape")


def as_zip(data: st.DataObject, content: bytes) -> bytes:
    """Damage a member of an archive, or its bytes."""
    if data.draw(st.integers(0, 3), "bytes") == 0:
        return as_bytes(data, content)
    members = unzipped(content)
    name = data.draw(st.sampled_from(sorted(name for name in members if members[name])), "member")
    is_json = members[name][:1] in (b"{", b"[")
    members[name] = (as_json if is_json else as_bytes)(data, members[name])
    return zipped(members)


def as_bundle(data: st.DataObject, content: bytes) -> bytes:
    """Damage a member of a bundle whose digests are all right."""
    members = unzipped(content)
    names = sorted(name for name in members if members[name] and not name.startswith("firmware"))
    name = data.draw(st.sampled_from(names), "member")
    damage: Damage = as_bytes
    if name.endswith(".json"):
        damage = as_result if name.endswith("result.json") else as_json
    members[name] = damage(data, members[name])
    if name != "manifest.json":
        manifest = json.loads(members["manifest.json"])
        for entry in manifest["files"]:
            entry["nbytes"] = len(members[entry["name"]])
            entry["sha256"] = hashlib.sha256(members[entry["name"]]).hexdigest()
        members["manifest.json"] = json.dumps(manifest).encode()
    body = zipped(members)
    digest = b"sha256:" + hashlib.sha256(body).hexdigest().encode()
    return body[:-2] + len(digest).to_bytes(2, "little") + digest


def unzipped(content: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def zipped(members: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return out.getvalue()


class Made(NamedTuple):
    """What a run leaves behind."""

    run: Path
    history: Path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """A run on the simulated board of this host, and its history."""
    folder = tmp_path_factory.mktemp("made")
    words = ["run", "--board", "native", "--model", "small_int8", "-o", "out"]
    words += ["--history", "history.sqlite"]
    done = subprocess.run(
        [sys.executable, "-m", "harness", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    return Made(folder / "out", folder / "history.sqlite")


@pytest.fixture(scope="module")
def bundle(made: Made) -> Path:
    """The bundle of that run."""
    file = made.run.with_suffix(".zip")
    words = ("report", str(made.run), "-o", str(file))
    subprocess.run([sys.executable, "-m", "harness", *words], check=True)
    return file


@cache
def read(file: Path) -> bytes:
    return file.read_bytes()


BOARD = read(ROOT / "boards/native.toml").replace(b'budget = "budgets/default.toml"\n', b"")
BUDGET = b"""schema = 1
[[time]]
event = "Method::execute"
statistic = "p50"
limit_us = 5.0
severity = "warning"
expires = "2030-01-01"
reason = "later"
"""
UNITS = b"""schema = 1
[[unit]]
id = "one"
board = "native"
"""
PLAN = b"""schema = 1
name = "try"
output = "nights"
[run]
runs = 2
[[board]]
board = "native"
[[model]]
file = "%b"
""" % os.fsencode(MODELS / "small_int8.pte")


ETRECORD = {
    **unzipped(read(CASES / "etrecord_not_utf8.rec")),
    "delegate_map": b'{"forward": {"0": {"name": "XnnpackBackend", "delegate_map": {"1": [2]}}}}',
}


class Reader(NamedTuple):
    """A command that reads a file.

    Attributes:
        name: Name of the file for the command.
        damage: How its content is changed.
        content: Its content, if no run made it.
        commands: Words of each command; FILE stands for the file.
    """

    name: str
    damage: Damage
    content: bytes
    commands: tuple[tuple[str | Path, ...], ...]


READERS = {
    "ETDump": Reader("a.etdp", as_bytes, read(TRACE), (("decode", "FILE"), ("check", "FILE"))),
    "salvaged ETDump": Reader("a", as_bytes, read(TRACE), (("decode", "FILE", "--salvage"),)),
    "capture": Reader(
        *("a.log", as_bytes, read(CASES / "console_unpadded.log")),
        (("decode", "FILE"), ("decode", "FILE", "--salvage")),
    ),
    "model": Reader("a.pte", as_bytes, read(MODELS / "kws_f32.pte"), (("inspect", "FILE"),)),
    "model of a trace": Reader(
        *("a.pte", as_bytes, read(MODELS / "kws_f32.pte")),
        (("decode", TRACE, "--model", "FILE", "--memory", "--json"),),
    ),
    "bundled program": Reader(
        "a.bpte", as_bytes, read(FIXTURES / "two_methods.bpte"), (("inspect", "FILE", "--json"),)
    ),
    "ETRecord": Reader(
        *("a.rec", as_zip, zipped(ETRECORD)),
        (("decode", TRACE, "--etrecord", "FILE"),),
    ),
    "debug buffer": Reader(
        "a.bin", as_bytes, bytes(64), (("decode", TRACE, "--debug-buffer", "FILE"),)
    ),
    "board": Reader(
        "native.toml", as_toml, BOARD, (("inspect", MODELS / "small_int8.pte", "--board", "FILE"),)
    ),
    "budget": Reader("b.toml", as_toml, BUDGET, (("check", TRACE, "--budget", "FILE"),)),
    "units": Reader("u.toml", as_toml, UNITS, (("lab", "units", "--units", "FILE", "--json"),)),
    "plan": Reader("p.toml", as_toml, PLAN, (("nightly", "FILE", "--dry-run"),)),
    "image": Reader(
        *("a.hex", as_bytes, b":0400000001020304F2\n:00000001FF\n"),
        (("flash", "--board", "nucleo-h743zi", "--image", "FILE", "--dry-run", "--no-identity"),),
    ),
    "external data": Reader(
        *("a.ptd", as_bytes, read(FIXTURES / "external_data/all.ptd")),
        (("inspect", FIXTURES / "external_data/all.pte", "--data", "FILE", "--json"),),
    ),
    "postmortem": Reader("a", as_bytes, b"ETPM" + bytes(600), (("postmortem", "FILE"),)),
}

EXTENSIONS = {
    "plan": "lab",
    "units": "lab",
    "postmortem": "postmortem",
    "external data": "external_data",
}
"""Kinds that only an extension reads."""


def kinds(of: Iterable[str]) -> list[Any]:
    """Return parameters of tests."""
    marks = {kind: [pytest.mark.extension(name)] for kind, name in EXTENSIONS.items()}
    return [pytest.param(kind, marks=marks.get(kind, [])) for kind in sorted(of)]


@pytest.mark.long
@pytest.mark.parametrize("kind", kinds(set(READERS) - {"postmortem", "debug buffer", "ETRecord"}))
def test_an_intact_file_is_read(etharness: Etharness, tmp_path: Path, kind: str) -> None:
    reader = READERS[kind]
    file = tmp_path / reader.name
    file.write_bytes(reader.content)
    for command in reader.commands:
        result = etharness(*(file if word == "FILE" else word for word in command))
        assert result.code in (0, 1), result.err


def check_said(result: Any) -> None:
    """Check that a command ended as declared, and said why if it did not do what was asked."""
    assert result.code in SOUND, result.err
    assert "Traceback" not in result.err
    # A wrong number in a result may also make its clock contradict itself: a verdict of 4.
    assert result.code in (0, 1) or "error: " in result.err or "FAIL: " in result.out


FEWER = settings(
    max_examples=max(5, settings.default.max_examples // 5) if settings.default else 20,
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.long
@pytest.mark.attack("Files", "any damage of a file that a command reads", "an error, no traceback")
@pytest.mark.parametrize("kind", kinds(READERS))
@FEWER
@given(data=st.data())
def test_a_damaged_file_is_an_error(
    etharness: Etharness, tmp_path: Path, kind: str, data: st.DataObject
) -> None:
    reader = READERS[kind]
    file = tmp_path / reader.name
    file.write_bytes(reader.damage(data, reader.content))
    for command in reader.commands:
        check_said(etharness(*(file if word == "FILE" else word for word in command)))


@pytest.mark.long
@pytest.mark.attack("Files", "any damage of a file of a run directory", "an error, no traceback")
@pytest.mark.parametrize("name", ["result.json", "trace.etlog", "trace.etdp", "outputs/0.npy"])
@FEWER
@given(data=st.data())
def test_a_damaged_run_is_an_error(
    etharness: Etharness, tmp_path: Path, made: Made, name: str, data: st.DataObject
) -> None:
    run = tmp_path / "run"
    shutil.rmtree(run, ignore_errors=True)
    shutil.copytree(made.run, run)
    damage = as_result if name == "result.json" else as_bytes
    (run / name).write_bytes(damage(data, (run / name).read_bytes()))
    check_said(etharness("check", run))
    check_said(etharness("decode", run))
    check_said(etharness("report", run, "-o", tmp_path / "report.json"))
    if name != "result.json":
        check_said(etharness("decode", run / name))


@pytest.mark.long
@pytest.mark.extension("bundles")
@FEWER
@given(data=st.data())
def test_a_damaged_bundle_is_an_error(
    etharness: Etharness, tmp_path: Path, bundle: Path, data: st.DataObject
) -> None:
    file = tmp_path / "run.zip"
    file.write_bytes(as_bundle(data, read(bundle)))
    check_said(etharness("replay", file))


@pytest.mark.extension("history")
@pytest.mark.long
@FEWER
@given(data=st.data())
def test_a_damaged_history_is_an_error(
    etharness: Etharness, tmp_path: Path, made: Made, data: st.DataObject
) -> None:
    file = tmp_path / "history.sqlite"
    file.write_bytes(as_bytes(data, read(made.history)))
    check_said(etharness("history", "list", "--history", file))
    check_said(etharness("history", "show", "*", "--history", file))


def journal_of(data: st.DataObject, content: bytes) -> bytes:
    """Damage a record of a journal whose checksum is right, or the bytes of the journal."""
    if data.draw(st.booleans(), "bytes"):
        return as_bytes(data, content)
    lines = content.splitlines(keepends=True)
    number = data.draw(st.integers(0, len(lines) - 1), "line")
    head, _, record = lines[number].partition(b'"record":')
    assert head.startswith(b'{"crc":"')
    record = with_wrong_value(data, json.loads(record[:-2]))
    lines[number] = b'{"crc":"%08x","record":%b}\n' % (zlib.crc32(record), record)
    return b"".join(lines)


@pytest.mark.extension("lab")
@pytest.mark.long
@FEWER
@given(data=st.data())
def test_a_damaged_journal_is_an_error(
    etharness: Etharness, tmp_path: Path, night: Path, data: st.DataObject
) -> None:
    folder = tmp_path / "night"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(night, folder)
    [journal] = folder.glob("nights/*/journal.jsonl")
    # The night has not ended, so that the same command resumes it.
    unfinished = b"".join(journal.read_bytes().splitlines(keepends=True)[:-1])
    journal.write_bytes(journal_of(data, unfinished))
    result = etharness("nightly", folder / "plan.toml")
    assert result.code in {*SOUND, 71, 74, 76}, result.err
    assert "Traceback" not in result.err


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a nightly run."""
    folder = tmp_path_factory.mktemp("night")
    (folder / "plan.toml").write_bytes(PLAN)
    done = subprocess.run(
        [sys.executable, "-m", "harness", "nightly", "plan.toml"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=False,
    )
    assert list(folder.glob("nights/*/journal.jsonl")), done.stderr
    return folder


@pytest.mark.extension("lab")
@pytest.mark.long
@FEWER
@given(data=st.data())
def test_a_damaged_lease_is_an_error_or_none(
    etharness: Etharness,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    data: st.DataObject,
) -> None:
    locks, units = tmp_path / "locks", tmp_path / "units.toml"
    shutil.rmtree(locks, ignore_errors=True)
    monkeypatch.setenv("ETHARNESS_LOCK_DIR", str(locks))
    units.write_bytes(UNITS)
    leased = etharness("lab", "lease", "one", "--for", "1h", "--reason", "x", "--units", units)
    assert leased.code == 0, leased.err
    records = sorted(locks.glob("*.json"))
    record = data.draw(st.sampled_from(records), "record")
    record.write_bytes(as_json(data, record.read_bytes()))
    for words in (["units"], ["who"], ["status"], ["status", "--json"], ["release", "one"]):
        check_said(etharness("lab", *words, "--units", units))


@pytest.mark.long
@pytest.mark.extension("bisect")
@FEWER
@given(data=st.data())
def test_a_damaged_bisection_is_an_error(
    etharness: Etharness, tmp_path: Path, data: st.DataObject
) -> None:
    commits = [{"sha": digit * 40, "subject": digit} for digit in "ab"]
    request = {"commits": commits, "command": ["false"], "folder": ".", "metric": "execution"}
    request |= {"change": None, "max_runs": 50, "retries": 0, "timeout_s": 1800.0}
    request |= {"started_utc": "2026-11-26T19:00:17+00:00"}
    run = {"commit": "a" * 40, "outcome": "skipped", "exit_code": 1, "seconds": 0.1, "reason": "x"}
    content = json.dumps({"request": request, "runs": [run], "schema": 1}).encode()
    file = tmp_path / "bisect.json"
    file.write_bytes(content)
    assert etharness("bisect", "--status", "-o", tmp_path).code in (0, 3)
    file.write_bytes(as_json(data, content))
    check_said(etharness("bisect", "--status", "-o", tmp_path))


@pytest.fixture(scope="module")
def qualification(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The record of a qualification of one stage."""
    folder = tmp_path_factory.mktemp("qualification")
    words = ["qualify", "--board", "native", "--quick", "--only", "link", "-o", "out"]
    done = subprocess.run(
        [sys.executable, "-m", "harness", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=False,
    )
    assert (folder / "out/qualification.json").exists(), done.stderr
    return (folder / "out/qualification.json").read_bytes()


@pytest.mark.long
@pytest.mark.sim
@pytest.mark.extension("qualify")
@FEWER
@given(data=st.data())
def test_a_damaged_qualification_is_an_error(
    etharness: Etharness, tmp_path: Path, qualification: bytes, data: st.DataObject
) -> None:
    (tmp_path / "qualification.json").write_bytes(as_json(data, qualification))
    words = ("qualify", "--board", "native", "--quick", "--only", "link", "--resume")
    result = etharness(*words, "-o", tmp_path)
    assert result.code in SOUND, result.err
    assert "Traceback" not in result.err


@pytest.mark.long
@pytest.mark.sim
@FEWER
@given(data=st.data())
def test_a_damaged_recording_of_a_meter_is_an_error(
    etharness: Etharness, tmp_path: Path, data: st.DataObject
) -> None:
    rows = [f"{n / 10:.1f},{1000 + n},{n % 2}" for n in range(40)]
    content = "\n".join(["Timestamp(ms),Current(uA),D0", *rows, ""]).encode()
    file = tmp_path / "power.csv"
    file.write_bytes(as_bytes(data, content))
    soon = time.time() + 3600  # as if it was exported after the run
    os.utime(file, (soon, soon))
    words = ("run", "--board", "native", "--model", "small_int8", "--volts", "3")
    check_said(etharness(*words, "--energy", f"csv:{file}", "-o", tmp_path / "out"))


@pytest.mark.extension("history")
@pytest.mark.parametrize("text", ["[", "\udc80", '{"a": 1}', "9" * 30])
def test_damaged_texts_of_a_history_are_an_error(
    etharness: Etharness, tmp_path: Path, made: Made, text: str
) -> None:
    file = tmp_path / "history.sqlite"
    shutil.copy(made.history, file)
    with closing(sqlite3.connect(file)) as database:
        tables = [
            name
            for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        changed = 0
        for table in tables:
            columns = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
            for column in columns:
                new = sqlite3.Binary(b"\x80") if text == "\udc80" else text
                changed += database.execute(
                    f"UPDATE {table} SET {column} = CAST(? AS TEXT) "
                    f"WHERE typeof({column}) = 'text' AND substr({column}, 1, 1) IN ('[', '{{')",
                    (new,),
                ).rowcount
        database.commit()
    assert changed
    check_said(etharness("history", "list", "--history", file))
    check_said(etharness("history", "show", "*", "--history", file))
    check_said(etharness("check", made.run, "--history", file, "--baseline", "last:1"))


@pytest.mark.parametrize(
    ("case", "words", "code"),
    [
        pytest.param(
            *("bundle_negative_clock_bits.zip", ("replay", "FILE"), 2),
            marks=pytest.mark.extension("bundles"),
        ),
        ("etrecord_not_utf8.rec", ("decode", TRACE, "--etrecord", "FILE"), 2),
        ("operator_not_utf8.pte", ("inspect", "FILE"), 0),
        ("operator_not_utf8.pte", ("inspect", "FILE", "--json"), 0),
    ],
)
def test_known_cases(
    etharness: Etharness, case: str, words: tuple[str | Path, ...], code: int
) -> None:
    result = etharness(*(CASES / case if word == "FILE" else word for word in words))
    assert result.code == code, result.err
    assert (code == 0) == (result.err == "")


@pytest.mark.parametrize("output", ["FILE/x", "/proc/x"])
@pytest.mark.parametrize(
    "command",
    [
        ("run", "--board", "native", "--model", "small_int8", "-o"),
        ("build", "--board", "native", "-o"),
        pytest.param(("decode", TRACE, "--tsv"), marks=pytest.mark.extension("inspector")),
        ("export", TRACE, "-f", "ed00", "-o"),
        ("report", TRACE, "-o"),
    ],
)
def test_an_output_that_cannot_be_there_is_named(
    etharness: Etharness, tmp_path: Path, command: tuple[str | Path, ...], output: str
) -> None:
    file = tmp_path / "file"
    file.touch()
    place = output.replace("FILE", str(file))
    place += ".json" if command[0] == "report" else ""
    code, _, err = etharness(*command, place)
    assert code == 2, err
    assert err.startswith("error: ")
    assert str(Path(place).parent) in err.splitlines()[0]
    assert not err.startswith("error: cannot use "), "the words of last resort"


def test_a_number_of_more_than_64_bits_is_damage(
    etharness: Etharness, tmp_path: Path, made: Made
) -> None:
    run = tmp_path / "run"
    shutil.copytree(made.run, run)
    document = json.loads((run / "result.json").read_bytes())
    document["pings"][0]["host_before_ns"] = 1 << 64
    (run / "result.json").write_text(json.dumps(document))
    code, _, err = etharness("check", run)
    assert code == 2
    assert "the number 18446744073709551616 needs more than 64 bits" in err


def test_a_memory_pool_may_hold_no_tensor(etharness: Etharness, tmp_path: Path) -> None:
    data = bytearray(read(FIXTURES / "two_methods.bpte"))
    data[284] ^= 1  # no list of instructions, so no tensor lives
    file = tmp_path / "a.bpte"
    file.write_bytes(data)
    check_said(etharness("inspect", file))


def test_inputs_of_machines_with_another_byte_order(etharness: Etharness, tmp_path: Path) -> None:
    values = np.linspace(-1, 1, 490, dtype="f4").reshape(1, 1, 49, 10)
    outputs = []
    for order in "<>":
        file, run = tmp_path / "input.npy", tmp_path / f"run{len(outputs)}"
        np.save(file, values.astype(f"{order}f4"))
        code, _, err = etharness(
            *("run", "--board", "native", "--model", "kws_int8", "--runs", "1"),
            *("--input", file, "-o", run),
        )
        assert code == 0, err
        outputs.append((run / "outputs/0.npy").read_bytes())
    assert outputs[0] == outputs[1]
