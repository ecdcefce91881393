"""Leases of units that others hold, and those that nobody should hold any more.

python -m tests.support.rack.leases hold UNITS_FILE UNIT...    # until its input ends
python -m tests.support.rack.leases held UNITS_FILE UNIT...    # which of them are
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from harness import BusyError, find_unit
from harness.extensions.lab.holding import hold
from tests.support.rack.night import RackNight


@contextmanager
def taken(night: RackNight, units: Sequence[str]) -> Iterator[None]:
    """Have another process hold units of a night's rack."""
    if not units:
        yield
        return
    with _started(night, "hold", units) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        yield
        holder.communicate()


def leases_left(night: RackNight, units: Sequence[str]) -> list[str]:
    """Units of a rack that somebody holds."""
    with _started(night, "held", units) as asked:
        said, _ = asked.communicate()
    assert not asked.returncode
    return said.split()


def _started(night: RackNight, what: str, units: Sequence[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", __name__, what, str(night.rack.units_file), *units],
        env=night.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def main() -> None:
    what, file, *names = sys.argv[1:]
    units = [find_unit(name, Path(file)) for name in names]
    with ExitStack() as stack:
        for unit in units:
            try:
                stack.enter_context(hold(unit, reason="a test", timeout_s=0))
            except BusyError:
                if what == "hold":
                    raise
                print(unit.id)
        if what == "hold":
            print("held", flush=True)
            sys.stdin.read()


if __name__ == "__main__":
    main()
