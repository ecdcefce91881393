"""Structures of the device's headers as ctypes has them, held against the headers by the compiler.

A structure that lacks a field makes C write behind it, into Python's heap. So each is declared with
the header it comes from, and a library is loaded only when the compiler agrees about every size and
place::

    @mirrors("etd_etdump.h", "etd_etdump_sink")
    class Sink(ct.Structure):
        _fields_ = [("write", WRITE), ("context", ct.c_void_p)]
"""

from __future__ import annotations

import ctypes as ct
import re
import subprocess
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple, TypeVar

from harness.target.build import compiler_for

INCLUDE = Path(__file__).parents[2] / "firmware_stub/include"

_Structure = TypeVar("_Structure", bound=type[ct.Structure])


class Mirror(NamedTuple):
    """A structure, and what of C it stands for."""

    structure: type[ct.Structure]
    header: str
    name: str
    opaque: bool
    renamed: Mapping[str, str] = {}

    def claims(self) -> list[str]:
        """What must be true of the C structure, as static assertions."""
        where = f"{self.structure.__module__}.{self.structure.__qualname__}"
        size = ct.sizeof(self.structure)
        if self.opaque:
            claim = f"sizeof({self.name}) <= {size}"
            return [_asserted(claim, f"{where}: {self.name} is larger than {size} bytes")]
        claims = []
        for own, *_ in self.structure._fields_:
            place, field = getattr(self.structure, own), self.renamed.get(own, own)
            claims.append(
                _asserted(
                    f"offsetof({self.name}, {field}) == {place.offset}"
                    f" && sizeof((({self.name} *)0)->{field}) == {place.size}",
                    f"{where}: {self.name}.{field} is not {place.size} bytes at {place.offset}",
                )
            )
        claim = f"sizeof({self.name}) == {size}"
        return [*claims, _asserted(claim, f"{where}: {self.name} is not of {size} bytes")]


class MirrorError(Exception):
    """A structure in Python is not what the header says."""


_declared: list[Mirror] = []


def mirrors(header: str, name: str, **renamed: str) -> Callable[[_Structure], _Structure]:
    """Declare a structure to be the C type ``name``, field by field.

    ``renamed`` says what C calls a field whose name Python does not allow.
    """

    def declare(structure: _Structure) -> _Structure:
        _declared.append(Mirror(structure, header, name, opaque=False, renamed=renamed))
        return structure

    return declare


def room_for(header: str, name: str, size: int) -> type[ct.Structure]:
    """Declare an opaque structure of ``size`` bytes, which enough for the C type ``name``."""
    words = [("private", ct.c_uint64 * (size // 8))]
    structure = type(f"room_for_{name}", (ct.Structure,), {"_fields_": words})
    _declared.append(Mirror(structure, header, name, opaque=True))
    return structure


def load_library(path: Path) -> ct.CDLL:
    """Load the device's code, if all that has been declared so far is true."""
    check(_declared)
    return ct.CDLL(str(path))


def check(declared: Iterable[Mirror]) -> None:
    """Ask the compiler.

    Raises:
        MirrorError: What differs, one structure and field a line.
    """
    declared = list(declared)
    headers = dict.fromkeys(["stddef.h", *(mirror.header for mirror in declared)])
    source = [f'#include "{header}"' for header in headers]
    for mirror in declared:
        source += mirror.claims()
    compiler, _ = compiler_for("native")
    command = [compiler, "-std=c11", "-fsyntax-only", "-I", str(INCLUDE), "-x", "c", "-"]
    done = subprocess.run(
        command, input="\n".join(source), capture_output=True, text=True, timeout=600, check=False
    )
    if done.returncode != 0:
        said = re.findall(r'static assertion failed: "(.*)"|error: (.*)', done.stderr)
        raise MirrorError("\n".join(claim or error for claim, error in said) or done.stderr)


def _asserted(claim: str, otherwise: str) -> str:
    return f'_Static_assert({claim}, "{otherwise}");'
