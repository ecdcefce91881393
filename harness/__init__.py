"""Run ExecuTorch models on small targets, pull their ETDump, decode and check it.

    run(model, board=...)  run a model on a board: a ``Run``
    load(path)             the same from a run directory, a trace file or a bundle
    Run                    trace, result, operators, memory, verdict, reports and exports
    Board, Budget          board and budget files
    Trace, Verdict         what was logged; what the checks found
    HarnessError           every error that this package raises on purpose; its classes
    ChecksFailedError      raised by ``Run.raise_for_verdict``
    read_log, read_ed00    traces of bytes; ``evaluate``, ``durations`` and others take them
    Session                the link to a board, request by request

Importing ``harness`` imports nothing else; each name is loaded when it is first used.
``__init__.pyi`` lists all names and where they are declared. Modules may change in any version,
except ``harness.inspector``, ``harness.strategies`` and ``harness.testing``, whose ``__all__`` is
public as well.

Examples:
    >>> import harness
    >>> run = harness.run("kws_int8", board="native", runs=5)
    >>> run.raise_for_verdict().operator("Method::execute").count
    5
"""

import functools as _functools
import typing as _typing

__version__ = "0.1.0"


@_functools.cache
def _modules() -> dict[str, str]:
    """Return the module of each public name, sorted by name, as the stub declares them."""
    import re

    # The loader reads it from an archive, too.
    stub = _typing.cast(_typing.Any, __loader__).get_data(f"{__file__}i").decode()
    return {
        name: module
        for module, name in sorted(
            re.findall(r"^from (\S+) import (\w+) as \2$", stub, re.M), key=lambda pair: pair[1]
        )
    }


def __getattr__(name: str) -> _typing.Any:
    modules = _modules()
    if name == "__all__":
        value: object = list(modules)
    elif name in modules:
        import importlib

        value = getattr(importlib.import_module(modules[name]), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(_modules())
