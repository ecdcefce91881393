"""Each file is read once, from the command to the verdict: model, budget, references, result."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections import Counter
from pathlib import Path

import pytest

MODEL = Path(__file__).parents[2] / "firmware_stub/models/small_int8.pte"
WATCHED = """
import json, os, sys
read = []
def watch(event, arguments):
    if event == "open" and isinstance(arguments[0], (str, bytes)):
        path, _, flags = arguments
        if not flags & (os.O_WRONLY | os.O_RDWR):
            read.append(os.path.realpath(os.fsdecode(path)))
sys.addaudithook(watch)
from harness.__main__ import main
try:
    main()
finally:
    with open(os.environ["READ_FILES"], "w") as file:
        json.dump(read, file)
"""


def read_files(folder: Path, *words: str) -> Counter[str]:
    """Run a command in a folder; return how often it opened each file of the folder to read it."""
    listing = folder / "read.json"
    done = subprocess.run(
        [sys.executable, "-c", WATCHED, *words],
        cwd=folder,
        env={**os.environ, "READ_FILES": str(listing)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    files = (Path(path) for path in json.loads(listing.read_text()))
    root = folder.resolve()
    return Counter(str(file.relative_to(root)) for file in files if file.is_relative_to(root))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model, a budget and a run with a reference."""
    folder = tmp_path_factory.mktemp("read_once")
    shutil.copy(MODEL, folder / "m.pte")
    (folder / "budget.toml").write_text("schema = 1\n[trace]\nlimit_percent = 100\n")
    words = ("run", "--board", "native", "--model", "m.pte", "--budget", "budget.toml")
    read_files(folder, *words, "-o", "first")
    shutil.copy(folder / "first/outputs/0.npy", folder / "expected.npy")
    return folder


def test_a_run_reads_what_it_is_given_once_and_nothing_back(folder: Path) -> None:
    read = read_files(
        folder,
        *("run", "--board", "native", "--model", "m.pte", "--budget", "budget.toml"),
        *("--reference", "expected.npy", "-o", "run"),
    )
    given = {"m.pte": 1, "budget.toml": 1, "expected.npy": 1}
    assert {name: count for name, count in read.items() if name in given} == given
    back = {name for name in read if name.startswith("run/")} - {"run/result.json"}
    assert back == {"run/console.log"}, "the end of the console is shown in reports"


@pytest.mark.extension("bundles")
def test_a_bundle_has_the_model_that_ran(folder: Path) -> None:
    read = read_files(
        folder,
        *("run", "--board", "native", "--model", "m.pte", "-o", "bundled"),
        *("--report", "b.zip"),
    )
    assert read["m.pte"] == 1
    with zipfile.ZipFile(folder / "b.zip") as bundle:
        assert bundle.read("model/m.pte") == MODEL.read_bytes()


def test_a_check_reads_result_and_log_once(folder: Path) -> None:
    read = read_files(folder, "check", "first")
    assert read["first/result.json"] == 1
    assert read["first/trace.etlog"] == 2, "its digest is verified before it is read"
    assert read["budget.toml"] == 0
    assert read["first/used_budget/budget.toml"] == 2, "likewise"
