"""Builds side by side: copies of the project, processes at the same time, the same again."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from filelock import FileLock

import harness
from harness import Capacity, InfrastructureError, PlacedModel, UsageError, build_firmware
from harness.target import build
from harness.target.build import build_directory, build_preset

PROJECT = """
cmake_minimum_required(VERSION 3.22)
project(copy NONE)
file(WRITE "${CMAKE_BINARY_DIR}/whose" "${CMAKE_SOURCE_DIR}")
file(WRITE "${CMAKE_BINARY_DIR}/firmware" "${ETD_BUILD_ID}")
file(APPEND "${CMAKE_BINARY_DIR}/times" "x")
"""
NOT_TWICE_AT_ONCE = (
    PROJECT
    + """
if(EXISTS "${CMAKE_BINARY_DIR}/busy")
  message(FATAL_ERROR "another one is at it")
endif()
file(WRITE "${CMAKE_BINARY_DIR}/busy" "")
execute_process(COMMAND "${CMAKE_COMMAND}" -E sleep 0.5)
file(REMOVE "${CMAKE_BINARY_DIR}/busy")
"""
)
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


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ETHARNESS_BUILD_DIR", str(tmp_path / "cache"))
    sources = copy_of_project(tmp_path / "sources")
    monkeypatch.setattr(build, "data_directory", lambda _: sources)
    return sources


def test_the_same_sources_are_not_built_again(sources: Path) -> None:
    board = harness.Board.load("native")
    first, again = build_firmware(board), build_firmware(board)
    assert first == again
    assert (first.directory / "times").read_text() == "x"
    (sources / "more.c").write_text("")
    changed = build_firmware(board)
    assert changed.build_id != first.build_id
    assert changed.image.read_text() == changed.build_id
    assert (first.directory / "times").read_text() == "xx"
    changed.image.unlink()
    assert build_firmware(board).image.exists()


def test_a_script_that_ran_changes_no_build(sources: Path) -> None:
    """Python keeps compiled modules beside the scripts that make packages."""
    board = harness.Board.load("native")
    first = build_firmware(board)
    compiled = sources / "packages/__pycache__/library.cpython-311.pyc"
    compiled.parent.mkdir(parents=True)
    compiled.write_bytes(b"compiled")
    assert build_firmware(board) == first
    (sources / "packages/library.py").write_text("")
    assert build_firmware(board).build_id != first.build_id


def test_a_build_that_failed_is_tried_again(sources: Path) -> None:
    board = harness.Board.load("native")
    good = (sources / "CMakeLists.txt").read_text()
    build_firmware(board)
    (sources / "CMakeLists.txt").write_text(good + 'message(FATAL_ERROR "no")')
    for _ in range(2):
        with pytest.raises(UsageError, match="building 'native' failed"):
            build_firmware(board)
    (sources / "CMakeLists.txt").write_text(good)
    firmware = build_firmware(board)
    assert firmware.image.read_text() == firmware.build_id


@pytest.mark.slow
def test_builds_in_one_directory_wait_for_each_other(sources: Path) -> None:
    (sources / "CMakeLists.txt").write_text(NOT_TWICE_AT_ONCE)
    directory = build_directory(sources, "native")
    with ThreadPoolExecutor(3) as pool:
        builds = [pool.submit(build_preset, sources, "native", directory, {}) for _ in range(3)]
    assert [done.result() for done in builds] == [None] * 3
    assert (directory / "times").read_text() == "xxx"


def test_waiting_for_another_build_has_a_deadline(
    sources: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "_BUILD_LIMIT_S", 0.05)
    directory = build_directory(sources, "native")
    directory.parent.mkdir()
    with FileLock(f"{directory}.lock"), pytest.raises(InfrastructureError) as caught:
        build_preset(sources, "native", directory, {})
    assert "another process has been building 'native'" in caught.value.message
    assert f"{directory.name}.lock" in caught.value.hint


CUT_OFF = (
    PROJECT
    + """
if(EXISTS "${CMAKE_BINARY_DIR}/half")
  message(FATAL_ERROR "the object file is truncated")
endif()
file(WRITE "${CMAKE_BINARY_DIR}/half" "")
if(NOT EXISTS "${CMAKE_SOURCE_DIR}/quick")
  execute_process(COMMAND "${CMAKE_COMMAND}" -E sleep 60)
endif()
file(REMOVE "${CMAKE_BINARY_DIR}/half")
"""
)


@pytest.mark.uncounted
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.slow
def test_a_build_that_was_cut_off_breaks_no_later_one(
    number: signal.Signals, sources: Path
) -> None:
    """What a killed compiler leaves looks like a complete file to Make."""
    (sources / "CMakeLists.txt").write_text(CUT_OFF)
    directory = build_directory(sources, "native")
    program = (
        "from pathlib import Path\n"
        "from harness.interrupts import interrupts\n"
        "from harness.target.build import build_preset\n"
        "with interrupts(terminate=True):\n"
        f"    build_preset(Path({str(sources)!r}), 'native', Path({str(directory)!r}), {{}})\n"
    )
    half = directory / "half"
    with subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.DEVNULL) as builder:
        deadline = time.monotonic() + 600
        while not half.exists():
            assert builder.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        builder.send_signal(number)
    assert builder.returncode != 0
    (sources / "quick").touch()
    build_preset(sources, "native", directory, {})
    assert (directory / "whose").read_text() == str(sources)


def test_a_build_that_fails_keeps_what_is_complete(sources: Path) -> None:
    directory = build_directory(sources, "native")
    build_preset(sources, "native", directory, {})
    (sources / "CMakeLists.txt").write_text(PROJECT + "message(FATAL_ERROR wrong)")
    with pytest.raises(UsageError, match="wrong"):
        build_preset(sources, "native", directory, {})
    (sources / "CMakeLists.txt").write_text(PROJECT)
    build_preset(sources, "native", directory, {})
    assert (directory / "times").read_text() == "xxx"


def test_of_images_with_a_model_the_newest_are_kept(
    sources: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "_KEPT_IMAGES", 2)
    (sources / "CMakeLists.txt").write_text(
        PROJECT
        + """
add_custom_target(
  placed_firmware
  COMMAND "${CMAKE_COMMAND}" -E copy "${ETD_PLACED_MODEL}" "${CMAKE_BINARY_DIR}/placed_firmware")
"""
    )
    board = harness.Board.load("native")
    capacity = Capacity(model=1, arena=1, inputs=1, trace=1)
    models = [PlacedModel(f"{name}.pte", name.encode(), capacity) for name in "abc"]
    images = [build_firmware(board, model).image for model in models]
    assert [image.exists() for image in images] == [False, True, True]
    assert images[2].read_bytes() == b"c"
