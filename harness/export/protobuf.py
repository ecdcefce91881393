"""Builds Protocol Buffers messages from lists of fields, without generated code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.export.extra import require

Fields = Mapping[str, tuple[int, str]]
"""Number and type by name; ``*`` before the type: repeated. Types are scalars or messages."""


def messages(package: str, spec: Mapping[str, Fields]) -> dict[str, Any]:
    """Return a class for each message of ``spec``, in a pool of their own.

    Unset fields differ from fields with their default value, as in proto2.

    Raises:
        UsageError: protobuf is not installed.
    """
    descriptor_pb2, descriptor_pool, message_factory = require(
        "google.protobuf.descriptor_pb2",
        "google.protobuf.descriptor_pool",
        "google.protobuf.message_factory",
    )
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name=f"{package}.proto", package=package, syntax="proto2"
    )
    for name, fields in spec.items():
        message = file.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            scalar = kind.lstrip("*")
            entry = message.field.add(name=field, number=number)
            entry.label = kinds.LABEL_REPEATED if kind[0] == "*" else kinds.LABEL_OPTIONAL
            if scalar in spec:
                entry.type, entry.type_name = kinds.TYPE_MESSAGE, f".{package}.{scalar}"
            else:
                entry.type = kinds.Type.Value(f"TYPE_{scalar.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}"))
        for name in spec
    }
