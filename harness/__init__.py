"""Run ExecuTorch models on small targets, pull their ETDump, decode and check it.

    run(model, board=...)  run a model on a board: a ``Run``
    load(path)             the same from a run directory, a trace file or a bundle
    Run                    trace, result, operators, memory, verdict, reports and exports
    Board, Budget          board and budget files
    Trace, Verdict         what was logged; what the checks found
    HarnessError           every error that this package raises on purpose
    ChecksFailedError      raised by ``Run.raise_for_verdict``

Importing ``harness`` imports nothing else; each name is loaded when it is first used. Modules that
are not listed here may change in any version, except ``harness.inspector``, ``harness.strategies``
and ``harness.testing``, whose ``__all__`` is public as well.

Examples:
    >>> import harness
    >>> run = harness.run("kws_int8", board="native", runs=5)
    >>> run.raise_for_verdict().operator("Method::execute").count
    5
"""

import typing as _typing

if _typing.TYPE_CHECKING:
    from harness.api import Run, load, run
    from harness.check.budget import Budget
    from harness.config.board import Board
    from harness.errors import ChecksFailedError, HarnessError
    from harness.records.trace import Trace
    from harness.records.verdict import Verdict

__version__ = "0.1.0"

__all__ = [
    "Board",
    "Budget",
    "ChecksFailedError",
    "HarnessError",
    "Run",
    "Trace",
    "Verdict",
    "load",
    "run",
]

_MODULES = {
    "Board": "harness.config.board",
    "Budget": "harness.check.budget",
    "ChecksFailedError": "harness.errors",
    "HarnessError": "harness.errors",
    "Run": "harness.api",
    "Trace": "harness.records.trace",
    "Verdict": "harness.records.verdict",
    "load": "harness.api",
    "run": "harness.api",
}


def __getattr__(name: str) -> _typing.Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
