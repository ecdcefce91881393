"""The promise of result.json: an old one is read, unknown fields are ignored and kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import harness
from harness import Result, UsageError
from harness.runs.directory import RunDirectory
from tests.conftest import FIXTURES, ROOT
from tests.support.documents import digest_of

OLD = FIXTURES / "result_schema1.json"
"""Committed once and never changed: what release 0.1.0 wrote. Paths and digest were edited."""


def with_unknown_fields(document: Any) -> Any:
    """The same with a field in every object that only a later version knows."""
    if isinstance(document, list):
        return [with_unknown_fields(item) for item in document]
    if not isinstance(document, dict):
        return document
    fixed = ("files", "link", "time_scales", "planned")  # tables of one type of value
    added = {
        name: value if name in fixed else with_unknown_fields(value)
        for name, value in document.items()
    }
    return {**added, "added_later": {"a": 1}}


def read(folder: Path, text: bytes) -> Result:
    """Read the result of a run."""
    (folder / "result.json").write_bytes(text)
    return RunDirectory(folder).read_result()


def test_an_old_result_is_read_and_fits_its_schema(tmp_path: Path) -> None:
    result = read(tmp_path, OLD.read_bytes())
    assert (result.tool_version, result.schema, result.board) == ("0.1.0", 1, "native")
    assert result.digest == digest_of(json.loads(OLD.read_bytes()))
    assert result.model is not None
    assert result.model.method == "forward"
    assert result.trace is not None
    assert result.trace.executions == result.runs_completed == 2
    assert result.verdict is not None
    assert result.verdict.passed
    schema = json.loads((ROOT / "schema/result.schema.json").read_text())
    jsonschema.validate(json.loads(OLD.read_text()), schema)


def test_fields_of_a_later_version_are_ignored_and_kept(tmp_path: Path) -> None:
    document = with_unknown_fields(json.loads(OLD.read_text()))
    document["files"] = {}
    document["model"] |= {"inputs": [], "outputs": []}  # files that are not recorded
    del document["trace"], document["digest"]
    document["digest"] = digest_of(document)
    (tmp_path / "result.json").write_text(json.dumps(document))
    schema = json.loads((ROOT / "schema/result.schema.json").read_text())
    jsonschema.validate(document, schema)

    run = RunDirectory(tmp_path)
    result = run.load_result()
    (tmp_path / "old").mkdir()
    assert result.target == read(tmp_path / "old", OLD.read_bytes()).target
    run.write_late("history.json", b"{}")
    assert list(run.load_result().files or {}) == ["history.json"]
    kept = json.loads((tmp_path / "result.json").read_text())
    assert kept["added_later"] == kept["target"]["added_later"] == {"a": 1}


def test_another_schema_is_refused_with_the_version_that_wrote_it(tmp_path: Path) -> None:
    document = {**json.loads(OLD.read_text()), "schema": 2, "tool_version": "3.1.0"}
    document["digest"] = digest_of(document)
    with pytest.raises(UsageError) as caught:
        read(tmp_path, json.dumps(document).encode())
    assert caught.value.message.endswith(
        "/result.json: unsupported result: it has schema 2, etdump-harness "
        f"{harness.__version__} reads schema 1"
    )
    assert caught.value.hint.endswith("wrote it: 3.1.0")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("bits", 7),
        ("bits", 65),
        ("hz_numerator", -1),
        ("hz_numerator", 2**64),
        ("hz_denominator", 0),
    ],
)
def test_a_clock_that_cannot_be_is_no_result(field: str, value: int, tmp_path: Path) -> None:
    document = json.loads(OLD.read_bytes())
    document["target"]["clocks"][0][field] = value
    document.pop("digest", None)
    said = "needs more than 64 bits"
    if abs(value) < 1 << 64:  # larger numbers are refused before there is a digest
        document["digest"] = digest_of(document)
        said = "not a result of this version"
    with pytest.raises(UsageError, match=said):
        read(tmp_path, json.dumps(document).encode())
