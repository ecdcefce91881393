"""Where files are: data beside the package or, in a wheel, inside it; what the user's cache has."""

from __future__ import annotations

import os
from pathlib import Path

from harness.files import absolute

_PACKAGE = Path(__file__).resolve().parent
_DATA = _PACKAGE / "_data"
_CHECKOUT = {"checks": "docs/checks"}
"""Where a checkout has a directory that is not at its top level."""


def data_directory(name: str) -> Path:
    """Return the directory ``name`` (``boards``, ``checks``, ``schema`` or ``firmware_stub``).

    A wheel carries copies under ``harness/_data``; a checkout has the pages of checks in ``docs``
    and all else at its top level.
    """
    packaged = _DATA / name
    return packaged if packaged.is_dir() else _PACKAGE.parent / _CHECKOUT.get(name, name)


def packaged_models() -> dict[str, Path]:
    """Return the small models that come with the package by name (``kws_int8``)."""
    models = data_directory("firmware_stub") / "models"
    return {path.stem: path for path in sorted(models.glob("*.pte"))}


def packaged_model(name: str) -> Path | None:
    """Return the model of the package called ``name``, if any."""
    return packaged_models().get(name)


def find_model(model: Path) -> Path:
    """Return ``model``, or the model of the package that a bare name stands for.

    A file of the working directory comes first, and only a name without a folder and without a
    suffix can stand for a model of the package: a mistyped path never runs another model.
    """
    bare = model.suffix == "" and model.absolute().parent == Path.cwd()
    packaged = packaged_model(model.name) if bare and not model.exists() else None
    return packaged or model


def user_cache(name: str) -> Path:
    """Return the directory ``name`` of what this package keeps for its user, which may not exist.

    It stands below ``$XDG_CACHE_HOME``, or else ``~/.cache``.
    """
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return absolute(Path(cache).expanduser()) / "etdump-harness" / name
