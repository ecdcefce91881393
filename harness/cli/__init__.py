"""The command ``etharness``: one file per subcommand, loaded when it is called."""

from __future__ import annotations

import errno
import gc
import signal
import sys

import click

from harness import __version__
from harness.cli.common import report_failure
from harness.cli.lazy import lazy_group
from harness.errors import HarnessError, HostError

COMMANDS = {
    "boards": "List the boards that can be named with --board.",
    "budget": "Show a budget's rules for a board and model, and where each is from.",
    "build": "Build the firmware of a board.",
    "check": "Check a run or an ETDump: what always holds, a budget, and earlier results.",
    "compare": "Compare two traces operator by operator.",
    "decode": "Print what an ETDump, a console capture, a log or a run directory holds.",
    "doctor": "Say what this machine can do and what it lacks.",
    "explain": "Say what checks mean, by the codes that a verdict gives.",
    "export": "Write a trace in another tool's format.",
    "flash": "Bring firmware onto a board, and see that the board runs it.",
    "health": "Ask units how they are: their port, firmware, clock, crashes and line.",
    "history": "Keep results, and see how they changed.",
    "lease": "Hold units for some time, with no process behind it.",
    "nightly": "Run models on all boards of a shelf, by a plan.",
    "ports": "List the serial ports of this host, whose they are and who holds them.",
    "postmortem": "Say what a board was doing when it crashed.",
    "power": "Switch the power of a unit on or off.",
    "pull": "Read the last trace from a board that is already running.",
    "release": "Let go what was leased.",
    "replay": "Judge again what is in a bundle, and compare with what was said then.",
    "report": "Judge runs again and write one report of them.",
    "run": "Run a model on a board, pull its trace and check it.",
    "units": "List the units of the lab: where each is, and who holds it.",
    "who": "Say who holds which boards, since when, and why.",
}
"""Subcommands and their one-line help, here so that --help imports none of them."""


_OF_THIS_HOST = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.ENOMEM, errno.EMFILE)
"""What the system says when the host lacks something; all else it says is a defect of ours."""


@click.group(
    cls=lazy_group("harness.cli", COMMANDS),
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="etharness")
def cli() -> None:
    """Run ExecuTorch models on microcontrollers and simulators under an event tracer.

    Exit codes: 0 pass; 1 a check failed; 2 usage or configuration; 3 results not comparable;
    4 the target misbehaved; 75 infrastructure, safe to retry; 130 interrupted.
    """


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    # Operators and events by the hundred thousand make no cycles, and looking for some takes long.
    gc.set_threshold(1_000_000, 50, 50)
    # A killed job must still stop the simulators it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        code = cli.main(arguments, standalone_mode=False)
    except (click.exceptions.Abort, KeyboardInterrupt):
        code = 130
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except HarnessError as error:
        report_failure(error)
        code = error.exit_code
    except (OSError, MemoryError) as error:
        if isinstance(error, OSError) and error.errno not in _OF_THIS_HOST:
            raise
        failure = HostError.of(error, "this host cannot go on")
        report_failure(failure)
        code = failure.exit_code
    sys.exit(code or 0)
