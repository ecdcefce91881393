"""The list of operators, and builds that link only some of them."""

from __future__ import annotations

import ctypes as ct
import re
from pathlib import Path

import pytest

from harness import UsageError
from harness.target.build import build_preset
from tests.conftest import ROOT
from tests.support.mirrors import load_library, mirrors
from tests.support.programs import ProgramBuilder
from tests.support.runtime import RuntimeFailure, load

STUB = ROOT / "firmware_stub"
LIST = STUB / "src" / "kernels" / "operators.def"


@mirrors("etd_kernel.h", "etd_kernel")
class Kernel(ct.Structure):
    _fields_ = [
        ("name", ct.c_char_p),
        ("overload", ct.c_char_p),
        ("event_name", ct.c_char_p),
        ("min_args", ct.c_uint32),
        ("run", ct.c_void_p),
    ]


def registered(library: ct.CDLL) -> list[Kernel]:
    count = ct.c_uint32.in_dll(library, "etd_kernel_count").value
    table = (ct.POINTER(Kernel) * count).in_dll(library, "etd_kernels")
    return [entry.contents for entry in table]


def names(library: ct.CDLL) -> list[str]:
    return [
        f"{kernel.name.decode()}.{kernel.overload.decode()}".removesuffix(".")
        for kernel in registered(library)
    ]


def build(directory: Path, operators: str) -> ct.CDLL:
    build_preset(STUB, "native", directory, {"ETD_OPERATORS": operators})
    return load_library(directory / "libetstub.so")


def test_the_list_says_what_the_kernels_say(etstub: ct.CDLL) -> None:
    listed = re.findall(r'^ETD_OPERATOR\("([^"]+)"', LIST.read_text(), re.MULTILINE)
    assert names(etstub) == listed
    assert len(set(listed)) == len(listed)


def test_events_are_named_as_executorch_names_them(etstub: ct.CDLL) -> None:
    for kernel in registered(etstub):
        if kernel.event_name is not None:
            operator = kernel.name.decode().split("::")[1]
            expected = f"native_call_{operator}.{kernel.overload.decode()}"
            assert kernel.event_name.decode() == expected.removesuffix(".")


@pytest.mark.long
def test_a_selective_build_has_only_what_it_names(tmp_path: Path) -> None:
    chosen = ["cortex_m::softmax.out", "aten::relu.out"]
    library = build(tmp_path, ";".join(chosen))
    assert names(library) == chosen
    program = ProgramBuilder([0, 32])
    x, y = (program.tensor((4,), memory=(1, place)) for place in (0, 16))
    program.call("aten::addmm", x, y)
    with pytest.raises(RuntimeFailure, match=re.escape("aten::addmm.out")):
        load(library, program.finish([x], [y]))


def test_a_selective_build_refuses_an_unknown_operator(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=re.escape("aten::nothing.out not found")):
        build(tmp_path, "aten::relu.out;aten::nothing.out")
