"""Data of ``.ptd`` files, linked into programs that ExecuTorch exported (``external_data``)."""

from __future__ import annotations

import contextlib
import hashlib
import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import harness
from harness import FormatError, Tensor, UsageError, link_program, read_program
from tests.conftest import FIXTURES, MODELS, CommandResult

Etharness = Callable[..., CommandResult]

FOLDER = FIXTURES / "external_data"
ALL, TWO, DELEGATE = (FOLDER / f"{name}.pte" for name in ("all", "two", "delegate"))
FILES = {ALL: ["all.ptd"], TWO: ["conv.ptd", "linear.ptd"], DELEGATE: ["delegate.ptd"]}


def linked(model: Path, *names: str) -> bytes:
    files = [FOLDER / name for name in names or FILES[model]]
    return link_program(model.read_bytes(), files, model.name)


def tensors(data: bytes) -> list[Tensor]:
    [method] = read_program(data).methods
    return [value for value in method.values if isinstance(value, Tensor)]


@pytest.mark.parametrize("model", FILES, ids=lambda model: model.stem)
def test_nothing_but_the_place_of_constants_changes(model: Path) -> None:
    before, after = (read_program(data).methods[0] for data in (model.read_bytes(), linked(model)))
    assert [(one.name, one.inputs, one.outputs, one.planned) for one in (after,)] == [
        (one.name, one.inputs, one.outputs, one.planned) for one in (before,)
    ]
    pairs = [*zip(tensors(model.read_bytes()), tensors(linked(model)), strict=True)]
    assert len(pairs) >= 2
    for old, new in pairs:
        assert (new.scalar_type, new.sizes, new.dim_order) == (
            *(old.scalar_type, old.sizes, old.dim_order),
        )
        assert (new.pool, new.offset, new.constant) == (old.pool, old.offset, old.constant)
        assert not new.external


def test_a_linked_program_needs_no_more_data() -> None:
    assert [tensor.name for tensor in tensors(ALL.read_bytes()) if tensor.external]
    with pytest.raises(UsageError, match="needs no external data"):
        link_program(linked(ALL), [FOLDER / "all.ptd"], "linked.pte")


def test_a_weight_that_two_layers_share_is_there_once() -> None:
    [weight] = [tensor for tensor in tensors(ALL.read_bytes()) if tensor.name == "linear.weight"]
    data = np.load(FOLDER / "expected.npz")
    assert weight.sizes == (4, 4)
    assert data["outputs"].shape == (3, 1, 4)
    blob = (FOLDER / "linear.ptd").read_bytes()[-64:]
    assert linked(TWO).count(blob) == 1


def test_data_of_a_delegate_keeps_its_names() -> None:
    program, data = linked(DELEGATE), (FOLDER / "delegate.ptd").read_bytes()
    names = [data[at : at + 64] for at in range(len(data)) if data[at : at + 64].isalnum()]
    assert names
    assert all(name in program for name in names[:1])
    assert data[-12:] in program


def test_commands_of_an_npu_are_read_from_external_data(etharness: Etharness) -> None:
    def delegates(*words: object) -> Any:
        [method] = json.loads(etharness("inspect", *words, "--json").out)["methods"]
        return method["delegates"]

    model, data = FOLDER / "npu.pte", ("--data", FOLDER / "npu.ptd")
    [call] = delegates(model, *data)
    assert call["work"]["operators"][0]["macs"] == 16 * 4 * 18
    assert [call] == delegates(FOLDER / "npu_inside.pte")
    [without] = delegates(model)
    assert without["work"]["operators"] == []
    [note] = without["work"]["notes"]
    assert note.endswith("cmd_data, weight_data is outside the program, in a .ptd file (--data)")


def test_inspect_counts_linked_data(etharness: Etharness) -> None:
    code, out, _ = etharness("inspect", ALL, "--data", FOLDER / "all.ptd", "--json")
    [method] = json.loads(out)["methods"]
    assert code == 0
    assert method["constant_bytes"] == 4 * (72 + 4 + 16 + 4 + 4) + 4  # and a factor
    assert json.loads(out)["bytes"] == len(linked(ALL))


def test_inspect_without_the_file_says_how_to_give_it(etharness: Etharness) -> None:
    code, out, _ = etharness("inspect", ALL, "--board", "native")
    assert code == 1
    assert "constant 'conv.weight' has its data in a .ptd file: native\n" in out
    assert "  try: give that file with --data, or export the model with its constants" in out


@pytest.mark.parametrize(
    ("model", "files", "message", "hint"),
    [
        (
            *(TWO, ["conv.ptd"]),
            "conv.ptd: no data named 'linear.weight', which method 'forward' of two.pte needs",
            "give the .ptd files of the same export; there is 'conv.weight'",
        ),
        (
            *(TWO, ["conv.ptd", "all.ptd"]),
            "conv.ptd both have data named 'conv.weight'",
            "give the files of one export; ExecuTorch refuses such a pair too",
        ),
        (ALL, ["all.pte"], "all.pte is an ExecuTorch program, not external data (.ptd)", "write_t"),
        (
            ALL,
            ["expected.npz"],
            "expected.npz is another kind of file",
            "write_tensor_data_to_file",
        ),
        (ALL, ["none.ptd"], "none.ptd: No such file or directory", "exported"),
        (DELEGATE, ["none.ptd"], "none.ptd: No such file", "exported with the model"),
    ],
)
def test_files_that_do_not_fit_are_named(
    model: Path, files: list[str], message: str, hint: str
) -> None:
    with pytest.raises(UsageError) as caught:
        linked(model, *files)
    assert message.format(FOLDER) in caught.value.message
    assert hint in caught.value.hint


@pytest.mark.parametrize("name", ["kws_int8", "small_int8"])
def test_a_program_without_external_data_takes_none(name: str) -> None:
    with pytest.raises(UsageError, match=f"{name}.pte needs no external data") as caught:
        link_program((MODELS / f"{name}.pte").read_bytes(), [FOLDER / "all.ptd"], f"{name}.pte")
    assert "leave out --data" in caught.value.hint


def changed(old: bytes, new: bytes, *, last: bool = False) -> bytes:
    """Return ``all.ptd`` with one occurrence of some bytes replaced."""
    data = (FOLDER / "all.ptd").read_bytes()
    assert data.count(old) >= 1
    at = data.rindex(old) if last else data.index(old)
    return data[:at] + new + data[at + len(old) :]


SIZES = struct.pack("<5i", 4, 4, 2, 3, 3)
ORDER = b"\x04\0\0\0\0\x01\x02\x03"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            *(SIZES, struct.pack("<5i", 4, 4, 2, 3, 4)),
            "'conv.weight' is float32 4x2x3x4, method 'forward' of all.pte needs float32 4x2x3x3",
        ),
        (
            *(ORDER, b"\x04\0\0\0\0\x02\x03\x01"),
            "'conv.weight' is in another dim order, method 'forward' of all.pte needs that of",
        ),
        (
            *(struct.pack("<2Q", 0, 288)[8:], struct.pack("<Q", 284)),
            "'conv.weight' has 284 bytes, 288 expected",
        ),
        (b"conv.weight", b"cinv.weight", "no data named 'conv.weight'"),
        (b"conv.weight", b"conv.bias\0\0", ""),
    ],
)
def test_another_layout_is_refused_as_by_executorch(
    old: bytes, new: bytes, message: str, tmp_path: Path
) -> None:
    file = tmp_path / "all.ptd"
    file.write_bytes(changed(old, new))
    with pytest.raises(UsageError) as caught:
        link_program(ALL.read_bytes(), [file], ALL.name)
    assert message in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize("length", [0, 4, 8, 20, 47, 48, 100, 600, 1000, 1423])
def test_a_truncated_file_is_refused(length: int, tmp_path: Path) -> None:
    file = tmp_path / "all.ptd"
    file.write_bytes((FOLDER / "all.ptd").read_bytes()[:length])
    with pytest.raises(FormatError) as caught:
        link_program(ALL.read_bytes(), [file], ALL.name)
    assert str(file) in caught.value.message
    assert "export the model again" in caught.value.hint


@given(st.data())
def test_a_damaged_file_is_refused_or_gives_a_program(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from(["all.ptd", "delegate.ptd"]))
    content = bytearray((FOLDER / name).read_bytes())
    for at in data.draw(st.lists(st.integers(0, len(content) - 1), min_size=1, max_size=3)):
        content[at] = data.draw(st.integers(0, 255))
    file = tmp_path_factory.mktemp("damaged") / name
    file.write_bytes(content)
    model = FOLDER / f"{Path(name).stem}.pte"
    program = b""
    with contextlib.suppress(UsageError):
        program = link_program(model.read_bytes(), [file], model.name)
    assert not program or len(read_program(program).methods) == 1


@given(st.data())
def test_a_damaged_program_is_refused_or_linked(data: st.DataObject) -> None:
    content = bytearray(TWO.read_bytes())
    for at in data.draw(st.lists(st.integers(0, len(content) - 1), min_size=1, max_size=3)):
        content[at] = data.draw(st.integers(0, 255))
    files = [FOLDER / name for name in FILES[TWO]]
    program = b""
    with contextlib.suppress(UsageError):
        program = link_program(bytes(content), files, TWO.name)
    assert not program or len(read_program(program).methods) <= 1


@pytest.mark.sim
@pytest.mark.parametrize(
    ("model", "options"),
    [
        (ALL, {"board": "native"}),
        (TWO, {"board": "native", "placed": True}),
        (TWO, {"board": "qemu-mps2-an386", "placed": True}),
        (ALL, {"board": "qemu-riscv32-virt"}),
    ],
)
def test_boards_compute_what_executorch_does(
    model: Path, options: dict[str, Any], tmp_path: Path
) -> None:
    expected = np.load(FOLDER / "expected.npz")
    np.save(tmp_path / "x.npy", expected["input"])
    files = [FOLDER / name for name in FILES[model]]
    for runs in (1, 3):
        run = harness.run(
            model,
            runs=runs,
            inputs=[tmp_path / "x.npy"],
            data=files,
            output=tmp_path / str(runs),
            **options,
        ).raise_for_verdict()
        output = np.load(tmp_path / str(runs) / "outputs/0.npy")
        np.testing.assert_allclose(output, expected["outputs"][runs - 1], rtol=1e-5)
        result = run.result
        assert result is not None
        assert result.model is not None
        assert result.model.sha256 == hashlib.sha256(linked(model)).hexdigest()
        assert result.model.data == tuple(map(str, files))


@pytest.mark.sim
def test_what_reads_a_result_again_links_again(etharness: Etharness, tmp_path: Path) -> None:
    for name in ("two.pte", "conv.ptd", "linear.ptd"):
        (tmp_path / name).write_bytes((FOLDER / name).read_bytes())
    data = [f"--data={tmp_path / name}" for name in FILES[TWO]]
    words = ("run", "--board", "native", "--model", tmp_path / "two.pte", *data)
    assert etharness(*words, "-o", tmp_path / "run").code == 0
    report = ("report", tmp_path / "run", "-o")
    assert etharness(*report, page := tmp_path / "run.html").code == 0
    assert "is not the one that ran" not in page.read_text()
    assert etharness(*report, tmp_path / "all.zip").code == 0
    with ZipFile(tmp_path / "all.zip") as archive:
        assert archive.read("model/two.pte") == linked(TWO)
    (tmp_path / "conv.ptd").write_bytes((FOLDER / "all.ptd").read_bytes())
    assert etharness(*report, tmp_path / "changed.zip").code == 0
    with ZipFile(tmp_path / "changed.zip") as archive:
        assert "model/two.pte" not in archive.namelist()
        missing = json.loads(archive.read("manifest.json"))["missing"]
    assert "the model two.pte: moved or changed since the run" in missing
