"""Leases: who may talk to a board at the moment.

`book` decides it, by locks of the kernel (`flock`) and notes beside them (`notes`); `places` says
which names mean the same board; `hold` is what programs use.
"""
