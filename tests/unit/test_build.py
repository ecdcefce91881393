"""Two copies of the project on one machine build side by side."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.target.build import build_directory, build_preset

PROJECT = """
cmake_minimum_required(VERSION 3.22)
project(copy NONE)
file(WRITE "${CMAKE_BINARY_DIR}/whose" "${CMAKE_SOURCE_DIR}")
"""
PRESETS = """
{"version": 3, "configurePresets": [{"name": "native", "generator": "Unix Makefiles"}]}
"""


def copy_of_project(place: Path) -> Path:
    place.mkdir()
    (place / "CMakeLists.txt").write_text(PROJECT)
    (place / "CMakePresets.json").write_text(PRESETS)
    return place


def test_each_copy_of_the_sources_has_its_own_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ETHARNESS_BUILD_DIR", str(tmp_path / "cache"))
    copies = [copy_of_project(tmp_path / name) for name in ("main", "clone")]
    for source in (*copies, *copies):
        directory = build_directory(source, "native")
        assert directory.parent == tmp_path / "cache"
        build_preset(source, "native", directory, {})
        assert (directory / "whose").read_text() == str(source)
