"""Nightly runs: models on all boards of a rack, resumable through a journal.

``plan`` reads the plan file, ``units`` resolves its boards. ``orchestrator`` opens the journal and
runs a ``worker`` per unit; a worker acts through ``effects``, which ``commands`` implements with
child processes. ``classify`` attributes a failed attempt to an owner, ``journal`` records it, and
``progress`` derives the remaining steps from the journal. ``finish`` adds the results to the
history, compares the arms (``arms``), applies the ``quarantine`` and writes the ``summary``.
"""
