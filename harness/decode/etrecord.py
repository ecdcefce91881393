"""An ETRecord: what the exporter knew of the operators behind instruction ids; without torch.

It is a zip of JSON files: maps from instruction and delegate ids to debug handles, and graphs,
whose nodes carry a debug handle, their operator, the stack trace and the modules they came from.
Weights and recorded tensors are in it, too, as files of torch's; these are not looked at here.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar
from zipfile import BadZipFile, ZipFile, ZipInfo

import msgspec

from harness.errors import FormatError, UsageError

_IDENTIFIER: Final = "ETRECORD_V0"
_EDGE: Final = "edge_dialect_exported_program"
_TENSORS: Final = ("_state_dict", "_constants", "_example_inputs")
"""What the names of files beside a graph end in."""
_RECORDED: Final = ("reference_outputs", "representative_inputs")
_MAPS: Final = (
    "debug_handle_map",
    "delegate_map",
    "instruction_id_to_num_outs_map",
    "export_graph_id",
)
_LARGEST_RATIO: Final = 200
"""How many times larger than the whole record a file in it may be: deflate reaches 1,000."""

Handles = int | tuple[int, ...]
"""Debug handles: one, or several of a fused operator."""


class Module(msgspec.Struct, frozen=True):
    """A module of the model.

    Attributes:
        key: What the exporter calls it, such as ``L__self__encoder.layers.0``.
        path: Where it is in the model, such as ``encoder.layers.0``; "" is the model itself.
        type: Its class.
    """

    key: str
    path: str
    type: str


@dataclass(frozen=True, slots=True)
class EtrecordNode:
    """An operator of a graph.

    Attributes:
        name: Unique in its graph, such as ``aten_addmm_default_1``.
        op: Such as ``aten.addmm.default``.
        debug_handle: None when the exporter gave none.
        stack_trace: The lines of Python that it comes from, or None.
        modules: The modules around it, the model first; None when the exporter recorded none.
    """

    name: str
    op: str
    debug_handle: int | None
    stack_trace: str | None
    modules: tuple[Module, ...] | None


@dataclass(frozen=True, slots=True)
class Delegate:
    """What an instruction's delegate said when it was compiled.

    Attributes:
        name: Of the backend.
        handles: Debug handles by delegate id, spelled as text.
    """

    name: str
    handles: Mapping[str, Handles]


@dataclass(frozen=True, slots=True)
class MethodRecord:
    """What a record says of one method, by instruction id.

    Attributes:
        handles: Debug handles.
        delegates: Delegates.
        outputs: How many outputs an instruction has, where that was recorded.
    """

    handles: Mapping[int, Handles]
    delegates: Mapping[int, Delegate] = field(default_factory=dict)
    outputs: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ETRecord:
    """A record.

    Attributes:
        path: Where it was read.
        methods: By name.
        edge: The graph of each method's edge dialect, from which debug handles are.
        export_graph_id: Identifies the exported graph; 0 when the record has none.
        graphs: Names of further graphs, which ``read_graph`` reads.
    """

    path: Path
    methods: Mapping[str, MethodRecord]
    edge: Mapping[str, tuple[EtrecordNode, ...]]
    export_graph_id: int = 0
    graphs: tuple[str, ...] = ()

    def method(self, name: str | None = None) -> str:
        """The name of the method meant: ``name``, or the only one there is.

        Raises:
            UsageError: There is no such method, or there are several to choose from.
        """
        names = ", ".join(self.methods)
        if name is None and len(self.methods) == 1:
            return next(iter(self.methods))
        if name is None:
            raise UsageError(f"{self.path} is of several methods", hint=f"choose one of {names}")
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
        FormatError: It is no ETRecord, or is damaged; the field says which of its files.
    """
    with _Archive(path) as archive:
        handles = archive.json("debug_handle_map", _Handles)
        if handles is None:
            raise FormatError(
                f"{path} does not say which instructions it is of",
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
        UsageError: There is none of this name, or no such file.
        FormatError: It is damaged.
    """
    with _Archive(path) as archive:
        if name not in archive.graphs:
            raise UsageError(
                f"{path} has no graph {name!r}", hint=f"its graphs: {', '.join(archive.graphs)}"
            )
        return archive.graph(name)


_UNREADABLE = (BadZipFile, EOFError, zlib.error, NotImplementedError, RuntimeError, ValueError)
"""What ``zipfile`` raises at members that are not what they should be."""


class _Archive:
    """The files of a record."""

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise UsageError(f"{path}: no such file")
        self.path = path
        try:
            self._zip = ZipFile(path)
        except (BadZipFile, ValueError) as error:  # also for a name that is no UTF-8
            raise FormatError(f"{path} is no ETRecord, which is a zip: {error}") from None
        self._files: dict[str, ZipInfo] = {info.filename: info for info in self._zip.infolist()}
        if _IDENTIFIER not in self._files:
            raise FormatError(f"{path} is no ETRecord", field=_IDENTIFIER)

    def __enter__(self) -> _Archive:
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()

    @property
    def graphs(self) -> list[str]:
        """Names of the files that hold graphs."""
        others = (_IDENTIFIER, *_MAPS, *_RECORDED)
        return [name for name in self._files if name not in others and not name.endswith(_TENSORS)]

    def json(self, name: str, type_: type[_T]) -> _T | None:
        """Decode the file ``name``; None when the record has none, or ``null`` in it."""
        if name not in self._files:
            return None
        try:
            decoded: _T | None = msgspec.json.decode(
                self._read(self._files[name]), type=type_ | None, strict=False
            )
        except msgspec.MsgspecError as error:
            raise FormatError(f"{self.path}: {error}", field=name) from None
        return decoded

    def graph(self, name: str) -> tuple[EtrecordNode, ...]:
        """Decode the operators of a graph."""
        found = self.json(name, _ProgramJson)
        nodes = [] if found is None else found.graph_module.graph.nodes
        try:
            return tuple(_node(node) for node in nodes if node.target != "_operator.getitem")
        except ValueError as error:
            raise FormatError(f"{self.path}: {error}", field=name) from None

    def _read(self, info: ZipInfo) -> bytes:
        if info.file_size > _LARGEST_RATIO * self.path.stat().st_size:
            raise FormatError(
                f"{self.path}: {info.file_size} bytes announced, more than such a file can hold",
                field=info.filename,
            )
        try:
            return self._zip.read(info)
        except _UNREADABLE as error:
            raise FormatError(f"{self.path}: {error}", field=info.filename) from None


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
    """Divide ``key,path,type`` at the commas that stand outside of brackets."""
    parts, depth = [""], 0
    for character in entry:
        depth += (character in "([") - (character in ")]")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    if len(parts) != 3:
        raise ValueError(f"{entry!r} is no module, its path and its class")
    return Module(*parts)


def as_tuple(handles: Handles | Sequence[Any]) -> tuple[int, ...]:
    """Debug handles, one or several, as a tuple."""
    return (handles,) if isinstance(handles, int) else tuple(handles)
