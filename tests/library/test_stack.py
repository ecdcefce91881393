"""The static bound of the stack: no call takes more, and recursion is refused."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

import harness
from tests.conftest import MODELS
from tests.library.conftest import INCLUDE, STUB, WARNINGS, sh
from tools.pointer_calls import CALLBACK, PointerCalls
from tools.stack import PAGE, bounds, built_bounds, entry_points, files

PROGRAM = Path(__file__).with_name("stack.c")
HOST = (
    "gcc",
    "-std=c11",
    "-O1",
    "-fno-stack-protector",
    "-maccumulate-outgoing-args",
    "-mno-red-zone",
)
"""A compiler that tells all of the stack: no bytes below the pointer, which only hosts allow."""

OUTSIDE = 160
"""Bytes for what is not in the bound: the program's own frames, its clock, and libc's memcpy."""

BOARD = "qemu-mps2-an386"


@pytest.mark.long
def test_no_call_takes_more_than_its_bound(tmp_path: Path) -> None:
    command = [*HOST, *WARNINGS, f"-I{INCLUDE}", "-static"]
    small = files("tracer", "link")
    sh(*command, PROGRAM, *small, "-o", "stack", cwd=tmp_path)
    measured = dict(line.split() for line in sh(tmp_path / "stack", cwd=tmp_path).splitlines())
    assert len(measured) > 5
    bound = bounds(HOST, small)
    for name, used in measured.items():
        assert int(used) <= bound[name].size + OUTSIDE, name
    deepest = "etd_etdump_write"
    assert int(measured[deepest]) > bound[deepest].size / 2 > OUTSIDE


@pytest.mark.sim
@pytest.mark.long
def test_a_firmware_takes_no_more_than_the_bound_of_its_main(tmp_path: Path) -> None:
    """The bound of all operators, of the image's own objects; the peak that the board reports."""
    graph = "-DCMAKE_C_FLAGS=-fcallgraph-info=su"
    own = "-DCMAKE_C_COMPILER_LAUNCHER="  # a compiler cache keeps no call graphs
    sh("cmake", "--preset", BOARD, "-B", tmp_path / "b", graph, own, cwd=STUB)
    sh("cmake", "--build", tmp_path / "b", "--parallel", "2", cwd=STUB)
    compiled = json.loads((tmp_path / "b/compile_commands.json").read_text())
    options = {option for entry in compiled for option in shlex.split(entry["command"])}
    kept = sorted(o for o in options if o.startswith(("-I", "-D", "-m", "-f", "-std=")))
    command = [compiled[0]["command"].split()[0], *kept]
    sources = sorted({Path(entry["file"]) for entry in compiled})
    bound = built_bounds(tmp_path / "b", PointerCalls(command, sources))
    callbacks = max(bound[name].size for name in bound if "/ports/" in name)

    outcome = harness.run(MODELS / "kws_int8.pte", board=BOARD, runs=2, output=tmp_path / "run")
    assert outcome.result.trace is not None
    used = outcome.result.trace.stack_used
    assert 0 < callbacks < used
    assert bound["main"].size / 2 < used <= bound["main"].size + callbacks


def program(folder: Path, text: str) -> list[Path]:
    """Write a C file and return it as a list."""
    (folder / "program.c").write_text(text)
    return [folder / "program.c"]


def test_a_function_that_calls_itself_has_no_bound(tmp_path: Path) -> None:
    text = "int f(int n);\nint f(int n) { return n > 1 ? n * f(n - 2) + f(n - 1) : 1; }\n"
    with pytest.raises(ValueError, match="f calls itself"):
        bounds(HOST, program(tmp_path, text))


def test_a_frame_of_variable_size_has_no_bound(tmp_path: Path) -> None:
    text = "void g(char *);\nvoid f(int n);\nvoid f(int n) { char bytes[n]; g(bytes); }\n"
    with pytest.raises(ValueError, match="not fixed"):
        bounds(HOST, program(tmp_path, text))


TABLE = """\
typedef int (*function)(int);
void use(char *bytes);
static int deep(int n) { char bytes[500]; use(bytes); return n; }
static int flat(int n) { use(0); return n; }
function table[] = {deep, flat};
int call(int n);
int call(int n) { return table[n](n) + 1; }
int yours(void (*callback)(void));
int yours(void (*callback)(void)) { callback(); return 1; }
"""


def test_a_pointer_may_reach_every_function_of_its_type(tmp_path: Path) -> None:
    found = bounds(HOST, program(tmp_path, TABLE))
    assert found["call"].size > 500
    assert CALLBACK not in found["call"].outside
    assert found["yours"].size < 100
    assert CALLBACK in found["yours"].outside


def test_recursion_through_a_pointer_has_no_bound(tmp_path: Path) -> None:
    text = TABLE + "int also(int n);\nint also(int n) { table[0] = also; return call(n) + 1; }\n"
    with pytest.raises(ValueError, match=r"call calls itself: .*also -> call|also calls itself"):
        bounds(HOST, program(tmp_path, text))


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("void *g = &f; ((void (*)(void))g)();", "a cast changes a function pointer"),
        ("use((void (*)(int))&f);", "a cast changes a function pointer"),
        ("use2(&f);", "nothing calls these through a pointer: .*f"),
    ],
)
def test_a_pointer_that_types_do_not_follow_is_refused(
    statement: str, message: str, tmp_path: Path
) -> None:
    text = "void use(void (*)(int));\nvoid use2(void (*)(void));\n"
    text += f"void f(void);\nvoid f(void) {{ {statement} }}\n"
    with pytest.raises(ValueError, match=message):
        bounds(HOST, program(tmp_path, text))


def test_the_page_has_every_public_function() -> None:
    text = PAGE.read_text()
    assert len(entry_points()) > 60
    assert [name for name in entry_points() if f"| `{name}` |" not in text] == []
