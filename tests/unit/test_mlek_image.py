"""Arm's images are found in the installed package; another file is refused with what differs."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import UsageError
from harness.extensions.mlek import image


@pytest.mark.parametrize("known", [image.EXECUTORCH, image.TFLITE_MICRO])
def test_the_images_of_the_package_are_the_known_ones(known: image.KitImage) -> None:
    path = image.find_image(known)
    assert path.stat().st_size == known.size
    assert path.read_bytes().startswith(b"\x7fELF")


def test_a_changed_image_is_refused_with_its_digest(tmp_path: Path) -> None:
    content = bytearray(image.find_image().read_bytes())
    content[-1] ^= 1
    changed = tmp_path / "mlek_inference_runner.axf"
    changed.write_bytes(content)
    with pytest.raises(UsageError, match=r"expected 59dd86b81d47a076\.\.\.") as error:
        image.check_image(changed)
    assert "SHA-256" in error.value.message
    assert error.value.hint == image.PACKAGE_REMEDY


def test_an_image_of_another_size_is_refused_with_it(tmp_path: Path) -> None:
    other = tmp_path / "mlek_inference_runner.axf"
    other.write_bytes(bytes(1000))
    with pytest.raises(UsageError, match=r"1,000 bytes, expected 8,379,776"):
        image.check_image(other)
    with pytest.raises(UsageError, match="ExecuTorch of Arm's kit"):
        image.check_image(image.find_image(image.TFLITE_MICRO))


def test_a_missing_package_has_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image, "DISTRIBUTION", "etdump-harness-without-such-a-package")
    with pytest.raises(UsageError, match="is not installed") as error:
        image.find_image()
    assert error.value.hint == "pip install --no-deps mlia-ethos-u==0.1.0"
