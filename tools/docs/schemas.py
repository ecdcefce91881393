"""Pages of the formats in ``schema/``: JSON schemas, and the numbers of the binary formats."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.cli import sections
from tools.docs.commands import section_of
from tools.docs.markdown import anchor, code, prose, table

FILES = {
    "budget": "file `--budget`, [budgets](../docs/budgets.md)",
    "bundle": "`bundle.json` of an archive, [reports](../docs/reports.md)",
    "check": "`check.json` of a run directory, [files of a run](../docs/run-directory.md)",
    "events": "`etharness export -f json`, [exports](../docs/exports.md)",
    "nightly-plan": "file `PLAN.toml`, [nightly runs](../docs/nightly.md)",
    "quarantine": "file `quarantine.toml`, [nightly runs](../docs/nightly.md)",
    "result": "`result.json` of a run directory, [files of a run](../docs/run-directory.md)",
}
"""Schemas of files; the others are of what a command prints with ``--json``."""


def pages(root: Path) -> Iterator[tuple[str, str]]:
    """Yield a page for each JSON schema, their index, and a page of numbers."""
    rows = []
    for file in sorted((root / "schema").glob("*.schema.json")):
        name = file.name.removesuffix(".schema.json")
        schema = json.loads(file.read_text())
        rows.append([f"[{name}](schemas/{name}.md)", _use(name), f"[JSON](../schema/{file.name})"])
        yield f"schemas/{name}.md", _page(name, schema)
    yield (
        "schemas.md",
        "# JSON schemas\n\n"
        "Every command with `--json` prints a document of one schema (JSON Schema 2020-12). "
        "Within a schema version fields are only added.\n\n"
        + table(["schema", "describes", "file"], rows),
    )
    yield "formats.md", _formats(root)


def _use(name: str) -> str:
    """Return what a schema describes: a file, or the output of a command."""
    if name in FILES:
        return FILES[name]
    command = name.split("-")[0]
    if not any(command in section for section in sections().values()):
        return f"`{name}`"
    words = name.replace("-", " ", 1) if command in {"history", "lab"} else command
    return f"[`etharness {words} --json`]({section_of(command)})"


def _page(name: str, schema: dict[str, Any]) -> str:
    definitions = schema.get("$defs", {})
    root = schema.get("items", schema)
    parts = [f"# {name}\n\n"]
    if "items" in schema:
        parts.append(f"An array of {_type(root)}. ")
    elif "$ref" in schema:
        parts.append(f"An object: {_type(schema)}. ")
    parts.append(f"Schema: [{name}.schema.json](../../schema/{name}.schema.json).\n\n")
    for title, found in definitions.items():
        parts.append(f"## {title}\n\n{_definition(found)}")
    return "".join(parts)


def _definition(found: dict[str, Any]) -> str:
    summary, _, details = (found.get("description") or "").partition("\n    Attributes:\n")
    described = _attributes(details)
    text = f"{prose(summary)}\n\n" if summary.strip() else ""
    if "enum" in found:
        rows = [
            [code(json.dumps(value)), prose(described.get(str(value).upper(), ""))]
            for value in found["enum"]
        ]
        return text + table(["value", "meaning"], rows)
    required = found.get("required", [])
    rows = []
    for key, item in found.get("properties", {}).items():
        default = "required" if key in required else code(json.dumps(item.get("default")))
        rows.append([code(key), _type(item), default, prose(described.get(key, ""))])
    return text + (table(["field", "type", "default", "meaning"], rows) if rows else "")


def _attributes(text: str) -> dict[str, str]:
    """Return descriptions by name, from a docstring's section ``Attributes``."""
    found: dict[str, str] = {}
    name = ""
    for line in text.splitlines():
        if line.startswith(" " * 8) and not line.startswith(" " * 9) and ":" in line:
            name, _, description = line.strip().partition(":")
            found[name] = description.strip()
        elif line.startswith(" " * 9) and name:
            found[name] += f" {line.strip()}"
        else:
            name = ""
    return found


def _type(item: dict[str, Any]) -> str:
    """Return a type in words, with links to definitions of the same page."""
    if "$ref" in item:
        title = item["$ref"].rpartition("/")[2]
        return f"[{title}](#{anchor(title)})"
    for union in ("anyOf", "oneOf"):
        if union in item:
            return " or ".join(_type(part) for part in item[union])
    if "enum" in item or "const" in item:
        values = item.get("enum", [item.get("const")])
        return " or ".join(code(json.dumps(value)) for value in values)
    kind = item.get("type", "any")
    if kind == "array" and isinstance(item.get("items"), dict):
        return f"array of {_type(item['items'])}"
    if kind == "object" and isinstance(item.get("additionalProperties"), dict):
        return f"object of {_type(item['additionalProperties'])}"
    return str(kind)


def _formats(root: Path) -> str:
    parts = [
        "# Numbers of the formats\n\n"
        "From the files of `schema/`, of which the headers of the device and the modules of the "
        "host are made. "
        "[The link protocol](../docs/protocol.md) says how frames use them.\n\n"
    ]
    for file in sorted((root / "schema").glob("*.toml")):
        spec = tomllib.loads(file.read_text())
        parts.append(f"## {file.stem}\n\n[{file.name}](../schema/{file.name})\n\n")
        parts.append(_numbers(spec["constant"]))
        for name, members in spec["enum"].items():
            doc = members.pop("doc")
            parts.append(f"**{name}**: {prose(doc)}\n\n{_numbers(members)}")
    return "".join(parts)


def _numbers(members: dict[str, dict[str, Any]]) -> str:
    rows = [
        [code(name), code(f"0x{entry['value']:X}"), str(entry["value"]), prose(entry["doc"])]
        for name, entry in members.items()
    ]
    return table(["name", "value", "decimal", "meaning"], rows)
