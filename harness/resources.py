"""Locations of data files (in a checkout or in a wheel) and of the user's cache."""

from __future__ import annotations

import os
from pathlib import Path

from harness.files import absolute

_PACKAGE = Path(__file__).resolve().parent
_DATA = _PACKAGE / "_data"
_CHECKOUT = {"checks": "docs/checks"}
"""Directories that are not at the top level of a checkout."""


def data_directory(name: str) -> Path:
    """Return the directory ``name`` (``boards``, ``checks``, ``schema`` or ``firmware_stub``).

    A wheel has copies in ``harness/_data``; a checkout has the check pages in ``docs`` and all
    other directories at its top level.
    """
    packaged = _DATA / name
    return packaged if packaged.is_dir() else _PACKAGE.parent / _CHECKOUT.get(name, name)


def packaged_models() -> dict[str, Path]:
    """Return the paths of the packaged models by name, such as ``kws_int8``."""
    models = data_directory("firmware_stub") / "models"
    return {path.stem: path for path in sorted(models.glob("*.pte"))}


def packaged_model(name: str) -> Path | None:
    """Return the path of a packaged model such as ``kws_int8``, or None."""
    return packaged_models().get(name)


def find_model(model: Path) -> Path:
    """Return ``model``, or the packaged model if ``model`` is its bare name.

    A file in the working directory takes precedence. Only a name without folder and suffix can
    select a packaged model, so a mistyped path never runs another model.
    """
    bare = model.suffix == "" and model.absolute().parent == Path.cwd()
    packaged = packaged_model(model.name) if bare and not model.exists() else None
    return packaged or model


def user_cache(name: str) -> Path:
    """Return the path of the directory ``name`` in the user's cache; it may not exist yet.

    The cache is below ``$XDG_CACHE_HOME``, by default ``~/.cache``.
    """
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return absolute(Path(cache).expanduser()) / "etdump-harness" / name
