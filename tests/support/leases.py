"""Other processes that hold boards, for tests."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from harness.extensions.lab.holding import hold_keys, open_registry
from harness.target.selection import port_key

FREE = "nobody"

_HOLD = (
    "import os, subprocess, sys\n"
    "from harness.extensions.lab.holding import hold_keys\n"
    "from harness.target.selection import port_key\n"
    "port, *further = sys.argv[1:]\n"
    "with hold_keys([port_key(port)], float(os.environ.get('WAIT', '5')), reason='a test'):\n"
    "    print('held', flush=True)\n"
    "    if further:  # what this process starts holds it, too\n"
    "        sys.exit(subprocess.call([sys.executable, '-c', HOLD, *further]))\n"
    "    sys.stdin.read()\n"
)
HOLD = f"HOLD = {_HOLD!r}\nexec(HOLD)"


@contextmanager
def another_process(*ports: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """A process that holds a port until its standard input ends, as do its child and so on."""
    program = f"HOLD = {HOLD!r}\n{_HOLD}"
    with subprocess.Popen(
        [sys.executable, "-c", program, *ports],
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **environment},
    ) as process:
        assert process.stdout is not None
        for _ in ports:
            assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


def holder(port: str) -> str:
    """Who holds a port, in words."""
    holders = open_registry().holders(port_key(port))
    return ", lent to ".join(holder.text for holder in holders) or FREE


def hold_port(port: str, timeout_s: float):  # type: ignore[no-untyped-def]
    """Hold a port in this process."""
    return hold_keys([port_key(port)], timeout_s)
