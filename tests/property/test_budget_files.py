"""Budget files: the same rules, however they are divided among files and sections."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import Budget, HarnessError
from tests.support.examples import examples

LIMITS = st.sampled_from(
    ["limit_us = 5", "limit_ticks = 6", "at_least_ms = 1", "limit_percent = 7"]
)
TAILS = st.sampled_from(["", "severity = 'note'\n", "optional = true\n", "severity = 'off'\n"])
RULES = st.one_of(
    st.builds(
        lambda event, limit, tail: ("time", f"event = '{event}'\n{limit}\n{tail}"),
        st.sampled_from(["a", "b*"]),
        LIMITS,
        TAILS,
    ),
    st.builds(lambda limit: ("time", f"event = 'c'\nid = 'x'\n{limit}\n"), LIMITS),
    st.builds(
        lambda name: ("allocator", f"name = '{name}'\nlimit_bytes = 9\n"), st.sampled_from("ab")
    ),
)
SINGLES = st.dictionaries(
    st.sampled_from(["stack", "trace", "arena"]),
    st.sampled_from(["limit_bytes = 1", "limit_percent = 2", "limit_bytes = 3\noptional = true"]),
)
CODES = st.dictionaries(st.sampled_from(["B01", "B05"]), st.sampled_from(["'off'", "'note'"]))
PATTERNS = st.sampled_from(["*", "qemu-*", "native", "*e"])


@st.composite
def parts(draw: st.DrawFn) -> dict[str, Any]:
    """Rules that may stand at the top of a file or in a section."""
    rules = draw(st.lists(RULES, max_size=3, unique_by=lambda rule: "id" in rule[1] or rule))
    return {
        "rules": rules,
        "singles": draw(SINGLES),
        "codes": draw(CODES),
        "board": draw(PATTERNS),
    }


def text(part: dict[str, Any], prefix: str = "") -> str:
    lines = [f"[[{prefix}{kind}]]\n{fields}" for kind, fields in part["rules"]]
    lines += [f"[{prefix}{name}]\n{fields}\n" for name, fields in part["singles"].items()]
    lines += [f"[{prefix}severity]\n"] if part["codes"] else []
    lines += [f"{code} = {severity}\n" for code, severity in part["codes"].items()]
    return "".join(lines)


def said(path: Path, board: str = "native") -> Any:
    """The rules without the places where they stand, or that they do not suffice."""
    try:
        budget = Budget.load(path, board)
    except HarnessError as error:
        return error.message.partition("[")[2]
    return msgspec.structs.replace(budget, files=(), lines={})


@given(st.lists(parts(), min_size=1, max_size=4), st.sampled_from(["native", "qemu-riscv32-virt"]))
@settings(max_examples=examples(60))
def test_sections_that_match_are_as_files_that_extend_each_other(
    tmp_path_factory: pytest.TempPathFactory, layers: list[dict[str, Any]], board: str
) -> None:
    home = tmp_path_factory.mktemp("budgets")
    first, *others = layers
    sections = "".join(
        f"[[for]]\nboard = '{part['board']}'\n{text(part, 'for.')}" for part in others
    )
    (home / "sections.toml").write_text(f"schema = 1\n{text(first)}{sections}")
    chosen = [first, *(part for part in others if fnmatchcase(board, part["board"]))]
    for number, part in enumerate(chosen):
        extends = f"extends = '{number - 1}.toml'\n" if number else ""
        (home / f"{number}.toml").write_text(f"schema = 1\n{extends}{text(part)}")
    last = home / f"{len(chosen) - 1}.toml"
    assert said(home / "sections.toml", board) == said(last, board)
    named = [f"{number}.toml" for number in range(len(chosen))]
    (home / "list.toml").write_text(f"schema = 1\nextends = {named}\n")
    assert said(home / "list.toml", board) == said(last, board)
    (home / "only.toml").write_text(f"schema = 1\nextends = '{last.name}'\n")
    assert said(home / "only.toml", board) == said(last, board)


@given(parts(), parts())
@settings(max_examples=examples(40))
def test_every_field_has_the_place_of_the_file_that_gives_it(
    tmp_path_factory: pytest.TempPathFactory, base: dict[str, Any], own: dict[str, Any]
) -> None:
    home = tmp_path_factory.mktemp("budgets")
    (home / "base.toml").write_text(f"schema = 1\n{text(base)}")
    (home / "own.toml").write_text(f"schema = 1\nextends = 'base.toml'\n{text(own)}")
    try:
        budget = Budget.load(home / "own.toml")
    except HarnessError:
        return
    assert isinstance(budget, Budget)
    for (*_, field), place in budget.lines.items():
        name, _, line = place.rpartition(":")
        stands = (home / name).read_text().splitlines()[int(line) - 1]
        assert stands.startswith((f"{field} = ", "[")), "a field's own line, or the table's header"
