"""Serve a rack until it is told to stop; prints ``ready`` once every unit can be reached."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from tests.support.rack.faults import Fault, draw
from tests.support.rack.serve import Serving, names


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.support.rack", description=__doc__)
    parser.add_argument("directory", type=Path, help="where its files go")
    parser.add_argument("--units", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--fault", action="append", default=[], type=Fault.parse, metavar="UNIT:SESSION:KIND"
    )
    parser.add_argument(
        "--draw", type=int, metavar="SESSIONS", help="draw faults for so many sessions per unit"
    )
    parser.add_argument(
        "--patience", type=float, default=1.0, help="by how much deadlines are longer than usual"
    )
    given = parser.parse_args()
    faults = given.fault
    if given.draw:
        faults += draw(given.seed, names(given.units), given.draw)
        print(*faults, sep="\n", flush=True)

    async def serve() -> None:
        await Serving(given.directory, given.units, given.seed, faults, given.patience).run()

    asyncio.run(serve())


if __name__ == "__main__":
    main()
