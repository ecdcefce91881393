"""Bytes to traces and back: device logs, ED00 files, console captures; programs and ETRecords."""
