"""Live a month of nights on the command line, and write what each screen said to docs/verdicts.md.

    python -m benchmarks.month            # about two minutes; writes docs/verdicts.md
    python -m benchmarks.month --screens  # prints every screen, too

Every night is ``etharness run --baseline last:20`` on the native board, whose firmware has a chosen
clock (``tests/contract/chosen_times.c``): one operator takes as many times as long as usual as the
night's story says, and all readings vary by 0.5 %. What a person would type between two nights is
typed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.verdict_counts import write_section

ROOT: Final = Path(__file__).resolve().parent.parent
MODEL: Final = ROOT / "firmware_stub/models/kws_int8.pte"
RUNS: Final = 11
"""The first run of a night, and five pairs after it."""


@dataclass(frozen=True, slots=True)
class Night:
    """A night of the story.

    Attributes:
        what: What happens, as an outsider knows it.
        first: How many times as long the operator takes in the first run.
        later: The same in the runs after it: of tonight's model, and of the baseline's.
        model: Which model was exported for this night.
        typed: Command that somebody types before this night.
    """

    what: str
    first: float = 1.0
    later: tuple[float, float] = (1.0, 1.0)
    model: str = "a"
    typed: tuple[str, ...] = ()


ACCEPT: Final = ("history", "accept", "{series}", "--reason", "smaller arena")

STORY: Final = (
    Night("the first night"),
    *[Night("nothing")] * 4,
    Night("a page fault in one run", 1.3),
    *[Night("nothing")] * 8,
    Night("a burst of the host, as long as the night", 1.3, (1.3, 1.3)),
    *[Night("nothing")] * 2,
    Night("the model is exported again", model="b"),
    Night("a new export, 12 % slower", 1.12, (1.12, 1.0), "c"),
    Night("nobody looks", 1.12, (1.12, 1.0), "c"),
    Night("it was accepted", 1.12, (1.12, 1.12), "c", ACCEPT),
    Night("nothing", 1.12, (1.12, 1.12), "c"),
    Night("a new export, and a burst", 1.46, (1.46, 1.46), "d"),
    Night("nothing", 1.12, (1.12, 1.12), "d"),
    Night("a new export, three times as slow", 3.4, (3.4, 1.12), "e"),
    Night("taken back", 1.12, (1.12, 1.12), "d"),
    Night("firmware that is 8 % slower for this model", 1.21, (1.21, 1.21), "d"),
    Night("the same firmware", 1.21, (1.21, 1.21), "d"),
    Night("the firmware is mended", 1.12, (1.12, 1.12), "d"),
    Night("a new export, 12 % quicker", 1.0, (1.0, 1.12), "f"),
)


class Desk:
    """A board of chosen times, its history and the runs of all nights."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._factors = folder / "factors"
        library = folder / "chosen_times.so"
        source = ROOT / "tests/contract/chosen_times.c"
        compiler = ["cc", "-shared", "-fPIC", "-O2", source, "-o", library, "-ldl"]
        subprocess.run(compiler, check=True)
        self._environment = {
            **os.environ,
            "LD_PRELOAD": str(library),
            "CHOSEN_TIMES": str(self._factors),
            "ETHARNESS_BASELINE_DIR": str(folder / "cache"),
        }
        text = (ROOT / "boards/native.toml").read_text(encoding="utf-8")
        text = text.replace("tolerance_ppm = 0", "tolerance_ppm = 999_999")
        text = text.replace('budget = "budgets/default.toml"\n', "")
        (folder / "native.toml").write_text(text, encoding="utf-8")

    def live(self, number: int, night: Night) -> tuple[int, str]:
        """Return the exit code and the screen of a night."""
        model = self._folder / night.model / "net.pte"
        model.parent.mkdir(exist_ok=True)
        model.write_bytes(MODEL.read_bytes() + bytes(16 * (ord(night.model) - ord("a"))))
        tonight, baseline = night.later
        pairs = [(baseline, tonight), (tonight, baseline)] * 3
        # Without pairs, all runs are of tonight's model.
        other = len({tonight, baseline}) > 1
        factors = [night.first, *(factor for pair in pairs for factor in pair)]
        if not other:
            factors = [night.first, *[tonight] * (RUNS - 1)]
        started = Path(f"{self._factors}.started")
        seen = started.stat().st_size if started.exists() else 0
        self._factors.write_text("\n".join(map(str, [*[1.0] * seen, *factors])), encoding="utf-8")
        return self.type(
            *("run", "--board", str(self._folder / "native.toml"), "--model", str(model)),
            *("--history", self._history, "--baseline", "last:20", "--commit", f"{number:04}" * 3),
            *("-o", str(self._folder / f"night{number}")),
        )

    @property
    def _history(self) -> str:
        return str(self._folder / "history.sqlite")

    def decide(self, words: Sequence[str], series: str) -> str:
        """Type a command about a series, and return its screen."""
        found = [word.replace("{series}", series) for word in words]
        return self.type(*found, "--history", self._history)[1]

    def type(self, *words: str) -> tuple[int, str]:
        """Return the exit code and the screen of a command."""
        done = subprocess.run(
            [sys.executable, "-m", "harness", *words],
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
            cwd=self._folder,
        )
        return done.returncode, done.stdout + done.stderr


def live(screens: bool) -> Iterator[str]:
    """Yield the lines of a table of the month."""
    yield "| night | what happened | exit code | what the screen said |"
    yield "|---|---|---|---|"
    with tempfile.TemporaryDirectory() as folder:
        desk, series = Desk(Path(folder)), ""
        for number, night in enumerate(STORY, 1):
            if night.typed:
                said = desk.decide(night.typed, series)
                if screens:
                    print(said)
            code, screen = desk.live(number, night)
            if screens:
                print(f"--- night {number}: {night.what}\n{screen}", flush=True)
            said = "; ".join(_telling(screen))
            slower = [line for line in screen.splitlines() if line.startswith("failed: H01 ")]
            if slower:
                series = slower[0].removeprefix("failed: H01 ").partition(":")[0]
            yield f"| {number} | {night.what} | {code} | {said} |"


def _telling(screen: str) -> list[str]:
    """Return the lines of a screen that tell of its verdict, the verdict first."""
    lines = screen.splitlines()
    told = [line for line in lines if line.startswith(("PASS", "FAIL"))]
    told += [line for line in lines if line.startswith(("failed: ", "measured again"))]
    told += [line for line in lines if "results so far" in line and not line.startswith("failed")]
    return [line.replace("|", "/").strip() for line in told]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--screens", action="store_true", help="print every screen")
    options = parser.parse_args()
    lines = [*live(options.screens)]
    if options.screens:
        print("\n".join(lines))
    else:
        write_section("benchmarks/month.py", lines)


if __name__ == "__main__":
    main()
