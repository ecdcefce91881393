"""A password in the address of a history is shown by no command and written to no file."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import harness

Etharness = Callable[..., Any]

PASSWORD = "hunter2-s3cret"
SECRETS = (PASSWORD, "keyp4ss", "p4ssfile")
QUERY = f"password={PASSWORD}&sslpassword=keyp4ss&passfile=/none/p4ssfile"
CLOSED = "127.0.0.1:9"

ADDRESSES = {
    "query": f"postgresql://lab@{CLOSED}/db?connect_timeout=2&{QUERY}",
    "user": f"postgresql://lab:{PASSWORD}@{CLOSED}/db?connect_timeout=2",
    "driver": f"postgresql+psycopg://lab:{PASSWORD}@{CLOSED}/db?connect_timeout=2",
    "port": f"postgresql://lab:{PASSWORD}",
    "quoted by libpq": f"postgresql://lab@{CLOSED}/db?ssl_min_protocol_version={PASSWORD}",
    "unknown key": f"postgresql://lab@{CLOSED}/db?pasword={PASSWORD}",
    "at sign": f"postgresql://lab:x@{PASSWORD}@{CLOSED}/db",
    "slash": f"postgresql:/lab:{PASSWORD}@{CLOSED}/db",
    "keywords": f"host=127.0.0.1 port=9 password={PASSWORD}",
    "database": f"mysql://lab:{PASSWORD}@{CLOSED}/db",
    "scheme": f"my sql://lab:{PASSWORD}@{CLOSED}/db",
}

CHANGE = ["peak", "--all", "--board", "native", "--reason", "r"]

RUN = ["run", "--board", "native", "--model", "small_int8", "-o", "run"]

COMMANDS: dict[str, list[str]] = {
    "run against": [*RUN, "--baseline", "last:5"],
    "check": ["check", "trace", "--baseline", "last:5"],
    "report": ["report", "trace", "-o", "report.html", "--baseline", "last:5"],
    "info": ["history", "info"],
    "info --json": ["history", "info", "--json"],
    "add": ["history", "add", "trace"],
    "list": ["history", "list"],
    "list -vv": ["history", "list", "-vv"],
    "show": ["history", "show", "--board", "native", "--model", "small_int8"],
    "export": ["history", "export", "-o", "all.csv", "--force"],
    "prune": ["history", "prune", "--keep", "1"],
    "accept": ["history", "accept", *CHANGE],
    "ignore": ["history", "ignore", *CHANGE, "--until", "2100-01-01"],
    "reopen": ["history", "reopen", *CHANGE],
    "baseline list": ["history", "baseline", "list"],
    "baseline set": ["history", "baseline", "set", "v1", "--last", "1"],
    "baseline remove": ["history", "baseline", "remove", "v1"],
}

PLAN = """
schema = 1
output = "nights"
reports = ["night.html", "night.md", "night.xml", "night.json"]
history = {history!r}
[[board]]
board = "native"
[[model]]
file = "small_int8.pte"
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in: all files that commands write are in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ETHARNESS_HISTORY", "")
    return tmp_path


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run directory."""
    directory = tmp_path_factory.mktemp("measured") / "trace"
    harness.run("small_int8", "native", output=directory)
    return directory


@pytest.fixture
def trace(folder: Path, measured: Path) -> Path:
    return shutil.copytree(measured, folder / "trace")


def readable(folder: Path) -> Iterator[bytes]:
    for file in folder.rglob("*"):
        yield os.fsencode(file.name)
        if file.is_file():
            yield file.read_bytes()


def assert_hidden(*texts: str | bytes) -> None:
    for text in texts:
        data = text if isinstance(text, bytes) else text.encode()
        for secret in SECRETS:
            assert secret.encode() not in data


@pytest.mark.extension("history")
@pytest.mark.long
@pytest.mark.parametrize("address", ADDRESSES)
def test_no_failure_shows_a_secret(
    address: str, trace: Path, etharness: Etharness, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    for command in COMMANDS.values():
        said = etharness(*command, "--history", ADDRESSES[address])
        assert said.code in (2, 75), said.err
        assert said.err.startswith("error: ")
        assert "--help" not in said.err
        assert_hidden(said.out, said.err)
    assert_hidden(caplog.text, *readable(trace.parent))


@pytest.mark.parametrize("address", ["query", "user"])
def test_a_run_that_cannot_be_added_hides_it(
    address: str, folder: Path, etharness: Etharness, caplog: pytest.LogCaptureFixture
) -> None:
    said = etharness(*RUN, "-o", folder / "run", "--history", ADDRESSES[address])
    assert said.code == 75
    assert "cannot add the result to the history: postgresql://lab" in said.err
    assert_hidden(said.out, said.err, caplog.text, *readable(folder))


@pytest.mark.extension("history")
@pytest.mark.extension("web")
@pytest.mark.parametrize("address", ADDRESSES)
def test_no_address_is_shown_wherever_it_comes_from(
    address: str, folder: Path, etharness: Etharness, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = ADDRESSES[address]
    said = [etharness("site", url, "-o", "site"), etharness("history", "copy", url, "there.sqlite")]
    said += [etharness("history", "copy", "here.sqlite", url)]
    monkeypatch.setenv("ETHARNESS_HISTORY", url)
    said += [etharness("history", "list"), etharness("history", "info", "--json")]
    monkeypatch.delenv("ETHARNESS_HISTORY")
    assert {one.code for one in said} <= {2, 75}
    assert_hidden(*(text for one in said for text in (one.out, one.err)), *readable(folder))
    (folder / "pyproject.toml").write_text(f"[tool.etharness]\nhistory = {url!r}\n")
    one = etharness("history", "list")
    assert one.code in (2, 75)
    assert_hidden(one.out, one.err)


@pytest.mark.parametrize("address", ADDRESSES)
def test_an_error_of_the_api_hides_it_with_all_its_causes(address: str, folder: Path) -> None:
    import traceback

    with pytest.raises(harness.HarnessError) as caught:
        harness.run("small_int8", "native", output=folder / "run", history=ADDRESSES[address])
    assert_hidden(*traceback.format_exception(caught.value), repr(caught.value))


@pytest.mark.extension("ci")
@pytest.mark.extension("lab")
@pytest.mark.sim
@pytest.mark.long
@pytest.mark.extension("web")
@pytest.mark.parametrize("address", ["query", "user", "keywords"])
def test_a_night_hides_it(address: str, folder: Path, etharness: Etharness) -> None:
    shutil.copy(Path(str(harness.__file__)).parents[1] / MODEL, folder)
    plan = folder / "plan.toml"
    plan.write_text(PLAN.format(history=ADDRESSES[address]))
    said = [etharness("nightly", plan, "--site", "site", "--json")]
    if address == "user":
        plan.write_text(PLAN.format(history=ADDRESSES["user"].replace("/db", "/other")))
        said += [etharness("nightly", plan, "-v")]
    assert {one.code for one in said} <= {2, 71}
    plan.unlink()
    assert_hidden(*(text for one in said for text in (one.out, one.err)), *readable(folder))


MODEL = "firmware_stub/models/small_int8.pte"


@pytest.mark.extension("history")
@pytest.mark.extension("ci")
@pytest.mark.extension("lab")
@pytest.mark.sim
@pytest.mark.long
@pytest.mark.extension("web")
@pytest.mark.parametrize("how", ["query", "user"])
def test_what_succeeds_hides_it(
    how: str, postgresql: Any, trace: Path, etharness: Etharness
) -> None:
    url = postgresql.new_database()
    if how == "query":
        url += f"&{QUERY}"
    else:
        url = url.replace("postgres@", f"postgres:{PASSWORD}@")
    said = [etharness("history", "add", trace, "--history", url)]
    assert said[0].code == 0, said[0].err
    for name, command in COMMANDS.items():
        if name not in ("accept", "ignore", "reopen"):
            said.append(etharness(*command, "--history", url))
    said.append(etharness("site", url, "-o", "site"))
    said.append(etharness("history", "copy", url, "copy.sqlite"))
    said.append(etharness("report", trace, "-o", "run.zip", "--history", url))
    assert [one.err for one in said if one.code not in (0, 1, 3)] == []
    assert any("postgresql://" in one.out for one in said)
    folder = trace.parent
    shutil.copy(Path(str(harness.__file__)).parents[1] / MODEL, folder)
    plan = folder / "plan.toml"
    plan.write_text(PLAN.format(history=url))
    said.append(etharness("nightly", plan, "--site", "tonight"))
    assert said[-1].code == 0, said[-1].err
    assert "updates of the site failed" not in said[-1].err
    assert (folder / "tonight/tonight.html").exists()
    plan.unlink()
    assert_hidden(*(text for one in said for text in (one.out, one.err)), *readable(folder))


SAFE = st.text("abcdefghijklmnopqrstuvwxyz0123456789", min_size=1, max_size=8)
ANY = st.text(st.characters(codec="ascii", exclude_characters="\0"), min_size=1, max_size=12)


@given(user=SAFE, secret=ANY, query=st.booleans(), database=SAFE)
def test_any_password_is_hidden(user: str, secret: str, query: bool, database: str) -> None:
    """Whatever stands where a password may be, encoded or not, no error shows it."""
    marked = f"S3C{secret}R3T"
    end = "connect_timeout=2&sslmode=wrong"  # refused before anything is connected
    url = f"postgresql://{user}:{marked}@127.0.0.1:9/{database}?{end}"
    if query:
        url = f"postgresql://{user}@127.0.0.1:9/{database}?{end}&password={marked}"
    with pytest.raises(harness.HarnessError) as caught:
        harness.run("small_int8", "native", history=url, baseline="last:3")
    text = f"{caught.value} {caught.value.hint}"
    assert "S3C" not in text
    assert "R3T" not in text
