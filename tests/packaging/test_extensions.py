"""Extensions can be deleted with their folders: the contract suite passes without their parts.

All at once; each alone with ``ETHARNESS_EVERY_MODEL=1``, as `make measure` does. That none of them
imports another is an import contract.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXTENSIONS = sorted(
    path.parent.name for path in (ROOT / "harness/extensions").glob("*/__init__.py")
)
LINKED = ("boards", "docs", "firmware_stub", "schema", "pyproject.toml")
DELETED = [(one,) for one in EXTENSIONS] if "ETHARNESS_EVERY_MODEL" in os.environ else [EXTENSIONS]
COPIED = ("harness", "tests/contract", "tests/support", "tests/conftest.py", "tests/__init__.py")


def copy_without(extensions: Iterable[str], folder: Path) -> Path:
    """Copy the checkout without the folders of extensions."""
    for name in LINKED:
        (folder / name).symlink_to(ROOT / name)
    for name in COPIED:
        source, target = ROOT / name, folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    (folder / "tests/fixtures").symlink_to(ROOT / "tests/fixtures")
    for extension in extensions:
        shutil.rmtree(folder / "harness/extensions" / extension)
    return folder


def python(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a folder, whose ``harness`` comes before the installed one."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.long
@pytest.mark.timeout(1800)  # it runs a whole suite
@pytest.mark.parametrize("extensions", DELETED, ids=", ".join)
def test_the_rest_works_without_extensions(extensions: Sequence[str], tmp_path: Path) -> None:
    folder = copy_without(extensions, tmp_path)
    where = python(folder, "-c", "import harness; print(harness.__file__)")
    assert where.stdout.strip() == str(folder / "harness/__init__.py")
    helped = python(folder, "-m", "harness", "--help")
    assert helped.returncode == 0, helped.stderr
    done = python(
        folder,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--hypothesis-profile=fast",  # more examples are tried where nothing is deleted
        "-m",
        "not long and not sim",
        "tests/contract",
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


PLAN = """
schema = 1
name = "lab"
output = "out"
history = "runs.sqlite"
[[board]]
board = "native"
[[model]]
file = "model.pte"
"""


TRACE = "tests/fixtures/kws_f32_executorch.etdp"
PORT = ("--port", "rfc2217://bench:1", "--output", "out")


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package without its extensions."""
    folder = copy_without(EXTENSIONS, tmp_path_factory.mktemp("desk"))
    (folder / "firmware.bin").write_bytes(bytes(64))
    return folder


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("build", "--board", "rtl-ibex"),
            "board rtl-ibex: RTL boards are not supported by this installation\n  try: install "
            "etdump-harness with its extension simulators",
        ),
        (
            ("run", "--model", "small_int8", "--board", "nucleo-f446re", *PORT),
            "rfc2217://bench:1: rfc2217:// is not supported by this installation\n  try: install "
            "etdump-harness with its extension remote",
        ),
        (
            ("run", "--model", "kws_f32", "--board", "qemu-mps3-an547-mlek"),
            "board qemu-mps3-an547-mlek: its image is not supported by this installation\n  try: "
            "install etdump-harness with its extension mlek",
        ),
        (
            ("report", "a", "-o", "a.zip"),
            "a.zip: bundles are not supported by this installation\n  try: install "
            "etdump-harness with its extension bundles",
        ),
        (
            ("check", "a", "--suggest", "b.toml"),
            "--suggest is not supported by this installation\n  try: install etdump-harness with "
            "its extension budgets",
        ),
        (
            ("check", TRACE, "--annotations", "github"),
            "--annotations is not supported by this installation\n  try: install etdump-harness "
            "with its extension ci",
        ),
        (
            ("report", TRACE, "-o", "report.xml"),
            "report.xml: JUnit reports are not supported by this installation\n  try: install "
            "etdump-harness with its extension ci, or choose another format",
        ),
        (
            ("export", TRACE, "-f", "perfetto", "-o", "trace.pftrace"),
            "format perfetto is not supported by this installation\n  try: install "
            "etdump-harness with its extension exports",
        ),
        (
            ("compare", TRACE, TRACE, "--values"),
            "--values is not supported by this installation\n  try: install etdump-harness with "
            "its extension inspector",
        ),
        (
            ("run", "--model", "kws_int8", "--board", "native", "--dataset", "kws"),
            "--dataset is not supported by this installation\n  try: install etdump-harness with "
            "its extension dataset",
        ),
        (
            ("run", "--model", "kws_int8", "--board", "native", "--steps", "steps"),
            "--steps and --state are not supported by this installation\n  try: install "
            "etdump-harness with its extension state",
        ),
        (
            ("run", "--model", "kws_int8", "--board", "native", "--state", "reset"),
            "--steps and --state are not supported by this installation\n  try: install "
            "etdump-harness with its extension state",
        ),
        (("history", "list"), "unknown command 'history'"),
        (
            ("flash", "--board", "rpi-pico2", "--image", "firmware.bin", *PORT),
            "no usable flashing tool for board rpi-pico2: picotool: not installed (extension "
            "flash_tools); probe-rs: not installed (extension flash_tools); ",
        ),
        (
            ("flash", "--board", "rpi-pico2", "--image", "firmware.bin", "--tool", "copy", *PORT),
            "--tool: copy is not supported by this installation\n  try: install etdump-harness "
            "with its extension flash_tools",
        ),
        (
            ("build", "--board", "native-executorch"),
            "board native-executorch: firmware with ExecuTorch is not supported by this "
            "installation\n  try: install etdump-harness with its extension executorch",
        ),
        (("doctor",), "unknown command 'doctor'"),
        (
            ("inspect", "tests/fixtures/external_data/all.pte", "--data", "weights.ptd"),
            "--data is not supported by this installation\n  try: install etdump-harness with its "
            "extension external_data",
        ),
        (("postmortem", "crash.bin"), "unknown command 'postmortem'"),
    ],
)
def test_what_needs_an_extension_says_so(words: Sequence[str], message: str, desk: Path) -> None:
    done = python(desk, "-m", "harness", *words)
    assert done.returncode == 2, done.stderr
    assert message in done.stdout + done.stderr


def test_doctor_names_an_extension_that_a_board_lacks(tmp_path: Path) -> None:
    folder = copy_without(["simulators"], tmp_path)
    done = python(folder, "-m", "harness", "doctor", "--board", "rtl-ibex")
    assert done.returncode == 2, done.stderr
    assert (
        "extension simulators: install etdump-harness with its extension simulators" in done.stdout
    )


@pytest.fixture(scope="module")
def without_web(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the package without its extension web, a plan and its model."""
    folder = tmp_path_factory.mktemp("without_web")
    shutil.copytree(
        *(ROOT / "harness", folder / "harness"), ignore=shutil.ignore_patterns("__pycache__", "web")
    )
    for name in LINKED:
        (folder / name).symlink_to(ROOT / name)
    shutil.copy(ROOT / "firmware_stub/models/small_int8.pte", folder / "model.pte")
    (folder / "plan.toml").write_text(PLAN)
    return folder


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("compare", "a", "b", "--report", "x.html"),
            "x.html: HTML reports are not supported by this installation\n  try: install "
            "etdump-harness with its extension web, or choose another format",
        ),
        (("report", "a", "-o", "x.pdf"), "ends in one of .json (JSON), .md (Markdown), "),
        (
            ("nightly", "plan.toml", "--site", "site"),
            "sites are not supported by this installation\n  try: install etdump-harness with "
            "its extension web, or leave out --site",
        ),
        (("site", "runs.sqlite"), "unknown command 'site'"),
    ],
)
def test_what_needs_the_web_says_so(words: Sequence[str], message: str, without_web: Path) -> None:
    done = python(without_web, "-m", "harness", *words)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
