"""Which functions a call through a pointer may reach: those of its type whose address is taken.

GCC's call graph says only that a call goes through a pointer, and where. Clang's syntax tree has
the types. The answer is complete as long as no cast changes the type of a function pointer, so
such a cast is refused.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, NamedTuple

CALLBACK: Final = "__indirect_call"
"""GCC's name for the callee of a call through a pointer; here: a function of the caller's."""

BOARD: Final = ("etd_port", "etd_uart", "etd_counter_source", "etd_counting")
"""Structures of pointers that a board fills in; the library has no functions for them."""

TARGETS: Final = {"arm-none-eabi-gcc": "arm-none-eabi", "riscv64-unknown-elf-gcc": "riscv32"}
"""Clang's name of what each GCC compiles for."""

Node = dict[str, Any]


class PointerCall(NamedTuple):
    """A call through a pointer.

    Attributes:
        type: Type of the function.
        of_board: The pointer is a member of one of ``BOARD``.
    """

    type: str
    of_board: bool


class PointerCalls:
    """The calls through pointers in some files, and the functions whose address is taken.

    Args:
        command: GCC and its options; Clang reads the files as this GCC does.
        files: The sources.

    Raises:
        ValueError: A cast changes the type of a function pointer, or there are functions whose
            address is taken, but no call through a pointer of their type.
    """

    def __init__(self, command: Sequence[str], files: Sequence[Path]) -> None:
        self._calls: dict[tuple[str, int], set[PointerCall]] = defaultdict(set)
        self._taken: dict[str, set[str]] = defaultdict(set)
        clang = _clang(command)
        # Two at once: Clang's output is large, and is read while the next file is parsed.
        with ThreadPoolExecutor(2) as pool:
            for file, tree in zip(files, pool.map(lambda f: _tree(clang, f), files), strict=True):
                self._read(str(file), tree)
        types = {call.type for calls in self._calls.values() for call in calls}
        if lost := self._taken.keys() - types:
            names = sorted(name for of in lost for name in self._taken[of])
            raise ValueError(f"nothing calls these through a pointer: {', '.join(names)}")

    def callees(self, file: str, line: int) -> frozenset[str]:
        """Return what the calls through pointers at this line may reach, named as GCC does.

        ``__indirect_call`` stands for functions of the caller's.

        Raises:
            ValueError: There is no such call at this line.
        """
        calls = self._calls.get((os.path.normpath(file), line))
        if calls is None:
            raise ValueError(f"{file}:{line}: Clang sees no call through a pointer")
        found: set[str] = set()
        for call in calls:
            found |= (not call.of_board and self._taken.get(call.type)) or {CALLBACK}
        return frozenset(found)

    def _read(self, file: str, tree: Node) -> None:
        local: set[str] = set()
        not_taken: set[int] = set()
        for node, place in _nodes(tree):
            kind = node.get("kind")
            if kind == "FunctionDecl" and node.get("storageClass") == "static":
                local.add(node["id"])
            elif kind == "CallExpr":
                callee = _inside(node["inner"][0])
                if _function(callee) is not None:
                    not_taken.add(id(callee))
                else:
                    base = _type(callee["inner"][0]) if callee["kind"] == "MemberExpr" else ""
                    of_board = base.removeprefix("const ").removesuffix(" *") in BOARD
                    call = PointerCall(_type(node["inner"][0]), of_board)
                    self._calls[place].add(call)
            elif node.get("opcode") in ("==", "!="):  # an optional function compared with NULL
                not_taken.update(id(_inside(operand)) for operand in node["inner"])
            elif kind in ("CStyleCastExpr", "ImplicitCastExpr") and _changes_type(node):
                raise ValueError(f"{place[0]}:{place[1]}: a cast changes a function pointer")
            elif (function := _function(node)) is not None and id(node) not in not_taken:
                name = function["name"]
                static = function["id"] in local
                self._taken[_type(node)].add(f"{file}:{name}" if static else name)


def _clang(command: Sequence[str]) -> list[str]:
    """The Clang command that sees the same headers and definitions as a GCC."""
    compiler, *flags = command
    listed = subprocess.run(
        [*command, "-xc", "-E", "-v", os.devnull], capture_output=True, text=True, check=True
    ).stderr
    between = listed.partition("<...> search starts here:\n")[2].partition("End of search")[0]
    folders = [os.path.realpath(line.strip()) for line in between.splitlines()]
    resources = subprocess.run(
        ["clang", "-print-resource-dir"], capture_output=True, text=True, check=True
    ).stdout.strip()
    # Each compiler has headers of its own for what is built in.
    headers = [f"{resources}/include", *(path for path in folders if "/gcc/" not in path)]
    name = Path(compiler).name
    target = [f"--target={TARGETS[name]}"] if name in TARGETS else []
    kept = [flag for flag in flags if re.match(r"-(std|D|I|mcpu|mthumb|mf|march|mabi)", flag)]
    return [
        "clang",
        *target,
        *kept,
        "-ffreestanding",
        "-nostdinc",
        *(f"-isystem{path}" for path in headers),
    ]


def _tree(clang: Sequence[str], file: Path) -> Node:
    command = [*clang, "-fsyntax-only", "-Xclang", "-ast-dump=json", str(file)]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode != 0:
        raise ValueError(f"Clang cannot read {file}: {done.stderr.decode()[:500]}")
    tree: Node = json.loads(done.stdout)
    return tree


def _nodes(tree: Node) -> Iterator[tuple[Node, tuple[str, int]]]:
    """Every node, before those within it, and where it begins.

    Clang writes a file or line only when it differs from the one written before.
    """
    file, line = "", 0

    def read(location: Node) -> tuple[str, int]:
        nonlocal file, line
        for part in ("spellingLoc", "expansionLoc"):
            if part in location:
                read(location[part])
        if "file" in location:
            file = os.path.normpath(location["file"])
        line = location.get("line", line)
        return file, line

    waiting = [tree]
    while waiting:
        node = waiting.pop()
        read(node.get("loc", {}))
        begin = read(node.get("range", {}).get("begin", {}))
        read(node.get("range", {}).get("end", {}))
        yield node, begin
        waiting += reversed([within for within in node.get("inner", ()) if within])


def _inside(node: Node) -> Node:
    """An expression without parentheses, conversions and dereferences around it."""
    while node["kind"] in ("ParenExpr", "ImplicitCastExpr") or node.get("opcode") == "*":
        node = node["inner"][0]
    return node


def _function(node: Node) -> Node | None:
    """The function that an expression names."""
    named: Node = node.get("referencedDecl", {}) if node.get("kind") == "DeclRefExpr" else {}
    return named if named.get("kind") == "FunctionDecl" else None


def _type(node: Node) -> str:
    """The type of an expression; that of a function, if it is a pointer to one."""
    of = node["type"]
    text = str(of.get("desugaredQualType", of["qualType"]))
    return text.replace("(*)", "").replace("_Bool", "bool").replace(" (", "(")


def _changes_type(node: Node) -> bool:
    """Whether a cast makes a function pointer of something else than NULL."""
    of = node["type"]
    if node.get("castKind") != "BitCast" or "(*)" not in of.get(
        "desugaredQualType", of["qualType"]
    ):
        return False
    inner = node["inner"][0]
    while inner["kind"] in ("ParenExpr", "CStyleCastExpr", "ImplicitCastExpr"):
        inner = inner["inner"][0]
    return str(inner["kind"]) != "IntegerLiteral"
