"""What a .pte file says about its methods."""

from __future__ import annotations

import math
import re
from enum import IntEnum
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import Call, Dynamism, FormatError, Instruction, Tensor, ValueList, read_program
from harness.decode import pte_schema as pte
from harness.decode.flatbuffer import FlatBuffer, Shape, Tables, Union, Vector
from tests.conftest import MODELS, ROOT
from tests.support.programs import ProgramBuilder

MAX_SIZE = (1 << 31) - 1

SHAPES = st.lists(st.integers(0, 2**31 - 1), max_size=6)


def test_every_kind_of_value_is_read() -> None:
    builder = ProgramBuilder([0, 64])
    x = builder.tensor((2, 3), memory=(1, 16), dynamism=1, name="x", location=0)
    weight = builder.constant(np.zeros((2, 3), np.int8), dim_order=[1, 0])
    outside = builder.tensor((4,), location=1, name="table")
    state = builder.tensor((4,), memory=(1, 32), constant=1)
    text = builder.text("none")
    integers = builder.integers(3, -1)
    some = builder.tensors(x, weight)
    gaps = builder.tensors(x, -1, optional=True)
    numbers = [
        builder.value("null"),
        builder.value("int", ("i64", -(2**40))),
        builder.value("bool", ("u8", 1)),
        builder.value("double", ("f64", 0.1)),
    ]
    segment = builder.segment(bytes(16))
    file = builder.finish([x], [state], (segment, [0]))
    method = read_program(file).methods[0]
    value = method.values
    assert value[x] == Tensor(6, (2, 3), (0, 1), Dynamism.BOUND, pool=1, offset=16)
    assert value[weight] == Tensor(1, (2, 3), (1, 0), constant=True, data=1)
    assert value[weight].strides == (1, 2)  # type: ignore[union-attr]
    assert value[outside] == Tensor(
        6, (4,), (0,), constant=True, name="table", named=True, external=True
    )
    assert value[state] == Tensor(6, (4,), (0,), pool=1, offset=32, initial_state=True, data=1)
    assert value[text] == "none"
    assert value[integers] == ValueList((3, -1), (integers - 2, integers - 1))
    assert value[some] == ValueList((value[x], value[weight]), (x, weight))  # type: ignore[arg-type]
    assert value[gaps] == ValueList((value[x], None), (x, -1))  # type: ignore[arg-type]
    assert [value[number] for number in numbers] == [None, -(2**40), True, 0.1]
    assert (method.name, method.inputs, method.outputs) == ("forward", (x,), (state,))
    assert method.planned == (0, 64)


def test_every_kind_of_instruction_is_read() -> None:
    builder = ProgramBuilder()
    x, y = builder.tensor((1,)), builder.tensor((1,))
    condition = builder.value("bool", ("u8", 1))
    builder.call("aten::relu", x, y, y)
    builder.call("executorch_prim::et_view", x, y, overload="")
    builder.delegate("Npu", x, y)
    builder.move(x, y)
    builder.jump_if_false(condition, 2)
    builder.free(x)
    method = read_program(builder.finish([x], [y])).methods[0]
    assert method.chains == (
        (
            Instruction(Call.KERNEL, "aten::relu.out", (x, y, y)),
            Instruction(Call.KERNEL, "executorch_prim::et_view", (x, y)),
            Instruction(Call.DELEGATE, "Npu", (x, y), 0),
            Instruction(Call.MOVE, "", (x, y)),
            Instruction(Call.JUMP_FALSE, "", (condition,), 2),
            Instruction(Call.FREE, "", (x,)),
        ),
    )
    assert method.instruction(0, 3) is method.chains[0][3]
    for outside in [(-1, 0), (0, -1), (0, 6), (1, 0)]:
        assert method.instruction(*outside) is None


def test_methods_are_found_by_name() -> None:
    program = read_program((MODELS / "methods.pte").read_bytes())
    assert [method.name for method in program.methods] == ["encode", "forward"]
    assert program.method("encode") is program.methods[0]
    assert program.method("decode") is None


@given(
    sizes=SHAPES.filter(lambda sizes: math.prod(max(n, 1) for n in sizes) < 2**63), data=st.data()
)
def test_strides_enumerate_memory_from_the_innermost_dimension(
    sizes: list[int], data: st.DataObject
) -> None:
    order = data.draw(st.permutations(range(len(sizes))))
    strides = Tensor(6, tuple(sizes), tuple(order)).strides
    expected = 1
    for dimension in reversed(order):
        assert strides[dimension] == expected
        expected *= max(sizes[dimension], 1)


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda b: b.call("aten::relu", 7), "argument"),
        (lambda b: b.call_delegate(0, 0), "DelegateCall.delegate_index"),
        (lambda b: b.tensors(0, 9), "tensor_list"),
        (lambda b: b.tensors(b.value("null")), "tensor_list"),
        (lambda b: b.tensor((2, 2), dim_order=[0, 0]), "Tensor"),
        (lambda b: b.tensor((-1,)), "Tensor"),
        (lambda b: b.tensor((1,), dynamism=3), "Tensor"),
    ],
)
def test_what_contradicts_itself_is_refused_by_place_and_field(make: object, field: str) -> None:
    builder = ProgramBuilder()
    builder.tensor((1,))
    make(builder)  # type: ignore[operator]
    with pytest.raises(FormatError) as caught:
        read_program(builder.finish())
    assert caught.value.field == field
    assert caught.value.offset is not None


def test_an_input_that_is_no_value_is_refused() -> None:
    with pytest.raises(FormatError, match="input or output"):
        read_program(ProgramBuilder().finish([0]))


def test_another_file_is_refused() -> None:
    with pytest.raises(FormatError, match="not an ExecuTorch program"):
        read_program(b"ELF\0" * 8)


def test_a_file_shorter_than_it_says_is_refused() -> None:
    whole = (MODELS / "small_int8.pte").read_bytes()
    with pytest.raises(FormatError, match="truncated"):
        read_program(whole[:100])


@pytest.fixture(scope="module", params=["small_int8", "dynamic", "npu_int"])
def model(request: pytest.FixtureRequest) -> bytes:
    return (MODELS / f"{request.param}.pte").read_bytes()


@pytest.mark.attack("Files", "any damage of a `.pte` file, on the host", "read, or exit code 2")
@given(data=st.data())
def test_damage_is_either_harmless_or_refused(model: bytes, data: st.DataObject) -> None:
    damaged = bytearray(model)
    places = st.integers(0, len(damaged) - 1)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(places)] = data.draw(st.integers(0, 255))
    cut = data.draw(st.none() | places)
    try:
        program = read_program(bytes(damaged[:cut]))
    except FormatError:
        return
    for method in program.methods:
        for chain in method.chains:
            assert all(0 <= n < len(method.values) for step in chain for n in step.args)


def test_the_models_are_read_without_torch() -> None:
    for path in sorted(Path(MODELS).glob("*.pte")):
        program = read_program(path.read_bytes())
        assert all(method.chains[0] for method in program.methods), path.name


NUMBERS = {
    **{"byte": "i1", "ubyte": "u1", "bool": "u1", "int": "<i4", "uint": "<u4", "uint32": "<u4"},
    **{"long": "<i8", "int64": "<i8", "uint64": "<u8", "double": "<f8"},
}


def test_the_layout_that_is_verified_is_that_of_the_schema() -> None:
    text = "".join(
        re.sub(r"//.*|\(.*?\)", "", (ROOT / "schema" / name).read_text())
        for name in ("program.fbs", "scalar_type.fbs")
    )
    tables = dict(re.findall(r"table (\w+) \{(.*?)\}", text, re.S))
    unions = dict(re.findall(r"union (\w+) \{(.*?)\}", text, re.S))
    enums = re.findall(r"enum (\w+)\s*:\s*byte", text)
    numbers = {**NUMBERS, **dict.fromkeys(enums, "i1")}
    pairs: list[tuple[str, type[IntEnum]]] = [("Program", pte.ProgramTable)]
    seen: set[tuple[str, type[IntEnum]]] = set()

    def compare(kind: str, shape: Shape) -> None:
        if kind.startswith("["):
            assert isinstance(shape, Vector)
            compare(kind.strip("[]"), shape.of)
        elif kind in unions:
            assert isinstance(shape, Union)
            members = dict(enumerate(re.findall(r"\w+", unions[kind]), start=1))
            assert list(shape.of) == list(members)
            pairs.extend((members[number], slots) for number, slots in shape.of.items())
        elif kind in tables:
            assert isinstance(shape, type)
            assert issubclass(shape, IntEnum)
            pairs.append((kind, shape))
        else:
            assert shape == (str if kind == "string" else numbers[kind])

    while pairs:
        name, slots = pair = pairs.pop()
        if pair in seen:
            continue
        seen.add(pair)
        kinds: list[str] = []
        for kind in re.findall(r"\w+:\s*(\[?\w+\]?)", tables[name]):
            kinds += ["ubyte", kind] if kind in unions else [kind]
        shapes = pte.LAYOUT[slots]
        assert [int(slot) for slot in slots] == [*range(len(kinds))] == [*range(len(shapes))]
        for kind, shape in zip(kinds, shapes, strict=True):
            compare(kind, shape)
    assert {name for name, _ in seen} == set(tables)
    assert {slots for _, slots in seen} == set(pte.LAYOUT)


def test_what_nobody_reads_is_verified_too() -> None:
    data = bytearray((MODELS / "npu_str.pte").read_bytes())
    start = np.zeros(1, np.int64)
    buffer = FlatBuffer(bytes(data), 0, len(data), table_sizes=False)
    root = Tables.at(buffer, buffer.follow(start, "root"), pte.ProgramTable)
    [vector] = root.references(pte.ProgramTable.SEGMENTS).tolist()
    data[vector + 4 : vector + 8] = b"\xf0\xff\xff\x7f"
    with pytest.raises(FormatError, match=r"points outside the buffer in Program\.segments"):
        read_program(bytes(data))


def test_a_flatbuffer_has_less_than_two_gigabytes() -> None:
    with pytest.raises(FormatError, match="has less than 2147483647 bytes"):
        FlatBuffer(b"", 0, MAX_SIZE)
    FlatBuffer(b"", 0, MAX_SIZE - 1)
