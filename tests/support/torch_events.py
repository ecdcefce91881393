"""Walks over the event tree of the PyTorch profiler: the reference for trees and tensor ids."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def walk(events: list[Any]) -> Iterator[Any]:
    """Every event of a tree, in the order in which their starts stand in it."""
    for event in events:
        yield event
        yield from walk(event.children)


def in_order_of_ends(events: list[Any]) -> Iterator[Any]:
    """Every event of a tree as ExecuTorch would log it."""
    for event in events:
        yield from in_order_of_ends(event.children)
        yield event
