"""A simulator for tests: runs the native firmware, and offers its link in another way.

python relay.py connect|listen ADDRESS IMAGE; python relay.py pty PATH IMAGE
"""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
from pathlib import Path


def main(way: str, place: str, image: str) -> None:
    """Relay bytes until one of both ends."""
    firmware = subprocess.Popen([image], stdout=subprocess.PIPE, text=True)
    assert firmware.stdout is not None
    terminal = firmware.stdout.readline().partition("link: ")[2].strip()
    if way == "pty":
        Path(place).symlink_to(terminal)
        firmware.wait()
        return
    host, port = place.split(":")
    if way == "connect":
        line = socket.create_connection((host, int(port)))
    else:
        with socket.create_server((host, int(port))) as server:
            line = server.accept()[0]
    uart = os.open(terminal, os.O_RDWR | os.O_NOCTTY)
    while True:
        for ready in select.select([line.fileno(), uart], [], [])[0]:
            if ready == line.fileno():
                received = line.recv(4096)
                if not received:
                    firmware.terminate()
                    return
                os.write(uart, received)
            else:
                line.sendall(os.read(uart, 4096))


if __name__ == "__main__":
    main(*sys.argv[1:])
