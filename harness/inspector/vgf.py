"""Neural statistics that ExecuTorch's VGF backend logs as metadata of its events.

A record is a JSON object with the schema name, its version and a list of segments. A segment may
have up to three blobs; the ones that are available hold base64 text.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable
from typing import Any, Final

SCHEMA: Final = "executorch.vgf.neural_statistics"
VERSION: Final = 1
_BLOBS: Final = ("debug_database", "statistics_info", "statistics_memory")

Metadata = bytes | bytearray | str


def parse_vgf_neural_statistics_metadata(metadata: Metadata) -> dict[str, Any]:
    """Return the record in some metadata; available blobs also get their bytes as ``raw_data``.

    Raises:
        ValueError: The metadata is no such record, or is damaged.
        TypeError: The metadata is neither bytes nor text.
    """
    record = _parsed(_as_bytes(metadata))
    if not _is_record(record):
        raise ValueError("the metadata is not a record of VGF neural statistics")
    if record.get("schema_version") != VERSION:
        raise ValueError(
            "Unsupported VGF neural statistics metadata schema version: "
            f"{record.get('schema_version')!r}; version {VERSION} is supported"
        )
    segments = [_decoded(segment) for segment in record.get("segments", [])]
    return {**record, "segments": segments}


def parse_vgf_neural_statistics_delegate_metadata(
    metadata: Iterable[Metadata | None],
) -> list[dict[str, Any]]:
    """Return the records among the metadata of an event; metadata of other backends are skipped.

    Raises:
        ValueError: A record is damaged.
    """
    return [
        parse_vgf_neural_statistics_metadata(item)
        for item in metadata
        if isinstance(item, Metadata) and _holds_record(_as_bytes(item))
    ]


def _parsed(data: bytes) -> Any:
    try:
        return json.loads(data)
    except RecursionError as error:
        raise ValueError("brackets are nested too deeply") from error


def _holds_record(data: bytes) -> bool:
    try:
        return _is_record(_parsed(data))
    except ValueError as error:
        if SCHEMA.encode() in data:
            raise ValueError(
                f"Malformed VGF neural statistics delegate metadata: {error}"
            ) from error
        return False


def _is_record(content: Any) -> bool:
    return isinstance(content, dict) and content.get("schema") == SCHEMA


def _as_bytes(metadata: Metadata) -> bytes:
    if isinstance(metadata, str):
        return metadata.encode()
    if not isinstance(metadata, bytes | bytearray):
        raise TypeError(f"metadata must be bytes or text, not {type(metadata).__name__}")
    return bytes(metadata)


def _decoded(segment: dict[str, Any]) -> dict[str, Any]:
    blobs = {key: segment[key] for key in _BLOBS if isinstance(segment.get(key), dict)}
    return {**segment, **{key: _with_bytes(key, blob) for key, blob in blobs.items()}}


def _with_bytes(key: str, blob: dict[str, Any]) -> dict[str, Any]:
    if not blob.get("available", False):
        return {"raw_data": b"", **blob}
    if blob.get("encoding") != "base64":
        raise ValueError(
            f"Unsupported encoding {blob.get('encoding')!r} of VGF neural statistics blob {key}"
        )
    try:
        return {**blob, "raw_data": base64.b64decode(blob.get("data", ""), validate=True)}
    except (binascii.Error, TypeError) as error:
        raise ValueError(
            f"Malformed base64 data in VGF neural statistics blob {key}: {error}"
        ) from error
