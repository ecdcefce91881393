"""What the screens of twenty situations say: the sentence that decides, and no internal word."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from tests.contract.golden import FOLDER, unpack

Command = Callable[..., Any]

BANNED = (
    r"Expected `",
    r"Object (contains|missing)",
    r"\bat `\$",
    r"\[Errno \d+\]",
    r"\bunsound\b|\bsound result",
    r"\b(did|does|do) not do all\b",
    r"\bnobody knows\b",
    r"not met: ",
    r"\bonly beside\b",
    r"\[-inf\b|\binf\]",
    r"\bnothing new\b",
    r"\bcannot work\b",
    r"\bmedian times calls first\b",
    r"\bnone of any\b",
    r"Traceback|NoneType|\bself\._",
    r"\(s\)",
)
"""Words of libraries, of the program's inside and of earlier versions, that help no user."""

COUNTED = re.compile(
    r"(?<![\d.,:/#-])(?<! of )1 (?:(?:failed|known|more|other) )?(?:allocation|attempt|baseline|"
    r"block|board|call|cause|change|check|count|decision|device|event|execution|file|frame|improvement|"
    r"input|instruction|number|metric|model|operator|output|pair|place|probe|reading|regression|"
    r"result|run|sample|scope|session|step|time|tracer|unit|value|warning|wrap)s\b"
)
"""A noun in the plural after 1; of "1 of 1 checks" the second number is a total."""


def complaints(text: str) -> list[str]:
    """Return banned words, and nouns that do not agree with their number."""
    banned = [match[0] for words in BANNED for match in re.finditer(words, text)]
    return banned + [match[0] for match in COUNTED.finditer(text)]


class Screen(NamedTuple):
    """A command, its exit code, and what its screen says."""

    command: str
    code: int
    said: str
    files: Mapping[str, str] = MappingProxyType({})


PLAN = """schema = 1
output = "nights"
[[board]]
board = "{board}"
[[model]]
file = "models/small_int8.pte"
"""
UNITS = 'schema = 1\n[[unit]]\nid = "nuc-1"\nboard = "nucleo-f446re"\nport = "{port}"\n'
BUDGET = "schema = 1\n[[time]]\nevent = 'Method::execute'\n"

SCREENS = {
    "a run": Screen("check runs/qemu-mps2-an385", 0, r"^PASS: \d+ of \d+ checks passed"),
    "emulated time": Screen(
        "decode runs/qemu-mps2-an385",
        0,
        "emulated time: it counts steps of the simulator, not real",
    ),
    "a baseline": Screen("check series/6 --history golden.db --baseline last:20", 0, r"^PASS: "),
    "first result": Screen("check series/1 --history golden.db --baseline last:20", 0, r"^PASS: "),
    "a limit is exceeded": Screen(
        "check runs/qemu-mps2-an385 --budget tight.toml",
        1,
        r"^failed: B01 Method::execute: .* exceeds the limit of 0.001 us",
        {"tight.toml": BUDGET + "limit_us = 0.001\n"},
    ),
    "a key is misspelt": Screen(
        "check runs/qemu-mps2-an385 --budget b.toml",
        2,
        r"b\.toml:4:1: unknown key 'limit_uss' in \[time\]\n  try: did you mean 'limit_us'\? known",
        {"b.toml": BUDGET + "limit_uss = 5\n"},
    ),
    "a value has the wrong type": Screen(
        "check runs/qemu-mps2-an385 --budget b.toml",
        2,
        r"b\.toml:4:1: time\.limit_us must be a number, not '5 ms'",
        {"b.toml": BUDGET + "limit_us = '5 ms'\n"},
    ),
    "a value is too large": Screen(
        "nightly plan.toml --dry-run",
        2,
        r"plan\.toml:5:1: board\.count must be at most 256, not 1000",
        {"plan.toml": PLAN.format(board='native"\ncount = 1000 #')},
    ),
    "the version is missing": Screen(
        "nightly plan.toml --dry-run",
        2,
        "the key 'schema' is missing\n  try: begin the file with `schema = 1`",
        {"plan.toml": PLAN.format(board="native").removeprefix("schema = 1\n")},
    ),
    "no history": Screen(
        "history show --history none.db",
        2,
        r"none\.db not found\n  try: `etharness run --history FILE` and `etharness history add`",
    ),
    "a history": Screen("history list --history golden.db", 0, r"^\d+ results$"),
    "a name that was not measured": Screen(
        "history show nope --history golden.db --model small_int8 --board qemu-mps2-an385",
        0,
        "no measured number has a name like 'nope'",
    ),
    "another kind of file": Screen(
        "inspect wrong.pte", 2, "is a TensorFlow Lite file, not an ExecuTorch program"
    ),
    "a missing operator": Screen(
        "run --board native --model missing.pte",
        2,
        r"native cannot run missing\.pte: no kernel for cortex_m::softmin\.out\n  try: replace",
    ),
    "boards that lack an operator": Screen(
        "inspect missing.pte", 0, r"no kernel for cortex_m::softmin\.out: \S+, .* and \d+ more"
    ),
    "too large": Screen(
        "run --board qemu-microbit --model kws_int8",
        2,
        r"qemu-microbit cannot run \S+: model: 53,936 bytes needed, 4,608 available",
    ),
    "two units": Screen(
        "nightly plan.toml --dry-run",
        0,
        "2 runs on 2 units",
        {"plan.toml": PLAN.format(board='native"\ncount = 2 #')},
    ),
    "a dead board in a plan": Screen(
        "nightly plan.toml --units units.toml --dry-run",
        76,
        "nuc-1: serial port /dev/nowhere does not exist",
        {
            "plan.toml": PLAN.format(board="nucleo-f446re"),
            "units.toml": UNITS.format(port="/dev/nowhere"),
        },
    ),
    "a dead board": Screen(
        "run --unit nuc-1 --units units.toml --model models/small_int8.pte",
        75,
        "cannot open the serial port /dev/nowhere: no such device",
        {"units.toml": UNITS.format(port="/dev/nowhere")},
    ),
    "no port": Screen(
        "run --board nucleo-f446re --model models/small_int8.pte",
        2,
        "board nucleo-f446re needs a serial port, and no port is given",
    ),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What an earlier version wrote, and models that are none."""
    folder = unpack(tmp_path_factory.mktemp("words"))
    (folder / "wrong.pte").write_bytes(b"\x1c\0\0\0TFL3" + bytes(500))
    model = (folder / "models/small_int8.pte").read_bytes()
    (folder / "missing.pte").write_bytes(model.replace(b"softmax", b"softmin"))
    return folder


@pytest.mark.extension("history")
@pytest.mark.extension("lab")
@pytest.mark.parametrize("name", SCREENS)
def test_a_screen_says_what_decides(
    name: str, folder: Path, etharness: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = SCREENS[name]
    monkeypatch.chdir(folder)
    for file, text in screen.files.items():
        Path(file).write_text(text)
    code, out, err = etharness(*screen.command.split())
    assert re.search(screen.said, out + err, re.MULTILINE), out + err
    assert code == screen.code, out + err
    assert not complaints(out + err)


def test_no_stored_screen_has_a_banned_word() -> None:
    found = {
        file.name: complaints(file.read_text(encoding="utf-8")) for file in FOLDER.glob("*.txt")
    }
    assert len(found) > 20
    assert not {name: words for name, words in found.items() if words}


def test_each_banned_word_is_found() -> None:
    for text in (
        *("1 runs", "found 1 steps back", "1 failed checks", "[-inf, inf]", "event(s)"),
        *("Object contains unknown field", "Expected `float | null`", "[Errno 2] No such file"),
    ):
        assert complaints(text), text
    for text in ("1 of 1 checks", "21 runs", "1.1 events", "2 runs", "1 run", "1,001 runs"):
        assert not complaints(text), text
