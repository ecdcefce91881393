"""Which port of a place is its board's, by what its exporter says of them."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from harness import PortError, UsageError, UsbPort
from harness.extensions.lab.labgrid import Resource, port_at, read_resources

SHOWN = """\
Place 'board-1':
  tags: board=native
  matches:
    rack/board-1/*
  acquired: bench/me
  acquired resources:
    rack/board-1/NetworkSerialPort/RawSerialPort
  created: 2026-11-22 00:58:02.365007
  changed: 2026-11-22 00:58:07.465736
Acquired resource 'RawSerialPort' (rack/board-1/NetworkSerialPort/RawSerialPort):
  {'acquired': 'board-1',
   'avail': True,
   'cls': 'NetworkSerialPort',
   'params': {'extra': {'path': '/dev/pts/0',
                        'proxy': 'localhost',
                        'proxy_required': False},
              'host': 'bench-2',
              'port': 58321,
              'speed': 115200}}
Matching resource 'socket' (rack/board-1/NetworkPowerPort/socket):
  {'acquired': None,
   'avail': False,
   'cls': 'NetworkPowerPort',
   'params': {'extra': {}, 'host': 'plug', 'index': 1, 'model': 'rest'}}
"""


def serial(name: str = "console", *, available: bool = True, **params: Any) -> Resource:
    extra = {key: params.pop(key) for key in ("path", "proxy", "proxy_required") if key in params}
    params = {"host": "bench-2", "port": 4001} | params
    return Resource(name, "NetworkSerialPort", params, extra, "one", available)


def test_what_is_shown_is_read() -> None:
    first, second = read_resources(SHOWN)
    assert (first.name, first.kind, first.available) == ("RawSerialPort", "NetworkSerialPort", True)
    assert first.params == {"host": "bench-2", "port": 58321, "speed": 115200}
    assert first.extra["path"] == "/dev/pts/0"
    assert (second.acquired, second.available) == ("", False)


def test_the_protocol_is_the_one_that_labgrid_tells_ser2net() -> None:
    assert port_at([serial()], "one", None) == "rfc2217://bench-2:4001"
    assert port_at([serial(protocol="raw")], "one", None) == "socket://bench-2:4001"


def test_of_several_ports_the_unit_names_one() -> None:
    both = [serial("console", protocol="raw"), serial("trace", port=4002)]
    assert port_at(both, "one", "trace") == "rfc2217://bench-2:4002"
    with pytest.raises(UsageError, match=r"several serial ports: console .*, trace"):
        port_at(both, "one", None)
    with pytest.raises(PortError, match="no serial port called 'swo'; it has console"):
        port_at(both, "one", "swo")
    assert port_at(both, "one", "socket://other:1") == "socket://other:1"


def test_ports_that_cannot_be_used() -> None:
    with pytest.raises(PortError, match="no serial port; it has nothing"):
        port_at([], "one", None)
    with pytest.raises(PortError, match="as unavailable"):
        port_at([serial(available=False)], "one", None)
    with pytest.raises(PortError, match="as unavailable"):
        port_at([serial(port=None)], "one", None)
    with pytest.raises(UsageError, match="only reachable through gate by ssh"):
        port_at([serial(proxy="gate", proxy_required=True)], "one", None)
    with pytest.raises(UsageError, match="labgrid finds the serial port"):
        port_at([serial()], "one", UsbPort(1, 2))


def test_a_ser2net_that_has_ended_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.extensions.lab.labgrid._START_S", 0.2)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        item = serial(host="127.0.0.1", port=port, path="/dev/ttyACM0")
        with pytest.raises(
            PortError, match=f"nothing listens .* 127.0.0.1:{port}, although"
        ) as said:
            port_at([item], "one", None)
        assert "ser2net" in said.value.hint
        closed.listen()
        assert port_at([item], "one", None) == f"rfc2217://127.0.0.1:{port}"
