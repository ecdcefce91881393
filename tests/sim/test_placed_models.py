"""Models in the firmware image, on models of real chips, on QEMU's boards and as a process."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import harness
from harness import Region, Session, UsageError, packaged_models, tensor_from_bytes, tensor_to_bytes
from harness.decode.pte import ModelFile
from harness.extensions.bundles.bundle import open_bundle
from harness.runs.loading import check_device, place_model
from harness.target.build import image_size
from tests.conftest import FIXTURES, MODELS, CommandResult
from tests.support.chips.core import Chip, ChipTransport
from tests.support.chips.nrf import MicrobitV1
from tests.support.chips.stm32f4 import Stm32F446
from tests.support.real_images import real_image

pytestmark = pytest.mark.sim
Etharness = Callable[..., CommandResult]

GESTURE = FIXTURES / "gesture_int8.pte"
"""62,608 bytes, made by ``firmware_stub/models/export_small.py``."""

IC = MODELS / "ic_int8.pte"
DEADLINE_S = 60.0
PATIENCE = 1_000_000
"""Slices of instructions: the digest of 100 KB and an execution take more than the usual."""


def placed_needs(etharness: Etharness, model: Path, board: str) -> dict[str, dict[str, Any]]:
    """What inspect says that a model in flash needs of a board, by resource."""
    found = json.loads(etharness("inspect", model, "--board", board, "--json").out)
    [one] = found["methods"][0]["boards"]
    assert one["placed"]["fits"] == (not any(each["shortfall"] for each in one["placed"]["needs"]))
    return {each["resource"]: each for each in one["placed"]["needs"]}


@pytest.mark.parametrize(
    ("name", "chip", "model"),
    [("nucleo-f446re", Stm32F446, IC), ("microbit-v1", MicrobitV1, GESTURE)],
)
def test_a_network_in_flash_gives_the_references_outputs(
    name: str, chip: Callable[[Path], Chip], model: Path, etharness: Etharness
) -> None:
    board = harness.Board.load(name)
    data = model.read_bytes()
    assert board.capacity is not None
    assert len(data) > board.capacity.model  # it could not be uploaded
    firmware = real_image(name, model)
    assert image_size(firmware).text <= placed_needs(etharness, model, name)["image"]["needed"]
    transport = ChipTransport(chip(firmware.image), patience=PATIENCE)
    session = Session(transport, deadline_s=DEADLINE_S)
    info = session.hello(DEADLINE_S)
    assert (info.build_id, info.model_capacity) == (firmware.build_id, 0)
    assert firmware.placed is not None
    assert info.arena_capacity == firmware.placed.capacity.arena
    loaded = session.load_model(data)
    fixture = np.load(FIXTURES / f"{model.stem}.npz")
    session.set_input(0, tensor_to_bytes(fixture["inputs"][0], loaded.inputs[0]))
    session.run(1, timeout_s=DEADLINE_S)
    output = tensor_from_bytes(session.read(Region.OUTPUT), loaded.outputs[0])[0]
    assert output.tobytes() == fixture["outputs"][0].tobytes()
    assert session.statistics.model_bytes == 0
    assert session.statistics.bytes_sent < loaded.inputs[0].nbytes + 1000
    other = (MODELS / "small_int8.pte").read_bytes()
    with pytest.raises(UsageError, match=f"holds {model.name} in flash and takes uploads of no"):
        check_device(info, board, ModelFile(Path("small_int8.pte"), other), "forward")


def test_a_buffer_for_uploads_takes_other_models() -> None:
    small = (MODELS / "small_int8.pte").read_bytes()
    held = MODELS / "one_m0.pte"  # with all kernels, flash has no room for a larger one
    firmware = real_image("microbit-v1", held, upload=len(small))
    session = Session(ChipTransport(MicrobitV1(firmware.image), patience=PATIENCE))
    assert session.hello(DEADLINE_S).model_capacity == len(small)
    for model, uploaded in (
        (small, len(small)),
        (held.read_bytes(), len(small)),
        (small, 2 * len(small)),
    ):
        session.load_model(model)
        assert session.statistics.model_bytes == uploaded


@pytest.mark.parametrize("board", ["native", "qemu-microbit", "qemu-mps2-an386"])
def test_run_places_a_model_and_uploads_nothing(
    board: str, etharness: Etharness, tmp_path: Path
) -> None:
    fixture = np.load(FIXTURES / "gesture_int8.npz")
    np.save(tmp_path / "inputs.npy", fixture["inputs"][0])
    np.save(tmp_path / "outputs.npy", fixture["outputs"][:1])
    files = ("--input", tmp_path / "inputs.npy", "--reference", tmp_path / "outputs.npy")
    request = ("run", "--board", board, "--model", GESTURE, *files, "--placed")
    outcome = etharness(*request, "-o", tmp_path / "run", "--report", tmp_path / "run.zip")
    assert outcome.code == 0, outcome
    assert open_bundle(tmp_path / "run.zip")[0].missing == ()
    result = harness.load(tmp_path / "run").result
    assert result.link["model_bytes"] == 0
    assert result.link["bytes_sent"] < 2000
    assert result.settings is not None
    assert result.settings.placed
    code, out, _ = etharness("build", "--board", board, "--model", GESTURE, "--json")
    assert code == 0
    built = json.loads(out)
    assert result.target is not None
    assert built["build_id"] == result.target.build_id
    assert built["placed"] == {
        "name": GESTURE.name,
        "bytes": GESTURE.stat().st_size,
        "arena": result.target.arena_capacity,
        "inputs": result.target.input_capacity,
        "uploads": 0,
    }


def test_an_uploaded_model_is_counted(etharness: Etharness, tmp_path: Path) -> None:
    run = ("run", "--board", "native", "--model", "small_int8", "-o", tmp_path / "run")
    assert etharness(*run).code == 0
    result = harness.load(tmp_path / "run").result
    assert result.link["model_bytes"] == (MODELS / "small_int8.pte").stat().st_size
    assert result.settings is not None
    assert not result.settings.placed


def test_placing_needs_firmware_that_the_run_builds(etharness: Etharness, tmp_path: Path) -> None:
    run = ("run", "--board", "nucleo-f446re", "--port", "/dev/null", "--model", IC, "--placed")
    code, _, err = etharness(*run, "-o", tmp_path / "run")
    assert code == 2
    assert "this run does not build the firmware of nucleo-f446re" in err
    assert "--flash" in err
    assert etharness("build", "--board", "native", "--upload-buffer", "1").code == 2


def test_a_model_that_does_not_fit_is_not_built(etharness: Etharness) -> None:
    code, _, err = etharness("build", "--board", "microbit-v1", "--model", "kws_int8")
    assert code == 2
    assert "error: microbit-v1 cannot run " in err
    assert "kws_int8.pte placed in flash: arena: " in err


@pytest.mark.parametrize("board", ["microbit-v1", "nucleo-f446re", "qemu-mps2-an385"])
@pytest.mark.parametrize("model", ["small_int8", "ic_int8", "vww_f32"])
def test_a_model_is_placed_exactly_where_inspect_says_it_fits(
    board: str, model: str, etharness: Etharness
) -> None:
    data, described = packaged_models()[model].read_bytes(), harness.Board.load(board)
    needs = placed_needs(etharness, packaged_models()[model], board)
    if not any(need["shortfall"] for need in needs.values()):
        placed = place_model(ModelFile(packaged_models()[model], data), described)
        assert placed.capacity.arena == needs["arena"]["available"]
        assert placed.capacity.inputs == needs["inputs"]["available"]
    else:
        with pytest.raises(UsageError, match=r"bytes needed|leaves no arena"):
            place_model(ModelFile(packaged_models()[model], data), described)


def test_eight_kib_of_ram_run_a_placed_model(etharness: Etharness, tmp_path: Path) -> None:
    """The board takes no uploads, and its firmware has no operators but those of the model."""
    fixture = np.load(FIXTURES / "small_int8.npz")
    np.save(tmp_path / "inputs.npy", fixture["inputs"][0])
    np.save(tmp_path / "outputs.npy", fixture["outputs"][:1])
    command = ("run", "--board", "qemu-stm32vldiscovery", "--model", MODELS / "small_int8.pte")
    data = ("--input", tmp_path / "inputs.npy", "--reference", tmp_path / "outputs.npy")
    code, _, err = etharness(*command, "-o", tmp_path / "uploaded")
    assert (code, "model: 3,984 bytes needed, 0 available" in err) == (2, True), err
    assert "`--placed`" in err
    code, out, err = etharness(*command, *data, "--runs", "4", "--placed", "-o", tmp_path / "run")
    assert code == 0, out + err
    result = json.loads((tmp_path / "run/result.json").read_text())
    assert result["link"]["model_bytes"] == 0
    assert result["target"]["operators"] == 4


def test_a_placed_model_links_its_operators_alone(etharness: Etharness, tmp_path: Path) -> None:
    model = MODELS / "kws_int8.pte"
    sizes = {}
    for name, more in (("own", ()), ("all", ("--upload-buffer", "4096"))):
        image = tmp_path / name
        build = ("build", "--board", "qemu-mps2-an385", "--model", model, *more, "-o", image)
        code, out, err = etharness(*build, "--json")
        assert code == 0, err
        [sizes[name]] = [
            part["text"] for part in json.loads(out)["sizes"] if part["part"] == "image"
        ]
    assert sizes["all"] - sizes["own"] > 60_000
    assert sizes["own"] < model.stat().st_size + 60_000
