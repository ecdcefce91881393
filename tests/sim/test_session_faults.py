"""Sessions with the firmware over a line that damages bytes, by fixed seeds."""

from __future__ import annotations

import numpy as np
import pytest

from harness import InfrastructureError, Region, open_port
from harness.testing import ReopeningTransport, Transport
from harness.testing.fault_filter import FaultFilter, Faults
from tests.conftest import FIXTURES
from tests.support.boards import KWS, Bench, started

pytestmark = pytest.mark.sim

RUNS = 60
DEADLINE_S = 2.0
LOSSY_S = 0.5
"""Where answers are lost, each costs this; a busy host may take as long for one."""


@pytest.fixture(scope="module")
def vector() -> tuple[bytes, bytes]:
    """An input and the output that ExecuTorch computes for it."""
    with np.load(FIXTURES / "kws_int8.npz") as arrays:
        return arrays["inputs"][3].tobytes(), arrays["outputs"][3].tobytes()


def session_over(
    bench: Bench, proxy: FaultFilter, data: bytes, *, deadline_s: float = DEADLINE_S
) -> tuple[bytes, bytes, dict[str, int]]:
    """A whole session: output, trace and the link's figures."""
    session = bench.new_session(proxy, deadline_s=deadline_s)
    session.hello(5)
    session.load_model(KWS.read_bytes())
    session.set_input(0, data)
    session.run(RUNS, timeout_s=2)
    output, trace = session.read(Region.OUTPUT), session.read(Region.TRACE)
    return output, trace, session.statistics.as_dict()


def mixed(seed: int, rate: float) -> Faults:
    share = rate / 5
    return Faults(seed, flip=share, drop=share, duplicate=share, insert=share, delay=share)


@pytest.mark.parametrize("seed", range(8))
def test_a_bad_line_brings_everything_over_byte_for_byte(
    seed: int, vector: tuple[bytes, bytes]
) -> None:
    with started("native") as bench:
        proxy = FaultFilter(bench.target.transport, mixed(seed, 5e-5))
        output, trace, figures = session_over(bench, proxy, vector[0], deadline_s=LOSSY_S)
        assert output == vector[1]
        # The board still has the trace: read again, on a line that has healed.
        proxy.faults = Faults(seed)
        again = bench.new_session()
        again.hello(5)
        assert trace == again.read(Region.TRACE)
    lost = ("corrupt", "retries", "resent", "damage_notes", "holes", "skipped", "text")
    noticed = sum(count for name, count in figures.items() if name.startswith(lost))
    assert noticed or not proxy.done, f"{proxy.done} faults left no mark: {figures}"


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.long
def test_a_hopeless_line_is_blamed_and_the_board_survives_it(
    seed: int, vector: tuple[bytes, bytes]
) -> None:
    with started("native") as bench:
        proxy = FaultFilter(bench.target.transport, Faults(seed, flip=3e-3, drop=3e-3))
        with pytest.raises(InfrastructureError) as caught:
            session_over(bench, proxy, vector[0], deadline_s=0.1)
        assert caught.value.exit_code == 75
        healed = FaultFilter(bench.target.transport, Faults(seed))
        assert session_over(bench, healed, vector[0])[0] == vector[1]


@pytest.mark.attack(
    "Link and servers",
    "a stream that is cut during a run",
    "exit code 75; the next session works",
)
@pytest.mark.parametrize("after", [0, 30, 3_000, 40_000, 60_000, 75_000])
def test_a_line_that_is_cut_is_blamed_and_can_be_mended(
    after: int, vector: tuple[bytes, bytes]
) -> None:
    with started("native") as bench:
        proxy = FaultFilter(bench.target.transport, Faults(0, cut_after=after))
        with pytest.raises(InfrastructureError, match="was cut after") as caught:
            session_over(bench, proxy, vector[0])
        assert caught.value.exit_code == 75
        mended = FaultFilter(bench.target.transport, Faults(0))
        assert session_over(bench, mended, vector[0])[0] == vector[1]


@pytest.mark.attack(
    "Link and servers",
    "a USB port that disappears and comes back",
    "the run continues; the gap is counted",
)
@pytest.mark.parametrize("after", [0, 30_000, 60_000, 75_000, 100_000])
def test_a_port_that_vanishes_and_comes_back_is_no_failure(
    after: int, vector: tuple[bytes, bytes]
) -> None:
    """The pseudo-terminal is really closed and opened again by its path."""
    with started("native") as bench:
        path = bench.target.description.rpartition(" on ")[2]
        bench.target.transport.close()
        limits = [after]

        def reopened() -> Transport:
            limit = limits.pop() if limits else None
            return FaultFilter(open_port(path, 115_200), Faults(0, cut_after=limit))

        line = ReopeningTransport(reopened, 5)
        session = bench.new_session(line, deadline_s=1)
        session.hello(5)
        session.load_model(KWS.read_bytes())
        session.set_input(0, vector[0])
        session.run(RUNS, timeout_s=5)
        assert session.read(Region.OUTPUT) == vector[1]
        assert session.read(Region.TRACE) == session.read(Region.TRACE)
        assert line.reopened == 1
        line.close()
