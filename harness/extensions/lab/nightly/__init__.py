"""Nightly runs: models on all boards of a rack, resumable through a journal.

``plan`` reads the plan file and resolves its boards. ``night`` opens the journal and runs a
``worker`` per unit, which acts through child processes (``commands``). ``journal`` records each
attempt, and shows which steps remain. At the end, ``verdict`` finds the owner of each failure,
applies the quarantine and compares the arms; ``night`` stores the results and writes the reports.
``live`` shows the progress.
"""
