"""gdb at a simulated board: stops it in a function, breaks it, and says what it saw."""

from __future__ import annotations

import re
import subprocess
import threading
import time
from pathlib import Path

import harness
from harness import build_firmware

_DEADLINE_S = 600.0


class Debugger:
    """Breaks a board that is started from `board_file`, which waits for it before it boots.

    Attributes:
        board_file: The board, with a debugger's socket.
    """

    def __init__(
        self,
        board: str,
        directory: Path,
        function: str,
        *,
        stops: int,
        then: str,
        image: Path | None = None,
    ) -> None:
        """At the given stop in ``function``, do ``then`` (gdb commands) and let go.

        ``image`` is what runs, unless it is the board's firmware without a model.
        """
        description = harness.Board.load(board)
        path = description.file
        self._socket = directory / "gdb"
        self.board_file = directory / f"{board}.toml"
        gdb = f'"-S", "-gdb", "unix:path={self._socket},server=on,wait=off"'
        text = path.read_text().replace('"shift=0"', f'"shift=0", {gdb}')
        lines = [line for line in text.splitlines() if not line.startswith("budget")]
        self.board_file.write_text("\n".join(lines))
        commands = [
            *("set pagination off", "set confirm off", f"target remote {self._socket}"),
            *(f"break {function}", *["continue"] * stops),
            *("info registers", "info line *$pc", then, "delete", "detach"),
        ]
        script = directory / "commands"
        script.write_text("\n".join(commands) + "\n")
        image = image or build_firmware(description).image
        self._command = ["gdb-multiarch", "-batch", "-x", str(script), str(image)]
        self._output = ""
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        deadline = time.monotonic() + _DEADLINE_S
        while not self._socket.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        done = subprocess.run(
            self._command, capture_output=True, text=True, timeout=_DEADLINE_S, check=False
        )
        self._output = done.stdout + done.stderr

    def registers(self) -> dict[str, int]:
        """What gdb saw at its last stop, when it has let go."""
        self._thread.join(_DEADLINE_S)
        found = re.findall(r"^(\w+) +0x([0-9a-f]+)\b", self._output, re.MULTILINE)
        assert found, self._output
        return {name: int(value, 16) for name, value in found}
