"""ED00 files, ExecuTorch's ETDump format (``schema/etdump.fbs``): reading and writing a Trace."""

from harness.decode.ed00_reader import read_ed00
from harness.decode.ed00_writer import LeftOut, left_out, write_ed00

__all__ = ["LeftOut", "left_out", "read_ed00", "write_ed00"]
