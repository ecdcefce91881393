"""Leases: which process or person may use a board at the moment.

`registry` decides by kernel locks (`flock`) and lease records beside them (`records`); `lock_keys`
maps unit, port and probe names to one key per resource; `holding` is the API for programs.

Not ``filelock`` 4.2: its kernel locks carry no record of the holder, its leases and soft locks are
marker files that outlive a killed process, and neither can be lent to child processes or tested
without being acquired.
"""
