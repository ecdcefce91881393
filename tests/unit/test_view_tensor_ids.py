"""Ids of tensors and storages, and the lifetimes of planned memory that they follow from."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import Tensor, read_program
from harness.extensions.exports.kineto import Ids, TensorReference, planned_ids, unique_ids
from tests.conftest import MODELS, CommandResult
from tests.support.programs import ProgramBuilder


def test_memory_that_is_freed_and_taken_again_is_another_storage() -> None:
    references = [
        TensorReference("a"),
        TensorReference("a", tensor=1),
        TensorReference("b"),
        TensorReference("a", freed=True),
        TensorReference("a", tensor=2),
        TensorReference("b", freed=True),
    ]
    assert unique_ids(references) == [
        Ids(1, 0),
        Ids(1, 0),
        Ids(2, None),
        Ids(1, 0),
        Ids(3, 1),
        Ids(2, None),
    ]


def test_storages_that_hold_one_tensor_in_turn_share_its_id() -> None:
    places = [("a", 1), ("b", 2), ("c", 1), ("b", 3), ("d", 4)]
    ids = unique_ids([TensorReference(*place) for place in places])
    assert ids == [Ids(1, 0), Ids(2, 1), Ids(3, 0), Ids(2, 1), Ids(4, 2)]


@given(
    st.lists(
        st.builds(
            TensorReference,
            st.sampled_from("abc"),
            st.one_of(st.none(), st.integers(1, 4)),
            freed=st.booleans(),
        ),
        max_size=40,
    )
)
def test_ids_have_no_gaps_and_what_is_one_has_one(references: list[TensorReference]) -> None:
    ids = unique_ids(references)
    storages = [item.storage for item in ids]
    seen = {item.tensor for item in ids if item.tensor is not None}
    assert set(storages) == set(range(1, len(set(storages)) + 1))
    assert seen == set(range(len(seen)))
    open_at: dict[object, int] = {}
    for reference, item in zip(references, ids, strict=True):
        assert open_at.setdefault(reference.address, item.storage) == item.storage
        if reference.freed:
            del open_at[reference.address]
        assert (item.tensor is None) <= (reference.tensor is None)


def small_program() -> bytes:
    """x -> relu -> y -> relu -> z -> relu -> w, where z lies where x was."""
    builder = ProgramBuilder([0, 96])
    offsets = (0, 32, 0, 64)
    x, y, z, w = (builder.tensor((8,), memory=(1, offset)) for offset in offsets)
    builder.call("aten::relu", x, y, y)
    builder.call("aten::relu", y, z, z)
    builder.call("aten::relu", z, w, w)
    return builder.finish([x], [w])


@pytest.fixture
def inspected(
    etharness: Callable[..., CommandResult], tmp_path: Path
) -> Callable[[bytes], list[dict[str, Any]]]:
    """What inspect says of the methods of a program."""

    def inspect(program: bytes) -> list[dict[str, Any]]:
        (tmp_path / "model.pte").write_bytes(program)
        found = etharness("inspect", tmp_path / "model.pte", "--json")
        assert found.code == 0, found.err
        return list(json.loads(found.out)["methods"])

    return inspect


Inspected = Callable[[bytes], list[dict[str, Any]]]


def live_bytes(pool: dict[str, Any], instruction: int) -> int:
    """Bytes of a pool in use at an instruction; those of several tensors count once."""
    places: set[int] = set()
    for tensor in pool["tensors"]:
        if tensor["first"] <= instruction <= tensor["last"]:
            places.update(range(tensor["offset"], tensor["offset"] + tensor["size"]))
    return len(places)


def lifetimes(pool: dict[str, Any]) -> dict[int, tuple[int, int]]:
    """First and last instruction that need each value; -1 is before the first."""
    return {tensor["value"]: (tensor["first"], tensor["last"]) for tensor in pool["tensors"]}


def test_planned_memory_has_other_tensors_after_another(inspected: Inspected) -> None:
    program = small_program()
    ids = planned_ids(read_program(program).methods[0])
    assert len({item.storage for item in ids.values()}) == 4
    assert len({item.tensor for item in ids.values()}) == 4
    [method] = inspected(program)
    [pool] = method["pools"]
    assert lifetimes(pool) == {0: (-1, 0), 1: (0, 1), 2: (1, 2), 3: (2, 3)}
    assert (pool["pool"], pool["planned"], pool["peak"], pool["peak_at"]) == (1, 96, 64, 0)
    assert [live_bytes(pool, number) for number in range(-1, 4)] == [32, 64, 64, 64, 32]


def test_a_loop_keeps_what_it_carries(inspected: Inspected) -> None:
    builder = ProgramBuilder([0, 128])
    x, y, z = (builder.tensor((8,), memory=(1, 32 * number)) for number in range(3))
    done = builder.value("bool", ("u8", 1))
    builder.call("aten::relu", x, y, y)
    builder.call("aten::relu", x, z, z)
    builder.jump_if_false(done, 1)
    [method] = inspected(builder.finish([x], [z]))
    # y is not used in the loop; x, which is used in it, is needed by every turn.
    assert lifetimes(method["pools"][0]) == {0: (-1, 2), 1: (0, 0), 2: (1, 3)}


@pytest.mark.parametrize("path", sorted(MODELS.glob("*.pte")), ids=lambda path: path.stem)
def test_what_is_needed_at_one_time_does_not_overlap_in_planned_memory(
    path: Path, inspected: Inspected
) -> None:
    program = path.read_bytes()
    for method, found in zip(read_program(program).methods, inspected(program), strict=True):
        ids = planned_ids(method)
        for pool in found["pools"]:
            reach = max((item["offset"] + item["size"] for item in pool["tensors"]), default=0)
            assert pool["peak"] <= reach <= pool["planned"]
            # The most is needed where a tensor begins to be.
            begins = {item["first"] for item in pool["tensors"]}
            assert pool["peak"] == max(live_bytes(pool, at) for at in begins)
            for one, other in combinations(pool["tensors"], 2):
                together = one["first"] <= other["last"] and other["first"] <= one["last"]
                start, end = (
                    max(one["offset"], other["offset"]),
                    min(one["offset"] + one["size"], other["offset"] + other["size"]),
                )
                if together and start < end:
                    # Views lie in the storage that they are views of.
                    assert one["offset"] == other["offset"]
                    assert ids[one["value"]].tensor == ids[other["value"]].tensor
        tensors = [n for n, value in enumerate(method.values) if isinstance(value, Tensor)]
        assert set(ids) <= set(tensors)


@pytest.mark.parametrize("name", ["ic_int8", "kws_f32", "vww_int8"])
def test_networks_need_all_memory_that_is_planned_for_them(name: str, inspected: Inspected) -> None:
    [method] = inspected((MODELS / f"{name}.pte").read_bytes())
    [pool] = method["pools"]
    assert pool["peak"] == pool["planned"]


def test_a_tensor_of_an_unknown_type_has_no_size(
    etharness: Callable[..., CommandResult], tmp_path: Path
) -> None:
    builder = ProgramBuilder([0, 64])
    x = builder.tensor((4,), memory=(1, 0), scalar_type=99)
    builder.call("aten::relu", x, x, x)
    (tmp_path / "model.pte").write_bytes(builder.finish([x], [x]))
    code, _, err = etharness("inspect", tmp_path / "model.pte")
    assert code == 2
    assert "unknown scalar type 99" in err
