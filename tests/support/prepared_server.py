"""What the tests of the C server run: two inputs through relu; a server ready for that."""

from __future__ import annotations

import struct
from hashlib import sha256

from harness import Region
from harness.testing import Status
from tests.support.c_server import CServer
from tests.support.tiny_model import relu_model

SIZES = [4, 3]
MODEL = relu_model(SIZES)
INPUTS = [struct.pack("<4f", -1, 2, -3, 4), struct.pack("<3f", 5, -6, 7)]
OUTPUTS = [struct.pack("<4f", 0, 2, 0, 4), struct.pack("<3f", 5, 0, 7)]


def prepare(server: CServer, model: bytes = MODEL, inputs: list[bytes] | None = None) -> None:
    assert server.upload(Region.MODEL, 0, model)[0] == Status.OK
    for index, data in enumerate(INPUTS if inputs is None else inputs):
        assert server.upload(Region.INPUT, index, data) == b"\0"


def digest_of(data: bytes) -> bytes:
    return sha256(data).digest()
