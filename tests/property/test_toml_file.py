"""TOML files: every key has a place, and it is the place where that key stands."""

from __future__ import annotations

import contextlib
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import UsageError
from harness.config.toml_file import Document, read_document
from tests.conftest import ROOT
from tests.support.examples import examples

TEXTS = st.text(st.sampled_from("ab=[]{}#.,'\" \t\\é\n"), max_size=6)
BARE = st.text(st.sampled_from("abz09_-"), min_size=1, max_size=3)
SPACES = st.sampled_from(["", " ", "\t"])
ENDS = st.sampled_from(["\n", "\r\n", " # 'a' = [[b]] \"\n", "\n\n  # x\n"])


def basic(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


@st.composite
def keys(draw: st.DrawFn) -> str:
    """A key, bare or quoted, dotted or not."""
    part = st.one_of(BARE, TEXTS.map(basic), BARE.map(lambda name: f"'{name} .'"))
    return f"{draw(SPACES)}.{draw(SPACES)}".join(draw(st.lists(part, min_size=1, max_size=3)))


def multi_line(text: str) -> str:
    body = text.replace("\\", "\\\\").replace('"""', '\\"""').rstrip('"')
    return f'"""\n{body}{{}}"""'


STRINGS = st.one_of(
    TEXTS.map(basic),
    TEXTS.map(lambda text: "'" + text.replace("'", "").replace("\n", "") + "'"),
    st.builds(
        lambda text, tail: multi_line(text).format(tail), BARE, st.sampled_from(["", '"', '""'])
    ),
    st.builds(
        lambda text, tail: f"'''{text}\n[a]{tail}'''", BARE, st.sampled_from(["", "'", "''"])
    ),
)
SCALARS = st.one_of(
    STRINGS,
    st.sampled_from(
        ["1", "-2.5e3", "inf", "true", "0x1F", "1979-05-27", "1979-05-27T07:32:00Z", "07:32:00"]
    ),
    st.just("1979-05-27 07:32:00.5"),
)


def arrays(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    glue = st.sampled_from([",", " , ", ",\n  ", ", # ]\n"])
    return st.builds(lambda parts, by: f"[{by.join(parts)}]", st.lists(inner, max_size=3), glue)


def inline(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    pairs = st.lists(st.tuples(keys(), inner), max_size=3)
    return pairs.map(lambda items: "{" + ", ".join(f"{k} = {v}" for k, v in items) + "}")


VALUES = st.recursive(SCALARS, lambda inner: arrays(inner) | inline(inner), max_leaves=5)


@st.composite
def documents(draw: st.DrawFn) -> str:
    """Lines that make a document, as far as ``tomllib`` takes them."""
    text = draw(st.sampled_from(["", "# no key here: a = 1\n"]))
    for _ in range(draw(st.integers(1, 6))):
        indent, end = draw(SPACES), draw(ENDS)
        line = draw(
            st.one_of(
                st.builds(lambda k, v: f"{k} = {v}", keys(), VALUES),
                keys().map(lambda key: f"[{key}]"),
                keys().map(lambda key: f"[[ {key} ]]"),
                st.just("[[t]]"),
                st.just("[t.u]"),
            )
        )
        try:
            tomllib.loads(candidate := text + indent + line + end)
        except tomllib.TOMLDecodeError:
            continue
        text = candidate
    return text


Keys = tuple[str | int, ...]


def all_keys(data: Any, above: Keys = ()) -> set[Keys]:
    """Keys of everything in a document."""
    items = data.items() if isinstance(data, dict) else enumerate(data)
    found: set[Keys] = set()
    for key, value in items:
        found.add((*above, key))
        if isinstance(value, dict | list):
            found |= all_keys(value, (*above, key))
    return found


@given(documents())
@settings(max_examples=examples(60))
def test_every_key_has_a_place_and_stands_there(text: str) -> None:
    data = tomllib.loads(text)
    positions = Document(Path("x.toml"), text, data).positions
    assert set(positions) == all_keys(data)
    lines = text.split("\n")
    for place, (line, column) in positions.items():
        offset = sum(len(each) + 1 for each in lines[: line - 1]) + column - 1
        name = place[-1]
        if isinstance(name, str) and text[offset] != "[":
            assert name in names_at(text[offset:].partition("\n")[0])


def names_at(line: str) -> set[str]:
    """The keys that a line may begin with."""
    if line[0] not in "\"'":
        match = re.match("[A-Za-z0-9_-]+", line)
        return {match[0]} if match else set()
    found = set()
    for end in range(2, len(line) + 1):
        if line[end - 1] == line[0]:
            with contextlib.suppress(tomllib.TOMLDecodeError):
                found.add(tomllib.loads(f"key = {line[:end]}")["key"])
    return found


@pytest.mark.parametrize("folder", ["boards", "boards/budgets", "schema", "firmware_stub"])
def test_files_of_this_project_have_places_for_all_their_keys(folder: str) -> None:
    room, _, rest = folder.partition("/")
    for path in sorted((ROOT / room / rest).glob("*.toml")):
        document = read_document(path)
        assert set(document.positions) == all_keys(document.data)


@pytest.mark.attack(
    "Arguments and scripts", "any text instead of TOML", "exit code 2, with line and column"
)
@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"a = 1\nb = = 2\n", "x.toml:2:5: not valid TOML: Invalid value"),
        (b"a = '\xff'", "x.toml:1:6: not valid TOML"),
    ],
)
def test_what_is_no_toml_is_refused_by_place(data: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_bytes(data)
    with pytest.raises(UsageError) as raised:
        read_document(tmp_path / "x.toml")
    assert said in raised.value.message


def test_a_directory_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: Is a directory"):
        read_document(tmp_path)
