"""Images that cannot be traced are refused in words that say what is missing."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from harness import FormatError
from harness.extensions.mlek.image import find_image
from harness.extensions.probes.executorch_code import Role, find_executorch
from harness.extensions.probes.memory import FirmwareElf
from tests.conftest import MODELS

pytestmark = pytest.mark.sim

NO_EXECUTORCH = "contains no ExecuTorch: no function is Method::execute"
NO_SYMBOLS = "has no symbols of functions: it was stripped"


def kit_images(runtime: str) -> list[Path]:
    applications = find_image().parents[1]
    return [file for file in applications.rglob("*.axf") if runtime in file.as_posix()]


def compiled(source: str, directory: Path, *options: str) -> Path:
    file, image = directory / "program.c", directory / "program.elf"
    file.write_text(source)
    command = ["arm-none-eabi-gcc", "-mcpu=cortex-m3", "-mthumb", "-nostdlib", "-Wl,-e,main"]
    subprocess.run([*command, *options, "-o", image, file], check=True)
    return image


def refusal(image: Path) -> FormatError:
    with pytest.raises(FormatError) as error:
        find_executorch(FirmwareElf(image))
    assert str(image) in error.value.message
    return error.value


def test_the_functions_of_the_real_executorch_are_found() -> None:
    images = kit_images("executorch")
    assert find_image() in images
    assert len(images) == 2  # for SSE-300 and for SSE-320
    for image in images:
        code = find_executorch(FirmwareElf(image))
        roles = [each.role for each in code.sets]
        assert roles[:4] == [Role.EXECUTE, Role.INSTRUCTION, Role.LOAD, Role.INIT]
        assert roles.count(Role.WRAPPER) > 200
        names = [name.partition("RN10executorch")[0] for name in code.kernels.values()]
        assert "_ZN5torch8executor6native11softmax_outE" in names
        assert "_ZN8cortex_m6native17quantized_add_outE" in names
        assert len(code.delegates) == 1


def test_images_of_another_runtime_are_refused() -> None:
    images = kit_images("tflm")
    assert len(images) == 5
    for image in images:
        error = refusal(image)
        assert NO_EXECUTORCH in error.message
        assert "--at" in error.hint


def test_a_stripped_image_is_refused_with_what_is_needed(tmp_path: Path) -> None:
    stripped = tmp_path / "stripped.axf"
    subprocess.run(["arm-none-eabi-strip", "-o", stripped, find_image()], check=True)
    error = refusal(stripped)
    assert NO_SYMBOLS in error.message
    assert "strip" in error.hint


def test_an_image_without_local_symbols_is_still_traced(tmp_path: Path) -> None:
    kept = tmp_path / "kept.axf"
    subprocess.run(["arm-none-eabi-strip", "-x", "-o", kept, find_image()], check=True)
    code = find_executorch(FirmwareElf(kept))
    assert code.of(Role.INSTRUCTION) is not None


def test_small_programs_are_refused(tmp_path: Path) -> None:
    error = refusal(compiled("int main(void) { return 0; }", tmp_path))
    assert NO_EXECUTORCH in error.message
    runtime = "_ZN10executorch7runtime6Method"
    source = f"int {runtime}4stepEv(void) {{ return 0; }} int main(void) {{ return 0; }}"
    error = refusal(compiled(source, tmp_path))
    assert "functions of ExecuTorch, but Method::execute is not among them" in error.message
    source = f"int {runtime}7executeEv(void) {{ return 0; }} int main(void) {{ return 0; }}"
    error = refusal(compiled(source, tmp_path))
    assert "neither execute_instruction" in error.message
    assert "--discard-all" in error.hint


def test_files_that_are_no_firmware_are_refused(tmp_path: Path) -> None:
    compiler = shutil.which("arm-none-eabi-gcc")
    assert compiler is not None
    with pytest.raises(FormatError, match="not an ELF file of a 32-bit little-endian CPU"):
        FirmwareElf(Path(compiler))
    for name, content in (("empty.elf", b""), ("model.elf", (MODELS / "kws_f32.pte").read_bytes())):
        image = tmp_path / name
        image.write_bytes(content)
        with pytest.raises(FormatError, match="is not an ELF file"):
            FirmwareElf(image)
