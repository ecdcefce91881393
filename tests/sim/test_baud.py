"""Every simulated board changes the rate of its UART, and goes on talking."""

from __future__ import annotations

import pytest

from harness.link.wire import Region
from tests.conftest import MODELS
from tests.support.boards import INT8_MODELS_THAT_FIT, started

pytestmark = pytest.mark.sim


@pytest.mark.parametrize("board", ["native", "qemu-mps2-an385", *INT8_MODELS_THAT_FIT])
def test_a_board_talks_at_every_rate_it_lists(board: str) -> None:
    with started(board) as bench:
        session = bench.session
        assert session.target is not None
        first, *faster = session.target.bauds
        assert first == bench.target.transport.baud == 115_200
        model = (MODELS / "small_int8.pte").read_bytes()
        for baud in [*faster, first]:
            assert session.raise_baud([baud]) == baud
            info = session.load_model(model)
            session.set_input(0, bytes(info.inputs[0].nbytes))
            session.run(1, timeout_s=10)
            assert session.read(Region.TRACE)
        assert session.statistics.loss == 0
        assert session.statistics.rate_fallbacks == 0
