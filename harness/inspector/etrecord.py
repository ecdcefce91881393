"""Reads ETRecords without torch: debug handles and source operators of instruction ids.

An ETRecord is a zip of JSON files: maps from instruction and delegate ids to debug handles, and
graphs with the debug handle, operator, stack trace and modules of each node. Its weights and
recorded tensors, stored as torch files, are ignored.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar
from zipfile import BadZipFile, ZipFile, ZipInfo

import msgspec

from harness.errors import FormatError, MissingFileError, UsageError
from harness.files import decode_json
from harness.records.symbols import EtrecordNode, Handles, Module

_IDENTIFIER: Final = "ETRECORD_V0"
_EDGE: Final = "edge_dialect_exported_program"
_TENSORS: Final = ("_state_dict", "_constants", "_example_inputs")
"""Name endings of the tensor files that belong to a graph."""
_RECORDED: Final = ("reference_outputs", "representative_inputs")
_MAPS: Final = (
    "debug_handle_map",
    "delegate_map",
    "instruction_id_to_num_outs_map",
    "export_graph_id",
)
_LARGEST_RATIO: Final = 200
"""Largest ratio of a file's size to the whole record, against zip bombs (deflate reaches 1,000)."""

MOST_MEMBER: Final = 1 << 30
"""Largest JSON file in a record, bytes."""


@dataclass(frozen=True, slots=True)
class Delegate:
    """Compile-time information of an instruction's delegate.

    Attributes:
        name: Name of the backend.
        handles: Debug handles by delegate id, as text.
    """

    name: str
    handles: Mapping[str, Handles]


@dataclass(frozen=True, slots=True)
class MethodRecord:
    """The maps of one method, by instruction id.

    Attributes:
        handles: Debug handles.
        delegates: Delegates.
        outputs: Number of outputs, if recorded.
    """

    handles: Mapping[int, Handles]
    delegates: Mapping[int, Delegate] = field(default_factory=dict)
    outputs: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ETRecord:
    """An ETRecord.

    Attributes:
        path: Path of the file.
        methods: Maps by method name.
        edge: Edge dialect graph of each method; debug handles refer to its nodes.
        export_graph_id: Identifies the exported graph; 0 if the record has no id.
        graphs: Names of further graphs for ``read_graph``.
    """

    path: Path
    methods: Mapping[str, MethodRecord]
    edge: Mapping[str, tuple[EtrecordNode, ...]]
    export_graph_id: int = 0
    graphs: tuple[str, ...] = ()

    def method(self, name: str | None = None) -> str:
        """Return the method ``name``, or the name of the only method.

        Raises:
            UsageError: There is no such method, or ``name`` is None and there are several.
        """
        names = ", ".join(self.methods)
        if name is None and len(self.methods) == 1:
            return next(iter(self.methods))
        if name is None:
            raise UsageError(f"{self.path} has several methods", hint=f"choose one of {names}")
        if name not in self.methods:
            raise UsageError(f"{self.path} has no method {name!r}", hint=f"its methods: {names}")
        return name


class _DelegateJson(msgspec.Struct):
    name: str = ""
    delegate_map: dict[str, Handles | None] | None = None


class _NodeJson(msgspec.Struct):
    name: str
    target: str
    metadata: dict[str, str]


class _GraphJson(msgspec.Struct):
    nodes: list[_NodeJson]


class _ModuleJson(msgspec.Struct):
    graph: _GraphJson


class _ProgramJson(msgspec.Struct):
    graph_module: _ModuleJson


_Handles = dict[str, dict[int, Handles | None]]
_Delegates = dict[str, dict[int, _DelegateJson]]
_Outputs = dict[str, dict[int, int]]
_T = TypeVar("_T")


def read_etrecord(path: Path) -> ETRecord:
    """Read the record at ``path``.

    Raises:
        UsageError: There is no such file.
        FormatError: The file is damaged or not an ETRecord; ``field`` is the damaged member.
    """
    with _Archive(path) as archive:
        handles = archive.json("debug_handle_map", _Handles)
        if handles is None:
            raise FormatError(
                f"{path} has no map of instruction ids",
                field="debug_handle_map",
                hint="take the record from the ExecutorchProgramManager, after to_executorch()",
            )
        delegates = archive.json("delegate_map", _Delegates) or {}
        outputs = archive.json("instruction_id_to_num_outs_map", _Outputs) or {}
        edge = {
            name.removeprefix(_EDGE).removeprefix("/") or "forward": archive.graph(name)
            for name in archive.graphs
            if name == _EDGE or name.startswith(f"{_EDGE}/")
        }
        return ETRecord(
            path=path,
            methods={
                method: MethodRecord(
                    {number: found for number, found in of_method.items() if found is not None},
                    {
                        instruction: _delegate(delegate)
                        for instruction, delegate in delegates.get(method, {}).items()
                    },
                    outputs.get(method, {}),
                )
                for method, of_method in handles.items()
            },
            edge=edge,
            export_graph_id=archive.json("export_graph_id", int) or 0,
            graphs=tuple(name for name in archive.graphs if not name.startswith(_EDGE)),
        )


def read_graph(path: Path, name: str) -> tuple[EtrecordNode, ...]:
    """Read a further graph of the record at ``path``; ``ETRecord.graphs`` lists them.

    Raises:
        UsageError: There is no such graph or file.
        FormatError: The file is damaged.
    """
    with _Archive(path) as archive:
        if name not in archive.graphs:
            raise UsageError(
                f"{path} has no graph {name!r}", hint=f"its graphs: {', '.join(archive.graphs)}"
            )
        return archive.graph(name)


_UNREADABLE = (BadZipFile, EOFError, zlib.error, NotImplementedError, RuntimeError, ValueError)
"""Exceptions of ``zipfile`` for damaged members."""


class _Archive:
    """The files of a record."""

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            why = "not a regular file" if path.exists() else "no such file"
            raise MissingFileError(f"{path}: {why}")
        self.path = path
        try:
            self._zip = ZipFile(path)
        except (BadZipFile, ValueError) as error:  # ValueError: a name that is not UTF-8
            raise FormatError(f"{path} is not an ETRecord (not a zip file: {error})") from None
        self._files: dict[str, ZipInfo] = {info.filename: info for info in self._zip.infolist()}
        if _IDENTIFIER not in self._files:
            raise FormatError(f"{path} is not an ETRecord", field=_IDENTIFIER)

    def __enter__(self) -> _Archive:
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()

    @property
    def graphs(self) -> list[str]:
        """Names of the files that contain graphs."""
        others = (_IDENTIFIER, *_MAPS, *_RECORDED)
        return [name for name in self._files if name not in others and not name.endswith(_TENSORS)]

    def json(self, name: str, type_: type[_T]) -> _T | None:
        """Decode the file ``name``; None if it is missing or contains ``null``."""
        if name not in self._files:
            return None
        data = self._read(self._files[name])
        try:
            return _decoded(data, type_)
        except msgspec.MsgspecError as error:
            raise FormatError(f"{self.path}: {error}", field=name) from None

    def graph(self, name: str) -> tuple[EtrecordNode, ...]:
        """Decode the operators of a graph."""
        found = self.json(name, _ProgramJson)
        nodes = [] if found is None else found.graph_module.graph.nodes
        try:
            return tuple(_node(node) for node in nodes if node.target != "_operator.getitem")
        except ValueError as error:
            raise FormatError(f"{self.path}: {error}", field=name) from None

    def _read(self, info: ZipInfo) -> bytes:
        most = min(MOST_MEMBER, _LARGEST_RATIO * self.path.stat().st_size)
        if info.file_size > most:
            raise FormatError(
                f"{self.path}: {info.file_size} bytes announced, too many for the size of the file",
                field=info.filename,
            )
        try:
            return self._zip.read(info)
        except _UNREADABLE as error:
            raise FormatError(f"{self.path}: {error}", field=info.filename) from None


def _decoded(data: bytes, type_: type[_T]) -> _T | None:
    found: _T | None
    try:
        found = decode_json(data, type_=type_ | None, strict=False)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        # Python's json writes infinity, for example as the bound of a clamp; JSON does not have it.
        try:
            content = json.loads(data)
        except (ValueError, RecursionError):
            content = None
        if content is None:
            raise
        found = msgspec.convert(content, type_ | None, strict=False, str_keys=True)
    return found


def _node(node: _NodeJson) -> EtrecordNode:
    handle = node.metadata.get("debug_handle")
    stack = node.metadata.get("nn_module_stack")
    return EtrecordNode(
        name=node.name,
        op=_operator(node.target),
        debug_handle=None if handle is None else int(handle),
        stack_trace=node.metadata.get("stack_trace"),
        modules=None if stack is None else tuple(map(_module, stack.split(";"))),
    )


def _delegate(found: _DelegateJson) -> Delegate:
    handles = (found.delegate_map or {}).items()
    return Delegate(found.name, {key: value for key, value in handles if value is not None})


def _operator(target: str) -> str:
    """``executorch.exir.dialects.edge.ops.aten.mul.Tensor`` is ``aten.mul.Tensor``.

    PyTorch names its own operators without their namespace, and functions by their name.
    """
    parts = target.split(".")
    if "edge" in parts:
        return ".".join(parts[-3:])
    return ".".join(parts[-2:] if target.startswith("torch.ops.") else parts[-1:])


def _module(entry: str) -> Module:
    """Split ``key,path,type`` at commas outside of brackets."""
    parts, depth = [""], 0
    for character in entry:
        depth += (character in "([") - (character in ")]")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    if len(parts) != 3:
        raise ValueError(f"invalid module entry {entry!r}")
    return Module(*parts)


def as_tuple(handles: Handles | Sequence[Any]) -> tuple[int, ...]:
    """Return one or several debug handles as a tuple."""
    return (handles,) if isinstance(handles, int) else tuple(handles)
