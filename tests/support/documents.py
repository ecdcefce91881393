"""JSON that commands print, held against the schemas that ship."""

from __future__ import annotations

import json
from typing import Any

import jsonschema

from tests.conftest import ROOT


def document(command: str, out: str) -> Any:
    """A command's JSON, checked against its schema."""
    schema = json.loads((ROOT / f"schema/{command}.schema.json").read_text())
    parsed = json.loads(out)
    jsonschema.validate(parsed, schema)
    return parsed
