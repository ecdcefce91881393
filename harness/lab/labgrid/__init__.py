"""Boards of several hosts, managed by a labgrid coordinator (docs/labgrid.md).

labgrid runs from an environment of its own: its client program is called, its library never
imported.
"""
