"""Boards of several hosts, which a labgrid coordinator hands out (docs/labgrid.md).

labgrid is another project's program with an environment of its own: it is only ever called, never
imported.
"""
