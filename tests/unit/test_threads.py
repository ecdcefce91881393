"""What several threads of a nightly run do at the same time, at first."""

from __future__ import annotations

import subprocess
import sys

PROCESSES = 4
"""Without a cure about every third of them crashed."""
PROGRAM = """
import sys, threading
from harness.config.unit import Unit
from harness import HarnessError
from harness.extensions.lab.holding import hold
from harness.records.result import decode

sys.setswitchinterval(1e-6)
together = threading.Barrier(8)

def work(name):
    together.wait()
    try:
        with hold(Unit(name, "native"), timeout_s=60):
            decode(b'{"id": "a", "files": {}, "clocks": [], "failure": null}', "here")
    except HarnessError:
        pass

threads = [threading.Thread(target=work, args=(f"unit-{number % 4}",)) for number in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("well")
"""


def test_threads_may_read_the_first_records_at_the_same_time(tmp_path, monkeypatch) -> None:
    """Not types that msgspec does not know yet: it would end the process (SIGSEGV)."""
    monkeypatch.setenv("ETHARNESS_LOCK_DIR", str(tmp_path / "locks"))
    running = [
        subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE)
        for _ in range(PROCESSES)
    ]
    assert [process.communicate()[0] for process in running] == [b"well\n"] * PROCESSES
    assert [process.returncode for process in running] == [0] * PROCESSES
