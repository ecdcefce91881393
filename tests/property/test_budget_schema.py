"""The JSON Schema of budget files and the reader of them accept the same."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.check.budget import BudgetFile
from harness.config.toml_file import read_document
from tests.conftest import ROOT
from tests.support.examples import examples

SCHEMA = json.loads((ROOT / "schema/budget.schema.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(
    SCHEMA, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER
)

WRONG = st.sampled_from([-1, 1.5, "x", True, [], {}, ["a"], {"a": 1}, "2026-02-30"])


def values(info: msgspec.inspect.Type) -> st.SearchStrategy[Any]:
    """Values of a type."""
    if isinstance(info, msgspec.inspect.Metadata):
        return values(info.type)
    if isinstance(info, msgspec.inspect.UnionType):
        kinds = [each for each in info.types if not isinstance(each, msgspec.inspect.NoneType)]
        return st.one_of(*map(values, kinds))
    if isinstance(info, msgspec.inspect.StructType):
        fields = {field.encode_name: values(field.type) for field in info.fields}
        return some_of(fields, {f.encode_name for f in info.fields if f.required})
    if isinstance(info, msgspec.inspect.DictType):
        return st.dictionaries(st.sampled_from(["B01", "I01"]), values(info.value_type), max_size=2)
    if isinstance(info, msgspec.inspect.VarTupleType):
        return st.lists(values(info.item_type), max_size=2)
    if isinstance(info, msgspec.inspect.LiteralType | msgspec.inspect.EnumType):
        return st.sampled_from(info.values)
    plain: dict[type[Any], st.SearchStrategy[Any]] = {
        msgspec.inspect.IntType: st.integers(0, 9),
        msgspec.inspect.FloatType: st.one_of(st.integers(0, 9), st.floats(0, 0.9)),
        msgspec.inspect.BoolType: st.booleans(),
        msgspec.inspect.StrType: st.sampled_from(["", "a*", "é"]),
        msgspec.inspect.DateType: st.dates(max_value=date(2100, 1, 1)).map(str),
    }
    return plain[type(info)]


@st.composite
def some_of(
    draw: st.DrawFn, fields: dict[str, st.SearchStrategy[Any]], required: set[str]
) -> dict[str, Any]:
    """A table with a few of its fields."""
    names = draw(st.lists(st.sampled_from(sorted(fields)), unique=True, max_size=4))
    return {name: draw(fields[name]) for name in sorted({*names, *required})}


def places(data: Any, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Everything in a document that could be something else."""
    items = data.items() if isinstance(data, dict) else enumerate(data)
    found = []
    for key, value in items:
        found.append((*above, key))
        if isinstance(value, dict | list):
            found += places(value, (*above, key))
    return found


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    """A budget file, or one with something wrong in it."""
    data = draw(values(msgspec.inspect.type_info(BudgetFile))) | {"schema": 1}
    if draw(st.booleans()):
        *above, last = draw(st.sampled_from(places(data)))
        table = data
        for key in above:
            table = table[key]
        if isinstance(table, dict) and draw(st.booleans()):
            last = draw(st.sampled_from(["evnt", "schema", "event", "limit_us", "board"]))
        table[last] = draw(WRONG)
    return data


def loads(data: Any) -> str:
    """What the reader complains of, or ""."""
    try:
        msgspec.convert(data, BudgetFile)
    except msgspec.ValidationError as error:
        return str(error)
    return ""


@given(documents())
@settings(max_examples=examples(40))
def test_what_the_schema_accepts_loads_and_the_other_way_round(data: dict[str, Any]) -> None:
    complaint = loads(data)
    accepted = VALIDATOR.is_valid(data)
    if accepted and complaint:
        assert "not both" in complaint, "the schema does not say what excludes each other"
    else:
        assert accepted == (not complaint)


@pytest.mark.parametrize(
    "path",
    sorted((ROOT / "boards/budgets").glob("*.toml")),
    ids=lambda path: path.stem,
)
def test_the_budgets_that_come_with_the_boards_follow_it(path: Path) -> None:
    VALIDATOR.validate(read_document(path).data)
