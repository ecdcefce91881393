"""Asks a rack for something by its socket: what a power switch or a flash tool does in a lab.

    python control.py SOCKET WORD...

A program of its own that imports next to nothing, since a night calls it often.
"""

import json
import socket
import sys
from typing import Any

DEADLINE_S = 20.0


def ask(path: str, *words: str) -> Any:
    """Send words, return the answer; an answer that is an error ends the program."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(DEADLINE_S)
        connection.connect(path)
        connection.sendall(json.dumps(words).encode() + b"\n")
        with connection.makefile("rb") as answer:
            said = json.loads(answer.readline())
    if "error" in said:
        sys.exit(f"the rack: {said['error']}")
    return said["answer"]


if __name__ == "__main__":
    print(json.dumps(ask(*sys.argv[1:])))
