"""Finds ExecuTorch in firmware that nobody rebuilt, by the names that its compiler gave functions.

A mangled name (Itanium C++ ABI) spells namespaces, class and function, each with its length, and
after them the types of the arguments. The names are those of releases 0.4 to 1.5;
``torch::executor`` is the namespace of older ones. Functions with the type of a kernel are what the
runtime calls through its table of kernels; functions with a context as first argument are the
kernels themselves.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from harness.errors import FormatError
from harness.extensions.probes.memory import FirmwareElf, Symbol

_NAMESPACE: Final = r"_ZNK?(?:10executorch7runtime(?:4aten)?|5torch8executor)"
_PARTS: Final = r"(?:\.(?:cold|part|constprop|isra)[.\d]*)*\Z"
"""What GCC appends to pieces and copies of a function."""

_EXECUTE: Final = re.compile(_NAMESPACE + "6Method7executeEv" + _PARTS)
_RESET: Final = re.compile(_NAMESPACE + "6Method15reset_executionEv" + _PARTS)
"""What ``execute`` ends with, often by a jump: then this one returns for it."""

_INSTRUCTION: Final = re.compile(_NAMESPACE + "6Method19execute_instructionEv" + _PARTS)
_LOAD: Final = re.compile(_NAMESPACE + r"7Program11load_methodEPKc.*MemoryManager.*" + _PARTS)
_INIT: Final = re.compile(_NAMESPACE + r"6Method4initEP.*ExecutionPlan.*" + _PARTS)

_WRAPPER: Final = re.compile(
    r"_Z.*(?:20KernelRuntimeContext|14RuntimeContext)E(?:N\w*4SpanIP(?:N\w*6EValueE|\w+_)EE|PPN\w*6EValueE)"
)
"""A function with the type of a kernel in the registry: a context, and pointers to values."""

_GENERATED: Final = re.compile(r"19kernels_to_register|kernels_to_registerMUl")
"""Registered by generated code, which has the scope ``native_call_`` around the kernel."""

_KERNEL: Final = re.compile(
    r"_ZN(?:\w*?)(?:out|_)ERN\w*?(?:20KernelRuntimeContext|14RuntimeContext)E"
)
_DELEGATE: Final = re.compile(r"_ZNK?\w*7executeERN\w*23BackendExecutionContextE")
_OLD_DELEGATE: Final = re.compile(r"_ZNK?\w*Backend7executeERN\w*ExecutionContextE")

_ANY: Final = re.compile(r"10executorch7runtime|5torch8executor")


class Role(IntEnum):
    """What a set of code addresses is; the first ones are one set each."""

    EXECUTE = 0
    INSTRUCTION = 1
    LOAD = 2
    INIT = 3
    WRAPPER = 4


_RUNTIME: Final = {
    Role.EXECUTE: _EXECUTE,
    Role.INSTRUCTION: _INSTRUCTION,
    Role.LOAD: _LOAD,
    Role.INIT: _INIT,
}


@dataclass(frozen=True, slots=True)
class CodeSet:
    """A function with its pieces.

    Attributes:
        role: What it is.
        name: Its mangled name.
        begin: Address of its first instruction.
        ranges: Addresses of its code: begin and end of each piece.
    """

    role: Role
    name: str
    begin: int
    ranges: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class ExecutorchCode:
    """Where ExecuTorch's functions are in a firmware.

    Attributes:
        sets: Functions whose code is watched.
        kernels: Names of kernels by the address of their first instruction.
        delegates: Names of the backends' functions that execute, by address.
    """

    sets: tuple[CodeSet, ...]
    kernels: dict[int, str]
    delegates: dict[int, str]

    def of(self, role: Role) -> CodeSet | None:
        """Return the function with this role; None if the firmware has none."""
        return next((each for each in self.sets if each.role == role), None)


def find_executorch(elf: FirmwareElf) -> ExecutorchCode:
    """Find ExecuTorch's functions in a firmware.

    Raises:
        FormatError: It is stripped, or contains no ExecuTorch.
    """
    if not elf.functions:
        raise FormatError(
            f"{elf.path} has no symbols of functions: it was stripped",
            hint="give the linker's output as it was before `strip` or `objcopy`; what runs on the "
            "board may be stripped",
        )
    sets = list(_find_runtime(elf))
    wrappers = {each.address: each for each in elf.functions if _is_wrapper(each)}
    _check_complete(elf, {each.role for each in sets}, kernels=bool(wrappers))
    sets += [_code_set(Role.WRAPPER, each, [each]) for each in wrappers.values()]
    others = [each for each in elf.functions if not _WRAPPER.match(each.name)]
    backends = (_DELEGATE, _OLD_DELEGATE)
    delegates = {
        each.address: each.name
        for each in others
        if any(pattern.match(each.name) for pattern in backends)
    }
    kernels = {
        each.address: each.name
        for each in others
        if each.address not in delegates and _KERNEL.match(each.name)
    }
    return ExecutorchCode(tuple(sets), kernels, delegates)


def _find_runtime(elf: FirmwareElf) -> Iterator[CodeSet]:
    for role, pattern in _RUNTIME.items():
        pieces = [each for each in elf.functions if each.size and pattern.match(each.name)]
        whole = next((piece for piece in pieces if "." not in piece.name), None)
        if whole is not None:
            if role == Role.EXECUTE:
                pieces += [each for each in elf.functions if each.size and _RESET.match(each.name)]
            yield _code_set(role, whole, pieces)


def _is_wrapper(symbol: Symbol) -> bool:
    return symbol.size > 0 and _WRAPPER.match(symbol.name) is not None


def _check_complete(elf: FirmwareElf, found: Collection[Role], *, kernels: bool) -> None:
    """Check that executions and instructions can be followed."""
    if Role.EXECUTE not in found:
        if any(_ANY.search(symbol.name) for symbol in elf.functions):
            raise FormatError(
                f"{elf.path} has functions of ExecuTorch, but Method::execute is not among them",
                hint="the linker left it out, or link-time optimization has inlined it: name a "
                "function that is called once per operator with --at",
            )
        raise FormatError(
            f"{elf.path} contains no ExecuTorch: no function is Method::execute of "
            "executorch::runtime or torch::executor",
            hint="name a function of another runtime that is called once per operator with --at",
        )
    if Role.INSTRUCTION not in found and not kernels:
        raise FormatError(
            f"{elf.path} has Method::execute, but neither execute_instruction, which the compiler "
            "has inlined, nor the functions of kernels",
            hint="keep local symbols in the image (no --discard-all), or name a function that is "
            "called once per operator with --at",
        )


def is_generated(name: str) -> bool:
    """Whether a registered function was generated with its kernel, so that it has its scope."""
    return _GENERATED.search(name) is not None


def _code_set(role: Role, whole: Symbol, pieces: Iterable[Symbol]) -> CodeSet:
    ranges = sorted({(piece.address, piece.address + piece.size) for piece in pieces})
    return CodeSet(role, whole.name, whole.address, tuple(ranges))


_COUNT: Final = re.compile(r"\d+")


def qualified_name(mangled: str) -> str:
    """Return namespaces, class and function of a mangled name, without its arguments.

    Other names, such as those of C, are returned as they are.

    Examples:
        >>> qualified_name("_ZN5torch8executor6native7add_outERN10executorch7runtime20K")
        'torch::executor::native::add_out'
        >>> qualified_name("arm_relu_q7")
        'arm_relu_q7'
    """
    parts = _identifiers(mangled)
    return "::".join(parts) if parts else mangled


def _identifiers(mangled: str) -> Sequence[str]:
    if mangled.startswith("_ZN"):
        at = 4 if mangled[3:4] == "K" else 3
        most = 64
    elif mangled.startswith("_Z"):
        at, most = 2, 1
    else:
        return ()
    parts: list[str] = []
    while len(parts) < most and (count := _COUNT.match(mangled, at)):
        begin = count.end()
        part = mangled[begin : begin + int(count[0])]
        at = begin + len(part)
        if part != "_GLOBAL__N_1":
            parts.append(part)
    return parts
