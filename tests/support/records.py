"""Builds ETRecords: the JSON files of one, without torch."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from zipfile import ZipFile

EDGE = "edge_dialect_exported_program"
PREFIX = "executorch.exir.dialects.edge.ops"


def node(name: str, op: str, handle: int | None = None, *modules: str) -> dict[str, Any]:
    """A node of ``op`` (``aten.relu.default``) in modules such as ``encoder.layers.0``."""
    metadata = {"stack_trace": f"File of {name}"}
    if handle is not None:
        metadata["debug_handle"] = str(handle)
    entries = [f"L__self__{path},{path},Class[{path}, (int,)]" for path in modules]
    if entries:
        metadata["nn_module_stack"] = ";".join(entries)
    return {"name": name, "target": f"{PREFIX}.{op}", "metadata": metadata}


def graph(nodes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {"graph_module": {"graph": {"nodes": nodes}}}


def write_record(path: Path, files: Mapping[str, Any], *, identifier: bool = True) -> Path:
    """Write a record with the given files, as JSON unless they are bytes."""
    with ZipFile(path, "w") as archive:
        if identifier:
            archive.writestr("ETRECORD_V0", "")
        for name, content in files.items():
            data = content if isinstance(content, bytes) else json.dumps(content)
            archive.writestr(name, data)
    return path
