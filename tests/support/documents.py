"""JSON that commands print, held against the schemas that ship."""

from __future__ import annotations

import hashlib
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


def digest_of(result: dict[str, Any]) -> str:
    """The digest of a result: of its JSON without this, with sorted keys and no white space."""
    rest = {key: value for key, value in result.items() if key != "digest"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
