"""A desk whose native board takes chosen times, with a history of quiet nights."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
BOARD = HERE.parents[1] / "boards" / "native.toml"
MODELS = HERE.parents[1] / "firmware_stub" / "models"
Command = Callable[..., Any]


def build_chosen_times(folder: Path) -> Path:
    """Compile a library that replaces the clock of the native firmware by times of our choice."""
    library = folder / f"chosen_times.{os.getpid()}.so"
    compiler = ["cc", "-shared", "-fPIC", "-O2", "-Wall", "-Werror"]
    subprocess.run([*compiler, HERE / "chosen_times.c", "-o", library, "-ldl"], check=True)
    return library


class Desk:
    """A board whose runs take chosen times, and a history of twelve quiet nights of it."""

    def __init__(self, folder: Path, etharness: Command) -> None:
        self.folder, self._etharness = folder, etharness
        self._factors = folder / "factors"
        self._started = folder / "factors.started"
        self.board = folder / "native.toml"
        self.target: tuple[str | Path, ...] = ()
        text = BOARD.read_text().replace("tolerance_ppm = 0", "tolerance_ppm = 999_999")
        assert "999_999" in text
        self.board.write_text(text.replace('budget = "budgets/default.toml"\n', ""))

    def choose(self, factors: Sequence[float]) -> None:
        """Choose how many times as long as usual one operator takes in each start from now on."""
        seen = self._started.stat().st_size if self._started.exists() else 0
        self._factors.write_text("\n".join(map(str, [*[1.0] * seen, *factors])))

    def live_quiet_nights(self) -> None:
        """Make the baseline."""
        for night in "abcdefghijkl":
            ended = self.run(night, [1.0])
            assert ended.code == 0, ended.out + ended.err

    def run(
        self,
        name: str,
        factors: Sequence[float],
        *options: str | Path,
        model: str | Path = "kws_int8",
    ) -> Any:
        """Run the model with these times."""
        self.choose(factors)
        return self._etharness(
            *("run", "--board", self.board, "--model", model, *self.target),
            *("--history", self.folder / "h.sqlite", "--baseline", "last:20"),
            *("--commit", name * 8, "-o", self.folder / name, *options),
        )

    def verdict(self, name: str) -> dict[str, Any]:
        """Return the verdict that a result records."""
        return dict(json.loads((self.folder / name / "result.json").read_text())["verdict"])


def checks(verdict: dict[str, Any], code: str) -> list[dict[str, Any]]:
    return [check for check in verdict["checks"] if check["code"] == code]


def in_turns(first: float, *pairs: tuple[float, float]) -> list[float]:
    """Return factors of the first run, then of pairs (the baseline's model, the tested one)."""
    factors = [first]
    for number, (baseline, tested) in enumerate(pairs):
        factors += [tested, baseline] if number % 2 else [baseline, tested]
    return factors
