"""`etharness compare --values`: which operator computes something else."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import Block, DebugValue, EventSymbols, Kind, NotComparableError, TensorValue, Trace
from harness.extensions.web.html.page import values_report
from harness.inspector.gap import ReferenceValues, compare_with_reference, values_by_handle
from harness.inspector.values import LoggedTrace, compare_values
from harness.report.description import Fact
from tests.conftest import ROOT, CommandResult

Etharness = Callable[..., CommandResult]
TYPES = {np.int8: 1, np.int32: 3, np.float32: 6, np.float64: 7}


def logged(executions: list[list[np.ndarray]]) -> LoggedTrace:
    """A trace whose instruction i logged the i-th array of its execution."""
    rows = [(i, array) for arrays in executions for i, array in enumerate(arrays)]
    buffer, values = b"", []
    for _, array in rows:
        steps = [step // array.itemsize for step in np.empty(array.shape, array.dtype).strides]
        tensor = TensorValue(TYPES[array.dtype.type], array.shape, tuple(steps), len(buffer))
        values.append(DebugValue(tensor, 1))
        buffer += array.tobytes() + bytes(-len(buffer + array.tobytes()) % 8)
    blocks, first = [], 0
    for arrays in executions:
        blocks.append(Block("Execute", first, len(arrays)))
        first += len(arrays)
    trace = Trace.unset(len(rows), blocks=blocks, debug_values=values)
    trace.kind[:] = Kind.DEBUG
    trace.chain[:] = 0
    trace.instruction[:] = [instruction for instruction, _ in rows]
    trace.debug[:] = np.arange(len(rows))
    return LoggedTrace(trace.sealed(), buffer)


arrays = st.builds(
    lambda kind, count, seed: np.asarray(
        np.random.default_rng(seed).normal(0, 30, (1, count))
    ).astype(kind),
    st.sampled_from([*TYPES]),
    st.integers(1, 20),
    st.integers(0, 2**32),
)
executions = st.integers(1, 6).flatmap(
    lambda count: st.lists(st.lists(arrays, min_size=count, max_size=count), min_size=1, max_size=3)
)


@given(executions)
def test_a_trace_is_like_itself(found: list[list[np.ndarray]]) -> None:
    comparison = compare_values(logged(found), logged(found))
    assert comparison.first_diverging is None
    assert all(gap.max_abs == 0 and gap.snr_db == np.inf for gap in comparison.gaps)
    assert all(gap.cosine == pytest.approx(1) for gap in comparison.gaps)


@given(executions, st.data())
def test_the_first_changed_instruction_is_found(
    found: list[list[np.ndarray]], data: st.DataObject
) -> None:
    """In whichever execution it changes, and however the later ones follow it."""
    execution = data.draw(st.integers(0, len(found) - 1))
    changed = data.draw(st.integers(0, len(found[0]) - 1))
    other = [[array.copy() for array in arrays] for arrays in found]
    for index in range(changed, len(found[execution])):
        array = other[execution][index].ravel()
        # Far beyond the rounding that values of floats may differ by.
        step = 1.0 if array.dtype.kind == "i" else max(1.0, 0.1 * np.abs(array).max())
        array[0] += -step if array[0] > 0 else step
        other[execution][index] = array.reshape(1, -1)
    first = compare_values(logged(found), logged(other)).first_diverging
    assert first is not None
    assert first.instruction == changed
    assert first.max_abs > first.tolerance


def test_floats_may_differ_by_rounding_and_integers_not_at_all() -> None:
    floats = np.array([[1.0, 100.0]], np.float32)
    near, far = floats + np.float32(0.005), floats + np.float32(0.02)
    assert compare_values(logged([[floats]]), logged([[near]])).first_diverging is None
    assert compare_values(logged([[floats]]), logged([[far]])).first_diverging is not None
    whole = np.array([[1, 100]], np.int8)
    gap = compare_values(logged([[whole]]), logged([[whole + np.int8(1)]])).first_diverging
    assert gap is not None
    assert (gap.max_abs, gap.mean_abs, gap.tolerance) == (1, 1, 0)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_a_number_diverges_only_from_numbers(value: float) -> None:
    odd, plain = np.array([[value, 2.0]], np.float32), np.array([[1.0, 2.0]], np.float32)
    assert compare_values(logged([[odd]]), logged([[odd]])).first_diverging is None
    for pair in ((odd, plain), (plain, odd)):
        first = compare_values(*(logged([[side]]) for side in pair)).first_diverging
        assert first is not None


def test_other_shapes_and_missing_instructions_are_counted() -> None:
    one, two = np.ones((1, 2), np.float32), np.ones((1, 3), np.float32)
    found = compare_values(logged([[one, one, one]]), logged([[one, two]]))
    assert (len(found.gaps), found.unmatched) == (1, 2)
    with pytest.raises(NotComparableError, match="no value of the first trace"):
        compare_values(logged([[one]]), logged([[two]]))
    with pytest.raises(NotComparableError, match="second trace has no logged values"):
        compare_values(logged([[one]]), logged([]))


def test_the_command_compares_two_runs(etharness: Etharness, tmp_path: Path) -> None:
    run = ["run", "--board", "native", "--model", "small_int8", "--runs", "2", "--values"]
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        assert etharness(*run, "intermediate", "--seed", str(seed), "-o", tmp_path / name).code == 0
    assert etharness(*run, "none", "--seed", "1", "-o", tmp_path / "none").code == 0
    code, out, _ = etharness("compare", tmp_path / "a", tmp_path / "b", "--values")
    assert code == 0
    assert "tensors within their tolerance" in out
    code, out, _ = etharness("compare", tmp_path / "a", tmp_path / "b", "--values", "--json")
    schema = json.loads((ROOT / "schema/compare-values.schema.json").read_text())
    document = json.loads(out)
    jsonschema.validate(document, schema)
    assert document["first_diverging"] is None
    code, _, err = etharness("compare", tmp_path / "a", tmp_path / "c", "--values")
    assert code == 3
    assert "different inputs" in err
    code, _, err = etharness("compare", tmp_path / "a", tmp_path / "none", "--values")
    assert code == 3
    assert "the second trace has no logged values" in err
    assert etharness("compare", tmp_path / "a", tmp_path / "b", "--etrecord", "x").code == 2


def test_the_command_writes_pages_and_json(etharness: Etharness, tmp_path: Path) -> None:
    run = ["run", "--board", "native", "--values", "intermediate", "--model", "small_int8"]
    assert etharness(*run, "-o", tmp_path / "a").code == 0
    pages = []
    for name in ("page.html", "again.html"):
        code, _, _ = etharness(
            *("compare", tmp_path / "a", tmp_path / "a", "--values"),
            *("--report", tmp_path / name, "--report", tmp_path / "values.json"),
        )
        assert code == 0
        pages.append((tmp_path / name).read_text())
    assert pages[0] == pages[1]
    assert "no difference beyond the tolerances" in pages[0]
    document = json.loads((tmp_path / "values.json").read_text())
    assert pages[0].count("<tr><td>") == len(document["gaps"])
    for arguments, message in (
        (["--values", "--report", "x.md"], "no report with the suffix '.md'"),
        (["--report", "x.xml"], "no report with the suffix '.xml'"),
    ):
        code, _, err = etharness("compare", tmp_path / "a", tmp_path / "a", *arguments)
        assert code == 2
        assert message in err


def test_a_page_marks_what_differs_and_escapes_names() -> None:
    one, two = np.ones((1, 3), np.float32), np.full((1, 3), 2, np.float32)
    found = compare_values(logged([[one, one]]), logged([[one, two]]))
    page = values_report(found, [Fact("before", "<script>")]).decode()
    assert "first difference: instruction, 0.1: largest difference 1, tolerance 0.0001" in page
    assert [page.count(f'badge {outcome}"') for outcome in ("pass", "fail")] == [1, 2]
    assert "&lt;script&gt;" in page


@pytest.mark.parametrize("arguments", [[], ["--values"]])
def test_one_run_needs_a_reference(
    etharness: Etharness, tmp_path: Path, arguments: list[str]
) -> None:
    code, _, err = etharness("compare", tmp_path, *arguments)
    assert code == 2
    assert "compare needs a second run, or an ETRecord" in err


def with_handles(found: LoggedTrace) -> LoggedTrace:
    """The trace with an ETRecord by which instruction i has fused the operators i and 100 + i."""
    handles = [(int(i), 100 + int(i)) for i in found.trace.instruction]
    return replace(found, symbols=[EventSymbols(each) for each in handles])


@given(executions.filter(lambda found: len(found) == 1), st.data())
def test_a_reference_is_of_the_last_operator_of_an_instruction(
    found: list[list[np.ndarray]], data: st.DataObject
) -> None:
    trace = with_handles(logged(found))
    reference = {100 + i: [array] for i, array in enumerate(found[0])}
    # Of operators before the last one nothing is logged.
    same = compare_with_reference(
        trace, ReferenceValues(reference | {i: [array + 1] for i, array in enumerate(found[0])})
    )
    assert same.first_diverging is None
    assert (len(same.gaps), same.unmatched) == (len(found[0]), 0)
    changed = data.draw(st.integers(0, len(found[0]) - 1))
    others = {100 + i: [array + 100 if i >= changed else array] for i, array in enumerate(found[0])}
    first = compare_with_reference(trace, ReferenceValues(others)).first_diverging
    assert first is not None
    assert first.instruction == changed
    missing = {key: value for key, value in reference.items() if key != 100 + changed}
    if missing:
        assert compare_with_reference(trace, ReferenceValues(missing)).unmatched == 1


def test_numbers_of_another_kind_have_no_counterpart() -> None:
    one = np.ones((1, 3), np.int8)
    trace = with_handles(logged([[one, one]]))
    reference = {100: [one.astype(np.float32)], 101: [one]}
    found = compare_with_reference(trace, ReferenceValues(reference))
    assert (len(found.gaps), found.unmatched) == (1, 1)
    with pytest.raises(NotComparableError, match="no logged value has a counterpart"):
        compare_with_reference(trace, ReferenceValues({}))
    with pytest.raises(NotComparableError, match="the trace has no logged values"):
        compare_with_reference(with_handles(logged([])), ReferenceValues(reference))


@pytest.mark.parametrize(("off", "diverges"), [(0, False), (1, False), (2, True)])
def test_a_fused_quantized_operator_may_be_one_quantum_off(off: int, diverges: bool) -> None:
    one = np.full((1, 3), 7, np.int8)
    trace = with_handles(logged([[one]]))
    unfused = {100: [one.astype(np.float32) / 5]}
    (gap,) = compare_with_reference(
        trace, ReferenceValues(unfused, quantized={100: [one + np.int8(off)]})
    ).gaps
    assert (gap.max_abs, gap.tolerance, gap.diverges) == (off, 1, diverges)


def test_values_of_the_first_execution_are_found_by_the_last_handle() -> None:
    one, two = np.ones((1, 3), np.int8), np.full((1, 3), 2, np.int8)
    found = values_by_handle(with_handles(logged([[one, two], [two, one]])))
    assert {key: value[0][0].tolist() for key, value in found.items()} == {
        100: one.tolist(),
        101: two.tolist(),
    }


def _how(before: np.ndarray, after: np.ndarray) -> tuple[str, int]:
    [gap] = compare_values(logged([[before]]), logged([[after]])).gaps
    return gap.how, gap.differing


def test_how_the_first_operator_differs_is_said() -> None:
    whole = np.array([[-100, -3, 0, 5, 90, 120, 127, 127]], np.int8)
    assert _how(whole, whole) == ("none", 0)
    step = whole - np.array([[0, 1, 0, -1, 0, 0, 0, 1]], np.int8)
    assert _how(whole, step) == ("rounding", 3)
    below = np.minimum(whole, np.int8(80))
    assert _how(below, whole) == _how(whole, below) == ("saturation", 4)
    assert _how(whole, whole[:, ::-1].copy()) == ("order", 8)
    wrong = whole.copy()
    wrong[0, 2] = 50
    assert _how(whole, wrong) == ("wrong", 1)
    floats = np.linspace(-1, 1, 9, dtype=np.float32)[None]
    assert _how(floats, floats * np.float32(1 + 1e-6))[0] == "rounding"
    assert _how(floats, floats * np.float32(1.5)) == ("scale", 8)
    assert _how(floats, np.maximum(floats, 0)) == ("saturation", 4)
    missing = floats.copy()
    missing[0, 0] = np.nan
    assert _how(floats, missing) == ("not a number", 1)
    assert _how(floats.astype(np.float64), floats) == ("none", 0)


@given(
    seed=st.integers(0, 2**32),
    factor=st.floats(0.5, 0.9),
    offset=st.integers(-20, 20),
    size=st.integers(24, 400),
)
def test_a_scale_is_what_explains_most_of_a_difference(
    seed: int, factor: float, offset: int, size: int
) -> None:
    """Noise of two steps is none, however alike the tensors are; rounding hides none."""
    random = np.random.default_rng(seed)
    before = random.integers(-100, 101, (1, size)).astype(np.int8)
    before[0, :2] = -100, 100
    scaled = np.round(before * factor + offset).astype(np.int8)
    assert _how(before, scaled)[0] == _how(scaled, before)[0] == "scale"
    noise = random.choice(np.array([-2, 2], np.int8), before.shape)
    assert _how(before, before + noise)[0] == "wrong"
    floats = before.astype(np.float32)
    assert _how(floats, floats + noise)[0] == "wrong"
    assert _how(floats, floats * np.float32(factor))[0] == "scale"
    constant = np.full_like(before, 3)
    assert "scale" not in (_how(constant, before)[0], _how(before, constant)[0])


@given(arrays, st.integers(0, 2**32))
def test_one_rounding_step_of_integers_is_never_called_wrong(array: np.ndarray, seed: int) -> None:
    if array.dtype.kind != "i":
        return
    random = np.random.default_rng(seed)
    other = array + random.integers(-1, 2, array.shape).astype(array.dtype)
    near = np.abs(other.astype(np.int64) - array) <= 1
    other = np.where(near, other, array)
    how, differing = _how(array, other)
    assert how == ("rounding" if differing else "none")
    assert differing == np.count_nonzero(array != other)


@pytest.mark.extension("why")
def test_values_of_another_program_are_paired_by_the_graph(
    etharness: Etharness, tmp_path: Path
) -> None:
    """The last dequantize is instruction 4 of one program, and 2 of the other."""
    for name in ("layout", "layout_advised"):
        model = ROOT / f"tests/fixtures/advice/{name}.pte"
        words = ("--board", "native", "--model", model, "--runs", "1", "--values", "intermediate")
        assert etharness("run", *words, "-o", tmp_path / name).code == 0
    paths = (tmp_path / "layout", tmp_path / "layout_advised")
    code, out, _ = etharness("compare", *paths, "--values", "--json")
    document = json.loads(out)
    jsonschema.validate(
        document, json.loads((ROOT / "schema/compare-values.schema.json").read_text())
    )
    assert code == 1
    assert [(gap["chain"], gap["instruction"]) for gap in document["gaps"]][:2] == [(0, 0), (0, 4)]
    assert "paired by the places of their operators" in document["note"]
    assert document["note"] in " ".join(etharness("compare", *paths, "--values").out.split())
