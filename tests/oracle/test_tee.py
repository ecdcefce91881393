"""One execution, two files: a tee gives ExecuTorch's ETDumpGen and our tracer the same calls."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("executorch.devtools", reason="needs torch and executorch")

from harness import ClockDomain, read_ed00, read_log, write_ed00
from tests.support.executorch import Build

if TYPE_CHECKING:
    from tests.support.dumps import Generator

pytestmark = pytest.mark.oracle
STRICT = ["-Wall", "-Wextra", "-Wconversion", "-Werror", "-fno-exceptions", "-fno-rtti"]
CLOCKS = [ClockDomain("ticks", None, 32)]
SCRIPT = """\
block Execute
allocator heap
start Method::execute -1 0 100
start OPERATOR_CALL 0 3 110
start_delegate layer -1 115
end_delegate 120
value 0 3 41
start_delegate - 7 121
end_delegate 124
end 130
delegate inner -1 0 3 111 119 meta
allocation 1 640
end 140
"""


def both(generator: Generator, script: str) -> str:
    """The two files of a script say the same; returns what the program printed."""
    dump, log, printed = generator.tee(script)
    ours = read_log(log.read_bytes(), CLOCKS)
    assert read_ed00(dump.read_bytes()) == read_ed00(write_ed00(ours, allocation_events=True))
    return printed


def test_both_files_say_the_same(generator: Generator) -> None:
    assert both(generator, SCRIPT) == ""


def test_etdumpgen_writes_what_it_writes_alone(generator: Generator) -> None:
    dump, _, _ = generator.tee(SCRIPT)
    assert dump.read_bytes() == generator.make(SCRIPT).read_bytes()


def test_what_only_our_file_can_say_is_passed_on(generator: Generator) -> None:
    """ETDumpGen does not write the bundled input, nor that a number is an output."""
    _, log, _ = generator.tee("bundled 2\nblock Execute\noutput -1 0 12\n")
    ours = read_log(log.read_bytes(), CLOCKS)
    assert ours.blocks[0].bundled_input_index == 2
    assert [(value.value, value.output) for value in ours.debug_values] == [(12, True)]


def test_what_has_no_room_is_passed_to_neither_and_counted(generator: Generator) -> None:
    """The program's tee has room for three open events and two allocators."""
    deep = "block Execute\nallocator a\nallocator b\nallocator c\nallocation 0 8\n" + "".join(
        f"start level{depth} 0 1 {100 + depth}\n" for depth in range(5)
    )
    assert both(generator, deep + "end 200\n" * 5) == "dropped 4\n"


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("start"), st.sampled_from("ab"), st.integers(-1, 70_000)),
            st.tuples(st.just("end")),
            st.tuples(st.just("value"), st.integers(-(2**63), 2**63 - 1)),
        ),
        max_size=20,
    )
)
def test_any_calls_are_passed_to_both(
    generator: Generator, calls: list[tuple[object, ...]]
) -> None:
    lines, kinds = ["block Execute"], list[str]()
    for time, (call, *rest) in enumerate(calls):
        if call == "start" and len(kinds) < 3:
            delegated = rest[1] == -1
            kinds.append("end_delegate" if delegated else "end")
            name, chain = rest
            where = f"-1 {time}" if delegated else f"{chain} 5 {time}"
            lines.append(f"start{'_delegate' * delegated} {name} {where}")
        elif call == "end" and kinds:
            lines.append(f"{kinds.pop()} {time}")
        elif call == "value":
            lines.append(f"value 0 1 {rest[0]}")
    lines += [f"{kind} 50" for kind in reversed(kinds)]
    assert both(generator, "\n".join(lines) + "\n") == ""


def test_it_compiles_as_firmware_does(tmp_path: Path) -> None:
    source = tmp_path / "tee.cpp"
    source.write_text('#include "etdump_stub/tee.hpp"\ntemplate class etdump_stub::Tee<>;\n')
    Build(tmp_path).compile(source, *STRICT)
