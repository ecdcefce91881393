"""What a bundled program holds: its program, and inputs and expected outputs of every test set."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import FormatError, read_bundled_program, read_program
from tests.conftest import MODELS, CommandResult
from tests.support.bundled import FIXTURE

DATA = FIXTURE.read_bytes()


def test_every_test_set_is_read_in_the_order_of_the_file() -> None:
    found = read_bundled_program(DATA)
    assert [(each.method, each.index) for each in found.test_sets] == [
        *(("encode", 0), ("encode", 1)),
        *(("forward", 0), ("forward", 1), ("forward", 2)),
    ]
    for each in found.test_sets:
        (x,) = each.inputs
        assert isinstance(x, np.ndarray)
        assert (x.shape, x.dtype) == ((2, 4), np.float32)
        shapes = [output.shape for output in each.expected]
        assert shapes == ([(2, 8), ()] if each.method == "encode" else [(2, 3)])
    encoded, total = found.test_sets[1].expected
    assert encoded.sum() == pytest.approx(float(total), rel=1e-6)


def test_the_program_within_is_a_model_of_its_own() -> None:
    program = read_bundled_program(DATA).program
    assert program in DATA
    assert read_program(DATA) == read_program(program)
    with pytest.raises(FormatError, match="BP08"):
        read_bundled_program(program)
    assert {method.name for method in read_program(DATA).methods} == {"encode", "forward"}


def test_another_file_or_version_is_refused() -> None:
    with pytest.raises(FormatError, match=r"BP08.*'ET12' in file identifier at byte 4"):
        read_bundled_program((MODELS / "kws_int8.pte").read_bytes())
    with pytest.raises(FormatError, match="'BP07'") as caught:
        read_program(DATA[:4] + b"BP07" + DATA[8:])
    assert "bundle the program again" in caught.value.hint


def test_inspect_counts_the_test_sets(etharness: Callable[..., CommandResult]) -> None:
    _, out, _ = etharness("inspect", FIXTURE, "--board", "native", "--json")
    document = json.loads(out)
    assert document["bytes"] == len(read_bundled_program(DATA).program)
    counts = {method["name"]: method["test_sets"] for method in document["methods"]}
    assert counts == {"encode": 2, "forward": 3}
    _, out, _ = etharness("inspect", FIXTURE, "--board", "native")
    assert re.search(r"test sets +3\n", out)
    _, out, _ = etharness("inspect", "kws_int8", "--board", "native", "--json")
    assert json.loads(out)["methods"][0]["test_sets"] is None


@given(st.integers(0, len(DATA) - 8))
def test_a_truncated_file_is_refused(length: int) -> None:
    """Up to 7 bytes at the end are padding."""
    with pytest.raises(FormatError):
        read_bundled_program(DATA[:length])


@pytest.mark.attack("Files", "any damage of a `.bpte` file", "read, or exit code 2")
@given(
    st.lists(st.tuples(st.integers(0, len(DATA) - 1), st.integers(0, 255)), min_size=1, max_size=4)
)
def test_damage_is_refused_or_harmless(changes: list[tuple[int, int]]) -> None:
    damaged = bytearray(DATA)
    for at, value in changes:
        damaged[at] = value
    try:
        found = read_bundled_program(bytes(damaged))
    except FormatError:
        return
    assert found.program
    assert all(
        isinstance(output, np.ndarray) for each in found.test_sets for output in each.expected
    )
