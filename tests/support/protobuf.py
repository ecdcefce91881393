"""Other people's protobuf messages, described as ours are."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from harness.extensions.exports.perfetto import Fields


def fields_of(message: Any) -> dict[str, tuple[int, str]]:
    """Number and type of every field of a descriptor; enums are the integers they are sent as."""
    from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto

    described = DescriptorProto()
    message.CopyToProto(described)
    found = {}
    for field in described.field:
        kind = FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()
        repeated = field.label == FieldDescriptorProto.LABEL_REPEATED
        kind = kind.replace("enum", "int32")
        found[field.name] = field.number, "*" * repeated + kind
    return found


def as_sent(fields: Fields, messages: Container[str]) -> dict[str, tuple[int, str]]:
    """Our fields in these terms: ``messages`` has the names that are no scalars."""
    return {
        name: (number, "*" * kind.startswith("*") + "message")
        if kind.lstrip("*") in messages
        else (number, kind)
        for name, (number, kind) in fields.items()
    }
